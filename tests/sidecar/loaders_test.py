#!/usr/bin/env python3
"""Islands whose engines are loaded by a command or a webhook, and take requests at an address of
their own."""

import http.server
import json
import stat
import threading
import unittest

import island
from island import harness, launch

PROGRAM = """#!/bin/sh
test -e "{folder}/broken" && echo "no such device" >&2 && exit 3
echo "$1 $2" >> "{folder}/loads"
"""


class LoaderTest(harness.ServerTest):
    """The engine is a double that nobody pauses or loads: what the sidecar says is looked at."""

    def setUp(self):
        super().setUp()
        self.run_of_weights = launch.Run(self.dir)
        self.run_of_weights.publish(island.checkpoint(1))
        self.engine = island.Double("vllm", island.checkpoint(0))
        self.addCleanup(self.engine.stop)

    def start_sidecar(self, engine, *options):
        self.process = launch.Sidecar(
            self.run_of_weights.board, self.run_of_weights.name, self.dir / "replica", [engine],
            self.dir / "sidecar.log", "--upstream", f"http://127.0.0.1:{self.engine.port}",
            *island.POLL, *options)
        self.addCleanup(self.process.kill)
        self.sidecar = harness.Client(self.process.port)

    def info(self):
        return self.sidecar.get("/server_info")[1]

    def wait_for_version(self, version):
        harness.wait_until(lambda: self.info()["applied"] == version, f"version {version}")

    def release(self, version):
        self.run_of_weights.publish(island.checkpoint(version))
        self.wait_for_version(version)

    def version_that_answers(self):
        status, answer = self.sidecar.post("/v1/completions", island.COMPLETION)
        self.assertEqual(status, 200, answer)
        return answer["weight_version_end"]


class CommandTest(LoaderTest):

    def setUp(self):
        super().setUp()
        program = self.dir / "load"
        program.write_text(PROGRAM.format(folder=self.dir), encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.start_sidecar(f"command:{program}")

    def loads(self):
        return (self.dir / "loads").read_text(encoding="utf-8").splitlines()

    def test_it_is_run_with_the_replica_and_each_version(self):
        self.wait_for_version(1)
        self.assertEqual(self.version_that_answers(), 1)
        self.release(2)
        self.assertEqual(self.version_that_answers(), 2)
        self.assertEqual(self.loads(), [f"{self.dir / 'replica'} {v}" for v in (1, 2)])

    def test_one_that_fails_leaves_nothing_served_and_its_last_words_are_told(self):
        self.wait_for_version(1)
        (self.dir / "broken").touch()
        self.run_of_weights.publish(island.checkpoint(2))
        info = harness.wait_until(
            lambda: (info := self.info())["gate"] == "poisoned" and info, "a failed load")
        self.assertEqual(self.sidecar.post("/v1/completions", island.COMPLETION)[0], 503)
        self.assertIn("no such device", info["reason"])
        (self.dir / "broken").unlink()
        harness.wait_until(lambda: self.info()["ready"], "ready again")

    def test_requests_that_no_salt_isolates_are_counted(self):
        self.wait_for_version(1)
        self.version_that_answers()
        self.assertRegex(self.sidecar.get("/metrics")[1],
                         r"(?m)^isthmus_sidecar_requests_without_salt_total\{.*\} 1$")
        self.assertEqual(self.engine.log("/v1/completions")[-1]["body"], island.COMPLETION)


class Webhook(http.server.ThreadingHTTPServer):
    """Notes what it is sent; answers 500 while `broken`."""

    def __init__(self):
        self.bodies, self.broken = [], False
        super().__init__(("127.0.0.1", 0), WebhookHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class WebhookHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.send_response(500 if self.server.broken else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


class WebhookTest(LoaderTest):

    def test_it_gets_the_replica_and_each_version_and_a_refusal_is_no_load(self):
        hook = Webhook()
        self.addCleanup(hook.server_close)
        self.addCleanup(hook.shutdown)
        self.start_sidecar(f"webhook:http://127.0.0.1:{hook.server_address[1]}/load")
        self.wait_for_version(1)
        self.release(2)
        self.assertEqual(hook.bodies, [{"checkpoint": str(self.dir / "replica"),
                                        "weight_version": str(v)} for v in (1, 2)])
        hook.broken = True
        self.run_of_weights.publish(island.checkpoint(3))
        harness.wait_until(lambda: self.info()["gate"] == "poisoned", "a failed load")
        hook.broken = False
        harness.wait_until(lambda: self.info()["ready"], "ready again")


if __name__ == "__main__":
    unittest.main()
