"""What the relay's tests share: a board in a directory, relays in front of it, strict clients."""

import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "support")]
import harness  # noqa: E402
from waiting import DEADLINE_S, Background, wait_until  # noqa: E402, F401

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", random.randrange(1 << 32)))
RUN = "runs/r/"
MEBIBYTE = 1 << 20
print(f"ISTHMUS_TEST_SEED={SEED}", file=sys.stderr)


class Cut(Exception):
    """An answer that ended before its end, or a connection that gave none."""


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        try:
            self.body = response.read()
        except (http.client.IncompleteRead, OSError) as error:
            raise Cut(str(error)) from error

    def json(self):
        return json.loads(self.body)


class Relay:
    """`isthmus board serve`; constructed once it listens."""

    def __init__(self, board, log, *options, before=(), environment=None):
        self.log = pathlib.Path(log)
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                [*before, harness.PROGRAM, "board", "serve", str(board), "--listen", "127.0.0.1:0",
                 "--poll-ms", "20", *map(str, options), "--json"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=output, env=environment or harness.ENVIRONMENT,
                text=True)
        line = self.process.stdout.readline()
        found = re.search(r'"listening":"(https?)://127\.0\.0\.1:(\d+)"', line)
        if not found:
            self.kill()
            raise AssertionError(f"the relay did not start: {line}{self.log.read_text()}")
        self.port = int(found[2])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def ask(self, target, method="GET", headers=None, connection=None):
        own = connection or self.connect()
        try:
            own.request(method, target, headers=headers or {})
            return Answer(own.getresponse())
        except (http.client.BadStatusLine, OSError) as error:
            raise Cut(str(error)) from error
        finally:
            if connection is None:
                own.close()

    def get(self, target):
        """The body of a 200."""
        answer = self.ask(target)
        if answer.status != 200:
            raise AssertionError(f"{target}: {answer.status} {answer.body[:500]}")
        return answer.body

    def metric(self, name):
        return self.metrics()[name]

    def metrics(self):
        """Values by name, without the prefix that all have."""
        lines = self.get("/metrics").decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix("isthmus_relay_"): float(value) for name, value in pairs}

    def stop(self):
        """Asks it to end; its exit status."""
        self.process.terminate()
        return self._wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self._wait()

    def _wait(self):
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


class RelayTest(unittest.TestCase):
    """A test with an empty board; relays that it starts are ended with it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="isthmus-relay-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.board = self.dir / "board"
        self.random = random.Random(SEED)
        harness.run("board", "init", self.board)

    def put(self, key, content):
        """An object, as a store writes it: under its name only when it is whole."""
        path = self.board / key
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.tmp"
        temporary.write_bytes(content)
        temporary.rename(path)
        return content

    def put_random(self, key, size):
        return self.put(key, self.random.randbytes(size))

    def start(self, *options, board=None, cache="cache", cache_bytes=1 << 30, before=(),
              environment=None):
        """A relay; `cache` None: without one."""
        cached = ("--cache", self.dir / cache, "--cache-bytes", cache_bytes) if cache else ()
        relay = Relay(board or self.board, self.dir / "relay.log", *cached, *options, before=before,
                      environment=environment)
        self.addCleanup(self.end, relay)
        return relay

    @staticmethod
    def end(relay):
        if relay.process.poll() is None:
            relay.kill()
        relay.process.stdout.close()


def sha256(content):
    return hashlib.sha256(content).hexdigest()
