#!/usr/bin/env python3
"""examples/grpo_tiny: the task, the served view, the step, and that equal seeds give equal bits."""

import csv
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "grpo_tiny"
sys.path.insert(0, str(EXAMPLE))
import grpo  # noqa: E402
import local  # noqa: E402
import policy  # noqa: E402
import task  # noqa: E402

SMALL = {"hidden": 64, "layers": 2}


def sampled(model, questions, group, seed=1):
    return local.answers(policy.serving_copy(model), questions, group, 5, 1,
                         torch.Generator().manual_seed(seed))


class TaskTest(unittest.TestCase):

    def test_rewards(self):
        question = task.Question((), (4, 2, 9, task.END))
        for tokens, wanted in (((4, 2, 9, task.END), 1), ((4, 2, 9, 9), 0.75), ((4,), 0.25),
                               ((), 0), ((9, 4, 2, 9), 0), ((4, 2, 9, task.END, 1), 1)):
            self.assertEqual(task.reward(question, tokens), wanted, tokens)

    def test_right_answers(self):
        for name, right in (("copy", lambda one: list(one)), ("sort", sorted),
                            ("reverse", lambda one: list(reversed(one)))):
            questions = task.Task(name, 4, seed=3)
            for _ in range(20):
                question = questions.question()
                digits = question.prompt[1:-1]
                self.assertEqual(question.answer, (*right(digits), task.END))

    def test_equal_seeds_ask_the_same(self):
        first, second, other = (task.Task("sort", 4, seed) for seed in (1, 1, 2))
        asked = [first.question() for _ in range(10)]
        self.assertEqual(asked, [second.question() for _ in range(10)])
        self.assertNotEqual(asked, [other.question() for _ in range(10)])


class PolicyTest(unittest.TestCase):

    def test_the_serving_copy_has_the_served_bits(self):
        model = policy.new(1, **SMALL)
        copy = policy.serving_copy(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.01)
        policy.refresh(copy, model)
        view = dict(policy.served_view(model))
        self.assertEqual(set(view), set(dict(copy.named_parameters())))
        for name, parameter in copy.named_parameters():
            self.assertTrue(torch.equal(parameter.view(torch.int16), view[name].view(torch.int16)))

    def test_a_saved_checkpoint_is_the_served_view(self):
        import transformers
        model = policy.new(1, **SMALL)
        with tempfile.TemporaryDirectory(prefix="isthmus-grpo-") as directory:
            policy.save(model, directory)
            loaded = transformers.AutoModelForCausalLM.from_pretrained(directory)
        self.assertEqual(type(loaded).__name__, "Qwen3ForCausalLM")
        view = dict(policy.served_view(model))
        for name, parameter in loaded.named_parameters():
            self.assertTrue(torch.equal(parameter, view[name]), name)


class StepTest(unittest.TestCase):

    def setUp(self):
        self.model = policy.new(1, **SMALL)
        questions = task.Task("copy", 4, seed=1)
        self.groups = sampled(self.model, [questions.question() for _ in range(4)], 8)

    def logprobs(self):
        """Of each sample's tokens under the masters."""
        samples = [sample for group in self.groups for sample in group]
        ids, mask, old = grpo.batch_of(samples)
        with torch.no_grad():
            known = torch.log_softmax(self.model(ids[:, :-1]).logits, -1)
        return known.gather(-1, ids[:, 1:, None])[..., 0] * mask, mask, old

    def test_the_samplers_log_probabilities_are_the_masters_but_for_bf16(self):
        new, mask, old = self.logprobs()
        self.assertLess((new - old).abs().max().item(), 0.1)
        self.assertEqual(mask.sum().item(), sum(len(sample.tokens) for group in self.groups
                                                for sample in group))
        self.assertTrue((old[mask == 0] == 0).all())

    def test_answers_end_where_they_end(self):
        for group in self.groups:
            self.assertEqual(len(group), 8)
            for sample in group:
                self.assertIs(sample.question, group[0].question)
                self.assertTrue(task.END not in sample.tokens[:-1])
                self.assertTrue(len(sample.tokens) == 5 or sample.tokens[-1] == task.END)
                self.assertEqual(len(sample.tokens), len(sample.logprobs))
                self.assertEqual(sample.versions, [1] * len(sample.tokens))

    def test_advantages_are_relative_to_the_group(self):
        values = grpo.advantages(self.groups)
        for first in range(0, len(values), 8):
            self.assertAlmostEqual(sum(values[first:first + 8]), 0, places=4)
        equal = [[grpo.Sample(self.groups[0][0].question, [], [], [])] * 8]
        self.assertEqual(grpo.advantages(equal), [0] * 8)

    def test_a_step_makes_good_answers_likelier_and_bad_ones_less(self):
        before, mask, _ = self.logprobs()
        advantage = torch.tensor(grpo.advantages(self.groups))
        self.assertGreater(advantage.max().item(), 0)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        facts = grpo.step(self.model, optimizer, self.groups)
        after, _, _ = self.logprobs()
        self.assertGreater((((after - before) * mask).sum(1) * advantage).sum().item(), 0)
        self.assertTrue(all(math.isfinite(value) for value in facts.values()))


class TrainTest(unittest.TestCase):

    def run_train(self, folder, *options):
        done = subprocess.run(
            [sys.executable, EXAMPLE / "train.py", "--hidden", "64", "--layers", "2", "--questions",
             "4", "--group", "4", "--steps", "3", "--log", folder / "log.csv", "--plot",
             folder / "plot.svg", *options], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(folder / "log.csv", newline="", encoding="utf-8") as file:
            rows = [{**row, "seconds": None} for row in csv.DictReader(file)]
        return rows, (folder / "plot.svg").read_text(encoding="utf-8")

    def test_equal_seeds_give_equal_runs(self):
        with tempfile.TemporaryDirectory(prefix="isthmus-grpo-") as directory:
            folder = pathlib.Path(directory)
            first, picture = self.run_train(folder, "--seed", "5")
            self.assertEqual(first, self.run_train(folder, "--seed", "5")[0])
            self.assertNotEqual(first, self.run_train(folder, "--seed", "6")[0])
        self.assertEqual([row["step"] for row in first], ["1", "2", "3"])
        self.assertEqual(picture.count("<polyline"), 2)


if __name__ == "__main__":
    unittest.main()
