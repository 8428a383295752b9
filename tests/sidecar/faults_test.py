#!/usr/bin/env python3
"""Every fault of an engine on every control route of a switch: the island ends ready at the newest
version, and no client ever got a token of other weights than the answer says."""

import threading
import unittest

import island
from island import harness

PACE_S = 0.01
# The routes that a switch asks, and those of a boot or a recovery.
VLLM_SWITCH = ("/is_paused", "/is_sleeping", "/pause", "/collective_rpc", "/update_weight_version",
               "/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/weight_info",
               "/resume", "/v1/models", "/v1/completions")
VLLM_PROBE = ("/openapi.json", "/get_world_size")
SGLANG_SWITCH = ("/pause_generation", "/flush_cache", "/update_weights_from_disk", "/model_info",
                 "/ready", "/continue_generation", "/generate")
SGLANG_PROBE = ("/openapi.json", "/server_info")
CHAT = {"messages": [{"role": "user", "content": "the weather"}], "max_tokens": 3}


class Traffic(threading.Thread):
    """Asks all the time; everything that a client was told is checked."""

    def __init__(self, test):
        super().__init__(daemon=True)
        self._test = test
        self._ended = threading.Event()
        self.failure = None
        self.counts = {}
        self.start()

    def run(self):
        while not self._ended.wait(PACE_S):
            try:
                self._ask()
            except BaseException as error:
                self.failure = error
                return

    def _ask(self):
        status, answer = self._test.sidecar.post("/v1/chat/completions", CHAT)
        self.counts[status] = self.counts.get(status, 0) + 1
        if status == 200:
            self._test.assert_true_answer(answer)
        elif status not in (409, 503):
            raise AssertionError(f"{status}: {answer}")

    def end(self):
        self._ended.set()
        self.join(harness.DEADLINE_S)
        if self.failure:
            raise self.failure


class FaultTest(island.IslandTest):
    """One island meets one fault after another; each with a version of its own."""

    options = ("--poll-ms", 20, "--load-limit-s", 1)

    def setUp(self):
        super().setUp()
        self.traffic = Traffic(self)

    def tearDown(self):
        self.traffic.end()
        super().tearDown()

    def meet(self, route, kind, when=None):
        with self.subTest(route=route, kind=kind, when=when):
            self.engine.plan(route, kind, when=when)
            self.publish()
            if kind == "die":
                harness.wait_until(lambda: not self.engine.is_up(), "it dies")
                self.replace_engine(kill=False)
            else:
                harness.wait_until(lambda: not self.engine.get("/_double/faults")[1],
                                   "the fault has struck")
            self.wait_for_version(self.head)
            self.assert_serves(self.head)
            state = self.engine.state()
            self.assertEqual((state["pause_mode"], set(state["digests"])),
                             (None, {island.digest_of(self.head)}))
            self.assert_no_violations(self.engine)
            self.assertIsNone(self.traffic.failure)

    def meet_all(self, routes, kinds, points=("before", "after")):
        for route in routes:
            for kind in kinds:
                for when in points:
                    self.meet(route, kind, when)

    def meet_on_boot(self, routes, kinds):
        for route in routes:
            for kind in kinds:
                with self.subTest(route=route, kind=kind, when="boot"):
                    self.traffic.end()
                    self.stop_sidecar()
                    self.replace_engine()
                    self.engine.plan(route, kind, when="before")
                    self.start_sidecar()
                    self.traffic = Traffic(self)
                    self.wait_for_version(self.head)
                    self.assert_serves(self.head)
                    self.assert_no_violations(self.engine)


class VllmFaultsTest(FaultTest):

    def test_an_error_before_or_after_the_effect_of_any_call(self):
        self.meet_all(VLLM_SWITCH, ("error",))

    def test_a_connection_that_is_reset_before_or_after_the_effect_of_any_call(self):
        self.meet_all(VLLM_SWITCH, ("reset",))

    def test_an_engine_that_dies_in_any_call(self):
        self.meet_all(VLLM_SWITCH, ("die",), ("before",))

    def test_a_load_or_pause_that_ends_half_done(self):
        self.meet_all(("/collective_rpc", "/pause"), ("error", "reset", "die"), ("midway",))
        self.meet("/collective_rpc", "half_applied")
        self.meet("/pause", "half_applied")

    def test_an_error_that_comes_with_status_200(self):
        for route in ("/collective_rpc", "/reset_prefix_cache", "/update_weight_version"):
            self.meet(route, "error_in_200")

    def test_faults_while_it_boots(self):
        self.meet_on_boot(VLLM_SWITCH + VLLM_PROBE, ("error", "reset"))

    def test_a_version_that_cannot_be_loaded_is_passed_by_until_somebody_wakes_the_island(self):
        """The load of the switch fails, then that of the recovery."""
        self.engine.plan("/reset_mm_cache", "error", count=2)
        self.publish()
        info = self.wait_for(lambda info: info["unloadable"] == [2] and info["ready"], "passed by")
        self.assertEqual((info["applied"], info["target"]), (1, 1))
        self.assert_serves(1)
        self.wake()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_a_version_that_could_not_be_loaded_does_not_keep_from_the_next(self):
        self.engine.plan("/reset_mm_cache", "error", count=2)
        self.publish()
        self.wait_for(lambda info: info["unloadable"] == [2] and info["ready"], "passed by")
        self.publish()
        self.wait_for_version(3)
        self.assert_serves(3)

    def test_a_load_that_changes_nothing_shows_in_the_canary(self):
        self.traffic.end()  # whose tokens are of the old bytes
        self.engine.plan("/collective_rpc", "stale")
        self.publish()
        info = self.wait_for_version(2)
        self.assertTrue(info["last_update"]["canary_unchanged"])


class SglangFaultsTest(FaultTest):
    kinds = ("sglang",)

    def test_an_error_before_or_after_the_effect_of_any_call(self):
        self.meet_all(SGLANG_SWITCH, ("error",))

    def test_a_connection_that_is_reset_before_or_after_the_effect_of_any_call(self):
        self.meet_all(SGLANG_SWITCH, ("reset",))

    def test_an_engine_that_dies_in_any_call(self):
        self.meet_all(SGLANG_SWITCH, ("die",), ("before",))

    def test_a_load_or_pause_that_ends_half_done(self):
        self.meet_all(("/update_weights_from_disk", "/pause_generation"), ("error", "reset", "die"),
                      ("midway",))
        self.meet("/update_weights_from_disk", "half_applied")
        self.meet("/pause_generation", "half_applied")

    def test_an_error_that_comes_with_status_200(self):
        self.meet("/update_weights_from_disk", "error_in_200")

    def test_faults_while_it_boots(self):
        self.meet_on_boot(SGLANG_SWITCH + SGLANG_PROBE, ("error", "reset"))


if __name__ == "__main__":
    unittest.main()
