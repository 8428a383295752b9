#!/usr/bin/env python3
"""The reference engine changes its weights between two tokens, as vLLM's control routes say."""

import json
import shutil
import unittest

import harness

QUESTION = {"prompt": [5, 6, 7, 8], "max_tokens": 12, "seed": 3, "logprobs": 0,
            "return_token_ids": True}
LONG = {**QUESTION, "max_tokens": 1500, "temperature": 0, "ignore_eos": True}


class RefengineReloadTest(harness.ServerTest):

    def setUp(self):
        super().setUp()
        self.old, self.new = self.make_model("old", 1), self.make_model("new", 2)
        self.server = self.start_refengine(self.old)

    def choice(self, server=None, **options):
        status, answer = (server or self.server).post("/v1/completions", {**QUESTION, **options})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]

    def reload(self, path):
        return self.server.post("/collective_rpc", {"method": "reload_weights",
                                                    "kwargs": {"weights_path": str(path)}})

    def pause(self, query):
        self.assertEqual(self.server.post(f"/pause?{query}"), (200, {"status": "paused"}))

    def resume(self):
        self.assertEqual(self.server.post("/resume"), (200, {"status": "resumed"}))

    def switch(self, path, query="mode=keep"):
        self.pause(query)
        self.assertEqual(self.reload(path), (200, {"results": [None]}))
        self.resume()

    def begin(self, body=None):
        """(a stream of which two tokens are read, those tokens)"""
        stream = self.server.stream("/v1/completions", body or LONG)
        return stream, [next(stream)["choices"][0] for _ in range(2)]

    def test_a_reload_serves_the_other_bytes_and_back_to_the_last_bit(self):
        before = self.choice()
        fresh = self.choice(self.start_refengine(self.new))
        self.switch(self.new)
        self.assertEqual(self.choice(), fresh)
        self.assertNotEqual(fresh["logprobs"], before["logprobs"])
        self.switch(self.old)
        self.assertEqual(self.choice(), before)

    def test_a_reload_without_a_path_reads_the_last_one_again(self):
        self.switch(self.new)
        after = self.choice()
        for path in self.old.iterdir():
            shutil.copy(path, self.new / path.name)
        self.pause("mode=keep")
        self.assertEqual(self.server.post("/collective_rpc", {"method": "reload_weights"})[0], 200)
        self.resume()
        self.assertNotEqual(self.choice(), after)

    def crossing(self, query):
        """The streamed logprobs of one request that crosses a reload, and where it crossed."""
        stream, choices = self.begin()
        self.pause(query)
        self.assertEqual(self.reload(self.new)[0], 200)
        self.resume()
        choices += [event["choices"][0] for event in stream]
        self.assertEqual(choices[-1]["finish_reason"], "length")
        return [choice["token_ids"][0] for choice in choices], [
            choice["logprobs"]["token_logprobs"][0] for choice in choices]

    def test_a_request_in_flight_goes_on_under_the_new_weights_with_its_old_cache(self):
        tokens, logprobs = self.crossing("mode=keep&clear_cache=false")
        old = self.choice(self.start_refengine(self.old), **LONG)
        self.assertEqual(len(tokens), LONG["max_tokens"])
        crossed = next(n for n, logprob in enumerate(old["logprobs"]["token_logprobs"])
                       if logprob != logprobs[n])
        self.assertGreaterEqual(crossed, 2)
        self.assertNotEqual(logprobs[crossed], self.under_new(tokens, crossed))

    def test_a_request_in_flight_is_prefilled_again_where_caches_are_cleared(self):
        tokens, logprobs = self.crossing("mode=keep&clear_cache=true")
        last = len(tokens) - 1
        self.assertEqual(logprobs[last], self.under_new(tokens, last))

    def under_new(self, tokens, place):
        """The logprob of tokens[place] where all before it was computed by the new weights."""
        choice = self.choice(prompt=QUESTION["prompt"] + tokens[:place], max_tokens=1, logprobs=20,
                             cache_salt="fresh", return_tokens_as_token_ids=True)
        return choice["logprobs"]["top_logprobs"][0].get(f"token_id:{tokens[place]}")

    def test_abort_ends_what_is_in_flight_and_later_requests_wait(self):
        stream, _ = self.begin({**LONG, "max_tokens": 4000})
        self.pause("mode=abort")
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "abort")
        later = harness.Background(self.choice)
        harness.wait_until(lambda: self.server.get("/load")[1]["server_load"] == 1, "it is queued")
        self.assertTrue(later.is_alive())
        self.resume()
        self.assertEqual(len(later.result()["token_ids"]), QUESTION["max_tokens"])

    def test_abort_is_what_a_pause_without_a_query_means(self):
        stream, _ = self.begin()
        self.assertEqual(self.server.post("/pause", {"mode": "keep"})[0], 200)
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "abort")

    def test_wait_answers_when_the_last_request_has_ended_and_starts_no_other(self):
        stream, _ = self.begin()
        pause = harness.Background(self.server.post, "/pause?mode=wait")
        harness.wait_until(lambda: self.server.get("/is_paused")[1]["is_paused"], "it has begun")
        later = harness.Background(self.choice)
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(pause.result(), (200, {"status": "paused"}))
        self.assertTrue(later.is_alive())
        self.resume()
        later.result()

    def test_a_resume_during_a_wait_fails_the_pause(self):
        stream, _ = self.begin({**LONG, "max_tokens": 4000})
        pause = harness.Background(self.server.post, "/pause?mode=wait")
        harness.wait_until(lambda: self.server.get("/is_paused")[1]["is_paused"], "it has begun")
        self.resume()
        self.assertEqual(pause.result()[0], 500)
        stream.close()

    def test_a_kept_request_of_a_client_that_left_is_dropped(self):
        stream, _ = self.begin()
        self.pause("mode=keep")
        stream.close()
        harness.wait_until(lambda: self.server.get("/load")[1]["server_load"] == 0, "dropped")
        self.resume()

    def test_a_prefix_outlives_a_reload_until_it_is_reset(self):
        body = {"prompt": list(range(40)), "max_tokens": 3}
        self.choice(**body)
        self.pause("mode=keep&clear_cache=false")
        self.reload(self.new)
        self.resume()
        stale = self.choice(**body)
        self.server.post("/reset_prefix_cache?reset_running_requests=true&reset_external=true")
        fresh = self.choice(**body)
        self.assertEqual(fresh, self.choice(self.start_refengine(self.new), **body))
        self.assertNotEqual(stale["logprobs"], fresh["logprobs"])

    def test_a_prefix_reset_is_refused_while_a_request_holds_blocks(self):
        stream, _ = self.begin()
        self.assertEqual(self.server.post("/reset_prefix_cache"), (200, {"success": False}))
        stream.close()

    def test_a_checkpoint_that_cannot_be_read_is_500_and_changes_nothing(self):
        before = self.choice()
        config = json.loads((self.new / "config.json").read_text())
        broken = {"absent": self.dir / "absent", "cut": self.dir / "cut",
                  "another shape": self.make_model("wide", 1, {**config, "vocab_size": 600})}
        shutil.copytree(self.new, broken["cut"])
        shard = sorted(broken["cut"].glob("*.safetensors"))[0]
        shard.write_bytes(shard.read_bytes()[:-1])
        for what, path in broken.items():
            with self.subTest(what):
                status, answer = self.reload(path)
                self.assertEqual(status, 500, answer)
                self.assertIn("collective_rpc", answer["error"]["message"])
        self.assertEqual(self.choice(), before)

    def test_bad_control_calls_are_refused(self):
        for path, body, expected in (
                ("/pause?mode=later", None, 400), ("/pause?clear_cache=maybe", None, 400),
                ("/collective_rpc", {}, 400), ("/collective_rpc", b"", 400),
                ("/collective_rpc", {"method": "fly"}, 500),
                ("/update_weight_version", {"version": "v1"}, 400), ("/abort_requests", b"", 400)):
            with self.subTest(path, body=body):
                self.assertEqual(self.server.post(path, body)[0], expected)
        self.assertFalse(self.server.get("/is_paused")[1]["is_paused"])

    def test_the_version_is_what_was_said_last(self):
        self.assertEqual(self.server.get("/weight_info"), (200, {"weight_version": "default"}))
        self.assertEqual(self.server.post("/update_weight_version", {"new_version": "v8"}),
                         (200, {"success": True, "new_version": "v8"}))
        self.assertEqual(self.server.get("/weight_info"), (200, {"weight_version": "v8"}))


if __name__ == "__main__":
    unittest.main()
