#!/usr/bin/env python3
"""The small checkpoints change from step to step as those of real training do."""

import pathlib
import tempfile
import unittest

import island  # noqa: F401  for the path to make_qwen3
import make_qwen3
import numpy as np

REAL_DENSITY = (0.003, 0.03)  # of BF16 values that a step at a learning rate of 1e-6 changes


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def words(directory):
    """All data of the shards, headers too, as BF16 words: those of one model lie alike."""
    return np.concatenate([np.frombuffer(path.read_bytes(), "<u2")
                           for path in sorted(directory.glob("*.safetensors"))])


class MakeQwen3Test(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-qwen3-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def test_each_step_changes_as_many_values_as_a_real_one(self):
        for options in ({}, {"tied": False}, {"moe": True}):
            with self.subTest(**options):
                trainer = make_qwen3.Trainer(seed=1, **options)
                before = words(trainer.save(self.dir / "before"))
                for _ in range(3):
                    trainer.step()
                    after = words(trainer.save(self.dir / "after"))
                    density = np.count_nonzero(before != after) / before.size
                    self.assertTrue(REAL_DENSITY[0] < density < REAL_DENSITY[1], density)
                    before = after

    def test_equal_seeds_give_equal_bytes(self):
        made = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            trainer = make_qwen3.Trainer(seed)
            trainer.step()
            made.append(contents(trainer.save(self.dir / name)))
        self.assertEqual(made[0], made[1])
        self.assertNotEqual(made[0], made[2])


if __name__ == "__main__":
    unittest.main()
