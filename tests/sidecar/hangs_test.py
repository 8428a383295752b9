#!/usr/bin/env python3
"""Calls that an engine never answers: each has a deadline, after which its outcome is unknown. The
islands wait for theirs side by side."""

import time
import unittest

import island
from island import harness

SLOW = {"vllm": ("/reset_prefix_cache", "/resume", "/v1/completions"),
        "sglang": ("/continue_generation", "/generate")}
RECOVERY_S = 120  # the longest deadline, that of the canary, is half of it
LOADS = {"vllm": "/collective_rpc", "sglang": "/update_weights_from_disk"}
WATCHED_S = 3


class Island(island.IslandTest):
    """One of several within a test."""

    options = ("--poll-ms", 50, "--load-limit-s", 1)

    def __init__(self, kind):
        super().__init__("recovers_from")
        self.kinds = (kind,)

    def recovers_from(self, route):
        self.engine.plan(route, "hang")
        self.publish()
        harness.wait_until(lambda: self.engine.state()["hanging"], f"{route} hangs")
        self.assertEqual(self.version_of({"Isthmus-Wait-Ms": "0"}), -409)
        self.wait_for(lambda info: info["ready"] and info["applied"] == 2, f"after {route}",
                      RECOVERY_S)
        self.assert_serves(2)
        self.assertIsNone(self.engine.state()["pause_mode"])
        self.assertEqual(len(self.engine.loads()), 3)


class HangTest(unittest.TestCase):

    def open(self, kind):
        opened = Island(kind)
        self.addCleanup(opened.doCleanups)
        opened.setUp()
        return opened

    def test_a_call_that_hangs_ends_in_a_recovery(self):
        recovering = [harness.Background(self.open(kind).recovers_from, route)
                      for kind, routes in SLOW.items() for route in routes]
        for one in recovering:
            one.join(RECOVERY_S)
            one.result()

    def test_a_load_beyond_its_limit_is_waited_for_and_followed_by_a_whole_one(self):
        for kind, route in LOADS.items():
            opened = self.open(kind)
            opened.engine.plan(route, "hang")
            opened.publish()
            opened.wait_for(lambda info: info["state"] in ("poisoned", "reseeding"), "too late")
            until = time.monotonic() + WATCHED_S
            harness.wait_until(lambda: time.monotonic() > until, "a while")
            self.assertEqual(len(opened.engine.loads()), 2)
            self.assertEqual(opened.version_of(), -503)
            opened.engine.release()
            opened.wait_for_version(2)
            opened.assert_serves(2)

    def test_a_slow_drain_is_waited_for(self):
        opened = self.open("vllm")
        opened.engine.plan("/pause", "slow_drain")
        opened.publish()
        harness.wait_until(lambda: opened.engine.state()["hanging"], "the pause drains")
        waiting = harness.Background(opened.version_of)
        opened.wait_for(lambda info: info["waiting"] == 1, "a request waits")
        opened.engine.release()
        self.assertEqual(waiting.result(), 2)

    def test_looks_that_hang_lose_the_engine_and_a_prompt_one_finds_it_again(self):
        opened = self.open("vllm")
        opened.engine.plan("/is_paused", "hang", count=3)
        opened.wait_for(lambda info: info["last_update"]["kind"] == "adoption",
                        "three looks had no answer, and the fourth had one")
        opened.wait_for_version(1)
        opened.assert_serves(1)


if __name__ == "__main__":
    unittest.main()
