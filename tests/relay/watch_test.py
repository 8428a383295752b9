#!/usr/bin/env python3
"""Waiting for a run's next version through a relay, with versions that are really published."""

import unittest

import relays
from relays import harness

WATCHERS = 200


class WatchTest(harness.CheckpointTest, relays.RelayTest):

    def setUp(self):
        harness.CheckpointTest.setUp(self)
        relays.RelayTest.setUp(self)
        self.published = 0
        self.publish()

    def publish(self):
        harness.run("publish", self.step(37 + self.published % 4, "fp8"), "--board", self.board,
                    "--run", "r", "--baseline", self.dir / "baseline")
        self.published += 1

    def watch(self, relay, after, timeout_ms=50_000, run="r"):
        answer = relay.ask(f"/v1/runs/{run}/watch?after={after}&timeout_ms={timeout_ms}")
        return answer.json()["version"] if answer.status == 200 else answer.status

    def test_a_version_wakes_all_who_wait_and_one_asked(self):
        relay = self.start()
        self.assertEqual(self.watch(relay, 0), 1)
        waits = [relays.Background(self.watch, relay, 1) for _ in range(WATCHERS)]
        relays.wait_until(lambda: relay.metric("watchers") == WATCHERS, "all wait")
        self.assertEqual(relay.metric("watched_runs"), 1)
        before, seen = relay.metric("watch_questions_total"), relay.metrics()
        relays.wait_until(lambda: relay.metric("watch_questions_total") >= before + 5, "polls")
        self.assertEqual(seen["watchers"], WATCHERS)
        self.publish()
        self.assertEqual({wait.result() for wait in waits}, {2})
        # One question at a time, however many wait: some calls of the store each, no more.
        found = relay.metrics()
        self.assertLess(found["origin_calls_total"], found["watch_questions_total"] + WATCHERS / 10)
        relays.wait_until(lambda: relay.metric("watched_runs") == 0, "nobody watches")

    def test_after_a_watch_nothing_older_is_told(self):
        relay = self.start()
        entry = "/runs/r/log/0000000002.json"
        self.assertEqual(relay.ask(entry).status, 404)
        self.assertEqual(len(relay.ask("/?list=runs/r/log/").json()["keys"]), 1)
        hint = relay.get("/runs/r/head.json")
        waiting = relays.Background(self.watch, relay, 1)
        self.publish()
        self.assertEqual(waiting.result(), 2)
        self.assertEqual(relay.get(entry), (self.board / entry[1:]).read_bytes())
        self.assertEqual(len(relay.ask("/?list=runs/r/log/").json()["keys"]), 2)
        self.assertNotEqual(relay.get("/runs/r/head.json"), hint)

    def test_nothing_new_is_204_and_a_run_that_does_not_exist_may_come(self):
        relay = self.start()
        self.assertEqual(self.watch(relay, 1, 30), 204)
        self.assertEqual(self.watch(relay, 0, 30, run="other"), 204)
        waiting = relays.Background(self.watch, relay, 0, 50_000, "other")
        harness.run("publish", self.step(37, "fp8"), "--board", self.board, "--run", "other",
                    "--baseline", self.dir / "other")
        self.assertEqual(waiting.result(), 1)

    def test_a_watcher_that_leaves_is_forgotten(self):
        relay = self.start()
        connection = relay.connect()
        connection.request("GET", "/v1/runs/r/watch?after=1&timeout_ms=300000")
        relays.wait_until(lambda: relay.metric("watchers") == 1, "it waits")
        connection.close()
        relays.wait_until(lambda: relay.metric("watchers") == 0, "it has left")
        relays.wait_until(lambda: relay.metric("watched_runs") == 0, "nobody asks")

    def test_the_end_of_the_relay_ends_the_waiting(self):
        relay = self.start()
        waiting = relays.Background(self.watch, relay, 1)
        relays.wait_until(lambda: relay.metric("watchers") == 1, "it waits")
        self.assertEqual(relay.stop(), 0)
        self.assertEqual(waiting.result(), 204)


if __name__ == "__main__":
    unittest.main()
