#!/usr/bin/env python3
"""What clients may ask for and how, what they are told instead, and which doors are closed."""

import json
import unittest

import island
import upstream

CONTROL = {
    "vllm": ("/pause", "/resume", "/is_paused", "/collective_rpc", "/update_weights", "/sleep",
             "/start_weight_update", "/finish_weight_update", "/init_weight_transfer_engine",
             "/reset_prefix_cache", "/reset_mm_cache", "/update_weight_version", "/weight_info",
             "/weight_checker", "/wake_up", "/abort_requests", "/inference/v1/abort_requests",
             "/v1/load_lora_adapter", "/openapi.json"),
    "sglang": ("/pause_generation", "/continue_generation", "/update_weights_from_disk",
               "/update_weights_from_tensor", "/flush_cache", "/release_memory_occupation",
               "/weights_checker", "/abort_request", "/update_weight_version", "/v1/loads",
               "/hicache/storage-backend/clear", "/health_generate", "/ready")}
# A path as some server or other takes it for itself.
SPELLINGS = ("{}", "{}/", "/{}", "/.{}", "/v1/..{}", "/v1/completions/..{}", "{}?mode=keep",
             "{}?", "{};x", "{}#x", "/%2e%2e{}", "/v1/completions/../..{}", "{}%00", "{}%2f")
MIB = 1 << 20


