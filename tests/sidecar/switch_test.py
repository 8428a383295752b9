#!/usr/bin/env python3
"""Requests in flight while the version is switched: policies, spans, sessions, lost clients."""

import unittest

import island
from island import Reading, harness

LONG = {"max_tokens": 10}
WAITS = {"Isthmus-Wait-Ms": "60000"}
SPANS = {"Isthmus-Version-Spans": "1"}


class InFlightTest(island.IslandTest):
    """The engine makes tokens when a test says so."""

    options = island.NO_POLLING

    def begin(self, tokens=3, headers=None, **body):
        """A stream that has got so many tokens."""
        self.engine.manual()
        reading = Reading(self.sidecar, {**LONG, **body}, headers)
        self.wait_for_engine(running=1)
        self.engine.step(tokens)
        reading.wait_for_tokens(tokens)
        return reading

    def wait_for_engine(self, **expected):
        def holds():
            state = self.engine.state()
            return all(state[key] + (state["waiting"] if key == "running" else 0) == value
                       for key, value in expected.items())
        harness.wait_until(holds, f"the engine's {expected}")

    def switch(self):
        """Publishes the next version; the engine makes tokens freely, as a canary needs them."""
        self.publish()
        self.wake()

    def finish(self):
        self.engine.manual(False)

    def assert_true_tokens(self, reading):
        for event in reading.events:
            if island.tokens(event):
                self.assert_true_answer(event)


class InPlaceTest(InFlightTest):
    unit = "token"

    def test_a_stream_goes_on_across_a_switch_and_says_where_the_versions_meet(self):
        reading = self.begin(3, SPANS)
        self.assertEqual((reading.headers["Isthmus-Version-Start"],
                          reading.headers["Isthmus-Version-End"]), ("1", None))
        self.switch()
        harness.wait_until(lambda: len(self.engine.loads()) == 2, "the load has begun")
        self.finish()
        self.wait_for_version(2)
        self.assertTrue(reading.result())
        self.assert_true_tokens(reading)
        self.assertEqual([token["version"] for token in reading.tokens()], ["1"] * 3 + ["2"] * 7)
        spans = [event["weight_version_spans"] for event in reading.events
                 if "weight_version_spans" in event][-1]
        self.assertEqual((spans["choices"], spans["unit"], spans["complete"]), ([
            {"index": 0, "spans": [{"version": 1, "start": 0, "end": 3},
                                   {"version": 2, "start": 3, "end": 10}]}], self.unit, True))
        self.assertEqual({island.versions(event) for event in reading.events}, {(1, 1), (1, 2)})

    def test_an_answer_in_one_piece_that_crossed_names_both_versions(self):
        self.engine.manual()
        asking = harness.Background(self.ask, SPANS)
        self.wait_for_engine(running=1)
        self.engine.step(2)
        self.switch()
        harness.wait_until(lambda: len(self.engine.loads()) == 2, "the load has begun")
        self.finish()
        status, answer = asking.result()
        self.assertEqual((status, island.versions(answer)), (200, (1, 2)))
        self.assertEqual(answer["weight_version_spans"]["versions"], [1, 2])
        self.wait_for_version(2)

    def test_one_that_asked_for_exactly_this_version_finishes_first(self):
        reading = self.begin(3, {"Isthmus-Exact-Version": "1"})
        self.switch()
        self.wait_for(lambda info: info["gate"] == "closing", "the gate closes")
        waiting = harness.Background(self.version_of)
        self.wait_for(lambda info: info["waiting"] == 1, "a request waits for the switch")
        self.assertEqual(self.version_of({"Isthmus-Wait-Ms": "0"}), -409)
        self.assertEqual(self.version_of({"Isthmus-Exact-Version": "1"}), -409)
        self.assertEqual(self.engine.log("/pause")[1:], [])
        self.finish()
        self.assertTrue(reading.result())
        self.assertEqual([token["version"] for token in reading.tokens()], ["1"] * 10)
        self.assertEqual(waiting.result(), 2)
        self.assert_serves(2)

    def test_many_streams_cross_many_switches(self):
        readings = []
        for _ in range(4):
            self.engine.manual()
            readings.append(Reading(self.sidecar, {"max_tokens": 30}, SPANS))
            self.wait_for_engine(running=len(readings))
            self.engine.step(3)
            readings[-1].wait_for_tokens(3)
            self.switch()
            self.step_until_served()
        self.finish()
        for reading in readings:
            self.assertTrue(reading.result())
            self.assertEqual(len(reading.tokens()), 30)
            self.assert_true_tokens(reading)

    def step_until_served(self):
        """One token at a time, so that the canary gets its own."""
        def served():
            info = self.info()
            if info["applied"] == self.head:
                return True
            if self.engine.state()["pause_mode"] is None and info["gate"] == "committing":
                self.engine.step()
            return False
        harness.wait_until(served, "the switch")

    def test_a_revoked_version_is_left_by_those_that_wait_and_kept_by_those_in_flight(self):
        self.release()
        reading = self.begin(3)
        self.revoke(2)
        self.wake()
        harness.wait_until(lambda: len(self.engine.loads()) == 3, "the older one is loaded")
        self.finish()
        self.wait_for_version(1)
        self.assertTrue(reading.result())
        self.assertEqual([token["version"] for token in reading.tokens()], ["2"] * 3 + ["1"] * 7)
        for token in reading.tokens():
            self.assert_true_token(token)
        self.assertEqual(reading.events[-1]["weight_version_start"], 2)
        self.assertEqual(reading.events[-1]["weight_version_end"], 1)


