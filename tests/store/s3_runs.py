"""What tests of the whole program on s3:// share: a server, a proxy in front of it, a run."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import servers
from fault_proxy import FaultProxy

PROGRAM = os.environ["ISTHMUS_BIN"]
PREFIX = "team/board"
BOARD = f"s3://{servers.BUCKET}/{PREFIX}"


class S3RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._data = tempfile.TemporaryDirectory(prefix="isthmus-data-")
        cls.data = pathlib.Path(cls._data.name) / "bf16"
        subprocess.run([sys.executable, servers.ROOT / "testdata/unpack.py", cls._data.name], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls._data.cleanup()

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.server = servers.Server("s3s-fs")
        self.addCleanup(self.server.close)
        self.proxy = FaultProxy(self.server.port)
        self.addCleanup(self.proxy.close)

    def run_program(self, *arguments, expect=0, endpoint=None, **variables):
        environment = servers.environment(endpoint or self.server.endpoint) | variables
        del environment["ISTHMUS_BIN"], environment["ISTHMUS_TEST_S3"]
        done = subprocess.run([PROGRAM, *map(str, arguments)], env=environment, text=True,
                              capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def publish_arguments(self, step, baseline="baseline"):
        return ["publish", self.data / f"step-{step}", "--board", BOARD, "--run", "r", "--baseline",
                self.dir / baseline, "--step", step]

    def publish(self, step, baseline="baseline", **more):
        return self.run_program(*self.publish_arguments(step, baseline), **more)

    def start_run(self, *steps):
        """A board whose versions are these steps, from 1."""
        self.run_program("board", "init", BOARD)
        for step in steps:
            self.publish(step)

    def pull(self, *options, replica="replica", **more):
        return self.run_program("pull", "--board", BOARD, "--run", "r", "--replica", self.dir / replica,
                                *options, **more)

    def compare(self, step, replica="replica"):
        self.run_program("verify", self.dir / replica, "--against", self.data / f"step-{step}")

    def pull_and_compare(self, step, **more):
        self.pull(**more)
        self.compare(step)

    def versions(self):
        log = self.run_program("log", "--board", BOARD, "--run", "r", "--json")
        return [entry["version"] for entry in json.loads(log.stdout)["versions"]]

    def object(self, key, method="GET", content=b""):
        """One request for an object of the board, past the proxy; the body of the answer."""
        status, body = self.server.request(method, f"/{servers.BUCKET}/{PREFIX}/{key}", content)
        self.assertIn(status, (200, 204), key)
        return body

    def parts(self, version):
        """The keys of the parts that a log entry names."""
        entry = json.loads(self.object(f"runs/r/log/{version:010}.json"))
        return [part["key"] for payload in entry["payloads"] for part in payload["parts"]]
