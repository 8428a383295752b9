"""What tests of RolloutClient share: a real gateway, sidecars, strict doubles of engines.

What a double's tokens say of themselves (tests/engines/generation.py) is compared with what the
client makes of the answer: ids, log-probabilities, versions.
"""

import asyncio
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gateway")]
import doubles  # noqa: E402, F401
import fleet  # noqa: E402
import generation  # noqa: E402
from fleet import harness  # noqa: E402

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

    kind, engine_options = "vllm", ()

    def start_island(self, name, *options, **more):
        return super().start_island(name, *options, kind=self.kind,
                                    engine_options=self.engine_options, **more)

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
