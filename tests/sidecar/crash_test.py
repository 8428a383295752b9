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

KILLS = int(os.environ.get("ISTHMUS_TEST_KILLS", "100"))
SEED = int(os.environ.get("ISTHMUS_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
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
        for number in range(kills):
            self.publish()
            if number % 2:
                self.kill_after(self.random.uniform(0, 1.5 * typical))
            else:
                self.kill_at_call()
            self.assert_recovers()
            if number % 10 == 9:
                self.assert_no_violations(self.engine)
        print(f"{self.kills_in_switches} of {kills} in the middle of a switch", file=sys.stderr)
        self.assertGreater(self.kills_in_switches, kills // 4)

    def typical_s(self):
        """From a publication to its service."""
        begun = time.monotonic()
        self.publish()
        self.wait_for_version(self.head)
        return time.monotonic() - begun

    def kill_after(self, delay_s):
        threading.Event().wait(delay_s)
        self.kill()

    def kill_at_call(self):
        """Once the engine has got so many calls of the switch, and a little later."""
        before, count = len(self.engine.log()), self.random.randint(1, 16)
        until = time.monotonic() + 0.5
        while len(self.engine.log()) < before + count and time.monotonic() < until:
            pass
        self.kill_after(self.random.uniform(0, 0.002))

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
