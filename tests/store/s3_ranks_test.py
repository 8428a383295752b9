"""Publishing from many ranks that meet on s3://, where they come and die."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import servers
from fault_proxy import Exchange, FaultProxy

sys.path[:0] = [str(servers.ROOT / "tests" / place) for place in ("cli", "support")]
import harness  # noqa: E402
import shares  # noqa: E402
from waiting import wait_until  # noqa: E402

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
RANKS = 3
RUN = ["--board", f"s3://{servers.BUCKET}/team/board", "--run", "r"]
SHAPES = {"a": ("BF16", [60, 50]), "b": ("BF16", [31, 7]), "norm": ("F32", [12]), "scalar": ("F32", []),
          "w8": ("F8_E4M3", [2100, 1024])}


class S3RanksTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.server = servers.Server("s3s-fs")
        self.addCleanup(self.server.close)
        self.proxy = FaultProxy(self.server.port)
        self.addCleanup(self.proxy.close)
        print(f"seed {SEED}", file=sys.stderr)
        self.model = shares.Model(SHAPES, random.Random(SEED))
        self.ranks = shares.Ranks(self.dir, self.start, [*RUN, "--rank-deadline-s", 60])
        self.step = 1
        self.run_program("board", "init", RUN[1])
        self.model.write_checkpoint(self.dir / "checkpoint")
        self.run_program("publish", self.dir / "checkpoint", *RUN, "--baseline", self.dir / "whole")

    def start(self, arguments):
        environment = servers.environment(self.proxy.endpoint)
        del environment["ISTHMUS_BIN"], environment["ISTHMUS_TEST_S3"]
        process = subprocess.Popen([harness.PROGRAM, *map(str, arguments)], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_program(self, *arguments):
        done = shares.finish(self.start(arguments))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def next_step(self):
        self.step += 1
        self.model.step()
        self.ranks.write_shares(self.model, shares.by_rows(self.model, RANKS))

    def assert_published(self, done):
        for rank, process in enumerate(done):
            self.assertEqual(process.returncode, 0, f"rank {rank}: {process.stdout}{process.stderr}")
        self.run_program("pull", *RUN, "--replica", self.dir / "replica")
        harness.assert_same_files(self.dir / "replica",
                                  self.model.write_checkpoint(self.dir / "checkpoint"))

    def count(self, part):
        """How many objects of the board have this in their names."""
        return sum(part in str(path) for path in self.server.root.rglob("*") if path.is_file())

    def log(self):
        return self.count("runs/r/log/0")

    def test_versions_from_ranks_and_from_one_process(self):
        for _ in range(3):
            self.next_step()
            self.assert_published(self.ranks.publish(RANKS, self.step))
        self.run_program("publish", self.dir / "checkpoint", *RUN, "--baseline", self.dir / "whole")
        self.next_step()
        self.assert_published(self.ranks.publish(RANKS, self.step))
        self.run_program("verify", *RUN, "--deep", "--rebuild", 6)
        self.assertEqual((self.count("claim-"), self.count("receipt-"), self.count(".part") > 4), (0, 0, True))

    def test_dead_ranks_cost_no_version_and_the_next_try_succeeds(self):
        for victim, moment in ((2, "claim-00002"), (0, "plan.json"), (1, "slices-"), (0, "receipt-00001")):
            with self.subTest(victim=victim, moment=moment):
                self.next_step()
                processes = [self.ranks.start(rank, RANKS, self.step) for rank in range(RANKS)]
                before = self.log()
                wait_until(lambda: self.count(moment) or self.log() > before, moment)  # noqa: B023
                processes[victim].kill()
                for process in processes:
                    process.terminate()
                    process.communicate()
                self.assertIn(self.log() - before, (0, 1))
                self.assert_published(self.ranks.publish(RANKS, self.step))
                self.run_program("board", "gc", *RUN, "--keep-last", 1, "--keep-younger-h", 0, "--grace-h", 0,
                                 "--apply")
                self.run_program("board", "gc", *RUN, "--keep-last", 1, "--keep-younger-h", 0, "--grace-h", 0,
                                 "--apply")
        self.run_program("verify", *RUN, "--deep")

    def test_answers_that_are_lost(self):
        """Of each object that is created, the first answer: the ranks find their own object."""
        for part in ("/claim-00001", "/plan.json", "/receipt-00000", "/verdict.json", "/log/"):
            self.proxy.on(lambda r, part=part: r.method == "PUT" and part in r.path, Exchange.lose_answer)
        self.next_step()
        self.assert_published(self.ranks.publish(RANKS, self.step))
        self.assertEqual(self.log(), 2)


if __name__ == "__main__":
    unittest.main()
