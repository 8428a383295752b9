#!/usr/bin/env python3
"""Islands that lie, break and flap: clients get right answers from the others, or are cut off."""

import os
import threading
import unittest

import fleet
from doubles import DoublesTest
from fleet import harness, island
from sidecar_double import HEAD, STREAM_HEAD, chunk, completion, info

TRIES = 200  # of two islands each gets one request of two


class LiarsTest(DoublesTest):
    """One island lies, another one does not: nobody sees the lie, and the liar is found out."""

    def assert_found_out(self, generation, why, headers=None, **more):
        honest = self.add("honest", lambda call: self.honest(call))
        liar = self.add("liar", generation, info(self.version))
        honest.info = info(self.version)
        self.start()
        for _ in range(TRIES):
            status, fields, body = self.ask(headers, **more)
            self.assertEqual((status, fields["Isthmus-Island"]), (200, "honest"), body)
            if liar.calls:
                break
        self.assertEqual(len(liar.calls), 1)
        facts = self.wait_for_state("liar", "suspect")
        self.assertIn("promise", facts["reason"])
        self.assertIn(why, self.wait_for_event("promise_broken")["error"])
        self.assertEqual(len(self.events("promise_broken")), 1)
        self.wait_at_rest()

    version = 5

    def honest(self, call):
        if b'"stream": true' not in call.body:
            return call.answer(completion(5), start=5, end=5)
        call.begin_stream(5)
        call.event(chunk(5, "stop"))
        call.event("[DONE]")
        return call.end_stream()

    def test_a_start_below_the_minimum(self):
        self.assert_found_out(lambda call: call.answer(completion(4, 5), start=4, end=5),
                              "version 4", {"Isthmus-Min-Version": "5"})

    def test_a_start_below_the_minimum_of_a_body(self):
        self.assert_found_out(lambda call: call.answer(completion(4, 5), start=4, end=5),
                              "version 4", weight_version={"min_version": 5})

    def test_another_version_than_the_exact_one(self):
        self.assert_found_out(lambda call: call.answer(completion(5, 6), start=5, end=6),
                              "version 6", {"Isthmus-Exact-Version": "5"})

    def test_another_run(self):
        head = HEAD.replace("Isthmus-Run: run", "Isthmus-Run: other")
        self.assert_found_out(lambda call: call.answer(completion(5), head, 5, 5), "other")

    def test_no_stamp(self):
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nIsthmus-Run: run\r\n"
        self.assert_found_out(lambda call: call.answer(completion(5), head), "no version")

    def test_no_run(self):
        head = HEAD.replace("Isthmus-Run: run\r\n", "")
        self.assert_found_out(lambda call: call.answer(completion(5), head, 5, 5), "run")

    def test_a_stamp_that_is_no_version(self):
        self.assert_found_out(lambda call: call.answer(completion(5), start="5x", end=5), "5x")

    def test_a_stream_that_begins_below(self):
        def begin(call):
            call.begin_stream(4)
            call.event(chunk(4, "stop"))
            return call.end_stream()
        self.assert_found_out(begin, "version 4", {"Isthmus-Min-Version": "5"}, stream=True)


    def test_a_stream_whose_first_event_is_of_another_version(self):
        def begin(call):
            call.begin_stream(5)
            call.event(chunk(6, "stop"))
            call.event("[DONE]")
            return call.end_stream()
        self.assert_found_out(begin, "version 6", {"Isthmus-Exact-Version": "5"}, stream=True)


class LateLieTest(DoublesTest):
    def test_a_stream_that_comes_to_another_version_is_cut_off(self):
        seen = threading.Event()

        def lie(call):
            call.begin_stream(5)
            call.event(chunk(5))
            seen.wait(harness.DEADLINE_S)
            call.event(chunk(6))
            call.event(chunk(6, "stop"))
            call.event("[DONE]")
            return call.end_stream()
        self.add("liar", lie, info(5))
        self.start()
        stream = self.gateway.stream("/v1/completions", island.COMPLETION,
                                     {"Isthmus-Exact-Version": "5"})
        self.assertEqual(next(stream)["weight_version_end"], 5)
        seen.set()
        with harness.contextlib.suppress(OSError, harness.http.client.HTTPException):
            self.assertEqual(list(stream), [])
        self.assertTrue(stream.cut_off)
        self.wait_for_state("liar", "suspect")
        self.assertIn("version 6", self.wait_for_event("promise_broken")["error"])
        self.wait_at_rest()


