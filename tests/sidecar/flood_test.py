#!/usr/bin/env python3
"""Thousands that wait, few descriptors, and requests that are nonsense in every way."""

import http.client
import json
import pathlib
import random
import resource
import selectors
import socket
import sys
import unittest

import island
import upstream
from island import harness

WAITING = 3_000
NONSENSE = 1_500
SANITIZED = b"__ubsan_handle" in pathlib.Path(island.launch.program()).read_bytes()


class FloodTest(upstream.UpstreamTest):

    def open_waiting(self, count, version):
        """Connections, each with a request that waits for this version."""
        fields = b"Isthmus-Min-Version: %d\r\nIsthmus-Wait-Ms: 60000\r\n" % version
        data = upstream.request(b'{"prompt":"a"}', fields=fields)
        connections = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", self.process.port))
            self.addCleanup(connection.close)
            connection.sendall(data)
            connections.append(connection)
        return connections

    def statuses(self, connections):
        """{status: how many} of the answers."""
        found, left = {}, len(connections)
        with selectors.DefaultSelector() as ready:
            for connection in connections:
                ready.register(connection, selectors.EVENT_READ)
            while left:
                events = ready.select(harness.DEADLINE_S)
                self.assertTrue(events, f"{left} have no answer, {found}")
                for key, _ in events:
                    status = key.fileobj.recv(65536).split(b" ", 2)[1]
                    found[int(status)] = found.get(int(status), 0) + 1
                    ready.unregister(key.fileobj)
                    left -= 1
        return found

    def test_thousands_wait_and_all_are_answered(self):
        connections = self.open_waiting(WAITING, 2)
        self.wait_for(lambda info: info["waiting"] == WAITING, "all wait")
        self.publish()
        self.assertEqual(self.statuses(connections), {200: WAITING})
        self.wait_for(lambda info: info["waiting"] == info["in_flight"] == 0, "all have ended")

    def test_thousands_that_leave_the_line_leave_nothing(self):
        for connection in self.open_waiting(WAITING, 2):
            connection.close()
        self.wait_for(lambda info: info["waiting"] == 0, "all have left")
        self.publish()
        self.wait_for_version(2)
        self.assertEqual(self.upstream.requests, [])

    def test_a_full_line_refuses_the_next(self):
        self.stop_sidecar()
        self.start_sidecar("--max-waiting", 10)
        self.wait_for_version(1)
        self.open_waiting(10, 2)
        self.wait_for(lambda info: info["waiting"] == 10, "it is full")
        self.assertEqual(self.statuses(self.open_waiting(5, 2)), {503: 5})

    def test_what_all_hold_together_is_bounded_and_given_back(self):
        self.stop_sidecar()
        self.start_sidecar("--max-held-mib", 1)
        self.wait_for_version(1)
        large = {"prompt": "a" * 700_000}
        waits = {"Isthmus-Min-Version": "2", "Isthmus-Wait-Ms": "60000"}
        first = harness.Background(self.sidecar.post, "/v1/completions", large, waits)
        self.wait_for(lambda info: info["waiting"] == 1, "it waits")
        status, answer = self.sidecar.post("/v1/completions", large)
        self.assertEqual((status, answer["error"]["retryable"]), (503, True))
        self.assertEqual(self.sidecar.post("/v1/completions", {"prompt": "a"})[0], 200)
        self.publish()
        self.wake()
        self.assertEqual(first.result()[0], 200)
        for _ in range(5):
            self.assertEqual(self.sidecar.post("/v1/completions", large)[0], 200)

    def answers_again(self):
        """A connection made while there is no descriptor for it may be reset."""
        try:
            return self.sidecar.get("/live")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    @unittest.skipIf(SANITIZED, "the vptr check itself needs descriptors")
    def test_without_descriptors_it_waits_for_some(self):
        limits = resource.prlimit(self.process.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.process.process.pid, resource.RLIMIT_NOFILE, (40, limits[1]))
        connections = self.open_waiting(100, 2)
        harness.wait_until(lambda: self.process.process.poll() is None, "it lives")
        for connection in connections:
            connection.close()
        harness.wait_until(self.answers_again, "there are descriptors again")
        self.wait_for(lambda info: info["waiting"] == 0, "all have left")
        self.publish()
        self.wait_for_version(2)
        self.assertEqual(self.process.process.poll(), None)

    @unittest.skipIf(SANITIZED, "the vptr check itself needs descriptors")
    def test_without_descriptors_to_look_at_its_engine_it_serves_no_more_and_comes_back(self):
        probe = self.sidecar.connect()  # one that is there already
        self.addCleanup(probe.close)

        def is_ready():
            probe.request("GET", "/server_info")
            return json.loads(probe.getresponse().read())["ready"]

        self.assertTrue(is_ready())
        limits = resource.prlimit(self.process.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.process.process.pid, resource.RLIMIT_NOFILE, (40, limits[1]))
        connections = self.open_waiting(100, 2)
        harness.wait_until(lambda: not is_ready(), "the engine that cannot be seen is not trusted")
        for connection in connections:
            connection.close()
        harness.wait_until(self.answers_again, "there are descriptors again")
        self.wait_for_version(1)
        self.publish()
        self.wait_for_version(2)


