"""Full disks, read-only mounts, file size limits: a clean failure, nothing lost, and the same
command works once there is room. Mounts are made in a mount namespace of this process's own."""

import os
import resource
import shutil
import signal
import subprocess
import unittest

import harness
import mounts
import runs
import tampering

READ_ONLY = (2, 6)  # how a read-only file system is refused
OLD, NEW = 37, 38


class FullDiskTest(mounts.MountTest):
    def test_an_anchor_that_fills_the_board_makes_no_version(self):
        self.use_board(self.small / "board")
        harness.run("board", "init", self.board)
        publish = self.publish_arguments(self.step(OLD, "fp8"))
        for free_pages in (0, 1, 2, 5, 40, 70):
            with self.subTest(free_pages=free_pages):
                self.fill(free_pages)
                self.refused_for_want_of_room(publish)
                self.assertEqual(self.head(), 0)
                self.assertEqual(tampering.unnamed_objects(self.board, "r"), [])
                self.make_room()
        harness.run(*publish)
        harness.run("verify", *self.run_options, "--deep")

    def test_a_patch_that_fills_the_board_makes_no_version(self):
        self.use_board(self.small / "board")
        harness.run("board", "init", self.board)
        self.publish_steps(OLD)
        for free_pages in range(5):
            with self.subTest(free_pages=free_pages):
                self.check_patch_on_full_board(free_pages)
        self.assertEqual(self.pull("replica")["version"], self.head())
        harness.run("verify", *self.run_options, "--deep")

    def check_patch_on_full_board(self, free_pages):
        head = self.head()
        publish = self.publish_arguments(self.step(NEW if head % 2 else OLD, "fp8"))
        self.fill(free_pages)
        done = harness.run(*publish, "--json", expect=None)
        self.make_room()
        if done.returncode != 0:
            self.assertIn(str(self.small), runs.assert_one_line(self, done, 6))
            self.assertEqual(self.head(), head)
            for stray in tampering.unnamed_objects(self.board, "r"):
                harness.run("inspect", self.board / stray)  # whole, if it was left
            harness.run(*publish)
        self.assertEqual(self.head(), head + 1)
        harness.run("verify", *self.run_options, "--deep")

    def test_a_full_disk_leaves_a_new_replica_at_no_version(self):
        self.publish_steps(OLD, NEW)
        for free_pages in (0, 1, 10, 60):
            with self.subTest(free_pages=free_pages):
                self.fill(free_pages)
                self.refused_for_want_of_room(self.pull_arguments("small/replica"))
                self.make_room()
        self.pull("small/replica")
        self.assert_replica("small/replica", self.step(NEW, "fp8"))

    def changed_files(self):
        """Step 38 with other files too, so that a patch changes shards and files."""
        checkpoint = tampering.copy(self.step(NEW, "fp8"), self.dir / "changed")
        (checkpoint / "config.json").write_text('{"model_type": "bert"}' + " " * mounts.PAGE)
        (checkpoint / "added.json").write_text("{}" + " " * mounts.PAGE)
        return checkpoint

    def test_a_full_disk_leaves_a_replica_at_its_version(self):
        changed = self.changed_files()
        self.publish_steps(OLD, NEW)
        self.publish(changed)
        done = set()
        for version, checkpoint in ((2, self.step(NEW, "fp8")), (3, changed)):
            for free_pages in range(14):
                with self.subTest(version=version, free_pages=free_pages):
                    done.add(self.check_pull_on_full_disk(version, checkpoint, free_pages))
        self.assertEqual(done, {0, 6})

    def check_pull_on_full_disk(self, version, checkpoint, free_pages):
        self.pull("small/replica", 1)
        self.fill(free_pages)
        done = harness.run(*self.pull_arguments("small/replica", version), "--json", expect=None)
        if done.returncode != 0:
            self.assertIn(str(self.small), runs.assert_one_line(self, done, 6))
            self.assert_replica("small/replica", self.step(OLD, "fp8"))
        self.make_room()
        self.pull("small/replica", version)
        self.assert_replica("small/replica", checkpoint)
        return done.returncode

    def test_a_full_disk_leaves_a_checkpoint_that_is_patched_in_place_as_it_was(self):
        changed, patch = self.changed_files(), self.dir / "p"
        harness.run("diff", self.step(OLD, "fp8"), changed, "-o", patch)
        target = self.small / "checkpoint"
        done = set()
        for free_pages in range(14):
            with self.subTest(free_pages=free_pages):
                tampering.copy(self.step(OLD, "fp8"), target)
                self.fill(free_pages)
                code = harness.run("apply", patch, target, expect=None).returncode
                if code != 0:
                    harness.assert_same_files(target, self.step(OLD, "fp8"))
                    self.make_room()
                    harness.run("apply", patch, target)
                harness.assert_same_files(target, changed)
                self.assertFalse((target / ".isthmus").exists())
                self.ballast.unlink(missing_ok=True)
                shutil.rmtree(target)
                done.add(code)
        self.assertEqual(done, {0, 6})

    def test_a_baseline_that_cannot_follow_is_a_note_and_the_next_publish_works(self):
        self.baseline = self.small / "baseline"
        self.publish_steps(OLD)
        noted = 0
        for free_pages in range(10):
            with self.subTest(free_pages=free_pages):
                step = OLD if free_pages % 2 else NEW
                noted += self.check_baseline_on_full_disk(self.step(step, "fp8"), free_pages)
        self.assertGreater(noted, 0)
        self.pull("replica")
        self.assert_replica("replica", self.step(OLD, "fp8"))

    def check_baseline_on_full_disk(self, checkpoint, free_pages):
        """Returns whether the publish succeeded with a note."""
        head = self.head()
        self.fill(free_pages)
        done = harness.run(*self.publish_arguments(checkpoint), "--json", expect=None)
        self.make_room()
        self.assertEqual(self.head(), head + (done.returncode == 0))
        if done.returncode != 0:
            self.assertIn(str(self.small), runs.assert_one_line(self, done, 6))
            self.publish(checkpoint)
            return False
        self.assertEqual(self.publish(checkpoint)["changed"], 0)
        self.assert_replica("small/baseline", checkpoint)
        return "the baseline could not follow" in done.stderr

    def test_what_finds_no_room_for_its_output_leaves_nothing(self):
        patch = self.dir / "p"
        harness.run("diff", self.step(OLD, "fp8"), self.step(NEW, "fp8"), "-o", patch)
        for free_pages, arguments in (
                (0, ["diff", self.step(OLD, "fp8"), self.step(NEW, "fp8"), "-o", self.small / "p"]),
                (30, ["apply", patch, self.step(OLD, "fp8"), "-o", self.small / "out"])):
            with self.subTest(command=arguments[0]):
                self.fill(free_pages)
                self.refused_for_want_of_room(arguments)
                self.assertEqual(os.listdir(self.small), ["ballast"])
                self.make_room()
                harness.run(*arguments)
                shutil.rmtree(self.small / "out", ignore_errors=True)
                (self.small / "p").unlink(missing_ok=True)

    def test_verifying_a_board_without_room_for_its_parts_is_no_finding(self):
        self.publish_steps(OLD)
        self.fill(2)
        done = runs.run_with({"TMPDIR": str(self.small)}, "verify", *self.run_options, "--deep",
                             "--json")
        self.assertIn(str(self.small), runs.assert_one_line(self, done, 6))
        self.assertEqual(os.listdir(self.small), ["ballast"])