class RollbackTest(fleet.FleetTest):
    """Who goes back because a version was revoked is no liar."""

    count = 1

    def test_an_answer_may_end_below_its_beginning(self):
        self.publish()
        self.wait_for_version(2)
        engine = self.islands[0].engine
        engine.manual()
        asked = harness.Background(self.gateway.post, "/v1/completions",
                                   {**island.COMPLETION, "max_tokens": 100_000})
        harness.wait_until(engine.step, "a token of version 2")
        self.revoke(2)

        def goes_back():
            engine.step()  # for the canary
            return self.islands[0].info()["applied"] == 1
        harness.wait_until(goes_back, "it goes back")
        while engine.step(1000):
            pass
        engine.manual(False)
        status, answer = asked.result()
        self.assertEqual((status, island.versions(answer)), (200, (2, 1)), answer)
        self.wait_for_version(1)
        self.assertEqual(self.ask()[0], 200)


def head_only(call):
    call.send(STREAM_HEAD.format(start=1))
    call.reset()


def half_a_head(call):
    call.send("HTTP/1.1 200 OK\r\nContent-Ty")


def half_a_body(call):
    call.send(HEAD.format(start=1, end=1) + "Content-Length: 1000\r\n\r\n{\"half\":")


def garbage(call):
    call.send(os.urandom(20_000))


