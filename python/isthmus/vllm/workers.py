"""What the workers of one engine say to each other: small objects, in lock step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from vllm.distributed import get_world_group

from .errors import TransferError


def rank() -> int:
    return get_world_group().rank_in_group


def gather(value: Any) -> list[Any]:
    """Each worker's value, by rank. All workers call it, the same number of times."""
    group = get_world_group()
    if group.world_size == 1:
        return [value]
    values = [None] * group.world_size
    torch.distributed.all_gather_object(values, value, group=group.cpu_group)
    return values


def together(step: Callable[[], Any]) -> list[Any]:
    """Runs a step on each worker; what it returned, by rank. If it failed on one it raises on all,
    so that none goes on alone or waits for one that left."""
    try:
        outcome = step(), None
    except TransferError as error:
        outcome = None, (error.code, str(error))
    except Exception as error:
        outcome = None, ("internal", f"isthmus: internal: {error!r}")
    outcomes = gather(outcome)
    for rank, (_, failure) in enumerate(outcomes):
        if failure is not None:
            code, text = failure
            text = text.removeprefix(f"isthmus: {code}: ")
            raise TransferError(code, text if len(outcomes) == 1 else f"worker {rank}: {text}")
    return [value for value, _ in outcomes]
