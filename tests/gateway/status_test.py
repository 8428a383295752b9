#!/usr/bin/env python3
"""What a gateway says of itself and to whom; tokens, TLS, its end; islands that register by themselves."""

import gzip
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import threading
import unittest

import fleet
from doubles import DoublesTest
from fleet import harness, island
from sidecar_double import chunk, completion

CLIENT, OPERATOR = {"Authorization": "Bearer client"}, {"Authorization": "Bearer operator"}
OPEN = ("/health", "/live", "/", "/dashboard/main.js")
CLIENTS = ("/v1/rollouts/some", "/v1/runs/run/ready?version=1&timeout_ms=0", "/v1/models")
OPERATORS = ("/v1/fleet", "/v1/fleet/history", "/metrics", "/events")
SAMPLE = re.compile(r'^([a-z_][a-z0-9_]*)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
                    r'(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (NaN|[+-]?Inf|[-+0-9.e]+)$')
PROMTOOL = next((str(path) for path in (fleet.ROOT / ".venv-deploy/bin/promtool",
                                        pathlib.Path(shutil.which("promtool") or "/nowhere"))
                 if path.is_file()), None)


class TokensTest(DoublesTest):
    def setUp(self):
        super().setUp()
        self.clients, self.operators = self.dir / "clients", self.dir / "operators"
        self.clients.write_text("client\n", encoding="ascii")
        self.operators.write_text("operator\n", encoding="ascii")
        self.one = self.add("one", self.answer)
        self.start("--client-tokens", self.clients, "--operator-tokens", self.operators, ready=[])
        harness.wait_until(lambda: self.status("/health", {}) == 200, "it serves")

    def answer(self, call):
        if call.line.startswith("GET"):
            return call.answer({"data": []})
        return call.answer(completion())

    def status(self, path, headers):
        return self.gateway.call("GET", path, headers=headers)[0]

    def test_each_token_opens_its_own_doors(self):
        for headers in ({}, CLIENT, OPERATOR, {"Authorization": "Bearer client2"},
                        {"Authorization": "Basic client"}):
            with self.subTest(headers):
                for path in OPEN:
                    self.assertEqual(self.status(path, headers), 200, path)
                for path in CLIENTS:
                    self.assertEqual(self.status(path, headers) == 401, headers != CLIENT, path)
                for path in OPERATORS:
                    self.assertEqual(self.status(path, headers), 200 if headers == OPERATOR else 401)
                self.assertEqual(self.ask(headers)[0], 200 if headers == CLIENT else 401)
                self.assertEqual(self.gateway.post("/v1/islands", {}, headers)[0],
                                 400 if headers == OPERATOR else 401)
                self.assertEqual(self.gateway.call("DELETE", "/v1/islands/x", headers=headers)[0],
                                 404 if headers == OPERATOR else 401)

    def test_islands_do_not_see_them(self):
        self.assertEqual(self.ask(CLIENT)[0], 200)
        self.assertNotIn("authorization", self.one.calls[-1].headers)

    def test_they_are_read_again_on_sighup_and_stay_if_they_cannot_be(self):
        newer = {"Authorization": "Bearer newer"}
        self.clients.write_text("newer\n", encoding="ascii")
        self.process.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.ask(newer)[0] == 200, "the new token")
        self.assertEqual(self.ask(CLIENT)[0], 401)
        self.clients.unlink()
        self.process.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: "reload_failed" in str(self.gateway.call(
            "GET", "/events", headers=OPERATOR)), "the failure is told")
        self.assertEqual(self.ask(newer)[0], 200)


