"""Runs a model's own loader on tensors without data and records what each copy would have done.

The loader slices, fuses and stacks by views and ends in copies. A view of a meta tensor knows its
offset and strides and costs nothing, so the record is exact, and as small as the number of copies,
whatever the size of the model. Nothing is written meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten
# Moves of a whole tensor to another device or into another layout: the values stay.
_MOVES = {_ATEN._to_copy.default, _ATEN.clone.default, _ATEN.contiguous.default}


@dataclass(frozen=True)
class Copy:
    """One copy of equal shapes. Offsets and strides count elements of the source's tensor and of the
    destination's storage, which `storage` identifies (storage_id)."""

    storage: int
    shape: tuple[int, ...]
    source_offset: int
    source_strides: tuple[int, ...]
    dest_offset: int
    dest_strides: tuple[int, ...]


@dataclass
class Record:
    """copies: by the name of the checkpoint's tensor. unknown: {name: why its copies do not say all}."""

    copies: dict[str, list[Copy]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def storage_id(tensor: torch.Tensor) -> int:
    """Equal for two living tensors if and only if they share a storage."""
    return tensor.untyped_storage()._cdata


def record(model: torch.nn.Module, weights: Iterable[tuple[str, torch.Tensor]]) -> Record:
    """weights: (name, tensor on the meta device) of the whole checkpoint.

    What makes the loader raise is unknown for this reason; then each part of the model is tried by
    itself, so that one tensor does not hide the others.
    """
    weights = list(weights)
    try:
        return _record(model, weights)
    except Exception as error:
        if len(weights) == 1:
            return Record(unknown={weights[0][0]: f"its loader raised {error!r}"})
    whole = Record()
    for part in _parts(weights):
        found = record(model, part)
        whole.copies.update(found.copies)
        whole.unknown.update(found.unknown)
    return whole


def _parts(weights: list) -> Iterable[list]:
    """By layers; one layer by tensors."""
    parts = [list(part) for _, part in itertools.groupby(weights, key=_layer_of)]
    return parts if len(parts) > 1 else [[weight] for weight in weights]


def _layer_of(weight: tuple[str, torch.Tensor]) -> tuple[str, ...]:
    names = weight[0].split(".")
    place = next((i for i, name in enumerate(names) if name.isdigit()), -1)
    return tuple(names[:place + 1])


def _record(model: torch.nn.Module, weights: list) -> Record:
    recorder = _Recorder(model, weights)
    with torch.no_grad(), recorder:
        model.load_weights(iter(weights))
    return recorder.record


class _Recorder(TorchDispatchMode):
    """Writes to the model's storages are recorded in place of being done; all else runs."""

    def __init__(self, model: torch.nn.Module, weights: list):
        super().__init__()
        self.record = Record()
        self._guarded = {storage_id(tensor): tensor for tensor in (
            *model.parameters(), *model.buffers())}
        self._sources = {storage_id(tensor): {name} for name, tensor in weights}
        self._computed: dict[int, str] = {}  # by storage: what made values of its own from sources
        self._alive = list(weights)  # a storage's id is its own only while it lives

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        written = self._written(function, args, kwargs)
        if written is not None and storage_id(written) in self._guarded:
            self._write(function, written, args, kwargs)
            return written
        if function in _MOVES and self._is_move(args[0], kwargs):
            return args[0].view(args[0].shape)
        result = function(*args, **kwargs)
        self._follow(function, args, result)
        return result

    @staticmethod
    def _written(function, args, kwargs):
        for place, argument in enumerate(function._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                if isinstance(value, torch.Tensor):
                    return value
        return None

    def _is_move(self, source, kwargs) -> bool:
        return (storage_id(source) in self._sources
                and kwargs.get("dtype", source.dtype) in (None, source.dtype))

    def _write(self, function, written, args, kwargs) -> None:
        if function is not _ATEN.copy_.default:
            self._spoil(args, f"its loader ends in {function}")
            return
        source = args[1]
        names = self._sources.get(storage_id(source), ())
        reason = self._computed.get(storage_id(source))
        if reason is None and source.dtype != written.dtype:
            reason = f"its loader casts {source.dtype} to {written.dtype}"
        if reason is not None:
            self._spoil([source], reason)
            return
        for name in names:
            source = source.expand(written.shape)
            self.record.copies.setdefault(name, []).append(Copy(
                storage_id(written), tuple(written.shape), source.storage_offset(),
                source.stride(), written.storage_offset(), written.stride()))

    def _spoil(self, tensors, reason: str) -> None:
        for tensor in _tensors(tensors):
            for name in self._sources.get(storage_id(tensor), ()):
                self.record.unknown.setdefault(name, reason)

    def _follow(self, function, args, result) -> None:
        """Remembers of which sources a new storage was made, and by what."""
        names = set().union(*(self._sources.get(storage_id(t), ()) for t in _tensors(args)))
        for tensor in _tensors([result]) if names else ():
            if storage_id(tensor) not in self._sources:
                self._alive.append(tensor)
                self._sources[storage_id(tensor)] = names
                self._computed[storage_id(tensor)] = f"its loader computes with {function}"


def _tensors(values) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
