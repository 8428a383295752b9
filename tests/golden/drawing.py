"""What the vectors' checkpoints are made of, and how their chunks are encoded."""

import hashlib
from functools import partial

import numpy
from checkpoint import DTYPE_IDS, DTYPES, INDEX, Checkpoint, data_bytes, make_index, make_shard
from layout import unit_bytes
from patch_writer import diff, encode_raw, encode_xor
from sparse import keys_of, split_elements
from sparse_writer import encode_sparse, stepped_by

SHARD = "model.safetensors"


def noise(label, size):
    """Bytes that look random and depend on the label only."""
    return hashlib.shake_256(label.encode()).digest(size)


class Draw:
    """Choices that look random and depend on the label only, whatever Python's version."""

    def __init__(self, label):
        self.label, self.drawn = label, 0

    def below(self, limit):
        self.drawn += 1
        return int.from_bytes(noise(f"{self.label} {self.drawn}", 8), "little") % limit

    def choice(self, items):
        return items[self.below(len(items))]

    def sample(self, limit, count):
        """`count` numbers below the limit, ascending."""
        order = sorted(range(limit), key=lambda i: noise(f"{self.label} {self.drawn} {i}", 8))
        self.drawn += 1
        return sorted(order[:count])


def tensor(dtype, dims, label):
    return (dtype, dims, noise(label, data_bytes(dtype, dims)))


def pack(values, w):
    return b"".join(value.to_bytes(w, "little") for value in values)


def changed(entry, values, w):
    """The tensor with other units: {unit index: value}."""
    dtype, dims, data = entry
    out = bytearray(data)
    for index, value in values.items():
        assert out[index * w : (index + 1) * w] != pack([value], w), "no change"
        out[index * w : (index + 1) * w] = pack([value], w)
    return (dtype, dims, bytes(out))


def stepped(entry, steps, w):
    """The tensor with other units: {unit index: step as the format defines it}."""
    dtype, dims, data = entry
    out = bytearray(data)
    for index, d in steps.items():
        here = slice(index * w, (index + 1) * w)
        out[here] = pack([stepped_by(int.from_bytes(out[here], "little"), d, 8 * w)], w)
    return (dtype, dims, bytes(out))


def nudged(entry, indices, w, by=1):
    return stepped(entry, {index: by for index in indices}, w)


def single(tensors, others=None, metadata=None):
    """A checkpoint of one shard."""
    return Checkpoint({SHARD: make_shard(tensors, metadata)} | (others or {}))


def sharded(shards):
    files = {file: make_shard(tensors) for file, tensors in shards.items()}
    return Checkpoint(files | {INDEX: make_index(shards)})


def with_part(old, new, choose, **options):
    return old, new, diff(old, new, choose, **options)


# For `choose` of diff: which encoder a chunk has


def all_raw(chunk):
    return encode_raw


def all_xor(chunk):
    return encode_xor


def all_direct(**options):
    return lambda chunk: partial(encode_sparse, **options)


def all_context(*thresholds, **options):
    return lambda chunk: partial(encode_sparse, thresholds=thresholds, **options)


def by_quantiles(classes, **options):
    """Context with classes of about equal size."""

    def encode(old, new, dtype):
        elements = options.get("elements", 0)
        keys = numpy.sort(keys_of(split_elements(old, dtype, elements), dtype, elements))
        at = [len(keys) * i // classes for i in range(1, classes)]
        thresholds = tuple(sorted({int(keys[i]) for i in at} - {0}))
        return encode_sparse(old, new, dtype, thresholds=thresholds, **options)

    return lambda chunk: encode


def by_dtype(**encoders):
    """{dtype name: encoder}"""
    return lambda chunk: encoders[DTYPES[chunk.dtype][0]]


def units_in(dtype_name, dims):
    """(units, bytes of a unit)"""
    w = unit_bytes(DTYPE_IDS[dtype_name])
    return data_bytes(dtype_name, dims) // w, w
