#!/usr/bin/env python3
"""Where the three lines go in a loop like that of prime-rl,
https://github.com/PrimeIntellect-ai/prime-rl.

There trainer and orchestrator are processes of their own. At the beginning of each step but the
first the trainer calls `weight_broadcast.broadcast_weights(model, step)`; the orchestrator asks for
rollouts of at most `max_async_level` steps behind. Isthmus is one more WeightBroadcast. The model
is in FSDP2's shards: each rank publishes what it holds, and nothing is gathered. The orchestrator's
side is a line too: `min_version` of isthmus.RolloutClient (first_version: what the board had before).

    prime_rl_style.py BOARD RUN
"""

import toy

MAX_ASYNC_LEVEL = 2


class IsthmusBroadcast:
    """A WeightBroadcast. rank, ranks: of the trainer's processes."""

    def __init__(self, make_publisher, rank=0, ranks=1):
        shares = {"rank": rank, "ranks": ranks} if ranks > 1 else {}
        self.publisher = make_publisher(background=True, **shares)  # line 1 of 3

    def broadcast_weights(self, model, step):
        self.publisher.publish(model.named_parameters(), step=step)  # line 2 of 3

    def shutdown(self):
        self.publisher.flush()  # line 3 of 3


def least_version(step, first_version=1):
    """What the orchestrator asks for in step `step`: client.complete(…, min_version=…)."""
    return max(first_version, first_version + step - MAX_ASYNC_LEVEL)


def loop(make_publisher, steps=toy.STEPS + 1):
    """The trainer's train(); returns it."""
    trainer, broadcast = toy.Trainer(), IsthmusBroadcast(make_publisher)
    for step in range(steps):
        if step > 0:  # the base model is on the board
            broadcast.broadcast_weights(trainer.model, step)
        if step + 1 < steps:
            trainer.train(toy.rollouts(step))
    broadcast.shutdown()
    return [trainer]


if __name__ == "__main__":
    toy.main(loop, __doc__.split("\n\n")[0])
