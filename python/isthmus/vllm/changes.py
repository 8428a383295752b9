"""Reads changes files (docs/changes-file.md). What comes from outside is checked here and in
scatter.py: here what the header can show, there what needs the positions themselves."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

import safetensors
import torch

from . import units
from .checkpoint import DTYPES
from .errors import TransferError

FORMAT = "1"
_POSITIONS, _BITS = "p:", "b:"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHANGE = re.compile(r"[0-9a-f]{16}")
_POSITION_DTYPES = {torch.uint32: torch.int32, torch.uint64: torch.int64}


@dataclass(frozen=True)
class Change:
    """What changes in one tensor. The tensors are views of the mapped file.

    positions: int32 or int64 [n], as they stand in the file: not checked yet, and of 2^31 and more
    an int32 is negative. bits: [n], of the dtype in which units are written (units.SIGNED). units:
    how many the whole tensor has. sum_change: modulo 2^64.
    """

    dtype: str
    shape: tuple[int, ...]
    positions: torch.Tensor
    bits: torch.Tensor
    units: int
    sum_change: int

    def __len__(self) -> int:
        return len(self.bits)


@dataclass(frozen=True)
class Changes:
    """A changes file. Holds its mapping, which outlives the file's name."""

    run: str
    base: str  # digests, hexadecimal
    target: str
    tensors: dict[str, Change]


def read(path: str) -> Changes:
    """Maps and checks a changes file, except for what only its positions and bits can show."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return _parse(file)
    except FileNotFoundError as error:
        raise TransferError("not-found", f"changes file {path}: {error}") from error
    except OSError as error:
        raise TransferError("unavailable", f"changes file {path}: {error}") from error
    except (safetensors.SafetensorError, _Damage) as error:
        raise TransferError("corrupt", f"changes file {path}: {error}") from error


class _Damage(Exception):
    pass


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise _Damage(what)


def _parse(file: safetensors.safe_open) -> Changes:
    metadata = file.metadata() or {}
    found = metadata.get("isthmus.changes")
    _check(found == FORMAT, f"format {found!r}, known is {FORMAT!r}")
    for key in ("isthmus.digest.from", "isthmus.digest.to"):
        _check(bool(_DIGEST.fullmatch(metadata.get(key, ""))), f"{key} is not a digest")
    described = _described(metadata)
    entries = set(file.keys())
    expected = {prefix + name for name in described for prefix in (_POSITIONS, _BITS)}
    _check(entries == expected,
           f"entries and isthmus.tensors differ: {sorted(entries ^ expected)[:4]}")
    return Changes(metadata.get("isthmus.run", ""), metadata["isthmus.digest.from"],
                   metadata["isthmus.digest.to"],
                   {name: _change(file, name, row) for name, row in described.items()})


def _described(metadata: dict[str, str]) -> dict[str, list]:
    try:
        described = json.loads(metadata.get("isthmus.tensors", ""))
    except (ValueError, RecursionError) as error:
        raise _Damage(f"isthmus.tensors: {error}") from error
    _check(isinstance(described, dict), "isthmus.tensors is not an object")
    for name, row in described.items():
        _check(isinstance(row, list) and len(row) == 3, f"{name}: not [DTYPE,SHAPE,CHANGE]")
        dtype, shape, change = row
        _check(isinstance(dtype, str) and dtype in DTYPES, f"{name}: unknown dtype {dtype!r}")
        _check(isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape),
               f"{name}: bad shape {shape!r}")
        _check(isinstance(change, str) and bool(_CHANGE.fullmatch(change)),
               f"{name}: bad sum {change!r}")
    return described


def _change(file: safetensors.safe_open, name: str, row: list) -> Change:
    dtype, shape, change = row
    total = math.prod(shape) * max(DTYPES[dtype].itemsize // 4, 1)
    positions, bits = file.get_tensor(_POSITIONS + name), file.get_tensor(_BITS + name)
    wide = torch.uint64 if total >= 1 << 32 else torch.uint32
    size = units.unit_bytes(DTYPES[dtype])
    _check(positions.dtype == wide, f"{name}: positions of {positions.dtype}, expected {wide}")
    _check(bits.dtype == units.UNSIGNED[size],
           f"{name}: bits of {bits.dtype}, expected {units.UNSIGNED[size]}")
    _check(positions.ndim == bits.ndim == 1 and len(positions) == len(bits) <= total,
           f"{name}: {tuple(positions.shape)} positions, {tuple(bits.shape)} bits, {total} units")
    return Change(dtype, tuple(shape), positions.view(_POSITION_DTYPES[wide]),
                  bits.view(units.SIGNED[size]), total, int(change, 16))


def widen(positions: torch.Tensor) -> torch.Tensor:
    """int64 numbers of positions as a Change holds them; a U64 of 2^63 and more is negative."""
    wide = positions.to(torch.int64)
    return wide if positions.dtype == torch.int64 else wide.bitwise_and_(0xFFFFFFFF)
