"""What tests of the rollouts log share: a recorder of its own process, and reading a store's objects."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import zstandard

TOOL = os.environ["ISTHMUS_RECORD_TOOL"]
STOP_LIMIT_S = 60


def lines_of(content):
    """The lines of an object."""
    reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
    text = reader.read().decode()
    assert text.endswith("\n")
    return [json.loads(line) for line in text[:-1].split("\n")]


class Recorder:
    """tests/gateway/record_tool.cc."""

    def __init__(self, location, spool, instance, *more, environment=None):
        self._process = subprocess.Popen(
            [TOOL, location, spool, instance, *map(str, more)], text=True, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, *words):
        """One command's answer; None if the process is gone."""
        try:
            print(*words, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return None
        line = self._process.stdout.readline()
        return line[:-1] if line.endswith("\n") else None

    def record(self, name, size=100):
        return self.ask("record", name, size)

    def counters(self):
        return json.loads(self.ask("counters"))

    def kill_process(self):
        self._process.kill()

    def kill(self):
        self.kill_process()
        self._close()

    def end(self):
        """Lets it upload what it has; its last words."""
        self._process.stdin.close()
        rest = self._process.stdout.read()
        self._close()
        return rest

    def _close(self):
        self._process.wait(STOP_LIMIT_S)
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.stdout.close()


class RecorderTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.spool = self.dir / "spool"

    def start(self, location, instance, *more, **options):
        recorder = Recorder(location, self.spool, instance, *more, **options)
        self.addCleanup(recorder.kill)
        return recorder
