#!/usr/bin/env python3
"""kill -9 of the sidecar at random instants of a switch: the next one ends ready at a verified
version, the engine was never made to do wrong, and every token is of the version it claims."""

import os
import random
import sys
import threading
import time
import unittest

import island
from island import harness

# Calls of a switch that can be held up.
CALLS = {"vllm": ("/is_paused", "/pause", "/collective_rpc", "/update_weight_version",
                  "/reset_prefix_cache", "/weight_info", "/resume", "/v1/completions"),
         "sglang": ("/pause_generation", "/flush_cache", "/update_weights_from_disk", "/model_info",
                    "/continue_generation", "/generate")}
LOADS = ("/collective_rpc", "/update_weights_from_disk")
KILLS = int(os.environ.get("ISTHMUS_TEST_KILLS", "100"))
SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
PATIENCE_S = 0.5  # a switch may have had fewer calls
RECOVERY_S = 30  # far above what a busy machine needs


class CrashTest(island.IslandTest):
    options = ("--poll-ms", 10)

    def setUp(self):
        super().setUp()
        print(f"seed {SEED}, {KILLS} kills", file=sys.stderr)
        self.random = random.Random(SEED)
        self.kills_in_switches = 0

    def crash_all(self, kills):
        typical = self.typical_s()
        ways = (lambda: self.kill_in_time(1.5 * typical), self.kill_at_count, self.kill_in_call)
        for number in range(kills):
            ways[number % len(ways)]()
            self.assert_recovers()
        print(f"{self.kills_in_switches} of {kills} in the middle of a switch", file=sys.stderr)
        self.assertGreater(self.kills_in_switches, kills // 4)

    def typical_s(self):
        """From a publication to its service."""
        begun = time.monotonic()
        self.publish()
        self.wait_for_version(self.head)
        return time.monotonic() - begun

    def kill_in_time(self, longest_s):
        self.publish()
        self.kill_after(self.random.uniform(0, longest_s))

    def kill_after(self, delay_s):
        threading.Event().wait(delay_s)
        self.kill()

    def kill_at_count(self):
        """Once the engine has got so many calls of the switch."""
        first, count = len(self.engine.log()), self.random.randint(1, 16)
        self.publish()
        until = time.monotonic() + PATIENCE_S
        while len(self.engine.log(first=first)) < count and time.monotonic() < until:
            pass
        self.kill()

    def kill_in_call(self):
        """While the engine works on a call, which it ends as if nothing had been; a load only after
        the next sidecar has begun."""
        route = self.random.choice(CALLS[self.engine.kind])
        self.engine.plan(route, "hang", when=self.random.choice(("before", "after")))
        self.publish()
        harness.wait_until(lambda: self.engine.state()["hanging"], f"{route} hangs")
        self.kill()
        if route in LOADS:
            self.start_sidecar()
            self.wait_for(lambda info: not info["ready"], "it waits for the load")
            self.kill()
        self.engine.release()

    def kill(self):
        self.kill_sidecar()
        journal = self.dir / "replica" / ".isthmus" / "engines.json"
        self.kills_in_switches += '"serving":0' in journal.read_text(encoding="ascii")

    def assert_recovers(self):
        self.start_sidecar()
        self.wait_for(lambda info: info["ready"] and info["applied"] in (self.head - 1, self.head),
                      "ready", RECOVERY_S)
        self.assertEqual(self.ask()[0], 200)
        self.wait_for_version(self.head)
        self.assert_serves(self.head)
        self.assertIsNone(self.engine.state()["pause_mode"])

    def test_killed_at_random_instants(self):
        self.crash_all(KILLS * 2 // 3)


class SglangCrashTest(CrashTest):
    kinds = ("sglang",)

    def test_killed_at_random_instants(self):
        self.crash_all(KILLS // 3)


class GroupCrashTest(CrashTest):
    """Killed again and again before it has recovered."""

    kinds = ("vllm", "sglang")

    def test_killed_at_random_instants(self):
        for _ in range(KILLS // 10):
            self.publish()
            for _ in range(3):
                self.kill_after(self.random.uniform(0, 0.15))
                self.start_sidecar()
            self.wait_for_version(self.head)
            self.assert_serves(self.head)
            for engine in self.engines:
                self.assert_no_violations(engine)
                self.assertIsNone(engine.state()["pause_mode"])


if __name__ == "__main__":
    unittest.main()
