"""Reads Hugging Face checkpoints: config.json, safetensors shards, model.safetensors.index.json."""

import json
import math
import mmap
import pathlib
import struct

import numpy as np

MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
ELEMENT_BYTES = {"BF16": 2, "F16": 2, "F32": 4}


class CheckpointError(ValueError):
    """A directory that is no checkpoint this engine can serve; says which file and why."""


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error


def read_config(directory):
    """config.json as a dict."""
    config = read_json(pathlib.Path(directory) / "config.json")
    if not isinstance(config, dict):
        raise CheckpointError(f"{directory}/config.json is no JSON object")
    return config


def read_tensors(directory):
    """Yields (name, float32 array of the tensor's shape) for all tensors, shard by shard."""
    directory = pathlib.Path(directory)
    promised = _promised_shards(directory)
    for shard in sorted(set(promised.values())) or _lone_shards(directory):
        found = dict(_read_shard(directory / shard))
        absent = [name for name, home in promised.items() if home == shard and name not in found]
        if absent:
            raise CheckpointError(f"{directory / shard} lacks {absent[0]}, named in the index")
        yield from found.items()


def _promised_shards(directory):
    """{tensor: shard} of the index; empty if there is none."""
    path = directory / "model.safetensors.index.json"
    if not path.exists():
        return {}
    index = read_json(path)
    promised = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(promised, dict) or not promised:
        raise CheckpointError(f"{path} has no weight_map")
    for shard in promised.values():
        if not isinstance(shard, str) or pathlib.PurePath(shard).name != shard:
            raise CheckpointError(f"{path} names the shard {shard!r}; it must be a plain file name")
    return promised


def _lone_shards(directory):
    shards = sorted(path.name for path in directory.glob("*.safetensors"))
    if not shards:
        raise CheckpointError(f"{directory} holds no *.safetensors")
    return shards


def _read_shard(path):
    """Yields (name, float32 array) of one file; the arrays do not keep it mapped."""
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    with data:
        begin, header = _read_header(path, data)
        for name, entry in header.items():
            if name != "__metadata__":
                yield name, _read_tensor(path, data, begin, name, entry)


def _read_header(path, data):
    """(offset of the first tensor byte, the JSON header)"""
    size_bytes = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else len(data)
    if size_bytes > min(MAX_HEADER_BYTES, len(data) - 8):
        raise CheckpointError(f"{path} is cut short or no safetensors file")
    try:
        header = json.loads(data[8:8 + size_bytes])
    except ValueError as error:
        raise CheckpointError(f"{path} has a broken header: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} has a header that is no JSON object")
    return 8 + size_bytes, header


def _read_tensor(path, data, begin, name, entry):
    try:
        dtype, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, first, last]
        element_bytes = ELEMENT_BYTES[dtype]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot read tensor {name}: {entry!r}; "
                              f"dtypes are {', '.join(ELEMENT_BYTES)}") from error
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise CheckpointError(f"{path}: tensor {name} has shape {shape} at [{first}, {last})")
    size_bytes = element_bytes * math.prod(shape)
    if not 0 <= first <= last <= len(data) - begin or last - first != size_bytes:
        raise CheckpointError(f"{path}: tensor {name} of {size_bytes} bytes lies at "
                              f"[{first}, {last}) of {len(data) - begin}")
    return _to_float32(data[begin + first:begin + last], dtype).reshape(shape)


def _to_float32(raw, dtype):
    if dtype == "BF16":
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, "<f2" if dtype == "F16" else "<f4").astype(np.float32)
