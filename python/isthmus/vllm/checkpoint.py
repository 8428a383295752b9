"""A checkpoint's tensors, mapped: what the engine's memory is compared with."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import safetensors
import torch

from .errors import TransferError

# As safetensors names dtypes, and what torch reads them as. What is missing here (sub-byte dtypes)
# torch has no plain tensors for.
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16,
    "I16": torch.int16, "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64,
    "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
    "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
}


class Checkpoint:
    """All tensors of a directory's *.safetensors. A context manager: closing ends the mappings.

    layout: {name: (dtype as the header says it, shape)}.
    """

    def __init__(self, directory: str):
        self._shards = contextlib.ExitStack()
        self._where: dict[str, safetensors.safe_open] = {}
        self.layout: dict[str, tuple[str, tuple[int, ...]]] = {}
        paths = sorted(pathlib.Path(directory).glob("*.safetensors"))
        if not paths:
            raise TransferError("not-found", f"checkpoint {directory}: has no *.safetensors")
        with contextlib.ExitStack() as on_failure:
            on_failure.push(self._shards)
            for path in paths:
                self._open(path)
            on_failure.pop_all()

    def _open(self, path: pathlib.Path) -> None:
        try:
            shard = self._shards.enter_context(safetensors.safe_open(path, framework="pt"))
        except Exception as error:  # the library's own kinds; each names what is wrong
            raise TransferError("corrupt", f"checkpoint {path}: {error}") from error
        for name in shard.keys():
            if name in self._where:
                raise TransferError("invalid", f"checkpoint {path}: {name} is in two shards")
            part = shard.get_slice(name)
            self._where[name] = shard
            self.layout[name] = part.get_dtype(), tuple(part.get_shape())

    def tensor(self, name: str) -> torch.Tensor:
        return self._where[name].get_tensor(name)

    def without_data(self) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, tensor of the right dtype and shape on the meta device) of all; unknown dtypes are
        left out."""
        for name, (dtype, shape) in self.layout.items():
            if dtype in DTYPES:
                yield name, torch.empty(shape, dtype=DTYPES[dtype], device="meta")

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_) -> None:
        self._where.clear()
        self._shards.close()
