"""The must-decode vectors: {name: (base checkpoint, expected checkpoint, part)}.

Each function below is one vector, named like it, and returns the same three. Those of the encodings
direct and context, and of pools, are in must_decode_sparse.py and must_decode_layout.py.
"""

from functools import partial

import must_decode_layout
import must_decode_sparse
import xxhash
from checkpoint import DTYPES, INDEX, Checkpoint
from drawing import (
    Draw, all_direct, all_raw, all_xor, by_dtype, nudged, pack, sharded, single, stepped, tensor,
    units_in, with_part,
)  # fmt: skip
from patch_writer import diff, encode_raw, encode_xor, string, u16, varint
from sparse_writer import Geometric, encode_sparse
from wire import FRAME_MAGIC, library_frame, stored_blocks

PLAIN_STEPS = {  # in tensors of the encodings direct and context: the least, the most, some between
    "layer.bias": {2: 9, 12: -9, 30: 2**7 - 1, 39: -(2**7)},
    "layer.tail": {4: 3},
    "layer.weight": {1: 1, 2: -1, 30: 2**15 - 1, 47: -(2**15)},
    "wide": {0: 70000, 3: -70000, 10: 2**31 - 1, 11: -(2**31)},
}
PLAIN_ENCODERS = {
    "F4": encode_raw, "U8": encode_sparse, "F32": encode_xor, "I64": encode_sparse,
    "BF16": partial(encode_sparse, thresholds=(128,), geometric={1: Geometric(18, 20)}),
}  # fmt: skip


def plain():
    """Some of everything; also what the must-fail vectors are forged from."""
    tensors = {
        "codes": tensor("F4", (2, 8), "plain codes"),
        "embed": tensor("F32", (4, 3), "plain embed"),
        "layer.bias": tensor("U8", (40,), "plain bias"),
        "layer.gain": tensor("U8", (5,), "plain gain"),
        "layer.tail": tensor("U8", (6,), "plain tail"),
        "layer.weight": tensor("BF16", (6, 8), "plain weight"),
        "none": tensor("F16", (0, 4), ""),
        "wide": tensor("I64", (6,), "plain wide"),
    }
    after = tensors | {
        "codes": tensor("F4", (2, 8), "plain other codes"),
        "embed": nudged(tensors["embed"], (0, 5, 11), 4, 3),
        "layer.bias": stepped(tensors["layer.bias"], PLAIN_STEPS["layer.bias"], 1),
        "layer.tail": stepped(tensors["layer.tail"], PLAIN_STEPS["layer.tail"], 1),
        "layer.weight": stepped(tensors["layer.weight"], PLAIN_STEPS["layer.weight"], 2),
        "wide": stepped(tensors["wide"], PLAIN_STEPS["wide"], 4),
    }
    others = {"config.json": b'{"step": 1}\n', "old.txt": b"to be removed\n"}
    other_others = {"config.json": b'{"step": 10}\n', "extra/notes.txt": b"new\n"}
    old = single(tensors, others, {"step": "1"})
    new = single(after, other_others, {"step": "2"})
    return with_part(old, new, by_dtype(**PLAIN_ENCODERS))


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
    return with_part(old, old, all_raw)


def every_dtype(choose, label, dense):
    tensors, after = {}, {}
    for dtype, bits in DTYPES.values():
        dims = (3, 8) if bits < 64 else (2, 5)
        tensors[dtype.lower()] = tensor(dtype, dims, label + dtype)
        if dense:
            after[dtype.lower()] = tensor(dtype, dims, label + "new" + dtype)
        else:
            units, w = units_in(dtype, dims)
            near = nudged(tensors[dtype.lower()], (0, units // 2), w)
            after[dtype.lower()] = nudged(near, (units - 2, units - 1), w, 1 << (8 * w - 1))
    return with_part(single(tensors), single(after), choose)


def every_dtype_raw():
    return every_dtype(all_raw, "raw", dense=True)


def every_dtype_xor():
    return every_dtype(all_xor, "xor", dense=False)


def files_of_all_kinds():
    """Added, replaced, emptied, nested, removed; a header whose metadata changed; no tensor."""
    tensors = {"w": tensor("BF16", (4,), "files")}
    old = {"config.json": b"{}\n", "merges.txt": b"a b\n", "sub/deep/old.bin": b"\0" * 9,
           "same.txt": b"same\n"}  # fmt: skip
    new = {"config.json": b'{"a": 1}\n', "merges.txt": b"", "sub/deep/new.bin": b"\1" * 300,
           "same.txt": b"same\n", "sub-a": b"sorts before sub/\n"}  # fmt: skip
    before, after = single(tensors, old, {"step": "37"}), single(tensors, new, {"step": "38"})
    return with_part(before, after, all_raw)


def several_shards():
    """Three shards, one untouched, a pool of tensors in two; scalars; a tensor without elements;
    a replaced index."""
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
            "b.bias": tensor("BF16", (7,), "bias"),
            "z": tensor("F8_E4M3", (17,), "z"),
        },
    }
    after = {file: dict(tensors) for file, tensors in shards.items()}
    first, _, last = after.values()
    first["a.scalar"] = nudged(first["a.scalar"], [0], 2)
    first["b.weight"] = nudged(first["b.weight"], [3, 17], 2)
    last["b.bias"] = nudged(last["b.bias"], [0, 6], 2)
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
    raw, xor = (partial(encode, frame=frame_with_window) for encode in (encode_raw, encode_xor))
    part = diff(old, new, by_dtype(**PLAIN_ENCODERS | {"F4": raw, "F32": xor}))
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
    return with_part(single(before), single(after), lambda chunk: partial(encode_raw, frame=frame))


def compressed_frames():
    """All frames by the zstd library: entropy-coded literals, matches."""
    draw = Draw("compressed frames")
    values = [0x3F00 + draw.below(0x60) for _ in range(700)]
    moved = [value + draw.choice((0, 0, 0, 0, 0, 0, 1, 1, -1, 2)) for value in values]
    before = {dtype: (dtype, (700,), pack(values, 2)) for dtype in ("I16", "U16", "BF16")}
    after = {dtype: (dtype, (700,), pack(moved, 2)) for dtype in before}
    raw, xor = (partial(encode, frame=library_frame) for encode in (encode_raw, encode_xor))
    context = partial(encode_sparse, thresholds=(126,))
    text = b"".join(b'"token %d": %d,\n' % (i, i * i) for i in range(60))
    old, new = single(before), single(after, {"vocab.json": text})
    part = diff(old, new, by_dtype(I16=raw, U16=xor, BF16=context))
    part.frame = part.files[0].frame = library_frame
    return old, new, part


VECTORS = (
    plain, plain_on_a_board, newer_minor, nothing_changed, every_dtype_raw, every_dtype_xor,
    files_of_all_kinds, several_shards, names, shared_shorter_than_it_could_be, highest_rank,
    largest_payload, frames_of_another_shape, compressed_frames,
    *must_decode_layout.VECTORS, *must_decode_sparse.VECTORS,
)  # fmt: skip


def vectors():
    return {function.__name__.replace("_", "-"): function() for function in VECTORS}
