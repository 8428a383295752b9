#!/usr/bin/env python3
"""Switching the real vLLM: what it says afterwards, and what becomes of requests in flight."""

import re
import unittest

import island
from island import harness

# A switch must come before the end, on a busy machine too, and a token takes 3 ms. No seeds: on
# CPUs, vLLM 0.32 dies of one whose prompt is computed in parts, and after a switch the prompts are
# long (docs/vllm.md).
LONG = {"temperature": 0.8, "ignore_eos": True, "max_tokens": 3500}
ENDING_FIRST = 1000  # tokens of requests that the switch waits for
CHAT = {"messages": [{"role": "user", "content": "go on"}]}
TRIES = 6  # to switch in time, on a machine that has other things to do
BEGUN = 20  # events of a stream after which it is in flight beyond doubt, and far from its end


def generate(**sampling):
    return {"token_ids": [9, 8, 7], "sampling_params": {**LONG, **sampling}}


def spans_of(choice):
    """The engine's own account: [(version, start, end)]. Its labels end with the version."""
    return [(int(re.search(r"\d+$", span["version"])[0]), span["start"], span["end"])
            for span in choice["weight_versions"]]


class Reading(harness.Background):
    """Reads a stream to its end; `events` are those so far."""

    def __init__(self, client, path, body, headers=None):
        self.stream = client.stream(path, body, headers)
        self.events = []
        super().__init__(lambda: self.events.extend(self.stream))

    def result(self):
        super().result()
        broken = [event for event in self.events if "choices" not in event]
        assert not broken, broken

    def choices(self):
        return [event["choices"][0] for event in self.events if event["choices"]]

    def token_count(self):
        return sum(len(choice.get("token_ids") or ()) for choice in self.choices())


