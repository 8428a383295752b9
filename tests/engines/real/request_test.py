#!/usr/bin/env python3
"""Requests through the sidecar to the real vLLM: the engine's own answers, admission, locks."""

import contextlib
import re
import unittest

import island
from island import harness

SAMPLED = {"max_tokens": 32, "temperature": 0.7, "seed": 11, "ignore_eos": True}
REQUESTS = {
    "/v1/completions": {**SAMPLED, "prompt": [11, 12, 13], "logprobs": 2, "return_token_ids": True},
    "/v1/chat/completions": {**SAMPLED, "messages": [{"role": "user", "content": "\u00fcber"}],
                             "logprobs": True, "top_logprobs": 2, "return_token_ids": True},
    "/inference/v1/generate": {"token_ids": [11, 12, 13],
                               "sampling_params": {**SAMPLED, "logprobs": 2}},
}
# What differs between two calls of the engine itself, and what the sidecar adds.
OWN = rb'"(?:id|request_id)":"[^"]*"|"created":\d+'
STAMP = rb',"weight_version_(?:start|end)":\d+'
# Routes of 0.32 that change or show the engine's state; clients have no business there.
CONTROL = {
    "/abort_requests", "/collective_rpc", "/finish_weight_update", "/inference/v1/abort_requests",
    "/init_weight_transfer_engine", "/is_paused", "/is_sleeping", "/pause",
    "/release_kv_cache_memory", "/reset_encoder_cache", "/reset_mm_cache", "/reset_prefix_cache",
    "/resume", "/scale_elastic_ep", "/shutdown_weight_transfer_engine", "/sleep",
    "/start_draft_weight_update", "/start_weight_update", "/update_weight_version",
    "/update_weights", "/wake_up", "/weight_checker", "/weight_info"}
COMPLETION = {"prompt": [1, 2], "max_tokens": 4}


def raw(client, path, body):
    """(headers, bytes) of an answer."""
    connection, response = client.send("POST", path, body)
    with contextlib.closing(connection):
        data = response.read()
        assert response.status == 200, data
        return response.headers, data


class RequestTest(island.IslandTest):

    def admission(self, headers, body=COMPLETION):
        """(status, versions of the answer) of a completion with these constraints."""
        status, answer = self.sidecar.post("/v1/completions", body, headers)
        versions = answer if status == 200 else {}
        return status, versions.get("weight_version_start"), versions.get("weight_version_end")

    # Answers

    def test_an_answer_is_the_engines_own_byte_for_byte_but_for_the_stamps(self):
        for path, body in REQUESTS.items():
            with self.subTest(path):
                _, own = raw(self.engine, path, body)
                headers, stamped = raw(self.sidecar, path, body)
                self.assertEqual(re.sub(STAMP, b"", re.sub(OWN, b"", stamped)),
                                 re.sub(OWN, b"", own))
                self.assertEqual(re.findall(STAMP, stamped), [
                    b',"weight_version_start":1', b',"weight_version_end":1'])
                self.assertEqual((headers["Isthmus-Version-Start"], headers["Isthmus-Version-End"]),
                                 ("1", "1"))

    def test_a_stream_brings_the_engines_tokens_and_log_probabilities(self):
        for path, body in REQUESTS.items():
            with self.subTest(path):
                own, stamped = (self.joined(client, path, body)
                                for client in (self.engine, self.sidecar))
                self.assertEqual(stamped, own)

    @staticmethod
    def joined(client, path, body):
        """(tokens, log-probabilities) of a stream: its events are cut as time would have it."""
        tokens, log_probabilities = [], []
        for event in client.stream(path, body):
            for choice in event["choices"]:
                tokens += choice.get("token_ids") or ()
                logprobs = choice["logprobs"] or {}
                log_probabilities += logprobs.get("content") or logprobs.get("token_logprobs") or ()
        return tokens, log_probabilities

    def test_an_engines_refusal_arrives_as_it_is(self):
        for body in ({**COMPLETION, "model": "no such"}, {**COMPLETION, "max_tokens": -1}):
            own = self.engine.post("/v1/completions", body)
            self.assertIn(own[0], (400, 404))
            self.assertEqual(self.sidecar.post("/v1/completions", body), own)

    def test_spans_are_told_on_request(self):
        status, answer = self.sidecar.post("/v1/completions", COMPLETION,
                                           {"Isthmus-Version-Spans": "1"})
        self.assertEqual(status, 200, answer)
        self.assertIn("weight_version_spans", answer)

    # Admission

    def test_constraints_that_hold_are_admitted_at_the_served_version(self):
        self.release(2)
        for headers in ({}, {"Isthmus-Min-Version": "1"}, {"Isthmus-Min-Version": "2"},
                        {"Isthmus-Exact-Version": "2"}, {"Isthmus-Max-Lag": "0"}):
            self.assertEqual(self.admission(headers), (200, 2, 2), headers)
        for fields in ({"min_version": 2}, {"exact_version": 2},
                       {"min_version": 1, "exact_version": None}):
            body = {**COMPLETION, "weight_version": fields}
            self.assertEqual(self.admission({}, body), (200, 2, 2), fields)

    def test_constraints_that_do_not_hold_are_a_conflict(self):
        self.release(2)
        for headers in ({"Isthmus-Min-Version": "3"}, {"Isthmus-Exact-Version": "1"},
                        {"Isthmus-Exact-Version": "3"},
                        {"Isthmus-Exact-Version": "1", "Isthmus-Wait-Ms": "60000"}):
            self.assertEqual(self.admission(headers)[0], 409, headers)
        body = {**COMPLETION, "weight_version": {"min_version": 3}}
        self.assertEqual(self.admission({}, body)[0], 409)

    def test_malformed_constraints_are_the_clients_error(self):
        for headers in ({"Isthmus-Min-Version": "two"}, {"Isthmus-Exact-Version": "0"},
                        {"Isthmus-Wait-Ms": "-1"},
                        {"Isthmus-Min-Version": "2", "Isthmus-Exact-Version": "1"}):
            self.assertEqual(self.admission(headers)[0], 400, headers)
        body = {**COMPLETION, "weight_version": {"min_version": "1"}}
        self.assertEqual(self.admission({}, body)[0], 400)

    def test_a_request_may_wait_for_a_version_that_is_still_to_be_published(self):
        waiting = harness.Background(self.admission, {"Isthmus-Min-Version": "2",
                                                      "Isthmus-Wait-Ms": "60000"})
        # A client that waits less long has been refused by then: the first one is in the line.
        self.assertEqual(self.admission({"Isthmus-Min-Version": "2", "Isthmus-Wait-Ms": "50"})[0],
                         409)
        self.assertTrue(waiting.is_alive())
        self.release(2)
        self.assertEqual(waiting.result(), (200, 2, 2))

    # Locks

    def test_control_routes_are_closed_to_clients(self):
        offered = self.engine.get("/openapi.json")[1]["paths"]
        self.assertLessEqual(CONTROL, set(offered))
        for path in sorted(CONTROL):
            for method in offered[path]:
                body = {} if method == "post" else None
                status, answer = self.sidecar.call(method.upper(), path, body)
                self.assertEqual(status, 403, (method, path, answer))
        self.assertEqual(self.sidecar.post("/pause?mode=abort")[0], 403)
        self.assertEqual(self.engine.get("/is_paused"), (200, {"is_paused": False}))
        self.assert_serves(1)


if __name__ == "__main__":
    unittest.main()
