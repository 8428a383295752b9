#!/usr/bin/env python3
"""A slow, readable decoder of patch format 1: the oracle that tests compare the product with.

Written from docs/patch-format.md alone and laid out like it; "§" in comments means its sections.
It holds whole checkpoints in memory. Needs python3-zstandard, python3-xxhash, python3-numpy.

  patch_oracle.py apply PART... CHECKPOINT OUT   applies the parts of one patch: a new directory
  patch_oracle.py inspect PART                   what the part says, as JSON
  patch_oracle.py table CHECKPOINT               the version digest of a checkpoint

Exit codes: 0 done, 2 wrong usage or a newer format, 3 not found, 5 corrupt.
"""

import hashlib
import json
import math
import pathlib
import struct
import sys
from dataclasses import dataclass, field

import numpy
import xxhash

from checkpoint import DTYPES  # §5
from checkpoint import Checkpoint, parse_header, read_checkpoint, write_files
from layout import chunks_of, sum_change, unit_bytes, units_of  # §1
from models import Model, Table, read_model  # §3.4, §3.5
from sparse import decode_sparse  # §3.3
from wire import Reader, Refused, check, decompress

# §2 Layout of a part


@dataclass
class TensorEntry:
    name: bytes
    dtype: int
    dims: tuple
    changed: int
    sum_change: int = 0


@dataclass
class ChunkEntry:
    number: int
    encoding: int
    model: Model | None
    payload_bytes: int
    digest: int = 0
    payload: bytes = b""


@dataclass
class FileEntry:
    path: str
    kind: int
    raw_bytes: int = 0
    payload_bytes: int = 0
    sha256: bytes = b""
    payload: bytes = b""


@dataclass
class Part:
    major: int
    minor: int
    stated: bool
    base: bytes
    target: bytes
    tensors: list = field(default_factory=list)
    models: list = field(default_factory=list)
    chunks: list = field(default_factory=list)
    files: list = field(default_factory=list)


HEADER = struct.Struct("<8sHHIIIIIQ32s32sII16s")


def read_part(data):
    """The part in `data`: Refused unless header and tables are in order. Decodes no payload."""
    check(len(data) >= HEADER.size, f"part: {len(data)} bytes, at least {HEADER.size} wanted")
    (magic, major, minor, flags, tables_bytes, tables_raw_bytes, tensor_count, file_count,
     payload_bytes, base, target, chunk_count, model_count,
     digest) = HEADER.unpack_from(data)  # fmt: skip
    checks_at = HEADER.size + tables_bytes
    payloads_at = checks_at + 8 * tensor_count + 4 * chunk_count
    check(magic == b"ISTHMUS\x01", f"magic: {magic.hex()}")
    check(major == 1, f"major version {major}, this is a decoder of 1", "newer")
    check(flags in (0, 1), f"flags: {flags:#x}, only bit 0 may be set")
    check(tables_raw_bytes <= 2**28, f"tables_raw_bytes: {tables_raw_bytes}")
    check(tensor_count <= 2**22, f"tensor_count: {tensor_count}")
    check(file_count <= 2**16, f"file_count: {file_count}")
    check(payload_bytes <= 2**46, f"payload_bytes: {payload_bytes}")
    check(chunk_count <= 2**24, f"chunk_count: {chunk_count}")
    check(model_count <= 2**16, f"model_count: {model_count}")
    check(len(data) == payloads_at + payload_bytes,
          f"part: {len(data)} bytes, the header says {payloads_at + payload_bytes}")  # fmt: skip
    hashed = data[:112] + data[HEADER.size : payloads_at]
    check(xxhash.xxh3_128_digest(hashed) == digest, "digest of header, tables and checks")
    part = Part(major, minor, flags == 1, base, target)
    check(part.stated or base + target == bytes(64), "version digests that the flags do not state")

    tables = Reader(decompress(data[HEADER.size : checks_at], tables_raw_bytes, "tables"), "tables")
    read_tables(part, tables, tensor_count, model_count, chunk_count, file_count)
    read_checks(part, Reader(data[checks_at:payloads_at], "checks"))
    holders = part.chunks + part.files
    total = sum(holder.payload_bytes for holder in holders)
    check(total == payload_bytes, f"payloads: {total} bytes, the header says {payload_bytes}")
    payloads = Reader(data[payloads_at:], "payloads")
    for holder in holders:
        holder.payload = payloads.take(holder.payload_bytes)
    return part


# §2.1 Tables


def read_tables(part, tables, tensor_count, model_count, chunk_count, file_count):
    names_bytes = 0
    for _ in range(tensor_count):
        previous_name = part.tensors[-1].name if part.tensors else b""
        part.tensors.append(read_tensor_entry(tables, previous_name))
        names_bytes += len(part.tensors[-1].name)
        check(names_bytes <= 2**28, f"tensor names: {names_bytes} bytes together")
    for _ in range(model_count):
        part.models.append(read_model(tables))
    for _ in range(chunk_count):
        previous_number = part.chunks[-1].number if part.chunks else -1
        part.chunks.append(read_chunk_entry(tables, previous_number, part.models))
    for _ in range(file_count):
        part.files.append(read_file_entry(tables))
    check(tables.left() == 0, f"tables: {tables.left()} bytes after the last entry")
    keys = [file.path.encode() for file in part.files]
    check(all(a < b for a, b in zip(keys, keys[1:])), "file entries are not strictly ascending")


