"""Units, chunks and position-keyed sums: docs/patch-format.md, section 1."""

import math
import re
from dataclasses import dataclass, field

import numpy

from checkpoint import DTYPES

CHUNK_UNITS = 2**20


def unit_bytes(dtype):
    bits = DTYPES[dtype][1]
    return 1 if bits <= 8 else 2 if bits == 16 else 4


def units_of(dtype, dims):
    return math.prod(dims) * DTYPES[dtype][1] // 8 // unit_bytes(dtype)


@dataclass
class Piece:
    """Consecutive units of a tensor."""

    name: bytes
    first: int
    units: int


@dataclass
class Chunk:
    dtype: int
    pieces: list = field(default_factory=list)

    def units(self):
        return sum(piece.units for piece in self.pieces)

    def bytes(self):
        return self.units() * unit_bytes(self.dtype)


def family(name):
    return re.sub(rb"[0-9]", b"", name)


def chunks_of(tensors):
    """The chunks, in the order of their numbers, of {name: what has a dtype and dims}."""
    order = sorted(tensors, key=lambda name: (tensors[name].dtype, family(name), name))
    sizes = {name: units_of(tensors[name].dtype, tensors[name].dims) for name in order}
    chunks = []
    for name in (name for name in order if sizes[name] >= CHUNK_UNITS):
        for first in range(0, sizes[name], CHUNK_UNITS):
            piece = Piece(name, first, min(CHUNK_UNITS, sizes[name] - first))
            chunks.append(Chunk(tensors[name].dtype, [piece]))
    pools = []
    for name in (name for name in order if 0 < sizes[name] < CHUNK_UNITS):
        dtype, last = tensors[name].dtype, pools[-1] if pools else None
        joins = last and last.dtype == dtype and last.units() + sizes[name] <= CHUNK_UNITS
        if not joins:
            pools.append(Chunk(dtype))
        pools[-1].pieces.append(Piece(name, 0, sizes[name]))
    return chunks + pools


def mix(indices):
    """mix(i) for an array of i."""
    z = (indices.astype(numpy.uint64) + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    return z ^ z >> numpy.uint64(31) | numpy.uint64(1)


def position_keyed_sum(data, w):
    units = numpy.frombuffer(data, f"<u{w}").astype(numpy.uint64)
    return int((mix(numpy.arange(len(units))) * units).sum(dtype=numpy.uint64))


def sum_change(old, new, w):
    """By how much the sum of a tensor changes, modulo 2^64."""
    if old == new:
        return 0
    return (position_keyed_sum(new, w) - position_keyed_sum(old, w)) % 2**64
