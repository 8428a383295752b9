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

    def test_publish_refuses_a_checkpoint_in_the_place_of_its_baseline(self):
        board = self.make_board()
        options = ["--board", board, "--run", "r", "--baseline"]
        harness.run("publish", self.step(37), *options, self.dir / "baseline")
        shutil.copytree(self.step(38), self.dir / "baseline" / "inner")
        for checkpoint, baseline in ((self.dir / "baseline", self.dir / "baseline"),
                                     (self.dir / "baseline" / "inner", self.dir / "baseline"),
                                     (self.old, self.old / "below")):
            harness.run("publish", checkpoint, *options, baseline, expect=2)
        harness.assert_same_files(self.dir / "baseline" / "inner", self.step(38))
        harness.assert_same_files(self.old, self.step(37))
        self.assertFalse((self.old / "below").exists())

    def test_board_init_refuses_a_place_that_holds_anything_else(self):
        harness.run("board", "init", self.old, expect=2)
        harness.assert_same_files(self.old, self.step(37))

    def test_pulling_the_version_held_repairs_what_was_damaged(self):
        board = self.make_board()
        harness.run("publish", self.step(37), "--board", board, "--run", "r", "--baseline",
                    self.dir / "baseline")
        replica = self.dir / "replica"
        pull = ["pull", "--board", board, "--run", "r", "--replica", replica]
        harness.run(*pull)
        (replica / "config.json").unlink()
        shard = replica / "model-00001-of-00002.safetensors"
        content = bytearray(shard.read_bytes())
        content[-1] ^= 1
        shard.write_bytes(content)
        found = harness.run_json("verify", "--replica", replica, expect=5)
        self.assertEqual(len(found["problems"]), 2, found)
        self.assertIn("rebuilt", harness.run(*pull).stderr)
        harness.assert_same_files(replica, self.step(37))
        self.assertEqual(harness.run_json(*pull)["chain"], [])

    def test_a_pull_of_what_does_not_exist_makes_no_replica(self):
        board = self.make_board()
        harness.run("publish", self.step(37), "--board", board, "--run", "r", "--baseline",
                    self.dir / "baseline")
        for run, version in (("r", 99), ("other", "latest"), ("other", 1)):
            harness.run("pull", "--board", board, "--run", run, "--version", version, "--replica",
                        self.dir / "none", expect=3)
        self.assertFalse((self.dir / "none").exists())

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
