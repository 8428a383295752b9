#!/usr/bin/env python3
"""A relay whose origin is a bucket (s3s-fs): full disks, an origin that dies, parts that are altered."""

import json
import subprocess
import sys
import unittest

import relays
import transfers_test
from relays import ROOT, RUN, harness

sys.path.append(str(ROOT / "tests" / "store"))
import servers  # noqa: E402

PREFIX = "team/board"
BOARD = f"s3://{servers.BUCKET}/{PREFIX}"


class BucketTest(relays.RelayTest):
    """A RelayTest whose board lies in a bucket."""

    def setUp(self):
        self.server = servers.Server("s3s-fs")
        self.addCleanup(self.server.close)
        self.isthmus("board", "init", BOARD)
        super().setUp()

    def isthmus(self, *arguments):
        done = subprocess.run([harness.PROGRAM, *map(str, arguments)], env=self.server.environment(),
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def put(self, key, content):
        self.object("PUT", key, content)
        return content

    def object(self, method, key, content=b""):
        status, body = self.server.request(method, f"/{servers.BUCKET}/{PREFIX}/{key}", content)
        self.assertEqual(status, 200, key)
        return body

    def start(self, *options, **more):
        return super().start("--board-deadline-s", 1, *options, board=BOARD,
                             environment=self.server.environment(), **more)


class FullDiskTest(BucketTest, transfers_test.FullDiskTest):
    """The same as before a directory."""


class AwayTest(BucketTest, transfers_test.AwayTest):
    """The same as before a directory, but for a board in the place of another."""

    test_another_board_that_comes_back_is_not_mixed_in = None

    def go_away(self):
        self.server.stop()

    def come_back(self):
        self.server.start()


class PullTest(harness.CheckpointTest, BucketTest):

    def setUp(self):
        harness.CheckpointTest.setUp(self)
        BucketTest.setUp(self)
        self.options = ("--board", BOARD, "--run", "r")
        for step in (37, 38):
            self.isthmus("publish", self.step(step), *self.options, "--baseline", self.dir / "baseline")

    def pull(self, relay, *options, expect=0):
        return harness.run("pull", "--board", f"http://127.0.0.1:{relay.port}", "--run", "r",
                           "--replica", self.dir / "replica", *options, "--json", expect=expect)

    def test_a_replica_pulls_through_a_relay_without_room(self):
        relay = self.start(before=("prlimit", "--fsize=65536"))
        self.pull(relay)
        harness.assert_same_files(self.dir / "replica", self.step(38))
        self.assertGreater(relay.metric("passed_total"), 0)

    def test_an_altered_part_passes_the_relay_and_is_found_by_the_replica(self):
        relay = self.start()
        self.pull(relay, "--version", 1)
        entry = json.loads(self.object("GET", RUN + "log/0000000002.json"))
        part = entry["payloads"][0]["parts"][0]["key"]
        content = bytearray(self.object("GET", part))
        content[len(content) // 2] ^= 1
        self.put(part, bytes(content))
        self.assertIn(part, self.pull(relay, expect=5).stderr)
        harness.assert_same_files(self.dir / "replica", self.step(37))
        self.isthmus("board", "anchor", 2, self.step(38), *self.options)
        done = relays.wait_until(lambda: self.pulled(relay), "the anchor is seen")
        self.assertEqual(json.loads(done.stdout)["chain"], ["anchor 2"])
        self.assertIn(part, done.stderr)
        harness.assert_same_files(self.dir / "replica", self.step(38))

    def pulled(self, relay):
        """Of a pull that went well; the relay's list may be a second old."""
        done = self.pull(relay, expect=None)
        return done if done.returncode == 0 else None


if __name__ == "__main__":
    unittest.main()
