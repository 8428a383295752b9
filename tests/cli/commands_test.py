"""What every command prints, as text and as JSON, with real checkpoints; what it exits with."""

import collections
import itertools
import json
import os
import re
import unittest

import harness
import runs
import tampering

TRUTHS = json.loads((harness.ROOT / "testdata" / "truths.json").read_text())

# What differs from run to run, or with the release of zstd. Spaces before it may vary with it.
PLACEHOLDERS = {
    "<time>": r"(?:\d+ ms|\d+\.\d\d s)",
    "<age>": r"\d+ s",
    "<size>": r"(?:\d+ B|[\d.]+ [kMGT]B)",
    "<number>": r"[\d,]+(?:\.\d+)?",
    "<uuid>": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "<digest>": r"sha256:[0-9a-f]{64}",
    "<hex>": r"[0-9a-f]{32}",
    "<word>": r"\S+",
    "<list>": r"\S+(?:, \S+)*",
    "<pad>": "",
}


def pattern_of(template):
    pattern = re.escape(template)
    for name, expression in PLACEHOLDERS.items():
        pattern = re.sub(r"(\\ )+" + name, lambda _, e=expression: r"\ +" + e, pattern)
        pattern = pattern.replace(name, expression)
    return pattern


class CommandsTest(harness.CheckpointTest):
    def setUp(self):
        super().setUp()
        self.board = self.dir / "board"
        self.run_options = ["--board", self.board, "--run", "r"]

    def assert_prints(self, arguments, *lines, expect=0):
        """Standard output is exactly these lines; standard error, no terminal here, is empty."""
        done = harness.run(*arguments, expect=expect)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"\A" + pattern_of("\n".join(lines) + "\n") + r"\Z")

    def assert_has_keys(self, found, keys):
        self.assertLessEqual(set(keys.split()), set(found))

    def diff(self, old=37, new=38, view="fp8"):
        patch = self.dir / "step.patch"
        harness.run("diff", self.step(old, view), self.step(new, view), "-o", patch)
        return patch

    def publish(self, *steps, view="bf16"):
        harness.run("board", "init", self.board)
        for step in steps:
            harness.run("publish", self.step(step, view), *self.run_options, "--step", step,
                        "--baseline", self.dir / "baseline")

    def test_diff_counts_every_changed_element_of_the_real_steps(self):
        for view, truth in TRUTHS.items():
            for pair in truth["pairs"]:
                with self.subTest(view=view, pair=(pair["from"], pair["to"])):
                    self.check_counts(view, truth, pair)

    def check_counts(self, view, truth, pair):
        patch = self.dir / f"{view}-{pair['from']}-{pair['to']}.patch"
        new = self.step(pair["to"], view)
        found = harness.run_json("diff", self.step(pair["from"], view), new, "-o", patch)
        self.assert_has_keys(found, "elements changed density checkpoint_bytes patch_bytes ratio "
                             "bits_per_change seconds encodings")
        for key, expected in (("elements", truth["elements"]), ("changed", pair["changed"]),
                              ("tensors_changed", pair["tensors_changed"]),
                              ("patch_bytes", patch.stat().st_size),
                              ("checkpoint_bytes", sum(f.stat().st_size for f in new.iterdir()))):
            self.assertEqual(found[key], expected, key)
        self.assertAlmostEqual(found["density"], pair["changed"] / truth["elements"])
        self.assertAlmostEqual(found["ratio"], found["checkpoint_bytes"] / found["patch_bytes"])
        self.assertAlmostEqual(found["bits_per_change"],
                               8 * found["patch_bytes"] / found["changed"])
        inside = harness.run_json("inspect", patch)
        self.assertEqual({item["name"]: item["changed"] for item in inside["tensors"]},
                         {name: n for name, n in pair["changed_by_tensor"].items() if n > 0})
        self.assertEqual(collections.Counter(item["encoding"] for item in inside["chunks"]),
                         found["encodings"])

    def test_diff_prints_what_changed(self):
        self.assert_prints(
            ["diff", self.step(37, "fp8"), self.step(38, "fp8"), "-o", self.dir / "p",
             "--encoding", "direct"],
            "changed     81 of 294,930 elements (0.0275 %) in 2 tensors",
            "patch       <size>, <number> x smaller than the checkpoint (296 kB)",
            "per change  <number> bits", "encoding    direct (1 chunks)", "time        <time>")

    def test_every_encoding_applies_to_the_same_checkpoint(self):
        old, new = self.step(37, "fp8"), self.step(38, "fp8")
        for encoding in ("auto", "context", "direct", "xor", "raw"):
            patch, out = self.dir / f"{encoding}.patch", self.dir / encoding
            found = harness.run_json("diff", old, new, "-o", patch, "--encoding", encoding)
            if encoding != "auto":
                self.assertEqual(found["encodings"], {encoding: 1})  # both share a pool
            harness.run("apply", patch, old, "-o", out)
            harness.assert_same_files(out, new)

    def test_diff_of_what_no_patch_can_join_says_why_and_writes_nothing(self):
        patch = self.dir / "p"
        runs.refused(self, 2, ["diff", self.step(37, "fp8"), self.step(37), "-o", patch],
                     self.step(37), "is gone")
        runs.refused(self, 3, ["diff", self.dir / "nowhere", self.step(37), "-o", patch],
                     self.dir / "nowhere")
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_diff_does_not_put_its_patch_in_the_place_of_a_device_or_pipe(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        runs.refused(self, 2, ["diff", self.step(37, "fp8"), self.step(38, "fp8"), "-o", pipe],
                     pipe)
        self.assertTrue(pipe.is_fifo())

    def test_apply_in_place_leaves_the_new_checkpoint_and_nothing_else(self):
        target = tampering.copy(self.step(37), self.dir / "target")
        self.assert_prints(["apply", self.diff(view="bf16"), target],
                           "changed   37,222 elements in 30 tensors", "verified  37 tensors",
                           "time      <time>")
        harness.assert_same_files(target, self.step(38))
        self.assertFalse((target / ".isthmus").exists())

    def test_apply_into_a_new_directory_changes_only_that(self):
        patch, out = self.diff(), self.dir / "out"
        found = harness.run_json("apply", patch, self.step(37, "fp8"), "-o", out)
        self.assert_has_keys(found, "tensors changed verified seconds")
        self.assertEqual((found["tensors"], found["changed"], found["verified"]), (2, 81, 4))
        harness.assert_same_files(out, self.step(38, "fp8"))
        runs.refused(self, 4, ["apply", patch, self.step(37, "fp8"), "-o", out], out)
        self.assertEqual({path.name for path in self.dir.iterdir()}, {"step.patch", "out"})

    def test_verify_against_another_checkpoint_names_every_difference(self):
        new, old = self.step(38, "fp8"), self.step(37, "fp8")
        self.assert_prints(["verify", new, "--against", new], "ok")
        self.assert_prints(["verify", new, "--against", old],
                           *(f"tensor encoder.layer.0.attention.self.{name}.weight differs: "
                             "<hex>, expected <hex>" for name in ("key", "query")), expect=5)
        found = harness.run_json("verify", new, "--against", old, expect=5)
        self.assertEqual((found["ok"], len(found["problems"])), (False, 2))
        self.assertEqual(harness.run_json("verify", old, "--against", old),
                         {"ok": True, "problems": []})

    def test_board_init_makes_one_board(self):
        self.assert_prints(["board", "init", self.board], "board  <uuid>", f"at     {self.board}")
        runs.refused(self, 4, ["board", "init", self.board], self.board)
        found = harness.run_json("board", "init", self.dir / "other" / "deep")
        self.assert_has_keys(found, "board format")
        shown = harness.run_json("inspect", self.dir / "other" / "deep")
        self.assertEqual(shown, {"kind": "board", "board": found["board"], "runs": []})

    def test_publish_prints_the_version_and_what_it_costs(self):
        self.publish()
        options = [*self.run_options, "--baseline", self.dir / "baseline"]
        self.assert_prints(["publish", self.step(37), *options], "version   1 of run r",
                           "payload   anchor, 10.6 MB: first version of the run",
                           f"baseline  {self.dir}/baseline", "time      <time>")
        self.assert_prints(["publish", self.step(38), *options], "version   2 of run r",
                           "changed   37,222 of 5,283,072 elements (0.7046 %)",
                           "payload   patch, <size> of 10.6 MB",
                           f"baseline  {self.dir}/baseline", "time      <time>")
        found = harness.run_json("publish", self.step(39), *options)
        self.assert_has_keys(found, "run version parent changed density payload_bytes "
                             "checkpoint_bytes seconds")
        self.assertEqual([found[key] for key in ("run", "version", "parent", "changed")],
                         ["r", 3, 2, 37424])

    def test_pull_prints_the_chain(self):
        self.publish(37, 38)
        options = [*self.run_options, "--replica", self.dir / "replica"]
        self.assert_prints(["pull", *options], "version  2 of run r", "from     nothing",
                           "chain    anchor 1, patch 2", "fetched  10.6 MB", "time     <time>")
        self.assert_prints(["pull", *options], "version  2 of run r", "from     version 2",
                           "chain    already there", "fetched  0 B", "time     <time>")
        found = harness.run_json("pull", *options, "--version", 1)
        self.assert_has_keys(found, "run version from chain fetched_bytes seconds")
        self.assertEqual([found[key] for key in ("run", "version", "from", "chain")],
                         ["r", 1, 2, ["anchor 1"]])
        harness.assert_same_files(self.dir / "replica", self.step(37))

    def test_log_lists_the_newest_version_first(self):
        self.publish(37, 38)
        harness.run("publish", self.step(38), *self.run_options, "--baseline", self.dir / "other")
        self.assert_prints(["log", *self.run_options],
                           "version  step    kind  payload  changed   density<pad>  age",
                           "3               patch      0 B        0  0.0000 %  <age>",
                           "2          38   patch  <size>   37,222  0.7046 %  <age>",
                           "1          37  anchor  10.6 MB                     <age>")
        versions = harness.run_json("log", *self.run_options)["versions"]
        self.assertEqual([item["version"] for item in versions], [3, 2, 1])
        self.assertEqual([item["parent"] for item in versions], [2, 1, None])
        self.assertEqual([item.get("step") for item in versions], [None, 38, 37])
        for newer, older in itertools.pairwise(versions):
            self.assertGreaterEqual(newer["created_at"], older["created_at"])

    def test_a_revoked_version_is_marked_and_passed_by(self):
        self.publish(37, 38)
        revoke = ["board", "revoke", 2, *self.run_options]
        self.assert_prints([*revoke, "--reason", "NaN"], "revoked  version 2 of run r")
        self.assertEqual(harness.run_json(*revoke), {"run": "r", "version": 2})
        log = harness.run_json("log", *self.run_options)["versions"]
        self.assertEqual([entry["revoked"] for entry in log], [True, False])
        self.assertIn("patch, revoked", harness.run("log", *self.run_options).stdout)
        pulled = harness.run_json("pull", *self.run_options, "--replica", self.dir / "replica")
        self.assertEqual(pulled["version"], 1)
        harness.run("board", "revoke", 3, *self.run_options, expect=3)

    def test_verify_finds_replica_and_board_in_order(self):
        self.publish(37, 38, view="fp8")
        harness.run("pull", *self.run_options, "--replica", self.dir / "replica")
        self.assert_prints(["verify", "--replica", self.dir / "replica"], "ok")
        self.assert_prints(["verify", *self.run_options], "ok")
        self.assert_prints(["verify", *self.run_options, "--deep"], "ok")

    def test_what_is_not_there_is_not_found(self):
        self.publish(37, view="fp8")
        nowhere, other = self.dir / "nowhere", ["--board", self.board, "--run", "other"]
        for arguments in (["log", *other], ["verify", *other], ["pull", *other, "--replica",
                          nowhere], ["verify", "--replica", nowhere], ["inspect", nowhere],
                          ["log", "--board", nowhere, "--run", "r"],
                          ["apply", nowhere, self.step(37)],
                          ["pull", *self.run_options, "--replica", nowhere, "--version", 2],
                          ["publish", nowhere, *self.run_options, "--baseline", self.dir / "b"]):
            with self.subTest(command=arguments[0]):
                runs.refused(self, 3, arguments)

    def test_inspect_shows_a_patch_and_a_checkpoint(self):
        self.assert_prints(
            ["inspect", self.diff()], "patch, <size>", "base    <digest>", "target  <digest>",
            "chunks  1 context, <number> bytes", "models  1",
            "changed 81 units, <number> bits of payload each",
            "tensor                                         dtype      shape  changed",
            "encoder.layer.0.attention.self.key.weight    F8_E4M3  [384,384]       46",
            "encoder.layer.0.attention.self.query.weight  F8_E4M3  [384,384]       35")
        done = harness.run("inspect", self.step(37, "fp8")).stdout.splitlines()
        self.assertEqual(done[0], "checkpoint, 296 kB, 4 tensors in 2 shards")
        self.assertRegex(done[1], pattern_of("digest  <digest>"))
        self.assertEqual(done[3].split(), ["encoder.layer.0.attention.self.key.weight", "F8_E4M3",
                                           "[384,384]", "147,456",
                                           "model-00002-of-00002.safetensors"])

    def test_inspect_lists_the_chunks_and_models_of_a_patch(self):
        found = harness.run_json("inspect", self.diff())
        self.assertEqual(found["models"], 1)
        self.assertEqual(len(found["chunks"]), 1)
        chunk = found["chunks"][0]
        self.assertEqual({key: chunk[key] for key in ("number", "encoding", "model")},
                         {"number": 0, "encoding": "context", "model": 0})
        self.assertGreater(chunk["classes"], 1)
        for tensor in found["tensors"]:
            self.assertRegex(tensor["sum_change"], r"\A[0-9a-f]{16}\Z")

    def test_inspect_shows_a_board_a_replica_a_manifest_and_the_build(self):
        self.publish(37, 38, view="fp8")
        harness.run("pull", *self.run_options, "--replica", self.dir / "replica")
        entry = self.board / "runs" / "r" / "log" / "0000000002.json"
        self.assert_prints(["inspect", self.board], "board <uuid>", "run  versions",
                           "r           2")
        self.assert_prints(["inspect", self.dir / "replica"], "replica at version 2 of run r",
                           "board   <uuid>", "digest  <digest>")
        self.assert_prints(["inspect", entry], "manifest      version 2 of run r",
                           "digest        <digest>", "view          f8_e4m3",
                           "changed       81 of 294,930",
                           "patch from 1  <size> in 1 objects, <word>")
        self.assert_prints(["inspect", "--build"], "version       <word>", "compiler      <word>",
                           "SIMD          <word> of <list>", "part format   1.0", "board format  1")

    def test_inspect_says_in_json_what_kind_it_shows(self):
        self.publish(37, view="fp8")
        harness.run("pull", *self.run_options, "--replica", self.dir / "replica")
        entry = self.board / "runs" / "r" / "log" / "0000000001.json"
        for kind, argument in (("patch", self.diff()), ("checkpoint", self.step(37, "fp8")),
                               ("board", self.board), ("replica", self.dir / "replica"),
                               ("manifest", entry), ("build", "--build")):
            self.assertEqual(harness.run_json("inspect", argument)["kind"], kind)


if __name__ == "__main__":
    unittest.main()
