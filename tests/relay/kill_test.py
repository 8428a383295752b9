#!/usr/bin/env python3
"""kill -9 at random instants, under load: whatever a successor serves is what the origin holds.

ISTHMUS_TEST_KILLS says how often; ISTHMUS_TEST_SEED repeats the instants as far as that is possible.
"""

import os
import threading
import unittest

import relays
from relays import MEBIBYTE, RUN, Cut, sha256

KILLS = int(os.environ.get("ISTHMUS_TEST_KILLS", "50"))
LIMIT = 40 * MEBIBYTE
READERS = 4
LONGEST_LIFE_S = 0.12


class KillTest(relays.RelayTest):

    def test_whatever_is_served_is_the_origins(self):
        objects = {}
        for number in range(16):
            key = f"{RUN}data/{number}/a/part"
            size = self.random.randrange(1, 8 * MEBIBYTE)
            objects[key] = sha256(self.put_random(key, size))
        served = hits = 0
        for _ in range(KILLS):
            relay = self.start(cache_bytes=LIMIT)
            stop = threading.Event()
            readers = [relays.Background(self.read, relay, objects, self.random.randrange(1 << 30),
                                         stop) for _ in range(READERS)]
            # The instant is what is drawn, nothing is waited for.
            stop.wait(self.random.uniform(0, LONGEST_LIFE_S))
            relay.kill()
            stop.set()
            served += sum(reader.result() for reader in readers)
            self.assertLessEqual(self.on_disk(), LIMIT + READERS * 8 * MEBIBYTE)
        relay = self.start(cache_bytes=LIMIT)
        self.assertEqual(list((self.dir / "cache" / "unfinished").iterdir()), [])
        self.assertLessEqual(self.on_disk(), LIMIT)
        for key, digest in objects.items():
            self.assertEqual(sha256(relay.get("/" + key)), digest)
        found = relay.metrics()
        hits = found["hits_total"]
        self.assertEqual(found["unsound_files_total"], 0)
        print(f"{KILLS} kills, {served} objects read before them, {hits:.0f} of {len(objects)} in "
              "the cache at the end")
        self.assertGreater(served, 0)
        self.assertGreater(hits, 0)

    @staticmethod
    def read(relay, objects, seed, stop):
        """Reads until the relay is gone; how many objects came whole. Wrong bytes fail."""
        draw = relays.random.Random(seed)
        keys, whole = sorted(objects), 0
        while not stop.is_set():
            key = draw.choice(keys)
            try:
                answer = relay.ask("/" + key)
            except Cut:
                continue
            assert answer.status == 200, (key, answer.status, answer.body)
            assert sha256(answer.body) == objects[key], f"{key} is not the origin's"
            whole += 1
        return whole

    def on_disk(self):
        files = (self.dir / "cache").rglob("*")
        return sum(path.stat().st_size for path in files if path.is_file())


if __name__ == "__main__":
    unittest.main()