class WhatItSaysTest(fleet.FleetTest):
    count = 2

    def test_metrics_are_well_formed(self):
        self.ask({"Isthmus-Session": 'of "quotes"\\'})
        self.assertEqual(self.ask({"Isthmus-Session": "s"})[0], 200)
        text = self.gateway.get("/metrics")[1]
        families = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.assertNotIn(name, families)
                families[name] = kind
            elif not line.startswith("#"):
                self.assertRegex(line, SAMPLE)
                name = SAMPLE.match(line)[1]
                base = re.sub("_(bucket|sum|count)$", "", name)
                self.assertTrue(name in families or families.get(base) == "histogram", line)
                self.assertTrue(name.startswith("isthmus_"), line)
        samples = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line[0] != "#"]
        self.assertEqual(len(samples), len(set(samples)))
        if PROMTOOL:
            checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, text=True,
                                     capture_output=True, check=False)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_fleet_history_and_events(self):
        self.publish()
        self.wait_for_version(2)
        self.assertEqual(self.ask()[0], 200)
        facts = self.fleet()
        self.assertEqual(facts["runs"][0]["versions"], [{"version": 2, "islands": 2}])
        self.assertEqual(facts["runs"][0]["served"], {"islands": 2, "fraction_newest": 1.0})
        for one in facts["islands"]:
            self.assertEqual((one["served"], one["lag"], one["source"], one["breaker"]),
                             (2, 0, "listed", "closed"))
            self.assertEqual(one["last_update"]["to"], 2)
        brief = self.gateway.get("/v1/fleet?brief=1")[1]["islands"][0]["last_update"]
        self.assertLessEqual(brief.keys(), {"to", "ok", "ended_at", "stage_ms", "closed_ms"})

        def sampled():
            history = self.gateway.get("/v1/fleet/history")[1]
            runs = history["samples"][-1]["runs"] if history["samples"] else []
            return history if runs and runs[0]["versions"] == [[2, 2]] else None
        history = harness.wait_until(sampled, "a sample with version 2")
        self.assertFalse(history["reset"] and history["cursor"] == "")
        self.assertEqual({line["id"] for line in history["timelines"]}, {"island-0", "island-1"})
        self.assertTrue(any(update["to"] == 2 and update["ok"] for update in history["updates"]))
        after = self.gateway.get(f"/v1/fleet/history?after={history['cursor']}")[1]
        self.assertFalse(after["reset"])
        self.assertTrue(self.gateway.get("/v1/fleet/history?after=nonsense.1")[1]["reset"])
        for wrong in ("since_s=0", "since_s=x", "what=1", "since_s=99999999"):
            self.assertEqual(self.gateway.get(f"/v1/fleet/history?{wrong}")[0], 400, wrong)
        self.assertIn("started", [event["event"] for event in self.gateway.get("/events")[1]])

    def test_assets(self):
        for path in ("/", "/dashboard/main.js", "/dashboard/style.css"):
            plain = self.asset(path)
            self.assertEqual(plain.status, 200)
            self.assertIn("default-src 'self'", plain.headers["Content-Security-Policy"])
            self.assertEqual(plain.headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(plain.headers["Referrer-Policy"], "no-referrer")
            self.assertEqual(plain.headers["Cache-Control"], "no-cache")
            self.assertNotIn("Content-Encoding", plain.headers)
            zipped = self.asset(path, {"Accept-Encoding": "gzip, br"})
            self.assertEqual(zipped.headers["Content-Encoding"], "gzip")
            self.assertEqual(gzip.decompress(zipped.body), plain.body)
            self.assertNotEqual(zipped.headers["ETag"], plain.headers["ETag"])
            for one in (plain, zipped):
                again = self.asset(path, {"Accept-Encoding": one.headers.get("Content-Encoding", ""),
                                          "If-None-Match": one.headers["ETag"]})
                self.assertEqual((again.status, again.body), (304, b""))
        self.assertEqual(self.asset("/dashboard/../etc/passwd").status, 403)
        head = self.asset("/", method="HEAD")
        self.assertEqual((head.status, head.body), (200, b""))

    def asset(self, path, headers=None, method="GET"):
        connection, response = self.gateway.send(method, path, headers=headers)
        with harness.contextlib.closing(connection):
            response.body = response.read()
            return response


class EndTest(DoublesTest):
    def test_sigterm_lets_streams_end_and_takes_nobody_in(self):
        goes_on = threading.Event()

        def generate(call):
            call.begin_stream()
            call.event(chunk())
            goes_on.wait(harness.DEADLINE_S)
            call.event(chunk(finish="stop"))
            call.event("[DONE]")
            return call.end_stream()
        self.add("one", generate)
        self.start()
        stream = self.gateway.stream("/v1/completions", island.COMPLETION)
        next(stream)
        waiting = self.gateway.connect()
        self.addCleanup(waiting.close)
        waiting.request("GET", "/v1/runs/run/ready?version=9&timeout_ms=600000")
        for _ in range(3):  # when others have been answered, it was read
            self.assertEqual(self.gateway.get("/live")[0], 200)
        self.process.process.send_signal(signal.SIGTERM)

        def is_closed():
            try:
                connection = self.gateway.connect()
                connection.connect()
                connection.close()
                return False
            except ConnectionRefusedError:
                return True
        harness.wait_until(is_closed, "nobody is taken in")
        self.assertEqual(waiting.getresponse().status, 202)
        self.assertIsNone(self.process.process.poll())
        goes_on.set()
        list(stream)
        self.assertFalse(stream.cut_off)
        self.assertEqual(self.process.process.wait(harness.DEADLINE_S), 0)

    def test_it_serves_tls(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.dir / "key", "-out", self.dir / "certificate"],
                       check=True, capture_output=True)
        context = ssl.create_default_context(cafile=self.dir / "certificate")
        self.add("one")
        self.start("--tls-certificate", self.dir / "certificate", "--tls-key", self.dir / "key",
                   ready=[])

        def serves():
            connection = harness.http.client.HTTPSConnection(
                "127.0.0.1", self.process.port, timeout=harness.DEADLINE_S, context=context)
            with harness.contextlib.closing(connection):
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
        harness.wait_until(serves, "it serves")
        with self.assertRaises((ConnectionError, harness.http.client.HTTPException)):
            self.gateway.get("/health")


