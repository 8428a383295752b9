"""A simple encoder of patch format 1 (docs/patch-format.md), for test vectors: honest and forged.

A part is built as objects; every stored field has a name, and `forge` of an object replaces fields
by other bytes. Digests are computed over what is forged, unless they are forged themselves.
"""

import hashlib
from dataclasses import dataclass, field

import numpy
import xxhash

from checkpoint import tensor_digest
from patch_oracle import CHUNK_UNITS, unit_bytes
from wire import stored_frame, string, varint

RAW, XOR, DIRECT = 0, 1, 2


def u16(value):
    return value.to_bytes(2, "little")


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


# Payloads


def planes(data, w):
    return b"".join(data[plane::w] for plane in range(w))


def encode_raw(old, new, w, frame=stored_frame):
    return frame(planes(new, w))


def encode_xor(old, new, w, frame=stored_frame):
    return frame(planes(bytes(a ^ b for a, b in zip(old, new)), w))


def encode_direct(old, new, w, **options):
    """options: those of direct_fields."""
    return b"".join(direct_fields(changes_between(old, new, w), **options).values())


def changes_between(old, new, w):
    """[(gap, step)] from one chunk's old bytes to its new ones."""
    old_units, new_units = (numpy.frombuffer(data, f"<u{w}") for data in (old, new))
    changes, next_position = [], 0
    for position in numpy.flatnonzero(old_units != new_units).tolist():
        d = step(int(old_units[position]), int(new_units[position]), w)
        changes.append((position - next_position, d))
        next_position = position + 1
    return changes


def changes_at(steps):
    """[(gap, step)] of {position: step}, in ascending order."""
    positions = list(steps)
    gaps = [b - a - 1 for a, b in zip([-1, *positions], positions)]
    return list(zip(gaps, steps.values()))


def step(old, new, w):
    bits = 8 * w
    d = (order(new, bits) - order(old, bits)) % (1 << bits)
    return d - (1 << bits) if d >> (bits - 1) else d


def order(unit, bits):
    if unit >> (bits - 1):
        return ~unit % (1 << bits)
    return unit | 1 << (bits - 1)


def inverse_order(position, bits):
    if position >> (bits - 1):
        return position ^ 1 << (bits - 1)
    return ~position % (1 << bits)


def bucket(v):
    """(symbol, extra value, extra bits)"""
    if v < 4:
        return v, 0, 0
    low_bits = v.bit_length() - 3
    return 4 * low_bits + (v >> low_bits), v & ((1 << low_bits) - 1), low_bits


class BitWriter:
    def __init__(self):
        self.data, self.value, self.bits = bytearray(), 0, 0

    def put(self, value, bits):
        self.value |= value << self.bits
        self.bits += bits
        while self.bits >= 8:
            self.data.append(self.value & 0xFF)
            self.value >>= 8
            self.bits -= 8

    def finish(self):
        return bytes(self.data) + bytes([self.value] if self.bits else [])


def direct_fields(changes, gap_mode=0, step_mode=0, frame=stored_frame):
    """{field: bytes} of a direct payload for [(gap, step)]."""
    gap_symbols, step_symbols, extra = [], [], BitWriter()
    for gap, d in changes:
        gap_symbol, *gap_extra = bucket(gap)
        step_bucket, *step_extra = bucket(abs(d) - 1)
        gap_symbols.append(gap_symbol)
        step_symbols.append(2 * step_bucket + (d < 0))
        extra.put(*gap_extra)
        extra.put(*step_extra)
    return {
        "count": varint(len(changes)),
        "gaps": symbols(gap_symbols, gap_mode, frame),
        "steps": symbols(step_symbols, step_mode, frame),
        "extra": extra.finish(),
    }


def symbols(values, mode, frame=stored_frame):
    if mode == 0:
        return b"\0" + bytes(values)
    if mode == 1:
        return b"\1" + string(frame(bytes(values)))
    if len(set(values)) != 1:
        raise ValueError(f"mode 2 cannot hold {set(values)}")
    return b"\2" + bytes(values[:1])


# Parts


@dataclass
class Tensor:
    name: bytes
    dtype: int
    dims: tuple
    encoding: int
    changed: int
    old_digest: bytes
    new_digest: bytes
    payloads: list  # one per chunk of the range; b"" for an unchanged chunk
    first_chunk: int = 0
    forge: dict = field(default_factory=dict)

    def fields(self, previous_name):
        shared = 0
        while shared < min(len(self.name), len(previous_name)):
            if self.name[shared] != previous_name[shared]:
                break
            shared += 1
        return {
            "shared": varint(shared),
            "suffix": string(self.name[shared:]),
            "dtype": bytes([self.dtype]),
            "rank": varint(len(self.dims)),
            "dims": b"".join(varint(dim) for dim in self.dims),
            "encoding": bytes([self.encoding]),
            "first_chunk": varint(self.first_chunk),
            "chunk_count": varint(len(self.payloads)),
            "changed": varint(self.changed),
            "old_digest": self.old_digest,
            "new_digest": self.new_digest,
            "chunks": b"".join(chunk_entry(payload) for payload in self.payloads),
        } | self.forge


