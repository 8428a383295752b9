"""A strict double of the gateway's routes for the dashboard: assets, fleet and history, on port 0."""

import http.server
import json
import os
import pathlib
import re
import threading
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
D3 = pathlib.Path(os.environ.get("ISTHMUS_D3", "/usr/share/javascript/d3/d3.min.js"))
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}
HEADER = (ROOT / "isthmus/gateway/assets.h").read_text()
POLICY = "".join(re.findall(r'"([^"]*)"', HEADER[HEADER.index("kAssetPolicy"):].split(";\n")[0]))


class Refused(Exception):
    """An answer that is no 200."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class DashboardDouble:
    """Serves `model` (fleet_model.py); attributes may be changed while it runs."""

    def __init__(self, model, token=None):
        self.model, self.token = model, token
        self.dead = False  # closes every connection without an answer
        self.targets = []  # of all requests, in order
        self.strange = []  # requests that no gateway would answer with 200
        self.lock = threading.Lock()
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                double.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def advance(self, steps=1):
        with self.lock:
            for _ in range(steps):
                self.model.advance()

    def answer(self, request):
        with self.lock:
            self.targets.append(request.path)
        if self.dead:
            request.close_connection = True
            return
        try:
            status, kind, body = 200, *self.body(request)
        except Refused as refused:
            status, kind = refused.status, TYPES[".txt"]
            body = str(refused).encode()
            if refused.status != 401:
                self.strange.append(f"{request.path}: {refused}")
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Content-Security-Policy", POLICY)
        request.end_headers()
        request.wfile.write(body)

    def body(self, request):
        path, _, query = request.path.partition("?")
        if path == "/" or path.startswith("/dashboard/"):
            return self.asset(path)
        if self.token is not None and request.headers["Authorization"] != f"Bearer {self.token}":
            raise Refused(401, "an operator's token is needed")
        members = urllib.parse.parse_qsl(query, strict_parsing=True) if query else []
        with self.lock:
            if path == "/v1/fleet":
                answer = self.fleet(members)
            elif path == "/v1/fleet/history":
                answer = self.history(members)
            else:
                raise Refused(404, "no such route")
        return "application/json", json.dumps(answer).encode()

    @staticmethod
    def asset(path):
        name = "index.html" if path == "/" else path.removeprefix("/dashboard/")
        file = D3 if name == "d3.min.js" else ROOT / "web" / name
        if "/" in name or not file.is_file() or (name == "index.html" and path != "/"):
            raise Refused(404, "no such asset")
        return TYPES[file.suffix], file.read_bytes()

    def fleet(self, members):
        if members not in ([], [("brief", "1")]):
            raise Refused(400, f"the query of /v1/fleet: {members}")
        return self.model.fleet(brief=bool(members))

    @staticmethod
    def refuse(status):
        raise Refused(status, "refused by the test")

    def history(self, members):
        query = dict(members)
        since = query.get("since_s", "1800")
        if len(query) < len(members) or query.keys() - {"since_s", "after"} or not since.isdigit() or not 1 <= int(since) <= 86_400:
            raise Refused(400, f"the query of /v1/fleet/history: {members}")
        return self.model.history(int(since), query.get("after", ""))
