#!/usr/bin/env python3
"""The reference engine refuses, in one line, what is no checkpoint that it can compute."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import harness
import make_model

import checkpoint
import model

ENTRY = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
BROKEN_ENTRIES = {
    "no offsets": {"dtype": "BF16", "shape": [2, 3]},
    "an unknown dtype": {**ENTRY, "dtype": "I8"},
    "an unhashable dtype": {**ENTRY, "dtype": []},
    "a shape of text": {**ENTRY, "shape": ["2"]},
    "a negative shape": {**ENTRY, "shape": [-2, -3]},
    "a shape that is none": {**ENTRY, "shape": 6},
    "three offsets": {**ENTRY, "data_offsets": [0, 12, 24]},
    "offsets of text": {**ENTRY, "data_offsets": ["0", "12"]},
    "offsets in reverse": {**ENTRY, "data_offsets": [12, 0]},
    "a negative offset": {**ENTRY, "data_offsets": [-12, 0]},
    "an end behind the file": {**ENTRY, "data_offsets": [1, 13]},
    "too few bytes": {**ENTRY, "data_offsets": [0, 10]},
    "a huge shape": {**ENTRY, "shape": [1 << 40, 1 << 40]},
    "an entry that is none": 7,
}
BROKEN_FILES = {
    "an empty file": b"",
    "less than a length": b"\0" * 7,
    "a header longer than the file": struct.pack("<Q", 1 << 60) + b"{}",
    "a header that is no JSON": struct.pack("<Q", 2) + b"{{",
    "a header that is no object": struct.pack("<Q", 2) + b"[]",
}
BROKEN_INDEXES = {
    "no JSON": "{", "no object": "[]", "no map": "{}",
    "a path": '{"weight_map": {"a": "../a.safetensors"}}',
    "a number": '{"weight_map": {"a": 1}}',
    "an absent shard": '{"weight_map": {"a": "absent.safetensors"}}',
    "an absent tensor": '{"weight_map": {"b": "a.safetensors"}}',
}
REFUSED_MODELS = {
    "an unknown type": {"model_type": "mixtral"},
    "another activation": {"hidden_act": "gelu"},
    "another rotary embedding": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "a sliding window": {"use_sliding_window": True},
    "a scaling without its numbers": {"rope_scaling": {"rope_type": "llama3"}},
    "more layers than there are": {"num_hidden_layers": 4},
    "fewer layers than there are": {"num_hidden_layers": 2},
    "another shape": {"intermediate_size": 128},
    "a head of its own that is not there": {"tie_word_embeddings": False},
}


def shard(entry):
    header = json.dumps({"a": entry}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(12)


class RefengineCheckpointTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-engine-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.shard = self.dir / "a.safetensors"

    def assert_refused(self):
        with self.assertRaises(checkpoint.CheckpointError) as caught:
            list(checkpoint.read_tensors(self.dir))
        self.assertIn(str(self.dir), str(caught.exception))

    def test_a_whole_shard_is_read(self):
        self.shard.write_bytes(shard(ENTRY))
        (name, values), = checkpoint.read_tensors(self.dir)
        self.assertEqual((name, values.shape, values.dtype), ("a", (2, 3), "float32"))

    def test_broken_tensors_are_refused(self):
        for what, entry in BROKEN_ENTRIES.items():
            with self.subTest(what):
                self.shard.write_bytes(shard(entry))
                self.assert_refused()

    def test_broken_files_are_refused(self):
        for what, data in BROKEN_FILES.items():
            with self.subTest(what):
                self.shard.write_bytes(data)
                self.assert_refused()

    def test_every_truncation_is_refused(self):
        whole = shard(ENTRY)
        for length in range(len(whole)):
            self.shard.write_bytes(whole[:length])
            self.assert_refused()

    def test_broken_indexes_are_refused(self):
        self.shard.write_bytes(shard(ENTRY))
        for what, text in BROKEN_INDEXES.items():
            with self.subTest(what):
                (self.dir / "model.safetensors.index.json").write_text(text, encoding="utf-8")
                self.assert_refused()

    def test_a_directory_without_shards_is_refused(self):
        self.assert_refused()

    def test_models_that_would_be_computed_wrongly_are_refused(self):
        make_model.make(self.dir / "model", 1)
        model.load(self.dir / "model")
        for what, change in REFUSED_MODELS.items():
            with self.subTest(what):
                (self.dir / "model/config.json").write_text(
                    json.dumps({**make_model.CONFIG, **change}), encoding="utf-8")
                with self.assertRaises(checkpoint.CheckpointError):
                    model.load(self.dir / "model")

    def test_the_program_says_so_and_exits(self):
        done = subprocess.run(
            [sys.executable, harness.REFENGINE, self.dir], text=True, capture_output=True,
            timeout=harness.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^refengine: cannot read .*config.json.*\n$")

    def test_equal_seeds_make_equal_models(self):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            make_model.make(self.dir / name, seed)
        files = sorted(path.name for path in (self.dir / "a").iterdir())
        self.assertEqual(len(files), 4)
        for file in files:
            first, second, other = ((self.dir / name / file).read_bytes() for name in "abc")
            self.assertEqual(first, second)
            self.assertEqual(first != other, file.endswith(".safetensors"))


if __name__ == "__main__":
    unittest.main()
