"""Boxes: how the units of a checkpoint's tensor lie in the engine's memory, as few affine pieces.

A box says that, for all 0 <= i_k < count_k, the unit at source + sum(i_k * source_stride_k) of the
checkpoint's tensor lies at dest + sum(i_k * dest_stride_k) of a storage. A fused matrix is one box
for each of its parts, a slice of columns one box of two dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

Dims = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Box:
    """All numbers count units. dims: (count, source_stride, dest_stride), outermost first.

    Strides of the source are positive and fall, and each is more than the dimensions within it
    reach, so that a position says its indices. make() makes such boxes; nothing else should.
    """

    source: int
    dest: int
    dims: Dims

    @property
    def count(self) -> int:
        return math.prod(count for count, _, _ in self.dims)

    def locate(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(inside, destinations) of positions in the source: bool and int64, [n] as positions is.

        Where inside is false the destination means nothing.
        """
        rest = positions - self.source
        inside = rest >= 0
        places = torch.full_like(positions, self.dest)
        for count, source_stride, dest_stride in self.dims:
            index = rest if source_stride == 1 else rest.div(source_stride, rounding_mode="floor")
            inside &= index < count
            places += index * dest_stride
            rest = rest - index * source_stride
        inside &= rest == 0
        return inside, places

    def locate_all(self, positions: torch.Tensor) -> torch.Tensor:
        """The destinations of positions that are known to be inside."""
        if len(self.dims) == 1 and self.dims[0][1] == self.dims[0][2] == 1:
            return positions + (self.dest - self.source)
        return self.locate(positions)[1]

    def view_source(self, units: torch.Tensor) -> torch.Tensor:
        """The box's part of the checkpoint's tensor, given flat."""
        return units.as_strided(self._counts(), [s for _, s, _ in self.dims], self.source)

    def view_dest(self, units: torch.Tensor) -> torch.Tensor:
        """The same units where they lie in the storage, given flat."""
        return units.as_strided(self._counts(), [d for _, _, d in self.dims], self.dest)

    def _counts(self) -> list[int]:
        return [count for count, _, _ in self.dims]


def make(source: int, dest: int, dims: Dims) -> Box | None:
    """A box with as few dimensions as there can be; None if positions would not say indices."""
    rising = sorted((dim for dim in dims if dim[0] != 1), key=lambda dim: dim[1])
    merged: list[tuple[int, int, int]] = []
    for count, source_stride, dest_stride in rising:
        if merged:
            inner, inner_source, inner_dest = merged[-1]
            if (source_stride, dest_stride) == (inner * inner_source, inner * inner_dest):
                merged[-1] = (inner * count, inner_source, inner_dest)
                continue
        merged.append((count, source_stride, dest_stride))
    reach = 0
    for count, source_stride, _ in merged:
        if source_stride <= reach:
            return None
        reach += (count - 1) * source_stride
    return Box(source, dest, tuple(reversed(merged)) or ((1, 1, 1),))


def factor(source: torch.Tensor, dest: torch.Tensor) -> Box | None:
    """The box that pairs source[j] with dest[j] for all j; None if it takes more than one.

    Both int64, [n], n > 0; in an order in which indices count up, the innermost fastest.
    """
    first, dims = (int(source[0]), int(dest[0])), []
    while len(source) > 1:
        source_steps, dest_steps = source.diff(), dest.diff()
        steps = int(source_steps[0]), int(dest_steps[0])
        breaks = (source_steps != steps[0]) | (dest_steps != steps[1])
        length = int(breaks.int().argmax()) + 1 if bool(breaks.any()) else len(source)
        if len(source) % length:
            return None
        source, dest = source.view(-1, length), dest.view(-1, length)
        if (source.diff() != steps[0]).any() or (dest.diff() != steps[1]).any():
            return None
        dims.append((length, *steps))
        source, dest = source[:, 0], dest[:, 0]
    return make(*first, tuple(dims))
