"""A proxy in front of an S3 server that does what a network or a server does on a bad day.

Each request is matched with rules, in order; the first that fits and is not used up decides. A rule is
(matches, times, action): matches(request) -> bool; times: how often at most; action(exchange), with the
methods below. Without a rule a request goes through unchanged. Strict: a request that is not well-formed
fails the test that made it. One request a connection, so that resets hit what they are meant for."""

import contextlib
import email.utils
import http.client
import socket
import struct
import threading
import time

HEAD_LIMIT = 64 << 10


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body

    @property
    def path(self):
        return self.target.partition("?")[0]

    @property
    def query(self):
        return self.target.partition("?")[2]


class Exchange:
    """One request and the ways to answer it."""

    def __init__(self, proxy, connection, request):
        self.proxy, self.connection, self.request = proxy, connection, request

    def forward(self):
        """What the server answers: (status, headers, body)."""
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.port_behind, timeout=120)
        with contextlib.closing(upstream):
            upstream.putrequest(self.request.method, self.request.target, skip_host=True,
                                skip_accept_encoding=True)
            for name, value in self.request.headers:
                upstream.putheader(name, value)
            upstream.endheaders(self.request.body)
            answer = upstream.getresponse()
            body = answer.read()
            return answer.status, answer.getheaders(), body

    def send(self, status, headers, body, cut=None):
        """An answer; of its body only `cut` bytes, if that is given."""
        has_length = any(n.lower() == "content-length" for n, _ in headers)
        lines = [f"HTTP/1.1 {status} Reason", "Connection: close"]
        lines += [f"{n}: {v}" for n, v in headers if n.lower() not in ("connection", "transfer-encoding")]
        if not has_length:
            lines.append(f"Content-Length: {len(body)}")
        if self.request.method == "HEAD":
            body = b""
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin1") + body[:cut])

    def through(self):
        self.send(*self.forward())

    def error(self, status, code, headers=(), message="made up"):
        body = f"<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.send(status, [("Content-Type", "application/xml"), *headers], body.encode())

    def reset(self):
        """The connection breaks with RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def lose_answer(self):
        """The server does what it was asked for, and nobody hears of it."""
        self.forward()
        self.reset()

    def truncate(self, cut):
        self.send(*self.forward(), cut=cut)

    def stall(self, cut=0):
        """Some of the answer, and then nothing until the client goes."""
        self.send(*self.forward(), cut=cut)
        self.connection.settimeout(60)
        with contextlib.suppress(OSError):
            self.connection.recv(1)


class FaultProxy:
    """Listens on self.port until close(). `log` has every request that came."""

    def __init__(self, port_behind):
        self.port_behind = port_behind
        self.rules = []
        self.log = []
        self.malformed = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def on(self, matches, action, times=1):
        self.rules.append([matches, times, action])
        return self

    def clear(self):
        with self._lock:
            self.rules, self.log = [], []

    def close(self):
        self._listener.close()
        assert not self.malformed, self.malformed

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.closing(connection), contextlib.suppress(ConnectionError, TimeoutError):
            connection.settimeout(120)
            request = self._read(connection)
            if request is not None:
                self._action_for(request)(Exchange(self, connection, request))

    def _action_for(self, request):
        with self._lock:
            self.log.append(request)
            for rule in self.rules:
                if rule[1] > 0 and rule[0](request):
                    rule[1] -= 1
                    return rule[2]
        return Exchange.through

    def _read(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(1 << 16)
            if not piece:
                return None
            data += piece
            assert len(data) < (HEAD_LIMIT + (1 << 16))
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin1").split("\r\n")
        headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines]
        names = [name.lower() for name, _ in headers]
        fields = {name.lower(): value for name, value in headers}
        parts = first.split(" ")
        wrong = (len(parts) != 3 or parts[2] != "HTTP/1.1" or len(names) != len(set(names)) or
                 "host" not in names or "expect" in names or "transfer-encoding" in names or
                 (parts[0] in ("PUT", "POST") and "content-length" not in names) or
                 not fields.get("authorization", "").startswith("AWS4-HMAC-SHA256 "))
        if wrong:
            self.malformed.append(head)
        length = int(fields.get("content-length", "0"))
        pieces, have = [body], len(body)
        while have < length:
            piece = connection.recv(min(1 << 20, length - have))
            if not piece:
                return None
            pieces.append(piece)
            have += len(piece)
        return Request(parts[0], parts[1], headers, b"".join(pieces))


def is_create(request):
    return any(name.lower() == "if-none-match" for name, _ in request.headers)


def make_creates_exact(proxy, lose_every=0):
    """Creates go to the server one at a time: neither s3s-fs nor moto is exact when they race
    (plain_race.py). Of `lose_every` answers to creates one is lost."""
    lock, count = threading.Lock(), iter(range(1, 10**9))

    def create(exchange):
        with lock:
            answer = exchange.forward()
            lost = lose_every and next(count) % lose_every == 0
        if lost:
            return exchange.reset()
        exchange.send(*answer)

    proxy.on(is_create, create, times=10**9)


def http_date(seconds_off=0):
    return email.utils.formatdate(time.time() + seconds_off, usegmt=True)
