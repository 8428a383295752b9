"""The must-decode vectors of how a checkpoint is cut into chunks (section 1 of the format)."""

from drawing import (
    all_context, all_direct, all_xor, by_dtype, by_quantiles, changed, nudged, single, stepped,
    tensor, with_part,
)  # fmt: skip
from patch_writer import encode_raw, encode_xor
from sparse_writer import Bitmap


def zeros(units):
    return ("U8", (units,), bytes(units))


def zeros_with(units, changes, choose):
    before = {"w": zeros(units)}
    after = {"w": changed(before["w"], changes, 1)}
    return with_part(single(before), single(after), choose)


def one_full_chunk():
    """The longest gap there is in units: only the last of 2^20 changes."""
    return zeros_with(2**20, {2**20 - 1: 1}, all_direct())


TWO_CHUNKS = {0: 5, 4: 1, 70000: 200, 2**20 - 1: 7, 2**20: 8, 2**20 + 4: 255}


def two_chunks():
    return zeros_with(2**20 + 5, TWO_CHUNKS, all_direct())


def two_chunks_context():
    """Classes that are long stretches; gaps run through them from one to the next."""
    stretches = [(0x3F, 300_001), (0x40, 77_777), (0x3F, 500_000), (0x3E, 170_798), (0x40, 3)]
    data = b"".join(bytes([value]) * (2 * units) for value, units in stretches)
    units = sum(units for _, units in stretches)
    at = [0, 1, 4095, 4096, 300_000, 300_001, 377_777, 377_778, 877_777, 877_778, 2**20 - 1, 2**20,
          units - 4, units - 3, units - 1]  # fmt: skip
    before = {"w": ("BF16", (units,), data)}
    after = {"w": stepped(before["w"], {i: (-1) ** i * (1 + i % 9) for i in at}, 2)}
    choose = all_context(0x7E, 0x80, bitmap=Bitmap(2, 5))
    return with_part(single(before), single(after), choose)


def second_chunk_only():
    return zeros_with(2**20 + 5, {2**20 + 3: 1}, all_xor)


def pair_spans_the_chunk():
    """64-bit elements: 2^19 of them fill a chunk; both halves change on both sides of its end."""
    count = 2**19 + 1
    data = bytearray(8 * count)
    data[-16:] = bytes.fromhex("ffffffff00000080 0100000000000000")
    new = bytearray(data)
    new[-16:] = bytes.fromhex("00000000ffffffff 00000000000000c0")
    before, after = ({"w": ("I64", (count,), bytes(side))} for side in (data, new))
    return with_part(single(before), single(after), all_direct())


def pools():
    """Two pools among others, of tensors of which some do not change; F6 beside them."""
    before = {}
    for layer in range(11):
        for name, dtype in (("k", "BF16"), ("q", "BF16"), ("scale", "F32")):
            key = f"layers.{layer}.{name}"
            before[key] = tensor(dtype, (2, 5), key)
    before["norm"], before["empty"] = tensor("BF16", (9,), "norm"), tensor("F32", (0,), "")
    before["six"] = tensor("F6_E2M3", (4, 3), "six")
    after = dict(before)
    for layer, name, unit in ((0, "k", 0), (1, "k", 9), (9, "k", 3), (10, "k", 3), (3, "q", 7),
                              (10, "q", 0), (2, "scale", 5), (10, "scale", 9)):  # fmt: skip
        key = f"layers.{layer}.{name}"
        after[key] = nudged(after[key], [unit], 4 if name == "scale" else 2)
    after["norm"] = nudged(after["norm"], [8], 2)
    after["six"] = nudged(after["six"], [8], 1)
    return with_part(single(before), single(after), by_quantiles(4))


def pools_dense():
    """The byte planes of raw and xor are those of the pool, not of its tensors."""
    before = {f"layers.{i}.{name}": tensor(dtype, (3,), f"{name} {i}")
              for i in range(3) for name, dtype in (("b", "BF16"), ("f", "F32"))}  # fmt: skip
    after = {key: nudged(entry, [0, 2], 2) if "1" not in key else entry
             for key, entry in before.items()}  # fmt: skip
    return with_part(single(before), single(after), by_dtype(F32=encode_raw, BF16=encode_xor))


def families():
    """By family first: names without ASCII digits order otherwise than names with them."""
    keys = ["a1z", "a2a", "a10z", "0a9z9", "7", "12", "a", "a.1", "a.", "b0", "\u0663a", "a\u06631"]
    before = {key: tensor("I8", (1 + len(key),), key) for key in keys}
    after = {key: nudged(entry, [] if key == "a." else [0], 1, 1 + at)
             for at, (key, entry) in enumerate(before.items())}  # fmt: skip
    return with_part(single(before), single(after), all_direct())


def pool_limits():
    """A pool of exactly 2^20 units, and what is a unit too much for one; none across dtypes; a
    large tensor comes before all of them, whatever its dtype and name."""
    sizes = {"a": 600_000, "b": 2**20 - 600_000, "c": 1, "d": 2**20 - 1, "e": 1, "f": 2}
    before = {key: zeros(units) for key, units in sizes.items()}
    before["g"], before["h"] = ("I8", (3,), bytes(3)), ("I8", (2**20 - 3,), bytes(2**20 - 3))
    before["z"] = ("I16", (2**20,), bytes(2**21))
    after = {key: changed(entry, {0: 1, len(entry[2]) - 1: 2}, 1) for key, entry in before.items()}
    return with_part(single(before), single(after), all_direct())


VECTORS = (
    one_full_chunk, two_chunks, two_chunks_context, second_chunk_only, pair_spans_the_chunk, pools,
    pools_dense, families, pool_limits,
)  # fmt: skip
