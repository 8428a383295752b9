#!/usr/bin/env python3
"""A slow, readable decoder of patch format 1: the oracle that tests compare the product with.

Written from docs/patch-format.md alone and laid out like it; "§" in comments means its sections.
It holds whole checkpoints in memory. Needs python3-zstandard, python3-xxhash, python3-numpy.

  patch_oracle.py apply PART... CHECKPOINT OUT   applies the parts of one patch, into a new directory
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
from dataclasses import dataclass

import numpy
import xxhash

from checkpoint import DTYPES  # §5
from checkpoint import Checkpoint, parse_header, read_checkpoint, tensor_digest, write_files
from wire import Reader, Refused, check, decompress

# §1 Units, chunks

CHUNK_UNITS = 2**20


def unit_bytes(dtype):
    bits = DTYPES[dtype][1]
    return 1 if bits <= 8 else 2 if bits == 16 else 4


def units_of(dtype, dims):
    return math.prod(dims) * DTYPES[dtype][1] // 8 // unit_bytes(dtype)


def units_of_chunk(units, chunk):
    return min(CHUNK_UNITS, units - chunk * CHUNK_UNITS)


# §2 Layout of a part


@dataclass
class Chunk:
    number: int
    payload_bytes: int  # 0: unchanged
    digest: int | None
    payload: bytes = b""


@dataclass
class TensorEntry:
    name: bytes
    dtype: int
    dims: tuple
    encoding: int
    changed: int
    old_digest: bytes
    new_digest: bytes
    chunks: list


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
    tensors: list
    files: list


HEADER = struct.Struct("<8sHHIIIIIQ32s32s8s16s")


def read_part(data):
    """The part in `data`: Refused unless header and tables are in order. Decodes no payload."""
    check(len(data) >= HEADER.size, f"part: {len(data)} bytes, at least {HEADER.size} wanted")
    (magic, major, minor, flags, tables_bytes, tables_raw_bytes, tensor_count, file_count,
     payload_bytes, base, target, reserved, digest) = HEADER.unpack_from(data)  # fmt: skip
    payloads_at = HEADER.size + tables_bytes
    check(len(data) == payloads_at + payload_bytes,
          f"part: {len(data)} bytes, the header says {payloads_at + payload_bytes}")  # fmt: skip
    check(magic == b"ISTHMUS\x01", f"magic: {magic.hex()}")
    check(major == 1, f"major version {major}, this is a decoder of 1", "newer")
    check(flags in (0, 1), f"flags: {flags:#x}, only bit 0 may be set")
    frame = data[HEADER.size : payloads_at]
    check(xxhash.xxh3_128_digest(data[:112] + frame) == digest, "digest of header and tables")
    check(tables_raw_bytes <= 2**28, f"tables_raw_bytes: {tables_raw_bytes}")
    check(tensor_count <= 2**22, f"tensor_count: {tensor_count}")
    check(file_count <= 2**16, f"file_count: {file_count}")
    check(payload_bytes <= 2**46, f"payload_bytes: {payload_bytes}")
    stated = flags == 1
    check(stated or base + target == bytes(64), "version digests that the flags do not state")
    check(reserved == bytes(8), f"reserved: {reserved.hex()}")

    tables = Reader(decompress(frame, tables_raw_bytes, "tables"), "tables")
    tensors, files = read_tables(tables, tensor_count, file_count)
    holders = [chunk for tensor in tensors for chunk in tensor.chunks] + files
    total = sum(holder.payload_bytes for holder in holders)
    check(total == payload_bytes, f"payloads: {total} bytes, the header says {payload_bytes}")
    payloads = Reader(data[payloads_at:], "payloads")
    for holder in holders:
        holder.payload = payloads.take(holder.payload_bytes)
    return Part(major, minor, stated, base, target, tensors, files)


# §2.1 Tables


def read_tables(tables, tensor_count, file_count):
    tensors, files = [], []
    for _ in range(tensor_count):
        tensors.append(read_tensor_entry(tables, tensors[-1].name if tensors else b""))
    for _ in range(file_count):
        files.append(read_file_entry(tables))
    check(tables.left() == 0, f"tables: {tables.left()} bytes after the last entry")
    keys = [file.path.encode() for file in files]
    check(all(a < b for a, b in zip(keys, keys[1:])), "file entries are not strictly ascending")
    return tensors, files


def read_tensor_entry(tables, previous_name):
    shared, suffix = tables.varint(), tables.string()
    check(shared <= len(previous_name), f"shared: {shared}, the name before is shorter")
    name = previous_name[:shared] + suffix
    check(1 <= len(name) <= 4096, f"tensor name: {len(name)} bytes")
    check(previous_name < name, f"tensor {name} is not after {previous_name}")

    dtype, rank = tables.u8(), tables.varint()
    check(dtype in DTYPES, f"tensor {name}: dtype {dtype}")
    check(rank <= 32, f"tensor {name}: rank {rank}")
    dims = tuple(tables.varint() for _ in range(rank))
    bits = math.prod(dims) * DTYPES[dtype][1]
    check(bits % 8 == 0 and bits < 2**63, f"tensor {name}: {bits} bits")
    units = units_of(dtype, dims)
    all_chunks = -(-units // CHUNK_UNITS)

    encoding = tables.u8()
    check(encoding in DECODERS, f"tensor {name}: encoding {encoding}", "newer")
    first, count, changed = tables.varint(), tables.varint(), tables.varint()
    check(count >= 1, f"tensor {name}: no chunk")
    end = first + count
    check(end <= all_chunks, f"tensor {name}: chunks {first} to {end}, it has {all_chunks}")
    range_units = min(end * CHUNK_UNITS, units) - first * CHUNK_UNITS
    check(1 <= changed <= range_units, f"tensor {name}: changed {changed} of {range_units} units")

    old_digest, new_digest = tables.take(16), tables.take(16)
    chunks = []
    for number in range(first, end):
        size = tables.varint()
        limit = units_of_chunk(units, number) * unit_bytes(dtype) + 1024
        check(size <= limit, f"tensor {name}: chunk {number} of {size} bytes, at most {limit}")
        chunks.append(Chunk(number, size, tables.u64() if size > 0 else None))
    return TensorEntry(name, dtype, dims, encoding, changed, old_digest, new_digest, chunks)


def read_file_entry(tables):
    path, kind = tables.string(), tables.u8()
    check(len(path) <= 4096, f"file: a path of {len(path)} bytes")
    for segment in path.split(b"/"):  # an absolute path has an empty first segment
        check(segment and not segment.startswith(b"."), f"file {path}: segment {segment}")
    try:
        path = path.decode()
    except UnicodeDecodeError as error:
        raise Refused("corrupt", f"file {path}: not UTF-8") from error
    check("\0" not in path, f"file {path!r}: zero byte")
    check(kind in (0, 1, 2), f"file {path}: kind {kind}")
    if kind == 1:
        return FileEntry(path, kind)
    raw_bytes, payload_bytes, sha256 = tables.varint(), tables.varint(), tables.take(32)
    check(raw_bytes <= 2**28, f"file {path}: raw_bytes {raw_bytes}")
    return FileEntry(path, kind, raw_bytes, payload_bytes, sha256)


# §3 Encodings. Each decoder: (payload, old bytes of the chunk, w) -> new bytes


def decode_raw(payload, old, w):  # §3.1
    planes = numpy.frombuffer(decompress(payload, len(old), "raw"), numpy.uint8)
    return planes.reshape(w, len(old) // w).T.tobytes()


def decode_xor(payload, old, w):  # §3.2
    difference = numpy.frombuffer(decode_raw(payload, old, w), numpy.uint8)
    return (difference ^ numpy.frombuffer(old, numpy.uint8)).tobytes()


def decode_direct(payload, old, w):  # §3.3
    n = len(old) // w
    reader = Reader(payload, "direct")
    count = reader.varint()
    check(1 <= count <= n, f"direct: count {count} of {n} units")
    gaps = read_symbols(reader, count)
    steps = read_symbols(reader, count)
    extra = BitStream(reader.take(reader.left()))

    new = memoryview(bytearray(old)).cast({1: "B", 2: "H", 4: "I"}[w])  # on a little-endian machine
    modulus, position = 2 ** (8 * w), -1
    for gap_symbol, step_symbol in zip(gaps, steps):
        position += unbucket(gap_symbol, extra) + 1
        check(position < n, f"direct: position {position} of {n}")
        d = unbucket(step_symbol // 2, extra) + 1
        d = -d if step_symbol % 2 else d
        check(-modulus // 2 <= d < modulus // 2, f"direct: step {d}")
        new[position] = inverse_ord((ord_(new[position], modulus) + d) % modulus, modulus)
    extra.check_end()
    return new.tobytes()


def read_symbols(reader, k):
    mode = reader.u8()
    check(mode in (0, 1, 2), f"symbols: mode {mode}")
    if mode == 0:
        return reader.take(k)
    if mode == 1:
        return decompress(reader.string(), k, "symbols")
    return reader.take(1) * k


class BitStream:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, bits):
        end = self.at + bits
        check(end <= 8 * len(self.data), "extra: too few bits")
        window = int.from_bytes(self.data[self.at // 8 : (end + 7) // 8], "little")
        value = (window >> self.at % 8) % 2**bits
        self.at = end
        return value

    def check_end(self):
        left = 8 * len(self.data) - self.at
        check(left < 8, f"extra: {left} bits are left")
        check(self.take(left) == 0, "extra: unused bits that are not zero")


def unbucket(symbol, extra):
    """The v whose bucket(v) is `symbol` and the next extra bits."""
    if symbol < 4:
        return symbol
    h = symbol // 4 + 1
    return (4 + symbol % 4) * 2 ** (h - 2) + extra.take(h - 2)


def ord_(u, modulus):
    top = modulus // 2
    return modulus - 1 - u if u >= top else u + top


def inverse_ord(o, modulus):
    top = modulus // 2
    return o - top if o >= top else modulus - 1 - o


DECODERS = {0: decode_raw, 1: decode_xor, 2: decode_direct}


# §4 Applying


def check_base(entries, base):
    """Each entry fits the base, and the entries of one tensor fit each other."""
    ranges = {}
    for entry in entries:
        tensor = base.tensors.get(entry.name)
        check(tensor is not None, f"tensor {entry.name}: not in the base")
        check((tensor.dtype, tensor.dims) == (entry.dtype, entry.dims),
              f"tensor {entry.name}: another dtype or shape in the base")  # fmt: skip
        check(tensor_digest(base.data(tensor)) == entry.old_digest, f"{entry.name}: old_digest")
        numbers = {chunk.number for chunk in entry.chunks}
        for other_numbers, new_digest in ranges.setdefault(entry.name, []):
            check(not numbers & other_numbers, f"tensor {entry.name}: overlapping chunk ranges")
            check(new_digest == entry.new_digest, f"tensor {entry.name}: two new digests")
        ranges[entry.name].append((numbers, entry.new_digest))


def apply_tensor(entry, tensor, shard):
    w, units = unit_bytes(entry.dtype), units_of(entry.dtype, entry.dims)
    for chunk in entry.chunks:
        if chunk.payload:
            check(xxhash.xxh3_64_intdigest(chunk.payload) == chunk.digest,
                  f"tensor {entry.name}: digest of chunk {chunk.number}")  # fmt: skip
            begin = tensor.begin + chunk.number * CHUNK_UNITS * w
            end = begin + units_of_chunk(units, chunk.number) * w
            shard[begin:end] = DECODERS[entry.encoding](chunk.payload, bytes(shard[begin:end]), w)


def apply_file(entry, base, files):
    path, is_shard = entry.path, entry.path in base.shards
    check(is_shard == (entry.kind == 2), f"file {path}: kind {entry.kind}, shard: {is_shard}")
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
    entries = [tensor for part in parts for tensor in part.tensors]
    check_base(entries, base)
    files = dict(base.files)
    for shard in base.shards:
        content = bytearray(files[shard])
        for entry in entries:
            if base.tensors[entry.name].shard == shard:
                apply_tensor(entry, base.tensors[entry.name], content)
        files[shard] = bytes(content)
    for part in parts:
        for entry in part.files:
            apply_file(entry, base, files)
    for path in files:
        for folder in pathlib.PurePosixPath(path).parents:
            check(str(folder) not in files, f"file {path}: {folder} is a file")

    result = Checkpoint(files)
    for entry in entries:
        data = result.data(result.tensors[entry.name])
        check(tensor_digest(data) == entry.new_digest, f"tensor {entry.name}: new_digest")
    for part in parts:
        check(not part.stated or result.version() == part.target, "target digest")
    return result


def apply_parts(parts, checkpoint_dir, out_dir):
    """Writes the result into a new directory, after everything was verified."""
    write_files(apply_to(parts, read_checkpoint(checkpoint_dir)).files, out_dir)


def apply_part(part, checkpoint_dir, out_dir):
    apply_parts([part], checkpoint_dir, out_dir)


# The command line


def inspect(part):
    """The part as a dictionary for JSON."""

    def plain(value):
        return value.hex() if isinstance(value, bytes) else value

    tensors = []
    for entry in part.tensors:
        row = {key: plain(value) for key, value in vars(entry).items()}
        row["name"] = entry.name.decode(errors="replace")
        row["chunks"] = {chunk.number: chunk.payload_bytes for chunk in entry.chunks}
        tensors.append(row)
    files = [{k: plain(v) for k, v in vars(f).items() if k != "payload"} for f in part.files]
    fields = {key: plain(value) for key, value in vars(part).items()}
    return {"kind": "patch"} | fields | {"tensors": tensors, "files": files}


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
