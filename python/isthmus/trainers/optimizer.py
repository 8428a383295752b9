"""Publishing after an optimizer's steps: for loops in which nothing else can be put.

Needs torch 2.0 or newer; names from the optimizer itself, torch 2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from isthmus import errors
from isthmus.trainers._steps import StepPublisher, Tensors, plain_names


class OptimizerHook:
    """Publishes a torch optimizer's parameters after every `every`th of its steps.

    named_parameters: (name, parameter) of all that is to be published, `model.named_parameters()`,
    in the trainer's names; they need not all be the optimizer's: frozen ones belong to a checkpoint
    too. If not given, the optimizer must have been made with names
    (`torch.optim.AdamW(model.named_parameters())`), and its parameters are published. first_step:
    the number of its next step; steps are counted here. all_ranks, publisher: as of
    isthmus.trainers.huggingface.PublishCallback; without a process group there is one rank.
    meta: of the step's number. The optimizer keeps the hook.

    The publishing happens within `optimizer.step()`, which raises what publish raises.
    """

    def __init__(self, publisher: Any, optimizer: torch.optim.Optimizer,
                 named_parameters: Tensors | None = None, *, every: int = 1, first_step: int = 1,
                 all_ranks: bool = False, meta: Callable[[int], Mapping[str, Any]] | None = None):
        self._tensors = list(plain_names(
            _own_names(optimizer) if named_parameters is None else named_parameters))
        self._steps = StepPublisher(publisher, every, all_ranks)
        self._meta, self._next = meta, first_step
        # The optimizer keeps this object, which therefore does not keep the optimizer.
        self._handle = optimizer.register_step_post_hook(lambda *_: self._after_step())

    def close(self) -> None:
        """Publishes the last step unless it was, and waits for what is under way; then remove()."""
        self.remove()
        step = self._next - 1
        self._steps.at_end(step, lambda: self._tensors, _is_lead(), self._of(step))

    def remove(self) -> None:
        """Later steps are not published."""
        self._handle.remove()

    def _after_step(self):
        step, self._next = self._next, self._next + 1
        self._steps.after_step(step, lambda: self._tensors, _is_lead(), self._of(step))

    def _of(self, step):
        return None if self._meta is None else lambda: self._meta(step)


def _own_names(optimizer):
    for group in optimizer.param_groups:
        if "param_names" not in group:
            raise errors.InvalidError(
                "the optimizer knows no names: give named_parameters, or make it with them")
        yield from zip(group["param_names"], group["params"])


def _is_lead():
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()
                and distributed.get_rank() != 0)
