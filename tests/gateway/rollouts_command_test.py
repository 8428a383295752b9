#!/usr/bin/env python3
"""isthmus rollouts: what a recorder wrote, each rollout once; and what is wrong with a store."""

import json
import os
import subprocess
import unittest

import recorders

PROGRAM = os.environ["ISTHMUS_BIN"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ISTHMUS_")}


class RolloutsCommandTest(recorders.RecorderTest):

    def setUp(self):
        super().setUp()
        self.store = self.dir / "store"

    def read(self, *options, expect=0):
        done = subprocess.run([PROGRAM, "rollouts", self.store, *options], env=ENVIRONMENT, text=True,
                              capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def ids(self, *options):
        return [json.loads(line)["id"] for line in self.read(*options).stdout.splitlines()]

    def test_prints_each_rollout_once(self):
        self.assertEqual(self.ids(), [])
        recorder = self.start(self.store, "gw")
        for name in ("a", "b", "a", "c"):
            self.assertEqual(recorder.record(name), "ok")
            recorder.ask("rotate")
        recorder.end()
        self.assertEqual(len(list(self.store.rglob("*.zst"))), 4)
        self.assertEqual(self.ids(), ["a", "b", "c"])
        self.assertEqual(self.ids("--since", "2001-01-01", "--until", "2200-01-01"), ["a", "b", "c"])
        self.assertEqual(self.ids("--until", "2001-01-01"), [])

    def test_says_what_is_wrong(self):
        recorder = self.start(self.store, "gw")
        recorder.record("a", 10_000)
        recorder.end()
        (file,) = self.store.rglob("*.zst")
        file.write_bytes(file.read_bytes()[:-1])
        self.assertIn(file.name, self.read(expect=5).stderr)
        self.assertIn("read time", self.read("--since", "yesterday", expect=2).stderr)


if __name__ == "__main__":
    unittest.main()
