#!/usr/bin/env python3
"""What RolloutClient asks of a fleet, and what it makes of the answers."""

import asyncio
import datetime
import unittest

from clients import PROMPT, ClientTest, doubles, harness, read

import isthmus
from isthmus import errors
from isthmus.rollouts import RolloutClient


class VllmTest(ClientTest):
    count = 2
    engine_options = ("--enable-scale-out",)

    def test_what_each_route_answers(self):
        async def all_of(client):
            return [await client.complete(PROMPT, max_tokens=5),
                    await client.complete([1, 2, 3], max_tokens=5),
                    await client.chat([{"role": "user", "content": PROMPT}], max_tokens=5),
                    await client.generate([1, 2, 3], sampling_params={"max_tokens": 5})]
        for rollout in self.client(all_of):
            self.assert_says_the_truth(rollout, rollout.raw["choices"])
            self.assertEqual((rollout.start_version, rollout.end_version), (1, 1))
            self.assertEqual(rollout.spans, [(1, 0, 5)])
            self.assertTrue(rollout.choices[0].exact)
            self.assertEqual(rollout.finish_reason, "length")
            self.assertEqual(rollout.run, self.run_of_weights.name)
            self.assertIn(rollout.island, [one.name for one in self.islands])
            self.assertEqual((rollout.lag_start, rollout.lag_end), (0, 0))
            self.assertEqual(len(rollout.request_id), 32)

    def test_what_each_route_streams(self):
        async def all_of(client):
            found = []
            for kind, prompt, options in (
                    ("complete", PROMPT, {"max_tokens": 5}),
                    ("chat", [{"role": "user", "content": PROMPT}], {"max_tokens": 5}),
                    ("generate", [1, 2], {"sampling_params": {"max_tokens": 5}})):
                pieces = []
                rollout = await read(client.stream(prompt, kind=kind, **options), pieces)
                found.append((rollout, pieces))
            return found
        for rollout, pieces in self.client(all_of):
            self.assert_says_the_truth(rollout, [
                choice for event in rollout.raw for choice in event["choices"]])
            self.assertEqual([token for piece in pieces for token in piece.tokens or ()],
                             rollout.tokens)
            self.assertEqual("".join(piece.text for piece in pieces), rollout.text)
            self.assertEqual((pieces[-1].finish_reason, pieces[-1].version), ("length", 1))

    def test_constraints_reach_the_islands(self):
        self.publish()
        self.wait_for_version(2)
        newest = isthmus.Board(str(self.board)).head(self.run_of_weights.name)

        async def all_of(client):
            return [await client.complete(PROMPT, **options) for options in (
                {"min_version": 2}, {"exact_version": 2}, {"exact_version": newest}, {"max_lag": 0}, {"max_lag": "1000s"},
                {"max_lag": datetime.timedelta(days=1)}, {"run": self.run_of_weights.name},
                {"session": "s", "pin": True}, {"priority": "evaluation"}, {"deadline_s": 50},
                {"extra_body": {"weight_version": {"exact_version": 2}}})]
        for rollout in self.client(all_of):
            self.assertEqual((rollout.start_version, rollout.end_version), (2, 2))

        for options in ({"exact_version": 1}, {"min_version": 3}, {"run": "other"},
                        {"exact_version": 2, "min_version": 1, "session": "s",
                         "extra_body": {"weight_version": {"min_version": 3}}}):
            wanted = errors.InvalidError if "extra_body" in options else errors.NotReadyError
            if "run" in options:
                wanted = errors.UnavailableError
            self.refused(wanted, lambda client, options=options: client.complete(
                PROMPT, patience_s=0, **options))
        for options in ({"max_lag": "many"}, {"priority": "urgent"}, {"session": "a b"},
                        {"request_id": "/"}, {"exact_version": 1, "min_version": 2}):
            self.assertIn("400", self.refused(
                errors.InvalidError, lambda client, options=options: client.complete(PROMPT, **options)))

    def test_sessions_stay_at_their_island(self):
        async def turns(client):
            return {(await client.complete(PROMPT, session="episode-7")).island for _ in range(8)}
        self.assertEqual(len(self.client(turns)), 1)

    def test_a_version_that_comes_is_waited_for_by_requests_and_by_ready(self):
        async def wait(client):
            asked = asyncio.gather(client.complete(PROMPT, min_version=2),
                                   client.ready(2, fraction=1, timeout_s=harness.DEADLINE_S))
            await asyncio.to_thread(self.publish)
            return await asked
        rollout, ready = self.client(wait, run=self.run_of_weights.name)
        self.assertEqual(rollout.start_version, 2)
        self.assertEqual((ready.islands, ready.serving, ready.fraction), (2, 2, 1.0))

    def test_ready_says_how_far_the_fleet_is(self):
        said = self.refused(errors.NotReadyError, lambda client: client.ready(
            2, run=self.run_of_weights.name, timeout_s=0.2))
        self.assertIn("0 of 2 islands", said)
        ready = self.client(lambda client: client.ready(1, run=self.run_of_weights.name))
        self.assertEqual((ready.run, ready.version), (self.run_of_weights.name, 1))

    def test_the_fleet(self):
        for brief in (False, True):
            facts = self.client(lambda client, brief=brief: client.fleet(brief=brief))
            self.assertEqual({one["id"] for one in facts["islands"]},
                             {one.name for one in self.islands})
            self.assertEqual("stage_ms" in facts["islands"][0]["last_update"], True)
            self.assertEqual("load_ms" in facts["islands"][0]["last_update"], not brief)

    def test_a_gateway_that_restarts_costs_time_and_nothing_else(self):
        self.process.kill()
        port = self.process.port

        async def ask(client):
            asked = asyncio.create_task(client.complete(PROMPT))
            await asyncio.to_thread(self.start_gateway, port=port)
            return await asked
        self.assertEqual(self.client(ask).spans, [(1, 0, 16)])

    def test_a_cancelled_call_and_a_closed_stream_end_their_generations(self):
        for one in self.islands:
            one.engine.manual()

        async def leave(client):
            asked = asyncio.create_task(client.complete(PROMPT, max_tokens=16))
            stream = client.stream(PROMPT, max_tokens=16)
            first = asyncio.create_task(anext(aiter(stream)))
            await asyncio.to_thread(self.wait_until_in_flight, 2)
            for one in self.islands:
                await asyncio.to_thread(one.engine.step)
            await first
            await stream.close()
            asked.cancel()
            await asyncio.to_thread(self.wait_until_in_flight, 0)
            return asked.cancelled()
        self.assertTrue(self.client(leave))

    def wait_until_in_flight(self, count):
        harness.wait_until(lambda: sum(one.info()["in_flight"] for one in self.islands) == count,
                           f"{count} requests are in flight")


