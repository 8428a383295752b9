#!/usr/bin/env python3
"""examples/grpo_tiny with the reference engine: patches, staleness, and the way without them."""

import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAIN = ROOT / "examples" / "grpo_tiny" / "train.py"
STEPS = 4


def train(*options):
    """(rows of the log, what was said on standard error)"""
    with tempfile.TemporaryDirectory(prefix="isthmus-grpo-") as folder:
        log = pathlib.Path(folder) / "log.csv"
        done = subprocess.run(
            [sys.executable, TRAIN, "--hidden", "64", "--layers", "2", "--questions", "4",
             "--group", "4", "--steps", str(STEPS), "--threads", "1", "--log", log, "--plot",
             pathlib.Path(folder) / "plot.svg", *options],
            capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        with open(log, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file)), done.stderr


def weights(said):
    return re.search(r"^weights ([0-9a-f]{64})$", said, re.MULTILINE)[1]


class GrpoFleetTest(unittest.TestCase):

    def test_patches_and_full_checkpoints_reach_the_same_weights_to_the_last_bit(self):
        rows, said = train("--mode", "patches")
        full_rows, full_said = train("--mode", "full")
        for text in (said, full_said):
            self.assertIn("2 islands hold the trainer's export to the last bit", text)
        for key in ("reward", "entropy", "gradient_norm"):
            self.assertEqual([row[key] for row in rows], [row[key] for row in full_rows], key)
        self.assertEqual(weights(said), weights(full_said))
        self.assertEqual({row["lag_max"] for row in rows}, {"0"})
        for row, full in zip(rows, full_rows):
            self.assertLess(int(row["bytes"]), int(full["bytes"]))

    def test_no_token_is_older_than_the_staleness_allows(self):
        for staleness in (1, 3):
            rows, said = train("--mode", "patches", "--staleness", str(staleness))
            self.assertIn("to the last bit", said)
            lags = [int(row["lag_max"]) for row in rows]
            self.assertLessEqual(max(lags), staleness)
            self.assertGreater(max(lags), 0)


if __name__ == "__main__":
    unittest.main()