class RequestTest(island.IslandTest):

    def refusal(self, headers=None, body=None):
        """(status, text of the answer)"""
        status, answer = self.sidecar.post("/v1/completions", body or island.COMPLETION, headers)
        return status, json.dumps(answer)

    def raw(self, data, half_close=False):
        answer = upstream.exchange(self.process.port, data, half_close)
        return int(answer.split(b" ", 2)[1]) if answer else None

    def completions(self):
        return [call for call in self.engine.log("/v1/completions")
                if "isthmus-canary" not in str(call["body"])]

    # Constraints

    def test_body_and_headers_make_one_constraint(self):
        self.release()
        for headers, body, expected in (
                ({"Isthmus-Min-Version": "1"}, {"exact_version": 2}, 200),
                ({"Isthmus-Min-Version": "2"}, {"min_version": 2}, 200),
                ({"Isthmus-Exact-Version": "1"}, {"min_version": 1}, 409),
                ({"Isthmus-Min-Version": "1"}, {"min_version": 2}, 400),
                ({"Isthmus-Exact-Version": "1"}, {"exact_version": 2}, 400),
                ({"Isthmus-Exact-Version": "1"}, {"min_version": 2}, 400),
                ({"Isthmus-Min-Version": "2"}, None, 200)):
            status, text = self.refusal(headers, {**island.COMPLETION, "weight_version": body})
            self.assertEqual(status, expected, (headers, body, text))
            if expected == 400:
                self.assertIn("min_version" if "exact_version" not in str(body)
                              and "Exact" not in str(headers) else "_version", text)

    def test_malformed_constraints_are_refused_by_name(self):
        for name, values in {
                "Isthmus-Min-Version": ("", "-1", "+1", "1.0", "1e3", "0x1", "two", "10000000000",
                                        "99999999999999999999", "1 2"),
                "Isthmus-Exact-Version": ("0", "-1", "", "10000000000"),
                "Isthmus-Max-Lag": ("", "-1", "1m", "s", "ms", "1.5s", "31536001s"),
                "Isthmus-Wait-Ms": ("", "-1", "3600001", "1s"),
                "Isthmus-Run": ("", ".a", "a/b", "x" * 129),
                "Isthmus-Session": ("", "a b", "x" * 129),
                "Isthmus-Session-Pin": ("", "true", "2"),
                "Isthmus-Version-Spans": ("yes",)}.items():
            for value in values:
                status, text = self.refusal({name: value})
                self.assertEqual(status, 400, (name, value, text))
                field = name.removeprefix("Isthmus-").lower().replace("-", "_")
                self.assertTrue(name in text or field in text, text)
        for fields in ({"min_version": "1"}, {"min_version": -1}, {"min_version": 1.0},
                       {"min_version": True}, {"min": 1}, {"exact_version": 0}, [1], 1, "1",
                       {"min_version": 10 ** 10}, {"min_version": 3, "exact_version": 2}):
            status, text = self.refusal(None, {**island.COMPLETION, "weight_version": fields})
            self.assertEqual(status, 400, (fields, text))
            self.assertIn("_version", text)
        self.assertEqual(self.completions(), [])

    def test_unknown_and_repeated_fields_of_the_sidecar_are_refused_by_name(self):
        status, text = self.refusal({"Isthmus-Minimum": "1"})
        self.assertEqual(status, 400)
        self.assertIn("Isthmus-Minimum", text)
        for fields in (b"Isthmus-Min-Version: 1\r\nisthmus-min-version: 1\r\n",
                       b"Isthmus-Wait-Ms: 1\r\nIsthmus-Wait-Ms: 2\r\n"):
            self.assertEqual(self.raw(upstream.request(b'{"prompt":"a"}', fields=fields)), 400)
        self.assertEqual(self.refusal({"Isthmus-Session-Pin": "1"})[0], 400)

    def test_what_is_no_json_object_is_refused(self):
        for body in (b"", b"[]", b"null", b"{", b'{"prompt":"a"', b'{"prompt":"a"}}', b'{"a":1,}',
                     b"{'a':1}", b'{"a":NaN}', b'{"a":"\xff"}', b'{"a":01}', b'{"a":"\n"}',
                     b"\xef\xbb\xbf{}", b'{"weight_version":null,"weight_version":null}',
                     b'{"stream":1}', b'{"cache_salt":1}', b'{"cache_salt":"\\ud800"}',
                     b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}"):
            self.assertEqual(self.raw(upstream.request(body)), 400, body[:40])
        self.assertEqual(self.completions(), [])

    def test_a_conflict_says_what_was_asked_and_what_is_served_and_when_to_come_back(self):
        connection, response = self.sidecar.send(
            "POST", "/v1/completions", island.COMPLETION, {"Isthmus-Min-Version": "7"})
        body = json.loads(response.read())
        connection.close()
        self.assertEqual(response.status, 409)
        self.assertEqual(response.headers["Retry-After"], "1")
        self.assertEqual((body["type"], body["target_version"], body["applied"]),
                         ("WeightVersionNotReady", 7, 1))
        self.assertEqual(self.refusal({"Isthmus-Run": "another"})[0], 409)

    def test_while_it_boots_it_is_unavailable_and_retryable(self):
        self.engine.stop()
        self.wait_for(lambda info: not info["ready"], "its death is noticed")
        connection, response = self.sidecar.send("POST", "/v1/completions", island.COMPLETION)
        body = json.loads(response.read())["error"]
        connection.close()
        self.assertEqual((response.status, response.headers["Retry-After"], body["type"],
                          body["retryable"]), (503, "1", "EngineUnavailable", True))

    # Sizes

    def test_a_body_above_the_limit_is_refused_without_being_read(self):
        self.stop_sidecar()
        self.start_sidecar("--max-body-mib", 1)
        self.wait_for_version(1)
        self.assertEqual(self.version_of(filler="x" * (MIB // 2)), 1)
        start = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
        self.assertEqual(self.raw(start + b"Content-Length: 1048577\r\n\r\n"), 413)
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        self.assertEqual(self.raw(start + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17), 413)

    def test_a_head_above_the_limit_is_refused(self):
        self.assertEqual(self.raw(b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 65536), 431)
        self.assertEqual(self.raw(b"GET /" + b"x" * 70000), 431)

    # Closed doors

    def test_control_routes_are_closed_in_every_spelling(self):
        before = len(self.engine.log())
        tried = 0
        for path in (path for paths in CONTROL.values() for path in paths):
            for spelling in SPELLINGS:
                target = spelling.format(path)
                self.assertIn(self.raw(upstream.request(b"{}", target)), (400, 403), target)
                tried += 1
            self.assertEqual(self.raw(upstream.request(b"", path, "GET")), 403, path)
        for target in ("http://a/pause", "HTTP://127.0.0.1/pause", "*", "a:1"):
            self.assertIn(self.raw(upstream.request(b"{}", target)), (400, 403), target)
        for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "post"):
            self.assertIn(self.raw(upstream.request(b"{}", "/pause", method)), (400, 403, 405, 501))
        self.assertGreater(tried, 400)
        reached = {call["path"] for call in self.engine.log()[before:]}
        self.assertLessEqual(reached, {"/is_paused", "/weight_info"})  # the sidecar's own looks

    def test_information_of_the_engine_is_open(self):
        self.assertEqual(self.sidecar.get("/v1/models"), self.engine.get("/v1/models"))
        self.assertEqual(self.sidecar.get("/version"), self.engine.get("/version"))

    # Smuggling

    def test_requests_whose_end_is_in_doubt_are_refused(self):
        start = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
        for fields in (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                       b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
                       b"Content-Length: 2\r\nContent-Length: 3\r\n", b"Content-Length: -2\r\n",
                       b"Content-Length: 2,3\r\n", b"Content-Length: +2\r\n",
                       b"Transfer-Encoding: chunked, identity\r\n", b"Content-Length: 0x2\r\n",
                       b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding : chunked\r\n",
                       b"Content-Length: 2\r\n X: folded\r\n", b"X\x00: 1\r\n",
                       b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"):
            hidden = b"POST /pause HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            status = self.raw(start + fields + b"\r\n{}" + hidden, half_close=True)
            self.assertIn(status, (400, 411, 501), fields)
        for chunks in (b"-1\r\n", b"0x2\r\n{}\r\n0\r\n\r\n", b"2 \x01\r\n",
                       b"fffffffffffffffff\r\n", b"2\r\n{}0\r\n\r\n", b"\r\n", b"2\n{}\n0\n\n"):
            status = self.raw(start + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, True)
            self.assertIn(status, (400, 413, None), chunks)
        self.assertEqual(self.completions(), [])
        self.assertFalse([call for call in self.engine.log("/pause")[1:]])
        self.assert_serves(1)


class SglangRequestTest(island.IslandTest):
    kinds = ("sglang",)

    def test_generate_takes_a_constraint_and_stamps_meta_info(self):
        body = {"text": "abc", "sampling_params": {"max_new_tokens": 3}}
        status, answer = self.sidecar.post("/generate", body, {"Isthmus-Exact-Version": "1"})
        meta = answer["meta_info"]
        self.assertEqual((status, meta["weight_version_start"], meta["weight_version_end"],
                          meta["weight_version"]), (200, 1, 1, "1"))
        for token in answer["_double"]:
            self.assert_true_token(token)
        status, answer = self.sidecar.post("/generate", {**body, "text": ["a", "b"]})
        self.assertEqual([each["meta_info"]["weight_version_end"] for each in answer], [1, 1])


if __name__ == "__main__":
    unittest.main()
