"""The must-decode vectors: {name: (base checkpoint, expected checkpoint, part)}.

Each function below is one vector, named like it, and returns the same three.
"""

import hashlib
import random
from functools import partial

import xxhash
from checkpoint import DTYPES, INDEX, Checkpoint, data_bytes, make_index, make_shard
from patch_writer import (
    DIRECT, RAW, XOR, diff, encode_direct, encode_raw, encode_xor, inverse_order, order, string,
    u16, varint,
)  # fmt: skip
from wire import FRAME_MAGIC, library_frame, stored_blocks

SHARD = "model.safetensors"
ALL_RAW = lambda name: (RAW, encode_raw)  # noqa: E731
ALL_XOR = lambda name: (XOR, encode_xor)  # noqa: E731


def all_direct(gap_mode=0, step_mode=0):
    return lambda name: (DIRECT, partial(encode_direct, gap_mode=gap_mode, step_mode=step_mode))


def noise(label, size):
    """Bytes that look random and depend on the label only."""
    return hashlib.shake_256(label.encode()).digest(size)


def tensor(dtype, dims, label):
    return (dtype, dims, noise(label, data_bytes(dtype, dims)))


def pack(values, w):
    return b"".join(value.to_bytes(w, "little") for value in values)


def changed(entry, values, w):
    """The tensor with other units: {unit index: value}."""
    dtype, dims, data = entry
    out = bytearray(data)
    for index, value in values.items():
        assert out[index * w : (index + 1) * w] != pack([value], w), "no change"
        out[index * w : (index + 1) * w] = pack([value], w)
    return (dtype, dims, bytes(out))


def stepped(entry, steps, w):
    """The tensor with other units: {unit index: step as the format defines it}."""
    dtype, dims, data = entry
    out = bytearray(data)
    for index, d in steps.items():
        here = slice(index * w, (index + 1) * w)
        position = (order(int.from_bytes(out[here], "little"), 8 * w) + d) % (1 << 8 * w)
        out[here] = inverse_order(position, 8 * w).to_bytes(w, "little")
    return (dtype, dims, bytes(out))


def nudged(entry, indices, w, by=1):
    return stepped(entry, {index: by for index in indices}, w)


def single(tensors, others=None, metadata=None):
    """A checkpoint of one shard."""
    return Checkpoint({SHARD: make_shard(tensors, metadata)} | (others or {}))


def sharded(shards):
    files = {file: make_shard(tensors) for file, tensors in shards.items()}
    return Checkpoint(files | {INDEX: make_index(shards)})


def with_part(old, new, choose, **options):
    return old, new, diff(old, new, choose, **options)


def example():
    """docs/patch-format-example.md"""
    old = [0x3F80, 0xBF80, 0x3E00, 0x0000, 0x4000, 0x4040, 0xC000, 0x3DCD]
    new = list(old)
    new[1], new[6] = 0xBF7F, 0xC001  # -1.0 a step up; -2.0 a step down
    before, after = (single({"w": ("BF16", (8,), pack(side, 2))}) for side in (old, new))
    return with_part(before, after, all_direct())


PLAIN_STEPS = {  # in tensors of the encoding direct: the least, the most, some between
    "layer.bias": {2: 9, 12: -9, 30: 2**7 - 1, 39: -(2**7)},
    "layer.weight": {1: 1, 2: -1, 30: 2**15 - 1, 47: -(2**15)},
    "wide": {0: 70000, 3: -70000, 10: 2**31 - 1, 11: -(2**31)},
}


def plain():
    """Some of everything; also what the must-fail vectors are forged from."""
    tensors = {
        "codes": tensor("F4", (2, 8), "plain codes"),
        "embed": tensor("F32", (4, 3), "plain embed"),
        "layer.bias": tensor("U8", (40,), "plain bias"),
        "layer.weight": tensor("BF16", (6, 8), "plain weight"),
        "none": tensor("F16", (0, 4), ""),
        "wide": tensor("I64", (6,), "plain wide"),
    }
    after = tensors | {
        "codes": tensor("F4", (2, 8), "plain other codes"),
        "embed": nudged(tensors["embed"], (0, 5, 11), 4, 3),
        "layer.bias": stepped(tensors["layer.bias"], PLAIN_STEPS["layer.bias"], 1),
        "layer.weight": stepped(tensors["layer.weight"], PLAIN_STEPS["layer.weight"], 2),
        "wide": stepped(tensors["wide"], PLAIN_STEPS["wide"], 4),
    }
    others = {"config.json": b'{"step": 1}\n', "old.txt": b"to be removed\n"}
    other_others = {"config.json": b'{"step": 10}\n', "extra/notes.txt": b"new\n"}
    old = single(tensors, others, {"step": "1"})
    new = single(after, other_others, {"step": "2"})
    encodings = {"codes": (RAW, encode_raw), "embed": (XOR, encode_xor)}
    return with_part(old, new, lambda name: encodings.get(name, (DIRECT, encode_direct)))


