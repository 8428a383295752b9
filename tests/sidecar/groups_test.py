#!/usr/bin/env python3
"""Islands of several engines: all or none."""

import collections
import unittest

import island
from island import harness


class GroupTest(island.IslandTest):
    kinds = ("vllm", "vllm")

    def assert_all_serve(self, version):
        for engine in self.engines:
            state = engine.state()
            self.assertEqual((state["version"], set(state["digests"]), state["pause_mode"]),
                             (str(version), {island.digest_of(version)}, None))

    def test_all_engines_are_switched(self):
        self.assert_all_serve(1)
        self.release()
        self.assert_all_serve(2)
        self.assert_serves(2)

    def test_one_that_cannot_load_poisons_the_island_and_all_are_loaded_anew(self):
        for kind in ("error", "half_applied", "error_in_200", "reset"):
            loads = [len(engine.loads()) for engine in self.engines]
            self.engines[1].plan("/collective_rpc", kind)
            self.release()
            self.assert_all_serve(self.head)
            for engine, before in zip(self.engines, loads):
                self.assertEqual(len(engine.loads()), before + 2)
            self.assert_serves(self.head)

    def test_one_that_cannot_pause_leaves_all_at_the_version_before(self):
        self.engines[1].plan("/pause", "error")
        self.publish()
        self.wait_for(lambda info: "gave up" in info["reason"]
                      or info["applied"] == 2, "the switch is given up")
        self.wait_for_version(2)
        self.assert_all_serve(2)

    def test_one_that_died_is_the_islands_death(self):
        self.engines[1].stop()
        self.wait_for(lambda info: not info["ready"], "its death is noticed")
        self.assertEqual(self.version_of(), -503)
        self.replace_engine(1, kill=False)
        self.wait_for_version(1)
        self.assert_all_serve(1)

    def test_one_that_was_replaced_is_noticed(self):
        self.replace_engine(1)
        harness.wait_until(self.engines[1].loads, "it is loaded")
        self.wait_for_version(1)
        self.assert_all_serve(1)

    def test_one_that_hangs_in_a_load_keeps_the_gate_closed_for_both(self):
        self.engines[1].plan("/collective_rpc", "hang")
        self.publish()
        harness.wait_until(lambda: self.engines[1].state()["hanging"], "the load hangs")
        waiting = harness.Background(self.version_of)
        self.wait_for(lambda info: info["waiting"] == 1, "a request waits")
        self.assertEqual(self.version_of({"Isthmus-Wait-Ms": "0"}), -409)
        self.engines[1].release()
        self.assertEqual(waiting.result(), 2)
        self.assert_all_serve(2)

    def test_a_successor_adopts_all_or_loads_all(self):
        self.stop_sidecar()
        self.start_sidecar()
        self.assertEqual(self.wait_for_version(1)["last_update"]["kind"], "adoption")
        self.stop_sidecar()
        self.replace_engine(1)
        self.start_sidecar()
        self.wait_for_version(1)
        self.assertEqual([len(engine.loads()) for engine in self.engines], [2, 1])
        self.assert_all_serve(1)

    # Requests

    def requests_of(self):
        """{prompt: the engines that got it}"""
        found = collections.defaultdict(set)
        for place, engine in enumerate(self.engines):
            for call in engine.log("/v1/completions"):
                if isinstance(call["body"]["prompt"], str):
                    found[call["body"]["prompt"]].add(place)
        return found

    def test_requests_are_spread_by_what_is_in_flight(self):
        for engine in self.engines:
            engine.manual()
        asking = []
        for place in range(6):
            asking.append(harness.Background(self.version_of, None))
            self.wait_for(lambda info: info["in_flight"] == place + 1, "in flight")
        harness.wait_until(lambda: [self.waiting_in(engine) for engine in self.engines] == [3, 3],
                           "three in each")
        for engine in self.engines:
            engine.manual(False)
        self.assertEqual([request.result() for request in asking], [1] * 6)

    @staticmethod
    def waiting_in(engine):
        state = engine.state()
        return state["running"] + state["waiting"]

    def test_the_turns_of_a_session_stay_with_one_engine(self):
        for session in range(12):
            for pin in "01":
                version = self.version_of(
                    {"Isthmus-Session": f"s{session}", "Isthmus-Session-Pin": pin},
                    prompt=f"session {session}")
                self.assertEqual(version, 1)
        found = self.requests_of()
        self.assertEqual({len(places) for places in found.values()}, {1})
        self.assertEqual({place for places in found.values() for place in places}, {0, 1})


class MixedTest(GroupTest):
    """A vLLM and an SGLang: only what they share is asked of them."""

    kinds = ("vllm", "sglang")

    def test_one_that_cannot_load_poisons_the_island_and_all_are_loaded_anew(self):
        self.engines[1].plan("/update_weights_from_disk", "error_in_200")
        self.release()
        self.assert_all_serve(2)

    def test_one_that_cannot_pause_leaves_all_at_the_version_before(self):
        self.engines[1].plan("/pause_generation", "error")
        self.publish()
        self.wait_for_version(2)
        self.assert_all_serve(2)

    def test_one_that_hangs_in_a_load_keeps_the_gate_closed_for_both(self):
        self.engines[1].plan("/update_weights_from_disk", "hang")
        self.publish()
        harness.wait_until(lambda: self.engines[1].state()["hanging"], "the load hangs")
        self.assertEqual(self.version_of({"Isthmus-Wait-Ms": "0"}), -409)
        self.engines[1].release()
        self.wait_for_version(2)
        self.assert_all_serve(2)


if __name__ == "__main__":
    unittest.main()