def read_tensor_entry(tables, previous_name):
    shared, suffix = tables.varint(), tables.string()
    check(shared <= len(previous_name), f"shared: {shared}, the name before is shorter")
    name = previous_name[:shared] + suffix
    check_text(name, "tensor")
    check(name != b"__metadata__", "tensor __metadata__")
    check(previous_name < name, f"tensor {name} is not after {previous_name}")

    dtype, rank = tables.u8(), tables.varint()
    check(dtype in DTYPES, f"tensor {name}: dtype {dtype}")
    check(rank <= 32, f"tensor {name}: rank {rank}")
    dims = tuple(tables.varint() for _ in range(rank))
    bits = math.prod(dims) * DTYPES[dtype][1]
    check(bits % 8 == 0 and bits < 2**63, f"tensor {name}: {bits} bits")
    changed, units = tables.varint(), units_of(dtype, dims)
    check(1 <= changed <= units, f"tensor {name}: changed {changed} of {units} units")
    return TensorEntry(name, dtype, dims, changed)


def check_text(data, what):
    """A name or path: 1 to 4096 bytes of UTF-8 without control characters."""
    check(1 <= len(data) <= 4096, f"{what}: {len(data)} bytes")
    check(all(byte >= 0x20 and byte != 0x7F for byte in data), f"{what} {data}: control character")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Refused("corrupt", f"{what} {data}: not UTF-8") from error


def read_chunk_entry(tables, previous_number, models):
    number = previous_number + 1 + tables.varint()
    check(number < 2**40, f"chunk {number}")
    encoding, model = tables.u8(), None
    check(encoding in DECODERS, f"chunk {number}: encoding {encoding}", "newer")
    if encoding in (DIRECT, CONTEXT):
        index = tables.varint()
        check(index < len(models), f"chunk {number}: model {index} of {len(models)}")
        model = models[index]
    check(encoding != DIRECT or len(model.classes) == 1, f"chunk {number}: direct, with classes")
    size = tables.varint()
    check(1 <= size <= 2**22 + 1024, f"chunk {number}: a payload of {size} bytes")
    return ChunkEntry(number, encoding, model, size)


def read_file_entry(tables):
    path, kind = tables.string(), tables.u8()
    check_text(path, "file")
    for segment in path.split(b"/"):  # an absolute path has an empty first segment
        check(segment and not segment.startswith(b"."), f"file {path}: segment {segment}")
    path = path.decode()
    check(kind in (0, 1, 2), f"file {path}: kind {kind}")
    if kind == 1:
        return FileEntry(path, kind)
    raw_bytes, payload_bytes, sha256 = tables.varint(), tables.varint(), tables.take(32)
    check(raw_bytes <= 2**28, f"file {path}: raw_bytes {raw_bytes}")
    return FileEntry(path, kind, raw_bytes, payload_bytes, sha256)


# §2.2 Checks


def read_checks(part, checks):
    for tensor in part.tensors:
        tensor.sum_change = checks.u64()
    for chunk in part.chunks:
        chunk.digest = checks.u32()


# §3 Encodings. Each decoder: (payload, old bytes of the chunk, dtype, model) -> new bytes

RAW, XOR, DIRECT, CONTEXT = range(4)


