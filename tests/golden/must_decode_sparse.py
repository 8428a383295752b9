"""The must-decode vectors of the encodings direct and context, and of their models."""

from functools import partial

from checkpoint import DTYPES, data_bytes
from drawing import (
    Draw, all_context, all_direct, by_dtype, by_quantiles, changed, noise, nudged, pack, single,
    stepped, tensor, units_in, with_part,
)  # fmt: skip
from sparse_writer import (
    Bitmap, Explicit, Geometric, Model, changes_between, codes_of, encode_sparse, fit,
)  # fmt: skip


def example():
    """docs/patch-format-example.md"""
    old = [0x3F80, 0xBF80, 0x3E00, 0x0000, 0x4000, 0x4040, 0xC000, 0x3DCD]
    new = list(old)
    new[1], new[2], new[6] = 0xBF7F, 0x3E0A, 0xC001  # steps 1, 10, -1
    before, after = (single({"w": ("BF16", (8,), pack(side, 2))}) for side in (old, new))
    classes = [(0, Geometric(8, 8)), (0, Explicit(128, [256, 64, 64]))]
    model = Model(0, (127,), [[352, 0, 0, 0, 0, 0, 0, 0, 160]], classes)
    return with_part(before, after, all_context(model=model))


# Every dtype


def drawn_steps(draw, units, bits):
    """{unit: step} for a fifth of them, most of them small."""
    at = draw.sample(units, units // 5)
    top = 2 ** (bits - 1)
    return {i: draw.choice((1, 1, 1, -1, -1, 2, -3, top // 2, -top)) for i in at}


def every_dtype(label, choose):
    draw, before, after = Draw(label), {}, {}
    for dtype, bits in DTYPES.values():
        name, dims = dtype.lower(), (64 if bits < 64 else 32, 2)
        before[name] = tensor(dtype, dims, f"{label} {dtype}")
        units, w = units_in(dtype, dims)
        after[name] = stepped(before[name], drawn_steps(draw, units, 8 * w), w)
    return with_part(single(before), single(after), choose)


def every_dtype_direct():
    return every_dtype("direct", all_direct())


def every_dtype_context():
    """Keys are those of the dtype, or classes and with them positions are others."""
    return every_dtype("context", by_quantiles(5))


def every_dtype_codes_direct():
    return every_dtype("codes direct", all_direct(elements=1))


def every_dtype_codes_context():
    return every_dtype("codes context", by_quantiles(5, elements=1))


# Values and steps


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


def special_floats(choose):
    """Zeros, infinities, NaNs, subnormals; the largest steps (0 to all ones and back to -0)."""
    formats = {"F32": (8, 23), "BF16": (8, 7), "F16": (5, 10), "F8_E5M2": (5, 2),
               "F8_E4M3": (4, 3), "F64": (11, 52)}  # fmt: skip
    before, after = {}, {}
    for dtype, bits in formats.items():
        pairs = special_values(*bits)
        size = data_bytes(dtype, (1,))
        before[dtype] = (dtype, (len(pairs),), pack([old for old, _ in pairs], size))
        after[dtype] = (dtype, (len(pairs),), pack([new for _, new in pairs], size))
    return with_part(single(before), single(after), choose)


def special_floats_direct():
    return special_floats(all_direct())


def special_floats_context():
    return special_floats(by_quantiles(3, step_tables=2))


def every_unit_changed():
    """Gaps of zero and one step throughout: tables in which a code takes next to no bits."""
    before = {"w": ("BF16", (300,), pack(range(0x3C00, 0x3C00 + 300), 2)),
              "v": tensor("U8", (300,), "every unit")}  # fmt: skip
    after = {"w": nudged(before["w"], range(300), 2), "v": nudged(before["v"], range(300), 1, -1)}
    return with_part(single(before), single(after), by_quantiles(2))


def steps_of_all_sizes():
    """Every bucket of a step, up and down, for units of 1, 2 and 4 bytes."""
    before, after = {}, {}
    for dtype, w in (("I8", 1), ("U16", 2), ("I32", 4)):
        top = 1 << (8 * w - 1)
        sizes = sorted({v for b in range(8 * w - 1) for v in (1 << b, (3 << b) // 2)})
        steps = [d for v in sizes for d in (v, -v)] + [top - 1, -top]
        before[dtype] = tensor(dtype, (len(steps),), "steps " + dtype)
        after[dtype] = stepped(before[dtype], dict(enumerate(steps)), w)
    return with_part(single(before), single(after), all_direct())


def steps_of_all_codes():
    """From every 4-bit code to every other one, in both halves of a byte."""
    pairs = [(old, new) for old in range(16) for new in range(16)]
    before, after = ({"codes": ("F4", (2, 256), pack([code * 17 for code in side], 1))}
                     for side in zip(*pairs))  # fmt: skip
    return with_part(single(before), single(after), by_quantiles(3, elements=1))


# Gaps


def full_chunk_of_codes():
    """The longest gap there is: only the last of 2^23 codes changes."""
    before = {"w": ("I32", (2**20,), bytes(2**22))}
    after = {"w": changed(before["w"], {2**20 - 1: 0x70000000}, 4)}
    return with_part(single(before), single(after), all_direct(elements=1))


def stretches(label, units):
    """BF16 units of ten exponents in stretches of some ten to some hundred."""
    draw, out = Draw(label), b""
    while len(out) < 2 * units:
        out += bytes([draw.choice((0x3C, 0x3D, 0x3E, 0x3F, 0xBD))]) * (2 * (40 + draw.below(860)))
    return out[: 2 * units]


def blocks():
    """Changes go block by block and class by class, at the blocks' ends too; the last is short."""
    units = 3 * 4096 + 100
    before = {"w": ("BF16", (units,), stretches("blocks", units))}
    draw = Draw("changes in blocks")
    at = {0, 4095, 4096, 8191, 8192, 12287, 12288, units - 1, *draw.sample(units, 60)}
    after = {"w": stepped(before["w"], {i: draw.choice((1, -1, 2, 40)) for i in sorted(at)}, 2)}
    choose = all_context(122, 123, 125)
    return with_part(single(before), single(after), choose)


def geometric_with_skips():
    """Gaps of many times the skip length; gaps that are exactly that, one less, one more."""
    gaps = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 31, 32, 33, 1000, 5]
    at = [sum(gaps[: i + 1]) + i for i in range(len(gaps))]
    before = {dtype: (dtype, (1400,), bytes(1400)) for dtype in ("U8", "I8", "BOOL")}
    after = {key: nudged(entry, at, 1) for key, entry in before.items()}
    pairs = {"BOOL": (0, 40), "U8": (8, 40), "I8": (20, 36)}
    encoders = {dtype: partial(encode_sparse, geometric={0: Geometric(a, e)})
                for dtype, (a, e) in pairs.items()}  # fmt: skip
    return with_part(single(before), single(after), by_dtype(**encoders))


def geometric_tables():
    """From the shortest mean gap to the longest; END from 1 state to most of them; one state left
    for the largest share; the largest share is SKIP's."""
    pairs = ((0, 255), (1, 80), (7, 20), (24, 100), (40, 16), (57, 1), (64, 72), (100, 9),
             (128, 50), (176, 8), (179, 41), (200, 40), (254, 255), (255, 24))  # fmt: skip
    dtypes = [dtype for dtype, bits in DTYPES.values() if bits in (8, 16, 32)]
    assert len(dtypes) >= len(pairs)
    before, after, encoders = {}, {}, {}
    for dtype, (a, e) in zip(dtypes, pairs):
        before[dtype] = (dtype, (3000,), bytes(data_bytes(dtype, (3000,))))
        draw = Draw(f"geometric {a}")
        _, w = units_in(dtype, (1,))
        after[dtype] = nudged(before[dtype], draw.sample(3000, 12), w, -1)
        encoders[dtype] = partial(encode_sparse, geometric={0: Geometric(a, e)})
    return with_part(single(before), single(after), by_dtype(**encoders))


def geometric_end_only():
    """e = 0: classes that have elements but no changes, and cost no bits."""
    data = b"".join(bytes([value]) * 400 for value in (0x3C, 0xBD, 0x3E, 0x3D, 0x3F))
    before = {"w": ("BF16", (1000,), data)}
    after = {"w": nudged(before["w"], [200, 300, 399, 600, 799], 2)}
    ends = {class_: Geometric(a, 0) for class_, a in ((0, 0), (2, 200), (3, 255))}
    return with_part(single(before), single(after), all_context(122, 124, 126, geometric=ends))


EXPLICIT = {  # dtype: (END count, gap counts, step counts, {changed unit: step})
    "BOOL": (511, [0, 0, 0, 1], [512], {3: -1}),
    "U8": (96, [11, 0, 0, 300, 0, 100, *[0] * 4, 4, *[0] * 34, 1],
           [200, 0, 100, 0, 0, 199, *[0] * 113, 13], {3: 1, 10: 3, 18: -6, 54: 6}),
    "I8": (1, [511], [1, 511], {0: 2, 1: -2, 2: 1, 3: 2, 4: 2}),
    "F8_E8M0": (1, [*[1] * 45, 466], [*[4] * 104, 96], {1: 9, 2: -128, 40: 77}),
}  # fmt: skip


def explicit_tables():
    """Counts of 0 between others, 46 buckets, 120 step buckets; END in 1 state and in 511."""
    before, after, encoders = {}, {}, {}
    for dtype, (end, gaps, step_counts, steps) in EXPLICIT.items():
        before[dtype] = tensor(dtype, (60,), "explicit " + dtype)
        after[dtype] = stepped(before[dtype], steps, 1)
        model = Model(0, (), [step_counts], [(0, Explicit(end, gaps))])
        encoders[dtype] = partial(encode_sparse, model=model)
    return with_part(single(before), single(after), by_dtype(**encoders))


# Activity bitmaps


BITMAPS = {  # dtype: (bitmap, units, those that change)
    "BOOL": (Bitmap(0, 0), 512 * 9 + 1, [0, 511, 4608]),
    "U8": (Bitmap(0, 1), 512 * 12, [520]),
    "I8": (Bitmap(1, 2, (0, 5)), 1024 * 7 + 500, [1024, 2047, 3000]),
    "F8_E5M2": (Bitmap(2, 0), 2048 * 9, [2048 * 7]),
    "F8_E4M3": (Bitmap(3, 4), 40000, [39999]),
    "F8_E8M0": (Bitmap(3, 15, (1,)), 4096 * 3 - 1, [9000]),
    "F8_E4M3FNUZ": (Bitmap(0, 0, tuple(range(9))), 512 * 9, [77]),
    "F8_E5M2FNUZ": (Bitmap(2, 3), 100, [7, 99]),
}


def bitmaps():
    """Granules of every size, numbers with and without low bits; the last granule short, whole,
    idle, active; granules that are active though nothing changes in them."""
    before, after, encoders = {}, {}, {}
    for dtype, (bitmap, units, at) in BITMAPS.items():
        before[dtype] = (dtype, (units,), bytes(units))
        after[dtype] = nudged(before[dtype], at, 1)
        encoders[dtype] = partial(encode_sparse, bitmap=bitmap)
    return with_part(single(before), single(after), by_dtype(**encoders))


def bitmap_of_codes():
    """Granules count elements, here 4-bit codes; ranks count active elements of a class only."""
    data = b"".join(bytes([value]) * 400 for value in (0x31, 0x1F, 0x22, 0x31, 0x98, 0x31))
    before = {"w": ("I16", (1200,), data), "codes": ("F4", (2, 1200), data[::-1][:1200])}
    after = {"w": nudged(before["w"], [0, 1, 700, 1199], 2),
             "codes": nudged(before["codes"], [600, 1100], 1, 17)}  # fmt: skip
    choose = all_context(1, 3, 8, elements=1, bitmap=Bitmap(0, 1))
    return with_part(single(before), single(after), choose)


# Models


def sixteen_classes():
    """All classes that there can be; some without elements, one threshold above all keys."""
    before = {"f": tensor("F32", (40, 10), "sixteen"), "u": tensor("U8", (300,), "of bytes")}
    draw = Draw("sixteen classes")
    after = {"f": stepped(before["f"], drawn_steps(draw, 400, 32), 4),
             "u": stepped(before["u"], drawn_steps(draw, 300, 8), 1)}  # fmt: skip
    choose = all_context(1, 2, 30, 60, 61, 62, 90, 100, 128, 150, 180, 200, 220, 240, 255)
    return with_part(single(before), single(after), choose)


def step_tables():
    """Sixteen of them, used by classes in another order; one that no class uses."""
    before = {"w": tensor("BF16", (600,), "step tables")}
    draw = Draw("step tables")
    after = {"w": stepped(before["w"], drawn_steps(draw, 600, 16), 2)}

    thresholds = tuple(range(15, 240, 15))

    def encode(old, new, dtype):
        codes = codes_of(changes_between(old, new, dtype), old, dtype, thresholds=thresholds)
        fitted = fit(codes, thresholds=thresholds)
        (most, *rest), steps = fitted.steps[0], [[512]]
        steps += [[most - i, *rest, i] for i in range(1, 16)]
        classes = [(15 - i, gaps) for i, (_, gaps) in enumerate(fitted.classes)]
        classes[15] = (3, classes[15][1])
        model = Model(0, thresholds, steps, classes)
        return encode_sparse(old, new, dtype, model=model, thresholds=thresholds)

    return with_part(single(before), single(after), lambda chunk: encode)


def several_models():
    """Chunks that share a model, also across dtypes and encodings; models that no chunk names."""
    shared = Model(0, (), [[300, 112, 50, 50]], [(0, Geometric(20, 20))])
    classes = Model(0, (100,), [[512], [256, 256]], [(1, Geometric(12, 24)), (0, Geometric(9, 9))])
    before, after = {}, {}
    for dtype, w in (("U8", 1), ("I16", 2), ("F16", 2), ("BF16", 2), ("I32", 4)):
        before[dtype] = tensor(dtype, (90,), "models " + dtype)
        after[dtype] = nudged(before[dtype], [3, 50, 51, 89], w)
    direct, of_classes = (partial(encode_sparse, model=model) for model in (shared, classes))
    of_one_class = partial(encode_sparse, model=shared, thresholds=())
    choose = by_dtype(U8=direct, I16=of_one_class, F16=of_classes, BF16=of_classes, I32=direct)
    old, new, part = with_part(single(before), single(after), choose)
    part.models.insert(0, Model(1, (3, 250), [[512]], [(0, Explicit(7, [505]))] * 3))
    part.models.append(Model(0, (), [[511, 1]] * 2, [(1, Geometric(255, 0))]))
    for chunk in part.chunks:
        chunk.model += 1
    return old, new, part


def noise_context():
    """Everything at once: noise, classes, skips, a bitmap, two step tables."""
    data = noise("noise context", 2500)
    before = {"w": ("F8_E4M3", (2500,), data)}
    draw = Draw("noise context")
    steps = {i: draw.choice((1, -1, 2, -128, 100)) for i in draw.sample(1400, 90) if i > 600}
    after = {"w": stepped(before["w"], steps, 1)}
    choose = all_context(20, 60, 90, geometric={0: Geometric(12, 40), 2: Geometric(30, 30)},
                         bitmap=Bitmap(0, 1), step_tables=2)  # fmt: skip
    return with_part(single(before), single(after), choose)


VECTORS = (
    example, every_dtype_direct, every_dtype_context, every_dtype_codes_direct,
    every_dtype_codes_context, special_floats_direct, special_floats_context, every_unit_changed,
    steps_of_all_sizes, steps_of_all_codes, full_chunk_of_codes, blocks, geometric_with_skips,
    geometric_tables, geometric_end_only, explicit_tables, bitmaps, bitmap_of_codes,
    sixteen_classes, step_tables, several_models, noise_context,
)  # fmt: skip
