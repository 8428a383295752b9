"""What the callbacks share: which steps are published, from where, under which names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from isthmus import errors

# What wrappers of torch put into the names of parameters: DistributedDataParallel, torch.compile,
# FullyShardedDataParallel, activation checkpointing.
WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

Tensors = Iterable[tuple[str, Any]]
Meta = Callable[..., Mapping[str, Any]]


def plain_names(named_tensors: Tensors) -> Tensors:
    """Without what wrappers put in; `module` only in front, for a model may have one itself."""
    for name, tensor in named_tensors:
        parts = [part for place, part in enumerate(name.split("."))
                 if part not in WRAPPERS or part == "module" and place > 0]
        yield ".".join(parts), tensor


def parameters_of(model: Any) -> Tensors:
    """(name, tensor) of a torch module's parameters, tied ones once."""
    return plain_names(model.named_parameters())


class StepPublisher:
    """Publishes every so many steps, and what is left at the end. Not thread-safe.

    publisher: an isthmus.Publisher; or a function that makes one, called before the first version,
    in the processes that publish only. every: in steps of the optimizer. all_ranks: each process
    has a publisher with rank and ranks of its own and publishes its share; else rank 0 alone does.
    """

    def __init__(self, publisher: Any, every: int, all_ranks: bool):
        if not isinstance(every, int) or every < 1:
            raise errors.InvalidError(f"every is {every!r}, not a number of steps")
        self._publisher, self._every, self._all_ranks = publisher, every, all_ranks
        self._last = None  # the step that was published last

    def begin(self) -> None:
        """A training begins, whose steps may have the numbers of another one's."""
        self._last = None

    def after_step(self, step: int, tensors: Callable[[], Tensors], is_lead: bool,
                   meta: Callable[[], Mapping[str, Any]] | None = None) -> Any:
        """What publish() returned, None if this step is none of those."""
        if step % self._every or step == self._last:
            return None
        return self.publish(step, tensors, is_lead, meta)

    def publish(self, step: int, tensors: Callable[[], Tensors], is_lead: bool,
                meta: Callable[[], Mapping[str, Any]] | None = None) -> Any:
        if step == self._last or not (is_lead or self._all_ranks):
            return None
        texts = {key: str(value) for key, value in meta().items()} if meta else {}
        result = self._made().publish(tensors(), step=step, meta=texts)
        self._last = step
        return result

    def at_end(self, step: int, tensors: Callable[[], Tensors], is_lead: bool,
               meta: Callable[[], Mapping[str, Any]] | None = None) -> None:
        """Publishes the last step unless it was, and waits for versions that are under way."""
        self.publish(step, tensors, is_lead, meta)
        if is_lead or self._all_ranks:
            self._made().flush()

    def _made(self):
        if not hasattr(self._publisher, "publish"):
            self._publisher = self._publisher()
        return self._publisher
