"""Checkpoint directories in memory: reading, the version digest (docs/board.md), writing."""

import hashlib
import json
import math
import os
import pathlib
from dataclasses import dataclass

import xxhash

from wire import Refused, check, string, varint

# docs/patch-format.md, section 5: {id: (name in safetensors, bits)}
DTYPES = {
    1: ("BOOL", 8), 2: ("F4", 4), 3: ("F6_E2M3", 6), 4: ("F6_E3M2", 6), 5: ("U8", 8), 6: ("I8", 8),
    7: ("F8_E5M2", 8), 8: ("F8_E4M3", 8), 9: ("F8_E8M0", 8), 10: ("F8_E4M3FNUZ", 8),
    11: ("F8_E5M2FNUZ", 8), 12: ("I16", 16), 13: ("U16", 16), 14: ("F16", 16), 15: ("BF16", 16),
    16: ("I32", 32), 17: ("U32", 32), 18: ("F32", 32), 19: ("C64", 64), 20: ("F64", 64),
    21: ("I64", 64), 22: ("U64", 64),
}  # fmt: skip
DTYPE_IDS = {name: id_ for id_, (name, _) in DTYPES.items()}
INDEX = "model.safetensors.index.json"


def tensor_digest(data):
    """The content digest: XXH3-128 over the XXH3-128 digests of the leaves of 1 MiB."""
    leaves = (xxhash.xxh3_128_digest(data[at : at + 2**20]) for at in range(0, len(data), 2**20))
    return xxhash.xxh3_128_digest(b"".join(leaves))


class Checkpoint:
    """files: {path: content}; shards: {path: header bytes}; tensors: {name: Tensor}.

    Refused if shards are missing or a header makes no sense; it is no full check of safetensors.
    """

    @dataclass
    class Tensor:
        shard: str
        dtype: int
        dims: tuple
        begin: int  # in the shard's file
        end: int

    def __init__(self, files):
        self.files, self.shards, self.tensors = files, {}, {}
        for shard in shard_names(files):
            check(shard in files, f"checkpoint: shard {shard} is missing")
            self.shards[shard], tensors = parse_header(files[shard])
            for name, (dtype, dims, begin, end) in tensors.items():
                self.tensors[name] = self.Tensor(shard, dtype, dims, begin, end)

    def data(self, tensor):
        return self.files[tensor.shard][tensor.begin : tensor.end]

    def version_table(self):
        """The canonical bytes of everything that the checkpoint is."""
        out = [b"isthmus version table 1\n", varint(len(self.tensors))]
        for name, t in sorted(self.tensors.items()):
            shape = b"".join(varint(number) for number in (len(t.dims), *t.dims))
            out += [string(name), bytes([t.dtype]), shape, string(t.shard.encode())]
            out.append(tensor_digest(self.data(t)))
        out.append(varint(len(self.shards)))
        for file, header in sorted((f.encode(), header) for f, header in self.shards.items()):
            out += [string(file), hashlib.sha256(header).digest()]
        others = sorted((p.encode(), c) for p, c in self.files.items() if p not in self.shards)
        out.append(varint(len(others)))
        for path, content in others:
            out += [string(path), varint(len(content)), hashlib.sha256(content).digest()]
        return b"".join(out)

    def version(self):
        return hashlib.sha256(self.version_table()).digest()


def shard_names(files):
    if INDEX not in files:
        names = [path for path in files if path.endswith(".safetensors")]
        check(len(names) == 1, f"checkpoint: {len(names)} *.safetensors files and no index")
        return names
    try:
        return sorted(set(json.loads(files[INDEX])["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused("corrupt", f"{INDEX}: {error!r}") from error


def parse_header(shard):
    """(header bytes, {name: (dtype, dims, begin, end)}) of a safetensors file or of its header."""
    data_begin = 8 + int.from_bytes(shard[:8], "little")
    check(len(shard) >= data_begin, "safetensors: the header is longer than the file")
    tensors = {}
    try:
        for name, info in json.loads(shard[8:data_begin]).items():
            if name != "__metadata__":
                begin, end = (data_begin + offset for offset in info["data_offsets"])
                shape = tuple(info["shape"])
                tensors[name.encode()] = (DTYPE_IDS[info["dtype"]], shape, begin, end)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused("corrupt", f"safetensors: header: {error!r}") from error
    return shard[:data_begin], tensors


def read_checkpoint(directory):
    """Everything below the directory, but for names that begin with a dot."""
    directory, files = pathlib.Path(directory), {}
    if not directory.is_dir():
        raise FileNotFoundError(f"checkpoint {directory}: no such directory")
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (pathlib.Path(folder, name) for name in names if not name.startswith(".")):
            if path.is_file():
                files[path.relative_to(directory).as_posix()] = path.read_bytes()
    return Checkpoint(files)


def write_files(files, directory):
    """{path: content} into a new directory."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    for path, content in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)


def data_bytes(dtype, dims):
    return math.prod(dims) * DTYPES[DTYPE_IDS[dtype]][1] // 8


def make_shard(tensors, metadata=None):
    """A safetensors file of {name: (dtype name, dims, data)}, in this order."""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, dims, data) in tensors.items():
        if len(data) != data_bytes(dtype, dims):
            raise ValueError(f"{name}: {len(data)} bytes, {dtype}{dims} has another size")
        offsets = [at, at + len(data)]
        header[name] = {"dtype": dtype, "shape": list(dims), "data_offsets": offsets}
        at += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    return head + b"".join(data for _, _, data in tensors.values())


def make_index(shards):
    """The index file of {file: tensors as for make_shard}."""
    total = sum(len(data) for tensors in shards.values() for _, _, data in tensors.values())
    weight_map = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return json.dumps(index, indent=1, ensure_ascii=False).encode() + b"\n"
