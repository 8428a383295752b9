#!/usr/bin/env python3
"""The vLLM double answers as vLLM does and refuses what vLLM would do wrong."""

import hashlib
import unittest

import double_test_base
import harness

SCALE_OUT = ("--enable-scale-out", "--weight-transfer-backend", "plugin")
PROMPT = {"prompt": [1, 2, 3], "max_tokens": 6}
KEEP = "/pause?mode=keep&clear_cache=false"
SOURCES = ("double.py", "generation.py", "vllm_double.py", "vllm_weights.py", "vllm_generation.py")


def reload(path, **more):
    return {"method": "reload_weights", "kwargs": {"weights_path": str(path), **more}}


class VllmDoubleTest(double_test_base.DoubleTest):
    program = "vllm_double.py"
    options = SCALE_OUT

    def switch(self, path, pause=KEEP, version=None):
        self.post(pause, status="paused")
        self.post("/collective_rpc", reload(path), results=[None, None])
        if version:
            self.post("/update_weight_version", {"new_version": version},
                      success=True, new_version=version)
        self.post("/resume", status="resumed")

    def proof(self, **more):
        """The proofs of a generation's tokens, unstreamed."""
        return self.post("/v1/completions", {**PROMPT, **more})["choices"][0]["_double"]

    def stream(self, path="/v1/completions", **more):
        return self.double.stream(path, {**PROMPT, **more})

    # What it answers

    def test_a_token_says_the_digest_of_the_bytes_and_the_version_that_made_it(self):
        shards = sorted(self.old.glob("*.safetensors"))
        digest = hashlib.sha256(b"".join(shard.read_bytes() for shard in shards)).hexdigest()
        self.assertEqual(self.proof(), [
            {"digest": digest, "version": "default", "kv": [digest]}] * 6)
        self.switch(self.new, version="v2")
        self.assertEqual(self.proof(cache_salt="v2"), [
            {"digest": self.new_digest, "version": "v2", "kv": [self.new_digest]}] * 6)
        self.get("/weight_info", weight_version="v2")
        self.assertEqual(self.rules(), [])

    def test_a_request_in_flight_crosses_a_reload_token_by_token(self):
        self.manual()
        stream = self.stream("/inference/v1/generate", token_ids=[1], sampling_params={
            "max_tokens": 4})
        self.wait_for_state(waiting=1)
        self.assertEqual(self.step(2), 2)
        self.switch(self.new, version="v2")
        self.assertEqual(self.step(2), 2)
        events = list(stream)
        self.assertEqual([token["digest"] for token in self.proofs(events, "choices", 0)],
                         [self.old_digest] * 2 + [self.new_digest] * 2)
        self.assertEqual(events[-1]["choices"][0]["weight_versions"], [
            {"version": "default", "start": 0, "end": 2}, {"version": "v2", "start": 2, "end": 4}])

    def test_cached_keys_and_values_are_those_of_the_weights_that_made_them(self):
        self.proof(cache_salt="a")
        self.switch(self.new)
        stale = self.proof(cache_salt="a")
        self.assertEqual(stale[0]["kv"], [self.old_digest, self.new_digest])
        self.assertEqual(self.proof(cache_salt="b")[0]["kv"], [self.new_digest])
        self.post("/reset_prefix_cache", success=True)
        self.assertEqual(self.proof(cache_salt="a")[0]["kv"], [self.new_digest])

    def test_a_kept_request_loses_its_cache_only_if_caches_are_cleared(self):
        for query, expected in (("clear_cache=false", [self.old_digest, self.new_digest]),
                                ("clear_cache=true", [self.new_digest])):
            with self.subTest(query):
                self.double = self.start_double()
                self.manual()
                stream = self.stream(max_tokens=2)
                self.wait_for_state(waiting=1)
                self.step()
                self.switch(self.new, f"/pause?mode=keep&{query}")
                self.step()
                self.assertEqual(self.proofs(stream, "choices", 0)[-1]["kv"], expected)

    def test_abort_ends_requests_and_wait_lets_them_end(self):
        self.manual()
        stream = self.stream()
        self.wait_for_state(waiting=1)
        self.step()
        self.post("/pause", status="paused")
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "abort")
        self.post("/resume")
        stream = self.stream()
        self.wait_for_state(waiting=1)
        self.step()
        pause = harness.Background(self.double.post, "/pause?mode=wait")
        self.wait_for_state(pause_mode="wait")
        self.get("/is_paused", is_paused=True)
        self.assertTrue(pause.is_alive())
        self.step(5)
        self.assertEqual(pause.result(), (200, {"status": "paused"}))
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "length")

    def test_a_pause_that_drains_too_slowly_can_be_overtaken_by_another(self):
        self.manual()
        stream = self.stream()
        self.wait_for_state(waiting=1)
        self.step()
        pause = harness.Background(self.double.post, "/pause?mode=wait")
        self.wait_for_state(pause_mode="wait")
        self.post("/pause?mode=abort", status="paused")
        self.assertEqual(pause.result()[0], 500)
        self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "abort")
        self.post("/resume")

    def test_requests_wait_during_a_kept_pause_and_their_client_may_leave(self):
        self.post(KEEP)
        waiting = [self.stream() for _ in range(2)]
        self.wait_for_state(waiting=2)
        waiting[0].close()
        self.wait_for_state(waiting=1)
        self.post("/resume")
        self.assertEqual(len(list(waiting[1])), 6)

    def test_a_transfer_session_loads_what_each_rank_is_told_and_sets_the_version(self):
        self.post("/init_weight_transfer_engine", {"init_info": {}})
        self.post(KEEP)
        self.post("/start_weight_update", message="Weight update started")
        self.post("/update_weights", {"update_info": [{"path": str(self.new)}] * 2},
                  message="Weights updated")
        self.post("/finish_weight_update", {"weight_version": "v2"})
        self.post("/resume")
        self.assertEqual({(t["digest"], t["version"]) for t in self.proof()},
                         {(self.new_digest, "v2")})
        self.post("/shutdown_weight_transfer_engine")

    def test_a_reload_without_a_path_reads_the_last_one_named_even_if_that_failed(self):
        self.post(KEEP)
        status, answer = self.double.post("/collective_rpc", reload(self.dir / "absent"))
        self.assertEqual(status, 500)
        self.assertIn("Call to collective_rpc method failed", answer["error"]["message"])
        (self.dir / "absent").symlink_to(self.new)
        self.post("/collective_rpc", {"method": "reload_weights"}, results=[None, None])
        self.assertEqual(self.state()["digests"], [self.new_digest] * 2)

    def test_aborts_take_the_ids_that_answers_carry(self):
        self.manual()
        for path, body, name in (("/v1/completions", {}, "cmpl-r-0"),
                                 ("/v1/chat/completions", {"messages": [{"content": "a"}]},
                                  "chatcmpl-r"),
                                 ("/inference/v1/generate",
                                  {"token_ids": [1], "sampling_params": {}}, "generate-tokens-r")):
            stream = self.stream(path, request_id="r", **body)
            self.wait_for_state(waiting=1)
            self.post("/abort_requests", {"request_ids": ["other", name]}, aborted=2)
            self.assertEqual(list(stream)[-1]["choices"][0]["finish_reason"], "abort")
        stream = self.stream("/v1/completions")
        self.wait_for_state(waiting=1)
        self.post("/abort_requests", {}, aborted=1)
        self.assertEqual(len(list(stream)), 1)

    def test_sleep_and_the_checker_do_what_they_say(self):
        before = self.post("/weight_checker", {"action": "checksum"})["checksums"]
        self.assertIn("dp0:pp0:pcp0:tp1:model.norm.weight", before)
        self.post("/weight_checker", {"action": "compare", "baseline": before}, match=True)
        self.get("/is_sleeping", is_sleeping=False)
        self.post("/sleep?level=2", status="sleeping", level=2)
        self.post("/wake_up?tags=weights", status="sleeping")
        self.post("/collective_rpc", reload(self.new))
        self.post("/wake_up?tags=weights&tags=kv_cache", status="awake",
                  tags=["weights", "kv_cache"])
        self.assertEqual(self.proof()[0]["digest"], self.new_digest)
        self.post("/weight_checker", {"action": "compare", "baseline": before}, match=False)
        self.post("/weight_checker", {"action": "reset"}, status="reset")
        self.assertEqual(self.state()["digests"], ["zeroed"] * 2)

    def test_the_probes_answer(self):
        for path in ("/health", "/ping", "/metrics", "/version", "/v1/models", "/load",
                     "/server_info?config_format=json"):
            self.get(path)
        self.get("/get_world_size?include_dp=false", world_size=2)
        self.post("/reset_mm_cache")
        self.post("/reset_encoder_cache")
        self.post("/collective_rpc", {"method": "check_health"}, results=[None, None])

    def test_routes_may_be_absent(self):
        self.assertIn("/inference/v1/generate", self.get("/openapi.json")["paths"])
        self.double = self.start_double("--without", "/weight_info")
        paths = self.get("/openapi.json")["paths"]
        self.assertNotIn("/inference/v1/generate", paths)
        self.assertNotIn("/weight_info", paths)
        self.assertIn("post", paths["/pause"])
        self.assertEqual(self.double.get("/weight_info")[0], 404)
        body = {"token_ids": [1], "sampling_params": {}}
        self.assertEqual(self.double.post("/inference/v1/generate", body)[0], 403)
        self.assertEqual(self.rules(), [])

    def test_the_log_keeps_every_call_in_order(self):
        self.post(KEEP)
        self.post("/update_weight_version", {"new_version": "v1"})
        entries = self.get("/_double/log")
        self.assertEqual(self.double.call("GET", "/_double/log", {"from": 1})[1], entries[1:])
        self.assertEqual([(e["method"], e["path"], e["query"], e["body"], e["status"])
                          for e in entries], [
            ("POST", "/pause", {"mode": "keep", "clear_cache": "false"}, None, 200),
            ("POST", "/update_weight_version", {}, {"new_version": "v1"}, 200)])
        self.assertLess(entries[0]["ended"], entries[1]["begun"])

    # What it refuses

    def refusals(self):
        """(rule, calls that lead to it, the call that is refused)"""
        pause, version = ("POST", KEEP), {"new_version": "x"}
        init = ("POST", "/init_weight_transfer_engine", {"init_info": {}})
        start, finish = ("POST", "/start_weight_update"), ("POST", "/finish_weight_update")
        new = ("POST", "/collective_rpc", reload(self.new))
        absent = ("POST", "/collective_rpc", reload("/absent"))
        update = ("POST", "/update_weights", {"update_info": {"path": str(self.new)}})
        complete = ("POST", "/v1/completions", PROMPT)
        return (
            ("wrong_method", [], ("GET", "/pause")),
            ("unknown_query", [], ("POST", "/pause?modus=keep")),
            ("bad_query", [], ("POST", "/pause?mode=later")),
            ("bad_query", [], ("POST", "/pause?clear_cache=maybe")),
            ("unexpected_body", [], ("POST", "/pause", {"mode": "keep"})),
            ("bad_body", [], ("POST", "/abort_requests")),
            ("bad_body", [], ("POST", "/update_weight_version", {"new_version": 8})),
            ("missing_key", [], ("POST", "/update_weight_version", {})),
            ("unknown_key", [], ("POST", "/update_weight_version", {**version, "v": 1})),
            ("load_without_pause", [], new),
            ("load_without_pause", [init], start),
            ("resume_without_pause", [], ("POST", "/resume")),
            ("resume_without_pause", [pause, ("POST", "/resume")], ("POST", "/resume")),
            ("resume_while_asleep", [("POST", "/sleep")], ("POST", "/resume")),
            ("resume_during_update", [init, pause, start], ("POST", "/resume")),
            ("resume_on_unknown_weights", [pause, absent], ("POST", "/resume")),
            ("update_while_asleep", [("POST", "/sleep")], new),
            ("second_update", [init, pause, start], start),
            ("second_update", [init, pause, start], new),
            ("start_without_init", [pause], start),
            ("update_without_start", [init, pause], update),
            ("shutdown_during_update", [init, pause, start],
             ("POST", "/shutdown_weight_transfer_engine")),
            ("bad_update_info", [init, pause, start],
             ("POST", "/update_weights", {"update_info": {"names": []}})),
            ("unknown_rpc", [pause], ("POST", "/collective_rpc", {"method": "fly"})),
            ("bad_rpc_arguments", [pause], ("POST", "/collective_rpc", reload("/a", other=1))),
            ("generation_while_paused", [("POST", "/pause?mode=abort")], complete),
            ("generation_on_unknown_weights", [("POST", "/weight_checker", {"action": "reset"})],
             complete),
            ("bad_salt", [], ("POST", "/v1/completions", {**PROMPT, "cache_salt": "run@1"})),
            ("wake_up_while_awake", [pause], ("POST", "/wake_up")),
            ("release_without_pause", [], ("POST", "/release_kv_cache_memory")))

    def test_each_misuse_is_refused_and_recorded(self):
        for rule, calls, refused in self.refusals():
            with self.subTest(rule, call=refused):
                self.double = self.start_double(*SCALE_OUT)
                for call in calls:
                    self.double.call(*call)
                self.assertEqual(self.rules(), [])
                self.assert_refused(rule, *refused)

    def test_a_transfer_without_a_backend_is_refused(self):
        self.double = self.start_double()
        self.assertEqual(self.double.post("/init_weight_transfer_engine", {"init_info": {}})[0], 500)
        self.assertEqual(self.rules(), [])  # one may ask whether there is one
        self.assert_refused("no_backend", "POST", "/start_weight_update")

    def test_the_plug_in_learns_only_while_the_engine_is_paused(self):
        self.double = self.start_double("--weight-transfer-backend", "isthmus")
        self.assert_refused("learn_without_pause", "POST", "/init_weight_transfer_engine",
                            {"init_info": {"format": 1, "checkpoint": str(self.old), "digest": ""}})

    def test_the_document_says_what_calls_take(self):
        document = self.get("/openapi.json")
        pause = document["paths"]["/pause"]["post"]
        self.assertEqual([one["name"] for one in pause["parameters"]], ["clear_cache", "mode"])
        self.assertNotIn("requestBody", pause)
        body = document["paths"]["/v1/completions"]["post"]["requestBody"]
        reference = body["content"]["application/json"]["schema"]["$ref"]
        schema = document["components"]["schemas"][reference.rsplit("/", 1)[1]]
        self.assertIn("cache_salt", schema["properties"])

    def test_a_version_may_not_change_while_tokens_are_made(self):
        self.manual()
        stream = self.stream()
        self.wait_for_state(waiting=1)
        self.step()
        self.assert_refused("version_while_generating", "POST", "/update_weight_version",
                            {"new_version": "v2"})
        stream.close()

    def hang(self, route, call, **more):
        """A call in the background that hangs by a fault."""
        self.plan(route, "hang", **more)
        running = harness.Background(self.double.call, *call)
        self.wait_for_state(hanging=[route])
        return running

    def test_nothing_else_may_happen_while_weights_load(self):
        self.post(KEEP)
        load = self.hang("/collective_rpc", ("POST", "/collective_rpc", reload(self.new)),
                         when="midway")
        self.assert_refused("second_update", "POST", "/collective_rpc", reload(self.old))
        self.assert_refused("resume_during_update", "POST", "/resume")
        self.assert_refused("pause_during_update", "POST", KEEP)
        self.post("/_double/release", {}, released=1)
        self.assertEqual(load.result(), (200, {"results": [None, None]}))
        self.post("/resume")

    def test_a_session_may_not_be_finished_while_it_loads(self):
        self.post("/init_weight_transfer_engine", {"init_info": {}})
        self.post(KEEP)
        self.post("/start_weight_update")
        load = self.hang("/update_weights", ("POST", "/update_weights", {
            "update_info": {"path": str(self.new)}}), when="midway")
        self.assert_refused("finish_during_update", "POST", "/finish_weight_update")
        self.post("/_double/release", {})
        self.assertEqual(load.result()[0], 200)

    def test_a_resume_may_not_overtake_its_pause(self):
        pause = self.hang("/pause", ("POST", KEEP), when="midway")
        self.assert_refused("resume_during_pause", "POST", "/resume")
        self.post("/_double/release", {})
        self.assertEqual(pause.result()[0], 200)

    def test_every_rule_has_a_test(self):
        tested = {rule for rule, _, _ in self.refusals()} | {
            "no_backend", "version_while_generating", "second_update", "pause_during_update",
            "finish_during_update", "resume_during_pause", "learn_without_pause"}
        self.assertEqual(double_test_base.rules_in(*SOURCES), tested)


if __name__ == "__main__":
    unittest.main()
