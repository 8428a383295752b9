#!/usr/bin/env python3
"""RolloutClient with the real vLLM behind a sidecar: its answers in the client's one form."""

import asyncio
import unittest

import island
from island import harness

from isthmus import errors
from isthmus.rollouts import RolloutClient

PROMPT = [5, 6, 7, 8]
GREEDY = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
MESSAGES = [{"role": "user", "content": "the weather in the alps"}]


async def read(stream):
    """(the whole, the pieces)"""
    pieces = []
    async with stream:
        async for piece in stream:
            pieces.append(piece)
    return stream.rollout(), pieces


class RolloutsTest(island.IslandTest):

    def client(self, call, **options):
        async def within():
            url = f"http://127.0.0.1:{self.process.port}"
            async with RolloutClient(url, patience_s=30, **options) as client:
                return await asyncio.wait_for(call(client), harness.DEADLINE_S)
        return asyncio.run(within())

    def test_routes_agree_on_tokens_log_probabilities_and_versions(self):
        self.release(2)

        async def all_of(client):
            return [await client.complete(PROMPT, exact_version=2, **GREEDY),
                    await client.generate(PROMPT, exact_version=2, sampling_params=GREEDY)]
        completed, generated = self.client(all_of)
        self.assertEqual(completed.tokens, generated.tokens)
        self.assertEqual(completed.logprobs, generated.logprobs)
        for rollout in (completed, generated):
            self.assertEqual((len(rollout.tokens), rollout.finish_reason), (12, "length"))
            self.assertTrue(all(value <= 0 for value in rollout.logprobs))
            self.assertEqual((rollout.start_version, rollout.end_version), (2, 2))
            self.assertEqual(rollout.spans, [(2, 0, 12)])
            self.assertEqual(rollout.run, self.run_of_weights.name)

    def test_streams_are_the_answers_in_pieces(self):
        async def both(client):
            found = []
            for kind, prompt, options in (("complete", PROMPT, GREEDY), ("chat", MESSAGES, GREEDY),
                                          ("generate", PROMPT, {"sampling_params": GREEDY})):
                whole = await getattr(client, kind)(prompt, **options)
                found.append((kind, whole, *await read(client.stream(prompt, kind=kind, **options))))
            return found
        for kind, whole, streamed, pieces in self.client(both):
            with self.subTest(kind):
                self.assertEqual((streamed.tokens, streamed.logprobs, streamed.text, streamed.spans),
                                 (whole.tokens, whole.logprobs, whole.text, whole.spans))
                self.assertEqual(len(streamed.tokens), 12)
                self.assertEqual([token for piece in pieces for token in piece.tokens or ()],
                                 streamed.tokens)
                self.assertEqual("".join(piece.text for piece in pieces), streamed.text)

    def test_several_answers_to_a_prompt(self):
        rollout = self.client(lambda client: client.complete(
            PROMPT, n=3, max_tokens=8, temperature=1.0, ignore_eos=True))
        self.assertEqual([choice.index for choice in rollout.choices], [0, 1, 2])
        self.assertEqual(len({tuple(choice.tokens) for choice in rollout.choices}), 3)
        for choice in rollout.choices:
            self.assertEqual((len(choice.tokens), len(choice.logprobs)), (8, 8))
            self.assertEqual(choice.spans, [(1, 0, 8)])

    def test_the_engines_refusals_and_the_sidecars(self):
        for options, kind in (({"max_tokens": -1}, errors.InvalidError),
                              ({"extra_body": {"model": "no such"}}, errors.NotFoundError),
                              ({"exact_version": 9, "patience_s": 0}, errors.NotReadyError)):
            with self.assertRaises(kind):
                self.client(lambda client, options=options: client.complete(PROMPT, **options))


if __name__ == "__main__":
    unittest.main()
