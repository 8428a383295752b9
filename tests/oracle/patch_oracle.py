#!/usr/bin/env python3
"""A slow, readable decoder of patch format 1: the oracle that tests compare the product with.

Written from docs/patch-format.md alone and laid out like it; "§" in comments means its sections.
It holds whole checkpoints in memory. Needs python3-zstandard, python3-xxhash, python3-numpy.

  patch_oracle.py apply PART... CHECKPOINT OUT   OUT, a new directory: the parts of one patch applied
  patch_oracle.py inspect PART                   what the part says, as JSON
  patch_oracle.py table CHECKPOINT               the version digest of a checkpoint

Exit codes: 0 done, 2 wrong usage or a newer format, 3 not found, 5 corrupt.
"""

import hashlib
import json
import math
import os
import pathlib
import struct
import sys
from dataclasses import dataclass

import numpy
import xxhash
import zstandard


class Refused(Exception):
    """A part that must not be used. reason: "corrupt", or "newer" (format or encoding)."""

    def __init__(self, reason, message):
        super().__init__(f"{reason}: {message}")
        self.reason = reason


def check(condition, message, reason="corrupt"):
    if not condition:
        raise Refused(reason, message)


class Reader:
    """Takes integers and strings (as in the introduction of the specification) off some bytes."""

    def __init__(self, data, what):
        self.data, self.what, self.at = data, what, 0

    def left(self):
        return len(self.data) - self.at

    def take(self, size):
        check(size <= self.left(), f"{self.what}: {size} bytes wanted, {self.left()} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def u8(self):
        return self.take(1)[0]

    def varint(self):
        value = 0
        for i in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                check(byte > 0 or i == 0, f"{self.what}: a varint is not in its shortest form")
                check(value < 2**64, f"{self.what}: a varint has more than 64 bits")
                return value
        raise Refused("corrupt", f"{self.what}: a varint has more than 10 bytes")

    def string(self):
        return self.take(self.varint())


# §5 Dtype ids: {id: (name in safetensors, bits)}
DTYPES = {
    1: ("BOOL", 8), 2: ("F4", 4), 3: ("F6_E2M3", 6), 4: ("F6_E3M2", 6), 5: ("U8", 8), 6: ("I8", 8),
    7: ("F8_E5M2", 8), 8: ("F8_E4M3", 8), 9: ("F8_E8M0", 8), 10: ("F8_E4M3FNUZ", 8),
    11: ("F8_E5M2FNUZ", 8), 12: ("I16", 16), 13: ("U16", 16), 14: ("F16", 16), 15: ("BF16", 16),
    16: ("I32", 32), 17: ("U32", 32), 18: ("F32", 32), 19: ("C64", 64), 20: ("F64", 64),
    21: ("I64", 64), 22: ("U64", 64),
}  # fmt: skip

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
class TensorEntry:
    name: bytes
    dtype: int
    dims: tuple
    encoding: int
    first_chunk: int
    changed: int
    old_digest: bytes
    new_digest: bytes
    chunks: list  # of (payload bytes, XXH3-64); then with the payload itself for its size


@dataclass
class FileEntry:
    path: str
    kind: int
    raw_bytes: int = 0
    payload: bytes = b""
    sha256: bytes = b""


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
    """The part in `data`; Refused unless header and tables are in order. Payloads are not decoded."""
    check(len(data) >= HEADER.size, f"part: {len(data)} bytes, at least {HEADER.size} wanted")
    (magic, major, minor, flags, tables_bytes, tables_raw_bytes, tensor_count, file_count,
     payload_bytes, base, target, reserved, digest) = HEADER.unpack_from(data)  # fmt: skip
    size = HEADER.size + tables_bytes + payload_bytes
    check(len(data) == size, f"part: {len(data)} bytes, the header says {size}")
    check(magic == b"ISTHMUS\x01", f"magic: {magic.hex()}")
    check(major == 1, f"major version: {major}, this is a decoder of 1", "newer")
    check(flags in (0, 1), f"flags: {flags:#x}, only bit 0 may be set")
    header_and_tables = data[:112] + data[HEADER.size : HEADER.size + tables_bytes]
    check(xxhash.xxh3_128_digest(header_and_tables) == digest, "digest of header and tables")

    check(tables_raw_bytes <= 2**28, f"tables_raw_bytes: {tables_raw_bytes}")
    check(tensor_count <= 2**22, f"tensor_count: {tensor_count}")
    check(file_count <= 2**16, f"file_count: {file_count}")
    check(payload_bytes <= 2**46, f"payload_bytes: {payload_bytes}")
    stated = flags == 1
    check(stated or base + target == bytes(64), "version digests that the flags do not state")
    check(reserved == bytes(8), f"reserved: {reserved.hex()}")

    frame = data[HEADER.size : HEADER.size + tables_bytes]
    tables = Reader(decompress(frame, tables_raw_bytes, "tables"), "tables")
    tensors, files = [], []
    for _ in range(tensor_count):
        tensors.append(read_tensor_entry(tables, tensors[-1].name if tensors else b""))
    for _ in range(file_count):
        files.append(read_file_entry(tables))
    check(tables.left() == 0, f"tables: {tables.left()} bytes after the last entry")
    keys = [(file.path.encode(), file.kind) for file in files]
    check(all(a < b for a, b in zip(keys, keys[1:])), "file entries are not strictly ascending")

    sizes = [bytes_ for tensor in tensors for bytes_, _ in tensor.chunks]
    sizes += [file.payload for file in files]
    check(sum(sizes) == payload_bytes, f"payloads: {sum(sizes)} bytes, header: {payload_bytes}")
    payloads = Reader(data[HEADER.size + tables_bytes :], "payloads")
    for tensor in tensors:
        tensor.chunks = [(payloads.take(bytes_), digest) for bytes_, digest in tensor.chunks]
    for file in files:
        file.payload = payloads.take(file.payload)
    return Part(major, minor, stated, base, target, tensors, files)


def frame_sizes(data, what):
    """(content size or None, stored size) that the zstd frame at the start declares: RFC 8878."""
    frame = Reader(data, f"{what}: zstd frame")
    check(frame.take(4) == bytes.fromhex("28b52ffd"), f"{what}: not a zstd frame")
    descriptor = frame.u8()
    single_segment = descriptor >> 5 & 1
    frame.take(1 - single_segment)  # window descriptor
    frame.take((0, 1, 2, 4)[descriptor & 3])  # dictionary id
    size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    content = int.from_bytes(frame.take(size_bytes), "little") + (256 if size_bytes == 2 else 0)
    last = False
    while not last:
        block = int.from_bytes(frame.take(3), "little")
        last, is_run, size = block & 1, block >> 1 & 3 == 1, block >> 3
        frame.take(1 if is_run else size)
    frame.take(4 if descriptor & 4 else 0)  # checksum
    return (content if size_bytes else None), frame.at


def decompress(data, size, what):
    """The content of the one zstd frame that `data` is; `size` is what it must declare."""
    declared, stored = frame_sizes(data, what)
    check(declared is not None, f"{what}: the zstd frame does not declare its content size")
    check(declared == size, f"{what}: the zstd frame declares {declared} bytes, not {size}")
    check(stored == len(data), f"{what}: {len(data) - stored} bytes follow the zstd frame")
    try:
        content = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise Refused("corrupt", f"{what}: {error}") from error
    check(len(content) == size, f"{what}: {len(content)} bytes of content, not {size}")
    return content


# §2.1 Tables


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

    encoding = tables.u8()
    check(encoding in DECODERS, f"tensor {name}: encoding {encoding}", "newer")
    first_chunk, chunk_count, changed = tables.varint(), tables.varint(), tables.varint()
    units = units_of(dtype, dims)
    total_chunks = -(-units // CHUNK_UNITS)
    check(chunk_count >= 1, f"tensor {name}: no chunk")
    check(first_chunk + chunk_count <= total_chunks,
          f"tensor {name}: chunks {first_chunk} + {chunk_count}, it has {total_chunks}")  # fmt: skip
    range_end = min((first_chunk + chunk_count) * CHUNK_UNITS, units)
    range_units = range_end - first_chunk * CHUNK_UNITS
    check(1 <= changed <= range_units, f"tensor {name}: changed {changed} of {range_units} units")

    old_digest, new_digest = tables.take(16), tables.take(16)
    chunks = []
    for chunk in range(first_chunk, first_chunk + chunk_count):
        size = tables.varint()
        limit = units_of_chunk(units, chunk) * unit_bytes(dtype) + 1024
        check(size <= limit, f"tensor {name}: chunk {chunk} has {size} bytes, at most {limit}")
        chunks.append((size, int.from_bytes(tables.take(8), "little") if size > 0 else None))
    return TensorEntry(name, dtype, dims, encoding, first_chunk, changed, old_digest, new_digest,
                       chunks)  # fmt: skip


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


def tensor_digest(data):
    leaves = (xxhash.xxh3_128_digest(data[at : at + 2**20]) for at in range(0, len(data), 2**20))
    return xxhash.xxh3_128_digest(b"".join(leaves))


# §3 Encodings. Each decoder: (payload, old bytes of the chunk, unit bytes) -> new bytes


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

    new = memoryview(bytearray(old)).cast("BHxI"[w - 1])  # units; the machine is little-endian
    position = -1
    for gap_symbol, step_symbol in zip(gaps, steps):
        position += 1 + extra.unbucket(gap_symbol)
        check(position < n, f"direct: position {position} of {n}")
        distance = extra.unbucket(step_symbol >> 1) + 1
        d = -distance if step_symbol & 1 else distance
        check(-(2 ** (8 * w - 1)) <= d < 2 ** (8 * w - 1), f"direct: step {d}")
        new[position] = unord((ord_(new[position], w) + d) % 2 ** (8 * w), w)
    extra.check_end()
    return new.tobytes()


def read_symbols(reader, k):
    mode = reader.u8()
    check(mode in (0, 1, 2), f"symbols: mode {mode}")
    if mode == 0:
        return reader.take(k)
    if mode == 1:
        return decompress(reader.take(reader.varint()), k, "symbols")
    return reader.take(1) * k


class BitStream:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, bits):
        check(self.at + bits <= 8 * len(self.data), "extra: too few bits")
        window = int.from_bytes(self.data[self.at >> 3 : (self.at + bits + 7) >> 3], "little")
        value = window >> (self.at & 7) & ((1 << bits) - 1)
        self.at += bits
        return value

    def unbucket(self, symbol):
        """The v whose bucket(v) is this symbol and the next extra bits."""
        if symbol < 4:
            return symbol
        h = symbol // 4 + 1
        return (4 + symbol % 4) << (h - 2) | self.take(h - 2)

    def check_end(self):
        left = 8 * len(self.data) - self.at
        check(left < 8, f"extra: {left} bits too many")
        check(self.take(left) == 0, "extra: unused bits that are not zero")


def ord_(u, w):
    top = 1 << (8 * w - 1)
    return u ^ (2 * top - 1) if u & top else u | top


def unord(o, w):
    top = 1 << (8 * w - 1)
    return o ^ top if o & top else o ^ (2 * top - 1)


DECODERS = {0: decode_raw, 1: decode_xor, 2: decode_direct}


# Checkpoints and their version table (board.md)


class Checkpoint:
    """files: {path: content}; shards: {path: header bytes}; tensors: {name: where and what}."""

    @dataclass
    class Tensor:
        shard: str
        dtype: int
        dims: tuple
        begin: int  # in the shard's file
        end: int

    def __init__(self, files):
        self.files, self.shards, self.tensors = files, {}, {}
        if "model.safetensors.index.json" in files:
            names = json.loads(files["model.safetensors.index.json"])["weight_map"].values()
        else:
            names = [path for path in files if path.endswith(".safetensors")]
            check(len(names) == 1, f"checkpoint: {len(names)} *.safetensors files and no index")
        for shard in sorted(set(names)):
            check(shard in files, f"checkpoint: shard {shard} is missing")
            self.shards[shard], tensors = parse_header(files[shard])
            for name, (dtype, dims, begin, end) in tensors.items():
                self.tensors[name] = self.Tensor(shard, dtype, dims, begin, end)

    def data(self, tensor):
        return self.files[tensor.shard][tensor.begin : tensor.end]

    def version_table(self):
        out = [b"isthmus version table 1\n", varint(len(self.tensors))]
        for name, t in sorted(self.tensors.items()):
            shape = bytes([t.dtype]) + b"".join(varint(x) for x in (len(t.dims), *t.dims))
            out += [string(name), shape, string(t.shard.encode()), tensor_digest(self.data(t))]
        out.append(varint(len(self.shards)))
        for file, header in sorted(self.shards.items(), key=lambda item: item[0].encode()):
            out += [string(file.encode()), hashlib.sha256(header).digest()]
        others = {p.encode(): c for p, c in self.files.items() if p not in self.shards}
        out.append(varint(len(others)))
        for path, content in sorted(others.items()):
            out += [string(path), varint(len(content)), hashlib.sha256(content).digest()]
        return b"".join(out)

    def version(self):
        return hashlib.sha256(self.version_table()).digest()


def parse_header(shard):
    """(header bytes, {name: (dtype, dims, begin, end)}) of a safetensors file or of its header."""
    data_begin = 8 + int.from_bytes(shard[:8], "little")
    check(8 <= data_begin <= len(shard), "safetensors: the header is longer than the file")
    ids, tensors = {name: id_ for id_, (name, _) in DTYPES.items()}, {}
    try:
        for name, info in json.loads(shard[8:data_begin]).items():
            if name != "__metadata__":
                begin, end = (data_begin + offset for offset in info["data_offsets"])
                tensors[name.encode()] = (ids[info["dtype"]], tuple(info["shape"]), begin, end)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused("corrupt", f"safetensors: header: {error!r}") from error
    return shard[:data_begin], tensors


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def string(value):
    return varint(len(value)) + value


def read_checkpoint(directory):
    directory, files = pathlib.Path(directory), {}
    if not directory.is_dir():
        raise FileNotFoundError(f"checkpoint {directory}: no such directory")
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (pathlib.Path(folder, name) for name in names if not name.startswith(".")):
            if path.is_file():
                files[path.relative_to(directory).as_posix()] = path.read_bytes()
    return Checkpoint(files)


# §4 Applying


def check_base(parts, base):
    """Each entry fits the base, and entries of one tensor fit each other."""
    seen = {}
    for entry in (tensor for part in parts for tensor in part.tensors):
        tensor = base.tensors.get(entry.name)
        check(tensor is not None, f"tensor {entry.name}: not in the base")
        check((tensor.dtype, tensor.dims) == (entry.dtype, entry.dims),
              f"tensor {entry.name}: another dtype or shape in the base")  # fmt: skip
        check(tensor_digest(base.data(tensor)) == entry.old_digest, f"{entry.name}: old_digest")
        first, last = entry.first_chunk, entry.first_chunk + len(entry.chunks)
        for other_first, other_last, new_digest in seen.setdefault(entry.name, []):
            check(last <= other_first or other_last <= first, f"{entry.name}: chunks overlap")
            check(new_digest == entry.new_digest, f"{entry.name}: two new digests")
        seen[entry.name].append((first, last, entry.new_digest))


def apply_tensor(entry, tensor, shard):
    w = unit_bytes(entry.dtype)
    units = units_of(entry.dtype, entry.dims)
    for chunk, (payload, digest) in enumerate(entry.chunks, start=entry.first_chunk):
        if payload:
            what = f"tensor {entry.name}, chunk {chunk}"
            check(xxhash.xxh3_64_intdigest(payload) == digest, f"{what}: digest of the payload")
            begin = tensor.begin + chunk * CHUNK_UNITS * w
            end = begin + units_of_chunk(units, chunk) * w
            shard[begin:end] = DECODERS[entry.encoding](payload, bytes(shard[begin:end]), w)


def apply_file(entry, base, files):
    if entry.kind != 2:
        check(entry.path not in base.shards, f"file {entry.path}: is a shard")
    if entry.kind == 1:
        check(entry.path in files, f"file {entry.path}: to be removed, but not there")
        del files[entry.path]
        return
    content = decompress(entry.payload, entry.raw_bytes, f"file {entry.path}")
    check(hashlib.sha256(content).digest() == entry.sha256, f"file {entry.path}: SHA-256")
    if entry.kind == 0:
        files[entry.path] = content
        return
    check(entry.path in base.shards, f"file {entry.path}: not a shard")
    old = base.shards[entry.path]
    check(len(content) == len(old), f"header of {entry.path}: {len(content)} bytes, not {len(old)}")
    check(parse_header(content) == (content, parse_header(old)[1]),
          f"header of {entry.path}: other tensors or places")  # fmt: skip
    files[entry.path] = content + files[entry.path][len(old) :]


def apply_to(parts, base):
    """The checkpoint that the parts of one patch make of `base`, verified."""
    check_base(parts, base)
    entries = [tensor for part in parts for tensor in part.tensors]
    files = dict(base.files)
    for shard in base.shards:
        content = bytearray(files[shard])
        for entry in entries:
            if base.tensors[entry.name].shard == shard:
                apply_tensor(entry, base.tensors[entry.name], content)
        files[shard] = bytes(content)
    for file in (file for part in parts for file in part.files):
        apply_file(file, base, files)
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
    result = apply_to(parts, read_checkpoint(checkpoint_dir))
    out_dir = pathlib.Path(out_dir)
    out_dir.mkdir()
    for path, content in result.files.items():
        (out_dir / path).parent.mkdir(parents=True, exist_ok=True)
        (out_dir / path).write_bytes(content)


def apply_part(part, checkpoint_dir, out_dir):
    apply_parts([part], checkpoint_dir, out_dir)


# Command line


def inspect(part):
    tensors = [{"name": t.name.decode(errors="replace"), "dtype": DTYPES[t.dtype][0],
                "shape": t.dims, "encoding": t.encoding, "first_chunk": t.first_chunk,
                "chunk_bytes": [len(payload) for payload, _ in t.chunks], "changed": t.changed,
                "old_digest": t.old_digest.hex(), "new_digest": t.new_digest.hex()}
               for t in part.tensors]  # fmt: skip
    files = [{"path": f.path, "kind": f.kind, "raw_bytes": f.raw_bytes, "bytes": len(f.payload),
              "sha256": f.sha256.hex()} for f in part.files]  # fmt: skip
    return {"kind": "patch", "major": part.major, "minor": part.minor, "base": part.base.hex(),
            "target": part.target.hex(), "tensors": tensors, "files": files}  # fmt: skip


def read_part_file(path):
    return read_part(pathlib.Path(path).read_bytes())


def main(arguments):
    try:
        match arguments:
            case ["apply", *parts, checkpoint, out] if parts:
                apply_parts([read_part_file(part) for part in parts], checkpoint, out)
            case ["inspect", part]:
                print(json.dumps(inspect(read_part_file(part)), indent=1))
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
