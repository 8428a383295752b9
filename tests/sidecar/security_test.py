#!/usr/bin/env python3
"""Bearer tokens, TLS, reloading both, and the end by SIGTERM."""

import http.client
import signal
import socket
import ssl
import subprocess
import time
import unittest

import island
import upstream
from island import Reading, harness

CLIENT, OPERATOR = {"Authorization": "Bearer client"}, {"Authorization": "Bearer operator"}
OWN = ("/server_info", "/metrics", "/events")


class TokenTest(island.IslandTest):

    def setUp(self):
        super().setUp()
        self.stop_sidecar()
        self.clients, self.operators = self.dir / "clients", self.dir / "operators"
        self.clients.write_text("client\nanother\n", encoding="ascii")
        self.operators.write_text("operator\n", encoding="ascii")
        self.start_sidecar("--client-tokens", self.clients, "--operator-tokens", self.operators)
        harness.wait_until(lambda: self.sidecar.get("/health")[0] == 200, "ready")

    def statuses(self, headers):
        """Of a generation, of what operators may see, and of a wake."""
        return (self.ask(headers)[0],
                {self.sidecar.call("GET", path, headers=headers)[0] for path in OWN},
                self.sidecar.post("/wake", headers=headers)[0])

    def test_each_token_opens_its_own_doors(self):
        self.assertEqual(self.statuses(CLIENT), (200, {401}, 401))
        self.assertEqual(self.statuses(OPERATOR), (401, {200}, 200))
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "client"},
                        {"Authorization": "Basic client"}, {"Authorization": "Bearer client2"},
                        {"Authorization": "Bearer "}, {"Authorization": "Bearer client another"}):
            self.assertEqual(self.statuses(headers), (401, {401}, 401), headers)
        self.assertEqual((self.sidecar.get("/health")[0], self.sidecar.get("/live")[0]), (200, 200))

    def test_the_engine_does_not_see_them(self):
        self.assertEqual(self.ask(CLIENT)[0], 200)
        self.assertNotIn("Bearer client", str(self.engine.log()))

    def test_they_are_read_again_on_sighup_and_stay_if_they_cannot_be(self):
        self.clients.write_text("newer\n", encoding="ascii")
        self.process.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.ask({"Authorization": "Bearer newer"})[0] == 200,
                           "the new token")
        self.assertEqual(self.ask(CLIENT)[0], 401)
        self.clients.unlink()
        self.process.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: "reload_failed" in str(self.sidecar.call(
            "GET", "/events", headers=OPERATOR)), "the failure is told")
        self.assertEqual(self.ask({"Authorization": "Bearer newer"})[0], 200)

    def test_status_shows_its_token(self):
        url = f"http://127.0.0.1:{self.process.port}"
        text = island.launch.isthmus("status", url, "--token-file", self.operators)
        self.assertIn("ready", text)
        with self.assertRaises(island.launch.LaunchError):
            island.launch.isthmus("status", url)


class TlsTest(island.IslandTest):

    def certify(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.dir / "key", "-out", self.dir / "certificate"],
                       check=True, capture_output=True)
        return ssl.create_default_context(cafile=self.dir / "certificate")

    def get(self, context, path="/health"):
        connection = http.client.HTTPSConnection("127.0.0.1", self.process.port, timeout=60,
                                                 context=context)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def test_it_serves_tls_with_a_certificate_that_is_read_again_on_sighup(self):
        first = self.certify()
        self.stop_sidecar()
        self.start_sidecar("--tls-certificate", self.dir / "certificate", "--tls-key",
                           self.dir / "key")
        harness.wait_until(lambda: self.get(first) == 200, "ready")
        second = self.certify()
        with self.assertRaises(ssl.SSLError):
            self.get(second)
        self.process.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.takes(second), "the new certificate")
        self.assertFalse(self.takes(first))
        answer = upstream.exchange(self.process.port, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertNotIn(b" 200 ", answer)

    def takes(self, context):
        try:
            return self.get(context) == 200
        except ssl.SSLError:
            return False


class EndTest(island.IslandTest):

    def begin(self):
        self.engine.manual()
        reading = Reading(self.sidecar, {"max_tokens": 6})
        harness.wait_until(lambda: self.engine.state()["waiting"], "it is in the engine")
        self.engine.step(2)
        reading.wait_for_tokens(2)
        return reading

    def test_what_is_in_flight_finishes_and_nothing_else_begins(self):
        reading = self.begin()
        self.process.process.terminate()
        harness.wait_until(lambda: not self.listens(), "it no longer listens")
        self.engine.manual(False)
        self.assertTrue(reading.result())
        self.assertEqual(len(reading.tokens()), 6)
        self.assertEqual(self.process.process.wait(harness.DEADLINE_S), 0)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.process.port), 1).close()
            return True
        except OSError:
            return False

    def test_what_does_not_finish_in_time_is_cut_off(self):
        self.stop_sidecar()
        self.start_sidecar("--stop-limit-s", 1)
        self.wait_for_version(1)
        reading = self.begin()
        self.stop_sidecar()
        self.assertFalse(reading.result())

    def test_a_switch_that_is_under_way_is_ended_first(self):
        self.engine.plan("/collective_rpc", "hang")
        self.publish()
        harness.wait_until(lambda: self.engine.state()["hanging"], "the load hangs")
        self.process.process.terminate()
        harness.wait_until(lambda: '"stopping"' in self.events() or not self.events(), "told")
        self.engine.release()
        # Asked once: a second signal would not wait for the switch.
        self.assertEqual(self.process.process.wait(harness.DEADLINE_S), 0, self.process.tail())
        state = self.engine.state()
        self.assertEqual((state["version"], state["pause_mode"]), ("2", None))
        self.start_sidecar()
        self.assertEqual(self.wait_for_version(2)["last_update"]["kind"], "adoption")

    def events(self):
        try:
            return str(self.sidecar.get("/events")[1]).replace("'", '"')
        except OSError:
            return ""

    def test_it_ends_while_it_boots(self):
        self.engine.stop()
        self.wait_for(lambda info: not info["ready"], "its death is noticed")
        self.stop_sidecar()


class SlowClientTest(island.IslandTest):

    def test_half_a_head_is_not_waited_for_for_ever(self):
        begun = time.monotonic()
        halves = [socket.create_connection(("127.0.0.1", self.process.port)) for _ in range(50)]
        for half in halves:
            half.settimeout(harness.DEADLINE_S)
            half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n")
        self.assert_serves(1)
        for half in halves:
            answer = half.recv(4096)
            self.assertTrue(answer == b"" or b" 408 " in answer, answer)
            half.close()
        self.assertGreater(time.monotonic() - begun, 1)

    def test_a_client_that_does_not_read_holds_up_no_other_and_no_switch(self):
        with socket.create_connection(("127.0.0.1", self.process.port)) as lazy:
            lazy.sendall(upstream.request(
                b'{"prompt":"a","max_tokens":20000,"stream":true,"logprobs":1}'))
            self.wait_for(lambda info: info["in_flight"] == 1, "in flight")
            self.assert_serves(1)
            self.release()
            self.assert_serves(2)


if __name__ == "__main__":
    unittest.main()
