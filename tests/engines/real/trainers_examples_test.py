#!/usr/bin/env python3
"""examples/trainers/: each loop runs, and publishes its weights with its three lines."""

import importlib
import pathlib
import re
import sys
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "trainers"
sys.path[:0] = [str(ROOT / "tests" / "python"), str(EXAMPLES)]
from recording_publisher import RecordingPublisher  # noqa: E402

PROJECTS = {"verl_style": "https://github.com/volcengine/verl",
            "slime_style": "https://github.com/THUDM/slime",
            "prime_rl_style": "https://github.com/PrimeIntellect-ai/prime-rl",
            "skyrl_style": "https://github.com/NovaSky-AI/SkyRL"}
STEPS = {"verl_style": [1, 2, 3], "slime_style": [0, 2, 4, 6], "prime_rl_style": [1, 2, 3],
         "skyrl_style": [0, 1, 2, 3]}
OPTIONS = {"background", "names", "rank", "ranks"}  # of Publisher, docs/python.md


class ExamplesTest(unittest.TestCase):

    def run_loop(self, name):
        """(publisher, the trainers that the loop had)"""
        made = []

        def make_publisher(names=None, **options):
            self.assertLessEqual(set(options), OPTIONS)
            made.append(Named(names))
            return made[-1]
        trainers = importlib.import_module(name).loop(make_publisher)
        self.assertEqual(len(made), 1)
        return made[0], trainers

    def test_all_are_tested(self):
        self.assertEqual({file.stem for file in EXAMPLES.glob("*_style.py")}, set(PROJECTS))

    def test_each_names_its_project_first_and_marks_three_lines(self):
        for name, link in PROJECTS.items():
            text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
            self.assertIn(link, text.split("\n\n")[0], name)
            self.assertEqual(re.findall(r"# line (\d) of 3$", text, re.MULTILINE), ["1", "2", "3"])
            self.assertIn(f"`{name}.py`", (EXAMPLES / "README.md").read_text(encoding="utf-8"))

    def test_each_publishes_its_weights(self):
        for name, steps in STEPS.items():
            with self.subTest(name):
                publisher, trainers = self.run_loop(name)
                self.assertEqual((publisher.steps, publisher.flushed), (steps, 1))
                newest = dict(trainers[0].model.named_parameters())
                self.assertEqual(set(publisher.newest()), set(newest))
                for key, tensor in newest.items():
                    self.assertTrue(torch.equal(publisher.newest()[key], tensor), key)
                    self.assertFalse(torch.equal(publisher.versions[0][2][key], tensor), key)

    def test_the_orchestrators_bound(self):
        prime = importlib.import_module("prime_rl_style")
        self.assertEqual([prime.least_version(step) for step in range(5)], [1, 1, 1, 2, 3])


class Named(RecordingPublisher):
    """With the option `names`, and `meta` left out as it may be."""

    def __init__(self, names):
        super().__init__()
        self._names = names or (lambda name: name)

    def publish(self, named_tensors, *, step, meta=None):
        return super().publish([(self._names(name), tensor) for name, tensor in named_tensors],
                               step=step, meta=meta or {})


if __name__ == "__main__":
    unittest.main()
