#!/usr/bin/env python3
"""Requests that no honest client sends, slow clients, tokens, TLS, rates, and the end by signals."""

import signal
import socket
import ssl
import subprocess
import time
import unittest

import relays
from relays import MEBIBYTE, RUN, Cut

CLIENT = {"Authorization": "Bearer client"}


def exchange(port, request):
    """All that comes back for these bytes until the relay closes or is silent."""
    with socket.create_connection(("127.0.0.1", port), relays.DEADLINE_S) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := client.recv(1 << 16):
            answer += piece
        return answer


def request(target, *fields):
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", b"Host: a", b"Connection: close",
                         *fields, b"", b""])


class HostileTest(relays.RelayTest):

    def setUp(self):
        super().setUp()
        self.put(RUN + "data/1/a/part", b"content")
        self.put(RUN + "data/1/a/.hidden", b"half of something")
        (self.dir / "secret").write_bytes(b"what nobody may read")
        self.relay = self.start()

    def ask(self, target, *fields):
        """As exchange, but the sending half stays open, as honest clients leave it."""
        with socket.create_connection(("127.0.0.1", self.relay.port), relays.DEADLINE_S) as client:
            client.sendall(request(target, *fields))
            answer = b""
            while piece := client.recv(1 << 16):
                answer += piece
        return answer

    def test_nothing_outside_of_the_boards_keys_is_reached(self):
        targets = [b"/../secret", b"/runs/../../secret", b"/runs/%2e%2e/%2e%2e/secret",
                   b"/..%2fsecret", b"/%2e%2e%2fsecret", b"/runs/r/data/1/a/.hidden",
                   b"/runs/r/data/1/a/%2ehidden", b"//runs/r/data/1/a/part", b"/runs//r", b"/runs/",
                   b"/runs/r/data/1/a/part/", b"/runs/r/data/1/a/part%00", b"/runs/r/./run.json",
                   b"/runs\\r\\run.json", b"/runs/r;x/run.json", b"/board.json?", b"/board.json?v=1",
                   b"/%", b"/%zz", b"/%c0%ae%c0%ae/secret", b"/\xff", b"http://a/board.json", b"*",
                   b"/" + b"a/" * 600 + b"a", b"/" + b"%61" * 1025]
        for target in targets:
            answer = self.ask(target)
            status = answer.split(b" ", 2)[1:2]
            allowed = [b"200"] if target == b"/board.json?" else [b"400", b"404"]
            self.assertIn(status[0], allowed, (target, answer[:200]))
            self.assertNotIn(b"what nobody may read", answer)
            self.assertNotIn(b"half of something", answer)
        self.assertEqual(self.relay.get(f"/{RUN}data/1/a/part"), b"content")

    def test_ranges_that_make_no_sense_do_no_harm(self):
        size = str(len(b"content")).encode()
        for text, status in ((b"bytes=18446744073709551615-", b"416"), (b"bytes=7-", b"416"),
                             (b"bytes=99999999999999999999999-999999999999999999999999999", b"416"),
                             (b"bytes=0-18446744073709551616", b"206"),
                             (b"bytes=-18446744073709551616", b"206"), (b"bytes=-0", b"416"),
                             (b"bytes=5-1", b"200"), (b"bytes=", b"200"), (b"bytes=,", b"200"),
                             (b"bytes=0-0," * 3000 + b"1-1", b"200"), (b"x" * 20_000, b"200"),
                             (b"bytes=0-0\r\nRange: bytes=1-1", b"200")):
            answer = self.ask(b"/runs/r/data/1/a/part", b"Range: " + text)
            self.assertEqual(answer.split(b" ", 2)[1], status, text[:50])
            if status == b"416":
                self.assertIn(b"bytes */" + size, answer)

    def test_a_head_that_is_too_large_and_bodies_are_refused_or_dropped(self):
        answer = self.ask(b"/board.json", b"X: " + b"a" * 200_000)
        self.assertIn(answer.split(b" ", 2)[1], (b"431", b"400"))
        answer = self.ask(b"/board.json", b"Content-Length: 100000000")
        self.assertEqual(answer.split(b" ", 2)[1], b"413")
        answer = self.relay.ask("/board.json", headers={"Content-Length": "0"})
        self.assertEqual(answer.status, 200)

    def test_clients_that_read_nothing_hold_up_nobody(self):
        content = self.put_random(RUN + "data/2/a/part", 32 * MEBIBYTE)
        lazy = []
        for _ in range(50):
            client = socket.create_connection(("127.0.0.1", self.relay.port))
            self.addCleanup(client.close)
            client.sendall(request(b"/runs/r/data/2/a/part"))
            lazy.append(client)
        relays.wait_until(lambda: self.relay.metric("requests_total") >= 50, "they have asked")
        self.assertEqual(self.relay.get(f"/{RUN}data/2/a/part"), content)
        status = (relays.pathlib.Path("/proc") / str(self.relay.process.pid) / "status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines()
                    if line.startswith("VmHWM"))
        # 51 answers of 32 MiB; what is held of them is pieces.
        self.assertLess(peak << 10, 256 * MEBIBYTE)

    def test_a_connection_more_than_allowed_waits(self):
        relay = self.start("--max-connections", 2, cache=None)
        first, second, third = relay.connect(), relay.connect(), relay.connect()
        for connection in (first, second):
            self.assertEqual(relay.ask("/health", connection=connection).status, 200)
        third.request("GET", "/health")
        first.close()
        self.assertEqual(third.getresponse().status, 200)
        second.close()
        third.close()


