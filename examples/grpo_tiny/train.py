#!/usr/bin/env python3
"""Teaches a small Qwen3, from random weights, to answer with GRPO.

train.py [--mode local] [--task copy|reverse|sort] [--steps N] [--seed N] [--log FILE] [--plot FILE]

--mode local samples in this process. Prints a line a step, writes it to a CSV file, and draws the
rewards as an SVG.
"""

import argparse
import csv
import pathlib
import sys
import time

import torch

import grpo
import local
import plot
import policy
import task

FIELDS = ("step", "seconds", "reward", "solved", "entropy", "gradient_norm", "ratio_max", "changed")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mode", choices=("local",), default="local")
    parser.add_argument("--task", choices=sorted(task.RIGHT), default="sort")
    parser.add_argument("--digits", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--questions", type=int, default=32, help="a step")
    parser.add_argument("--group", type=int, default=16, help="samples of a question")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--entropy", type=float, default=0.0, help="weight of the entropy bonus")
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("grpo_tiny.csv"))
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("grpo_tiny.svg"))
    return parser.parse_args()


class LocalRun:
    """Model, optimizer, questions and sampler of one seed."""

    def __init__(self, options):
        self.options = options
        self.model = policy.new(options.seed, hidden=options.hidden, layers=options.layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.learning_rate,
                                           betas=(0.9, 0.95), weight_decay=0.0)
        self.serving = policy.serving_copy(self.model)
        self.questions = task.Task(options.task, options.digits, options.seed)
        self.generator = torch.Generator().manual_seed(options.seed)

    def step(self, version):
        options = self.options
        asked = [self.questions.question() for _ in range(options.questions)]
        groups = local.answers(self.serving, asked, options.group, self.questions.answer_length,
                               version, self.generator)
        facts = grpo.step(self.model, self.optimizer, groups, options.entropy)
        return {**facts, "changed": self.publish()}

    def publish(self):
        """Brings the sampler to the new view; the fraction of its elements that changed bits."""
        before = {name: value.view(torch.int16).clone()
                  for name, value in self.serving.named_parameters()}
        policy.refresh(self.serving, self.model)
        changed = sum((before[name] != value.view(torch.int16)).sum().item()
                      for name, value in self.serving.named_parameters())
        return changed / sum(value.numel() for value in before.values())


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    run, began, rewards = LocalRun(options), time.monotonic(), []
    parameters = sum(value.numel() for value in run.model.parameters())
    print(f"{options.task} of {options.digits} digits, {parameters / 1e6:.1f} M parameters",
          file=sys.stderr)
    with open(options.log, "w", newline="", encoding="utf-8") as file:
        log = csv.DictWriter(file, FIELDS)
        log.writeheader()
        for number in range(1, options.steps + 1):
            facts = {"step": number, **run.step(number), "seconds": time.monotonic() - began}
            facts = {key: f"{value:.5g}" for key, value in facts.items()}
            log.writerow(facts)
            file.flush()
            rewards.append((number, float(facts["reward"]), float(facts["solved"])))
            print("  ".join(f"{key} {facts[key]}" for key in FIELDS), flush=True)
    plot.draw(options.plot, f"GRPO from random weights: {options.task} of {options.digits} digits",
              "step", {"reward": [row[:2] for row in rewards],
                       "right answers": [(row[0], row[2]) for row in rewards]})


if __name__ == "__main__":
    main()