class ReadOnlyTest(mounts.MountTest):
    def test_a_read_only_board_can_be_read_and_not_written(self):
        self.use_board(self.small / "board")
        harness.run("board", "init", self.board)
        self.publish_steps(OLD, NEW)
        self.read_only()
        harness.run("log", *self.run_options)
        harness.run("inspect", self.board)
        harness.run("verify", *self.run_options, "--deep")
        self.pull("replica")
        self.assert_replica("replica", self.step(NEW, "fp8"))
        for baseline in (self.baseline, self.dir / "other"):
            self.check_refused(self.publish_arguments(self.step(OLD, "fp8"), baseline))
            self.assert_replica(baseline.name, self.step(NEW, "fp8"))
        self.assertEqual(self.head(), 2)

    def check_refused(self, arguments):
        done = harness.run(*arguments, "--json", expect=None)
        self.assertIn(done.returncode, READ_ONLY)
        self.assertIn(str(self.small), runs.assert_one_line(self, done, done.returncode))

    def test_a_read_only_replica_or_baseline_can_be_verified_and_not_changed(self):
        self.baseline = self.small / "baseline"
        self.publish_steps(OLD, NEW)
        self.pull("small/replica", 1)
        self.read_only()
        self.check_refused(self.pull_arguments("small/replica"))
        self.check_refused(self.publish_arguments(self.step(OLD, "fp8")))
        self.assertEqual(self.head(), 2)
        self.assert_replica("small/replica", self.step(OLD, "fp8"))
        harness.run("inspect", self.small / "replica")

    def test_a_read_only_checkpoint_can_be_read_and_not_patched_in_place(self):
        old, new = (tampering.copy(self.step(step, "fp8"), self.small / str(step))
                    for step in (OLD, NEW))
        self.read_only()
        patch = self.dir / "p"
        harness.run("diff", old, new, "-o", patch)
        harness.run("verify", old, "--against", old)
        harness.run("apply", patch, old, "-o", self.dir / "out")
        harness.assert_same_files(self.dir / "out", new)
        self.publish(old)
        self.assertEqual(self.publish(new)["changed"], 81)
        before = tampering.snapshot(self.small)
        self.check_refused(["apply", patch, old])
        self.check_refused(["diff", old, new, "-o", self.small / "p"])
        self.assertEqual(tampering.snapshot(self.small), before)


