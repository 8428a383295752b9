"""Tensors on a device into host memory, through pinned memory, two pieces at a time: while one crosses, the one
before is copied on by all threads. Not thread-safe."""

from __future__ import annotations

import sys
from typing import Any

from isthmus import _core
from isthmus._sources import PIECE_BYTES


def copy(bits: Any, memory: _core.HostMemory, offset: int) -> None:
    """Copies a torch tensor of integers (any strides) to `offset`, row-major. Takes two pinned pieces of host
    memory, kept for the next tensor, and for a tensor with gaps a piece on the device."""
    for part in _contiguous_parts(bits):
        flat = part.reshape(-1).view(sys.modules["torch"].uint8)
        if bits.device.type == "cuda":
            _copy_pinned(flat, memory, offset)
        else:
            _copy_unpinned(flat, memory, offset)
        offset += flat.numel()


def _contiguous_parts(bits: Any) -> list[Any]:
    if bits.is_contiguous():
        return [bits]
    # One view for each block of rows, gathered when its turn comes.
    row_bytes = max(1, bits[0].numel() * bits.element_size())
    rows = max(1, PIECE_BYTES // row_bytes)
    return [bits[begin : begin + rows] for begin in range(0, bits.shape[0], rows)]


def _copy_unpinned(flat: Any, memory: _core.HostMemory, offset: int) -> None:
    for begin in range(0, flat.numel(), PIECE_BYTES):
        piece = flat[begin : begin + PIECE_BYTES].cpu()
        memory.copy([(offset + begin, piece.data_ptr(), piece.numel())])


class Staging:
    """Two pieces of pinned memory, torch tensors of bytes, and for each an event (torch.cuda.Event) that tells when the
    copy into it is over."""

    def __init__(self, pieces: list[Any], events: list[Any]) -> None:
        self._pieces = pieces
        self._events = events

    @classmethod
    def pinned(cls) -> Staging:
        torch = sys.modules["torch"]
        pieces = [torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        return cls(pieces, [torch.cuda.Event() for _ in pieces])

    def copy(self, flat: Any, memory: _core.HostMemory, offset: int) -> None:
        """Copies a contiguous tensor of bytes on the current device to `offset`."""
        size = self._pieces[0].numel()
        under_way: list[tuple[int, int, int]] = []  # (slot, offset, bytes), oldest first
        for number, begin in enumerate(range(0, flat.numel(), size)):
            if len(under_way) == len(self._pieces):
                self._finish(under_way.pop(0), memory)
            slot = number % len(self._pieces)
            piece = flat[begin : begin + size]
            self._pieces[slot][: piece.numel()].copy_(piece, non_blocking=True)
            self._events[slot].record()
            under_way.append((slot, offset + begin, piece.numel()))
        for started in under_way:
            self._finish(started, memory)

    def _finish(self, started: tuple[int, int, int], memory: _core.HostMemory) -> None:
        slot, offset, size = started
        self._events[slot].synchronize()
        memory.copy([(offset, self._pieces[slot].data_ptr(), size)])


_stagings: dict[Any, Staging] = {}


def _copy_pinned(flat: Any, memory: _core.HostMemory, offset: int) -> None:
    with sys.modules["torch"].cuda.device(flat.device):
        if flat.device not in _stagings:
            _stagings[flat.device] = Staging.pinned()
        _stagings[flat.device].copy(flat, memory, offset)
