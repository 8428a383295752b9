#!/usr/bin/env python3
"""Which island answers what: versions, sessions, islands that come and go."""

import sys
import unittest

import fleet
from fleet import harness, island


class RoutingTest(fleet.FleetTest):
    count = 3

    def test_answers_say_who_made_them(self):
        status, headers, answer = self.ask({"Isthmus-Request-Id": "my-1"})
        self.assertEqual(status, 200)
        self.assertEqual(headers["Isthmus-Request-Id"], "my-1")
        self.assertIn(headers["Isthmus-Island"], {one.name for one in self.islands})
        self.assertEqual((headers["Isthmus-Version-Start"], headers["Isthmus-Version-End"]), ("1", "1"))
        self.assertEqual((headers["Isthmus-Lag-Start"], headers["Isthmus-Lag-End"]), ("0", "0"))
        self.assertEqual(island.versions(answer), (1, 1))

    def test_requests_without_a_session_are_spread(self):
        self.assertEqual({self.island_of() for _ in range(60)},
                         {one.name for one in self.islands})

    def test_a_session_keeps_its_island_and_moves_when_that_is_gone(self):
        names = {f"s{i}": self.island_of({"Isthmus-Session": f"s{i}"}) for i in range(30)}
        self.assertEqual(set(names.values()), {one.name for one in self.islands})
        for session, name in names.items():
            self.assertEqual(self.island_of({"Isthmus-Session": session}), name)
        gone = self.islands[0]
        gone.kill()
        for session, name in names.items():
            now = self.island_of({"Isthmus-Session": session})
            if name == gone.name:
                self.assertNotEqual(now, name)
            else:
                self.assertEqual(now, name)

    def test_another_gateway_places_sessions_alike(self):
        first = {f"s{i}": self.island_of({"Isthmus-Session": f"s{i}"}) for i in range(20)}
        self.islands.reverse()
        self.start_gateway()
        self.wait_for_version(1)
        for session, name in first.items():
            self.assertEqual(self.island_of({"Isthmus-Session": session}), name)

    def test_no_version_that_nobody_has(self):
        status, headers, answer = self.ask({"Isthmus-Min-Version": "2"})
        self.assertEqual(status, 409)
        self.assertEqual(headers["Retry-After"], "1")
        self.assertEqual((answer["type"], answer["target_version"], answer["applied"]),
                         ("WeightVersionNotReady", 2, 1))

    def test_a_version_that_comes_is_waited_for(self):
        later = harness.Background(self.ask, {"Isthmus-Min-Version": "2", "Isthmus-Wait-Ms": "60000"})
        self.publish()
        status, headers, answer = later.result()
        self.assertEqual(status, 200, answer)
        self.assertEqual(headers["Isthmus-Version-Start"], "2")

    def test_a_wait_that_is_in_vain_ends(self):
        self.assertEqual(self.ask({"Isthmus-Min-Version": "9", "Isthmus-Wait-Ms": "50"})[0], 409)

    def test_body_and_headers_are_joined(self):
        self.assertEqual(self.ask(weight_version={"exact_version": 1})[0], 200)
        self.assertEqual(self.ask({"Isthmus-Exact-Version": "2"},
                                  weight_version={"exact_version": 1})[0], 400)
        self.assertEqual(self.ask(weight_version={"exact_version": 7})[0], 409)

    def test_a_constraint_cannot_be_lost_on_the_way(self):
        for wrong in ({"Isthmus-Mini-Version": "1"}, {"Isthmus-Min-Version": "one"},
                      {"Isthmus-Exact-Version": "1", "Connection": "close, isthmus-exact-version"}):
            status, _, answer = self.ask(wrong)
            self.assertEqual((status, answer["error"]["type"]), (400, "invalid"), wrong)
        self.assertEqual([self.island_facts(one.name)["state"] for one in self.islands],
                         ["ready"] * self.count)

    def test_a_revoked_version_is_gone(self):
        self.publish()
        self.wait_for_version(2)
        self.revoke(2)
        self.publish()
        self.wait_for_version(3)
        self.assertIn(self.ask({"Isthmus-Exact-Version": "2"})[0], (409, 410))

    def test_other_routes(self):
        self.assertEqual(self.gateway.post("/pause", {})[0], 403)
        self.assertEqual(self.gateway.get("/v1/models")[0], 200)
        self.assertEqual(self.gateway.get("/live")[0], 200)
        self.assertEqual(self.gateway.get("/health")[0], 200)
        self.assertEqual(self.gateway.call("DELETE", "/v1/fleet")[0], 405)
        self.assertEqual(self.gateway.get("/v1/fleet?what=1")[0], 400)

    def test_streams_pass_event_by_event(self):
        for one in self.islands:
            one.engine.manual()
        begun = harness.Background(island.Reading, self.gateway)
        self.wait_until_in_flight(1)
        for one in self.islands:
            one.engine.step()
        reading = begun.result()
        name = reading.headers["Isthmus-Island"]
        engine = next(one.engine for one in self.islands if one.name == name)
        reading.wait_for_tokens(1)
        for count in range(2, island.COMPLETION["max_tokens"] + 1):
            engine.step()
            reading.wait_for_tokens(count)
        self.assertTrue(reading.result())

    def test_a_client_that_leaves_ends_its_generation(self):
        for one in self.islands:
            one.engine.manual()
        stream = harness.Background(lambda: self.gateway.stream(
            "/v1/completions", island.COMPLETION))
        self.wait_until_in_flight(1)
        for one in self.islands:
            one.engine.step()
        stream.result().close()
        self.wait_until_in_flight(0)
        self.wait_for(lambda facts: all(one["in_flight"] == 0 for one in facts["islands"]),
                      "the gateway knows it")

    def test_a_deadline_ends_a_request(self):
        for one in self.islands:
            one.engine.manual()
        status, _, answer = self.ask({"Isthmus-Deadline-Ms": "300"})
        self.assertEqual((status, answer["error"]["type"]), (504, "DeadlineExceeded"))
        self.wait_until_in_flight(0)

    def wait_until_in_flight(self, count):
        harness.wait_until(lambda: sum(one.info()["in_flight"] for one in self.islands) == count,
                           f"{count} requests are in flight")


