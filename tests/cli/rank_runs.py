"""A test with a board, a run on it that starts with a model's checkpoint, and ranks that publish it
from their shares."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "support"))
import shares  # noqa: E402
from waiting import wait_until  # noqa: E402

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
# Two pools, which every rank has a part of, however the rows are cut.
SMALL = {"a": ("BF16", [60, 50]), "b": ("BF16", [31, 7]), "norm": ("F32", [12]), "scalar": ("F32", [])}
DEADLINE_S, SHORT_S = 100, 2


def start_program(arguments):
    return subprocess.Popen([harness.PROGRAM, *map(str, arguments)], env=harness.ENVIRONMENT,
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class RanksTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        print(f"{self.id()}: seed {SEED}", file=sys.stderr)
        self.random = random.Random(SEED)
        self.board = self.dir / "board"
        harness.run("board", "init", self.board)
        self.run_options = ["--board", self.board, "--run", "r"]
        self.ranks = shares.Ranks(self.dir, start_program, self.run_options)
        self.step = 0
        self.publish_options, self.read_options = [], []

    def use_board(self, board):
        """Another, new one, on which the run has no version."""
        self.board = board
        harness.run("board", "init", board)
        self.run_options = self.ranks.options = ["--board", board, "--run", "r"]
        shutil.rmtree(self.dir / "whole", ignore_errors=True)

    def begin(self, shapes=None, whole=True):
        """The run's first version: the model, published by one process."""
        self.model = shares.Model(shapes or SMALL, self.random)
        if whole:
            self.publish_whole()

    def publish_whole(self):
        self.step += 1
        checkpoint = self.model.write_checkpoint(self.dir / "checkpoint")
        harness.run("publish", checkpoint, *self.run_options, "--baseline", self.dir / "whole",
                    "--step", self.step, *self.publish_options)

    def next_step(self, ranks, split=shares.by_rows, one_in=400):
        """The model after one more step, in the ranks' shares."""
        self.step += 1
        self.model.step(one_in)
        self.ranks.write_shares(self.model, split(self.model, ranks))

    def start(self, rank, ranks, *more, step=None, baseline=None, deadline_s=DEADLINE_S):
        if rank == 0:
            self.attempt_before = self.attempt()
        process = self.ranks.start(rank, ranks, self.step if step is None else step,
                                   *self.publish_options, "--rank-deadline-s", deadline_s, *more,
                                   baseline=baseline)
        self.addCleanup(end, process)
        return process

    def publish(self, ranks, *more):
        return shares.finish_all([self.start(rank, ranks, *more) for rank in range(ranks)])

    def publish_step(self, ranks, split=shares.by_rows, one_in=400):
        """One step, published by all; the head is the model."""
        self.next_step(ranks, split, one_in)
        self.assert_published(self.publish(ranks))
        self.assert_head()

    def assert_published(self, done):
        for rank, process in enumerate(done):
            self.assertEqual(process.returncode, 0, f"rank {rank}: {process.stdout}{process.stderr}")

    def assert_head(self, replica="replica"):
        """The newest version, pulled, is the model's checkpoint, byte for byte."""
        harness.run("pull", *self.run_options, "--replica", self.dir / replica, *self.read_options)
        expected = self.model.write_checkpoint(self.dir / "checkpoint")
        harness.assert_same_files(self.dir / replica, expected)

    def log(self):
        """Every log entry, as bytes."""
        folder = self.board / "runs" / "r" / "log"
        return {path.name: path.read_bytes() for path in sorted(folder.glob("[0-9]*.json"))}

    def head(self):
        return len(self.log())

    def attempt(self):
        """The folder of the attempt that was called last; one that does not exist if there is no call."""
        try:
            call = json.loads((self.board / "runs/r/call.json").read_text())
            return self.board / "runs/r/data" / str(call["version"]) / call["attempt"]
        except (OSError, ValueError, KeyError):
            return self.board / "none"


    def await_object(self, name):
        """The path of an object of the attempt of the lead that was started last."""
        def found():
            path = self.attempt() / name
            return self.attempt() != self.attempt_before and path.exists() and path
        return wait_until(found, name)


def replace(path, content):
    """As a store does: nobody sees half of it."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(content)
    temporary.replace(path)


def end(process):
    """Whatever state it is in."""
    if process.poll() is None:
        process.kill()
    process.communicate()


def unit_bytes(dtype):
    """Of the units that are counted (docs/patch-format.md, section 1)."""
    return min(4, max(1, shares.BITS[dtype] // 8))
