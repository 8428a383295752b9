"""Payloads of the encodings direct and context, and models for them; honest and forged.

A payload is made in three steps: the changes, {element: step}; the codes that stand for them, in
the decoder's order; and the bits, which the coder makes from the last code to the first. A model is
given, or fitted to the codes. Forgeries step in wherever they need to.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy

from models import END, SKIP, STATES, Table, geometric
from patch_writer import CONTEXT, DIRECT
from sparse import BLOCK, classes_of, element_bits, inverse_ord, ord_, split_elements
from wire import varint

GAPS, STEPS = 0, 1  # the two coder states


def step(old, new, b):
    d = (ord_(new, 2**b) - ord_(old, 2**b)) % 2**b
    return d - 2**b if d >= 2 ** (b - 1) else d


def stepped_by(old, d, b):
    return inverse_ord((ord_(old, 2**b) + d) % 2**b, 2**b)


def bucket(v, m):
    """(bucket, (extra value, extra bits))"""
    if v < 2**m:
        return v, (0, 0)
    extra = v.bit_length() - 1 - m
    return extra * 2**m + (v >> extra), (v % 2**extra, extra)


# Models


@dataclass
class Geometric:
    a: int
    e: int

    def fields(self):
        return {"kind": b"\0", "a": bytes([self.a]), "e": bytes([self.e])}

    def table(self):
        return geometric(self.a, self.e)


@dataclass
class Explicit:
    end: int
    counts: list

    def fields(self):
        return {"kind": b"\1", "end": varint(self.end), "counts": counts_field(self.counts)}

    def table(self):
        return Table([*counted(self.counts), (END, self.end)])


def counts_field(counts):
    return bytes([len(counts)]) + b"".join(varint(count) for count in counts)


def counted(counts):
    return [(symbol, count) for symbol, count in enumerate(counts) if count > 0]


@dataclass
class Model:
    elements: int
    thresholds: tuple
    steps: list  # of lists of counts
    classes: list  # of (index of a step table, Geometric or Explicit)
    forge: dict = field(default_factory=dict)

    def __post_init__(self):
        self.tables = [Table(counted(counts)) for counts in self.steps]
        self.gap_tables = [gaps.table() for _, gaps in self.classes]

    def table(self, coder, class_):
        return self.gap_tables[class_] if coder == GAPS else self.tables[self.classes[class_][0]]

    def fields(self):
        classes = [bytes([table]) + b"".join(gaps.fields().values())
                   for table, gaps in self.classes]  # fmt: skip
        return {
            "elements": bytes([self.elements]),
            "classes": bytes([len(self.classes)]),
            "thresholds": bytes(self.thresholds),
            "step_tables": bytes([len(self.steps)]),
            "steps": b"".join(counts_field(counts) for counts in self.steps),
            "class": b"".join(classes),
        } | self.forge


def normalized(counts, total):
    """{symbol: count} as a list of counts with the sum `total`, none of the given ones 0."""
    scaled = {s: max(1, count * total // counts.total()) for s, count in counts.items()}
    largest = max(scaled, key=scaled.get)
    scaled[largest] += total - sum(scaled.values())
    return [scaled.get(symbol, 0) for symbol in range(max(scaled) + 1)]


def fit(codes, elements=0, thresholds=(), step_tables=1, geometric=None):
    """A model for these codes. geometric: {class: Geometric} for those that are to have that."""
    gaps = [Counter() for _ in range(len(thresholds) + 1)]
    steps = [Counter() for _ in range(step_tables)]
    for code in codes:
        if code.coder == GAPS:
            gaps[code.class_][code.symbol] += 1
        else:
            steps[code.class_ % step_tables][code.symbol] += 1
    tables = [normalized(counts or Counter([0]), STATES) for counts in steps]
    classes = [(class_ % step_tables, (geometric or {}).get(class_) or explicit(counts))
               for class_, counts in enumerate(gaps)]  # fmt: skip
    return Model(elements, thresholds, tables, classes)


def explicit(counts):
    buckets = Counter({symbol: count for symbol, count in counts.items() if symbol < SKIP})
    buckets = buckets or Counter([0])
    end = min(STATES - len(buckets), max(1, STATES // (buckets.total() + 1)))
    return Explicit(end, normalized(buckets, STATES - end))


# Codes


@dataclass
class Code:
    coder: int
    class_: int
    symbol: int
    tail: list  # [(value, bits)] after the state's bits


def gap_codes(class_, gap, skip=0):
    """Those of one gap; None for the end. skip: the skip length if longer gaps want SKIP."""
    out = []
    while skip and gap is not None and gap >= skip:
        out.append(Code(GAPS, class_, SKIP, []))
        gap -= skip
    symbol, extra = (END, (0, 0)) if gap is None else bucket(gap, 1)
    return [*out, Code(GAPS, class_, symbol, [extra])]


def step_code(class_, d):
    symbol, extra = bucket(abs(d) - 1, 2)
    return Code(STEPS, class_, symbol, [(int(d < 0), 1), extra])


def changes_between(old, new, dtype, elements=0):
    """{element: step}"""
    sides = [split_elements(data, dtype, elements) for data in (old, new)]
    b = element_bits(dtype, elements)
    return {int(at): step(int(sides[0][at]), int(sides[1][at]), b)
            for at in numpy.flatnonzero(sides[0] != sides[1])}  # fmt: skip


def codes_of(changes, old, dtype, elements=0, thresholds=(), active=None, geometric=None):
    """The codes of {element: step}, in the decoder's order. active: all elements if it is None."""
    values = split_elements(old, dtype, elements)
    classes = classes_of(values, dtype, Model(elements, thresholds, [], []))
    active = numpy.ones(len(values), bool) if active is None else active
    skips = {class_: gaps.table().skip for class_, gaps in (geometric or {}).items()}
    gaps = {class_: iter(gaps_of(changes, active & (classes == class_)))
            for class_ in range(len(thresholds) + 1)}  # fmt: skip

    def next_gap(class_):
        return gap_codes(class_, next(gaps[class_]), skips.get(class_, 0))

    out = [code for class_ in gaps for code in next_gap(class_)]
    for at in sorted(changes, key=lambda at: (at // BLOCK, classes[at], at)):
        class_ = int(classes[at])
        out += [step_code(class_, changes[at]), *next_gap(class_)]
    return out


def gaps_of(changes, of_class):
    """The gaps of one class's changes, then None; of_class: which elements are in it."""
    ranks = numpy.cumsum(of_class) - 1
    own = [int(ranks[at]) for at in sorted(changes) if of_class[at]]
    return [rank - before - 1 for before, rank in zip([-1, *own], own)] + [None]


# Payloads


@dataclass
class Bitmap:
    """of: indices of granules that are active, besides those with a change."""

    g: int
    k: int
    of: tuple = ()

    def granules(self, changes, count):
        """For each granule of `count` elements whether it is active."""
        size = 2 ** (9 + self.g)
        active = numpy.zeros(-(-count // size), bool)
        active[[*self.of, *(at // size for at in changes)]] = True
        return active

    def elements(self, changes, count):
        return numpy.repeat(self.granules(changes, count), 2 ** (9 + self.g))[:count]

    def bits(self, changes, count):
        granules = self.granules(changes, count)
        ends = [int(at) for at in numpy.flatnonzero(granules)] + [len(granules)]
        idle = [at - before - 1 for before, at in zip([-1, *ends], ends)]
        return [(self.g, 2), (self.k, 4)] + [piece for z in idle for piece in self.rice(z)]

    def rice(self, number):
        q, r = number >> self.k, number % 2**self.k
        return [(2**q - 1, q + 1), (r, self.k)]


def coded(codes, model, final=(0, 0)):
    """The bits of the states and codes: [(value, bits)]. final: what is to be the last states."""
    states, out = list(final), []
    for code in reversed(codes):
        table = model.table(code.coder, code.class_)
        states[code.coder], *state_bits = encode(table, code.symbol, states[code.coder])
        out += [*reversed(code.tail), state_bits]
    return [(states[GAPS], 9), (states[STEPS], 9), *reversed(out)]


def encode(table, symbol, state):
    """(the state that a decoder comes from, the bits that it reads, their number)"""
    states, bits = table.states[symbol], 0
    while (STATES + state) >> bits >= 2 * len(states):
        bits += 1
    x = (STATES + state) >> bits
    return states[x - len(states)], (STATES + state) % 2**bits, bits


def payload_of(bits, bitmap_bits=(), head=0, pad_value=0):
    """A payload of these bits, of the states and all after. head: what its bits are XORed with."""
    bits = [*bitmap_bits, *bits]
    pad = -sum(size for _, size in bits) % 8
    head ^= pad | (8 if bitmap_bits else 0)
    return bytes([head]) + packed([(pad_value, pad), *bits])


def packed(bits):
    """[(value, bits)], the lowest bit first; what lacks to a byte is zero."""
    out, value, count = bytearray(), 0, 0
    for piece, size in bits:
        value |= piece << count
        count += size
        out += (value % 2 ** (count // 8 * 8)).to_bytes(count // 8, "little")
        value, count = value >> (count // 8 * 8), count % 8
    return bytes(out) + bytes([value] if count else [])


def encode_sparse(old, new, dtype, elements=0, thresholds=None, bitmap=None, model=None, **options):
    """Encoder of patch_writer.diff. thresholds: None for direct; options: those of fit.

    With a model: its elements and thresholds count; of one class it is for direct, unless
    thresholds are given all the same.
    """
    encoding = DIRECT if thresholds is None else CONTEXT
    if model is not None:
        encoding = CONTEXT if model.thresholds else encoding
        elements, thresholds = model.elements, model.thresholds
        options["geometric"] = {class_: gaps for class_, (_, gaps) in enumerate(model.classes)
                                if isinstance(gaps, Geometric)}  # fmt: skip
    thresholds = tuple(thresholds or ())
    changes = changes_between(old, new, dtype, elements)
    count = len(split_elements(old, dtype, elements))
    active = bitmap.elements(changes, count) if bitmap else None
    codes = codes_of(changes, old, dtype, elements, thresholds, active, options.get("geometric"))
    model = model or fit(codes, elements, thresholds, **options)
    bitmap_bits = bitmap.bits(changes, count) if bitmap else ()
    return encoding, model, payload_of(coded(codes, model), bitmap_bits)