class NonsenseTest(upstream.UpstreamTest):
    """Requests cut, doubled and changed at random; each in a connection of its own."""

    whole = upstream.request(
        b'{"weight_version":{"min_version":1},"prompt":"a\\u00e4","stream":false,'
        b'"cache_salt":"x","n":[1,{"a":null}]}',
        fields=b"Isthmus-Wait-Ms: 1\r\nIsthmus-Session: s\r\nContent-Type: application/json\r\n")
    chunked = (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"5\r\n{\"pro\r\n9;x=y\r\nmpt\":\"a\"}\r\n0\r\nT: 1\r\n\r\n")

    def test_nothing_but_a_proper_answer_or_an_end(self):
        print(f"seed {island.SEED}", file=sys.stderr)
        chance = random.Random(island.SEED)
        for _ in range(NONSENSE):
            data = self.changed(chance)
            answer = upstream.exchange(self.process.port, data, half_close=True)
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 "), (data, answer))
            if answer:
                self.assertIn(int(answer[9:12]), (200, 400, 403, 404, 405, 408, 409, 411, 413, 414,
                                                  417, 431, 501, 503, 505), (data, answer))
        self.assertIsNone(self.process.process.poll())
        self.wait_for(lambda info: info["in_flight"] == info["waiting"] == 0, "all have ended")
        for head, _ in self.upstream.requests:
            self.assertTrue(head.startswith(b"POST /v1/completions"), head)

    def changed(self, chance):
        data = bytearray(chance.choice((self.whole, self.chunked)))
        for _ in range(chance.randint(1, 4)):
            place, kind = chance.randrange(len(data)), chance.randrange(4)
            if kind == 0:
                data[place] = chance.randrange(256)
            elif kind == 1:
                del data[place:place + chance.randint(1, 8)]
            elif kind == 2:
                data[place:place] = chance.choice((b"\r\n", b":", b"\0", b'"', b"{", b"99999999999",
                                                   b"Isthmus-Min-Version: 1\r\n", b"\xff", b" "))
            else:
                data[place:place] = data[place:place + chance.randint(1, 60)]
            if not data:
                return b"\r\n"
        return bytes(data)


class NonsenseOfEnginesTest(upstream.UpstreamTest):
    """Answers of the engine cut and changed at random."""

    whole = (b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n'
             b'{"choices":[{"token_ids":[1,2]}],"usage":{} }')
    events = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
              b"\r\n\r\n2c\r\ndata: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n\r\n"
              b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def test_the_client_gets_an_answer_or_an_end_and_the_sidecar_lives(self):
        chance = random.Random(island.SEED)
        request = upstream.request(b'{"prompt":"a","stream":true}',
                                   fields=b"Isthmus-Version-Spans: 1\r\n")
        for _ in range(NONSENSE // 2):
            data = bytearray(chance.choice((self.whole, self.events)))
            for _ in range(chance.randint(0, 3)):
                place = chance.randrange(len(data))
                if chance.random() < 0.5:
                    data[place] = chance.randrange(256)
                else:
                    del data[place:place + chance.randint(1, 8)]
            self.upstream.answer = bytes(data)
            answer = upstream.exchange(self.process.port, request)
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 "), (data, answer))
        self.assertIsNone(self.process.process.poll())
        self.wait_for(lambda info: info["in_flight"] == 0, "all have ended")
        self.wait_for_version(1)


if __name__ == "__main__":
    unittest.main()