def decode_raw(payload, old, dtype, _):  # §3.1
    w = unit_bytes(dtype)
    planes = numpy.frombuffer(decompress(payload, len(old), "raw"), numpy.uint8)
    return planes.reshape(w, len(old) // w).T.tobytes()


def decode_xor(payload, old, dtype, _):  # §3.2
    difference = numpy.frombuffer(decode_raw(payload, old, dtype, _), numpy.uint8)
    return (difference ^ numpy.frombuffer(old, numpy.uint8)).tobytes()


DECODERS = {RAW: decode_raw, XOR: decode_xor, DIRECT: decode_sparse, CONTEXT: decode_sparse}


# §4 Applying


def check_base(parts, base, chunks):
    """Each entry fits the base, and the parts fit each other."""
    for part in parts:
        check(not part.stated or base.version() == part.base, "base digest")
        for entry in part.tensors:
            tensor = base.tensors.get(entry.name)
            check(tensor is not None, f"tensor {entry.name}: not in the base")
            check((tensor.dtype, tensor.dims) == (entry.dtype, entry.dims),
                  f"tensor {entry.name}: another dtype or shape in the base")  # fmt: skip
        for entry in part.chunks:
            check(entry.number < len(chunks), f"chunk {entry.number} of {len(chunks)}")
            limit = chunks[entry.number].bytes() + 1024
            size = entry.payload_bytes
            check(size <= limit, f"chunk {entry.number}: {size} bytes, at most {limit}")
    numbers = [entry.number for part in parts for entry in part.chunks]
    check(len(numbers) == len(set(numbers)), "a chunk is in two parts")
    paths = [entry.path for part in parts for entry in part.files]
    check(len(paths) == len(set(paths)), "a file is in two parts")


def apply_chunk(entry, chunk, base, shards):
    """shards: {name: the shard's bytes, to be changed}"""
    check(xxhash.xxh3_64_intdigest(entry.payload) % 2**32 == entry.digest,
          f"chunk {entry.number}: digest")  # fmt: skip
    places, w = [], unit_bytes(chunk.dtype)
    for piece in chunk.pieces:
        tensor = base.tensors[piece.name]
        begin = tensor.begin + piece.first * w
        places.append((shards[tensor.shard], slice(begin, begin + piece.units * w)))
    old = b"".join(shard[place] for shard, place in places)
    new, at = DECODERS[entry.encoding](entry.payload, old, chunk.dtype, entry.model), 0
    for shard, place in places:
        size = place.stop - place.start
        shard[place] = new[at : at + size]
        at += size


def check_sums(parts, base, result):
    check(base.tensors.keys() == result.tensors.keys(), "other tensors than in the base")
    stated = dict.fromkeys(base.tensors, 0)
    for entry in (entry for part in parts for entry in part.tensors):
        stated[entry.name] += entry.sum_change
    for name, tensor in base.tensors.items():
        old, new = base.data(tensor), result.data(result.tensors[name])
        found = sum_change(old, new, unit_bytes(tensor.dtype))
        check(found == stated[name] % 2**64, f"tensor {name}: position-keyed sum")


def apply_file(entry, base, files):
    path, is_shard = entry.path, entry.path in base.shards
    like_a_shard = path.endswith(".safetensors") and "/" not in path
    check(is_shard if entry.kind == 2 else not like_a_shard, f"file {path}: kind {entry.kind}")
    if entry.kind == 1:
        check(path in files, f"file {path}: to be removed, but not there")
        del files[path]
        return
    content = decompress(entry.payload, entry.raw_bytes, f"file {path}")
    check(hashlib.sha256(content).digest() == entry.sha256, f"file {path}: SHA-256")
    if entry.kind == 2:
        old = base.shards[path]
        check(len(content) == len(old), f"{path}: header of {len(content)} bytes, not {len(old)}")
        check(parse_header(content) == (content, parse_header(old)[1]),
              f"{path}: header with other tensors or places")  # fmt: skip
        content += files[path][len(old) :]
    files[path] = content


def apply_to(parts, base):
    """The checkpoint that the parts of one patch make of `base`, verified."""
    chunks = chunks_of(base.tensors)
    check_base(parts, base, chunks)
    shards = {path: bytearray(base.files[path]) for path in base.shards}
    for part in parts:
        for entry in part.chunks:
            apply_chunk(entry, chunks[entry.number], base, shards)
    files = base.files | {path: bytes(content) for path, content in shards.items()}
    for part in parts:
        for entry in part.files:
            apply_file(entry, base, files)
    for path in files:
        for folder in pathlib.PurePosixPath(path).parents:
            check(str(folder) not in files, f"file {path}: {folder} is a file")

    result = Checkpoint(files)
    check_sums(parts, base, result)
    for part in parts:
        check(not part.stated or result.version() == part.target, "target digest")
    return result


def apply_parts(parts, checkpoint_dir, out_dir):
    """Writes the result into a new directory, after everything was verified."""
    write_files(apply_to(parts, read_checkpoint(checkpoint_dir)).files, out_dir)


# The command line


def inspect(part):
    """The part as a dictionary for JSON, without payloads."""

    def plain(value):
        match value:
            case bytes():
                return value.hex()
            case list() | tuple():
                return [plain(item) for item in value]
            case TensorEntry():
                return plain_fields(value) | {"name": value.name.decode()}
            case Part() | ChunkEntry() | FileEntry() | Model() | Table():
                return plain_fields(value)
        return value

    def plain_fields(value):
        return {key: plain(getattr(value, key)) for key in value.__dataclass_fields__
                if key not in ("payload", "model")}  # fmt: skip

    indices = {id(model): index for index, model in enumerate(part.models)}
    found = plain(part)
    for row, entry in zip(found["chunks"], part.chunks):
        row["model"] = indices.get(id(entry.model))
    return {"kind": "patch"} | found


def main(arguments):
    def read(path):
        return read_part(pathlib.Path(path).read_bytes())

    try:
        match arguments:
            case ["apply", *parts, checkpoint, out] if parts:
                apply_parts([read(part) for part in parts], checkpoint, out)
            case ["inspect", part]:
                print(json.dumps(inspect(read(part)), indent=1))
            case ["table", checkpoint]:
                print(read_checkpoint(checkpoint).version().hex())
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except Refused as error:
        print(f"patch_oracle: {error}", file=sys.stderr)
        return {"corrupt": 5, "newer": 2}[error.reason]
    except FileNotFoundError as error:
        print(f"patch_oracle: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
