"""A double of a sidecar that says whatever a test wants, down to the bytes.

It reads whole requests. `info` is its /server_info; `generation(call)` answers all else: it sends what it
likes with Call.send, and the connection stays open for another request if it returns true.
"""

import json
import re
import socket
import struct
import threading

from fleet import harness

HEAD = ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nIsthmus-Run: run\r\n"
        "Isthmus-Version-Start: {start}\r\nIsthmus-Version-End: {end}\r\n")
STREAM_HEAD = ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nIsthmus-Run: run\r\n"
               "Isthmus-Version-Start: {start}\r\nTransfer-Encoding: chunked\r\n\r\n")


def info(version=1, run="run", **more):
    return {"ready": True, "run": run, "state": "ready", "gate": "open", "applied": version,
            "target": version, "lag": 0, "reason": "", "waiting": 0, "in_flight": 0,
            "board": {"head": version, "newest": version}, **more}


class Call:
    """One request."""

    def __init__(self, connection, head, body):
        self.connection, self.body = connection, body
        self.line = head.split("\r\n")[0]
        self.headers = {name.lower(): value.strip() for name, _, value in
                        (line.partition(":") for line in head.split("\r\n")[1:])}

    def send(self, data):
        self.connection.sendall(data if isinstance(data, bytes) else data.encode())

    def answer(self, body, head=HEAD, start=1, end=1):
        """A whole answer in one piece."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(head.format(start=start, end=end).encode() +
                  f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return True

    def begin_stream(self, start=1):
        self.send(STREAM_HEAD.format(start=start))

    def event(self, data):
        text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
        line = f"data: {text}\n\n"
        self.send(f"{len(line):x}\r\n{line}\r\n")

    def end_stream(self):
        self.send("0\r\n\r\n")
        return True

    def reset(self):
        """As the death of a process with unread bytes."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def wait_for_end(self):
        """Until the other side has gone."""
        self.connection.settimeout(harness.DEADLINE_S)
        try:
            while self.connection.recv(4096):
                pass
        except ConnectionError:
            pass


def chunk(version=1, finish=None, text="word "):
    """An event of a completion, as a sidecar stamps it."""
    return {"object": "text_completion", "choices": [
        {"index": 0, "text": text, "finish_reason": finish}],
        "weight_version_start": version, "weight_version_end": version}


def completion(version=1, end=None):
    return {"object": "text_completion", "choices": [
        {"index": 0, "text": "words", "finish_reason": "stop"}],
        "weight_version_start": version, "weight_version_end": end or version}


class SidecarDouble:
    def __init__(self, test, generation, server_info=None):
        self.generation, self.info = generation, server_info or info()
        self.calls = []  # of generation
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port = self._listener.getsockname()[1]
        test.addCleanup(self.close)
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self):
        """Nobody can connect any more; connections that there are stay."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def listed(self, name):
        return ("--island", f"{name}=http://127.0.0.1:{self.port}")

    def _listen(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            try:
                while self._serve_one(connection):
                    pass
            except OSError:
                pass

    def _serve_one(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        size = re.search(rb"(?im)^content-length:\s*(\d+)", head)
        while size and len(body) < int(size[1]):
            body += connection.recv(65536)
        call = Call(connection, head.decode(), body)
        if "/server_info" in call.line:
            return self._tell(call)
        self.calls.append(call)
        return self.generation(call)

    def _tell(self, call):
        if callable(self.info):
            return self.info(call)
        data = json.dumps(self.info)
        call.send(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(data)}\r\n\r\n{data}")
        return True
