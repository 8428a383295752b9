"""Sampling from a fleet: a request for each sample, with isthmus.RolloutClient in a thread."""

import asyncio
import threading

import grpo
import isthmus


class Sampler:
    """Asks the addresses of a fleet in turn. Thread-safe; batches that were begun go on together.

    urls: of a gateway, or of engines themselves (run: None), which say no version.
    """

    def __init__(self, urls, run, model, length):
        self._length, self._options = length, {"run": run, "model": model, "patience_s": 600}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._clients = self._wait(self._opened(urls))

    async def _opened(self, urls):
        return [isthmus.RolloutClient(url, **self._options) for url in urls]

    def begin(self, questions, group, seed, version, **constraints):
        """A future of the groups. seed: of the batch; each sample has one of its own.

        constraints: of RolloutClient.complete. version: of answers that say none.
        """
        return asyncio.run_coroutine_threadsafe(
            self._groups(questions, group, seed, version, constraints), self._loop)

    async def _groups(self, questions, group, seed, version, constraints):
        asked = [self._sample(question, place * group + number, seed, version, constraints)
                 for place, question in enumerate(questions) for number in range(group)]
        samples = await asyncio.gather(*asked)
        return [samples[first:first + group] for first in range(0, len(samples), group)]

    async def _sample(self, question, place, seed, version, constraints):
        rollout = await self._clients[place % len(self._clients)].complete(
            list(question.prompt), max_tokens=self._length, temperature=1.0,
            seed=seed * 1_000_003 + place, **constraints)
        versions = rollout.choices[0].versions() or [rollout.start_version or version] * len(
            rollout.tokens)
        return grpo.Sample(question, rollout.tokens, rollout.logprobs, versions)

    def updates(self):
        """The last update of each island, as /v1/fleet has it."""
        islands = self._wait(self._clients[0].fleet())["islands"]
        return [island["last_update"] for island in islands if island["last_update"]]

    def _wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def wait_ready(self, version):
        """Until all islands serve it or a newer one."""
        self._wait(self._clients[0].ready(version))

    def close(self):
        for client in self._clients:
            self._wait(client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
