#!/usr/bin/env python3
"""Many clients with all kinds of wishes while version after version arrives: whatever they get is
what they asked for, made by the versions that it says."""

import random
import sys
import threading
import time
import unittest

import island
from island import harness

CLIENTS = 4
VERSIONS = 12
WAIT_MS = 2_000


class Client(threading.Thread):
    """Asks until told to end; `failure` is what it saw that may not be."""

    def __init__(self, test, seed):
        super().__init__(daemon=True)
        self._test, self._random = test, random.Random(seed)
        self._ended = threading.Event()
        self.counts = {}
        self.failure = None
        self.start()

    def run(self):
        try:
            while not self._ended.is_set():
                outcome = self._ask()
                self.counts[outcome] = self.counts.get(outcome, 0) + 1
        except BaseException as error:
            self.failure = error

    def end(self):
        self._ended.set()
        self.join(harness.DEADLINE_S)
        assert not self.is_alive(), "a client got no answer"
        if self.failure:
            raise self.failure

    def _ask(self):
        headers, holds = self._wish()
        body = {**island.COMPLETION, "prompt": f"p{self._random.randrange(3)}",
                "max_tokens": self._random.choice((1, 3, 40))}
        if self._random.random() < 0.5:
            return self._stream(body, headers, holds)
        status, answer = self._test.sidecar.post("/v1/completions", body, headers)
        if status == 200:
            self._check(answer, holds)
        return status

    def _wish(self):
        """(headers, what must hold of every token's version)"""
        newest = self._test.head
        version = max(1, newest + self._random.randint(-2, 1))
        headers = {}
        if self._random.random() < 0.5:
            headers["Isthmus-Wait-Ms"] = str(self._random.choice((0, 10, WAIT_MS)))
        kind = self._random.randrange(4)
        if kind == 0:
            headers["Isthmus-Min-Version"] = str(version)
            return headers, lambda found: found >= version
        if kind == 1:
            headers["Isthmus-Exact-Version"] = str(version)
            return headers, lambda found: found == version
        if kind == 2:
            headers["Isthmus-Max-Lag"] = "1"
        return headers, lambda found: True

    def _stream(self, body, headers, holds):
        connection, response = self._test.sidecar.send(
            "POST", "/v1/completions", {**body, "stream": True},
            {**headers, "Isthmus-Version-Spans": "1"})
        if response.status != 200:
            response.read()
            connection.close()
            return response.status
        leaves = self._random.random() < 0.2
        stream = harness.Stream(connection, response)
        try:
            for event in stream:
                if island.tokens(event):
                    self._check(event, holds)
                if leaves:
                    stream.close()
                    return "left"
        except (OSError, harness.http.client.HTTPException):
            pass
        return "cut off" if stream.cut_off else "stream"

    def _check(self, answer, holds):
        self._test.assert_true_answer(answer)
        for token in island.tokens(answer):
            self._test.assertTrue(holds(int(token["version"])), answer)
        if self._test.one_version_each:
            self._test.assertEqual(*island.versions(answer))


class InPlaceStormTest(island.IslandTest):
    options = ("--poll-ms", 10)
    one_version_each = False

    def test_every_answer_is_what_it_says(self):
        print(f"seed {island.SEED}", file=sys.stderr)
        clients = [Client(self, island.SEED * 100 + place) for place in range(CLIENTS)]
        pace = random.Random(island.SEED)
        for _ in range(VERSIONS):
            self.publish()
            if pace.random() < 0.7:
                self.wait_for(lambda info: info["applied"] == self.head, "the newest")
            until = time.monotonic() + pace.uniform(0, 0.2)
            harness.wait_until(lambda: time.monotonic() > until, "a while")
        self.wait_for_version(self.head)
        for client in clients:
            client.end()
        counts = {}
        for client in clients:
            for outcome, count in client.counts.items():
                counts[outcome] = counts.get(outcome, 0) + count
        print(counts, file=sys.stderr)
        self.assertLessEqual(counts.keys(), {200, 409, "stream", "left", *self.also})
        self.assertGreater(counts[200], VERSIONS)
        self.assertGreater(counts["stream"], VERSIONS)
        self.wait_for(lambda info: info["in_flight"] == info["waiting"] == 0, "all have ended")

    also = ()


class SglangStormTest(InPlaceStormTest):
    kinds = ("sglang",)


class DrainStormTest(InPlaceStormTest):
    options = ("--poll-ms", 10, "--policy", "drain")
    one_version_each = True


class AbortStormTest(InPlaceStormTest):
    options = ("--poll-ms", 10, "--policy", "abort")
    one_version_each = True
    also = (503, "cut off")


class SglangDrainStormTest(DrainStormTest):
    kinds = ("sglang",)


class GroupStormTest(InPlaceStormTest):
    kinds = ("vllm", "vllm", "vllm")


if __name__ == "__main__":
    unittest.main()
