#!/usr/bin/env python3
"""Where the three lines go in a loop like verl's, https://github.com/volcengine/verl.

There one controller drives groups of workers. After a step each trainer worker exports its model as
whole tensors, one after the other, in Hugging Face's names, and hands that iterator to a checkpoint
engine (https://github.com/volcengine/verl/tree/main/verl/checkpoint_engine): a class with
`send_weights`, chosen by the name of its backend. So Isthmus is a checkpoint engine without a
receiving side; no group of processes is built between trainer and rollouts.

    verl_style.py BOARD RUN
"""

import asyncio

import toy


class IsthmusCheckpointEngine:
    """The part to register. rank: this worker's."""

    def __init__(self, make_publisher, rank):
        self.step = 0
        self.publisher = make_publisher(background=True) if rank == 0 else None  # line 1 of 3

    async def send_weights(self, weights):
        self.step += 1
        if self.publisher is None:
            for _ in weights:  # gathering a tensor takes all ranks: also those that do not publish
                pass
            return
        await asyncio.to_thread(self.publisher.publish, weights, step=self.step)  # line 2 of 3

    def finalize(self):
        if self.publisher is not None:
            self.publisher.flush()  # line 3 of 3


class Worker(toy.Trainer):
    """A trainer worker."""

    def get_per_tensor_param(self):
        """Whole tensors, gathered one by one where the model is in shards."""
        for name, parameter in self.model.named_parameters():
            yield name, parameter.detach()


def loop(make_publisher, steps=toy.STEPS):
    """The controller's fit(); returns the workers."""
    workers = [Worker(), Worker()]
    engines = [IsthmusCheckpointEngine(make_publisher, rank) for rank in range(len(workers))]
    for step in range(steps):
        batch = toy.rollouts(step)
        for worker in workers:
            worker.train(batch)
        for worker, engine in zip(workers, engines):
            asyncio.run(engine.send_weights(worker.get_per_tensor_param()))
    for engine in engines:
        engine.finalize()
    return workers


if __name__ == "__main__":
    toy.main(loop, __doc__.split("\n\n")[0])
