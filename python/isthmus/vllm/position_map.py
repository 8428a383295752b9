"""The map from a checkpoint's tensors to the engine's memory: learned once, when the engine starts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import torch

from . import boxes, recording, repack, units
from .boxes import Box
from .checkpoint import DTYPES, Checkpoint


@dataclass(frozen=True)
class Place:
    """A box and the storage that it lies in: flat units (units.of_storage), to read and to write."""

    box: Box
    storage: torch.Tensor
    parameter: str  # one name of what lies there, for messages and proofs


@dataclass
class PositionMap:
    """What this worker holds of each tensor.

    places: of each tensor whose map closes, all its places here; several if it is held more than
    once, none if other workers hold it or no one does. open: {name: reason} of all other tensors: a
    change of them must be refused.
    """

    places: dict[str, list[Place]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)

    def parameters(self) -> set[str]:
        return {place.parameter for places in self.places.values() for place in places}

    def reopen(self, parameter: str, reason: str) -> None:
        """Lists all tensors with a place in this parameter as open."""
        for name, places in list(self.places.items()):
            if any(place.parameter == parameter for place in places):
                del self.places[name]
                self.open[name] = reason


def learn(model: torch.nn.Module, checkpoint: Checkpoint) -> PositionMap:
    """Runs the model's loader without data (recording.py). The weights stay as they are."""
    packed = repack.packed_weights(model)
    with repack.loadable(packed) as stand_ins:
        record = recording.record(model, checkpoint.without_data())
        targets = _targets(model, stand_ins)
    result = PositionMap()
    with contextlib.ExitStack() as cleanup:
        for weight in packed:
            cleanup.callback(weight.packing.forget)
        for name, (dtype, _) in checkpoint.layout.items():
            places = _places(name, dtype, record, targets)
            if isinstance(places, str):
                result.open[name] = places
            else:
                result.places[name] = places
    return result


@dataclass(frozen=True)
class _Target:
    parameter: str
    storage: torch.Tensor
    packed: repack.Packed | None


def _targets(model: torch.nn.Module, stand_ins: dict[int, repack.Packed]) -> dict[int, _Target]:
    """By the storage that a copy writes to."""
    targets: dict[int, _Target] = {}
    for parameter, tensor in (*model.named_parameters(), *model.named_buffers()):
        key = recording.storage_id(tensor)
        packed = stand_ins.get(key)
        runtime = packed.runtime if packed else tensor
        if key not in targets and runtime.numel() and not runtime.is_meta:
            targets[key] = _Target(parameter, units.of_storage(runtime), packed)
    return targets


def _places(name: str, dtype: str, record: recording.Record,
            targets: dict[int, _Target]) -> list[Place] | str:
    """All places of a tensor, or why they are not known."""
    if dtype not in DTYPES:
        return f"dtype {dtype} is unknown here"
    if name in record.unknown:
        return record.unknown[name]
    places = []
    for copy in record.copies.get(name, ()):
        if 0 in copy.shape:
            continue
        target = targets.get(copy.storage)
        if target is None:
            return "its loader writes into memory that is none of the model's parameters"
        box = _box(copy, DTYPES[dtype].itemsize)
        if box is not None and target.packed is not None:
            box = target.packed.packing.reorder(box)
        if box is None:
            return f"its places in {target.parameter} are not regular"
        places.append(Place(box, target.storage, target.parameter))
    return places


def _box(copy: recording.Copy, itemsize: int) -> Box | None:
    """In units: an element of 64 bits is two, so there is one more dimension within it."""
    each = max(itemsize // 4, 1)
    dims = [(count, source * each, dest * each) for count, source, dest in
            zip(copy.shape, copy.source_strides, copy.dest_strides)]
    return boxes.make(copy.source_offset * each, copy.dest_offset * each,
                      (*dims, (each, 1, 1)))
