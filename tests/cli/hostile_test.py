"""Damaged, foreign and newer input: refused with the right code, by name, with nothing changed."""

import json
import os
import random
import sys
import unittest

import harness
import runs
import tampering

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
QUERY = "encoder.layer.0.attention.self.query.weight"
FLIPS = 60


class DamagedInputTest(harness.CheckpointTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.checkpoint = tampering.copy(self.step(37, "fp8"), self.dir / "checkpoint")
        self.patch = self.dir / "step.patch"
        harness.run("diff", self.step(37, "fp8"), self.step(38, "fp8"), "-o", self.patch)

    def check_refused(self, code, *named):
        """Every command that reads a checkpoint refuses this one, names it, and changes nothing."""
        harness.run("board", "init", self.dir / "board")
        before = tampering.snapshot(self.checkpoint)
        out, good = self.dir / "out", self.step(37, "fp8")
        for arguments in (["inspect", self.checkpoint], ["diff", self.checkpoint, good, "-o", out],
                          ["diff", good, self.checkpoint, "-o", out],
                          ["verify", good, "--against", self.checkpoint],
                          ["apply", self.patch, self.checkpoint],
                          ["apply", self.patch, self.checkpoint, "-o", out],
                          ["publish", self.checkpoint, "--board", self.dir / "board", "--run",
                           "r", "--baseline", self.dir / "baseline"]):
            with self.subTest(command=arguments[0]):
                runs.refused(self, code, arguments, self.checkpoint, *named)
        self.assertFalse(out.exists())
        self.assertEqual(tampering.snapshot(self.checkpoint), before)
        harness.run("log", "--board", self.dir / "board", "--run", "r", expect=3)

    def change_index(self, change):
        path = self.checkpoint / tampering.INDEX
        index = json.loads(path.read_text())
        change(index["weight_map"])
        path.write_text(json.dumps(index))

    def test_an_index_that_names_a_missing_tensor_is_refused(self):
        self.change_index(lambda names: names.update(ghost=SHARDS[0]))
        self.check_refused(5, "ghost")

    def test_an_index_that_names_a_missing_shard_is_refused(self):
        self.change_index(lambda names: names.update({QUERY: "model-00003-of-00003.safetensors"}))
        self.check_refused(3, "model-00003-of-00003.safetensors")

    def test_a_lost_shard_is_refused(self):
        (self.checkpoint / SHARDS[1]).unlink()
        self.check_refused(3, SHARDS[1])

    def test_a_truncated_shard_is_refused(self):
        tampering.truncate(self.checkpoint / SHARDS[1], 100_000)
        self.check_refused(5, SHARDS[1])

    def test_a_patch_to_a_wrong_base_is_refused_before_anything_is_written(self):
        wrong = tampering.copy(self.step(39, "fp8"), self.dir / "wrong")
        before = tampering.snapshot(wrong)
        digests = [harness.run_json("inspect", self.patch)["base"],
                   harness.run_json("inspect", wrong)["digest"]]
        runs.refused(self, 5, ["apply", self.patch, wrong], self.patch, wrong, *digests)
        runs.refused(self, 5, ["apply", self.patch, wrong, "-o", self.dir / "out"], *digests)
        self.assertEqual(tampering.snapshot(wrong), before)
        self.assertFalse((wrong / ".isthmus").exists())
        self.assertFalse((self.dir / "out").exists())

    def test_damage_of_a_file_that_is_inspected_names_the_file(self):
        path = self.dir / "file"
        for content, code in ((self.patch.read_bytes()[:100], 5), (b'{"format": 1}', 5),
                              (b'{"format": 2}', 2), (b"{", 5), (b"", 2), (b"plain text\n", 2)):
            path.write_bytes(content)
            with self.subTest(content=content[:20]):
                runs.refused(self, code, ["inspect", path], path)

    def flip_bits(self, path, size, arguments, accept):
        """Runs the program with one bit of the path's first bytes flipped, then another; returns
        what went wrong, as text."""
        print(f"seed {SEED}", file=sys.stderr)
        problems = []
        for _ in range(FLIPS):
            position, bit = self.random.randrange(size), self.random.randrange(8)
            tampering.flip_bit(path, position, bit)
            done = harness.run(*arguments, expect=None)
            tampering.flip_bit(path, position, bit)
            if not accept(done):
                problems.append(f"byte {position}, bit {bit}: {done.returncode}, {done.stderr}")
        return problems

    def test_every_flipped_bit_of_a_patch_is_noticed_and_changes_nothing(self):
        def refused(done):
            harness.assert_same_files(self.checkpoint, self.step(37, "fp8"))
            return done.returncode in (2, 5) and str(self.patch) in done.stderr
        self.assertEqual(self.flip_bits(self.patch, self.patch.stat().st_size,
                                        ["apply", self.patch, self.checkpoint], refused), [])
        self.assertFalse((self.checkpoint / ".isthmus").exists())
        harness.run("apply", self.patch, self.checkpoint)

    def test_every_flipped_bit_of_a_shard_header_is_noticed(self):
        shard = self.checkpoint / SHARDS[0]
        header_bytes = 8 + int.from_bytes(shard.read_bytes()[:8], "little")
        arguments = ["verify", self.checkpoint, "--against", self.step(37, "fp8")]
        self.assertEqual(self.flip_bits(shard, header_bytes, arguments,
                                        lambda done: done.returncode in (2, 3, 5)), [])
        harness.run(*arguments)


class DamagedBoardTest(runs.RunTest):
    """A board with the steps 37, 38 and 39 as versions, and a replica at version 1."""

    def setUp(self):
        super().setUp()
        self.start_with(37, 38, 39)
        self.pull("replica", 1)

    def part(self, version, index=0):
        return self.board / tampering.part_keys(self.board, "r", version)[index]

    def check_pull_fails(self, code, version, *named, untouched=True):
        """The pull names the culprit, and the replica is still at version 1, verified. Its files
        were not even written, unless only the result could tell."""
        before = {name: seen for name, seen in tampering.snapshot(self.dir / "replica").items()
                  if not name.startswith(".")}
        runs.refused(self, code, self.pull_arguments("replica", version), *named)
        after = tampering.snapshot(self.dir / "replica")
        if untouched:
            self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(harness.run_json("inspect", self.dir / "replica")["version"], 1)
        self.assert_replica("replica", self.step(37, "fp8"))

    def test_a_board_of_a_newer_format_is_refused_with_what_this_program_reads(self):
        path = self.board / "board.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
        for arguments in (["log", *self.run_options], self.pull_arguments("replica"),
                          ["inspect", self.board], ["verify", *self.run_options],
                          self.publish_arguments(self.step(40, "fp8"))):
            runs.refused(self, 2, arguments, "board.json", "format 2", "reads 1")

    def test_a_log_entry_of_a_newer_format_is_refused_and_named(self):
        tampering.change_entry(self.board, "r", 3, format=2)
        self.check_pull_fails(2, 3, "log/0000000003.json", "format 2", "reads 1")
        self.assertEqual(self.pull("replica", 2)["version"], 2)

    def test_a_wrong_hint_of_the_newest_version_changes_nothing(self):
        hint = self.board / "runs" / "r" / "head.json"
        for text in ("", "{", "[]", '{"format":2,"version":3}', '{"format":1,"version":1}',
                     '{"format":1,"version":9}', '{"format":1,"version":-1}'):
            hint.write_text(text)
            self.assertEqual(self.head(), 3)
            self.assertEqual(self.pull("replica")["version"], 3)

    def test_a_damaged_log_entry_is_refused_and_named(self):
        payload = tampering.read_entry(self.board, "r", 1)["payloads"][0]
        outside = payload | {"parts": [payload["parts"][0] | {"path": "../outside"}]}
        hidden = payload | {"parts": [payload["parts"][0] | {"path": ".isthmus/state.json"}]}
        for key, value in (("version", 2), ("run", "other"), ("digest", "sha256:0"),
                           ("payloads", {}), ("payloads", [outside]), ("payloads", [hidden])):
            with self.subTest(key=key):
                entry = tampering.read_entry(self.board, "r", 3)
                tampering.change_entry(self.board, "r", 3, **{key: value})
                self.check_pull_fails(5, 3, "log/0000000003.json", key)
                tampering.change_entry(self.board, "r", 3, **entry)
        tampering.entry_path(self.board, "r", 3).write_text("{")
        self.check_pull_fails(5, 3, "log/0000000003.json")
        found = harness.run_json("verify", *self.run_options, expect=5)
        self.assertIn("log/0000000003.json", " ".join(found["problems"]))

    def test_a_log_entry_that_promises_another_digest_is_noticed(self):
        digest = tampering.read_entry(self.board, "r", 1)["digest"]
        tampering.change_entry(self.board, "r", 3, digest=digest)
        self.check_pull_fails(5, 3, digest, untouched=False)

    def test_a_truncated_part_is_refused_and_named(self):
        tampering.truncate(self.part(2), 100)
        for version in (2, 3):
            self.check_pull_fails(5, version, *tampering.part_keys(self.board, "r", 2))
        found = harness.run_json("verify", *self.run_options, expect=5)
        self.assertIn(str(self.part(2).name), " ".join(found["problems"]))

    def test_a_flipped_bit_in_a_part_is_refused_and_named(self):
        tampering.flip_bit(self.part(2), 200, 3)
        for version in (2, 3):
            self.check_pull_fails(5, version, *tampering.part_keys(self.board, "r", 2))
        harness.run("verify", *self.run_options)
        found = harness.run_json("verify", *self.run_options, "--deep", expect=5)
        self.assertIn(str(self.part(2).name), " ".join(found["problems"]))

    def test_a_damaged_anchor_leaves_nothing_in_a_new_replica(self):
        tampering.flip_bit(self.part(1), 100_000)
        key = tampering.part_keys(self.board, "r", 1)[0]
        runs.refused(self, 5, self.pull_arguments("new"), key)
        self.assertEqual(harness.visible_files(self.dir / "new"), [])

    def test_a_lost_part_fails_only_the_versions_that_need_it(self):
        shape = tampering.copy(self.step(40, "fp8"), self.dir / "shape")
        shards = tampering.read_shards(shape)
        shards[SHARDS[0]].tensors[QUERY].shape = [192, 768]
        tampering.write_shards(shape, shards)
        self.assertEqual(self.publish(shape)["kind"], "anchor")
        self.part(2).unlink()
        for version in (2, 3):
            self.check_pull_fails(3, version, *tampering.part_keys(self.board, "r", 2))
        self.assertEqual(self.pull("replica", 4)["chain"], ["anchor 4"])
        self.assert_replica("replica", shape)

    def test_another_chain_is_taken_if_a_part_is_lost_or_damaged(self):
        entry = tampering.read_entry(self.board, "r", 3)
        anchor = tampering.anchor_payload(self.board, "r", 3, self.step(39, "fp8"))
        tampering.change_entry(self.board, "r", 3, payloads=[*entry["payloads"], anchor])
        patch, stored = self.part(3), self.board / anchor["parts"][1]["key"]
        self.pull("replica", 2)
        for damaged, held, chain in ((patch, 2, ["anchor 3"]), (stored, 1, ["patch 2", "patch 3"])):
            self.pull("replica", held)
            content = damaged.read_bytes()
            tampering.flip_bit(damaged, len(content) // 2)
            done = harness.run(*self.pull_arguments("replica", 3), "--json")
            self.assertEqual(json.loads(done.stdout)["chain"], chain)
            self.assertIn(damaged.name, done.stderr)
            self.assert_replica("replica", self.step(39, "fp8"))
            damaged.write_bytes(content)

    def test_a_damaged_replica_is_rebuilt_by_the_next_pull(self):
        replica = self.dir / "replica"
        for damage in (lambda: tampering.flip_bit(replica / SHARDS[0], 100_000),
                       lambda: tampering.truncate(replica / SHARDS[1], 1000),
                       (replica / SHARDS[0]).unlink,
                       lambda: (replica / ".isthmus" / "state.json").write_text("{")):
            self.pull("replica", 1)
            damage()
            harness.run("verify", "--replica", replica, expect=5)
            self.assertEqual(self.pull("replica", 2)["chain"], ["anchor 1", "patch 2"])
            self.assert_replica("replica", self.step(38, "fp8"))

    def test_a_rebuilt_replica_keeps_no_file_of_the_version_it_held(self):
        first = tampering.copy(self.step(37, "fp8"), self.dir / "first")
        (first / "merges.txt").write_text("a b\n")
        for checkpoint in (first, self.step(38, "fp8")):
            harness.run("publish", checkpoint, "--board", self.board, "--run", "s", "--baseline",
                        self.dir / "baseline-s")
        pull = ["pull", "--board", self.board, "--run", "s", "--replica", self.dir / "s"]
        harness.run(*pull, "--version", 1)
        tampering.flip_bit(self.dir / "s" / SHARDS[0], 100_000)
        harness.run(*pull)
        self.assert_replica("s", self.step(38, "fp8"))

    def test_a_replica_that_lost_its_state_or_table_keeps_no_shard_of_the_version_it_held(self):
        merged = tampering.merge_shards(self.step(40, "fp8"), self.dir / "merged")
        self.publish(merged)
        control = self.dir / "replica" / ".isthmus"
        for damage in ((control / "state.json").unlink,
                       lambda: tampering.flip_bit(next(control.glob("*.table")), 300)):
            self.pull("replica", 1)
            damage()
            self.pull("replica", 4)
            self.assert_replica("replica", merged)


if __name__ == "__main__":
    unittest.main()