class HedgeTest(fleet.FleetTest):
    gateway_options = (*fleet.POLL, "--hedge-ms", 50)

    def test_a_second_island_answers_for_a_slow_one(self):
        slow, quick = self.islands
        slow.engine.manual()
        for stream in (False, True) * 5:
            connection, response = self.gateway.send(
                "POST", "/v1/completions", {**island.COMPLETION, "stream": stream})
            with harness.contextlib.closing(connection):
                self.assertEqual(response.status, 200)
                self.assertEqual(response.headers["Isthmus-Island"], quick.name)
                response.read()
        harness.wait_until(lambda: slow.info()["in_flight"] == 0, "what was slow is called off")
        self.wait_for(lambda facts: all(one["in_flight"] == 0 for one in facts["islands"]),
                      "the gateway knows it")
        self.assertEqual(self.island_facts(slow.name)["state"], "ready")

    def test_if_both_fail_the_client_learns_it(self):
        for one in self.islands:
            one.kill()
        status, _, answer = self.ask()
        self.assertEqual((status, answer["error"]["retryable"]), (503, True))


class ReadyTest(fleet.FleetTest):
    def ready(self, query):
        return self.gateway.get(f"/v1/runs/run/ready?{query}")

    def test_says_when_enough_islands_serve(self):
        self.assertEqual(self.ready("version=1")[0], 200)
        status, answer = self.ready("version=2&timeout_ms=0")
        self.assertEqual((status, answer), (202, {
            "run": "run", "version": 2, "islands": 2, "serving": 0, "fraction": 0.0,
            "ready": False}))
        later = harness.Background(self.ready, "version=2&fraction=1&timeout_ms=60000")
        self.publish()
        status, answer = later.result()
        self.assertEqual((status, answer["serving"], answer["ready"]), (200, 2, True))
        self.assertEqual(self.gateway.get("/v1/runs/other/ready?version=1&timeout_ms=0")[0], 202)
        self.assertEqual(self.ready("fraction=1")[0], 400)


if __name__ == "__main__":
    unittest.main()
