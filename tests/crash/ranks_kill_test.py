"""kill -9 of any of three ranks at random instants of a publish: there is the version before or exactly
one more, which is the bytes of its step; the next try of all succeeds."""

import concurrent.futures
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", place) for place in ("cli", "support")]
import harness  # noqa: E402
import shares  # noqa: E402
from waiting import wait_until  # noqa: E402

KILLS = int(os.environ.get("ISTHMUS_TEST_KILLS", "200"))
SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
RANKS = 3
RUNS_AT_A_TIME = 2
# A few pools, which all ranks share, and for each rank a chunk of its own.
SHAPES = {"a": ("BF16", [60, 50]), "b": ("BF16", [31, 7]), "norm": ("F32", [12]), "scalar": ("F32", []),
          "w8": ("F8_E4M3", [50, 20]), "ids": ("I64", [9, 3]),
          "big": ("U8", [3 * 1024, 1024])}


def start_program(arguments):
    return subprocess.Popen([harness.PROGRAM, *map(str, arguments)], env=harness.ENVIRONMENT,
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Run:
    """One run on a board of its own, and the ranks that publish it."""

    def __init__(self, directory, seed):
        self.dir = pathlib.Path(directory)
        self.random = random.Random(seed)
        self.model = shares.Model(SHAPES, self.random)
        self.options = ["--board", self.dir / "board", "--run", "r"]
        harness.run("board", "init", self.dir / "board")
        self.model.write_checkpoint(self.dir / "checkpoint")
        harness.run("publish", self.dir / "checkpoint", *self.options, "--baseline", self.dir / "whole")
        self.ranks = shares.Ranks(self.dir, start_program, [*self.options, "--rank-deadline-s", 60])
        self.step, self.killed, self.made = 1, {rank: 0 for rank in range(RANKS)}, 0
        self.latest = []  # seconds of publishes that nobody disturbed
        while len(self.latest) < 5:
            self.next_step()
            self.publish()

    def head(self):
        return len(list((self.dir / "board/runs/r/log").glob("[0-9]*.json")))  # no temporary files

    def next_step(self):
        self.step += 1
        self.model.step(2000)
        split = self.random.choice((shares.by_rows, shares.by_rows, shares.at_random))
        self.ranks.write_shares(self.model, split(self.model, RANKS))

    def publish(self):
        """All ranks, as long as it takes."""
        head, start = self.head(), time.monotonic()
        for rank, done in enumerate(self.ranks.publish(RANKS, self.step)):
            assert done.returncode == 0, f"step {self.step}, rank {rank}: {done.stdout}{done.stderr}"
        self.latest.append(time.monotonic() - start)
        assert self.head() == head + 1
        self.check_head()

    def check_head(self):
        harness.run("pull", *self.options, "--replica", self.dir / "replica")
        harness.assert_same_files(self.dir / "replica", self.model.write_checkpoint(self.dir / "checkpoint"))

    def round(self):
        """A publish of which a rank is killed, and the next one."""
        head = self.head()
        self.next_step()
        victim = self.random.choice((0, 0, 1, 2))
        delay, grace = (self.random.uniform(0, factor * statistics.median(self.latest[-5:]))
                        for factor in (1, 0.3))
        processes = [self.ranks.start(rank, RANKS, self.step) for rank in range(RANKS)]
        try:
            self.kill(processes[victim], victim, delay)
            give_up(processes, grace)
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        found = self.head()
        assert found in (head, head + 1), f"step {self.step}: {found} versions after {head}"
        if found > head:
            self.made += 1
            self.check_head()
        if found == head or self.random.random() < 0.3:  # a step may also be published twice
            self.publish()

    def kill(self, process, rank, delay):
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            self.killed[rank] += 1


def give_up(processes, grace):
    """Ends those that have not ended after so many seconds."""
    deadline = time.monotonic() + grace
    for process in processes:
        try:
            process.wait(timeout=max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.terminate()
    for process in processes:
        wait_until(lambda one=process: one.poll() is not None, "a rank ends when it is told to")


class RanksKillTest(unittest.TestCase):

    def test_killed_ranks_leave_whole_versions_and_the_next_try_succeeds(self):
        print(f"seed {SEED}, {KILLS} kills", file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor(RUNS_AT_A_TIME) as pool:
            runs = list(pool.map(self.kill_many, range(RUNS_AT_A_TIME)))
        killed = {rank: sum(run.killed[rank] for run in runs) for rank in range(RANKS)}
        made = sum(run.made for run in runs)
        print(f"killed by rank: {killed}; versions made in spite of it: {made}", file=sys.stderr)
        self.assertGreater(sum(killed.values()), KILLS // 2)
        self.assertGreater(min(killed.values()), KILLS // 20)
        self.assertGreater(made, 0)

    def kill_many(self, number):
        with tempfile.TemporaryDirectory(prefix="isthmus-test-") as directory:
            run = Run(directory, SEED + number)
            for _ in range(2 * KILLS // RUNS_AT_A_TIME):
                if sum(run.killed.values()) >= KILLS // RUNS_AT_A_TIME:
                    break
                run.round()
                if run.step % 20 == 0:
                    harness.run("verify", *run.options)
            harness.run("verify", *run.options, "--deep")
            clean = ["board", "gc", *run.options, "--keep-last", 2, "--keep-younger-h", 0, "--grace-h", 0,
                     "--apply"]
            harness.run(*clean)
            harness.run(*clean)
            harness.run("verify", *run.options, "--deep", "--rebuild", run.head())
            return run


if __name__ == "__main__":
    unittest.main()
