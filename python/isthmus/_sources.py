"""Tensors of other libraries as bits in memory: what a publish reads.

A source is one tensor under the checkpoint's name. Nothing is cast: dtypes are safetensors' names, and
bits are looked at as unsigned integers. torch and numpy are never imported here: a tensor of theirs can
only come from a caller who did.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

from isthmus import _core
from isthmus.errors import InvalidError

# Bits of an element by safetensors' name of the dtype.
BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

# What numpy (with ml_dtypes, where it has no such type itself) and torch call them.
_BY_NAME = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex64": "C64", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip

# (DLDataTypeCode, bits) of dlpack.h.
_BY_DLPACK = {
    (0, 8): "I8", (0, 16): "I16", (0, 32): "I32", (0, 64): "I64", (1, 8): "U8", (1, 16): "U16",
    (1, 32): "U32", (1, 64): "U64", (2, 16): "F16", (2, 32): "F32", (2, 64): "F64", (4, 16): "BF16",
    (5, 64): "C64", (6, 8): "BOOL", (10, 8): "F8_E4M3", (11, 8): "F8_E4M3FNUZ", (12, 8): "F8_E5M2",
    (13, 8): "F8_E5M2FNUZ", (14, 8): "F8_E8M0",
}  # fmt: skip

# What is copied from a device, or gathered there, at a time.
PIECE_BYTES = 64 << 20


@dataclasses.dataclass
class Source:
    """One tensor. `address` is where its bits lie, row-major and without gaps, in this process's memory; None:
    they must be copied, which `copy` does, into (memory, offset). `owner` keeps them alive."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    address: int | None
    owner: Any
    copy: Callable[[_core.HostMemory, int], None]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * BITS[self.dtype] // 8


def refuse(name: str, what: str) -> InvalidError:
    return InvalidError(f"publish tensor {name}: {what}")


def is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def storage_key(tensor: Any) -> Any:
    """Equal for two tensors that are the same bits in the same place; None if that cannot be known."""
    if is_torch(tensor):
        torch = sys.modules["torch"]
        if not _is_plain(tensor, torch) or tensor.is_meta or tensor.layout != torch.strided:
            return None
        return (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
    pointer = getattr(tensor, "__array_interface__", None)
    if pointer is None:
        return None
    return (pointer["data"][0], pointer["typestr"], pointer["shape"], pointer.get("strides"))


def describe(name: str, tensor: Any) -> Source:
    """The tensor as a source; InvalidError, naming it, if it has no plain bits."""
    if is_torch(tensor):
        return _describe_torch(name, tensor)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        return _describe_numpy(name, tensor)
    if hasattr(tensor, "__dlpack__"):
        return _describe_dlpack(name, tensor)
    raise refuse(name, f"a {type(tensor).__qualname__}, expected a torch tensor, a numpy array or "
                       "something with __dlpack__")


# torch


def _is_plain(tensor: Any, torch: Any) -> bool:
    """Whether it is a tensor by itself, not a subclass that computes with other ones (quantised, distributed)."""
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _check_torch(name: str, tensor: Any, torch: Any) -> None:
    if not _is_plain(tensor, torch):
        raise refuse(name, f"a {type(tensor).__qualname__}, whose bits are not those of one plain tensor")
    if tensor.is_meta:
        raise refuse(name, "it is on the meta device and has no data")
    if tensor.layout != torch.strided:
        raise refuse(name, f"its layout is {tensor.layout}, expected torch.strided")
    if tensor.is_quantized:
        raise refuse(name, f"it is quantised ({tensor.dtype}); publish its parts")
    if tensor.is_conj() or tensor.is_neg():
        raise refuse(name, "it is a conjugate or negative view; resolve it first (resolve_conj, resolve_neg)")


def _describe_torch(name: str, tensor: Any) -> Source:
    torch = sys.modules["torch"]
    _check_torch(name, tensor, torch)
    dtype = _BY_NAME.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise refuse(name, f"checkpoints have no dtype {tensor.dtype}")
    flat = tensor.detach()
    here = flat.device.type == "cpu" and flat.is_contiguous()
    return Source(
        name=name,
        dtype=dtype,
        shape=tuple(flat.shape),
        address=flat.data_ptr() if here else None,
        owner=flat,
        copy=lambda memory, offset: _copy_torch(torch, flat, memory, offset),
    )


def _copy_torch(torch: Any, tensor: Any, memory: _core.HostMemory, offset: int) -> None:
    if tensor.numel() == 0:
        return
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.view(integer[tensor.element_size()])
    if tensor.device.type == "cpu":
        view = memory.view(offset, bits.numel() * bits.element_size())
        torch.frombuffer(view, dtype=bits.dtype).view(bits.shape).copy_(bits)
        return
    from isthmus import _device  # noqa: PLC0415  # only those who have a device need it

    _device.copy(bits, memory, offset)


# numpy


def _describe_numpy(name: str, array: Any) -> Source:
    numpy = sys.modules["numpy"]
    if isinstance(array, numpy.ma.MaskedArray):
        raise refuse(name, "it is a masked array")
    dtype = _BY_NAME.get(array.dtype.name)
    if dtype is None or not array.dtype.isnative:
        raise refuse(name, f"checkpoints have no dtype {array.dtype!r}")
    return Source(
        name=name,
        dtype=dtype,
        shape=tuple(array.shape),
        address=array.__array_interface__["data"][0] if array.flags.c_contiguous else None,
        owner=array,
        copy=lambda memory, offset: _copy_numpy(numpy, array, memory, offset),
    )


def _copy_numpy(numpy: Any, array: Any, memory: _core.HostMemory, offset: int) -> None:
    if array.size == 0:
        return
    bits = array.view(f"u{array.dtype.itemsize}")
    view = numpy.frombuffer(memory.view(offset, bits.nbytes), dtype=bits.dtype)
    numpy.copyto(view.reshape(bits.shape), bits)


# everything else that speaks DLPack


def _describe_dlpack(name: str, tensor: Any) -> Source:
    device_type, _ = tensor.__dlpack_device__()
    if device_type != 1:  # kDLCPU
        return _describe_by_torch(name, tensor)
    try:
        view = _core.DlpackView(tensor)
    except TypeError as error:
        raise refuse(name, f"its __dlpack__ gives no array ({error})") from error
    dtype = _BY_DLPACK.get((view.type_code, view.bits))
    if dtype is None:
        raise refuse(name, f"checkpoints have no dtype of DLPack code {view.type_code}, {view.bits} bits")
    if not view.contiguous:
        return _describe_by_torch(name, tensor)
    source = Source(name, dtype, tuple(view.shape), view.address, view, lambda memory, offset: None)
    source.copy = lambda memory, offset: memory.copy([(offset, view.address, source.nbytes)])
    return source


def _describe_by_torch(name: str, tensor: Any) -> Source:
    """What only a tensor library can gather or fetch."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise refuse(name, "it is not contiguous, or not on the CPU; import torch, which can read it, or "
                           "pass a contiguous array on the CPU")
    return _describe_torch(name, torch.from_dlpack(tensor))
