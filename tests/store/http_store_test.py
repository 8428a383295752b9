"""A board over plain HTTP: servers with and without ranges, listing, tokens, TLS, redirects."""

import contextlib
import functools
import http.server
import json
import os
import pathlib
import resource
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

TOOL = os.environ["ISTHMUS_STORE_TOOL"]
PROGRAM = os.environ["ISTHMUS_BIN"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {k: v for k, v in os.environ.items()
               if not k.startswith(("ISTHMUS_", "STORE_", "AWS_")) and not k.lower().endswith("_proxy")}


class Files(http.server.SimpleHTTPRequestHandler):
    """Python's server of plain files: no ranges, no listing of keys."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


class Board(Files):
    """What `isthmus board serve` answers: a listing as JSON, and ranges; for a token, if one is set."""

    token = None

    def do_GET(self):
        if self.token and self.headers["Authorization"] != f"Bearer {self.token}":
            return self.answer(401, b"")
        path, _, query = self.path.partition("?")
        if query.startswith("list="):
            prefix = urllib.parse.unquote(query[len("list="):])
            root = pathlib.Path(self.directory)
            keys = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
            return self.answer(200, json.dumps({"keys": [k for k in keys if k.startswith(prefix)]}).encode())
        file = pathlib.Path(self.directory + path)
        if not file.is_file():
            return self.answer(404, b"")
        content = file.read_bytes()
        if "Range" not in self.headers:
            return self.answer(200, content)
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        if first >= len(content):
            return self.answer(416, b"")
        part = content[first:last + 1]
        span = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        return self.answer(206, part, [("Content-Range", span), ("ETag", f'"{hash(content)}"')])

    do_HEAD = do_GET

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in [("Content-Length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Hostile(Files):
    """Sends more than the object has, in the way that `lie` says, until the client goes."""

    lie = None
    announced = 1 << 40

    def do_HEAD(self):
        self.begin(200, [("Content-Length", "10")])

    def do_GET(self):
        self.close_connection = True
        if self.lie == "a long 200":
            self.begin(200, [("Content-Length", str(self.announced))])
        elif self.lie == "a long 206":
            self.begin(206, [("Content-Range", f"bytes 0-{(16 << 20) - 1}/{self.announced}")])
        elif self.lie == "an endless 200":
            self.begin(200, [("Transfer-Encoding", "chunked")])
        else:
            self.begin(206, [("Content-Range", "bytes 0-9/10"), ("Transfer-Encoding", "chunked")])
        with contextlib.suppress(OSError):
            self.send_for_ever("endless" in self.lie)

    def begin(self, status, headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def send_for_ever(self, chunked):
        piece = b"x" * 65536
        while True:
            self.wfile.write(b"10000\r\n" + piece + b"\r\n" if chunked else piece)


class HttpTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.root = self.dir / "root"
        (self.root / "runs/a").mkdir(parents=True)
        (self.root / "runs/a/k").write_text("0123456789")
        (self.root / "runs/empty").write_text("")

    def serve(self, handler, context=None):
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(handler, directory=str(self.root)))
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # a client that goes away, as it should from an enemy
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"

    def tool(self, location, operation, key="", file="", largest_file=None, **variables):
        """What the operation printed; a process that writes beyond largest_file bytes is killed."""
        def limit():
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

        done = subprocess.run([TOOL, location, operation, key, str(file)], text=True, timeout=120,
                              env=ENVIRONMENT | {"STORE_DEADLINE_MS": "5000"} | variables,
                              capture_output=True, check=True, preexec_fn=limit)
        return done.stdout.strip()

    def check_reading(self, url):
        self.assertEqual(self.tool(url, "get", "runs/a/k"), "ok 0123456789")
        self.assertEqual(self.tool(url, "get", "runs/a/none"), "ok (missing)")
        self.assertEqual(self.tool(url, "get", "runs/empty"), "ok")
        self.assertEqual(self.tool(url, "range", "runs/a/k"), "ok 234")
        self.assertRegex(self.tool(url, "range", "runs/empty"), "^corrupt: .*ends at byte 0")
        self.assertEqual(self.tool(url, "size", "runs/a/k"), "ok 10")
        self.assertEqual(self.tool(url, "size", "runs/a"), "ok (missing)")  # a folder
        (self.root / "large").write_bytes(os.urandom(40 << 20))
        for key in ("large", "runs/empty", "runs/a/k"):
            self.assertEqual(self.tool(url, "fetch", key, self.dir / "to"), "ok")
            self.assertEqual((self.dir / "to").read_bytes(), (self.root / key).read_bytes())
        # The same with its size known: who knows no ranges is found out before the body.
        self.assertEqual(self.tool(url, "fetch", "large", self.dir / "to", STORE_MAX_BYTES=str(40 << 20)), "ok")
        self.assertEqual((self.dir / "to").read_bytes(), (self.root / "large").read_bytes())
        self.assertRegex(self.tool(url, "fetch", "none", self.dir / "to2"), "^not_found: ")
        self.assertFalse((self.dir / "to2").exists())

    def test_a_server_that_sends_more_than_is_allowed_fills_no_disk(self):
        refusals = {"a long 200": "1099511627776 bytes, at most 10 allowed",
                    "a long 206": "1099511627776 bytes, at most 10 allowed",
                    "an endless 200": "does not say how long the object is",
                    "an endless 206": "more bytes than the 10 that the server announced"}
        for lie, refusal in refusals.items():
            with self.subTest(lie):
                url = self.serve(type("Lying", (Hostile,), {"lie": lie}))
                answer = self.tool(url, "fetch", "runs/a/k", self.dir / "to", STORE_MAX_BYTES="10",
                                   largest_file=10)
                self.assertRegex(answer, f"^corrupt: fetch runs/a/k in .*{refusal}")
                self.assertEqual([p.name for p in self.dir.iterdir()], ["root"])

    def test_a_server_of_plain_files_is_read(self):
        self.check_reading(self.serve(Files))

    def test_a_server_with_ranges_is_read(self):
        self.check_reading(self.serve(Board))

    def test_keys_are_listed_by_a_server_that_can(self):
        url = self.serve(Board)
        (self.root / "runs/b c").write_text("no key")
        self.assertEqual(self.tool(url, "list", "runs/"), "ok runs/a/k runs/empty")
        self.assertEqual(self.tool(url, "list", "none"), "ok")

    def test_a_server_that_does_not_list_is_said_to_lack_it(self):
        answer = self.tool(self.serve(Files), "list", "runs/")
        self.assertRegex(answer, "^unavailable: list runs/ .*does not list keys.*board serve")

    def test_writing_is_refused(self):
        url = self.serve(Board)
        for operation in ("put", "putfile", "create", "delete"):
            answer = self.tool(url, operation, "k", self.root / "runs/a/k")
            self.assertRegex(answer, "^invalid: write k in .* read-only")

    def test_a_token_is_shown_and_read_anew_when_it_is_refused(self):
        handler = type("Guarded", (Board,), {"token": "one"})
        url = self.serve(handler)
        file = self.dir / "token"
        self.assertRegex(self.tool(url, "get", "runs/a/k"), "^invalid: .*401.*--board-token-file")
        file.write_text("wrong\n")
        self.assertRegex(self.tool(url, "get", "runs/a/k", STORE_TOKEN_FILE=str(file)), "^invalid: .*401")
        file.write_text("one\n")
        self.assertEqual(self.tool(url, "get", "runs/a/k", STORE_TOKEN_FILE=str(file)), "ok 0123456789")
        tool = subprocess.Popen([TOOL, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env=ENVIRONMENT | {"STORE_LINES": "1", "STORE_TOKEN_FILE": str(file)})
        with tool:
            for token in ("one", "two"):
                handler.token = token
                (self.dir / "next").write_text(token)
                (self.dir / "next").rename(file)  # the tool may read it at any time
                tool.stdin.write("get runs/a/k\n")
                tool.stdin.flush()
                self.assertEqual(tool.stdout.readline(), "ok 0123456789\n")
            tool.stdin.close()

    def test_tls_is_trusted_by_the_authority_that_is_named_and_no_other(self):
        key, certificate = self.dir / "key.pem", self.dir / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        url = self.serve(Board, context)
        self.assertEqual(self.tool(url, "get", "runs/a/k", STORE_CA=str(certificate)), "ok 0123456789")
        self.assertRegex(self.tool(url, "get", "runs/a/k"), "^invalid: .*certificate")
        self.assertRegex(self.tool(url, "get", "runs/a/k", STORE_CA=str(self.dir / "no")), "^not_found: ")

    def test_a_redirect_is_followed_without_the_token(self):
        (self.dir / "token").write_text("secret")
        seen = []

        class Other(Board):
            def do_GET(self):
                seen.append(self.headers["Authorization"])
                super().do_GET()

        # Another host, by name: a port alone would be the same one to some.
        other = self.serve(Other).replace("127.0.0.1", "localhost")

        class Redirects(Board):
            def do_GET(self):
                self.answer(302, b"", [("Location", other + self.path)])

        url = self.serve(Redirects)
        self.assertEqual(self.tool(url, "get", "runs/a/k", STORE_TOKEN_FILE=str(self.dir / "token")),
                         "ok 0123456789")
        self.assertEqual(seen, [None])

        class Loops(Board):
            def do_GET(self):
                self.answer(302, b"", [("Location", self.path)])

        self.assertRegex(self.tool(self.serve(Loops), "get", "runs/a/k"), "^invalid: .*redirects")

    def test_the_program_pulls_a_board_from_both_kinds_of_servers(self):
        subprocess.run(["/usr/bin/python3", ROOT / "testdata/unpack.py", self.dir / "data"], check=True,
                       stdout=subprocess.DEVNULL)
        run = functools.partial(subprocess.run, check=True, env=ENVIRONMENT, capture_output=True,
                                text=True, timeout=300)
        run([PROGRAM, "board", "init", self.dir / "board"])
        for step in (37, 38, 39):
            run([PROGRAM, "publish", self.dir / f"data/bf16/step-{step}", "--board", self.dir / "board",
                 "--run", "r", "--baseline", self.dir / "baseline"])
        self.root = self.dir / "board"
        url = self.serve(Board)
        run([PROGRAM, "pull", "--board", url, "--run", "r", "--replica", self.dir / "replica"])
        run([PROGRAM, "verify", self.dir / "replica", "--against", self.dir / "data/bf16/step-39"])
        log = json.loads(run([PROGRAM, "log", "--board", url, "--run", "r", "--json"]).stdout)
        self.assertEqual([v["version"] for v in log["versions"]], [3, 2, 1])
        self.check_swollen_parts_are_refused(run)
        plain = self.serve(Files)
        run([PROGRAM, "pull", "--board", plain, "--run", "r", "--replica", self.dir / "replica2"])
        run([PROGRAM, "verify", self.dir / "replica2", "--against", self.dir / "data/bf16/step-39"])
        refused = subprocess.run([PROGRAM, "publish", self.dir / "data/bf16/step-40", "--board", url,
                                  "--run", "r", "--baseline", self.dir / "baseline"], text=True,
                                 env=ENVIRONMENT, capture_output=True, timeout=300, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("read-only", refused.stderr)

    def check_swollen_parts_are_refused(self, run):
        """A patch of another size than the manifest's: the replica stays, and the disk is not filled."""
        replica = self.dir / "replica4"
        run([PROGRAM, "pull", "--board", self.root, "--run", "r", "--replica", replica, "--version", "1"])
        before = sorted((p.relative_to(replica), p.stat().st_size) for p in replica.rglob("*") if p.is_file())

        class Swollen(Board):
            def answer(self, status, body, headers=()):
                if "/data/" in self.path:
                    return super().answer(200, body + bytes(1 << 20))
                super().answer(status, body, headers)

        done = subprocess.run([PROGRAM, "pull", "--board", self.serve(Swollen), "--run", "r", "--replica", replica],
                              text=True, env=ENVIRONMENT, capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertRegex(done.stderr, r"fetch runs/r/data/\S+ in http://\S+: \d+ bytes, at most \d+ allowed")
        self.assertEqual(before, sorted((p.relative_to(replica), p.stat().st_size)
                                        for p in replica.rglob("*") if p.is_file()))


if __name__ == "__main__":
    unittest.main()
