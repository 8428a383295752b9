"""Several programs at once on one run, one baseline, one replica: each wins or says conflict."""

import fcntl
import json
import os
import random
import subprocess
import sys
import unittest

import harness
import runs
import tampering

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
STEPS = (37, 38, 39, 40)
ROUNDS = 20


def run_together(commands):
    """Starts all commands, then waits for all; returns the finished processes."""
    started = [subprocess.Popen([harness.PROGRAM, *map(str, command)], env=harness.ENVIRONMENT,
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for command in commands]
    finished = []
    for process in started:
        stdout, stderr = process.communicate(timeout=300)
        finished.append(subprocess.CompletedProcess(process.args, process.returncode, stdout,
                                                    stderr))
    return finished


class RacesTest(runs.RunTest):
    def setUp(self):
        super().setUp()
        print(f"seed {SEED}", file=sys.stderr)
        self.random = random.Random(SEED)
        self.published = []  # the step of each version

    def race(self, baselines):
        """Publishes a random step from each baseline at once. Each that exits with 0 has made one
        version, and nobody else one."""
        steps = [self.random.choice(STEPS) for _ in baselines]
        done = run_together([[*self.publish_arguments(self.step(step, "fp8"), self.dir / baseline),
                              "--json"] for step, baseline in zip(steps, baselines, strict=True)])
        won = {}
        for process, step in zip(done, steps, strict=True):
            if process.returncode == 0:
                won[json.loads(process.stdout)["version"]] = step
            else:
                runs.assert_one_line(self, process, 4)
        self.assertEqual(len(won), sum(process.returncode == 0 for process in done))
        expected = [*self.published, *(won[version] for version in sorted(won))]
        versions = [item["version"] for item in
                    harness.run_json("log", *self.run_options)["versions"]]
        self.assertEqual(sorted(won), list(range(len(self.published) + 1, len(expected) + 1)))
        self.assertEqual(versions, list(range(len(expected), 0, -1)))
        self.published = expected
        return len(won)

    def check_all_versions(self):
        harness.run("verify", *self.run_options, "--deep")
        for version in sorted({1, len(self.published) // 2, len(self.published)}):
            self.pull("check", version)
            self.assert_replica("check", self.step(self.published[version - 1], "fp8"))

    def test_of_publishers_with_baselines_of_their_own_each_number_goes_to_exactly_one(self):
        for _ in range(ROUNDS):
            self.race(["one", "two"])
        self.check_all_versions()
        for baseline in ("one", "two"):
            harness.run(*self.publish_arguments(self.step(37, "fp8"), self.dir / baseline))

    def test_of_first_publishers_of_a_run_each_number_goes_to_exactly_one(self):
        for number in range(5):
            self.run_options = ["--board", self.board, "--run", f"first-{number}"]
            self.published = []
            self.assertGreaterEqual(
                self.race([f"one-{number}", f"two-{number}", f"three-{number}"]), 1)
            harness.run("verify", *self.run_options, "--deep")

    def test_of_publishers_with_one_baseline_one_works_at_a_time(self):
        for _ in range(5):
            self.assertGreaterEqual(self.race(["one", "one", "one"]), 1)
        self.check_all_versions()

    def test_a_baseline_or_replica_in_use_is_a_conflict_and_named(self):
        self.start_with(37, 38)
        self.pull("replica", 1)
        for directory, arguments in (
                (self.baseline, self.publish_arguments(self.step(39, "fp8"))),
                (self.dir / "replica", self.pull_arguments("replica"))):
            before = tampering.snapshot(self.dir)
            with open(directory / ".isthmus" / "lock", "r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                runs.refused(self, 4, arguments, directory)
                harness.run("verify", "--replica", directory)
                harness.run("inspect", directory)
            self.assertEqual(tampering.snapshot(self.dir), before)
            harness.run(*arguments)

    def test_pulls_into_one_replica_at_once_leave_it_at_one_of_their_versions(self):
        self.start_with(*STEPS)
        for _ in range(ROUNDS):
            versions = [self.random.randint(1, 4) for _ in range(2)]
            done = run_together([[*self.pull_arguments("replica", version), "--json"]
                                 for version in versions])
            for process in done:
                if process.returncode != 0:
                    runs.assert_one_line(self, process, 4)
            held = harness.run_json("inspect", self.dir / "replica")["version"]
            self.assertIn(held, [version for version, process in zip(versions, done, strict=True)
                                 if process.returncode == 0])
            self.assert_replica("replica", self.step(STEPS[held - 1], "fp8"))

    def test_patches_applied_to_one_checkpoint_at_once_change_it_once(self):
        patch = self.dir / "p"
        harness.run("diff", self.step(37, "fp8"), self.step(38, "fp8"), "-o", patch)
        for number in range(ROUNDS):
            target = tampering.copy(self.step(37, "fp8"), self.dir / f"target-{number}")
            done = run_together([["apply", patch, target]] * 2)
            codes = sorted(process.returncode for process in done)
            self.assertEqual(codes[0], 0, done)
            self.assertIn(codes[1], (4, 5), done)  # in use, or already at the new version
            harness.assert_same_files(target, self.step(38, "fp8"))
            self.assertFalse((target / ".isthmus").exists())


if __name__ == "__main__":
    unittest.main()
