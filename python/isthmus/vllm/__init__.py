"""The plug-in for vLLM: switches the weights in use by writing only what changed (docs/python.md).

vLLM calls register() in each of its processes, through the entry point group vllm.general_plugins.
"""

from __future__ import annotations

from . import threads
from .unpacked import BACKEND, keep_unpacked

__all__ = ["register"]


def register() -> None:
    """Makes the backend known to vLLM. May be called more than once."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.platforms import current_platform

    threads.note_cores()
    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(
            BACKEND, f"{__name__}.transfer", "IsthmusTransferEngine")
    if current_platform.is_cpu():
        keep_unpacked()
