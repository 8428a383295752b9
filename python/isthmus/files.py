"""Checkpoints and patches in files, without a board: the commands of these names (docs/cli.md)."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from typing import Any

from isthmus import _core
from isthmus.errors import CorruptError

_log = logging.getLogger("isthmus")


@dataclasses.dataclass(frozen=True)
class Diff:
    """What changed between two checkpoints. Counts are of units (docs/patch-format.md)."""

    base_digest: str
    digest: str
    elements: int
    changed: int
    tensors_changed: int
    encodings: dict[str, int]  # name: chunks that use it
    checkpoint_bytes: int
    patch_bytes: int


@dataclasses.dataclass(frozen=True)
class Applied:
    """What a patch changed, and of how many tensors every byte was verified."""

    tensors: int
    changed: int
    verified: int


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    patch: str | os.PathLike[str],
    *,
    encoding: str = "auto",
    threads: int = 0,
) -> Diff:
    """Compares two checkpoint directories and writes the patch from `old` to `new`.

    Args:
        encoding: "auto" (the smallest for each chunk), "context", "direct", "xor" or "raw".
        threads: 0: one per core.

    Raises:
        InvalidError: no patch can lead from the one to the other. ConflictError: somebody is writing them.
    """
    result = _core.diff(os.fspath(old), os.fspath(new), os.fspath(patch), encoding, threads)
    fields = (field.name for field in dataclasses.fields(Diff))
    return Diff(**{name: getattr(result, name) for name in fields})


def apply(
    patch: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    threads: int = 0,
) -> Applied:
    """Applies a patch file to a checkpoint: in place (journaled: a crash is taken back by the next call), or
    into the new directory `out`.

    Raises:
        CorruptError: the checkpoint is not the patch's base; nothing was written.
    """
    target = None if out is None else os.fspath(out)
    result = _core.apply(os.fspath(patch), os.fspath(directory), target, threads)
    for note in result.notes:
        _log.warning("apply %s to %s: %s", patch, directory, note)
    return Applied(result.tensors, result.changed, result.verified)


def verify(
    directory: str | os.PathLike[str],
    against: str | os.PathLike[str] | None = None,
    *,
    threads: int = 0,
) -> None:
    """Reads every byte of a replica, and compares with what it claims to be; with `against`, of any checkpoint,
    and compares with that one. Takes no lock.

    Raises:
        CorruptError: something differs; `problems` has all of it. NotFoundError: no replica there.
    """
    other = None if against is None else os.fspath(against)
    problems = _core.verify(os.fspath(directory), other, threads)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CorruptError(f"verify {os.fspath(directory)}: {problems[0]}{more}", problems)


def inspect(path: str | os.PathLike[str], *, threads: int = 0) -> dict[str, Any]:
    """What a patch, checkpoint, replica, manifest or board holds, as `isthmus inspect --json` says it; a board
    also by its URL."""
    described: dict[str, Any] = json.loads(_core.inspect(os.fspath(path), threads))
    return described
