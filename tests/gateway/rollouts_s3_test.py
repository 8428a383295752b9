#!/usr/bin/env python3
"""The rollouts log in a bucket: objects that any client reads, and a server that goes and comes back."""

import json
import pathlib
import sys
import unittest

for folder in ("support", "store"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))

import recorders
import servers
from waiting import wait_until

LOCATION = f"s3://{servers.BUCKET}/team/rollouts"
NOT_INSTALLED = 77


class RolloutsS3Test(recorders.RecorderTest):

    def setUp(self):
        super().setUp()
        self.server = servers.Server("s3s-fs")
        self.addCleanup(self.server.close)

    def start_here(self, instance):
        return self.start(LOCATION, instance, environment=servers.environment(self.server.endpoint))

    def stored(self):
        ids = []
        for path in sorted((self.server.root / servers.BUCKET).rglob("*.jsonl.zst")):
            status, content = self.server.request(
                "GET", f"/{path.relative_to(self.server.root).as_posix()}")
            self.assertEqual(status, 200)
            ids += [line["id"] for line in recorders.lines_of(content)]
        return ids

    def test_rollouts_go_to_a_bucket_and_are_found_there(self):
        recorder = self.start_here("gw")
        names = [f"r-{number}" for number in range(50)]
        for name in names:
            self.assertEqual(recorder.record(name, 50_000), "ok")
        recorder.ask("rotate")
        wait_until(lambda: recorder.counters()["spool_bytes"] == 0, "the segment is uploaded")
        for name in names[::7]:
            self.assertEqual(json.loads(recorder.ask("find", name))["id"], name)
        self.assertEqual(recorder.ask("find", "r-50"), "none")
        recorder.end()
        self.assertEqual(self.stored(), names)
        successor = self.start_here("gw2")
        self.assertEqual(json.loads(successor.ask("find", "r-49"))["id"], "r-49")

    def test_a_server_that_is_away_costs_time_only(self):
        recorder = self.start_here("gw")
        self.server.stop()
        self.assertEqual(recorder.record("a"), "ok")
        recorder.ask("rotate")
        self.assertEqual(recorder.record("b"), "ok")
        self.assertEqual(json.loads(recorder.ask("find", "a"))["id"], "a")
        self.server.start()
        wait_until(lambda: recorder.counters()["uploaded_segments"] == 1, "the server is used again")
        recorder.end()
        self.assertEqual(sorted(self.stored()), ["a", "b"])


if __name__ == "__main__":
    if not servers.S3S_FS.exists():
        print("skipped: no s3s-fs (scripts/stores.sh)")
        sys.exit(NOT_INSTALLED)
    unittest.main()