class TokenTest(relays.RelayTest):

    def setUp(self):
        super().setUp()
        self.tokens = self.dir / "tokens"
        self.tokens.write_text("client\n", encoding="ascii")
        self.relay = self.start("--client-tokens", self.tokens, "--event-log",
                                self.dir / "events")

    def status(self, target, headers):
        return self.relay.ask(target, headers=headers).status

    def test_all_but_the_health_needs_a_token(self):
        for target in ("/board.json", "/?list=", "/metrics", "/v1/runs/r/watch?after=0&timeout_ms=1",
                       "/none", "/healthy", "/../x"):
            answer = self.relay.ask(target)
            self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, "Bearer"))
            self.assertNotEqual(self.status(target, CLIENT), 401)
        self.assertEqual(self.status("/health", {}), 200)

    def test_tokens_are_read_again_on_sighup_and_stay_if_they_cannot_be(self):
        self.tokens.write_text("newer\n", encoding="ascii")
        self.relay.process.send_signal(signal.SIGHUP)
        newer = {"Authorization": "Bearer newer"}
        relays.wait_until(lambda: self.status("/board.json", newer) == 200, "the new token")
        self.assertEqual(self.status("/board.json", CLIENT), 401)
        self.tokens.unlink()
        self.relay.process.send_signal(signal.SIGHUP)
        relays.wait_until(lambda: "reload_failed" in (self.dir / "events").read_text(), "told")
        self.assertEqual(self.status("/board.json", newer), 200)


class TlsTest(relays.RelayTest):

    def test_it_serves_tls(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.dir / "key", "-out", self.dir / "certificate"],
                       check=True, capture_output=True)
        content = self.put_random(RUN + "data/1/a/part", 9 * MEBIBYTE)
        relay = self.start("--tls-certificate", self.dir / "certificate", "--tls-key",
                           self.dir / "key")
        context = ssl.create_default_context(cafile=self.dir / "certificate")
        connection = relays.http.client.HTTPSConnection("127.0.0.1", relay.port, context=context,
                                                        timeout=relays.DEADLINE_S)
        for _ in range(2):
            answer = relay.ask(f"/{RUN}data/1/a/part", connection=connection)
            self.assertEqual((answer.status, answer.body), (200, content))
        connection.close()
        self.assertNotIn(b" 200 ", exchange(relay.port, request(b"/board.json")))


class RateTest(relays.RelayTest):

    def test_a_client_gets_no_more_than_its_rate(self):
        content = self.put_random(RUN + "data/1/a/part", 3 * MEBIBYTE)
        relay = self.start("--client-bytes-per-s", MEBIBYTE)
        begun = time.monotonic()
        pulls = [relays.Background(relay.get, f"/{RUN}data/1/a/part") for _ in range(2)]
        for pull in pulls:
            self.assertEqual(pull.result(), content)
        # 6 MiB, of which one second's worth may come at once. Slower is allowed.
        self.assertGreater(time.monotonic() - begun, 4.5)


class EndTest(relays.RelayTest):

    def begin(self, *options):
        """A relay and an answer that has begun and takes long."""
        self.content = self.put_random(RUN + "data/1/a/part", 3 * MEBIBYTE)
        relay = self.start("--client-bytes-per-s", MEBIBYTE, *options)
        pull = relays.Background(relay.ask, f"/{RUN}data/1/a/part")
        relays.wait_until(lambda: relay.metric("client_bytes_total") > 0, "it has begun")
        return relay, pull

    @staticmethod
    def listens(relay):
        try:
            socket.create_connection(("127.0.0.1", relay.port), 1).close()
            return True
        except OSError:
            return False

    def test_what_has_begun_ends_and_nothing_else_begins(self):
        relay, pull = self.begin()
        relay.process.terminate()
        relays.wait_until(lambda: not self.listens(relay), "it no longer listens")
        self.assertEqual(pull.result().body, self.content)
        self.assertEqual(relay.process.wait(relays.DEADLINE_S), 0)

    def test_a_second_signal_ends_it_at_once(self):
        relay, pull = self.begin()
        relay.process.terminate()
        relays.wait_until(lambda: not self.listens(relay), "it no longer listens")
        relay.process.terminate()
        self.assertEqual(relay.process.wait(relays.DEADLINE_S), 6)
        with self.assertRaises(Cut):
            pull.result()

    def test_what_takes_longer_than_the_limit_is_cut(self):
        relay, pull = self.begin("--stop-limit-s", 1)
        self.assertEqual(relay.stop(), 0)
        with self.assertRaises(Cut):
            pull.result()


if __name__ == "__main__":
    unittest.main()
