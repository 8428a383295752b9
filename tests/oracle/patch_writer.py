"""A simple encoder of patch format 1 (docs/patch-format.md), for test vectors: honest and forged.

A part is built as objects; every stored field has a name, and `forge` of an object replaces fields
by other bytes. Digests are computed over what is forged, unless they are forged themselves.
sparse_writer.py makes the payloads of the encodings direct and context.
"""

import hashlib
from dataclasses import dataclass, field

import numpy
import xxhash

from layout import chunks_of, sum_change, unit_bytes
from wire import stored_frame, string, varint

RAW, XOR, DIRECT, CONTEXT = range(4)


def u16(value):
    return value.to_bytes(2, "little")


def u32(value):
    return value.to_bytes(4, "little")


def u64(value):
    return value.to_bytes(8, "little")


# Payloads. Each encoder: (old bytes of the chunk, new bytes, dtype) -> (encoding, model, payload)


def planes(data, w):
    return b"".join(data[plane::w] for plane in range(w))


def difference(old, new):
    return bytes(a ^ b for a, b in zip(old, new))


def encode_raw(old, new, dtype, frame=stored_frame):
    return RAW, None, frame(planes(new, unit_bytes(dtype)))


def encode_xor(old, new, dtype, frame=stored_frame):
    return XOR, None, frame(planes(difference(old, new), unit_bytes(dtype)))


# Parts


def replaced(fields, forge):
    return fields | {name: data for name, data in forge.items() if name in fields}


@dataclass
class Tensor:
    name: bytes
    dtype: int
    dims: tuple
    changed: int
    sum_change: int
    forge: dict = field(default_factory=dict)  # of the fields, or "check"

    def fields(self, previous_name):
        shared = 0
        while shared < min(len(self.name), len(previous_name)):
            if self.name[shared] != previous_name[shared]:
                break
            shared += 1
        fields = {
            "shared": varint(shared),
            "suffix": string(self.name[shared:]),
            "dtype": bytes([self.dtype]),
            "rank": varint(len(self.dims)),
            "dims": b"".join(varint(dim) for dim in self.dims),
            "changed": varint(self.changed),
        }
        return replaced(fields, self.forge)

    def check(self):
        return self.forge.get("check", u64(self.sum_change % 2**64))


@dataclass
class Chunk:
    number: int
    encoding: int
    model: int | None  # an index
    payload: bytes
    forge: dict = field(default_factory=dict)  # of the fields, or "check"

    def fields(self, previous_number):
        fields = {
            "skipped": varint(self.number - previous_number - 1),
            "encoding": bytes([self.encoding]),
            "model": b"" if self.model is None else varint(self.model),
            "bytes": varint(len(self.payload)),
        }
        return replaced(fields, self.forge)

    def check(self):
        return self.forge.get("check", u32(xxhash.xxh3_64_intdigest(self.payload) % 2**32))


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
        return replaced(fields, self.forge)


@dataclass
class Part:
    """models: what has fields(), such as sparse_writer.Model."""

    tensors: list
    models: list
    chunks: list
    files: list
    base: bytes = bytes(32)  # stated if it or the target is not zero
    target: bytes = bytes(32)
    frame: object = stored_frame
    forge: dict = field(default_factory=dict)  # of the header's fields, "tables", "payloads" ...
    forge_raw_tables: object = None  # or of the tables before compression: a function

    def raw_tables(self):
        out, previous_name, previous_number = [], b"", -1
        for tensor in self.tensors:
            out += tensor.fields(previous_name).values()
            previous_name = tensor.name
        for model in self.models:
            out += model.fields().values()
        for chunk in self.chunks:
            out += chunk.fields(previous_number).values()
            previous_number = chunk.number
        for file in self.files:
            out += file.fields().values()
        raw = b"".join(out)
        return self.forge_raw_tables(raw) if self.forge_raw_tables else raw

    def fields(self):
        raw = self.raw_tables()
        tables = self.forge.get("tables", self.frame(raw))
        checks = b"".join(entry.check() for entry in self.tensors + self.chunks)
        checks = self.forge.get("checks", checks)
        payloads = [chunk.payload for chunk in self.chunks]
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
            "chunk_count": u32(len(self.chunks)),
            "model_count": u32(len(self.models)),
        }
        header = replaced(header, self.forge)
        digest = xxhash.xxh3_128_digest(b"".join(header.values()) + tables + checks)
        rest = {"digest": digest, "tables": tables, "checks": checks, "payloads": payloads}
        return replaced(header | rest, self.forge)

    def write(self):
        return b"".join(self.fields().values())


# Differences


def diff(old, new, choose, stated=True):
    """The part that makes checkpoint `new` of `old`; both hold the same tensors in the same places.

    choose(layout.Chunk) -> an encoder, for each chunk that changes
    """
    part = Part([], [], [], diff_files(old, new))
    for name, tensor in sorted(new.tensors.items()):
        before, after = old.data(old.tensors[name]), new.data(tensor)
        if before != after:
            w = unit_bytes(tensor.dtype)
            units = [numpy.frombuffer(data, f"<u{w}") for data in (before, after)]
            changed = int((units[0] != units[1]).sum())
            part.tensors.append(Tensor(name, tensor.dtype, tensor.dims, changed,
                                       sum_change(before, after, w)))  # fmt: skip
    for number, chunk in enumerate(chunks_of(new.tensors)):
        before, after = (chunk_bytes(side, chunk) for side in (old, new))
        if before != after:
            encoding, model, payload = choose(chunk)(before, after, chunk.dtype)
            index = None if model is None else index_of(part.models, model)
            part.chunks.append(Chunk(number, encoding, index, payload))
    if stated:
        part.base, part.target = old.version(), new.version()
    return part


def diff_files(old, new):
    files = []
    for path in sorted(old.files.keys() | new.files.keys(), key=str.encode):
        before, after = (side.shards.get(path, side.files.get(path)) for side in (old, new))
        if after is None:
            files.append(File(path.encode(), 1))
        elif before != after:
            files.append(File(path.encode(), 2 if path in new.shards else 0, after))
    return files


def chunk_bytes(checkpoint, chunk):
    out, w = [], unit_bytes(chunk.dtype)
    for piece in chunk.pieces:
        data = checkpoint.data(checkpoint.tensors[piece.name])
        out.append(data[piece.first * w : (piece.first + piece.units) * w])
    return b"".join(out)


def index_of(models, model):
    """Models that are the same object are stored once."""
    for index, known in enumerate(models):
        if known is model:
            return index
    models.append(model)
    return len(models) - 1
