#!/usr/bin/env python3
"""A relay whose origin is a relay, and pulls through both."""

import unittest

import relays
from relays import MEBIBYTE, RUN, harness, sha256

PULLERS = 32
LARGE_BYTES = 96 * MEBIBYTE + 12_345


def url(relay):
    return f"http://127.0.0.1:{relay.port}"


class ChainTest(relays.RelayTest):

    def setUp(self):
        super().setUp()
        self.outer = self.start(cache="outer")
        self.inner = self.start("--board-deadline-s", 1, board=url(self.outer), cache="inner")

    def test_many_pullers_cost_the_distance_one_transfer(self):
        part = RUN + "data/1/a/part"
        digest = sha256(self.put_random(part, LARGE_BYTES))
        before = self.outer.metric("client_bytes_total")
        pulls = [relays.Background(lambda: sha256(self.inner.get("/" + part)))
                 for _ in range(PULLERS)]
        self.assertEqual({pull.result() for pull in pulls}, {digest})
        sent = self.outer.metric("client_bytes_total") - before
        self.assertLessEqual(sent / LARGE_BYTES, 1.01)
        self.assertLessEqual(self.inner.metric("origin_bytes_total") / LARGE_BYTES, 1.01)
        self.assertLessEqual(self.outer.metric("origin_bytes_total") / LARGE_BYTES, 1.01)

    def test_objects_tags_lists_and_what_is_missing_are_the_same(self):
        for size in (0, 1, 5 * MEBIBYTE + 1):
            self.put_random(f"{RUN}data/1/a/{size}", size)
        self.put(RUN + "head.json", b"hint")
        keys = self.outer.ask("/?list=").json()["keys"]
        self.assertEqual(len(keys), 5)
        self.assertEqual(self.inner.ask("/?list=").json()["keys"], keys)
        for key in keys:
            one, other = self.outer.ask("/" + key), self.inner.ask("/" + key)
            self.assertEqual(one.body, (self.board / key).read_bytes())
            self.assertEqual(other.body, one.body)
            self.assertEqual(other.headers["ETag"], one.headers["ETag"])
        self.assertEqual(self.inner.ask(f"/{RUN}none").status, 404)

    def test_hits_outlive_the_outer_relay_and_the_rest_is_refused(self):
        part = RUN + "data/1/a/part"
        content = self.put_random(part, 5 * MEBIBYTE)
        self.put(RUN + "data/2/a/part", b"x")
        self.inner.get("/" + part)
        relays.wait_until(lambda: self.inner.metric("fetching") == 0, "it is in the cache")
        self.outer.kill()
        self.assertEqual(self.inner.get("/" + part), content)
        self.assertEqual(self.inner.ask(f"/{RUN}data/2/a/part").status, 503)
        self.assertEqual(self.inner.ask("/health").json(), {"ready": True, "origin": False})


class PullTest(harness.CheckpointTest, relays.RelayTest):

    def setUp(self):
        harness.CheckpointTest.setUp(self)
        relays.RelayTest.setUp(self)

    def publish(self, step):
        harness.run("publish", self.step(step), "--board", self.board, "--run", "r", "--baseline",
                    self.dir / "baseline")

    def test_replicas_pull_and_watch_through_a_chain(self):
        self.publish(37)
        outer = self.start(cache="outer")
        inner = self.start(board=url(outer), cache="inner")
        waiting = relays.Background(inner.ask, "/v1/runs/r/watch?after=1&timeout_ms=50000")
        relays.wait_until(lambda: inner.metric("watchers") == 1, "it waits")
        self.publish(38)
        self.assertEqual(waiting.result().json(), {"version": 2})
        before = inner.metric("origin_bytes_total")
        for number in range(3):
            replica = self.dir / f"replica-{number}"
            harness.run("pull", "--board", url(inner), "--run", "r", "--replica", replica)
            harness.assert_same_files(replica, self.step(38))
        stored = sum(path.stat().st_size for path in self.board.rglob("*") if path.is_file())
        self.assertLessEqual((inner.metric("origin_bytes_total") - before) / stored, 1.01)
        harness.run("verify", "--board", url(inner), "--run", "r", "--deep")


if __name__ == "__main__":
    unittest.main()
