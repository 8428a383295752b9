#!/usr/bin/env python3
"""Teaches a small Qwen3, from random weights, to answer with GRPO.

train.py [--mode local|patches|full] [--engine refengine|vllm] [--staleness N] [--task NAME] …

--mode local samples in this process; patches from islands on this machine, to which each step's
weights go as a version, through a gateway; full from their engines, each of which loads each step's
whole checkpoint. Prints a line a step, writes it to a CSV file, draws the rewards as an SVG, and
says the digest of the weights at the end.
"""

import argparse
import collections
import contextlib
import csv
import pathlib
import signal
import sys
import tempfile
import time

import torch

import grpo
import local
import plot
import policy
import task


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mode", choices=("local", "patches", "full"), default="local")
    parser.add_argument("--engine", choices=("refengine", "vllm"), default="refengine")
    parser.add_argument("--islands", type=int, default=2)
    parser.add_argument("--staleness", type=int, default=0,
                        help="versions that a token may be behind when it is trained")
    parser.add_argument("--task", choices=sorted(task.RIGHT), default="copy")
    parser.add_argument("--digits", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--questions", type=int, default=16, help="a step")
    parser.add_argument("--group", type=int, default=16, help="samples of a question")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--entropy", type=float, default=0.03, help="weight of the entropy bonus")
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("grpo_tiny.csv"))
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("grpo_tiny.svg"))
    return parser.parse_args()


class Learner:
    """Model, optimizer and questions of one seed."""

    def __init__(self, options):
        self.options = options
        self.model = policy.new(options.seed, hidden=options.hidden, layers=options.layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.learning_rate,
                                           betas=(0.9, 0.95), weight_decay=0.0)
        self._questions = task.Task(options.task, options.digits, options.seed)
        self.answer_length = self._questions.answer_length

    def questions(self):
        return [self._questions.question() for _ in range(self.options.questions)]

    def learn(self, groups):
        return grpo.step(self.model, self.optimizer, groups, self.options.entropy)


def run_local(learner, options):
    """Yields the facts of each step."""
    serving = policy.serving_copy(learner.model)
    generator = torch.Generator().manual_seed(options.seed)
    for number in range(1, options.steps + 1):
        groups = local.answers(serving, learner.questions(), options.group, learner.answer_length,
                               number, generator)
        facts = learner.learn(groups)
        yield {**facts, "changed": policy.refresh(serving, learner.model)}


def run_fleet(learner, options):
    """The same with engines: a token is at most `staleness` versions old when it is trained.

    So many batches are on their way besides the one that is waited for, each asked for at the
    version that was the newest then, or newer; without staleness at exactly this one.
    """
    import fleet  # these need the package; sampling locally does not
    import full
    import remote
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that engines end with this process
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grpo-tiny-")))
        policy.save(learner.model, folder / "start")
        engines = stack.enter_context(fleet.Engines(folder, folder / "start", options.engine,
                                                    options.islands))
        way = (full.FullCheckpoints if options.mode == "full" else fleet.Patches)(engines)
        stack.callback(way.close)
        sampler = remote.Sampler(way.urls, way.run, fleet.launch.MODEL_NAME, learner.answer_length)
        stack.callback(sampler.close)
        yield from _follow(learner, options, way, sampler)
        for number, names in enumerate(way.differing(learner.model, sampler)):
            if names:
                raise SystemExit(f"island {number} differs from the trainer's export: {names}")
        print(f"{options.islands} islands hold the trainer's export to the last bit",
              file=sys.stderr)


def _follow(learner, options, way, sampler):
    version, batches = 1, collections.deque()
    for number in range(1, options.steps + 1):
        while len(batches) <= options.staleness:
            seed = options.seed * 1_000_003 + number + len(batches)
            batches.append(sampler.begin(
                learner.questions(), options.group, seed, version,
                **way.constraints(version, options.staleness)))
        groups = batches.popleft().result()
        lags = [version - made for group in groups for one in group for made in one.versions]
        facts = {**learner.learn(groups), "lag": sum(lags) / len(lags), "lag_max": max(lags),
                 "paused_ms": way.paused_ms(sampler)}
        version, more = way.publish(learner.model, number)
        yield {**facts, **more}


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    learner, began, rewards = Learner(options), time.monotonic(), []
    parameters = sum(value.numel() for value in learner.model.parameters())
    print(f"{options.task} of {options.digits} digits, {parameters / 1e6:.1f} M parameters",
          file=sys.stderr)
    run = run_local if options.mode == "local" else run_fleet
    with open(options.log, "w", newline="", encoding="utf-8") as file:
        log = None
        for number, facts in enumerate(run(learner, options), 1):
            facts = {"step": number, "seconds": time.monotonic() - began, **facts}
            rewards.append((number, facts["reward"], facts["solved"]))
            facts = {key: f"{value:.6g}" for key, value in facts.items()}
            if log is None:
                log = csv.DictWriter(file, facts)
                log.writeheader()
            log.writerow(facts)
            file.flush()
            print("  ".join(f"{key} {value}" for key, value in facts.items()), flush=True)
    print(f"weights {policy.digest(learner.model)}", file=sys.stderr)
    plot.draw(options.plot, f"GRPO from random weights: {options.task} of {options.digits} digits",
              "step", {"reward": [row[:2] for row in rewards],
                       "right answers": [(row[0], row[2]) for row in rewards]})


if __name__ == "__main__":
    main()
