#!/usr/bin/env python3
"""The log of rollouts behind a real gateway: what finished is found by its id and in the store."""

import signal
import threading
import unittest

from doubles import DoublesTest
from fleet import harness, island, launch
from sidecar_double import SidecarDouble, chunk, completion, info


class RecordTest(DoublesTest):
    def setUp(self):
        super().setUp()
        self.store = self.dir / "rollouts"

    def start(self, *options, **more):
        super().start("--record", self.store, "--record-spool", self.dir / "spool", *options, **more)

    def rollout(self, request_id):
        status, line = self.gateway.get(f"/v1/rollouts/{request_id}")
        return line if status == 200 else None

    def wait_for_rollout(self, request_id):
        return harness.wait_until(lambda: self.rollout(request_id), f"rollout {request_id}")

    def stored(self):
        """All lines of the store, each id once."""
        lines = [harness.json.loads(line) for line in
                 launch.isthmus("rollouts", self.store).splitlines()]
        ids = [line["id"] for line in lines]
        self.assertEqual(len(ids), len(set(ids)))
        return {line["id"]: line for line in lines}

    def stop(self):
        self.assertEqual(self.process.stop(), 0, self.process.tail())

    def words(self, call):
        """An answer in three events, or in one piece."""
        if b'"stream": true' not in call.body:
            return call.answer(completion())
        call.begin_stream()
        for number, finish in enumerate((None, None, "stop")):
            call.event(chunk(text=f"w{number} ", finish=finish))
        call.event("[DONE]")
        return call.end_stream()

    def test_answers_are_found(self):
        self.add("one", self.words)
        self.start("--record-requests")
        self.assertEqual(self.ask({"Isthmus-Request-Id": "whole", "Isthmus-Session": "s"})[0], 200)
        self.assertEqual(self.ask({"Isthmus-Request-Id": "stream"}, stream=True)[0], 200)
        self.assertEqual(self.ask({"Isthmus-Request-Id": "stream"}, stream=True)[0], 200)
        made = self.ask()[1]["Isthmus-Request-Id"]
        whole, stream = self.rollout("whole"), self.rollout("stream")
        self.assertEqual(whole["answer"], completion())
        self.assertEqual((whole["session"], whole["island"], whole["run"]), ("s", "one", "run"))
        self.assertEqual(whole["request"], island.COMPLETION)
        self.assertEqual(stream["answer"]["choices"][0]["text"], "w0 w1 w2 ")
        self.assertTrue(stream["streamed"])
        self.assertEqual(self.rollout(made)["id"], made)
        for unknown, status in (("never", 404), ("..%2fetc", 400), ("x" * 200, 400)):
            self.assertEqual(self.gateway.get(f"/v1/rollouts/{unknown}")[0], status)
        self.stop()
        self.assertEqual(self.stored().keys(), {"whole", "stream", made})
        self.assertEqual(self.stored()["whole"], whole)

    def test_what_did_not_finish_is_none(self):
        def fail(call):
            if b"half" in call.body:
                call.begin_stream()
                call.event(chunk())
                return False
            call.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")
            return True
        self.add("one", fail)
        self.start()
        self.assertEqual(self.ask({"Isthmus-Request-Id": "bad"})[0], 400)
        connection, response = self.gateway.send(
            "POST", "/v1/completions", {"prompt": "half", "stream": True},
            {"Isthmus-Request-Id": "half"})
        with harness.contextlib.closing(connection), \
                self.assertRaises(harness.http.client.HTTPException):
            response.read()
        self.wait_at_rest()
        self.assertIsNone(self.rollout("bad"))
        self.assertIsNone(self.rollout("half"))

    def test_a_client_that_leaves_at_the_last_event(self):
        """The end of the body has not come: all clients of streams leave so."""
        for last in ("[DONE]", None):
            with self.subTest(last):
                left = threading.Event()

                def generate(call, last=last, left=left):
                    call.begin_stream()
                    call.event(chunk(finish="stop"))
                    if last:
                        call.event(last)
                    left.wait(harness.DEADLINE_S)
                    call.wait_for_end()
                name = "marked" if last else "unmarked"
                self.add(name, generate)
                self.start()
                stream = self.gateway.stream("/v1/completions", island.COMPLETION,
                                             {"Isthmus-Request-Id": name})
                self.assertEqual(next(stream)["choices"][0]["finish_reason"], "stop")
                stream.close()
                left.set()
                line = self.wait_for_rollout(name)
                self.assertEqual(line["answer"]["choices"][0]["text"], "word ")
                self.assertEqual((line["version_start"], line["version_end"]), (1, 1))
                self.wait_at_rest()
                self.stop()
                self.islands = {}

    def test_what_a_client_has_read_is_recorded_though_the_gateway_dies(self):
        def generate(call):
            call.begin_stream()
            call.event(chunk(finish="stop"))
            call.event("[DONE]")
            call.wait_for_end()
        self.add("one", generate)
        self.start()
        stream = self.gateway.stream("/v1/completions", island.COMPLETION,
                                     {"Isthmus-Request-Id": "read"})
        list(stream)
        self.assertFalse(stream.cut_off)
        self.assertEqual(self.process.kill(), -signal.SIGKILL)
        self.start()
        self.assertEqual(self.rollout("read")["id"], "read")

    def test_a_rollout_is_of_its_run_though_its_island_has_gone(self):
        goes_on = threading.Event()

        def generate(call):
            call.begin_stream()
            call.event(chunk())
            goes_on.wait(harness.DEADLINE_S)
            call.event(chunk(finish="stop"))
            call.event("[DONE]")
            return call.end_stream()
        double = SidecarDouble(self, generate)
        self.start()
        self.assertEqual(self.gateway.post("/v1/islands", {
            "id": "goes", "instance": "i", "url": f"http://127.0.0.1:{double.port}",
            "ttl_ms": 60_000, "state": "serving", "info": info()})[0], 200)
        stream = self.gateway.stream("/v1/completions", island.COMPLETION,
                                     {"Isthmus-Request-Id": "orphan"})
        next(stream)
        self.assertEqual(self.gateway.call("DELETE", "/v1/islands/goes")[0], 204)
        goes_on.set()
        list(stream)
        self.assertFalse(stream.cut_off)
        line = self.rollout("orphan")
        self.assertEqual((line["run"], line["island"]), ("run", "goes"))

    def test_a_gateway_that_is_killed_loses_nothing(self):
        self.add("one", self.words)
        self.start("--record-rotate-s", 1)
        got = []
        for turn in range(3):
            for number in range(30):
                request_id = f"r{turn}-{number}"
                self.assertEqual(self.ask({"Isthmus-Request-Id": request_id},
                                          stream=number % 2 == 0)[0], 200)
                got.append(request_id)
            self.assertEqual(self.process.kill(), -signal.SIGKILL)
            self.start("--record-rotate-s", 1)
            for request_id in got:
                self.assertEqual(self.wait_for_rollout(request_id)["id"], request_id)
        self.stop()
        self.assertEqual(self.stored().keys(), set(got))

    def test_one_spool_has_one_gateway(self):
        self.add("one", self.words)
        self.start()
        with self.assertRaisesRegex(launch.LaunchError, "spool"):
            DoublesTest.start(self, "--record", self.store, "--record-spool", self.dir / "spool")


if __name__ == "__main__":
    unittest.main()
