"""Isthmus: RL weights as exact patches, from the trainer to engines anywhere (docs/python.md)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from isthmus._core import __version__
from isthmus.boards import Board, Version
from isthmus.errors import (
    ConflictError,
    CorruptError,
    Error,
    InternalError,
    InvalidError,
    NotFoundError,
    NotReadyError,
    PoisonedError,
    UnavailableError,
)
from isthmus.files import Applied, Diff, apply, diff, inspect, verify
from isthmus.publishing import Pending, Publisher
from isthmus.replicas import Replica

if TYPE_CHECKING:
    from isthmus.rollouts import Rollout, RolloutClient

# Imported when they are first asked for: they need what only their users have installed.
_LAZY = {"Rollout": "isthmus.rollouts", "RolloutClient": "isthmus.rollouts"}

__all__ = [
    "Applied",
    "Board",
    "ConflictError",
    "CorruptError",
    "Diff",
    "Error",
    "InternalError",
    "InvalidError",
    "NotFoundError",
    "NotReadyError",
    "Pending",
    "PoisonedError",
    "Publisher",
    "Replica",
    "Rollout",
    "RolloutClient",
    "UnavailableError",
    "Version",
    "__version__",
    "apply",
    "diff",
    "inspect",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
