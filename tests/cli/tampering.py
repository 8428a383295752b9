"""Checkpoints and boards changed by hand: rewritten as another trainer might, or damaged."""

import hashlib
import json
import os
import pathlib
import shutil
import struct
from dataclasses import dataclass, field

INDEX = "model.safetensors.index.json"


@dataclass
class Tensor:
    dtype: str
    shape: list
    data: bytes


@dataclass
class Shard:
    tensors: dict  # name: Tensor, in the order of the data
    metadata: dict = field(default_factory=dict)
    header_bytes: int = 0  # the least size of the header, which is padded with spaces


def copy(source, destination):
    """A copy of a checkpoint that may be written to."""
    shutil.copytree(source, destination)
    return pathlib.Path(destination)


def read_shards(checkpoint):
    """{file name: Shard} of every *.safetensors file."""
    return {path.name: read_shard(path) for path in sorted(pathlib.Path(checkpoint).glob(
        "*.safetensors"))}


def read_shard(path):
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + size])
    shard = Shard({}, header.pop("__metadata__", {}), 8 + size)
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        shard.tensors[name] = Tensor(entry["dtype"], entry["shape"], content[begin:end])
    return shard


def write_shards(checkpoint, shards):
    """Writes the shards, and the index that belongs to them."""
    weight_map = {}
    for file, shard in shards.items():
        write_shard(pathlib.Path(checkpoint) / file, shard)
        weight_map |= {name: file for name in shard.tensors}
    (pathlib.Path(checkpoint) / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def write_shard(path, shard):
    header, data = {}, b""
    if shard.metadata:
        header["__metadata__"] = shard.metadata
    for name, tensor in shard.tensors.items():
        end = len(data) + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape,
                        "data_offsets": [len(data), end]}
        data += tensor.data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * max(-len(text) % 8, shard.header_bytes - 8 - len(text))
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def merge_shards(source, destination):
    """A copy of a checkpoint with all its tensors in model.safetensors, without an index."""
    checkpoint = copy(source, destination)
    tensors = {}
    for file, shard in read_shards(checkpoint).items():
        tensors |= shard.tensors
        (checkpoint / file).unlink()
    (checkpoint / INDEX).unlink()
    write_shard(checkpoint / "model.safetensors", Shard(tensors))
    return checkpoint


def flip_bit(path, position, bit=0):
    """Flips one bit of a file in place, also of a read-only one."""
    path = pathlib.Path(path)
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    os.chmod(path, 0o644)
    path.write_bytes(content)


def truncate(path, size):
    os.chmod(path, 0o644)
    os.truncate(path, size)


def snapshot(directory):
    """{path: (SHA-256, mtime)} of every file, hidden ones too: equal if nothing was written."""
    directory = pathlib.Path(directory)
    return {str(path.relative_to(directory)): (hashlib.sha256(path.read_bytes()).hexdigest(),
                                               path.stat().st_mtime_ns)
            for path in sorted(directory.rglob("*")) if path.is_file()}


def entry_path(board, run, version):
    return pathlib.Path(board) / "runs" / run / "log" / f"{version:010}.json"


def read_entry(board, run, version):
    return json.loads(entry_path(board, run, version).read_text())


def change_entry(board, run, version, /, **keys):
    """Replaces keys of a log entry, which no program would do."""
    entry = read_entry(board, run, version) | keys
    entry_path(board, run, version).write_text(json.dumps(entry))


def part_keys(board, run, version):
    return [part["key"] for payload in read_entry(board, run, version)["payloads"]
            for part in payload["parts"]]


def unnamed_objects(board, run):
    """Payload objects that no log entry names, and temporary files."""
    root = pathlib.Path(board)
    named = {key for path in (root / "runs" / run / "log").glob("*.json")
             for key in part_keys(board, run, int(path.stem))}
    data = {str(path.relative_to(root)) for path in (root / "runs" / run / "data").rglob("*")
            if path.is_file()}
    temporary = {str(path.relative_to(root)) for path in root.rglob(".*") if path.is_file()}
    return sorted(data - named | temporary)


def anchor_payload(board, run, version, checkpoint):
    """Stores a checkpoint's files as one more anchor of a version; returns its payload."""
    parts = []
    for index, path in enumerate(sorted(pathlib.Path(checkpoint).iterdir())):
        key = f"runs/{run}/data/{version}/0123456789abcdef/{index:05}-{path.name}"
        stored = pathlib.Path(board) / key
        stored.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, stored)
        parts.append({"key": key, "bytes": stored.stat().st_size, "path": path.name,
                      "sha256": "sha256:" + hashlib.sha256(stored.read_bytes()).hexdigest()})
    return {"kind": "anchor", "parts": parts}
