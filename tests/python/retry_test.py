#!/usr/bin/env python3
"""RolloutClient's rules: what is tried again, when, for how long, and what is said in the end."""

import asyncio
import random
import socket
import unittest

import scripted_server
from scripted_server import answer, cut, passing, stream

from isthmus import errors
from isthmus._retry import FIRST_PAUSE_S, LONGEST_PAUSE_S, Patience
from isthmus.rollouts import RolloutClient

GOOD = {"choices": [{"index": 0, "text": "a b", "token_ids": [7, 8], "finish_reason": "stop",
                     "logprobs": {"token_logprobs": [-0.5, -1.5]}}],
        "weight_version_start": 3, "weight_version_end": 3}
GOOD_HEADERS = {"Isthmus_Run": "r", "Isthmus_Version_Start": "3", "Isthmus_Version_End": "3"}
OK = answer(200, GOOD, **GOOD_HEADERS)
NOT_READY = {"type": "WeightVersionNotReady", "target_version": 9, "applied": 3,
             "message": "the island serves 3"}
BUSY = {"error": {"type": "EngineUnavailable", "retryable": True, "message": "engines are away"}}
WAIT = {"run": "r", "version": 5, "islands": 4, "serving": 1, "fraction": 0.25, "ready": False}
EVENTS = [{"choices": [{"index": 0, "text": text, "token_ids": [token], "finish_reason": finish}],
           "weight_version_start": 3, "weight_version_end": 3}
          for text, token, finish in (("a ", 7, None), ("b", 8, "stop"))]


