#!/usr/bin/env python3
"""Answers that begin at one version and end at the next, as RolloutClient tells them."""

import asyncio
import unittest

from clients import PROMPT, ClientTest, harness, read


class SwitchTest(ClientTest):
    """Answers that begin at one version and end at the next."""

    count = 1
    engine_options = ("--enable-scale-out",)
    island_options = ("--policy", "in_place")

    def across(self, begin, pieces=None):
        """What begin(client) returns, if version 2 comes after two tokens (of pieces, if given)."""
        engine = self.islands[0].engine

        def switch():
            harness.wait_until(lambda: engine.state()["running"] + engine.state()["waiting"] == 1,
                               "it is in flight")
            engine.step(2)
            if pieces is not None:
                harness.wait_until(lambda: len(pieces) == 2, "two tokens")
            self.publish()
            harness.wait_until(lambda: len(engine.loads()) == 2, "the load has begun")
            engine.manual(False)

        async def run(client):
            asked = asyncio.create_task(begin(client))
            await asyncio.to_thread(switch)
            return await asked
        engine.manual()
        rollout = self.client(run, **self.client_options)
        self.assertEqual((rollout.start_version, rollout.end_version), (1, 2))
        return rollout

    client_options = {}

    def assert_crossed(self, rollout, choices):
        self.assert_says_the_truth(rollout, choices)
        self.assertEqual(rollout.spans, [(1, 0, 2), (2, 2, 6)])

    def test_a_stream_knows_which_token_is_of_which_version(self):
        pieces = []
        rollout = self.across(lambda client: read(client.stream(PROMPT, max_tokens=6), pieces),
                              pieces)
        self.assert_crossed(rollout, [choice for event in rollout.raw
                                      for choice in event["choices"]])
        self.assertFalse(rollout.choices[0].exact)
        self.assertEqual([piece.version for piece in pieces if piece.text], [1, 1, 2, 2, 2, 2])

    def test_a_native_answer_knows_it_from_the_engine(self):
        rollout = self.across(lambda client: client.generate(
            [1, 2], sampling_params={"max_tokens": 6}))
        self.assert_crossed(rollout, rollout.raw["choices"])
        self.assertTrue(rollout.choices[0].exact)

    def test_another_answer_in_one_piece_knows_the_two_versions_only(self):
        rollout = self.across(lambda client: client.complete(PROMPT, max_tokens=6))
        self.assertEqual((len(rollout.tokens), rollout.spans, rollout.choices[0].versions(),
                          rollout.choices[0].exact), (6, [], [], False))


class SglangSwitchTest(SwitchTest):
    kind, engine_options = "sglang", ()
    client_options = {"engine": "sglang"}

    def assert_crossed(self, rollout, choices):
        if isinstance(rollout.raw, list) and "choices" in rollout.raw[-1]:
            # OpenAI's events: this engine says neither ids nor log-probabilities in them.
            self.assertEqual((rollout.tokens, rollout.logprobs), (None, None))
            self.assertEqual(rollout.spans, [(1, 0, 2), (2, 2, 6)])
        else:
            super().assert_crossed(rollout, choices)

    def test_a_native_answer_knows_it_from_the_engine(self):
        rollout = self.across(lambda client: client.generate(
            [1, 2], sampling_params={"max_new_tokens": 6}))
        self.assert_crossed(rollout, [rollout.raw])
        self.assertTrue(rollout.choices[0].exact)

    def test_a_native_stream_knows_it_too(self):
        pieces = []
        rollout = self.across(lambda client: read(client.stream(
            [1, 2], kind="generate", sampling_params={"max_new_tokens": 6}), pieces), pieces)
        self.assert_crossed(rollout, [rollout.raw[-1]])
        self.assertEqual([token for piece in pieces for token in piece.tokens], rollout.tokens)
        self.assertEqual([len(piece.tokens) for piece in pieces], [1] * 6)

    def test_another_answer_in_one_piece_knows_the_two_versions_only(self):
        """But this engine says it on OpenAI's routes too."""
        rollout = self.across(lambda client: client.complete(PROMPT, max_tokens=6))
        self.assertEqual((rollout.spans, rollout.choices[0].exact), ([(1, 0, 2), (2, 2, 6)], True))


if __name__ == "__main__":
    unittest.main()