def plain_on_a_board():
    """Digests not stated."""
    old, new, part = plain()
    part.base = part.target = bytes(32)
    return old, new, part


def newer_minor():
    old, new, part = plain()
    part.forge["minor_version"] = u16(7)
    return old, new, part


def nothing_changed():
    old, _, _ = plain()
    return with_part(old, old, ALL_RAW)


def every_dtype(choose, label, dense):
    tensors, after = {}, {}
    for dtype, bits in DTYPES.values():
        dims = (3, 8) if bits < 64 else (2, 5)
        tensors[dtype.lower()] = tensor(dtype, dims, label + dtype)
        if dense:
            after[dtype.lower()] = tensor(dtype, dims, label + "new" + dtype)
        else:
            w = {16: 2}.get(bits, 1 if bits < 16 else 4)
            units = data_bytes(dtype, dims) // w
            near = nudged(tensors[dtype.lower()], (0, units // 2), w)
            after[dtype.lower()] = nudged(near, (units - 2, units - 1), w, 1 << (8 * w - 1))
    return with_part(single(tensors), single(after), choose)


def every_dtype_raw():
    return every_dtype(ALL_RAW, "raw", dense=True)


def every_dtype_xor():
    return every_dtype(ALL_XOR, "xor", dense=False)


def every_dtype_direct():
    return every_dtype(all_direct(0, 1), "direct", dense=False)


def symbol_modes():
    """Gaps and steps in each pair of modes; mode 2 wants equal gaps or equal steps."""
    before, after, modes = {}, {}, {}
    for gap_mode in range(3):
        for step_mode in range(3):
            name = f"gaps_{gap_mode}.steps_{step_mode}"
            modes[name] = all_direct(gap_mode, step_mode)(name)
            before[name] = ("BF16", (10, 10), pack(range(0x3F80, 0x3F80 + 100), 2))
            spacing = 7 if gap_mode == 2 else 1
            indices = [i for i in range(6, 100, spacing) if spacing == 7 or i * i % 7 == 2]
            by = {i: 2 if step_mode == 2 else 1 + i * i % 90 for i in indices}
            values = {i: 0x3F80 + i + by[i] for i in indices}
            after[name] = changed(before[name], values, 2)
    return with_part(single(before), single(after), modes.get)


def special_values(exponent_bits, mantissa_bits):
    """Pairs of bit patterns of an IEEE-like float: (old, new)."""
    sign = 1 << (exponent_bits + mantissa_bits)
    infinity = sign - (1 << mantissa_bits)
    one, least_normal, all_ones = infinity // 2, 1 << mantissa_bits, 2 * sign - 1
    return [
        (sign, 0), (0, sign), (1, 0), (0, 1), (1, sign | 1), (least_normal - 1, least_normal),
        (least_normal | sign, (least_normal - 1) | sign), (infinity, infinity | sign),
        (infinity | sign, infinity), (infinity, infinity + 1), (infinity + 1, sign - 1),
        (sign - 1, infinity), (infinity - 1, infinity), (infinity, infinity - 1), (one, one | sign),
        (all_ones, sign - 1), (sign - 1, all_ones), (0, all_ones), (all_ones, sign), (one, one ^ 1),
    ]  # fmt: skip


def special_floats():
    """Zeros, infinities, NaNs, subnormals; the largest steps (0 to all ones and back to -0)."""
    formats = {"F32": (8, 23), "BF16": (8, 7), "F16": (5, 10), "F8_E5M2": (5, 2),
               "F8_E4M3": (4, 3), "F64": (11, 52)}  # fmt: skip
    before, after = {}, {}
    for dtype, bits in formats.items():
        pairs = special_values(*bits)
        size = data_bytes(dtype, (1,))
        before[dtype] = (dtype, (len(pairs),), pack([old for old, _ in pairs], size))
        after[dtype] = (dtype, (len(pairs),), pack([new for _, new in pairs], size))
    return with_part(single(before), single(after), all_direct(0, 0))


def every_unit_changed():
    """Gaps of zero and one step throughout: symbols of mode 2, no extra bits."""
    before = {"w": ("BF16", (300,), pack(range(0x3C00, 0x3C00 + 300), 2))}
    after = {"w": nudged(before["w"], range(300), 2)}
    return with_part(single(before), single(after), all_direct(2, 2))


def steps_of_all_sizes():
    """Every bucket of a step, up and down, for units of 1, 2 and 4 bytes."""
    before, after = {}, {}
    for dtype, w in (("I8", 1), ("U16", 2), ("I32", 4)):
        top = 1 << (8 * w - 1)
        sizes = sorted({v for b in range(8 * w - 1) for v in (1 << b, (3 << b) // 2)})
        steps = [d for v in sizes for d in (v, -v)] + [top - 1, -top]
        before[dtype] = tensor(dtype, (len(steps),), "steps " + dtype)
        after[dtype] = stepped(before[dtype], dict(enumerate(steps)), w)
    return with_part(single(before), single(after), all_direct(2, 0))


def zeros_with(units, changes, choose):
    before = {"w": ("U8", (units,), bytes(units))}
    after = {"w": changed(before["w"], changes, 1)}
    return with_part(single(before), single(after), choose)


def one_full_chunk():
    """The longest gap there is: only the last of 2^20 units changes."""
    return zeros_with(2**20, {2**20 - 1: 1}, all_direct())


def two_chunks():
    changes = {0: 5, 4: 1, 70000: 200, 2**20 - 1: 7, 2**20: 8, 2**20 + 4: 255}
    return zeros_with(2**20 + 5, changes, all_direct(1, 1))


def second_chunk_only():
    return zeros_with(2**20 + 5, {2**20 + 3: 1}, ALL_XOR)


def chunk_unchanged_in_range():
    """A range that begins and ends with unchanged chunks (0 bytes)."""
    old, new, part = zeros_with(2**20 + 5, {2**20 + 3: 1}, ALL_RAW)
    part.tensors[0].first_chunk = 0
    part.tensors[0].payloads.insert(0, b"")
    return old, new, part


def pair_spans_the_chunk():
    """64-bit elements: 2^19 of them fill a chunk; both halves change on both sides of its end."""
    count = 2**19 + 1
    data = bytearray(8 * count)
    data[-16:] = bytes.fromhex("ffffffff00000080 0100000000000000")
    new = bytearray(data)
    new[-16:] = bytes.fromhex("00000000ffffffff 00000000000000c0")
    before, after = ({"w": ("I64", (count,), bytes(side))} for side in (data, new))
    return with_part(single(before), single(after), all_direct())


def files_of_all_kinds():
    """Added, replaced, emptied, nested, removed; a header whose metadata changed; no tensor."""
    tensors = {"w": tensor("BF16", (4,), "files")}
    old = {"config.json": b"{}\n", "merges.txt": b"a b\n", "sub/deep/old.bin": b"\0" * 9,
           "same.txt": b"same\n"}  # fmt: skip
    new = {"config.json": b'{"a": 1}\n', "merges.txt": b"", "sub/deep/new.bin": b"\1" * 300,
           "same.txt": b"same\n", "sub-a": b"sorts before sub/\n"}  # fmt: skip
    before, after = single(tensors, old, {"step": "37"}), single(tensors, new, {"step": "38"})
    return with_part(before, after, ALL_RAW)


def several_shards():
    """Three shards, one untouched; scalars; a tensor without elements; a replaced index."""
    shards = {
        "model-00001-of-00003.safetensors": {
            "b.weight": tensor("BF16", (2, 9), "b"),
            "a.scalar": tensor("BF16", (), "a"),
        },
        "model-00002-of-00003.safetensors": {
            "c.untouched": tensor("F32", (3,), "c"),
            "none": tensor("BF16", (5, 0), ""),
        },
        "model-00003-of-00003.safetensors": {
            "a.scalar64": tensor("F64", (), "64"),
            "z": tensor("F8_E4M3", (17,), "z"),
        },
    }
    after = {file: dict(tensors) for file, tensors in shards.items()}
    first, _, last = after.values()
    first["a.scalar"] = nudged(first["a.scalar"], [0], 2)
    first["b.weight"] = nudged(first["b.weight"], [3, 17], 2)
    last["a.scalar64"] = nudged(last["a.scalar64"], [1], 4)
    last["z"] = nudged(last["z"], [16], 1)
    old, new = sharded(shards), sharded(after)
    new.files[INDEX] = new.files[INDEX].replace(b" ", b"")
    return with_part(old, Checkpoint(new.files), all_direct())


def names():
    """Shared beginnings, a name that begins with the one before, UTF-8; the longest name."""
    keys = ["a", "ab", "abc", "layers.10.w", "layers.9.w", "layers.9.w_scale", "n" * 4096,
            "\u00e9", "\U0001f600"]  # fmt: skip
    before = {key: tensor("U8", (3,), key) for key in keys}
    after = {key: nudged(value, [1], 1) for key, value in before.items()}
    return with_part(single(before), single(after), all_direct())


def shared_shorter_than_it_could_be():
    old, new, part = names()
    entry = part.tensors[2]
    entry.forge = {"shared": varint(1), "suffix": string(entry.name[1:])}
    return old, new, part


def highest_rank():
    before = {"w": tensor("BF16", (1,) * 30 + (3, 2), "rank")}
    after = {"w": nudged(before["w"], [5], 2)}
    return with_part(single(before), single(after), all_direct())


def frame_with_window(content):
    """A frame with a window (1 MiB), its content size in 8 bytes and a checksum."""
    head = FRAME_MAGIC + b"\xc4\x50" + len(content).to_bytes(8, "little")
    return head + stored_blocks(content) + xxhash.xxh64_intdigest(content).to_bytes(8, "little")[:4]


def frames_of_another_shape():
    old, new, _ = plain()
    encodings = {
        "codes": (RAW, partial(encode_raw, frame=frame_with_window)),
        "embed": (XOR, partial(encode_xor, frame=frame_with_window)),
    }
    direct = partial(encode_direct, gap_mode=1, step_mode=1, frame=frame_with_window)
    part = diff(old, new, lambda name: encodings.get(name, (DIRECT, direct)))
    part.frame = frame_with_window
    for file in part.files:
        file.frame = frame_with_window
    return old, new, part


def padded_frame(content, size):
    """A frame of `size` bytes: with empty blocks, and with the head that makes it fit."""
    checksum = xxhash.xxh64_intdigest(content).to_bytes(8, "little")[:4]
    for descriptor, size_bytes in ((0x20, 1), (0xA0, 4), (0xE0, 8)):
        for flag, tail in ((0, b""), (4, checksum)):
            head = bytes([descriptor | flag]) + len(content).to_bytes(size_bytes, "little")
            parts = [FRAME_MAGIC, head, stored_blocks(content), tail]
            padding = size - len(b"".join(parts))
            if padding % 3 == 0:
                parts.insert(2, bytes(padding))
                return b"".join(parts)
    raise ValueError(f"no frame of {size} bytes")


def largest_payload():
    """A chunk's payload of all the bytes that it may have."""
    before = {"w": tensor("U8", (40,), "largest")}
    after = {"w": tensor("U8", (40,), "largest payload")}
    frame = partial(padded_frame, size=40 + 1024)
    choose = lambda name: (RAW, partial(encode_raw, frame=frame))  # noqa: E731
    return with_part(single(before), single(after), choose)


def compressed_frames():
    """All frames by the zstd library: entropy-coded literals, matches."""
    draw = random.Random(7)
    values = [draw.randrange(0x3F00, 0x3F60) for _ in range(700)]
    moved = [value + (draw.random() < 0.4) * draw.choice((1, 1, 1, -1, 2)) for value in values]
    before = {name: ("BF16", (700,), pack(values, 2)) for name in ("direct", "raw", "xor")}
    after = {name: ("BF16", (700,), pack(moved, 2)) for name in before}
    encodings = {
        "direct": (DIRECT, partial(encode_direct, gap_mode=1, step_mode=1, frame=library_frame)),
        "raw": (RAW, partial(encode_raw, frame=library_frame)),
        "xor": (XOR, partial(encode_xor, frame=library_frame)),
    }
    text = b"".join(b'"token %d": %d,\n' % (i, i * i) for i in range(60))
    old, new = single(before), single(after, {"vocab.json": text})
    part = diff(old, new, encodings.get)
    part.frame = part.files[0].frame = library_frame
    return old, new, part


VECTORS = (
    example, plain, plain_on_a_board, newer_minor, nothing_changed, every_dtype_raw,
    every_dtype_xor, every_dtype_direct, symbol_modes, special_floats, every_unit_changed,
    steps_of_all_sizes, one_full_chunk, two_chunks, second_chunk_only, chunk_unchanged_in_range,
    pair_spans_the_chunk, files_of_all_kinds, several_shards, names,
    shared_shorter_than_it_could_be, highest_rank, largest_payload,
    frames_of_another_shape, compressed_frames,
)  # fmt: skip


def vectors():
    return {function.__name__.replace("_", "-"): function() for function in VECTORS}