class LimitsTest(runs.RunTest):
    """What needs no mount."""

    def limited(self, file_bytes, *arguments):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        return runs.run_with({}, *arguments, "--json", preexec_fn=limit)

    def test_a_limit_on_the_size_of_files_leaves_replica_and_board_as_they_were(self):
        self.publish_steps(OLD, NEW)
        for pulled in ("new", "replica"):
            message = runs.assert_one_line(
                self, self.limited(100_000, *self.pull_arguments(pulled, 1)), 6)
            self.assertIn(str(self.dir / pulled), message)
            self.pull(pulled, 1)
        done = self.limited(100, *self.pull_arguments("replica", 2))
        self.assertIn(str(self.dir / "replica"), runs.assert_one_line(self, done, 6))
        self.assert_replica("replica", self.step(OLD, "fp8"))
        other = ["publish", self.step(OLD, "fp8"), "--board", self.board, "--run", "s",
                 "--baseline", self.dir / "s"]
        self.assertIn(str(self.board), runs.assert_one_line(self, self.limited(100_000, *other), 6))
        self.assertEqual(self.head("s"), 0)
        self.assertEqual(tampering.unnamed_objects(self.board, "s"), [])
        harness.run(*other)

    def test_output_that_cannot_be_written_is_a_failure(self):
        self.publish_steps(OLD)
        for arguments in (["log", *self.run_options], ["inspect", "--build", "--json"],
                          ["completion", "bash"], ["--help"]):
            with self.subTest(command=arguments[0]), open("/dev/full", "wb") as full:
                done = subprocess.run([harness.PROGRAM, *map(str, arguments)], stdout=full,
                                      stderr=subprocess.PIPE, env=harness.ENVIRONMENT, check=False)
                self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    mounts.enter_namespace()
    unittest.main()
