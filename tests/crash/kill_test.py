"""kill -9 at random instants: the next run ends at a verified version, the board holds only whole
versions."""

import os
import random
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
import harness  # noqa: E402

KILLS = int(os.environ.get("ISTHMUS_TEST_KILLS", "200"))
SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
STEPS = (37, 38, 39, 40)


def run_and_kill(arguments, delay):
    """Starts the program and kills it after `delay` seconds; returns whether it was still running."""
    process = subprocess.Popen([harness.PROGRAM, *map(str, arguments)], env=harness.ENVIRONMENT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=delay)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True


def duration_of(arguments):
    start = time.monotonic()
    harness.run(*arguments)
    return time.monotonic() - start


class KillTest(harness.CheckpointTest):
    def setUp(self):
        super().setUp()
        print(f"seed {SEED}, {KILLS} kills", file=sys.stderr)
        self.random = random.Random(SEED)

    def publish_arguments(self, step):
        return ["publish", self.step(step), "--board", self.board, "--run", "r", "--baseline",
                self.dir / "baseline"]

    def test_a_killed_publish_leaves_whole_versions_and_the_next_one_goes_on(self):
        self.board = self.make_board()
        self.check_killed_anchors()
        typical = duration_of(self.publish_arguments(38))
        killed = 0
        for round_number in range(KILLS):
            step = STEPS[round_number % len(STEPS)]
            killed += run_and_kill(self.publish_arguments(step),
                                   self.random.uniform(0, 1.1 * typical))
            harness.run("verify", "--board", self.board, "--run", "r")
            if round_number % 4 == 3:
                self.check_head_after_publish(step)
        self.assertGreater(killed, KILLS // 2)
        harness.run("verify", "--board", self.board, "--run", "r", "--deep")

    def check_killed_anchors(self):
        """The first publish, killed: a version either exists whole or not at all."""
        for _ in range(10):
            run_and_kill(self.publish_arguments(37), self.random.uniform(0, 0.1))
            shown = harness.run_json("inspect", self.board)
            if any(run["head"] > 0 for run in shown["runs"]):
                break
        harness.run(*self.publish_arguments(37))
        harness.run("verify", "--board", self.board, "--run", "r", "--deep")

    def check_head_after_publish(self, step):
        harness.run(*self.publish_arguments(step))
        self.check_head(step)

    def test_a_killed_pull_leaves_a_replica_that_the_next_one_brings_to_the_version(self):
        self.board = self.make_board()
        for step in STEPS:
            harness.run(*self.publish_arguments(step))
        replica = self.dir / "replica"
        pull = ["pull", "--board", self.board, "--run", "r", "--replica", replica]
        typical = max(duration_of(pull), duration_of(pull + ["--version", "2"]))
        killed = 0
        for _ in range(KILLS):
            version = self.random.randint(1, len(STEPS))
            killed += run_and_kill(pull + ["--version", version],
                                   self.random.uniform(0, typical))
            target = self.random.randint(1, len(STEPS))
            harness.run(*pull, "--version", target)
            harness.assert_same_files(replica, self.step(STEPS[target - 1]))
        self.assertGreater(killed, KILLS // 4)
        harness.run("verify", "--replica", replica)

    def test_a_killed_cleaning_or_anchor_costs_no_kept_version(self):
        self.board = self.make_board()
        run = ["--board", self.board, "--run", "r"]
        clean = ["board", "gc", *run, "--keep-last", 2, "--keep-younger-h", 0, "--grace-h", 0,
                 "--apply"]
        for step in STEPS:
            harness.run(*self.publish_arguments(step))
        killed, version = 0, len(STEPS)
        typical = {"board anchor": 0.05, "board gc": 0.05}
        for round_number in range(KILLS // 2):
            step = STEPS[round_number % len(STEPS)]
            harness.run(*self.publish_arguments(step))
            version += 1
            for command in (["board", "anchor", version, self.step(step), *run], clean):
                name = " ".join(command[:2])
                if round_number % 8 == 0:
                    typical[name] = duration_of(command)
                else:
                    killed += run_and_kill(command, self.random.uniform(0, typical[name]))
            harness.run("verify", *run)
            if round_number % 8 == 7:
                self.check_head(step)
        self.assertGreater(killed, KILLS // 4)
        harness.run(*clean)
        self.assertEqual(harness.run_json(*clean)["leftovers"], 0)
        harness.run("verify", *run, "--deep", "--rebuild", version, "--rebuild", version - 1)

    def check_head(self, step):
        replica = self.dir / "check"
        harness.run("pull", "--board", self.board, "--run", "r", "--replica", replica)
        harness.assert_same_files(replica, self.step(step))

    def test_a_killed_apply_is_taken_back_by_the_next_one(self):
        patch = self.dir / "p.patch"
        harness.run("diff", self.step(37), self.step(38), "-o", patch)
        checkpoint = self.dir / "checkpoint"
        apply = ["apply", patch, checkpoint]
        typical = 0.05
        for _ in range(KILLS // 4):
            subprocess.run(["cp", "-rL", self.step(37), checkpoint], check=True)
            subprocess.run(["chmod", "-R", "u+w", checkpoint], check=True)
            killed = run_and_kill(apply, self.random.uniform(0, typical))
            if killed and not self.is_done(checkpoint):
                harness.run(*apply)
            harness.assert_same_files(checkpoint, self.step(38))
            subprocess.run(["rm", "-rf", checkpoint], check=True)

    def is_done(self, checkpoint):
        """Whether the kill came after the whole change (then applying again is refused)."""
        if (checkpoint / ".isthmus" / "journal.json").exists():
            return False
        shown = harness.run_json("verify", checkpoint, "--against", self.step(38),
                                 expect=None)
        return shown["ok"]


if __name__ == "__main__":
    unittest.main()