class SglangInPlaceTest(InPlaceTest):
    """The same, by retraction; and the engine's own spans are passed on."""

    kinds = ("sglang",)
    unit = "chunk"  # its OpenAI answers name no tokens unless they are asked to

    def test_one_that_asked_for_exactly_this_version_finishes_first(self):
        reading = self.begin(3, {"Isthmus-Exact-Version": "1"})
        self.switch()
        self.wait_for(lambda info: info["gate"] == "closing", "the gate closes")
        self.finish()
        self.assertTrue(reading.result())
        self.assertEqual({token["version"] for token in reading.tokens()}, {"1"})
        self.wait_for_version(2)


class DrainTest(InFlightTest):
    options = (*island.NO_POLLING, "--policy", "drain")

    def test_all_finish_at_the_version_at_which_they_began(self):
        reading = self.begin(3)
        self.switch()
        self.wait_for(lambda info: info["gate"] == "closing", "the gate closes")
        waiting = harness.Background(self.version_of)
        self.wait_for(lambda info: info["waiting"] == 1, "a request waits for the switch")
        self.finish()
        self.assertTrue(reading.result())
        self.assertEqual({token["version"] for token in reading.tokens()}, {"1"})
        self.assertEqual({island.versions(event) for event in reading.events}, {(1, 1)})
        self.assertEqual(waiting.result(), 2)

    def test_what_does_not_finish_in_time_is_ended(self):
        self.stop_sidecar()
        self.start_sidecar("--drain-limit-s", 1)
        self.wait_for_version(1)
        reading = self.begin(3)
        asking = harness.Background(self.version_of)
        self.wait_for_engine(running=2)
        self.switch()
        self.assertFalse(reading.result())
        self.assertEqual(asking.result(), -503)
        self.finish()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_a_client_that_leaves_holds_up_nothing(self):
        reading = self.begin(3)
        self.switch()
        self.wait_for(lambda info: info["gate"] == "closing", "the gate closes")
        leave(reading)  # the engine makes no tokens: nothing else ends the request
        self.wait_for(lambda info: info["gate"] != "closing", "the switch goes on")
        self.finish()
        self.wait_for_version(2)


class AbortTest(InFlightTest):
    options = (*island.NO_POLLING, "--policy", "abort")

    def test_all_are_ended_and_none_looks_complete(self):
        reading = self.begin(3)
        asking = harness.Background(self.version_of)
        self.wait_for_engine(running=2)
        self.switch()
        self.assertFalse(reading.result())
        self.assertEqual(asking.result(), -503)
        self.finish()
        self.wait_for_version(2)
        self.assert_serves(2)


class DisconnectTest(InFlightTest):

    def test_a_client_that_leaves_a_stream_ends_its_generation(self):
        leave(self.begin(3))
        self.wait_for_engine(running=0)
        self.wait_for(lambda info: info["in_flight"] == 0, "nothing in flight")

    def test_a_client_that_leaves_before_its_answer_ends_its_generation(self):
        self.engine.manual()
        connection = self.sidecar.connect()
        connection.request("POST", "/v1/completions", b'{"prompt":"a","max_tokens":9}')
        self.wait_for_engine(running=1)
        connection.close()
        self.wait_for_engine(running=0)
        self.wait_for(lambda info: info["in_flight"] == 0, "nothing in flight")

    def test_a_client_that_leaves_the_line_is_no_longer_in_it(self):
        connection = self.sidecar.connect()
        connection.request("POST", "/v1/completions", b'{"prompt":"a"}',
                           {"Isthmus-Min-Version": "2", **WAITS})
        self.wait_for(lambda info: info["waiting"] == 1, "it waits")
        connection.close()
        self.wait_for(lambda info: info["waiting"] == 0, "it has left")
        self.release()
        self.assertEqual(len(self.engine.log("/v1/completions")), 2)  # the canaries


class SessionTest(island.IslandTest):
    options = island.NO_POLLING

    def turn(self, name, pinned=True, **more):
        return self.version_of({"Isthmus-Session": name,
                                "Isthmus-Session-Pin": "1" if pinned else "0", **more})

    def test_a_pinned_session_holds_its_version_and_a_following_one_does_not(self):
        self.assertEqual(self.turn("following", pinned=False), 1)
        self.release()
        self.assertEqual(self.turn("following", pinned=False), 2)
        self.assertEqual(self.turn("s"), 2)
        self.publish()
        self.wake()
        info = self.wait_for(lambda info: "sessions hold" in info["reason"], "it is held")
        self.assertEqual((info["applied"], info["target"]), (2, 3))
        self.assertEqual(self.turn("s"), 2)
        self.assertEqual(self.turn("s", pinned=False), 2)
        self.assertEqual(self.turn("s", **{"Isthmus-Min-Version": "3"}), -409)

    def test_a_lease_on_a_revoked_version_holds_nothing(self):
        self.release()
        self.assertEqual(self.turn("s"), 2)
        self.publish()
        self.wake()
        self.wait_for(lambda info: "sessions hold" in info["reason"], "it is held")
        self.revoke(2)
        self.wake()
        self.wait_for_version(3)
        self.assertEqual(self.turn("s"), -410)
        self.assertEqual(self.turn("s", pinned=False), 3)


def leave(reading):
    """As a client does that lost interest; what it reads then is its own affair."""
    reading.stream.leave()


if __name__ == "__main__":
    unittest.main()
