#!/usr/bin/env python3
"""What a sidecar tells gateways of its island, and when."""

import http.server
import json
import re
import socket
import threading
import time
import unittest

import island
from island import harness, launch

TTL_S = 2
MEMBERS = {"id", "instance", "url", "ttl_ms", "state", "info"}
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class Gateway:
    """A strict double of a gateway's door for islands. `words` are what it was told, in order.

    status: what it answers; stalls: it takes what comes and answers nothing until `resume`.
    """

    def __init__(self, port=0, name="g1", token=None):
        self.words, self.violations = [], []
        self.status, self.name, self.token = 200, name, token
        self._go_on = threading.Event()
        self._go_on.set()
        double = self

        class Door(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                double.take(self)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Door)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, request):
        at = time.monotonic()
        body = request.rfile.read(int(request.headers["Content-Length"]))
        word = {"at": at, **json.loads(body)}
        self.violations += self.faults_of(request, word)
        self.words.append(word)
        self._go_on.wait(harness.DEADLINE_S)
        answer = json.dumps({"ttl_ms": word["ttl_ms"], "gateway": self.name}).encode()
        try:
            request.send_response(self.status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(answer)))
            request.end_headers()
            request.wfile.write(answer)
        except OSError:
            pass  # who asked has given up

    def faults_of(self, request, word):
        rules = {
            "the path": request.path == "/v1/islands",
            "the kind": request.headers["Content-Type"] == "application/json",
            "the members": set(word) - {"at"} == MEMBERS,
            "the token": self.token is None
            or request.headers["Authorization"] == f"Bearer {self.token}",
            "the id": NAME.fullmatch(word["id"]) and len(word["id"]) <= 128,
            "the instance": NAME.fullmatch(word["instance"]) and len(word["instance"]) <= 64,
            "the time": 1_000 <= word["ttl_ms"] <= 600_000,
            "the state": word["state"] in ("serving", "leaving"),
            "the report": {"run", "ready", "state", "applied"} <= set(word["info"]),
            "nothing after leaving": all(w["state"] != "leaving" for w in self.words
                                         if w["instance"] == word["instance"]),
        }
        return [rule for rule, kept in rules.items() if not kept]

    def stall(self):
        self._go_on.clear()

    def resume(self):
        self._go_on.set()

    def stop(self):
        self.resume()
        self._server.shutdown()
        self._server.server_close()


