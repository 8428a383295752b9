#!/usr/bin/env python3
"""Requests that say how long they may take, what they are for and what they are called."""

import contextlib
import json
import unittest

import island
from island import harness


class DeadlineTest(island.IslandTest):

    def ask_with(self, headers, path="/v1/completions", **more):
        """(status, answer, headers of the answer)"""
        connection, response = self.sidecar.send(
            "POST", path, {**island.COMPLETION, **more}, headers)
        with contextlib.closing(connection):
            return response.status, json.loads(response.read()), response.headers

    def wait_until_idle(self):
        def idle():
            state = self.engine.state()
            return not state["running"] and not state["waiting"]
        harness.wait_until(idle, "the engine ended its generation")
        self.wait_for(lambda info: info["in_flight"] == info["waiting"] == 0, "all have ended")

    def assert_expired(self, status, answer):
        self.assertEqual(status, 504, answer)
        self.assertEqual(answer["error"]["type"], "DeadlineExceeded")

    def test_a_generation_that_takes_too_long_is_ended(self):
        self.engine.manual()
        status, answer, headers = self.ask_with(
            {"Isthmus-Deadline-Ms": "300", "Isthmus-Request-Id": "r-1"})
        self.assert_expired(status, answer)
        self.assertEqual(headers["Isthmus-Request-Id"], "r-1")
        self.wait_until_idle()
        self.engine.manual(False)
        self.assert_serves(1)

    def test_a_stream_that_takes_too_long_is_cut_off(self):
        self.engine.manual()
        reading = island.Reading(self.sidecar, headers={"Isthmus-Deadline-Ms": "5000"})
        self.engine.step()
        reading.wait_for_tokens(1)
        self.assertFalse(reading.result())
        self.wait_until_idle()

    def test_a_deadline_bounds_a_wait(self):
        for headers in ({"Isthmus-Wait-Ms": "60000"}, {"Isthmus-Wait-Ms": "60000",
                                                       "Isthmus-Request-Id": "r-2"}):
            status, answer, got = self.ask_with(
                {**headers, "Isthmus-Exact-Version": "2", "Isthmus-Deadline-Ms": "200"})
            self.assert_expired(status, answer)
            self.assertEqual(got["Isthmus-Request-Id"], headers.get("Isthmus-Request-Id"))
        self.wait_until_idle()

    def test_a_connection_serves_on_after_a_deadline(self):
        connection = self.sidecar.connect()
        with contextlib.closing(connection):
            for deadline, version, status in (("200", "2", 504), ("60000", "1", 200),
                                              ("200", "2", 504), ("60000", "1", 200)):
                connection.request(
                    "POST", "/v1/completions", json.dumps(island.COMPLETION).encode(),
                    {"Content-Type": "application/json", "Isthmus-Wait-Ms": "60000",
                     "Isthmus-Exact-Version": version, "Isthmus-Deadline-Ms": deadline})
                response = connection.getresponse()
                response.read()
                self.assertEqual(response.status, status)

    def test_a_deadline_that_is_kept_changes_nothing(self):
        status, answer, headers = self.ask_with(
            {"Isthmus-Deadline-Ms": "60000", "Isthmus-Priority": "evaluation",
             "Isthmus-Request-Id": "r.3"})
        self.assertEqual(status, 200)
        self.assert_true_answer(answer)
        self.assertEqual(headers["Isthmus-Request-Id"], "r.3")

    def test_refusals_have_the_request_id_too(self):
        status, _, headers = self.ask_with(
            {"Isthmus-Exact-Version": "9", "Isthmus-Request-Id": "r-4"})
        self.assertEqual(status, 409)
        self.assertEqual(headers["Isthmus-Request-Id"], "r-4")

    def test_what_is_malformed_is_refused_by_name(self):
        for name, values in (("Isthmus-Deadline-Ms", ("0", "-1", "1s", "86400001")),
                             ("Isthmus-Priority", ("urgent", "")),
                             ("Isthmus-Request-Id", ("", "a b", "a" * 129))):
            for value in values:
                status, answer, _ = self.ask_with({name: value})
                self.assertEqual(status, 400, (name, value))
                self.assertIn(name, answer["error"]["message"])

    def test_the_counter_says_how_often(self):
        self.ask_with({"Isthmus-Wait-Ms": "60000", "Isthmus-Exact-Version": "2",
                       "Isthmus-Deadline-Ms": "100"})
        text = self.sidecar.get("/metrics")[1]
        line = next(line for line in text.splitlines() if '"expired"' in line)
        self.assertEqual(float(line.rsplit(" ", 1)[1]), 1, line)


if __name__ == "__main__":
    unittest.main()
