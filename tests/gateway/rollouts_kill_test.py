#!/usr/bin/env python3
"""kill -9 at random instants: what was recorded is in the store in the end, and can be asked for.

ISTHMUS_TEST_KILLS says how often; ISTHMUS_TEST_SEED repeats the instants as far as that is possible.
"""

import json
import os
import pathlib
import random
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import recorders
from waiting import wait_until

KILLS = int(os.environ.get("ISTHMUS_TEST_KILLS", "20"))
ROTATE_BYTES = 20_000
LONGEST_LIFE_S = 0.1


class RolloutsKillTest(recorders.RecorderTest):

    def setUp(self):
        super().setUp()
        seed = int(os.environ.get("ISTHMUS_TEST_SEED", random.randrange(1 << 32)))
        print(f"ISTHMUS_TEST_SEED={seed}")
        self.random = random.Random(seed)
        self.store = self.dir / "store"

    def test_no_recorded_rollout_is_lost(self):
        recorded = []
        for life in range(KILLS):
            recorder = self.start(self.store, f"gw{life}", ROTATE_BYTES)
            killer = threading.Timer(self.random.uniform(0, LONGEST_LIFE_S), recorder.kill_process)
            killer.start()
            for number in range(10**6):
                name = f"{life}-{number}"
                if recorder.record(name, self.random.randrange(2_000)) is None:
                    break
                recorded.append(name)
            killer.join()
        recorder = self.start(self.store, "last", ROTATE_BYTES)
        for name in self.random.sample(recorded, min(len(recorded), 200)):
            self.assertEqual(json.loads(recorder.ask("find", name))["id"], name)
        wait_until(lambda: recorder.counters()["spool_bytes"] == 0, "all is uploaded")
        for name in self.random.sample(recorded, min(len(recorded), 200)):
            self.assertEqual(json.loads(recorder.ask("find", name))["id"], name)
        recorder.end()
        stored = [line["id"] for path in sorted(self.store.rglob("*.zst"))
                  for line in recorders.lines_of(path.read_bytes())]
        self.assertLessEqual(set(recorded), set(stored))
        # A line that was written when its process was killed had not been answered yet.
        self.assertLessEqual(len(set(stored) - set(recorded)), KILLS)
        self.assertEqual([path.name for path in self.spool.glob("*.jsonl")], [])
        print(f"{KILLS} kills, {len(recorded)} rollouts, {len(stored) - len(set(stored))} twice")
        self.assertGreater(len(recorded), 0)

    def test_a_spool_is_one_processes(self):
        recorder = self.start(self.store, "one")
        self.assertEqual(recorder.record("a"), "ok")
        other = self.start(self.store, "two")
        self.assertIn("another process is using it", other.end())
        recorder.kill()
        successor = self.start(self.store, "two")
        self.assertEqual(json.loads(successor.ask("find", "a"))["id"], "a")


if __name__ == "__main__":
    unittest.main()
