#!/usr/bin/env python3
"""The SGLang double answers as SGLang does and refuses what SGLang would do wrong."""

import base64
import pickle
import unittest

import double_test_base
import harness

INPUT = {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 6}}
CHAT = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 6}
ABORTED = {"type": "abort", "message": "Aborted"}
SOURCES = ("double.py", "generation.py", "sglang_double.py", "sglang_weights.py",
           "sglang_generation.py")


def payload(path):
    """What one rank is sent: a pickle whose tensor's name is a path."""
    return base64.b64encode(pickle.dumps([(str(path), 0)])).decode()


class SglangDoubleTest(double_test_base.DoubleTest):
    program = "sglang_double.py"

    def from_disk(self, path=None, **more):
        return "/update_weights_from_disk", {"model_path": str(path or self.new),
                                             "flush_cache": False, **more}

    def pause(self, mode="in_place"):
        self.post("/pause_generation", {"mode": mode}, status="ok")

    def resume(self):
        self.post("/continue_generation", {}, status="ok")

    def switch(self, mode="in_place", **more):
        self.pause(mode)
        self.post(*self.from_disk(**more), success=True, num_paused_requests=0)
        self.resume()

    def stream(self, **more):
        stream = self.double.stream("/generate", {**INPUT, **more})
        self.addCleanup(stream.close)
        return stream

    def in_flight(self, made=2, **more):
        """A stream of which `made` tokens exist, and its engine waits for steps."""
        self.manual()
        stream = self.stream(**more)
        self.wait_for_state(waiting=1)
        self.assertEqual(self.step(made), made)
        return stream

    # What it answers

    def test_a_token_says_the_digest_and_the_version_that_made_it(self):
        self.switch(weight_version="v2")
        answer = self.post("/generate", {**INPUT, "return_logprob": True})
        self.assertEqual(answer["_double"], [
            {"digest": self.new_digest, "version": "v2", "kv": [self.new_digest]}] * 6)
        meta = answer["meta_info"]
        self.assertEqual(meta["weight_versions"], [{"version": "v2", "start": 0, "end": 6}])
        self.assertEqual(meta["finish_reason"], {"type": "length", "length": 6})
        self.assertEqual([entry[1] for entry in meta["output_token_logprobs"]],
                         answer["output_ids"])
        self.assertEqual(self.rules(), [])

    def test_a_request_in_flight_crosses_an_update_in_place_with_its_old_cache(self):
        stream = self.in_flight()
        self.switch(weight_version="v2")
        self.step(4)
        last = list(stream)[-1]
        self.assertEqual([token["digest"] for token in last["_double"]],
                         [self.old_digest] * 2 + [self.new_digest] * 4)
        self.assertEqual(last["_double"][-1]["kv"], [self.old_digest, self.new_digest])
        self.assertEqual(last["meta_info"]["weight_versions"], [
            {"version": "default", "start": 0, "end": 2}, {"version": "v2", "start": 2, "end": 6}])
        self.assertEqual(last["meta_info"]["weight_version"], "v2")

    def test_a_retracted_request_is_prefilled_by_the_new_weights_after_a_flush_only(self):
        for flush, expected in ((True, [self.new_digest]),
                                (False, [self.old_digest, self.new_digest])):
            with self.subTest(flush=flush):
                self.double = self.start_double()
                stream = self.in_flight(cache_salt="s")
                self.pause("retract")
                self.post(*self.from_disk())
                if flush:
                    self.post("/flush_cache")
                self.resume()
                self.step(4)
                last = list(stream)[-1]
                self.assertEqual(last["_double"][-1]["kv"], expected)
                self.assertEqual(last["meta_info"]["num_retractions"], 1)

    def test_an_update_flushes_by_itself_unless_told_not_to(self):
        self.post("/generate", INPUT)
        self.switch("retract", flush_cache=True)
        answer = self.post("/generate", INPUT)
        self.assertEqual(answer["_double"][0]["kv"], [self.new_digest])
        self.assertEqual(answer["meta_info"]["cached_tokens"], 0)

    def test_an_abort_pause_ends_requests_with_what_they_have(self):
        stream = self.in_flight()
        self.pause("abort")
        last = list(stream)[-1]
        self.assertEqual(last["meta_info"]["finish_reason"], ABORTED)
        self.assertEqual(len(last["output_ids"]), 2)
        self.assertEqual(last["meta_info"]["weight_versions"], [
            {"version": "default", "start": 0, "end": 2}])

    def test_streams_are_cumulative_unless_started_otherwise(self):
        lengths = [len(event["output_ids"]) for event in self.stream()]
        self.assertEqual(lengths, [1, 2, 3, 4, 5, 6])
        self.double = self.start_double("--incremental-streaming-output")
        self.assertEqual([len(event["output_ids"]) for event in self.stream()], [1] * 6)

    def test_openai_answers_say_versions_but_their_chunks_do_not(self):
        for path, body in (("/v1/completions", {"prompt": "a", "max_tokens": 6}),
                           ("/v1/chat/completions", CHAT)):
            spans = [{"version": "default", "start": 0, "end": 6}]
            self.post(path, body, metadata={"weight_version": "default", "weight_versions": spans})
            chunks = list(self.double.stream(path, body))
            self.assertEqual(len(chunks), 6)
            self.assertFalse(any("metadata" in chunk for chunk in chunks))

    def test_a_batch_is_answered_by_a_list(self):
        answers = self.post("/generate", {**INPUT, "input_ids": [[1], [2]], "rid": "b"})
        self.assertEqual([a["meta_info"]["id"] for a in answers], ["b_0", "b_1"])

    def test_a_session_loads_the_directory_that_each_payload_names(self):
        self.pause()
        self.post("/begin_weight_update", {"selector": "target"}, success=True)
        self.post("/update_weights_from_tensor", {
            "serialized_named_tensors": [payload(self.new)] * 2, "selector": "target",
            "load_format": "plugin.load", "flush_cache": False, "weight_version": "v2"})
        self.post("/end_weight_update", {}, success=True)
        self.resume()
        self.assertEqual(self.post("/generate", INPUT)["_double"][0]["digest"], self.new_digest)
        self.get("/model_info", weight_version="v2")

    def test_an_update_changes_the_names_that_model_info_tells(self):
        self.switch(weight_version="v2", manifest="m")
        self.get("/model_info", model_path=str(self.new), served_model_name=str(self.new),
                 weight_version="v2")
        self.get("/server_info", model_path=str(self.old), weight_version="default")
        self.assertEqual(self.get("/v1/models")["data"][0]["id"], str(self.new))

    def test_a_version_update_aborts_everything_unless_told_not_to(self):
        stream = self.in_flight()
        self.pause()
        self.post("/update_weight_version", {"new_version": "v2", "abort_all_requests": False})
        self.wait_for_state(running=1)
        self.post("/update_weight_version", {"new_version": "v3"}, new_version="v3")
        self.assertEqual(list(stream)[-1]["meta_info"]["finish_reason"], ABORTED)

    def test_an_abort_takes_a_prefix_of_ids_and_ignores_unknown_ones(self):
        streams = [self.in_flight(0, rid="a1")]
        streams += [self.stream(rid=rid) for rid in ("a2", "b")]
        self.wait_for_state(waiting=3)
        self.post("/abort_request", {"rid": "x"})
        self.post("/abort_request", {"rid": ""})
        self.wait_for_state(waiting=3)
        self.post("/abort_request", {"rid": "a"})
        self.wait_for_state(waiting=1)
        self.post("/abort_request", {"abort_all": True})
        for stream in streams:
            self.assertEqual(list(stream)[-1]["meta_info"]["finish_reason"], ABORTED)

    def test_a_flush_needs_an_idle_engine(self):
        stream = self.in_flight()
        self.assertEqual(self.double.post("/flush_cache")[0], 400)
        stream.close()
        self.wait_for_state(running=0)
        self.assertIn("Cache flushed", self.get("/flush_cache?timeout=1.5"))
        self.assertEqual(self.rules(), [])

    def test_probes_tell_of_a_pause(self):
        self.get("/ready")
        self.get("/health")
        self.pause()
        self.assertEqual(self.double.get("/ready")[0], 503)
        probe = harness.Background(self.double.get, "/health_generate")
        harness.wait_until(lambda: self.get("/_double/log")[-1]["path"] == "/health_generate",
                           "the probe has arrived")
        self.assertTrue(probe.is_alive())
        self.resume()
        self.assertEqual(probe.result()[0], 200)

    def test_a_probe_gives_up_during_a_long_pause(self):
        self.double = self.start_double("--health-timeout-s", 0.01)
        self.pause()
        self.assertEqual(self.double.get("/health")[0], 503)

    def test_loads_and_checksums_are_told(self):
        stream = self.in_flight(1)
        loads = self.get("/v1/loads?include=core")["loads"][0]
        self.assertEqual((loads["num_running_reqs"], loads["num_waiting_reqs"]), (1, 0))
        stream.close()
        before = self.get("/weights_checker")
        self.assertEqual(len(before["ranks"]), 2)
        self.post("/weights_checker", {"action": "reset_tensors"})
        self.assertNotEqual(self.get("/weights_checker")["per_engine_checksum"],
                            before["per_engine_checksum"])
        self.post("/hicache/storage-backend/clear")
        self.get("/metrics")

    def test_memory_can_be_released_and_needs_a_reload_then(self):
        self.double = self.start_double("--enable-memory-saver")
        self.pause("abort")
        self.post("/release_memory_occupation", {"tags": ["weights"]})
        self.assertEqual(self.state()["digests"], ["released"] * 2)
        self.post("/resume_memory_occupation", {})
        self.post(*self.from_disk())
        self.resume()

    def test_control_routes_ask_for_the_admin_key_and_generation_does_not(self):
        self.double = self.start_double("--admin-api-key", "k")
        self.assertEqual(self.double.post("/flush_cache")[0], 401)
        status, _ = self.double.call("POST", "/flush_cache", None, {"Authorization": "Bearer k"})
        self.assertEqual(status, 200)
        self.post("/generate", INPUT)

    def test_the_routes_are_listed(self):
        self.double = self.start_double("--without", "/begin_weight_update")
        paths = self.get("/openapi.json")["paths"]
        self.assertNotIn("/begin_weight_update", paths)
        self.assertEqual(set(paths["/flush_cache"]), {"get", "post"})

    # What it refuses

    def refusals(self):
        """(rule, calls that lead to it, the call that is refused)"""
        in_place, retract, abort = (("POST", "/pause_generation", {"mode": mode})
                                    for mode in ("in_place", "retract", "abort"))
        go_on, begin = ("POST", "/continue_generation", {}), ("POST", "/begin_weight_update", {})
        disk, absent = ("POST", *self.from_disk()), ("POST", *self.from_disk("/absent"))
        tensors = ("POST", "/update_weights_from_tensor", {
            "serialized_named_tensors": [payload(self.new)] * 2, "flush_cache": False})
        end, release = ("POST", "/end_weight_update", {}), "/release_memory_occupation"
        check = ("POST", "/weights_checker", {"action": "reset_tensors"})
        return (
            ("wrong_method", [], ("GET", "/pause_generation")),
            ("unknown_query", [], ("POST", "/flush_cache?wait=1")),
            ("bad_query", [], ("POST", "/flush_cache?timeout=soon")),
            ("unexpected_body", [], ("POST", "/hicache/storage-backend/clear", {"a": 1})),
            ("bad_body", [], ("POST", "/pause_generation")),
            ("bad_body", [], ("POST", "/pause_generation", {"mode": "keep"})),
            ("bad_body", [], ("POST", "/continue_generation")),
            ("bad_body", [], ("POST", "/weights_checker", {"action": "x"})),
            ("missing_key", [], ("POST", "/update_weights_from_disk", {})),
            ("unknown_key", [], ("POST", *self.from_disk(version="x"))),
            ("load_without_pause", [], disk),
            ("load_without_pause", [], begin),
            ("bad_load_format", [in_place], ("POST", *self.from_disk(load_format="dummy"))),
            ("resume_without_pause", [], go_on),
            ("resume_without_pause", [in_place, go_on], go_on),
            ("resume_during_update", [in_place, begin], go_on),
            ("resume_on_unknown_weights", [in_place, absent], go_on),
            ("flush_in_place", [in_place], ("POST", "/flush_cache")),
            ("flush_in_place", [in_place], ("POST", *self.from_disk(flush_cache=True))),
            ("flush_with_timeout", [retract], ("POST", "/flush_cache?timeout=1")),
            ("second_update", [in_place, begin], begin),
            ("second_update", [in_place, begin], disk),
            ("update_without_begin", [in_place], tensors),
            ("end_without_begin", [in_place], end),
            ("bad_payload", [in_place, begin], ("POST", tensors[1], {
                "serialized_named_tensors": [payload(self.new)]})),
            ("bad_payload", [in_place, begin], ("POST", tensors[1], {
                "serialized_named_tensors": ["?", "?"]})),
            ("generation_while_paused", [abort], ("POST", "/generate", INPUT)),
            ("generation_on_unknown_weights", [check], ("POST", "/generate", INPUT)),
            ("no_memory_saver", [], ("POST", release, {})))

    def test_each_misuse_is_refused_and_recorded(self):
        for rule, calls, refused in self.refusals():
            with self.subTest(rule, call=refused):
                self.double = self.start_double()
                for call in calls:
                    self.double.call(*call)
                self.assertEqual(self.rules(), [])
                self.assert_refused(rule, *refused)

    def test_a_refused_flush_has_changed_the_weights_and_not_the_told_version(self):
        stream = self.in_flight()
        self.pause()
        status, answer = self.double.post(*self.from_disk(flush_cache=True, weight_version="v2"))
        self.assertEqual((status, answer["success"]), (400, False))
        self.assertEqual(self.state()["digests"], [self.new_digest] * 2)
        self.assertEqual(self.state()["version"], "v2")
        self.get("/model_info", weight_version="default")
        self.assertEqual(self.rules(), ["flush_in_place"])
        stream.close()

    def test_a_version_may_not_change_while_tokens_are_made(self):
        stream = self.in_flight()
        self.assert_refused("version_while_generating", "POST", "/update_weight_version",
                            {"new_version": "v2", "abort_all_requests": False})
        stream.close()

    def test_memory_may_not_be_released_under_requests(self):
        self.double = self.start_double("--enable-memory-saver")
        stream = self.in_flight()
        self.assert_refused("release_while_busy", "POST", "/release_memory_occupation", {})
        stream.close()

    def hang(self, route, call):
        self.plan(route, "hang", when="midway")
        running = harness.Background(self.double.call, *call)
        self.wait_for_state(hanging=[route])
        return running

    def test_nothing_else_may_happen_while_weights_load(self):
        self.pause()
        load = self.hang("/update_weights_from_disk", ("POST", *self.from_disk()))
        self.assert_refused("second_update", "POST", *self.from_disk())
        self.assert_refused("resume_during_update", "POST", "/continue_generation", {})
        self.assert_refused("pause_during_update", "POST", "/pause_generation", {})
        self.post("/_double/release", {}, released=1)
        self.assertEqual(load.result()[0], 200)
        self.resume()

    def test_a_session_may_not_end_while_it_loads(self):
        self.pause()
        self.post("/begin_weight_update", {})
        load = self.hang("/update_weights_from_tensor", ("POST", "/update_weights_from_tensor", {
            "serialized_named_tensors": [payload(self.new)] * 2, "flush_cache": False}))
        self.assert_refused("end_during_update", "POST", "/end_weight_update", {})
        self.post("/_double/release", {})
        self.assertEqual(load.result()[0], 200)

    def test_a_resume_may_not_overtake_its_pause(self):
        pause = self.hang("/pause_generation", ("POST", "/pause_generation", {"mode": "abort"}))
        self.assert_refused("resume_during_pause", "POST", "/continue_generation", {})
        self.post("/_double/release", {})
        self.assertEqual(pause.result()[0], 200)

    def test_every_rule_has_a_test(self):
        tested = {rule for rule, _, _ in self.refusals()} | {
            "version_while_generating", "release_while_busy", "pause_during_update",
            "end_during_update", "resume_during_pause"}
        self.assertEqual(double_test_base.rules_in(*SOURCES), tested)


if __name__ == "__main__":
    unittest.main()
