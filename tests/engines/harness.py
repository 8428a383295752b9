"""What the engines' tests share: a server process, HTTP calls with deadlines, small checkpoints."""

import contextlib
import http.client
import json
import pathlib
import selectors
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFENGINE = ROOT / "examples" / "refengine"
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(REFENGINE), str(ROOT / "tests" / "support")]
import make_model  # noqa: E402
from waiting import DEADLINE_S, Background, wait_until  # noqa: E402, F401


class Client:
    """Calls to a server on this machine."""

    def __init__(self, port):
        self.port = port

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def send(self, method, path, body=None, headers=None):
        """(connection, response) of a call whose body is still to be read."""
        connection = self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        kind = {} if data is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, path, data, {**kind, **(headers or {})})
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def call(self, method, path, body=None, headers=None):
        """(status, body): JSON where it is sent as JSON, else text."""
        connection, response = self.send(method, path, body, headers)
        with contextlib.closing(connection):
            data = response.read()
            if response.headers.get("Content-Type") == "application/json":
                return response.status, json.loads(data)
            return response.status, data.decode()

    def get(self, path):
        return self.call("GET", path)

    def post(self, path, body=None, headers=None):
        return self.call("POST", path, body, headers)

    def stream(self, path, body, headers=None):
        """The JSON events of a streamed generation, up to [DONE], as they arrive."""
        connection, response = self.send("POST", path, {**body, "stream": True}, headers)
        return Stream(connection, response)


class Server(Client):
    """A process that prints its port first; `arguments` follow the interpreter."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, *map(str, arguments)], text=True,
                                        stdout=subprocess.PIPE)
        super().__init__(int(self._first_line()))

    def _first_line(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            if not ready.select(DEADLINE_S):
                self.stop()
                raise AssertionError("the server printed no port")
        return self.process.stdout.readline() or self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()


class Stream:
    """Iterates over events. `close` leaves before the end, as a client that lost interest does.

    cut_off: it ended without [DONE].
    """

    def __init__(self, connection, response):
        assert response.status == 200, response.read()
        self.headers = response.headers
        self.cut_off = True
        self._connection = connection
        self._response = response

    def __iter__(self):
        return self

    def __next__(self):
        while line := self._response.readline():
            if line == b"data: [DONE]\n":
                self.cut_off = False
                break
            if line.startswith(b"data: "):
                return json.loads(line[len(b"data: "):])
        self.close()
        raise StopIteration

    def close(self):
        self._response.close()
        self._connection.close()

    def leave(self):
        """`close` from another thread than the one that reads."""
        self._connection.sock.shutdown(socket.SHUT_RDWR)


class ServerTest(unittest.TestCase):
    """A test with a directory of its own and servers that end with it."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-engine-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def make_model(self, name, seed, config=None):
        make_model.make(self.dir / name, seed, config)
        return self.dir / name

    def start(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.stop)
        return server

    def start_refengine(self, directory, *options):
        return self.start(REFENGINE, directory, "--port", 0, "--served-model-name", "policy",
                          *options)

    def assert_reply(self, reply, status, body):
        self.assertEqual(reply, (status, body))
