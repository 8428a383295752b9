#!/usr/bin/env python3
"""The nginx configurations of docs/relay.md: they serve a board's objects, ranges and all."""

import os
import re
import shutil
import socket
import subprocess
import unittest

import relays
from relays import RUN

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
IMMUTABLE = "public, max-age=31536000, immutable"
FRAME = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/client_body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{snippet}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def snippets():
    document = (relays.ROOT / "docs" / "relay.md").read_text(encoding="utf-8")
    return re.findall(r"```nginx\n(.*?)```", document, re.DOTALL)


class Nginx(relays.Relay):
    """One with a configuration of the document, in which addresses and paths are replaced."""

    def __init__(self, folder, snippet, places):
        self.port = free_port()
        for name, place in {"listen 8090;": f"listen 127.0.0.1:{self.port};", **places}.items():
            assert name in snippet, name
            snippet = snippet.replace(name, place)
        folder.mkdir()
        settings = folder / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        settings.write_text(FRAME.format(user=user, folder=folder, snippet=snippet))
        self.log = folder / "nginx.log"
        self.process = subprocess.Popen([NGINX, "-p", folder, "-c", settings],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        relays.wait_until(self.is_up, "nginx listens")

    def is_up(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("/board.json").status == 200
        except relays.Cut:
            return False


@unittest.skipUnless(NGINX, "no nginx here (package nginx-light)")
class NginxTest(relays.RelayTest):

    def setUp(self):
        super().setUp()
        self.part = RUN + "data/1/a/part"
        self.content = self.put_random(self.part, 3_000_000)
        self.put(RUN + "head.json", b"hint")

    def nginx(self, number, **places):
        server = Nginx(self.dir / f"nginx-{number}", snippets()[number], places)
        self.addCleanup(self.end, server)
        return server

    def check(self, server):
        whole = server.ask("/" + self.part)
        self.assertEqual((whole.status, whole.body), (200, self.content))
        self.assertEqual(whole.headers["Cache-Control"], IMMUTABLE)
        part = server.ask("/" + self.part, headers={"Range": "bytes=1000000-1999999"})
        self.assertEqual((part.status, part.body), (206, self.content[1_000_000:2_000_000]))
        beyond = server.ask("/" + self.part, headers={"Range": "bytes=3000000-"})
        self.assertEqual(beyond.status, 416)
        tag = whole.headers["ETag"]
        self.assertEqual(server.ask("/" + self.part, headers={"If-None-Match": tag}).status, 304)
        hint = server.ask(f"/{RUN}head.json")
        self.assertEqual((hint.body, hint.headers["Cache-Control"]), (b"hint", "no-cache"))
        self.put(RUN + "head.json", b"newer")
        relays.wait_until(lambda: server.get(f"/{RUN}head.json") == b"newer", "the newer hint")
        self.assertEqual(server.ask(f"/{RUN}log/0000000009.json").status, 404)
        self.put(RUN + "log/0000000009.json", b"9")
        relays.wait_until(lambda: server.ask(f"/{RUN}log/0000000009.json").status == 200,
                          "the new entry")

    def test_it_serves_a_directory(self):
        (self.board / RUN / "data/1/a/.part.tmp").write_bytes(b"half")
        (self.board / "secret").write_bytes(b"x")
        server = self.nginx(0, **{"/mnt/board": str(self.board)})
        self.check(server)
        for target in (f"/{RUN}data/1/a/.part.tmp", "/secret", f"/{RUN}data/", "/"):
            self.assertIn(server.ask(target).status, (403, 404), target)

    def test_it_caches_what_a_relay_serves(self):
        relay = self.start()
        server = self.nginx(1, **{"relay.example:8090": f"127.0.0.1:{relay.port}",
                                  "/var/cache/nginx/board": str(self.dir / "nginx-cache")})
        self.check(server)
        before = relay.metric("client_bytes_total")
        loads = [relays.Background(server.get, "/" + self.part) for _ in range(8)]
        self.assertEqual({load.result() for load in loads}, {self.content})
        self.assertEqual(relay.metric("client_bytes_total"), before)


if __name__ == "__main__":
    unittest.main()
