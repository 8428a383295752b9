"""Units of tensors, as patches count them (docs/patch-format.md, section 1), on torch."""

from __future__ import annotations

import torch

# By the size of a unit in bytes: what memory is viewed as to be read and written, and what a file
# names the same bits. torch does little with the latter, least of all on accelerators.
SIGNED = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}

_MASKS = {2: (1 << 16) - 1, 4: (1 << 32) - 1}
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)
_MODULUS = 1 << 64


def unit_bytes(dtype: torch.dtype) -> int:
    """1, 2 or 4: a 64-bit element is two units, its low half first."""
    return min(dtype.itemsize, 4)


def of_storage(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage under a tensor as a flat tensor of its units, for reading and writing."""
    size = unit_bytes(tensor.dtype)
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=SIGNED[size], device=tensor.device)
    return flat.set_(storage, 0, (storage.nbytes() // size,))


def of_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's units, flat, in place."""
    return tensor.view(-1).view(SIGNED[unit_bytes(tensor.dtype)])


def as_numbers(bits: torch.Tensor) -> torch.Tensor:
    """int64 numbers, not negative, of bits as `of_storage` gives them."""
    numbers = bits.to(torch.int64)
    return numbers if bits.dtype == torch.uint8 else numbers.bitwise_and_(_MASKS[bits.itemsize])


def factors(positions: torch.Tensor) -> torch.Tensor:
    """mix(i) of each position i: int64 that stands for the number modulo 2^64."""
    z = positions + 1
    shifted = torch.empty_like(z)
    for multiplier, shift in zip(_MULTIPLIERS, _SHIFTS):
        z *= _signed(multiplier)
        # torch shifts in copies of the sign: the mask takes them away.
        torch.bitwise_right_shift(z, shift, out=shifted)
        shifted &= (1 << (64 - shift)) - 1
        z ^= shifted
    z |= 1
    return z


def sum_of(positions: torch.Tensor, numbers: torch.Tensor) -> int:
    """The position-keyed sum of these units, 0 <= sum < 2^64; numbers may also be differences."""
    return int((factors(positions) * numbers).sum()) % _MODULUS


def _signed(value: int) -> int:
    return value - _MODULUS if value >= _MODULUS // 2 else value
