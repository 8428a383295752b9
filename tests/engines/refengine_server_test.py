#!/usr/bin/env python3
"""The reference engine's completions: shapes, streams, stops, refusals, clients that leave."""

import contextlib
import json
import tempfile
import unittest

import harness
import make_model

LONG = {"prompt": [1, 2, 3], "max_tokens": 4000, "seed": 1, "ignore_eos": True}
MALFORMED = {
    "no JSON": b"{",
    "no object": [1],
    "no prompt": {},
    "an empty prompt": {"prompt": []},
    "a prompt of numbers that are no integers": {"prompt": [1.5]},
    "two prompts": {"prompt": ["a", "b"]},
    "a token outside the vocabulary": {"prompt": [512]},
    "a negative token": {"prompt": [-1]},
    "two choices": {"prompt": "a", "n": 2},
    "nucleus sampling": {"prompt": "a", "top_p": 0.9},
    "no tokens": {"prompt": "a", "max_tokens": 0},
    "more tokens than positions": {"prompt": "a", "max_tokens": 4096},
    "a temperature below zero": {"prompt": "a", "temperature": -1},
    "a seed of text": {"prompt": "a", "seed": "1"},
    "a boolean where a number belongs": {"prompt": "a", "max_tokens": True},
    "too many logprobs": {"prompt": "a", "logprobs": 21},
    "an empty stop": {"prompt": "a", "stop": ""},
    "a salt with a slash": {"prompt": "a", "cache_salt": "run/1"},
    "a long salt": {"prompt": "a", "cache_salt": "x" * 129},
    "a stop id of text": {"prompt": "a", "stop_token_ids": ["1"]},
    "stream options that are none": {"prompt": "a", "stream": True, "stream_options": []},
}


