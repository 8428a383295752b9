#!/usr/bin/env python3
"""How a gateway learns of islands: they register, stand in files and names, and are looked at."""

import pathlib
import signal
import unittest

from doubles import DoublesTest
from fleet import harness
from sidecar_double import SidecarDouble, completion, info


class RegistrationTest(DoublesTest):
    """Islands that come and go, by what they say themselves."""

    def register(self, name, double, instance="i", **more):
        return self.gateway.post("/v1/islands", {
            "id": name, "instance": instance, "url": f"http://127.0.0.1:{double.port}",
            "ttl_ms": 1000, "state": "serving", "info": double.info, **more})

    def double(self):
        return SidecarDouble(self, lambda call: call.answer(completion()))

    def test_the_first_keeps_its_id(self):
        first, second = self.double(), self.double()
        self.start()
        self.assertEqual(self.register("one", first, ttl_ms=60_000)[0], 200)
        self.assertEqual(self.register("one", second, "other", ttl_ms=60_000)[0], 409)
        self.assertEqual(self.facts("one")["url"], f"http://127.0.0.1:{first.port}")
        self.assertEqual(self.ask()[0], 200)
        self.assertEqual((len(first.calls), len(second.calls)), (1, 0))
        # Once the first leaves the id is free.
        self.assertEqual(self.register("one", first, state="leaving")[0], 200)
        self.assertEqual(self.register("one", second, "other", ttl_ms=60_000)[0], 200)
        self.assertEqual(self.facts("one")["url"], f"http://127.0.0.1:{second.port}")

    def test_heartbeats_that_end_and_come_back(self):
        double = self.double()
        self.start()
        self.assertEqual(self.register("flaps", double)[0], 200)
        self.wait_for_state("flaps", "gone")
        self.assertEqual(self.ask()[0], 503)
        self.assertEqual(self.register("flaps", double, ttl_ms=60_000)[0], 200)
        self.wait_for_state("flaps", "ready")
        self.assertEqual(self.ask()[0], 200)

    def test_one_that_comes_back_again_and_again_is_held(self):
        double = self.double()
        self.start()
        for turn in range(5):
            self.assertEqual(self.register("flaps", double, f"i{turn}", ttl_ms=60_000)[0], 200)
            self.gateway.call("DELETE", "/v1/islands/flaps")
        self.assertEqual(self.register("flaps", double, "last", ttl_ms=60_000)[0], 200)
        facts = self.facts("flaps")
        self.assertNotEqual(facts["state"], "ready", facts)
        self.wait_for_state("flaps", "ready")  # it is let in in the end

    def test_clocks_do_nothing(self):
        double = self.double()
        double.info = info(board={"head": 1, "newest": 1, "read_at": "9999-12-31T23:59:59Z"},
                           last_update={"kind": "switch", "from": 0, "to": 1, "ok": True,
                                        "ended_at": "0001-01-01T00:00:00Z"})
        self.start()
        self.assertEqual(self.register("late", double, now="1970-01-01T00:00:00Z",
                                       sent_at=-1e300)[0], 200)
        self.wait_for_state("late", "ready")
        self.assertEqual(self.ask()[0], 200)
        self.assertEqual(self.gateway.get("/v1/fleet/history")[0], 200)

    def test_malformed_ones_are_refused(self):
        double = self.double()
        self.start()
        for wrong in ({"ttl_ms": 0}, {"ttl_ms": 10 ** 30}, {"ttl_ms": -1}, {"ttl_ms": 1.5},
                      {"url": "http://127.0.0.1:0"}, {"url": "file:///etc"}, {"url": 5},
                      {"url": "http://" + "x" * 600}, {"id": "../etc"}, {"id": ""},
                      {"id": "x" * 129}, {"instance": ""}, {"state": "here"}, {"info": []},
                      {"info": {"run": "x"}}, {"info": info(version=10 ** 11)}):
            with self.subTest(wrong):
                status, answer = self.register("one", double, **wrong)
                self.assertEqual(status, 400, answer)
        for body in (b"", b"{", b"[]", b"null", b"\xff", b'{"id":' * 2000):
            self.assertEqual(self.gateway.post("/v1/islands", body)[0], 400, body)
        self.assertEqual(self.gateway.post("/v1/islands", b" " * (1 << 20))[0], 413)
        self.assertEqual(self.gateway.get("/v1/fleet")[1]["islands"], [])


class SourcesTest(DoublesTest):
    def test_a_file_of_islands(self):
        one, two = self.add("one"), self.add("two")
        self.islands = {}
        file = self.dir / "islands"
        self.replace(file, f"one=http://127.0.0.1:{one.port}  # the first\n")
        self.start("--islands", file)
        self.wait_for_state("one", "ready")
        self.replace(file, f"one=http://127.0.0.1:{one.port}\ntwo=http://127.0.0.1:{two.port}\n")
        self.wait_for_state("two", "ready")
        for bad in ("", "not an island at all\n", "# only words\n"):
            self.replace(file, bad)
            self.wait_for_event("islands_unread")
            self.assertEqual(self.facts("one")["state"], "ready")
        file.unlink()
        harness.wait_until(lambda: len(self.events("islands_unread")) > 1, "it is missed")
        self.assertEqual(self.facts("two")["state"], "ready")
        self.replace(file, f"two=http://127.0.0.1:{two.port}\n")
        self.wait_for_state("one", "gone")
        self.assertEqual(self.ask()[1]["Isthmus-Island"], "two")

    def test_a_name(self):
        one = self.add("one")
        self.islands = {}
        self.start("--islands-dns", f"http://localhost:{one.port}",
                   "--islands-dns", "http://no-such-name.invalid:80")
        self.wait_for_state(f"127.0.0.1-{one.port}", "ready")
        self.wait_for_event("islands_unread")
        self.assertEqual(self.ask()[0], 200)

    @staticmethod
    def replace(file, text):
        """At once, as those do who know that it is read."""
        new = pathlib.Path(f"{file}.new")
        new.write_text(text, encoding="utf-8")
        new.rename(file)


class ProbesTest(DoublesTest):
    """What /server_info may be."""

    def test_who_says_nonsense_is_suspect(self):
        for name, answer in (("half", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
                             ("garbage", b"\0\1\2\3" * 1000),
                             ("html", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"),
                             ("huge", b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{"),
                             ("nothing", b"")):
            self.add(name, server_info=lambda call, answer=answer: call.send(answer))
        self.add("right")
        self.start(ready=["right"])
        for name in self.islands:
            if name != "right":
                self.assertTrue(self.wait_for_state(name, "suspect")["reason"])
        for _ in range(20):
            self.assertEqual(self.ask()[1]["Isthmus-Island"], "right")

    def test_a_gateway_that_starts_again(self):
        self.add("one")
        self.start()
        self.assertEqual(self.ask()[0], 200)
        self.assertEqual(self.process.kill(), -signal.SIGKILL)
        with self.assertRaises(ConnectionError):
            self.ask()
        self.start(port=self.process.port)
        self.assertEqual(self.ask()[0], 200)


if __name__ == "__main__":
    unittest.main()
