"""Threads that read and write the weights: where they may run, and how many.

On a CPU vLLM binds the thread that calls a worker to one core, and new threads inherit that; so the
cores of the process are noted when the plug-in is registered, before that.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable
from typing import Any

import torch

_cores: set[int] | None = None


def note_cores() -> None:
    """Notes the cores that this process may use; the first call counts."""
    global _cores
    if _cores is None and hasattr(os, "sched_getaffinity"):
        _cores = os.sched_getaffinity(0)


def count(device: torch.device) -> int:
    """As many as torch uses on a CPU; one elsewhere, for that only launches."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def pool(threads: int) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(threads, "isthmus", _spread)


def start(step: Callable[[], Any]) -> concurrent.futures.Future:
    """Begins a step in a thread of its own."""
    one = pool(1)
    future = one.submit(step)
    one.shutdown(wait=False)
    return future


def _spread() -> None:
    if _cores is not None:
        os.sched_setaffinity(0, _cores)
