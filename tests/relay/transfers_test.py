#!/usr/bin/env python3
"""Many clients, a cache that is too small, a full disk, an origin that goes away."""

import os
import subprocess
import unittest

import relays
from relays import MEBIBYTE, RUN, Cut, sha256

PULLERS = 32
LARGE_BYTES = 96 * MEBIBYTE + 12_345


class SharedFetchTest(relays.RelayTest):

    def test_many_pullers_cost_the_origin_one_transfer(self):
        part = RUN + "data/1/a/part"
        digest = sha256(self.put_random(part, LARGE_BYTES))
        relay = self.start()
        pulls = [relays.Background(lambda: sha256(relay.get("/" + part))) for _ in range(PULLERS)]
        self.assertEqual({pull.result() for pull in pulls}, {digest})
        found = relay.metrics()
        self.assertLessEqual(found["origin_bytes_total"] / LARGE_BYTES, 1.01)
        self.assertEqual(found["client_bytes_total"], PULLERS * LARGE_BYTES)
        self.assertEqual(found["misses_total"], 1)
        self.assertEqual(found["hits_total"] + found["joined_total"], PULLERS - 1)
        self.assertEqual((found["failed_fetches_total"], found["passed_total"]), (0, 0))

    def test_a_restart_keeps_what_was_fetched(self):
        part = RUN + "data/1/a/part"
        content = self.put_random(part, 9 * MEBIBYTE)
        relay = self.start()
        self.assertEqual(relay.get("/" + part), content)
        relays.wait_until(lambda: relay.metric("fetching") == 0, "it is in the cache")
        self.assertEqual(relay.stop(), 0)
        again = self.start()
        self.assertEqual(again.get("/" + part), content)
        self.assertEqual(again.metric("origin_bytes_total"), 0)

    def test_another_board_is_not_served_from_the_cache(self):
        part = RUN + "data/1/a/part"
        self.put(part, b"old")
        relay = self.start()
        self.assertEqual(relay.get("/" + part), b"old")
        self.assertEqual(relay.stop(), 0)
        self.board.rename(self.dir / "old")
        relays.harness.run("board", "init", self.board)
        self.put(part, b"new")
        again = self.start()
        self.assertEqual(again.get("/" + part), b"new")
        self.assertEqual(again.get("/board.json"), (self.board / "board.json").read_bytes())


class BoundedCacheTest(relays.RelayTest):

    LIMIT = 20 * MEBIBYTE

    def test_it_stays_within_its_bytes_while_all_get_what_they_asked_for(self):
        keys = [f"{RUN}data/{number}/a/part" for number in range(24)]
        digests = {key: sha256(self.put_random(key, self.random.randrange(1, 4 * MEBIBYTE)))
                   for key in keys}
        relay = self.start(cache_bytes=self.LIMIT)
        orders = [self.random.choices(keys, k=60) for _ in range(8)]

        def read(order):
            connection = relay.connect()
            for key in order:
                answer = relay.ask("/" + key, connection=connection)
                assert (answer.status, sha256(answer.body)) == (200, digests[key]), key
            connection.close()

        readers = [relays.Background(read, order) for order in orders]
        while any(reader.is_alive() for reader in readers):
            self.assertLessEqual(relay.metric("cache_bytes"), self.LIMIT)
        for reader in readers:
            reader.result()
        relays.wait_until(lambda: relay.metric("fetching") == 0, "all fetches have ended")
        found = relay.metrics()
        self.assertLessEqual(self.on_disk(), found["cache_bytes"])
        self.assertGreater(found["evictions_total"], 0)
        self.assertGreater(found["hits_total"], 0)

    def on_disk(self):
        return sum(path.stat().st_size for folder in ("objects", "unfinished")
                   for path in (self.dir / "cache" / folder).iterdir())

    def test_an_object_larger_than_the_cache_passes_through(self):
        content = self.put_random(RUN + "data/1/a/part", self.LIMIT + 1)
        small = self.put_random(RUN + "data/2/a/part", 1000)
        relay = self.start(cache_bytes=self.LIMIT)
        self.assertEqual(relay.get(f"/{RUN}data/2/a/part"), small)
        pulls = [relays.Background(relay.get, f"/{RUN}data/1/a/part") for _ in range(4)]
        for pull in pulls:
            self.assertEqual(pull.result(), content)
        found = relay.metrics()
        self.assertEqual((found["passed_total"], found["evictions_total"]), (4, 0))
        self.assertEqual((found["cache_objects"], found["passing"]), (1, 0))


class FullDiskTest(relays.RelayTest):

    def check(self, relay, room_bytes):
        """Objects above and below what the disk can take are all served, and the relay goes on."""
        for number, size in enumerate((room_bytes // 2, room_bytes * 4, room_bytes * 3, 1000)):
            key = f"{RUN}data/{number + 1}/a/part"
            content = self.put_random(key, size)
            pulls = [relays.Background(relay.get, "/" + key) for _ in range(3)]
            for pull in pulls:
                self.assertEqual(pull.result(), content)
        relays.wait_until(lambda: relay.metric("fetching") == 0, "all fetches have ended")
        self.assertGreater(relay.metric("passed_total"), 0)
        self.assertEqual(relay.metric("failed_fetches_total"), 0)
        self.assertEqual(list((self.dir / "cache" / "unfinished").iterdir()), [])
        before = relay.metric("origin_bytes_total")
        relay.get(f"/{RUN}data/1/a/part")
        self.assertEqual(relay.metric("origin_bytes_total"), before)

    def test_a_small_file_system(self):
        mount = self.dir / "cache"
        mount.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", mount],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", mount], check=True)
        relay = self.start()
        self.check(relay, 8 * MEBIBYTE)
        # A full disk holds the newest: the cache goes on within what there is.
        for number in range(10, 16):
            content = self.put_random(f"{RUN}data/{number}/a/part", 3 * MEBIBYTE)
            self.assertEqual(relay.get(f"/{RUN}data/{number}/a/part"), content)
            relays.wait_until(lambda: relay.metric("fetching") == 0, "it is in the cache")
            before = relay.metric("origin_bytes_total")
            self.assertEqual(relay.get(f"/{RUN}data/{number}/a/part"), content)
            self.assertEqual(relay.metric("origin_bytes_total"), before)
        self.assertEqual(relay.stop(), 0)

    def test_a_limit_of_file_sizes(self):
        limit = 6 * MEBIBYTE
        relay = self.start(before=("prlimit", f"--fsize={limit}"))
        self.check(relay, limit)