def endless_head(call):
    call.send(HEAD.format(start=1, end=1))
    line = b"X-More: " + b"x" * 8000 + b"\r\n"
    for _ in range((1 << 30) // len(line)):
        call.send(line)  # ends with an error: nobody reads that


def chunked_garbage(call):
    call.send(HEAD.format(start=1, end=1) + "Transfer-Encoding: chunked\r\n\r\n")
    call.send("5\r\nhello\r\nzz\r\n")


def huge_chunk(call):
    call.send(HEAD.format(start=1, end=1) + "Transfer-Encoding: chunked\r\n\r\n")
    call.send("fffffffffffffffff\r\nx")


def two_lengths(call):
    call.send(HEAD.format(start=1, end=1) + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x")


def reset_at_once(call):
    call.reset()


def server_error(call):
    data = b"broken"
    call.send(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\n" + data)
    return True


def half_an_event(call):
    call.send(STREAM_HEAD.format(start=1))
    call.reset()


class BrokenIslandsTest(DoublesTest):
    """Nothing was sent to the client: another island answers, and none of many requests fails."""

    FAULTS = (head_only, half_a_head, half_a_body, garbage, endless_head, chunked_garbage, huge_chunk,
              two_lengths, reset_at_once, server_error, half_an_event)

    def test_another_island_answers(self):
        broken = self.add("broken")
        self.add("whole", self.answer)
        self.start()
        for fault in self.FAULTS:
            with self.subTest(fault.__name__):
                harness.wait_until(lambda: self.facts("broken")["breaker"] == "closed",
                                   "the breaker is closed")
                broken.calls, broken.generation = [], fault
                for number in range(TRIES):
                    stream = number % 2 == 0
                    status, fields, body = self.ask(stream=stream)
                    self.assertEqual((status, fields["Isthmus-Island"]), (200, "whole"), body)
                    if broken.calls:
                        break
                self.assertTrue(broken.calls)
                self.wait_at_rest()
                broken.generation = self.answer
                for _ in range(TRIES):  # one that is served closes the breaker
                    if self.ask()[1]["Isthmus-Island"] == "broken":
                        break
        self.assertEqual(self.events("promise_broken"), [])

    def answer(self, call):
        if b'"stream": true' in call.body:
            call.begin_stream()
            call.event(chunk(1, "stop"))
            call.event("[DONE]")
            return call.end_stream()
        return call.answer(completion())

    def test_more_than_was_promised_is_not_passed_on(self):
        self.add("more", lambda call: call.send(
            HEAD.format(start=1, end=1) + "Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n"))
        self.start()
        for _ in range(5):
            self.assertEqual(self.ask()[::2], (200, b"{}"))

    def test_death_in_mid_stream_cuts_the_answer_off(self):
        def die(call):
            call.begin_stream()
            call.event(chunk())
            call.reset()
        self.add("dies", die)
        self.start()
        stream = self.gateway.stream("/v1/completions", island.COMPLETION)
        events = []
        with harness.contextlib.suppress(OSError, harness.http.client.HTTPException):
            events.extend(stream)
        self.assertTrue(stream.cut_off)
        self.assertLessEqual(len(events), 1)
        self.wait_at_rest()
        self.assertEqual(self.metric('isthmus_gateway_requests_total{outcome="failed"}'), 1)

    def test_garbage_in_mid_stream_cuts_the_answer_off(self):
        seen = threading.Event()

        def spoil(call):
            call.begin_stream()
            call.event(chunk())
            seen.wait(harness.DEADLINE_S)
            call.send("zz\r\ngarbage\r\n")
            call.wait_for_end()
        self.add("spoils", spoil)
        self.start()
        stream = self.gateway.stream("/v1/completions", island.COMPLETION)
        next(stream)
        seen.set()
        with harness.contextlib.suppress(OSError, harness.http.client.HTTPException):
            list(stream)
        self.assertTrue(stream.cut_off)
        self.wait_at_rest()

    def test_one_that_never_answers_is_left_at_the_deadline(self):
        silent = self.add("silent", lambda call: call.wait_for_end())
        self.start()
        status, fields, body = self.ask({"Isthmus-Deadline-Ms": "200"})
        self.assertEqual(status, 504, body)
        self.assertTrue(fields["Isthmus-Request-Id"])
        self.assertEqual(silent.calls[0].headers["isthmus-deadline-ms"].isdecimal(), True)
        self.wait_at_rest()
        self.assertEqual(self.facts("silent")["failures"], 0)

    def test_one_that_falls_silent_in_mid_stream_is_left_at_the_deadline(self):
        def stop(call):
            call.begin_stream()
            call.event(chunk())
            call.wait_for_end()
        self.add("stops", stop)
        self.start()
        stream = self.gateway.stream("/v1/completions", island.COMPLETION,
                                     {"Isthmus-Deadline-Ms": "500"})
        events = []
        with harness.contextlib.suppress(OSError, harness.http.client.HTTPException):
            events.extend(stream)
        self.assertTrue(stream.cut_off)
        self.assertEqual(len(events), 1)
        self.wait_at_rest()

    def test_refusals_without_end_are_passed_on(self):
        refusal = ('HTTP/1.1 {}\r\nRetry-After: 1\r\nContent-Type: application/json\r\n'
                   'Content-Length: 2\r\n\r\n{{}}')

        def refuse(call):
            call.send(refusal.format("503 Service Unavailable" if len(call.body) % 2 else
                                     "409 Conflict"))
            return True
        for name in ("a", "b", "c"):
            self.add(name, refuse)
        self.start()
        answers = [harness.Background(
            lambda number=number: self.ask(prompt="x" * number)) for number in range(60)]
        for answer in answers:
            status, fields, _ = answer.result()
            self.assertIn(status, (409, 503))
            self.assertEqual(fields["Retry-After"], "1")
        self.wait_at_rest()
        self.assertTrue(all(self.facts(name)["failures"] == 0 for name in self.islands))


class HedgeTest(DoublesTest):
    """With --hedge-ms, while reports of islands change what was known."""

    def test_requests_that_were_refused_before(self):
        """What was tried is forgotten when islands report, also while a second one is looked for."""
        self.holds, goes_on = threading.Event(), threading.Event()
        held = []

        def generate(call):
            if not self.holds.is_set():
                call.send("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                          "Content-Length: 2\r\n\r\n{}")
                return True
            if goes_on.is_set():
                return call.answer(completion())
            held.append(call.headers["isthmus-request-id"])
            goes_on.wait(harness.DEADLINE_S)
            call.reset()
            return False
        for name in ("a", "b", "c"):
            self.add(name, generate)
        self.start("--hedge-ms", 50, "--attempts", 100)
        asked = [harness.Background(self.ask, {"Isthmus-Wait-Ms": "60000"}) for _ in range(8)]
        harness.wait_until(lambda: sum(len(one.calls) for one in self.islands.values()) >= 24,
                           "all have refused all")
        self.holds.set()
        version = 1

        def all_are_held_twice():
            nonlocal version
            version += 1
            for one in self.islands.values():
                one.info = info(version)
            return len(held) >= 2 * len(asked)
        harness.wait_until(all_are_held_twice, "each is held by two islands")
        self.assertTrue(all(held.count(request_id) == 2 for request_id in held), held)
        goes_on.set()
        for one in asked:
            self.assertEqual(one.result()[0], 200)
        self.wait_at_rest()
        self.assertIsNone(self.process.process.poll())


if __name__ == "__main__":
    unittest.main()
