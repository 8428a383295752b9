"""The plug-in for vLLM: switches the weights in use by writing only what changed (docs/python.md).

vLLM calls register() in each of its processes, through the entry point group vllm.general_plugins.
"""

from __future__ import annotations

import contextlib

from . import threads
from .unpacked import BACKEND, keep_unpacked

__all__ = ["register"]


def register() -> None:
    """Makes the backend known to vLLM. May be called more than once; changes nothing else unless the
    engine runs with this backend. A vLLM without weight transfer goes on without it."""
    try:
        from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
        from vllm.platforms import current_platform
    except ImportError:
        return
    threads.note_cores()
    with contextlib.suppress(ValueError):  # known already
        WeightTransferEngineFactory.register_engine(
            BACKEND, f"{__name__}.transfer", "IsthmusTransferEngine")
    if current_platform.is_cpu():
        keep_unpacked()