class SwitchTest(island.IslandTest):

    def begin_streams(self, tokens=LONG["max_tokens"]):
        """One of each streaming route, all of them under way."""
        body = {**LONG, "max_tokens": tokens, "return_token_ids": True}
        readings = [Reading(self.sidecar, path, body) for path, body in (
            ("/v1/completions", {**body, "prompt": [1, 2, 3]}),
            ("/v1/chat/completions", {**body, **CHAT}),
            ("/inference/v1/generate", generate(max_tokens=tokens)))]
        harness.wait_until(lambda: all(len(r.events) > BEGUN for r in readings), "streams begun")
        return readings

    def switch_during(self, begin):
        """(what begin() began, version before, version after) of a switch that all of it crossed.

        A busy machine may be late with a switch; then the next pair of versions is tried.
        """
        crossing = []
        for before in range(1, TRIES + 1):
            after = before + 1
            self.publish(after)
            begun = begin()
            self.switch_to(after)
            crossing.append(self.sidecar.get("/server_info")[1]["in_flight"])
            if crossing[-1] == len(begun):
                return begun, before, after
            for request in begun:
                request.result()
        self.fail(f"of {len(begun)} requests so many did not end before a switch: {crossing}")

    # What the engine says after a switch

    def test_after_every_switch_it_says_to_the_last_bit_what_a_fresh_engine_says(self):
        self.assert_serves(1)
        for version in island.VERSIONS[1:]:
            self.release(version)
            self.assert_serves(version)

    def test_a_pin_brings_an_older_version_back_and_its_end_the_newest(self):
        self.release(2)
        self.release(3)
        self.restart("--pin", 1)
        self.wait_for_version(1)
        self.assert_serves(1)
        self.restart()
        self.wait_for_version(3)
        self.assert_serves(3)

    def test_a_sidecar_that_starts_late_goes_straight_to_the_newest(self):
        self.assertEqual(self.process.stop(), 0, self.process.tail())
        self.publish(2)
        self.publish(3)
        self.start()
        self.wait_for_version(3)
        self.assert_serves(3)

    def test_versions_are_found_without_being_told(self):
        self.options = ("--poll-ms", 50)
        self.restart()
        self.publish(2)
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_the_last_update_says_how_long_each_part_took(self):
        self.release(2)
        info = self.sidecar.get("/server_info")[1]
        self.assertEqual((info["state"], info["target"], info["lag"], info["run"]),
                         ("ready", 2, 0, self.run_of_weights.name))
        update = info["last_update"]
        self.assertEqual((update["from"], update["to"]), (1, 2))
        for part in ("fetch_ms", "apply_ms", "drain_ms", "pause_ms", "load_ms", "flush_ms",
                     "verify_ms", "resume_ms", "paused_ms"):
            self.assertGreaterEqual(update[part], 0, part)
        self.assertGreaterEqual(update["paused_ms"], update["load_ms"])

    # Requests in flight

    def test_streams_cross_a_switch_and_lose_no_token(self):
        readings, before, after = self.switch_during(self.begin_streams)
        for reading in readings:
            reading.result()
            self.assertEqual(reading.token_count(), LONG["max_tokens"])
            self.assertEqual(reading.choices()[-1]["finish_reason"], "length")
            self.assertEqual(reading.stream.headers["Isthmus-Version-Start"], str(before))
            last = reading.events[-1]
            self.assertEqual((last["weight_version_start"], last["weight_version_end"]),
                             (before, after))
        self.assert_spans(spans_of(readings[-1].choices()[-1]), before, after)
        self.assert_serves(after)

    def begin_whole_answers(self):
        """Two whose answers come in one piece, and streams, so that there is something to see."""
        streams = self.begin_streams()
        whole = [harness.Background(self.sidecar.post, path, body) for path, body in (
            ("/v1/completions", {**LONG, "prompt": [4, 5], "return_token_ids": True}),
            ("/inference/v1/generate", generate(logprobs=1)))]
        seen = len(streams[0].events)
        harness.wait_until(lambda: len(streams[0].events) > seen + 2 * BEGUN, "all are in flight")
        return whole + streams

    def test_answers_in_one_piece_cross_a_switch_too(self):
        requests, before, after = self.switch_during(self.begin_whole_answers)
        answers = [request.result() for request in requests][:2]
        for status, answer in answers:
            self.assertEqual(status, 200, answer)
            self.assertEqual(len(answer["choices"][0]["token_ids"]), LONG["max_tokens"])
            self.assertEqual(answer["usage"]["completion_tokens"], LONG["max_tokens"])
            self.assertEqual((answer["weight_version_start"], answer["weight_version_end"]),
                             (before, after))
        self.assert_spans(spans_of(answers[1][1]["choices"][0]), before, after)

    def assert_spans(self, spans, before, after):
        """Of the version before, then of the one after, without a gap."""
        self.assertEqual([version for version, _, _ in spans], [before, after], spans)
        cut = spans[0][2]
        self.assertTrue(0 < cut < LONG["max_tokens"], spans)
        self.assertEqual([(start, end) for _, start, end in spans],
                         [(0, cut), (cut, LONG["max_tokens"])])

    def test_a_request_for_the_old_version_ends_before_the_switch(self):
        self.publish(2)
        reading = Reading(self.sidecar, "/inference/v1/generate",
                          generate(max_tokens=ENDING_FIRST),
                          headers={"Isthmus-Exact-Version": "1"})
        harness.wait_until(lambda: len(reading.events) > BEGUN, "stream begun")
        self.switch_to(2)
        reading.result()
        self.assertEqual(spans_of(reading.choices()[-1]), [(1, 0, ENDING_FIRST)])
        self.assertEqual(reading.events[-1]["weight_version_end"], 1)

    def test_draining_lets_all_requests_end_at_the_old_version(self):
        self.restart("--policy", "drain")
        self.wait_for_version(1)
        self.publish(2)
        readings = self.begin_streams(ENDING_FIRST)
        self.switch_to(2)
        for reading in readings:
            reading.result()
            self.assertEqual(reading.token_count(), ENDING_FIRST)
            self.assertEqual(reading.events[-1]["weight_version_end"], 1)


if __name__ == "__main__":
    unittest.main()
