#!/usr/bin/env python3
"""Where the three lines go in a loop like slime's, https://github.com/THUDM/slime, and Miles's,
https://github.com/radixark/miles, which began as a fork of it.

There the loop is a short script (slime's train_async.py): generate the next batch early, train on
the last one, and every few rollouts `actor_model.update_weights()`. The actor is Megatron's; its
weights are converted to Hugging Face's names in chunks of several tensors. Isthmus takes the place
of what sends the chunks to the engines. The loop no longer has to wait for the batch under way before
the weights are updated: islands switch in the middle of answers, and these say so.

    slime_style.py BOARD RUN
"""

import concurrent.futures
import itertools

import toy

UPDATE_WEIGHTS_INTERVAL = 2
NAMES = {"embedding.weight": "embed.weight", "output_layer.weight": "head.weight"}


class Actor(toy.Trainer):
    """The training side. Its names are Megatron's; `names` says the checkpoint's."""

    def __init__(self, make_publisher):
        super().__init__()
        self.publisher = make_publisher(background=True, names=NAMES.get)  # line 1 of 3

    def chunks(self, size=1):
        """Lists of (Megatron's name, tensor), as large as fits beside the model."""
        parameters = dict(self.model.named_parameters())
        pairs = [(name, parameters[wanted].detach()) for name, wanted in NAMES.items()]
        for first in range(0, len(pairs), size):
            yield pairs[first:first + size]

    def update_weights(self, rollout_id):
        tensors = itertools.chain.from_iterable(self.chunks())
        self.publisher.publish(tensors, step=rollout_id)  # line 2 of 3


def loop(make_publisher, steps=2 * toy.STEPS):
    """As train_async.py; returns the actor."""
    actor = Actor(make_publisher)
    actor.update_weights(0)
    with concurrent.futures.ThreadPoolExecutor(1) as rollout_manager:
        upcoming = rollout_manager.submit(toy.rollouts, 0)
        for rollout_id in range(steps):
            batch = upcoming.result()
            upcoming = rollout_manager.submit(toy.rollouts, rollout_id + 1)
            actor.train(batch)
            if (rollout_id + 1) % UPDATE_WEIGHTS_INTERVAL == 0:
                actor.update_weights(rollout_id + 1)
    actor.publisher.flush()  # line 3 of 3
    return [actor]


if __name__ == "__main__":
    toy.main(loop, __doc__.split("\n\n")[0])
