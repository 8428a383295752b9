"""What the tests of the Python package share: small models, boards, and the program of the package."""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import isthmus  # noqa: E402
import numpy  # noqa: E402
import shares  # noqa: E402

SHAPES = {
    "model.embed_tokens.weight": ("BF16", (1200, 900)),
    "model.layers.0.codes": ("U8", (64, 33)),
    "model.layers.0.scale": ("F32", (40,)),
    "model.layers.0.weight": ("F8_E4M3", (100, 100)),
    "model.layers.1.weight": ("F16", (70, 11)),
    "model.norm.weight": ("BF16", (900,)),
    "positions": ("I64", (33,)),
    "scalar": ("BF16", ()),
    "empty": ("F32", (0, 7)),
}
# What numpy has for a dtype: its own type, or unsigned integers for the bits.
NUMPY = {"BF16": "u2", "F8_E4M3": "u1", "U8": "u1", "F32": "f4", "F16": "f2", "I64": "i8"}


def arrays(model):
    """The model's tensors as numpy arrays that share its memory."""
    return {name: numpy.frombuffer(model.content[name], NUMPY[dtype]).reshape(shape)
            for name, (dtype, shape) in model.shapes.items()}


def program(*arguments, expect=0):
    """Runs the program of the package; returns what it printed."""
    done = subprocess.run([sys.executable, "-m", "isthmus", *map(str, arguments)], text=True, timeout=300,
                          capture_output=True, check=False)
    if done.returncode != expect:
        raise AssertionError(f"isthmus {arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def program_json(*arguments):
    return json.loads(program(*arguments, "--json"))


class PackageTest(unittest.TestCase):
    """A test with a fresh directory, an empty board and a model that changes."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.seed = random.randrange(1 << 32)
        print(f"{self.id()}: seed {self.seed}", file=sys.stderr)
        self.model = shares.Model(SHAPES, random.Random(self.seed))
        self.board = isthmus.Board(self.dir / "board", create=True)

    def publish_by_program(self, run="program"):
        """Publishes the model as files; returns the version."""
        source = self.model.write_checkpoint(self.dir / "source")
        program("publish", source, "--board", self.dir / "board", "--run", run, "--baseline",
                self.dir / f"baseline-of-{run}")
        return self.board.head(run)

    def publisher(self, run="python", **options):
        if "checkpoint" not in options and "files" not in options:
            options["checkpoint"] = self.dir / "start"
            if not (self.dir / "start").exists():
                self.model.write_checkpoint(self.dir / "start")
        made = isthmus.Publisher(self.board, run, baseline=self.dir / f"baseline-{run}", **options)
        self.addCleanup(made.close)
        return made

    def parts_of(self, version):
        """The SHA-256 of the objects of a version's first payload."""
        entry = self.dir / "board" / "runs" / version.run / "log" / f"{version.number:010}.json"
        return [part["sha256"] for part in json.loads(entry.read_text())["payloads"][0]["parts"]]

    def assert_pulls(self, version, expected=None):
        """A replica of the version holds the model (or `expected`), byte for byte."""
        expected = expected or {name: bytes(content) for name, content in self.model.content.items()}
        with isthmus.Replica(self.dir / f"replica-{version.run}") as replica:
            pulled = replica.pull(self.board, version.run, version.number)
            self.assertEqual(pulled, version)
            self.assertEqual(replica.digest, version.digest)
            self.assertEqual(read_tensors(pathlib.Path(replica.directory)), expected)


def read_tensors(directory):
    """Name to bytes, of all shards."""
    tensors = {}
    for shard in directory.glob("*.safetensors"):
        content = shard.read_bytes()
        size = int.from_bytes(content[:8], "little")
        data = content[8 + size:]
        for name, info in json.loads(content[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = info["data_offsets"]
                tensors[name] = data[begin:end]
    return tensors
