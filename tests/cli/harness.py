"""What the tests of the command line share: running the program, real checkpoints, comparing."""

import filecmp
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["ISTHMUS_BIN"]
# No option may leak in from the caller's environment.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ISTHMUS_")}


def run(*arguments, expect=0):
    """Runs the program; returns the finished process. Fails unless it exits with `expect` (None: any code)."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], env=ENVIRONMENT, text=True,
                          capture_output=True, timeout=300, check=False)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"isthmus {' '.join(map(str, arguments))}: exit {done.returncode}, "
                             f"expected {expect}\n{done.stdout}{done.stderr}")
    return done


def run_json(*arguments, expect=0):
    return json.loads(run(*arguments, "--json", expect=expect).stdout)


def unpack_testdata(destination):
    subprocess.run([sys.executable, ROOT / "testdata" / "unpack.py", destination], check=True,
                   stdout=subprocess.DEVNULL)
    return pathlib.Path(destination)


def visible_files(directory):
    directory = pathlib.Path(directory)
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*")
                  if p.is_file() and not any(part.startswith(".")
                                             for part in p.relative_to(directory).parts))


def assert_same_files(found, expected):
    """Every file of two checkpoints is the same, byte for byte, and none is missing or more."""
    assert visible_files(found) == visible_files(expected), (
        f"{found} has {visible_files(found)}, expected {visible_files(expected)}")
    for name in visible_files(expected):
        assert filecmp.cmp(f"{found}/{name}", f"{expected}/{name}", shallow=False), (
            f"{found}/{name} differs from {expected}/{name}")


class CheckpointTest(unittest.TestCase):
    """A test with a fresh directory and the real checkpoints, bf16 and fp8, steps 37 to 40."""

    @classmethod
    def setUpClass(cls):
        cls._data = tempfile.TemporaryDirectory(prefix="isthmus-data-")
        cls.data = unpack_testdata(cls._data.name)

    @classmethod
    def tearDownClass(cls):
        cls._data.cleanup()

    def setUp(self):
        self._directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(self._directory.cleanup)
        self.dir = pathlib.Path(self._directory.name)

    def step(self, number, view="bf16"):
        return self.data / view / f"step-{number}"

    def make_board(self, name="board"):
        run("board", "init", self.dir / name)
        return self.dir / name