class RefengineServerTest(harness.ServerTest):

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="isthmus-engine-")
        cls.addClassCleanup(cls.shared.cleanup)
        make_model.make(cls.shared.name, seed=1)
        cls.server = harness.Server(harness.REFENGINE, cls.shared.name, "--port", 0,
                                    "--served-model-name", "policy", "--max-num-seqs", 2)
        cls.addClassCleanup(cls.server.stop)

    def complete(self, **body):
        status, answer = self.server.post("/v1/completions", body)
        self.assertEqual(status, 200, answer)
        return answer

    def idle(self):
        return self.server.get("/load")[1] == {"server_load": 0}

    def test_malformed_bodies_are_400_in_the_shape_of_vllm(self):
        for what, body in MALFORMED.items():
            with self.subTest(what):
                status, answer = self.server.post("/v1/completions", body)
                self.assertEqual(status, 400, answer)
                self.assertEqual(answer["error"]["code"], 400)
                self.assertEqual(answer["error"]["type"], "Bad Request")

    def test_another_model_is_404_another_path_404_another_method_405(self):
        self.assertEqual(self.server.post("/v1/completions", {"model": "x", "prompt": "a"})[0], 404)
        self.assertEqual(self.server.get("/v1/nothing")[0], 404)
        self.assertEqual(self.server.get("/v1/completions")[0], 405)

    def test_a_body_without_a_usable_length_is_refused(self):
        with contextlib.closing(self.server.connect()) as connection:
            connection.putrequest("POST", "/v1/completions")
            connection.putheader("Content-Length", "many")
            connection.endheaders()
            self.assertEqual(connection.getresponse().status, 400)

    def test_a_broken_chunked_body_is_refused(self):
        with contextlib.closing(self.server.connect()) as connection:
            connection.request("POST", "/v1/completions", b"many\r\n",
                               {"Transfer-Encoding": "chunked"})
            self.assertEqual(connection.getresponse().status, 400)

    def test_a_chunked_body_is_read(self):
        with contextlib.closing(self.server.connect()) as connection:
            parts = (b'{"prompt": "a", ', b'"max_tokens": 2}')
            connection.request("POST", "/v1/completions", iter(parts), encode_chunked=True,
                               headers={"Transfer-Encoding": "chunked"})
            response = connection.getresponse()
            self.assertEqual(json.loads(response.read())["usage"]["completion_tokens"], 2)

    def test_an_answer_has_the_fields_of_vllm(self):
        answer = self.complete(prompt="ab", max_tokens=3, logprobs=2, seed=1, request_id="r1")
        self.assertEqual(answer["id"], "cmpl-r1")
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["model"], "policy")
        choice = answer["choices"][0]
        self.assertEqual((choice["index"], choice["finish_reason"], choice["stop_reason"]),
                         (0, "length", None))
        for tops, chosen in zip(choice["logprobs"]["top_logprobs"],
                                choice["logprobs"]["tokens"]):
            self.assertIn(chosen, tops)
            self.assertIn(len(tops), (2, 3))
        self.assertEqual(answer["usage"], {
            "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0}})

    def test_a_text_prompt_is_its_bytes(self):
        as_text = self.complete(prompt="héllo", max_tokens=5, seed=1)
        as_ids = self.complete(prompt=list("héllo".encode()), max_tokens=5, seed=1)
        self.assertEqual(as_text["choices"], as_ids["choices"])

    def test_a_stream_has_one_event_a_token_and_the_same_content(self):
        body = {"prompt": [9, 8, 7], "max_tokens": 30, "seed": 4, "temperature": 1.3,
                "logprobs": 1, "return_token_ids": True, "stop": ["<400", "zzz"]}
        whole = self.complete(**body)["choices"][0]
        events = list(self.server.stream("/v1/completions", body))
        choices = [event["choices"][0] for event in events]
        self.assertEqual(len(events), len(whole["token_ids"]))
        self.assertEqual("".join(choice["text"] for choice in choices), whole["text"])
        for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            streamed = [value for choice in choices for value in choice["logprobs"][key]]
            self.assertEqual(streamed, whole["logprobs"][key])
        self.assertEqual(choices[-1]["finish_reason"], whole["finish_reason"])
        self.assertEqual([choice["finish_reason"] for choice in choices[:-1]],
                         [None] * (len(choices) - 1))

    def test_a_stream_tells_its_usage_if_asked(self):
        events = list(self.server.stream("/v1/completions", {
            "prompt": "a", "max_tokens": 2, "stream_options": {"include_usage": True}}))
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 2)

    def test_a_stop_string_ends_the_text_before_it_also_across_tokens(self):
        free = self.complete(prompt="abc", max_tokens=12, seed=2, return_token_ids=True)
        text = free["choices"][0]["text"]
        stop = text[6:12]
        begin = text.index(stop)
        body = {"prompt": "abc", "max_tokens": 12, "seed": 2, "stop": stop}
        choice = self.complete(**body)["choices"][0]
        self.assertEqual(choice["text"], text[:begin])
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
        streamed = [event["choices"][0]["text"]
                    for event in self.server.stream("/v1/completions", body)]
        self.assertEqual("".join(streamed), text[:begin])

    def test_a_stop_token_ends_the_output(self):
        free = self.complete(prompt="abc", max_tokens=6, seed=2, return_token_ids=True)
        third = free["choices"][0]["token_ids"][2]
        first = free["choices"][0]["token_ids"].index(third)
        choice = self.complete(prompt="abc", max_tokens=6, seed=2, return_token_ids=True,
                               stop_token_ids=[third])["choices"][0]
        self.assertEqual(choice["token_ids"], free["choices"][0]["token_ids"][:first + 1])
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", third))

    def test_a_prompt_seen_before_is_cached_within_its_salt_only(self):
        def cached(**options):
            usage = self.complete(prompt=list(range(40)), max_tokens=1, **options)["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual([cached(cache_salt="s"), cached(cache_salt="s"), cached(cache_salt="t")],
                         [0, 32, 0])
        self.assert_reset()
        self.assertEqual(cached(cache_salt="s"), 0)

    def assert_reset(self):
        harness.wait_until(self.idle, "nothing runs")
        self.assertEqual(self.server.post("/reset_prefix_cache"), (200, {"success": True}))

    def test_a_client_that_leaves_ends_its_generation(self):
        stream = self.server.stream("/v1/completions", LONG)
        next(stream)
        stream.close()
        self.assert_aborted()
        connection = self.server.connect()
        connection.request("POST", "/v1/completions", json.dumps(LONG))
        harness.wait_until(lambda: not self.idle(), "the request runs")
        connection.close()
        self.assert_aborted()

    def assert_aborted(self):
        """Nothing is left in an engine that makes no tokens, so nothing ended by itself."""
        self.server.post("/pause?mode=keep&clear_cache=false")
        harness.wait_until(self.idle, "the request is aborted")
        self.server.post("/resume")

    def test_a_request_is_aborted_by_its_id(self):
        stream = self.server.stream("/v1/completions", {**LONG, "request_id": "mine"})
        next(stream)
        self.assertEqual(self.server.post("/abort_requests", {"request_ids": ["cmpl-mine-0"]}),
                         (200, {"status": "aborted", "aborted": 1}))
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "abort")

    def test_an_aborted_request_keeps_no_text_back(self):
        body = {**LONG, "request_id": "held"}
        stream = self.server.stream("/v1/completions", {**body, "stop": "z" * 50000})
        events = [next(stream) for _ in range(3)]
        self.server.post("/abort_requests", {"request_ids": ["cmpl-held-0"]})
        events += list(stream)
        made = self.complete(**{**body, "max_tokens": len(events) - 1})
        self.assertEqual("".join(event["choices"][0]["text"] for event in events),
                         made["choices"][0]["text"])

    def test_more_requests_than_may_run_wait_for_their_turn(self):
        running = [harness.Background(lambda: self.complete(prompt="a", max_tokens=50))
                   for _ in range(6)]
        for request in running:
            self.assertEqual(request.result()["usage"]["completion_tokens"], 50)

    def test_the_routes_are_listed(self):
        paths = self.server.get("/openapi.json")[1]["paths"]
        for path in ("/pause", "/resume", "/collective_rpc", "/update_weight_version"):
            self.assertIn("post", paths[path])
        self.assertEqual(self.server.get("/health"), (200, ""))
        self.assertIn("version", self.server.get("/version")[1])
        self.assertIn("vllm_config", self.server.get("/server_info")[1])
        self.assertEqual(self.server.get("/v1/models")[1]["data"][0]["id"], "policy")
        self.assertEqual(self.server.get("/get_world_size"), (200, {"world_size": 1}))


if __name__ == "__main__":
    unittest.main()