class IncrementalTest(ClientTest):
    """Events of SGLang that have only what is new."""

    count = 1
    kind, engine_options = "sglang", ("--incremental-streaming-output",)

    def test_a_native_stream_is_put_together(self):
        pieces = []
        rollout = self.client(lambda client: read(client.stream(
            PROMPT, kind="generate", sampling_params={"max_new_tokens": 6}), pieces),
            engine="sglang")
        self.assert_says_the_truth(rollout, rollout.raw)
        self.assertEqual("".join(piece.text for piece in pieces), rollout.text)
        self.assertEqual(len(rollout.tokens), 6)


class RecordedTest(ClientTest):
    count = 1
    engine_options = ("--enable-scale-out",)

    def start_gateway(self, *options, port=0):
        super().start_gateway("--record", self.dir / "rollouts", "--record-spool",
                              self.dir / "spool", *options, port=port)

    def test_a_recorded_rollout_is_the_answer(self):
        async def both(client):
            pieces = []
            answers = [await client.complete(PROMPT, max_tokens=5),
                       await client.generate([1, 2], sampling_params={"max_tokens": 5}),
                       await client.chat([{"role": "user", "content": PROMPT}], max_tokens=5),
                       await read(client.stream(PROMPT, max_tokens=5, request_id="mine"), pieces)]
            return [(one, await client.rollout(one.request_id)) for one in answers]
        for answer, recorded in self.client(both):
            self.assertEqual(recorded.choices, answer.choices)
            self.assertEqual((recorded.start_version, recorded.end_version, recorded.run,
                              recorded.island, recorded.request_id),
                             (1, 1, answer.run, answer.island, answer.request_id))
            self.assertEqual(recorded.raw["id"], answer.request_id)
        self.assertEqual(answer.request_id, "mine")

    def test_an_unknown_one(self):
        self.assertIn("404", self.refused(errors.NotFoundError,
                                          lambda client: client.rollout("no-such")))


class TokensTest(doubles.DoublesTest):
    """A gateway that asks for tokens."""

    def setUp(self):
        super().setUp()
        (self.dir / "clients").write_text("client\n", encoding="ascii")
        (self.dir / "operators").write_text("operator\n", encoding="ascii")
        self.add("one")
        self.start("--client-tokens", self.dir / "clients", "--operator-tokens",
                   self.dir / "operators", ready=[])
        harness.wait_until(lambda: self.gateway.get("/health")[0] == 200, "it serves")

    def call(self, token, call):
        async def within():
            url = f"http://127.0.0.1:{self.process.port}"
            async with RolloutClient(url, token=token) as client:
                return await call(client)
        return asyncio.run(within())

    def test_each_token_opens_its_own_doors(self):
        self.assertEqual(self.call("client", lambda client: client.complete(PROMPT)).text, "words")
        self.assertEqual(len(self.call("operator", lambda client: client.fleet())["islands"]), 1)
        for token, call in ((None, lambda client: client.complete(PROMPT)),
                            ("operator", lambda client: client.complete(PROMPT)),
                            ("client", lambda client: client.fleet())):
            with self.assertRaises(errors.InvalidError) as caught:
                self.call(token, call)
            self.assertIn("401", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
