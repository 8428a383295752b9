"""Publishing and pulling through the program: what becomes an anchor, what a patch carries, what
happens to baselines and replicas that are not what they should be."""

import json
import os
import shutil
import unittest

import harness
import runs
import tampering

QUERY = "encoder.layer.0.attention.self.query.weight"
SHARD = "model-00001-of-00002.safetensors"  # holds it
REBUILT = "the baseline was damaged and has been rebuilt from the board"


class VersionsTest(runs.RunTest):
    def changed(self, change, step=38, name="changed"):
        """A checkpoint that differs from the real step by `change` of its shards."""
        checkpoint = tampering.copy(self.step(step, "fp8"), self.dir / name)
        shards = tampering.read_shards(checkpoint)
        change(shards)
        tampering.write_shards(checkpoint, shards)
        return checkpoint

    def test_every_version_is_pulled_from_every_other_and_from_nothing(self):
        steps = (37, 38, 39, 40)
        self.start_with(*steps)
        for version in (1, 2, 3, 4):
            self.assertIsNone(self.pull(f"fresh-{version}", version)["from"])
            self.assert_replica(f"fresh-{version}", self.step(steps[version - 1], "fp8"))
        held = 4
        # A walk along all sixteen pairs.
        for version in (4, 1, 1, 2, 2, 3, 3, 4, 2, 4, 3, 1, 3, 2, 1, 4):
            with self.subTest(held=held, version=version):
                found = self.pull("fresh-4", version)
                self.assertEqual((found["from"], found["version"]), (held, version))
                self.assertEqual(found["chain"] == [], held == version)
                harness.assert_same_files(self.dir / "fresh-4",
                                          self.step(steps[version - 1], "fp8"))
            held = version

    def test_a_replica_holds_the_checkpoint_and_a_hidden_directory(self):
        self.publish_steps(37, 38, view="bf16")
        self.assertEqual(self.pull("replica")["chain"], ["anchor 1", "patch 2"])
        self.assert_replica("replica", self.step(38))
        self.assertEqual({p.name for p in (self.dir / "replica").iterdir()} -
                         {p.name for p in self.step(38).iterdir()}, {".isthmus"})

    def test_a_directory_with_foreign_files_is_refused_and_not_touched(self):
        self.start_with(37, 38)
        foreign = tampering.copy(self.step(37, "fp8"), self.dir / "foreign")
        before = tampering.snapshot(foreign)
        runs.refused(self, 2, self.pull_arguments("foreign"), foreign)
        self.assertEqual(tampering.snapshot(foreign), before)
        self.assertFalse((foreign / ".isthmus").exists())
        runs.refused(self, 2, self.pull_arguments("foreign/config.json"), "config.json")

    def test_a_replica_of_another_run_or_board_is_refused(self):
        self.start_with(37)
        self.pull("replica")
        before = tampering.snapshot(self.dir / "replica")
        other = self.make_board("other")
        for board, run in ((self.board, "s"), (other, "r")):
            harness.run("publish", self.step(38, "fp8"), "--board", board, "--run", run,
                        "--baseline", self.dir / f"baseline-{board.name}-{run}")
            runs.refused(self, 2, ["pull", "--board", board, "--run", run, "--replica",
                                   self.dir / "replica"], self.dir / "replica", "run r")
        self.assertEqual(tampering.snapshot(self.dir / "replica"), before)

    def test_a_baseline_of_another_run_is_refused_before_anything_is_published(self):
        self.start_with(37)
        runs.refused(self, 2, ["publish", self.step(38, "fp8"), "--board", self.board, "--run",
                               "s", "--baseline", self.baseline], self.baseline)
        self.assertEqual(self.head("s"), 0)
        self.publish_steps(38)

    def check_anchor(self, change, reason):
        """Publishing step 38 with this change makes an anchor, says why, and pulls."""
        self.start_with(37)
        checkpoint = self.changed(change)
        found = self.publish(checkpoint)
        self.assertEqual((found["kind"], found["anchor_reason"]), ("anchor", reason))
        self.pull("replica", 1)
        self.assertEqual(self.pull("replica", 2)["chain"], ["anchor 2"])
        self.assert_replica("replica", checkpoint)
        self.publish(checkpoint)
        self.assert_replica("baseline", checkpoint)

    def test_a_lost_tensor_makes_an_anchor(self):
        self.check_anchor(lambda shards: shards[SHARD].tensors.pop(QUERY),
                          f"tensor {QUERY} is gone")

    def test_a_new_tensor_makes_an_anchor(self):
        self.check_anchor(lambda shards: shards[SHARD].tensors.update(
            new=tampering.Tensor("U8", [2], b"ab")), "tensor new is new")

    def test_a_changed_dtype_makes_an_anchor(self):
        self.check_anchor(lambda shards: setattr(shards[SHARD].tensors[QUERY], "dtype", "F8_E5M2"),
                          f"tensor {QUERY} changed dtype from F8_E4M3 to F8_E5M2")

    def test_a_changed_shape_makes_an_anchor(self):
        self.check_anchor(lambda shards: setattr(shards[SHARD].tensors[QUERY], "shape", [192, 768]),
                          f"tensor {QUERY} changed shape")

    def test_a_longer_header_makes_an_anchor(self):
        self.check_anchor(lambda shards: shards[SHARD].metadata.update(note="x" * 100),
                          f"the header of shard {SHARD} changed its length")

    def test_other_shards_make_an_anchor(self):
        self.start_with(37)
        merged = tampering.merge_shards(self.step(39, "fp8"), self.dir / "merged")
        found = self.publish(merged)
        self.assertRegex(found["anchor_reason"], r"^2 shards became 1$")
        for version, checkpoint in ((1, self.step(37, "fp8")), (2, merged),
                                    (1, self.step(37, "fp8"))):
            self.pull("replica", version)
            self.assert_replica("replica", checkpoint)

    def test_an_unchanged_checkpoint_is_an_empty_version(self):
        self.start_with(37)
        found = self.publish(self.step(37, "fp8"))
        self.assertEqual([found[key] for key in ("version", "kind", "changed", "payload_bytes")],
                         [2, "patch", 0, 0])
        self.pull("replica", 1)
        found = self.pull("replica", 2)
        self.assertEqual((found["chain"], found["fetched_bytes"]), (["patch 2"], 0))
        self.assert_replica("replica", self.step(37, "fp8"))
        self.pull("fresh", 2)
        self.assert_replica("fresh", self.step(37, "fp8"))

    def test_files_that_change_come_and_go_travel_in_the_patch(self):
        first = tampering.copy(self.step(37, "fp8"), self.dir / "first")
        (first / "merges.txt").write_text("a b\n")
        (first / "only" / "here").mkdir(parents=True)
        (first / "only" / "here" / "x.json").write_text("{}")
        second = tampering.copy(self.step(38, "fp8"), self.dir / "second")
        (second / "config.json").write_text('{"hidden_size": 1}')
        (second / "Tokenizer (neu) ü.json").write_text('{"vocab": {}}')
        (second / "onnx").mkdir()
        (second / "onnx" / "model.onnx").write_bytes(bytes(range(256)))
        self.publish(first)
        self.assertEqual(self.publish(second)["kind"], "patch")
        for version, checkpoint in ((1, first), (2, second), (1, first), (2, second)):
            self.pull("replica", version)
            self.assert_replica("replica", checkpoint)
        self.assertFalse((self.dir / "replica" / "only").exists())
        key, = tampering.part_keys(self.board, "r", 2)
        files = harness.run_json("inspect", self.board / key)["files"]
        self.assertEqual({item["path"]: item["kind"] for item in files},
                         {"config.json": "content", "Tokenizer (neu) ü.json": "content",
                          "onnx/model.onnx": "content", "merges.txt": "removed",
                          "only/here/x.json": "removed"})

    def test_metadata_of_the_same_length_travels_in_the_patch(self):
        def note(text):
            return lambda shards: shards[SHARD].metadata.update(step=text)
        first, second = self.changed(note("37"), 37, "a"), self.changed(note("38"), 38, "b")
        self.publish(first)
        self.assertEqual(self.publish(second)["kind"], "patch")
        self.pull("replica", 1)
        self.assertEqual(self.pull("replica", 2)["chain"], ["patch 2"])
        self.assert_replica("replica", second)

    def test_step_and_meta_are_kept_in_the_log(self):
        self.publish(self.step(37, "fp8"), "--step", -3, "--meta", "a=1=2", "--meta", "b=")
        entry = tampering.read_entry(self.board, "r", 1)
        self.assertEqual((entry["step"], entry["meta"]), (-3, {"a": "1=2", "b": ""}))

    def check_rebuilt(self, *notes):
        """Publishing step 39 says these notes, and the patch is right for who follows."""
        done = harness.run(*self.publish_arguments(self.step(39, "fp8")), "--json")
        self.assertEqual(done.stderr.splitlines(), [f"isthmus: note: {note}" for note in notes])
        found = json.loads(done.stdout)
        self.assertEqual((found["kind"], found["changed"]), ("patch", 84))
        self.pull("replica", 2)
        self.pull("replica", 3)
        self.assert_replica("replica", self.step(39, "fp8"))
        self.assert_replica("baseline", self.step(39, "fp8"))

    def test_a_baseline_with_altered_bytes_is_noticed_and_rebuilt(self):
        for file, position in ((SHARD, 100_000), (SHARD, 50), ("config.json", 20)):
            with self.subTest(file=file, position=position):
                self.setUp()
                self.start_with(37, 38)
                tampering.flip_bit(self.baseline / file, position)
                self.check_rebuilt(REBUILT)

    def test_a_baseline_with_a_truncated_or_lost_file_is_rebuilt(self):
        self.start_with(37, 38)
        tampering.truncate(self.baseline / SHARD, 1000)
        self.check_rebuilt(REBUILT)
        (self.baseline / SHARD).unlink()
        self.publish_steps(40)
        self.assert_replica("baseline", self.step(40, "fp8"))

    def test_a_baseline_with_one_file_more_is_rebuilt(self):
        self.start_with(37, 38)
        (self.baseline / "notes.txt").write_text("a trainer's thoughts")
        self.check_rebuilt(REBUILT)

    def test_a_deleted_baseline_is_rebuilt(self):
        self.start_with(37, 38)
        shutil.rmtree(self.baseline)
        self.check_rebuilt()

    def test_a_baseline_whose_state_is_damaged_is_rebuilt(self):
        for damage in ("{", "", '{"format": 1}', "x" * 100_000):
            with self.subTest(damage=damage[:20]):
                self.setUp()
                self.start_with(37, 38)
                for name in ("state.json", "writer"):
                    (self.baseline / ".isthmus" / name).write_text(damage)
                self.check_rebuilt()

    def test_the_default_baseline_lies_in_the_cache_of_the_user(self):
        uuid = harness.run_json("inspect", self.board)["board"]
        for variables, cache in (({"XDG_CACHE_HOME": str(self.dir / "cache")}, "cache"),
                                 ({"XDG_CACHE_HOME": "", "HOME": str(self.dir)}, ".cache")):
            done = runs.run_with(variables, "publish", self.step(37, "fp8"), *self.run_options,
                                 "--json")
            baseline = self.dir / cache / "isthmus" / uuid / "r"
            self.assertEqual(json.loads(done.stdout)["baseline"], str(baseline))
            harness.assert_same_files(baseline, self.step(37, "fp8"))
        done = runs.run_with({"XDG_CACHE_HOME": "", "HOME": ""}, "publish", self.step(37, "fp8"),
                             *self.run_options, "--json")
        self.assertIn("baseline", runs.assert_one_line(self, done, 2))

    def test_a_file_too_large_for_patches_costs_an_anchor_only_when_it_changes(self):
        large = tampering.copy(self.step(37, "fp8"), self.dir / "large")
        with open(large / "big.bin", "wb") as file:
            file.truncate((256 << 20) + 1)
        harness.run("verify", large, "--against", large)
        patch = self.dir / "p"
        same = tampering.copy(self.step(38, "fp8"), self.dir / "same")
        os.link(large / "big.bin", same / "big.bin")
        harness.run("diff", large, same, "-o", patch)
        harness.run("apply", patch, large)
        harness.assert_same_files(large, same)
        refused = harness.run("diff", large, self.step(38, "fp8"), "-o", patch, expect=2)
        self.assertIn("big.bin differs and has 268435457 bytes", refused.stderr)


if __name__ == "__main__":
    unittest.main()
