"""Writes what changed, and takes it back: O(changed) in time and memory, on integer views.

All that can be wrong is found before the first write. Memory: per changed unit that this worker
holds 8 bytes for its place and its old bits, and where boxes are slices a copy of its new bits; a
slice's working memory does not grow with the change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from . import changes as changes_file
from . import threads, units
from .boxes import Box
from .changes import Change, Changes
from .errors import TransferError
from .holdings import Held

# Units at a time. On a CPU, small enough that a slice stays in cache and torch does not wake its own
# threads for it; on an accelerator each slice costs launches.
SLICE_UNITS = {"cpu": 1 << 14}
ACCELERATOR_SLICE_UNITS = 1 << 20


@dataclass(frozen=True)
class _Write:
    """At most a slice: places in a storage, its old bits there and the new ones."""

    storage: torch.Tensor
    places: torch.Tensor
    old: torch.Tensor
    new: torch.Tensor


class Update:
    """One change of the weights. Nobody else may write to them from the first prepare() until it is
    dropped.

    prepare() reads, apply() writes, undo() puts the old bits back, as often as need be. If apply()
    raises, nothing remains written. prepare() may run in another thread while the engine computes
    with the weights; what it returns it remembers.
    """

    def __init__(self, held: Mapping[str, Held], changes: Changes, thread_count: int = 1):
        self.target = changes.target
        self._held, self._changes, self._threads = held, changes, thread_count
        self._writes: list[_Write] = []
        self._sums: dict[str, int] | None = None

    def prepare(self) -> dict[str, int]:
        """Checks the file against the weights; {tensor: this worker's part of the change of its sum,
        modulo 2^64}. Raises if the file is damaged or for another model."""
        if self._sums is not None:
            return self._sums
        for name, change in self._changes.tensors.items():
            self._check_tensor(name, change)
        slices = list(self._slices())
        sums = dict.fromkeys(self._changes.tensors, 0)
        for (name, *_), (part, writes) in zip(slices, self._run(self._prepare_slice, slices)):
            sums[name] = (sums[name] + part) % (1 << 64)
            self._writes += writes
        self._sums = sums
        return sums

    def check_sums(self, parts: list[dict[str, int]]) -> None:
        """parts: what prepare() returned, of all workers."""
        for name, change in self._changes.tensors.items():
            found = sum(part[name] for part in parts) % (1 << 64)
            if found != change.sum_change and not self._held[name].left_out:
                raise TransferError(
                    "corrupt", f"{name}: its sum would change by {found:016x}, not by "
                    f"{change.sum_change:016x}: the engine does not hold the base, or the file is "
                    "damaged")

    def apply(self) -> None:
        try:
            for _ in self._run(_write_new, self._writes):
                pass
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        for write in self._writes:
            write.storage.scatter_(0, write.places, write.old)

    def _check_tensor(self, name: str, change: Change) -> None:
        held = self._held[name]
        if (change.dtype, change.shape) != (held.dtype, held.shape):
            raise TransferError(
                "invalid", f"{name}: the file has {change.dtype} {list(change.shape)}, the engine "
                f"{held.dtype} {list(held.shape)}")

    def _slices(self) -> Iterator[tuple[str, int, int]]:
        for name, change in self._changes.tensors.items():
            places = self._held[name].places
            device = places[0][0].storage.device.type if places else "cpu"
            step = SLICE_UNITS.get(device, ACCELERATOR_SLICE_UNITS)
            for begin in range(0, len(change), step):
                yield name, begin, min(begin + step, len(change))

    def _prepare_slice(self, task: tuple[str, int, int]) -> tuple[int, list[_Write]]:
        name, begin, end = task
        change, held = self._changes.tensors[name], self._held[name]
        positions = _checked(name, change, begin, end)
        bits, total, writes = change.bits[begin:end], 0, []
        for place, counted in held.places:
            positions, bits = positions.to(place.storage.device), bits.to(place.storage.device)
            write, theirs = _read(place.box, place.storage, held.units, positions, bits)
            if counted:
                step = units.as_numbers(write.new).sub_(units.as_numbers(write.old))
                total += units.sum_of(theirs, step)
            writes.append(write)
        return total, writes

    def _run(self, function, tasks: list) -> Iterator:
        """function of each task, in order; by several threads if that may pay."""
        if self._threads == 1 or len(tasks) < 2 * self._threads:
            return map(function, tasks)
        return self._run_threads(function, tasks)

    def _run_threads(self, function, tasks: list) -> Iterator:
        with threads.pool(self._threads) as pool:
            shares = [tasks[i * len(tasks) // self._threads:(i + 1) * len(tasks) // self._threads]
                      for i in range(self._threads)]
            done = pool.map(lambda share: [function(task) for task in share], shares)
            return itertools.chain.from_iterable(list(done))


def _checked(name: str, change: Change, begin: int, end: int) -> torch.Tensor:
    """A slice's positions; raises if they do not ascend from the one before it, or lie outside."""
    positions = changes_file.widen(change.positions[max(begin - 1, 0):end])
    inside = 0 <= int(positions[0]) and int(positions[-1]) < change.units
    if not inside or not bool((positions[1:] > positions[:-1]).all()):
        raise TransferError("corrupt", f"{name}: positions {begin} to {end} of the file do not "
                            f"ascend or are not below {change.units}")
    return positions[1:] if begin else positions


def _read(box: Box, storage: torch.Tensor, total: int, positions: torch.Tensor,
          bits: torch.Tensor) -> tuple[_Write, torch.Tensor]:
    """(the write of what lies in the box, its positions), with the old bits."""
    if box.count == total:
        places = box.locate_all(positions)
    else:
        inside, places = box.locate(positions)
        places, positions, bits = places[inside], positions[inside], bits[inside]
    return _Write(storage, places, storage.index_select(0, places), bits), positions


def _write_new(write: _Write) -> None:
    write.storage.scatter_(0, write.places, write.new)
