"""A threaded HTTP/1.1 server for JSON routes and server-sent events, from the standard library.

A handler is a function Call -> Reply | EventStream and runs in the thread of its connection. It
raises HttpError for a refusal and ConnectionAborted to end the connection without an answer.
"""

import http.server
import json
import select
import socket
import struct
import urllib.parse

MAX_BODY_BYTES = 64 << 20  # a prompt of millions of token ids fits
FLAGS = {"true": True, "1": True, "yes": True, "on": True,
         "false": False, "0": False, "no": False, "off": False}


class HttpError(Exception):
    """A refusal: the status and body to answer with."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.reply = Reply(status, body)


class ConnectionAborted(Exception):
    """The handler wants the connection closed without an answer."""


class Reply:
    """A status and a body: None is empty, a str is text/plain, anything else is sent as JSON."""

    def __init__(self, status=200, body=None):
        self.status = status
        self.body = body

    def encode(self):
        """(content type or None, bytes)"""
        if self.body is None:
            return None, b""
        if isinstance(self.body, str):
            return "text/plain; charset=utf-8", self.body.encode()
        return "application/json", json.dumps(self.body).encode()


class EventStream:
    """Server-sent events: `events` yields the payload of each, a str or what becomes JSON.

    on_end() is called once when all were sent, the client is gone or `events` raised.
    """

    status = 200

    def __init__(self, events, on_end):
        self.events = events
        self.on_end = on_end


class Call:
    """One request. `query` maps each name to its last value; `body` is the raw bytes."""

    def __init__(self, method, target, headers, body, connection):
        parts = urllib.parse.urlsplit(target)
        self.method = method
        self.path = parts.path
        self._pairs = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        self.query = dict(self._pairs)
        self.headers = headers
        self.body = body
        self._connection = connection

    def json(self):
        """The body as JSON; ValueError if it is none."""
        return json.loads(self.body)

    def values(self, name):
        """All values of a query parameter that may be repeated."""
        return [value for key, value in self._pairs if key == name]

    def flag(self, name, default):
        """A boolean query parameter; ValueError if it is no boolean."""
        text = self.query.get(name)
        if text is None:
            return default
        if text.lower() not in FLAGS:
            raise ValueError(f"query parameter {name} must be true or false, not {text!r}")
        return FLAGS[text.lower()]

    def client_is_gone(self):
        """True once the peer has closed, be it only its sending half."""
        try:
            readable, _, _ = select.select([self._connection], [], [], 0)
            return bool(readable) and not self._connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def reset_connection(self):
        """Never returns; the peer sees a TCP reset instead of an answer."""
        no_linger = struct.pack("ii", 1, 0)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        raise ConnectionAborted


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each event leaves when it is made

    def handle(self):
        """All requests of one connection; how it ends is the peer's affair."""
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def serve(self):
        try:
            call = Call(self.command, self.path, self.headers, self._read_body(), self.connection)
            self._answer(self._result_of(call))
        except ConnectionAborted:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = serve  # noqa: N815 (names of the base class)

    def _result_of(self, call):
        try:
            return self.server.handle(call)
        except HttpError as error:
            return error.reply

    def _answer(self, result):
        if isinstance(result, EventStream):
            self._send_events(result)
            return
        content_type, body = result.encode()
        self.send_response(result.status)
        if content_type:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_events(self, stream):
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in stream.events:
                text = event if isinstance(event, str) else json.dumps(event)
                self._write_chunk(f"data: {text}\n\n".encode())
            self._write_chunk(b"")
        finally:
            stream.on_end()

    def _write_chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._read_chunked_body()
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit():
            self._refuse(400, f"Content-Length {length!r} is no number")
        return self._read_exactly(int(length))

    def _read_chunked_body(self):
        body = b""
        while size := self._read_chunk_size():
            body += self._read_exactly(size, held=len(body))
            self.rfile.readline(2)
        while self.rfile.readline(1024).strip():
            pass  # trailers
        return body

    def _read_chunk_size(self):
        line = self.rfile.readline(32).split(b";")[0].strip()
        if not line or line.strip(b"0123456789abcdefABCDEF"):
            self._refuse(400, f"chunk size {line!r} is no number")
        return int(line, 16)

    def _read_exactly(self, size_bytes, held=0):
        if held + size_bytes > MAX_BODY_BYTES:
            self._refuse(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
        data = self.rfile.read(size_bytes)
        if len(data) < size_bytes:
            raise ConnectionAborted
        return data

    def _refuse(self, status, message):
        self._answer(Reply(status, message))
        raise ConnectionAborted

    def log_message(self, *_):
        """Silent: what a test or demo wants to know it asks for."""


class Server(http.server.ThreadingHTTPServer):
    """Calls handle(call) for every request, each connection in a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handle, host="127.0.0.1", port=0):
        self.handle = handle
        super().__init__((host, port), _Handler)

    @property
    def port(self):
        return self.server_address[1]

    def shutdown_request(self, request):
        request.close()  # without shutdown(): a reset must not begin with an orderly end


class Routes:
    """Which handler answers a method and path."""

    def __init__(self):
        self._handlers = {}

    def add(self, method, path, handler):
        self._handlers[method, path] = handler

    def remove(self, path):
        self._handlers = {key: value for key, value in self._handlers.items() if key[1] != path}

    def methods(self, path):
        return sorted(method for method, known in self._handlers if known == path)

    def find(self, call):
        """The handler, or None: methods(call.path) says whether the path or the method is wrong."""
        return self._handlers.get((call.method, call.path))

    def openapi(self, title, version):
        """The document that clients probe for routes: paths and methods, no schemas."""
        paths = {}
        for method, path in self._handlers:
            paths.setdefault(path, {})[method.lower()] = {"responses": {"200": {
                "description": "Successful Response"}}}
        return {"openapi": "3.1.0", "info": {"title": title, "version": version}, "paths": paths}