class AnnounceTest(island.IslandTest):
    options = (*island.POLL, "--gateway-ttl-s", TTL_S)

    def setUp(self):
        self.gateways = [self.gateway(), self.gateway(name="g2")]
        self.options = (*self.options, *(part for gateway in self.gateways
                                         for part in ("--gateway", gateway.url)))
        super().setUp()

    def gateway(self, *arguments, **more):
        gateway = Gateway(*arguments, **more)
        self.addCleanup(gateway.stop)
        self.addCleanup(lambda: self.assertEqual(gateway.violations, []))
        return gateway

    def wait_for_word(self, gateway, condition, what, first=0):
        """The first word from `first` on for which condition(word) holds."""
        return harness.wait_until(
            lambda: next((word for word in gateway.words[first:] if condition(word)), None),
            f"{what}; last: {gateway.words[-1:]}")

    def events(self, name):
        return [event for event in self.sidecar.get("/events")[1] if event["event"] == name]

    def test_all_gateways_are_told_who_it_is_and_what_it_serves(self):
        for gateway in self.gateways:
            word = self.wait_for_word(gateway, lambda w: w["info"]["ready"], "ready")
            self.assertEqual(word["url"], f"http://127.0.0.1:{self.process.port}")
            self.assertTrue(word["id"].endswith(f"-{self.process.port}"), word["id"])
            self.assertEqual(word["ttl_ms"], TTL_S * 1000)
            self.assertEqual(word["state"], "serving")
            self.assertEqual(word["info"]["applied"], 1)
            self.assertEqual(word["info"]["run"], self.run_of_weights.name)
        self.assertEqual(len({word["instance"] for gateway in self.gateways
                              for word in gateway.words}), 1)

    def test_a_heartbeat_comes_without_anything_new(self):
        self.wait_for_word(self.gateways[0], lambda w: w["info"]["ready"], "ready")
        first = len(self.gateways[0].words)
        harness.wait_until(lambda: len(self.gateways[0].words) >= first + 3, "three heartbeats")
        for word in self.gateways[0].words[first:]:
            self.assertEqual(word["info"]["applied"], 1)

    def test_a_switch_is_told_at_once(self):
        # With a heartbeat every quarter of an hour nothing else could tell it.
        self.stop_sidecar()
        first = len(self.gateways[0].words)
        self.options = tuple(600 if part == TTL_S else part for part in self.options)
        self.start_sidecar()
        self.wait_for_word(self.gateways[0], lambda w: w["info"]["ready"], "ready", first)
        self.release()
        word = self.wait_for_word(
            self.gateways[0], lambda w: w["info"]["ready"] and w["info"]["applied"] == 2, "2",
            first)
        self.assertEqual(word["info"]["versions"][-1]["version"], 2)
        self.assertGreater(word["info"]["versions"][-1]["patch_bytes"], 0)

    def test_leaving_is_told_first_and_to_all(self):
        self.wait_for_word(self.gateways[0], lambda w: w["info"]["ready"], "ready")
        self.stop_sidecar()
        for gateway in self.gateways:
            self.assertEqual(gateway.words[-1]["state"], "leaving")
            self.assertTrue(gateway.words[-1]["info"]["ready"])

    def test_a_gateway_that_is_away_holds_up_nobody(self):
        lost, other = self.gateways
        self.wait_for_word(lost, lambda w: w["info"]["ready"], "ready")
        lost.stall()
        self.release()
        self.wait_for_word(other, lambda w: w["info"]["applied"] == 2, "2 at the other one")
        harness.wait_until(lambda: self.events("gateway_lost"), "the loss is told")
        self.assert_serves(2)
        self.assertEqual(len(self.events("gateway_lost")), 1)
        lost.name = "g1-again"
        lost.resume()
        harness.wait_until(lambda: [event for event in self.events("gateway_joined")
                                    if event["instance"] == "g1-again"], "it is joined again")

    def test_a_gateway_that_takes_nothing_does_not_keep_it_from_leaving(self):
        self.wait_for_word(self.gateways[0], lambda w: w["info"]["ready"], "ready")
        self.gateways[0].stall()
        self.stop_sidecar()
        self.assertEqual(self.gateways[1].words[-1]["state"], "leaving")

    def test_a_refusal_is_an_event_and_is_tried_again(self):
        self.gateways[0].status = 409
        harness.wait_until(lambda: self.events("gateway_lost"), "the refusal is told")
        self.assertIn("409", self.events("gateway_lost")[0]["error"])
        self.gateways[0].status = 200
        first = len(self.gateways[0].words)
        self.wait_for_word(self.gateways[0], lambda w: True, "another try", first)

    def test_what_is_said_can_be_chosen(self):
        self.stop_sidecar()
        token = self.dir / "token"
        token.write_text("secret\n")
        guarded = self.gateway(token="secret")
        self.start_sidecar("--gateway", guarded.url, "--gateway-token", token, "--island-id",
                           "eu-7", "--advertise", "https://eu-7.example:8443")
        word = self.wait_for_word(guarded, lambda w: w["info"]["ready"], "ready")
        self.assertEqual((word["id"], word["url"]), ("eu-7", "https://eu-7.example:8443"))

    def test_a_sidecar_that_cannot_know_its_address_asks_for_it(self):
        self.stop_sidecar()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        process = launch.Process(
            (launch.program(), "sidecar", "--board", self.board, "--run",
             self.run_of_weights.name, "--replica", self.dir / "replica", "--engine",
             self.engine.spec, "--listen", f"0.0.0.0:{port}", "--gateway", self.gateways[0].url),
            self.dir / "refused.log")
        self.addCleanup(process.kill)
        harness.wait_until(lambda: process.process.poll() is not None, "it ends")
        self.assertIn("--advertise", process.tail())


if __name__ == "__main__":
    unittest.main()
