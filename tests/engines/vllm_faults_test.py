#!/usr/bin/env python3
"""Each fault of the vLLM double: what the caller sees, and what the engine then serves."""

import contextlib
import http.client
import unittest

import double_test_base
import faults
import harness

KEEP = "/pause?mode=keep&clear_cache=false"
LOST = (ConnectionResetError, http.client.RemoteDisconnected, http.client.IncompleteRead,
        BrokenPipeError)
PROMPT = {"prompt": [1, 2, 3], "max_tokens": 4}


class VllmFaultsTest(double_test_base.DoubleTest):
    program = "vllm_double.py"
    options = ("--ranks", 4, "--enable-scale-out", "--weight-transfer-backend", "plugin")

    def reload(self, path=None):
        return self.double.post("/collective_rpc", {
            "method": "reload_weights", "kwargs": {"weights_path": str(path or self.new)}})

    def fail(self, kind, **more):
        """Pauses and plans the fault for the reload that follows."""
        self.post(KEEP)
        self.plan("/collective_rpc", kind, **more)

    def assert_serves(self, new_ranks):
        self.assertEqual(self.state()["digests"], [self.new_digest] * new_ranks
                         + [self.old_digest] * (4 - new_ranks))

    def assert_unknown_until_reloaded(self):
        """Nothing may resume on these weights; a full reload proves them again."""
        self.assert_refused("resume_on_unknown_weights", "POST", "/resume")
        self.assertEqual(self.reload(), (200, {"results": [None] * 4}))
        self.post("/resume")
        self.assert_serves(4)

    def test_an_error_before_the_load_leaves_the_old_weights(self):
        self.fail("error")
        status, answer = self.reload()
        self.assertEqual((status, answer["error"]["code"]), (500, 500))
        self.assert_serves(0)
        self.assertEqual(self.reload()[0], 200)

    def test_half_of_the_ranks_load_and_the_answer_is_500(self):
        self.fail("half_applied")
        self.assertEqual(self.reload()[0], 500)
        self.assert_serves(2)
        self.assert_unknown_until_reloaded()

    def test_an_error_after_the_load_leaves_the_new_weights(self):
        self.fail("error", when="after")
        self.assertEqual(self.reload()[0], 500)
        self.assert_serves(4)
        self.assert_unknown_until_reloaded()

    def test_a_200_may_hold_an_error(self):
        self.fail("error_in_200")
        status, answer = self.reload()
        self.assertEqual(status, 200)
        self.assertEqual(answer["results"][:3], [None] * 3)
        self.assertIn("RuntimeError", answer["results"][3])
        self.assert_serves(2)
        self.assert_unknown_until_reloaded()

    def test_caches_and_versions_may_fail_by_200(self):
        for path, body in (("/reset_prefix_cache", None),
                           ("/update_weight_version", {"new_version": "v2"})):
            self.plan(path, "error_in_200")
            self.post(path, body, success=False)
        self.get("/weight_info", weight_version="default")

    def test_the_connection_is_reset_when_half_is_loaded(self):
        self.fail("reset")
        with self.assertRaises(LOST):
            self.reload()
        self.assert_serves(2)
        self.assert_unknown_until_reloaded()

    def test_a_reset_after_the_load_loses_only_the_answer(self):
        self.fail("reset", when="after")
        with self.assertRaises(LOST):
            self.reload()
        self.assert_serves(4)
        self.assert_unknown_until_reloaded()

    def test_the_process_dies_at_each_point(self):
        for when in faults.POINTS:
            with self.subTest(when):
                self.double = self.start_double(*self.options)
                self.fail("die", when=when)
                with self.assertRaises(LOST):
                    self.reload()
                status = self.double.process.wait(harness.DEADLINE_S)
                self.assertEqual(status, faults.EXIT_STATUS)

    def hanging_reload(self, when):
        """(connection) of a reload that hangs at a point; the client may leave."""
        self.fail("hang", when=when)
        connection = self.double.connect()
        connection.request("POST", "/collective_rpc", (
            b'{"method": "reload_weights", "kwargs": {"weights_path": "%s"}}'
            % str(self.new).encode()))
        self.wait_for_state(hanging=["/collective_rpc"])
        return connection

    def test_a_load_that_hangs_goes_on_when_released(self):
        for when, ranks in (("before", 0), ("midway", 2), ("after", 4)):
            with self.subTest(when):
                self.double = self.start_double(*self.options)
                with contextlib.closing(self.hanging_reload(when)) as connection:
                    self.assert_serves(ranks)
                    self.post("/_double/release", {"route": "/collective_rpc"}, released=1)
                    self.assertEqual(connection.getresponse().status, 200)
                self.assert_serves(4)
                self.post("/resume")

    def test_a_health_check_is_answered_after_the_loads_before_it(self):
        with contextlib.closing(self.hanging_reload("before")) as connection:
            check = harness.Background(self.double.post, "/collective_rpc",
                                       {"method": "check_health"})
            harness.wait_until(lambda: self.last_call()["body"] == {"method": "check_health"},
                               "a check")
            self.assertIsNone(self.last_call()["ended"])
            self.post("/_double/release", {}, released=1)
            self.assertEqual(check.result(), (200, {"results": [None] * 4}))
            self.assertEqual(connection.getresponse().status, 200)
        reload, check = self.get("/_double/log")[-2:]
        self.assertLess(reload["begun"], check["begun"])
        self.assert_serves(4)

    def last_call(self):
        return self.get("/_double/log")[-1]

    def test_a_load_that_ends_after_its_client_left_is_unknown_to_all(self):
        self.hanging_reload("midway").close()
        self.post("/_double/release", {}, released=1)
        self.wait_for_state(digests=[self.new_digest] * 4, updating=False)
        self.assert_unknown_until_reloaded()

    def test_a_stale_load_answers_well_and_changes_nothing(self):
        self.fail("stale")
        self.assertEqual(self.reload(), (200, {"results": [None] * 4}))
        self.post("/resume")
        self.assert_serves(0)
        proof = self.post("/v1/completions", PROMPT)["choices"][0]["_double"]
        self.assertEqual({token["digest"] for token in proof}, {self.old_digest})

    def test_a_slow_drain_has_begun_but_does_not_answer(self):
        self.plan("/pause", "slow_drain")
        pause = harness.Background(self.double.post, "/pause?mode=wait")
        self.wait_for_state(hanging=["/pause"], pause_mode="wait", pause_complete=False)
        self.get("/is_paused", is_paused=True)
        self.assertTrue(pause.is_alive())
        self.post("/_double/release", {})
        self.assertEqual(pause.result(), (200, {"status": "paused"}))

    def test_a_pause_may_fail_and_leave_the_engine_paused(self):
        self.plan("/pause", "error", when="after")
        self.assertEqual(self.double.post(KEEP)[0], 500)
        self.get("/is_paused", is_paused=True)

    def test_a_finish_may_fail_between_the_weights_and_their_version(self):
        self.post("/init_weight_transfer_engine", {"init_info": {}})
        self.post(KEEP)
        self.post("/start_weight_update")
        self.post("/update_weights", {"update_info": {"path": str(self.new)}})
        self.plan("/finish_weight_update", "error", when="midway")
        status, _ = self.double.post("/finish_weight_update", {"weight_version": "v2"})
        self.assertEqual(status, 500)
        self.assert_serves(4)
        self.get("/weight_info", weight_version="default")
        self.assert_refused("resume_on_unknown_weights", "POST", "/resume")

    def test_a_failed_update_closes_its_session_and_a_new_one_may_start(self):
        self.post("/init_weight_transfer_engine", {"init_info": {}})
        self.post(KEEP)
        self.post("/start_weight_update")
        self.plan("/update_weights", "half_applied")
        update = {"update_info": {"path": str(self.new)}}
        self.assertEqual(self.double.post("/update_weights", update)[0], 500)
        self.assert_serves(2)
        self.post("/start_weight_update")
        self.post("/update_weights", update)
        self.post("/finish_weight_update")
        self.post("/resume")

    def test_a_stream_may_break_after_its_first_token(self):
        self.plan("/v1/completions", "reset")
        stream = self.double.stream("/v1/completions", PROMPT)
        self.addCleanup(stream.close)
        with self.assertRaises((*LOST, http.client.HTTPException)):
            list(stream)
        self.wait_for_state(running=0)

    def test_a_stream_may_end_by_an_error(self):
        self.plan("/v1/completions", "error", when="midway")
        events = list(self.double.stream("/v1/completions", PROMPT))
        self.assertEqual(len(events), 2)
        self.assertEqual(events[1]["error"]["code"], 500)

    def test_a_fault_strikes_as_often_as_planned_and_can_be_taken_back(self):
        self.plan("/resume", "error", count=2)
        self.post(KEEP)
        statuses = [self.double.post("/resume")[0] for _ in range(3)]
        self.assertEqual(statuses, [500, 500, 200])
        self.plan("/resume", "error", count=2)
        self.assertEqual(len(self.get("/_double/faults")), 2)
        self.ok("DELETE", "/_double/faults")
        self.assertEqual(self.get("/_double/faults"), [])

    def test_a_fault_that_cannot_be_is_refused(self):
        for fault in ({}, {"route": "/nothing", "kind": "error"},
                      {"route": "/pause", "kind": "odd"},
                      {"route": "/pause", "kind": "error", "when": "later"},
                      {"route": "/pause", "kind": "error", "count": 0},
                      {"route": "/pause", "kind": "stale"},
                      {"route": "/pause", "kind": "error_in_200"}):
            with self.subTest(fault):
                self.assertEqual(self.double.post("/_double/faults", fault)[0], 400)

    def test_a_torn_checkpoint_is_500_and_no_rank_serves_it(self):
        shard = sorted(self.new.glob("*.safetensors"))[0]
        shard.write_bytes(shard.read_bytes()[:-1])
        self.post(KEEP)
        self.assertEqual(self.reload()[0], 500)
        self.assert_serves(0)
        self.assert_refused("resume_on_unknown_weights", "POST", "/resume")


if __name__ == "__main__":
    unittest.main()