def chunk_entry(payload):
    if not payload:
        return varint(0)
    return varint(len(payload)) + u64(xxhash.xxh3_64_intdigest(payload))


@dataclass
class File:
    path: bytes
    kind: int
    content: bytes = b""
    frame: object = stored_frame
    forge: dict = field(default_factory=dict)  # of the fields, or "payload"

    def payload(self):
        if self.kind == 1:
            return b""
        return self.forge.get("payload", self.frame(self.content))

    def fields(self):
        fields = {"path": string(self.path), "kind": bytes([self.kind])}
        if self.kind != 1:
            fields |= {
                "raw_bytes": varint(len(self.content)),
                "bytes": varint(len(self.payload())),
                "sha256": hashlib.sha256(self.content).digest(),
            }
        return fields | {key: data for key, data in self.forge.items() if key != "payload"}


@dataclass
class Part:
    tensors: list
    files: list
    base: bytes = bytes(32)  # stated if it or the target is not zero
    target: bytes = bytes(32)
    frame: object = stored_frame
    forge: dict = field(default_factory=dict)  # of the header's fields, "tables", "payloads" ...
    forge_raw_tables: object = None  # or of the tables before compression: a function

    def raw_tables(self):
        out, previous_name = [], b""
        for tensor in self.tensors:
            out += tensor.fields(previous_name).values()
            previous_name = tensor.name
        for file in self.files:
            out += file.fields().values()
        raw = b"".join(out)
        return self.forge_raw_tables(raw) if self.forge_raw_tables else raw

    def fields(self):
        raw = self.raw_tables()
        tables = self.forge.get("tables", self.frame(raw))
        payloads = [payload for tensor in self.tensors for payload in tensor.payloads]
        payloads = b"".join(payloads + [file.payload() for file in self.files])
        header = {
            "magic": b"ISTHMUS\x01",
            "major_version": u16(1),
            "minor_version": u16(0),
            "flags": u32(self.base + self.target != bytes(64)),
            "tables_bytes": u32(len(tables)),
            "tables_raw_bytes": u32(len(raw)),
            "tensor_count": u32(len(self.tensors)),
            "file_count": u32(len(self.files)),
            "payload_bytes": u64(len(payloads)),
            "base": self.base,
            "target": self.target,
            "reserved": bytes(8),
        }
        header |= {key: data for key, data in self.forge.items() if key in header}
        digest = xxhash.xxh3_128_digest(b"".join(header.values()) + tables)
        fields = header | {"digest": digest, "tables": tables, "payloads": payloads}
        return fields | self.forge

    def write(self):
        return b"".join(self.fields().values())


def diff(old, new, choose, stated=True):
    """The part that makes checkpoint `new` of `old`; both hold the same tensors in the same places.

    choose(name) -> (encoding id, function of old bytes, new bytes and w that makes a payload)
    """
    tensors = []
    for name, tensor in sorted(new.tensors.items()):
        before, after = old.data(old.tensors[name]), new.data(tensor)
        if before != after:
            tensors.append(diff_tensor(name, tensor, before, after, choose(name.decode())))
    files = []
    for path in sorted(old.files.keys() | new.files.keys(), key=str.encode):
        before, after = (side.shards.get(path, side.files.get(path)) for side in (old, new))
        if after is None:
            files.append(File(path.encode(), 1))
        elif before != after:
            files.append(File(path.encode(), 2 if path in new.shards else 0, after))
    part = Part(tensors, files)
    if stated:
        part.base, part.target = old.version(), new.version()
    return part


def diff_tensor(name, tensor, before, after, choice):
    encoding, encode = choice
    w = unit_bytes(tensor.dtype)
    payloads, changed = [], 0
    for at in range(0, len(before), CHUNK_UNITS * w):
        a, b = (side[at : at + CHUNK_UNITS * w] for side in (before, after))
        payloads.append(encode(a, b, w) if a != b else b"")
        changed += len(changes_between(a, b, w)) if a != b else 0
    first_chunk = next(i for i, payload in enumerate(payloads) if payload)
    while not payloads[-1]:
        payloads.pop()
    digests = tensor_digest(before), tensor_digest(after)
    return Tensor(name, tensor.dtype, tensor.dims, encoding, changed, *digests,
                  payloads[first_chunk:], first_chunk)  # fmt: skip
