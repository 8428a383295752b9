"""What a vLLM double does as if the plug-in `isthmus` were in it (docs/python.md), strictly.

It holds the bytes of a checkpoint and writes into them what changes files (docs/changes-file.md) say.
"""

import json
import pathlib
import struct

import fake_engine

FORMAT = 1
UNIT_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 4, "I32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1}
LETTERS = {"U8": "B", "U16": "H", "U32": "I", "U64": "Q"}


class Refused(Exception):
    """An update that the plug-in does not begin, or takes back."""


class Plugin:
    """One worker's; all ranks of a double hold the same."""

    def __init__(self, engine):
        self._engine = engine
        self.digest = None  # of the version that it holds
        self.shards = {}  # file name: bytearray

    def init(self, info):
        if info.keys() != {"format", "checkpoint", "digest"} or info["format"] != FORMAT:
            raise Refused(f"init_info {sorted(info)}")
        shards = {path.name: bytearray(path.read_bytes())
                  for path in pathlib.Path(info["checkpoint"]).glob("*.safetensors")}
        if fake_engine.weights_of(shards).digest != self._engine.served():
            raise Refused(f"the weights in use are not those of {info['checkpoint']}")
        self.digest, self.shards = info["digest"], shards

    def update(self, info):
        """The weights with the changes; None if they are only to be prepared."""
        if info.get("prepare") is True:
            self._check_base({key: value for key, value in info.items() if key != "prepare"})
            return None
        self._check_base(info)
        if fake_engine.weights_of(self.shards).digest != self._engine.served():
            raise Refused("the weights were loaded by somebody else meanwhile")
        header, data = split(pathlib.Path(info["changes"]).read_bytes())
        facts = header["__metadata__"]
        if facts["isthmus.digest.from"] != info["base"]:
            raise Refused(f"changes from {facts['isthmus.digest.from']}")
        for name, (dtype, shape, _) in json.loads(facts["isthmus.tensors"]).items():
            self._write(name, dtype, shape, entry(header, data, f"p:{name}"),
                        entry(header, data, f"b:{name}"))
        self.digest = facts["isthmus.digest.to"]
        return fake_engine.weights_of(self.shards)

    def _check_base(self, info):
        if info.keys() != {"format", "changes", "base"} or info["format"] != FORMAT:
            raise Refused(f"update_info {sorted(info)}")
        if self.digest is None or info["base"] != self.digest:
            raise Refused(f"changes of {info['base']}, the weights are {self.digest}")

    def _write(self, name, dtype, shape, positions, bits):
        shard, first, found = self._place(name)
        if (found["dtype"], found["shape"]) != (dtype, shape):
            raise Refused(f"{name} is {found}, the changes are of {dtype} {shape}")
        size = UNIT_BYTES[dtype]
        units = (found["data_offsets"][1] - found["data_offsets"][0]) // size
        if list(positions) != sorted(set(positions)) or len(positions) != len(bits) \
                or positions and positions[-1] >= units:
            raise Refused(f"{name}: positions are not as they must be")
        for position, value in zip(positions, bits):
            at = first + position * size
            shard[at:at + size] = value.to_bytes(size, "little")

    def _place(self, name):
        for shard in self.shards.values():
            header, _ = split(shard)
            if name in header:
                begin = 8 + struct.unpack("<Q", shard[:8])[0]
                return shard, begin + header[name]["data_offsets"][0], header[name]
        raise Refused(f"there is no tensor {name}")


def split(file):
    """Header and data of a safetensors file."""
    begin = 8 + struct.unpack("<Q", file[:8])[0]
    return json.loads(bytes(file[8:begin])), memoryview(file)[begin:]


def entry(header, data, name):
    first, last = header[name]["data_offsets"]
    letter = LETTERS[header[name]["dtype"]]
    return struct.unpack(f"<{header[name]['shape'][0]}{letter}", data[first:last])
