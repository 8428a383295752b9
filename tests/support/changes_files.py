"""Writes changes files (docs/changes-file.md) from two checkpoints: numpy and the spec, nothing else."""

import hashlib
import json
import pathlib
import struct

import numpy as np

UNIT_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
              "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 4, "I64": 4, "F64": 4}
DTYPE_NAMES = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64"}


def read_checkpoint(directory):
    """{name: (dtype, shape, units)}; units: a flat array of unsigned numbers, mapped."""
    tensors = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        data = np.memmap(path, np.uint8, "r")
        size = int(data[:8].view("<u8")[0])
        for name, entry in json.loads(data[8:8 + size].tobytes()).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                units = data[8 + size + begin:8 + size + end]
                tensors[name] = (entry["dtype"], tuple(entry["shape"]),
                                 units.view(f"<u{UNIT_BYTES[entry['dtype']]}"))
    return tensors


def digest(directory):
    """A name for the contents of a checkpoint; in these tests the digest of its version."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(
        pathlib.Path(directory).glob("*.safetensors")))).hexdigest()


def factors(positions):
    z = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


def sum_change(positions, old, new):
    """By how much the position-keyed sum changes, as the file says it."""
    step = new.astype(np.uint64) - old.astype(np.uint64)
    return f"{int((factors(positions) * step).sum(dtype=np.uint64)):016x}"


def between(old, new):
    """(entries, described) of a changes file from one checkpoint to another, both as read_checkpoint
    gives them: {entry: array} and the object of isthmus.tensors."""
    entries, described = {}, {}
    for name, (dtype, shape, before) in old.items():
        after = new[name][2]
        positions = np.flatnonzero(before != after).astype(np.uint32)
        if len(positions):
            entries[f"p:{name}"], entries[f"b:{name}"] = positions, after[positions]
            described[name] = [dtype, list(shape),
                               sum_change(positions, before[positions], after[positions])]
    return entries, described


def write(path, entries, described, base, target, **metadata):
    """metadata: other values under their keys' last part, None to leave one out."""
    values = {"changes": "1", "run": "run", "from": "1", "to": "2", "digest.from": base,
              "digest.to": target, "tensors": json.dumps(described)}
    values.update({key.replace("_", "."): value for key, value in metadata.items()})
    header = {"__metadata__": {f"isthmus.{key}": value for key, value in values.items()
                               if value is not None}}
    end = 0
    for name, array in entries.items():
        header[name] = {"dtype": DTYPE_NAMES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    hidden = pathlib.Path(path).with_suffix(".partial")
    with open(hidden, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in entries.values():
            file.write(np.ascontiguousarray(array).tobytes())
    hidden.rename(path)
    return pathlib.Path(path)


def make(path, old_directory, new_directory):
    """The changes file from one checkpoint's directory to another's."""
    entries, described = between(read_checkpoint(old_directory), read_checkpoint(new_directory))
    return write(path, entries, described, digest(old_directory), digest(new_directory))
