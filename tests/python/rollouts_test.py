#!/usr/bin/env python3
"""RolloutClient against a real gateway, sidecars and strict doubles of vLLM and SGLang.

What a double's tokens say of themselves (tests/engines/generation.py) is compared with what the
client makes of the answer: ids, log-probabilities, versions.
"""

import asyncio
import datetime
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gateway")]
import fleet  # noqa: E402
import generation  # noqa: E402
from fleet import harness, island  # noqa: E402

from isthmus import errors  # noqa: E402
from isthmus.rollouts import RolloutClient  # noqa: E402

PROMPT = "the weather in the alps"


class Token:
    """What generation.py computes ids and log-probabilities from."""

    def __init__(self, proof):
        self.digest = proof["digest"]


def made_of(choices):
    """(ids, logprobs, versions) that the proofs of a choice say, all events together."""
    proofs = [proof for choice in choices for proof in choice["_double"]]
    tokens = [Token(proof) for proof in proofs]
    return ([generation.token_id(token, place) for place, token in enumerate(tokens)],
            [generation.logprob(token, place) for place, token in enumerate(tokens)],
            [int(proof["version"]) for proof in proofs])


class ClientTest(fleet.FleetTest):
    """`client(call)` runs an async function of a client and returns what it returns."""

    def setUp(self):
        super().setUp()
        self.url = f"http://127.0.0.1:{self.process.port}"

    def client(self, call, **options):
        async def within():
            async with RolloutClient(self.url, **{"patience_s": 30, **options}) as client:
                return await asyncio.wait_for(call(client), harness.DEADLINE_S)
        return asyncio.run(within())

    def refused(self, kind, call, **options):
        with self.assertRaises(errors.Error) as caught:
            self.client(call, **options)
        self.assertIs(type(caught.exception), kind, caught.exception)
        return str(caught.exception)

    def assert_says_the_truth(self, rollout, choices):
        ids, logprobs, versions = made_of(choices)
        self.assertEqual(rollout.tokens, ids)
        self.assertEqual(rollout.logprobs, logprobs)
        self.assertEqual(rollout.choices[0].versions(), versions)
        self.assertTrue(all(rollout.start_version <= one <= rollout.end_version for one in versions))


async def read(stream, pieces):
    async with stream:
        async for piece in stream:
            pieces.append(piece)
    return stream.rollout()


class VllmTest(ClientTest):
    count = 2
    gateway_options = (*fleet.POLL, "--max-lag", 1000)

    def start_engine(self, kind, *options):
        return super().start_engine(kind, "--enable-scale-out", *options)

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

        async def all_of(client):
            return [await client.complete(PROMPT, **options) for options in (
                {"min_version": 2}, {"exact_version": 2}, {"max_lag": 0}, {"max_lag": "1000s"},
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


class SwitchTest(ClientTest):
    """Answers that begin at one version and end at the next."""

    count = 1
    island_options = ("--policy", "in_place")

    def start_engine(self, kind, *options):
        return super().start_engine(kind, "--enable-scale-out", *options)

    def across(self, begin, count):
        """What begin(client) returns, if version 2 comes after two of its tokens."""
        engine = self.islands[0].engine

        def switch():
            harness.wait_until(lambda: self.islands[0].info()["in_flight"] == 1, "it is in flight")
            engine.step(2)
            self.publish()
            harness.wait_until(lambda: self.islands[0].info()["applied"] == self.head
                               and self.islands[0].info()["ready"], "the switch")
            harness.wait_until(lambda: engine.step(1) == 0, "it has ended")

        async def run(client):
            asked = asyncio.create_task(begin(client))
            await asyncio.to_thread(switch)
            return await asked
        engine.manual()
        return self.client(run, **({} if count else {}))

    def test_streams_know_which_token_is_of_which_version(self):
        pieces = []
        rollout = self.across(lambda client: read(client.stream(PROMPT, max_tokens=6), pieces), 6)
        self.assert_says_the_truth(rollout, [
            choice for event in rollout.raw for choice in event["choices"]])
        self.assertEqual((rollout.start_version, rollout.end_version), (1, 2))
        self.assertEqual([piece.version for piece in pieces if piece.tokens][:2], [1, 1])
        self.assertEqual(pieces[-1].version, 2)


if __name__ == "__main__":
    unittest.main()
