#!/usr/bin/env python3
"""A board over HTTP whose server gives no answer, or none but 503: a sidecar that is asked to end does not
wait for it."""

import http.server
import json
import pathlib
import threading
import unittest
import urllib.parse

import island
from island import harness, launch


class BoardServer(http.server.ThreadingHTTPServer):
    """Serves a board's folder. `away`, if set, is how parts are answered: "silent" or "busy"."""

    def __init__(self, folder):
        self.folder, self.away = folder, None
        self.asked, self.ended = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that goes away is what these tests want."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if self.server.away and "/data/" in path:
            return self.be_away()
        root = pathlib.Path(self.server.folder)
        if query.startswith("list="):
            prefix = urllib.parse.unquote(query.removeprefix("list="))
            keys = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
            return self.answer(200, json.dumps({"keys": [k for k in keys if k.startswith(prefix)]}).encode())
        file = root / path.lstrip("/")
        self.answer(*((200, file.read_bytes()) if file.is_file() else (404, b"")))

    do_HEAD = do_GET

    def be_away(self):
        self.server.asked.set()
        if self.server.away == "busy":
            return self.answer(503, b"", ("Retry-After", "900"))
        self.server.ended.wait(harness.DEADLINE_S)

    def answer(self, status, body, *headers):
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class AwayBoardTest(island.IslandTest):
    options = (*island.NO_POLLING, "--board-deadline-s", 3600)

    def setUp(self):
        super().setUp()
        self.stop_sidecar()
        self.server = BoardServer(self.board)
        self.addCleanup(self.server.close)
        self.start_over_http()
        self.wait_for_version(1)

    def start_over_http(self):
        self.sidecars += 1
        self.process = launch.Sidecar(
            self.server.url, self.run_of_weights.name, self.dir / "replica",
            [engine.spec for engine in self.engines], self.dir / f"sidecar-{self.sidecars}.log", *self.options)
        self.addCleanup(self.process.kill)
        self.sidecar = harness.Client(self.process.port)

    def check(self, away):
        self.server.away = away
        self.publish()
        self.wake()
        self.assertTrue(self.server.asked.wait(harness.DEADLINE_S))
        self.assert_serves(1)
        self.stop_sidecar()  # long before the store's deadline
        self.server.away = None
        self.start_over_http()
        self.wake()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_a_silent_store_does_not_hold_up_the_end(self):
        self.check("silent")

    def test_a_busy_store_does_not_hold_up_the_end(self):
        self.check("busy")


if __name__ == "__main__":
    unittest.main()
