"""A callback for Hugging Face's Trainer, and so for TRL's.

`Trainer(…, callbacks=[PublishCallback(…)])`. Needs transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import transformers

from isthmus.trainers._steps import StepPublisher, Tensors, parameters_of


class PublishCallback(transformers.TrainerCallback):
    """Publishes the model at the end of every `every`th step, and at the end of the training.

    publisher: an isthmus.Publisher, or a function without arguments that makes one; not closed.
    at_begin: also before the first step, for a fleet that has no version yet. all_ranks: every
    process publishes its share (docs/ranks.md); else the world's process zero publishes alone, and
    must then hold the whole model (one process, or DistributedDataParallel). tensors: of the model
    (name, tensor) in its own names; if not given, its parameters. meta: of the TrainerState; values
    become texts.

    A version that cannot be published raises isthmus.Error from the step, which ends the training;
    of a publisher in the background, from the next step that publishes.
    """

    def __init__(self, publisher: Any, *, every: int = 1, at_begin: bool = False,
                 all_ranks: bool = False, tensors: Callable[[Any], Tensors] = parameters_of,
                 meta: Callable[[transformers.TrainerState], Mapping[str, Any]] | None = None):
        self._steps = StepPublisher(publisher, every, all_ranks)
        self._at_begin, self._tensors, self._meta = at_begin, tensors, meta

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        self._steps.begin()
        if self._at_begin:
            self._steps.publish(*self._of(state, model))

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self._steps.after_step(*self._of(state, model))

    def on_train_end(self, args, state, control, model=None, **kwargs):
        self._steps.at_end(*self._of(state, model))

    def _of(self, state, model):
        meta = None if self._meta is None else lambda: self._meta(state)
        return (state.global_step, lambda: self._tensors(model), state.is_world_process_zero, meta)