class RegisteringTest(fleet.FleetTest):
    """Sidecars with --gateway and gateways that know of no island."""

    count = 0

    def join(self, name, *gateways):
        urls = [part for one in gateways for part in ("--gateway", f"http://127.0.0.1:{one.port}")]
        one = self.start_island(name, *urls, "--gateway-ttl-s", 2, "--island-id", name,
                                port=fleet.steady_port())
        self.islands.append(one)
        return one

    def test_islands_join_two_gateways_and_leave(self):
        self.assertEqual(self.gateway.get("/health")[0], 503)
        self.assertEqual(self.ask()[0], 503)
        first = self.process
        self.start_gateway()
        second = self.process
        gateways = (harness.Client(first.port), harness.Client(second.port))
        one, two = self.join("one", first, second), self.join("two", first, second)
        for self.gateway in gateways:
            self.wait_for_version(1)
            self.assertEqual({facts["source"] for facts in self.fleet()["islands"]}, {"registered"})
            self.assertEqual(self.ask()[0], 200)
        one.leave()
        for self.gateway in gateways:
            self.assertIn(self.island_facts("one")["state"], ("draining", "gone"))
            self.wait_for_state("one", "gone")
            self.assertEqual(self.island_of(), "two")
        two.kill()  # says nothing: its heartbeats end
        for self.gateway in gateways:
            self.wait_for_state("two", "gone", "suspect")
            self.assertEqual(self.ask()[0], 503)
        two.restart()
        for self.gateway in gateways:
            self.wait_for_state("two", "ready")
            self.assertEqual(self.island_of(), "two")

    def test_a_gateway_that_starts_again_is_told_again(self):
        self.process.kill()
        self.start_gateway(port=fleet.steady_port())
        self.join("one", self.process)
        self.wait_for_state("one", "ready")
        self.assertEqual(self.process.kill(), -signal.SIGKILL)
        self.start_gateway(port=self.process.port)
        self.wait_for_state("one", "ready")
        self.assertEqual(self.island_of(), "one")

    def test_an_operator_removes_one(self):
        one = self.join("one", self.process)
        self.wait_for_state("one", "ready")
        one.send_signal("sidecar", signal.SIGSTOP)  # it would say that it is there
        self.assertEqual(self.gateway.call("DELETE", "/v1/islands/one")[0], 204)
        self.assertEqual(self.island_facts("one")["state"], "gone")
        self.assertEqual(self.gateway.call("DELETE", "/v1/islands/one")[0], 404)
        self.assertEqual(self.gateway.call("GET", "/v1/islands/one")[0], 405)
        one.send_signal("sidecar", signal.SIGCONT)
        self.wait_for_state("one", "ready")


if __name__ == "__main__":
    unittest.main()
