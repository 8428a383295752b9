"""What the program may write to, and what it must leave alone."""

import os
import shutil
import subprocess
import unittest

import harness


class OwnershipTest(harness.CheckpointTest):
    def setUp(self):
        super().setUp()
        self.patch = self.dir / "step-38.patch"
        harness.run("diff", self.step(37), self.step(38), "-o", self.patch)
        self.old = self.dir / "old"
        shutil.copytree(self.step(37), self.old)

    def test_apply_in_place_refuses_shards_that_are_links_to_shared_files(self):
        links = self.dir / "links"
        links.mkdir()
        for name in harness.visible_files(self.old):
            (links / name).symlink_to(self.old / name)
        done = harness.run("apply", self.patch, links, expect=2)
        self.assertIn("is a link", done.stderr)
        harness.assert_same_files(self.old, self.step(37))
        harness.run("apply", self.patch, links, "-o", self.dir / "new")
        harness.assert_same_files(self.dir / "new", self.step(38))

    def test_apply_in_place_refuses_shards_with_a_second_name(self):
        twin = self.dir / "twin"
        subprocess.run(["cp", "-rl", self.old, twin], check=True)
        harness.run("apply", self.patch, twin, expect=2)
        harness.assert_same_files(self.old, self.step(37))

    def test_apply_leaves_nothing_beside_the_result(self):
        harness.run("apply", self.patch, self.old)
        self.assertFalse((self.old / ".isthmus").exists())
        harness.run("apply", self.patch, self.old, expect=5)
        self.assertFalse((self.old / ".isthmus").exists())

    def test_pull_refuses_a_checkpoint_of_somebody_else_even_with_a_control_directory(self):
        board = self.make_board()
        harness.run("publish", self.step(37), "--board", board, "--run", "r", "--baseline",
                    self.dir / "baseline")
        (self.old / ".isthmus").mkdir()
        harness.run("pull", "--board", board, "--run", "r", "--replica", self.old, expect=2)
        harness.assert_same_files(self.old, self.step(37))

    def test_publish_and_diff_only_read_the_checkpoint(self):
        before = {name: os.stat(self.old / name).st_mtime_ns
                  for name in harness.visible_files(self.old)}
        board = self.make_board()
        harness.run("publish", self.old, "--board", board, "--run", "r", "--baseline",
                    self.dir / "baseline")
        harness.run("diff", self.old, self.step(38), "-o", self.dir / "again.patch")
        self.assertEqual(before, {name: os.stat(self.old / name).st_mtime_ns
                                  for name in harness.visible_files(self.old)})
        self.assertFalse((self.old / ".isthmus").exists())

    def test_meta_that_no_manifest_can_hold_is_refused_and_leaves_no_object(self):
        board = self.make_board()
        done = subprocess.run(
            [harness.PROGRAM, "publish", str(self.old), "--board", str(board), "--run", "r",
             "--baseline", str(self.dir / "baseline"), "--meta", b"a=\xff"],
            env=harness.ENVIRONMENT, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual([p for p in (board / "runs/r").rglob("*.safetensors")], [])
        self.assertFalse((board / "runs/r/log").exists())


if __name__ == "__main__":
    unittest.main()