class RetryTest(unittest.IsolatedAsyncioTestCase):

    async def asyncSetUp(self):
        self.clock = scripted_server.FakeClock()
        asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no news

    async def run_script(self, steps, call=None, forever=None, **options):
        """(what the call returned or raised, the server)"""
        call = call or (lambda client: client.complete("x"))
        async with scripted_server.ScriptedServer(*steps, forever=forever) as server:
            async with RolloutClient(server.url, _clock=self.clock, **options) as client:
                try:
                    return await asyncio.wait_for(call(client), 60), server
                except errors.Error as error:
                    return error, server

    async def test_the_servers_retry_after_is_kept_to_and_stretched_by_a_quarter_at_most(self):
        refusals = [answer(409, NOT_READY, Retry_After="2"), answer(503, BUSY, Retry_After="4"),
                    answer(429, BUSY, Retry_After="1")]
        rollout, _ = await self.run_script([*refusals, OK])
        self.assertEqual(rollout.tokens, [7, 8])
        self.assertEqual(len(self.clock.pauses), 3)
        for pause, asked in zip(self.clock.pauses, (2, 4, 1)):
            self.assertTrue(asked <= pause <= asked * 1.25, self.clock.pauses)

    async def test_a_date_is_understood_and_nonsense_is_not(self):
        date = "Tue, 14 Nov 2023 22:13:25 GMT"  # five seconds after the clock's beginning
        await self.run_script([answer(503, BUSY, Retry_After=date),
                               answer(503, BUSY, Retry_After="soon"),
                               answer(503, BUSY, Retry_After="-3"),
                               answer(503, BUSY, Retry_After="0"), OK])
        self.assertTrue(5 <= self.clock.pauses[0] <= 6.25, self.clock.pauses)
        for place, pause in enumerate(self.clock.pauses[1:], 1):
            most = FIRST_PAUSE_S * 2 ** place
            self.assertTrue(most / 2 <= pause <= most, self.clock.pauses)

    async def test_pauses_grow_up_to_their_longest_until_patience_is_over(self):
        error, server = await self.run_script([], forever=answer(503, BUSY), patience_s=60)
        self.assertIsInstance(error, errors.UnavailableError)
        self.assertIn("engines are away", str(error))
        self.assertIn(f"attempts: {len(server.requests)}", str(error))
        self.assertAlmostEqual(sum(self.clock.pauses), 60)
        self.assertLessEqual(max(self.clock.pauses), LONGEST_PAUSE_S)

    def test_growth(self):
        for seed in range(20):
            clock = scripted_server.FakeClock()
            patience = Patience(1e9, clock, random.Random(seed).uniform)
            for place in range(30):
                self.assertTrue(asyncio.run(patience.pause()))
                most = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** place)
                self.assertTrue(most / 2 <= clock.pauses[-1] <= most, (seed, clock.pauses))
            self.assertGreater(len(set(clock.pauses)), 20)  # not in step with others

    async def test_a_retry_after_beyond_patience_ends_the_call_at_once(self):
        error, _ = await self.run_script([answer(409, NOT_READY, Retry_After="61")], patience_s=60)
        self.assertIsInstance(error, errors.NotReadyError)
        self.assertEqual(self.clock.pauses, [])

    async def test_no_patience_is_one_attempt(self):
        for status, kind in ((409, errors.NotReadyError), (503, errors.UnavailableError),
                             (429, errors.UnavailableError)):
            error, server = await self.run_script([answer(status, BUSY)], patience_s=0)
            self.assertIsInstance(error, kind)
            self.assertEqual(len(server.requests), 1)

    async def test_what_cannot_become_better_is_not_tried_again(self):
        for status, kind in ((400, errors.InvalidError), (401, errors.InvalidError),
                             (403, errors.InvalidError), (404, errors.NotFoundError),
                             (410, errors.NotFoundError), (413, errors.InvalidError),
                             (500, errors.UnavailableError), (502, errors.UnavailableError),
                             (504, errors.NotReadyError)):
            error, server = await self.run_script(
                [answer(status, {"error": {"message": "so it is"}})])
            self.assertIs(type(error), kind, status)
            self.assertIn("so it is", str(error))
            self.assertIn(server.url, str(error))
            self.assertEqual(self.clock.pauses, [], status)

    async def test_a_broken_connection_is_tried_again(self):
        rollout, server = await self.run_script([
            cut(), cut(b"HTTP/1.1 20"), cut(OK[:-10]), OK])
        self.assertEqual(rollout.text, "a b")
        self.assertEqual(len(self.clock.pauses), 3)
        self.assertEqual(len({one.headers["isthmus-request-id"] for one in server.requests}), 1)

    async def test_nobody_listens(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
            async with RolloutClient(url, patience_s=3, _clock=self.clock) as client:
                with self.assertRaises(errors.UnavailableError) as caught:
                    await client.complete("x")
        self.assertIn(url, str(caught.exception))
        self.assertAlmostEqual(sum(self.clock.pauses), 3)

    async def test_each_attempt_says_what_is_left(self):
        _, server = await self.run_script(
            [answer(503, BUSY, Retry_After="4"), answer(503, BUSY, Retry_After="4"), OK],
            lambda client: client.complete("x", deadline_s=30, min_version=2), patience_s=20)
        spent = [0, self.clock.pauses[0], sum(self.clock.pauses)]
        for request, seconds in zip(server.requests, spent):
            for name, whole in (("isthmus-wait-ms", 20), ("isthmus-deadline-ms", 30)):
                self.assertEqual(request.headers[name], str(round((whole - seconds) * 1000)))

    async def test_a_deadline_is_of_all_attempts_together(self):
        error, _ = await self.run_script(
            [passing(self.clock, 2, answer(503, BUSY, Retry_After="2"))],
            lambda client: client.complete("x", deadline_s=3))
        self.assertIsInstance(error, errors.NotReadyError)
        self.assertIn("deadline", str(error))

    async def test_an_answer_that_is_not_what_was_asked_for_is_refused(self):
        plain = {key: value for key, value in GOOD.items() if not key.startswith("weight")}
        for options, reply in (({"min_version": 4}, OK), ({"exact_version": 2}, OK),
                               ({"run": "other"}, OK), ({"min_version": 1}, answer(200, plain)),
                               ({}, answer(200, {"what": 1})), ({}, answer(200, [])),
                               ({}, answer(200, {"choices": [{"index": 0, "token_ids": 5}]})),
                               ({}, answer(200, {"choices": []}))):
            error, server = await self.run_script(
                [reply], lambda client, options=options: client.complete("x", **options))
            self.assertIs(type(error), errors.CorruptError, options)
            self.assertEqual(len(server.requests), 1)

    async def test_wrong_constraints_are_refused_by_name_before_anything_is_sent(self):
        for options in ({"min_version": -1}, {"exact_version": True}, {"min_version": 1.5},
                        {"min_version": "3"}, {"max_lag": -1}, {"deadline_s": -1}, {"deadline_s": 0},
                        {"wait_s": float("nan")}):
            error, _ = await self.run_script(
                [], lambda client, options=options: client.complete("x", **options))
            self.assertIs(type(error), errors.InvalidError, options)
            self.assertTrue(any(name in str(error) for name in options), error)
        for options in ({"session": "a\r\nIsthmus-Run: b"}, {"session": "\u00fc"}, {"session": 7}):
            error, _ = await self.run_script(
                [], lambda client, options=options: client.complete("x", **options))
            self.assertIs(type(error), errors.InvalidError, options)
            self.assertIn("Isthmus-Session", str(error))

    # Streams

    async def read(self, client, pieces, **options):
        stream_of = client.stream("x", **options)
        async with stream_of:
            async for piece in stream_of:
                pieces.append(piece)
        return stream_of.rollout()

    async def test_a_stream_is_tried_again_until_its_first_event(self):
        pieces = []
        rollout, server = await self.run_script(
            [answer(409, NOT_READY, Retry_After="1"), cut(), cut(stream([], end=b"")),
             cut(stream([{"error": {"message": "engine died"}}])), stream([*EVENTS, "[DONE]"])],
            lambda client: self.read(client, pieces))
        self.assertEqual([piece.text for piece in pieces], ["a ", "b"])
        self.assertEqual((rollout.text, rollout.tokens, rollout.spans), ("a b", [7, 8], [(3, 0, 2)]))
        self.assertEqual(len(server.requests), 5)

    async def test_a_stream_that_was_cut_off_is_not_begun_anew(self):
        for last in (cut(stream(EVENTS[:1], end=b"")), stream(EVENTS[:1]),
                     stream([EVENTS[0], {"error": {"message": "engine died"}}, "[DONE]"])):
            pieces = []
            error, server = await self.run_script(
                [last], lambda client, pieces=pieces: self.read(client, pieces))
            self.assertIs(type(error), errors.UnavailableError)
            self.assertIn("cut off after 1 event", str(error))
            self.assertEqual(([piece.text for piece in pieces], len(server.requests)), (["a "], 1))

    async def test_a_stream_that_is_not_over_has_no_rollout(self):
        async def leave(client):
            async with client.stream("x") as stream_of:
                async for _ in stream_of:
                    break
                stream_of.rollout()
        error, _ = await self.run_script([stream(EVENTS, end=b"")], leave)
        self.assertIs(type(error), errors.InvalidError)

    # Records

    async def test_a_record_that_is_not_whole_is_no_rollout(self):
        record = {"id": "q", "version_start": 3, "version_end": 3, "answer": GOOD}
        found, server = await self.run_script([answer(200, record)],
                                              lambda client: client.rollout("a/b"))
        self.assertEqual((found.tokens, found.request_id, found.spans), ([7, 8], "q", [(3, 0, 2)]))
        self.assertEqual(server.requests[0].target, "/v1/rollouts/a%2Fb")
        for partial in ({**record, "cut": True}, {"id": "q"}):
            error, _ = await self.run_script([answer(200, partial)],
                                             lambda client: client.rollout("q"))
            self.assertIs(type(error), errors.CorruptError)

    # Waiting for a version

    async def test_ready_asks_until_it_is_so(self):
        done = {**WAIT, "serving": 4, "fraction": 1.0, "ready": True}
        ready, server = await self.run_script(
            [passing(self.clock, 60, answer(202, WAIT)), answer(503, BUSY, Retry_After="1"), cut(),
             passing(self.clock, 60, answer(202, WAIT)), answer(200, done)],
            lambda client: client.ready(5, fraction=0.5), run="r")
        self.assertEqual((ready.serving, ready.islands, ready.fraction), (4, 4, 1.0))
        self.assertEqual(server.requests[0].target,
                         "/v1/runs/r/ready?version=5&fraction=0.5&timeout_ms=60000")

    async def test_ready_ends_with_its_time(self):
        error, server = await self.run_script(
            [passing(self.clock, 60, answer(202, WAIT)), passing(self.clock, 30, answer(202, WAIT))],
            lambda client: client.ready(5, timeout_s=90), run="r")
        self.assertIs(type(error), errors.NotReadyError)
        self.assertIn("1 of 4 islands", str(error))
        self.assertTrue(server.requests[1].target.endswith("timeout_ms=30000"))

    async def test_ready_does_not_spin_where_a_proxy_cuts_it_short(self):
        error, _ = await self.run_script([], lambda client: client.ready(5, timeout_s=20),
                                         forever=answer(202, WAIT), run="r")
        self.assertIs(type(error), errors.NotReadyError)
        self.assertAlmostEqual(sum(self.clock.pauses), 20)

    async def test_which_run(self):
        error, _ = await self.run_script([], lambda client: client.ready(5))
        self.assertIs(type(error), errors.InvalidError)


if __name__ == "__main__":
    unittest.main()
