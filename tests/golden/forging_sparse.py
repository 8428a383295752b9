"""Forgeries of the payloads of the encodings direct and context, and of models."""

from checkpoint import DTYPE_IDS
from forging import BF16, BIAS, F4, I64, TAIL, U8, place, sides
from models import END, SKIP
from must_decode import plain
from patch_writer import CONTEXT, DIRECT, varint
from sparse import classes_of, split_elements
from sparse_writer import (
    GAPS, Code, Explicit, Geometric, Model, changes_between, codes_of, coded, counts_field, fit,
    gap_codes, payload_of, step_code,
)  # fmt: skip

DTYPES = {F4: "F4", U8: "U8", BF16: "BF16", I64: "I64"}


def remake(index, codes=None, changes=None, bits=None, payload=None, elements=0, thresholds=(),
           geometric=None, final=(0, 0), **options):  # fmt: skip
    """Encodes a chunk of plain anew, with a model of its own.

    codes, changes, bits, payload: functions of the true ones, of each step of the encoder.
    options: those of payload_of.
    """

    def forge(part):
        old, new = sides(index)
        dtype = DTYPE_IDS[DTYPES[index]]
        true = changes_between(old, new, dtype, elements)
        true = changes(true) if changes else true
        made = codes_of(true, old, dtype, elements, thresholds, geometric=geometric)
        made = codes(made) if codes else made
        model = fit(made, elements, thresholds, geometric=geometric)
        stream = coded(made, model, final)
        data = payload_of(bits(stream) if bits else stream, **options)
        entry = part.chunks[index]
        entry.payload = payload(data) if payload else data
        entry.encoding = CONTEXT if thresholds else DIRECT
        entry.model = len(part.models)
        part.models.append(model)

    return forge


# Payloads


def with_pad(**options):
    """remake of the first chunk that has pad bits."""

    def forge(part):
        for index, thresholds in ((U8, ()), (BF16, (128,)), (I64, ())):
            remake(index, thresholds=thresholds)(part)
            if part.chunks[index].payload[0] % 8 > 0:
                remake(index, thresholds=thresholds, **options)(part)
                return
        raise ValueError("no chunk has pad bits")

    return forge


def padded_at_the_end(bits):
    """The zero bits that fill the last byte come last, and head says that there are none."""
    return [*bits, (0, -sum(size for _, size in bits) % 8)]


def no_change(part):
    """A chunk without changes, of tensors that do not change."""
    old = plain()[0]
    place(part, {name: old.data(old.tensors[name]) for name in (b"layer.bias", b"layer.tail")})
    del part.tensors[BIAS : TAIL + 1]
    remake(U8, changes=lambda changes: {})(part)


def more_changes(index, gap, class_=0, **options):
    """A step by 1 after the last change of a class."""

    def longer(codes):
        (end,) = (i for i, code in enumerate(codes) if (code.class_, code.symbol) == (class_, END))
        return [*codes[:end], *gap_codes(class_, gap), step_code(class_, 1), *codes[end:]]

    return remake(index, codes=longer, **options)


def past_the_class(index, thresholds=()):
    """A change one rank after the last element of class 0."""
    old, new = sides(index)
    dtype = DTYPE_IDS[DTYPES[index]]
    model = Model(0, thresholds, [], [])
    of_class = classes_of(split_elements(old, dtype, 0), dtype, model) == 0
    last = max(at for at in changes_between(old, new, dtype) if of_class[at])
    gap = int(of_class[last + 1 :].sum())
    return more_changes(index, gap, thresholds=thresholds)


def other_step(index, d, bits, **options):
    """Another step for a change, equal to the true one modulo 2^bits."""

    def replace(changes):
        at = next(at for at, true in changes.items() if (true - d) % 2**bits == 0 and true != d)
        return changes | {at: d}

    return remake(index, changes=replace, **options)


def whole_turn(changes):
    """A step of 2^8 for a unit of one byte that does not change."""
    assert 20 not in changes
    return changes | {20: 2**8}


def other_code_step(by):
    """A step of 4 bits, `by` more than the true one of some code of the F4 chunk."""

    def replace(changes):
        at = next(at for at, d in changes.items() if -8 < d < 7)
        return changes | {at: changes[at] + by}

    return remake(F4, changes=replace, elements=1)


def skips_past_the_end(part):
    """More SKIPs than the class has elements, then END."""
    gaps = {0: Geometric(8, 30)}

    def longer(codes):
        skip = gap_codes(0, 200, gaps[0].table().skip)[:-1]
        return [*codes[:-1], *skip, *gap_codes(0, 0), step_code(0, 1), codes[-1]]

    remake(U8, codes=longer, geometric=gaps)(part)


def end_behind_skip(part):
    """The class ends with a SKIP and END instead of END alone."""
    gaps = {0: Geometric(8, 30)}
    skip = Code(GAPS, 0, SKIP, [])
    remake(U8, codes=lambda codes: [*codes[:-1], skip, codes[-1]], geometric=gaps)(part)


def bitmap(numbers, g=0, k=0):
    """The U8 chunk, one granule, with these numbers of idle granules; q + 1 bits each."""
    rice = [piece for z in numbers for piece in ((2 ** (z >> k) - 1, (z >> k) + 1), (z % 2**k, k))]
    return remake(U8, bitmap_bits=[(g, 2), (k, 4), *rice])


# Models


def another_model(**fields):
    """A model that no chunk names, with fields replaced."""
    model = Model(0, (), [[512]], [(0, Explicit(256, [256]))], fields)
    return lambda part: part.models.append(model)


def another_with_thresholds(*thresholds):
    classes = (len(thresholds) + 1) * b"\0\1\x80\2\1\x80\2"
    return another_model(classes=bytes([len(thresholds) + 1]), thresholds=bytes(thresholds),
                         **{"class": classes})  # fmt: skip


def another_with_steps(*counts):
    return another_model(steps=counts_field(counts))


def another_with_gaps(data):
    return another_model(**{"class": b"\0" + data})


def explicit_gaps(end, *counts):
    return another_with_gaps(b"\1" + varint(end) + counts_field(counts))
