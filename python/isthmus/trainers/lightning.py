"""A callback for PyTorch Lightning: `Trainer(…, callbacks=[PublishCallback(…)])`.

Needs lightning, or pytorch_lightning under its older name: a program that has imported one of them
gets a callback for that one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from isthmus.trainers._steps import StepPublisher, Tensors, parameters_of

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback


class PublishCallback(Callback):
    """Publishes after every `every`th step of the optimizers, and at the end of the fit.

    model: of the LightningModule, the torch module whose parameters have the checkpoint's names,
    for example `lambda module: module.policy`; if not given, the LightningModule itself. meta: of
    Trainer; values become texts. All else as of isthmus.trainers.huggingface.PublishCallback.
    Batches between whose gradients are summed up are no steps.
    """

    def __init__(self, publisher: Any, *, every: int = 1, at_begin: bool = False,
                 all_ranks: bool = False, model: Callable[[Any], Any] = lambda module: module,
                 tensors: Callable[[Any], Tensors] = parameters_of,
                 meta: Callable[[Any], Mapping[str, Any]] | None = None):
        super().__init__()
        self._steps = StepPublisher(publisher, every, all_ranks)
        self._at_begin, self._model, self._tensors, self._meta = at_begin, model, tensors, meta
        self._seen = None  # trainer.global_step after the last batch

    def on_train_start(self, trainer, pl_module):
        self._steps.begin()
        self._seen = trainer.global_step
        if self._at_begin:
            self._steps.publish(*self._of(trainer, pl_module))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step != self._seen:
            self._seen = trainer.global_step
            self._steps.after_step(*self._of(trainer, pl_module))

    def on_train_end(self, trainer, pl_module):
        self._steps.at_end(*self._of(trainer, pl_module))

    def _of(self, trainer, module):
        meta = None if self._meta is None else lambda: self._meta(trainer)
        return (trainer.global_step, lambda: self._tensors(self._model(module)),
                trainer.is_global_zero, meta)
