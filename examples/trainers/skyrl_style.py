#!/usr/bin/env python3
"""Where the three lines go in a loop like SkyRL's, https://github.com/NovaSky-AI/SkyRL.

There the trainer is asynchronous: generation workers fill a buffer within a bound of staleness, and
after each step the policy's workers run `broadcast_to_inference_engines(client)` while generation
is paused. With Isthmus that method publishes and returns when the weights were copied; nothing is
paused by the trainer, since islands switch by themselves. What bounds staleness is that the loop
waits for the fleet: `await client.ready(version - MAX_STALENESS_STEPS)` of isthmus.RolloutClient.

    skyrl_style.py BOARD RUN
"""

import asyncio

import toy

MAX_STALENESS_STEPS = 2


class PolicyWorker(toy.Trainer):
    def __init__(self, make_publisher):
        super().__init__()
        self.global_step = 0
        self.publisher = make_publisher(background=True)  # line 1 of 3

    async def broadcast_to_inference_engines(self):
        tensors = self.model.named_parameters()
        step, publish = self.global_step, self.publisher.publish
        await asyncio.to_thread(publish, tensors, step=step)  # line 2 of 3


async def generate(buffer):
    """A generation worker: it waits while the buffer is full."""
    seed = 0
    while True:
        await buffer.put(toy.rollouts(seed))
        seed += 1


async def train(make_publisher, steps):
    worker = PolicyWorker(make_publisher)
    await worker.broadcast_to_inference_engines()
    buffer = asyncio.Queue(MAX_STALENESS_STEPS)
    generation = asyncio.create_task(generate(buffer))
    for worker.global_step in range(1, steps + 1):
        worker.train(await buffer.get())
        await worker.broadcast_to_inference_engines()
    generation.cancel()
    worker.publisher.flush()  # line 3 of 3
    return [worker]


def loop(make_publisher, steps=toy.STEPS):
    """The trainer's train(); returns its workers."""
    return asyncio.run(train(make_publisher, steps))


if __name__ == "__main__":
    toy.main(loop, __doc__.split("\n\n")[0])