class AwayTest(relays.RelayTest):

    def setUp(self):
        super().setUp()
        self.here = RUN + "data/1/a/part"
        self.other = RUN + "data/2/a/part"
        self.content = self.put_random(self.here, 5 * MEBIBYTE)
        self.put_random(self.other, 1000)
        self.put(RUN + "head.json", b"hint")

    def go_away(self):
        self.board.rename(self.dir / "away")

    def come_back(self):
        (self.dir / "away").rename(self.board)

    def assert_away(self, relay):
        self.assertEqual(relay.get("/" + self.here), self.content)
        self.assertEqual(relay.ask("/" + self.here, method="HEAD").status, 200)
        # Not 404: nobody can know.
        for target in ("/" + self.other, f"/{RUN}log/0000000001.json", "/?list=runs/r/log/",
                       "/v1/runs/r/watch?after=0&timeout_ms=1"):
            answer = relay.ask(target)
            self.assertEqual(answer.status, 503, target)
            self.assertIn("Retry-After", answer.headers)
        relays.wait_until(lambda: relay.ask(f"/{RUN}head.json").status == 503, "no stale hint")
        self.assertEqual(relay.ask("/health").json(), {"ready": True, "origin": False})

    def assert_back(self, relay):
        self.assertEqual(len(relay.get("/" + self.other)), 1000)
        self.assertEqual(relay.get(f"/{RUN}head.json"), b"hint")
        self.assertEqual(relay.ask("/?list=runs/r/log/").json(), {"keys": []})
        self.assertEqual(relay.ask("/health").json(), {"ready": True, "origin": True})

    def test_hits_are_served_while_the_origin_is_away_and_the_rest_when_it_is_back(self):
        relay = self.start()
        relay.get("/" + self.here)
        relays.wait_until(lambda: relay.metric("fetching") == 0, "it is in the cache")
        self.go_away()
        self.assert_away(relay)
        self.come_back()
        self.assert_back(relay)

    def test_a_relay_also_starts_while_its_origin_is_away(self):
        relay = self.start()
        relay.get("/" + self.here)
        relays.wait_until(lambda: relay.metric("fetching") == 0, "it is in the cache")
        self.assertEqual(relay.stop(), 0)
        self.go_away()
        again = self.start()
        self.assert_away(again)
        self.come_back()
        self.assert_back(again)
        self.assertEqual(again.stop(), 0)

    def test_another_board_that_comes_back_is_not_mixed_in(self):
        relay = self.start()
        relay.get("/" + self.here)
        relays.wait_until(lambda: relay.metric("fetching") == 0, "it is in the cache")
        self.assertEqual(relay.stop(), 0)
        self.go_away()
        again = self.start()
        relays.harness.run("board", "init", self.board)
        self.put(self.other, b"another board's")
        answer = again.ask("/" + self.other)
        self.assertEqual(answer.status, 503)
        self.assertIn(b"it is board", answer.body)


class TruncatedTest(relays.RelayTest):

    def test_an_object_that_is_cut_while_it_is_fetched_is_never_taken_for_whole(self):
        """The cut may come late: then all is well. It is tried until one came in time."""
        size = 256 * MEBIBYTE
        source = self.dir / "source"
        source.write_bytes(self.random.randbytes(MEBIBYTE) * (size // MEBIBYTE))
        whole = source.read_bytes()
        relay = self.start()
        for number in range(1, 40):
            key = f"{RUN}data/{number}/a/part"
            path = self.board / key
            path.parent.mkdir(parents=True)
            os.link(source, path)
            pulls = [relays.Background(self.pull, relay, key) for _ in range(3)]
            relays.wait_until(lambda: relay.metric("misses_total") == number, "it is asked for")
            os.truncate(path, 5 * MEBIBYTE)
            outcomes = {pull.result() for pull in pulls}
            # Whole, cut, or refused: never short and well.
            self.assertLessEqual(outcomes, {(200, sha256(whole)), "cut", 502})
            relays.wait_until(lambda: relay.metric("fetching") == 0, "the fetch has ended")
            failed = relay.metric("failed_fetches_total")
            source.write_bytes(whole)  # the same file
            self.assertEqual(self.pull(relay, key), (200, sha256(whole)))
            path.unlink()
            if failed:
                return
        self.fail("no cut came while the object was fetched")

    @staticmethod
    def pull(relay, key):
        try:
            answer = relay.ask("/" + key)
        except Cut:
            return "cut"
        return (200, sha256(answer.body)) if answer.status == 200 else answer.status


if __name__ == "__main__":
    unittest.main()
