#!/usr/bin/env python3
"""A hundred times more than there is room for: who gets in, who is shed, and that memory stays bounded."""

import collections
import re
import socket
import threading
import unittest

from doubles import DoublesTest
from fleet import harness, island
from sidecar_double import completion

FLOOD = 400
IN_FLIGHT, QUEUED = 4, 8
MIB = 1 << 20
MOST_MEMORY_KB = 200_000


class HeldIsland:
    """Answers only when it is told to."""

    def __init__(self):
        self.turns = threading.Semaphore(0)
        self.ids = []  # of requests, in the order in which they came
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self, call):
        with self.lock:
            self.ids.append(call.headers["isthmus-request-id"])
            self.now += 1
            self.most = max(self.most, self.now)
        if not self.turns.acquire(timeout=harness.DEADLINE_S):
            return False
        with self.lock:
            self.now -= 1
        return call.answer(completion())

    def release(self, count):
        for _ in range(count):
            self.turns.release()

    def wait_for(self, count):
        harness.wait_until(lambda: len(self.ids) >= count, f"{count} requests at the island")


class OverloadTest(DoublesTest):
    def setUp(self):
        super().setUp()
        self.held = HeldIsland()
        self.add("one", self.held)

    def queued(self):
        return self.gateway.get("/v1/fleet")[1]["gateway"]["queued"]

    def wait_for_queued(self, count):
        harness.wait_until(lambda: self.queued() == count, f"{count} are queued")

    def send_all(self, requests):
        """Sends each (headers, body) on a connection of its own; the sockets."""
        sockets = []
        for headers, body in requests:
            connection = socket.create_connection(("127.0.0.1", self.process.port))
            connection.settimeout(harness.DEADLINE_S)
            self.addCleanup(connection.close)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{lines}"
                               f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            sockets.append(connection)
        return sockets

    def read(self, connection):
        """(status, headers)"""
        response = harness.http.client.HTTPResponse(connection)
        with response:
            response.begin()
            response.read()
            return response.status, response.headers

    def memory_kb(self):
        with open(f"/proc/{self.process.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])

    def test_a_flood_is_shed(self):
        self.start("--max-in-flight", IN_FLIGHT, "--max-queued", QUEUED)
        body = harness.json.dumps({**island.COMPLETION, "prompt": "x" * 100_000}).encode()
        sockets = self.send_all([({}, body)] * FLOOD)
        self.held.wait_for(IN_FLIGHT)
        shed = harness.wait_until(
            lambda: self.metric('isthmus_gateway_requests_total{outcome="shed"}') ==
            FLOOD - IN_FLIGHT - self.queued(), "the others are shed")
        self.assertTrue(shed)
        waited = self.queued()
        # One client alone gets at most eight ninths of the queue.
        self.assertTrue(0 < waited <= QUEUED, waited)
        self.held.release(FLOOD)
        counts = collections.Counter()
        for connection in sockets:
            status, headers = self.read(connection)
            counts[status] += 1
            if status == 429:
                self.assertEqual(headers["Retry-After"], "1")
        self.assertEqual(counts, {200: IN_FLIGHT + waited, 429: FLOOD - IN_FLIGHT - waited})
        self.assertEqual(self.held.most, IN_FLIGHT)
        self.wait_at_rest()
        self.assertLess(self.memory_kb(), MOST_MEMORY_KB)
        self.assertEqual(self.ask()[0], 200)

    def test_shares_of_two_clients(self):
        tokens = self.dir / "tokens"
        tokens.write_text("greedy-client-0001\nmodest-client-0001\n")
        self.start("--max-in-flight", 1, "--max-queued", 100, "--client-tokens", tokens, ready=[])
        body = harness.json.dumps(island.COMPLETION).encode()

        def asks(name, count):
            return [({"Authorization": f"Bearer {name}-client-0001",
                      "Isthmus-Request-Id": f"{name}-{i}"}, body) for i in range(count)]
        self.wait_until_serving()
        sockets = self.send_all(asks("greedy", 1))
        self.held.wait_for(1)
        sockets += self.send_all(asks("greedy", 20)[1:])
        self.wait_for_clients(19)
        sockets += self.send_all(asks("modest", 5))
        self.wait_for_clients(24)
        self.held.release(len(sockets))
        for connection in sockets:
            self.assertEqual(self.read(connection)[0], 200)
        self.assertEqual(len(self.held.ids), 25)
        turns = [request_id.split("-")[0] for request_id in self.held.ids[1:11]]
        self.assertEqual(turns.count("modest"), 5, self.held.ids)

    def wait_until_serving(self):
        harness.wait_until(lambda: self.gateway.get("/health")[0] == 200, "it serves")

    def wait_for_clients(self, count):
        """So many wait; /v1/fleet asks for a token too."""
        def queued():
            _, answer = self.gateway.call("GET", "/v1/fleet", None,
                                          {"Authorization": "Bearer modest-client-0001"})
            return answer["gateway"]["queued"] == count
        harness.wait_until(queued, f"{count} wait")

    def test_a_client_has_limits_of_its_own(self):
        tokens = self.dir / "tokens"
        tokens.write_text("greedy-client-0001\nmodest-client-0001\n")
        self.start("--client-in-flight", 2, "--client-tokens", tokens, ready=[])
        self.wait_until_serving()
        body = harness.json.dumps(island.COMPLETION).encode()
        greedy = {"Authorization": "Bearer greedy-client-0001"}
        sockets = self.send_all([(greedy, body)] * 6)
        self.held.wait_for(2)
        self.wait_for_clients(4)
        sockets += self.send_all([({"Authorization": "Bearer modest-client-0001"}, body)])
        self.held.wait_for(3)
        self.held.release(7)
        for connection in sockets:
            self.assertEqual(self.read(connection)[0], 200)
        self.assertEqual(self.held.most, 3)

    def test_a_client_has_a_rate(self):
        self.start("--client-rate", 0.02)  # one now, the next in 50 s
        self.held.release(10)
        self.assertEqual(self.ask()[0], 200)
        sockets = self.send_all([({"Isthmus-Deadline-Ms": "300"},
                                  harness.json.dumps(island.COMPLETION).encode())])
        self.assertEqual(self.read(sockets[0])[0], 504)
        self.assertEqual(len(self.held.ids), 1)
        self.wait_at_rest()

    def test_evaluation_does_not_wait_behind_training(self):
        self.start("--max-in-flight", 1, "--max-queued", 100)
        body = harness.json.dumps(island.COMPLETION).encode()

        def asks(name, count):
            return [({"Isthmus-Priority": name, "Isthmus-Request-Id": f"{name}-{i}"}, body)
                    for i in range(count)]
        sockets = self.send_all(asks("training", 1))
        self.held.wait_for(1)
        sockets += self.send_all(asks("training", 31)[1:])
        self.wait_for_queued(30)
        sockets += self.send_all(asks("evaluation", 3))
        self.wait_for_queued(33)
        self.held.release(len(sockets))
        for connection in sockets:
            self.assertEqual(self.read(connection)[0], 200)
        places = [place for place, one in enumerate(self.held.ids) if one.startswith("evaluation")]
        self.assertEqual(len(places), 3)
        self.assertLessEqual(places[-1], 16, self.held.ids)  # one turn in five
        self.assertGreaterEqual(places[-1], 5, self.held.ids)  # and not more

    def test_clients_that_leave_the_queue_make_room(self):
        self.start("--max-in-flight", 1, "--max-queued", 20)
        body = harness.json.dumps(island.COMPLETION).encode()
        sockets = self.send_all([({}, body)])
        self.held.wait_for(1)
        for _ in range(5):
            waiting = self.send_all([({}, body)] * 10)
            self.wait_for_queued(10)
            for connection in waiting:
                connection.close()
            self.wait_for_queued(0)
        self.held.release(1)
        self.assertEqual(self.read(sockets[0])[0], 200)
        self.wait_at_rest()
        self.assertEqual(len(self.held.ids), 1)

    def test_bodies_that_are_too_large(self):
        self.start("--max-body-mib", 1, "--max-held-mib", 4)
        self.held.release(100)
        large = b'{"prompt":"' + b"x" * MIB + b'"}'
        sockets = self.send_all([({}, large)])
        self.assertEqual(self.read(sockets[0])[0], 413)
        self.assertEqual(self.held.ids, [])
        fits = b'{"prompt":"' + b"x" * (MIB - 100) + b'"}'
        sockets = self.send_all([({}, fits)])
        self.assertEqual(self.read(sockets[0])[0], 200)

    def test_bodies_that_are_too_large_together(self):
        self.start("--max-body-mib", 1, "--max-held-mib", 4)
        body = b'{"prompt":"' + b"x" * (MIB - 100) + b'"}'
        senders = [harness.Background(self.send_all, [({}, body)]) for _ in range(40)]
        sockets = [sender.result()[0] for sender in senders]
        shed = harness.wait_until(
            lambda: self.metric('isthmus_gateway_requests_total{outcome="shed"}'), "some are shed")
        self.assertGreaterEqual(shed, 1)
        self.held.release(100)
        counts = collections.Counter()
        for connection in sockets:
            status, headers = self.read(connection)
            counts[status] += 1
            if status == 429:
                self.assertEqual(headers["Retry-After"], "1")
        self.assertEqual(counts.keys(), {200, 429})
        self.wait_at_rest()
        self.assertLess(self.memory_kb(), MOST_MEMORY_KB)


if __name__ == "__main__":
    unittest.main()
