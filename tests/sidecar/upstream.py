"""A server in place of an engine's generation routes: says exactly the bytes that a test chose."""

import re
import socket
import threading

import island
from island import harness

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Upstream:
    """Takes one connection after another, in the order in which they were made; each serves one
    request. `requests` are (head, body) of all so far."""

    def __init__(self, answer):
        self.answer = answer  # bytes, or a function of (head, body, connection)
        self.requests = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(harness.DEADLINE_S)
                self._serve(connection)

    def _serve(self, connection):
        try:
            head, body = read_request(connection)
            self.requests.append((head, body))
            if callable(self.answer):
                self.answer(head, body, connection)
            else:
                connection.sendall(self.answer)
        except OSError:
            pass  # the other side is gone, or its request is not whole


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("ended within a head")
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    found = LENGTH.search(head)
    while found and len(body) < int(found[1]):
        body += connection.recv(65536)
    return head, body


def json_answer(text, status=b"200 OK"):
    """An answer of one JSON text, as bytes."""
    return (b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(text) + text)


class UpstreamTest(island.IslandTest):
    """The engine is a double; generation goes to an Upstream."""

    def setUp(self):
        self.upstream = Upstream(json_answer(b"{}"))
        self.addCleanup(self.upstream.close)
        super().setUp()

    def start_sidecar(self, *options):
        super().start_sidecar("--upstream", self.upstream.url, *options)


def exchange(port, data, half_close=False):
    """All that a server sends for these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), harness.DEADLINE_S) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def joined(text):
    """The chunks of a body; without the last one it is not whole."""
    pieces = []
    while True:
        size, text = text.split(b"\r\n", 1)
        size = int(size, 16)
        pieces.append(text[:size])
        assert text[size:size + 2] == b"\r\n", text[size:size + 20]
        text = text[size + 2:]
        if size == 0:
            return b"".join(pieces)


def request(body, path="/v1/completions", method="POST", fields=b""):
    """A whole request as bytes, the last of its connection."""
    return (f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n".encode() + fields
            + b"Content-Length: %d\r\n\r\n" % len(body) + body)
