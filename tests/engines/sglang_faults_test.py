#!/usr/bin/env python3
"""Each fault of the SGLang double: what the caller sees, and what the engine then serves."""

import http.client
import unittest

import double_test_base
import faults
import harness

LOST = (ConnectionResetError, http.client.RemoteDisconnected, BrokenPipeError)
INPUT = {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 4}}
DISK = "/update_weights_from_disk"


class SglangFaultsTest(double_test_base.DoubleTest):
    program = "sglang_double.py"
    options = ("--ranks", 4)

    def update(self):
        return self.double.post(DISK, {"model_path": str(self.new), "flush_cache": False,
                                       "weight_version": "v2"})

    def fail(self, kind, **more):
        """Pauses and plans the fault for the update that follows."""
        self.post("/pause_generation", {"mode": "in_place"})
        self.plan(DISK, kind, **more)

    def assert_serves(self, new_ranks, version):
        self.assertEqual(self.state()["digests"], [self.new_digest] * new_ranks
                         + [self.old_digest] * (4 - new_ranks))
        self.get("/model_info", weight_version=version)

    def assert_unknown_until_updated(self):
        self.assert_refused("resume_on_unknown_weights", "POST", "/continue_generation", {})
        self.assertEqual(self.update()[0], 200)
        self.assert_serves(4, "v2")
        self.post("/continue_generation", {})

    def test_an_error_strikes_before_midway_or_after(self):
        for when, ranks, version in (("before", 0, "default"), ("midway", 2, "default"),
                                     ("after", 4, "v2")):
            with self.subTest(when):
                self.double = self.start_double(*self.options)
                self.fail("error", when=when)
                self.assertEqual(self.update()[0], 500)
                self.assert_serves(ranks, version)

    def test_half_of_the_ranks_load(self):
        self.fail("half_applied")
        self.assertEqual(self.update()[0], 500)
        self.assert_serves(2, "default")
        self.assert_unknown_until_updated()

    def test_a_200_may_hold_an_error(self):
        self.fail("error_in_200")
        status, answer = self.update()
        self.assertEqual((status, answer["success"]), (200, False))
        self.assert_serves(2, "default")
        self.assert_unknown_until_updated()

    def test_the_connection_is_reset_when_half_is_loaded(self):
        self.fail("reset")
        with self.assertRaises(LOST):
            self.update()
        self.assert_serves(2, "default")
        self.assert_unknown_until_updated()

    def test_the_process_dies(self):
        self.fail("die")
        with self.assertRaises(LOST):
            self.update()
        self.assertEqual(self.double.process.wait(harness.DEADLINE_S), faults.EXIT_STATUS)

    def test_a_torn_shard_kills_the_server_by_its_rollback(self):
        shard = sorted(self.new.glob("*.safetensors"))[0]
        shard.write_bytes(shard.read_bytes()[:-1])
        self.post("/pause_generation", {"mode": "in_place"})
        with self.assertRaises(LOST):
            self.update()
        self.assertEqual(self.double.process.wait(harness.DEADLINE_S), 1)

    def test_a_directory_without_weights_is_400(self):
        self.post("/pause_generation", {"mode": "in_place"})
        status, answer = self.double.post(DISK, {"model_path": str(self.dir / "absent")})
        self.assertEqual((status, answer["success"]), (400, False))
        self.assert_serves(0, "default")

    def test_an_update_that_hangs_goes_on_when_released(self):
        self.fail("hang", when="midway")
        update = harness.Background(self.update)
        self.wait_for_state(hanging=[DISK], updating=True)
        self.assert_serves(2, "default")
        self.post("/_double/release", {}, released=1)
        self.assertEqual(update.result()[0], 200)
        self.assert_serves(4, "v2")

    def test_the_scheduler_answers_after_the_updates_before_it(self):
        self.fail("hang")
        update = harness.Background(self.update)
        self.wait_for_state(hanging=[DISK])
        info = harness.Background(self.double.get, "/server_info")
        harness.wait_until(lambda: self.get("/_double/log")[-1]["path"] == "/server_info", "a call")
        self.assertIsNone(self.get("/_double/log")[-1]["ended"])
        self.post("/_double/release", {}, released=1)
        self.assertEqual(info.result()[0], 200)
        self.assertEqual(update.result()[0], 200)

    def test_a_stale_update_answers_well_and_loads_nothing(self):
        self.fail("stale")
        self.assertEqual(self.update()[0], 200)
        self.assert_serves(0, "v2")

    def test_a_slow_drain_has_begun_but_does_not_answer(self):
        self.plan("/pause_generation", "slow_drain")
        pause = harness.Background(self.double.post, "/pause_generation", {"mode": "abort"})
        self.wait_for_state(hanging=["/pause_generation"], pause_complete=False)
        self.assertEqual(self.double.get("/ready")[0], 503)
        self.post("/_double/release", {})
        self.assertEqual(pause.result()[0], 200)

    def test_other_steps_may_fail_by_200(self):
        self.post("/pause_generation", {"mode": "in_place"})
        for path, body in (("/begin_weight_update", {}), ("/end_weight_update", {}),
                           ("/update_weight_version", {"new_version": "v2"})):
            self.plan(path, "error_in_200")
            self.post(path, body, success=False)
        self.assert_serves(0, "default")

    def test_a_stream_may_end_by_an_error(self):
        self.plan("/generate", "error", when="midway")
        events = list(self.double.stream("/generate", INPUT))
        self.assertEqual(len(events), 2)
        self.assertEqual(events[1]["error"]["code"], 500)

    def test_a_stream_may_break_after_its_first_token(self):
        self.plan("/generate", "reset")
        stream = self.double.stream("/generate", INPUT)
        self.addCleanup(stream.close)
        with self.assertRaises((*LOST, http.client.HTTPException)):
            list(stream)


if __name__ == "__main__":
    unittest.main()
