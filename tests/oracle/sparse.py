"""The encodings direct and context: docs/patch-format.md, section 3.3.

Classes and positions of a whole chunk are numpy arrays; changes are decoded one by one.
"""

import numpy

from checkpoint import DTYPE_IDS, DTYPES
from layout import unit_bytes
from models import END, SKIP
from wire import check

BLOCK = 4096

# Elements, keys, classes

EXPONENT_KEYS = {DTYPE_IDS[name] for name in ("BF16", "F32", "C64")}
UNSIGNED_KEYS = {DTYPE_IDS["F16"]} | {
    id_ for id_, (name, _) in DTYPES.items() if name.startswith("F8_") and name != "F8_E8M0"
}


def element_bits(dtype, elements):
    return 4 if elements == 1 else 8 * unit_bytes(dtype)


def split_elements(data, dtype, elements):
    """The elements of a chunk's bytes, as an array."""
    if elements == 0:
        return numpy.frombuffer(data, f"<u{unit_bytes(dtype)}").copy()
    codes = numpy.frombuffer(data, numpy.uint8)
    return numpy.stack((codes & 15, codes >> 4), axis=1).reshape(-1)


def join_elements(values, elements):
    if elements == 0:
        return values.tobytes()
    low, high = values.reshape(-1, 2).T
    return (low | high << 4).tobytes()


def keys_of(values, dtype, elements):
    b = element_bits(dtype, elements)
    if elements == 1:
        return values & (7 if DTYPES[dtype][0] == "F4" else 15)
    if dtype in EXPONENT_KEYS:
        return values >> (b - 9) & 0xFF
    if dtype in UNSIGNED_KEYS:
        return values >> (b - 8) & 0x7F
    return values >> (b - 8)


def classes_of(values, dtype, model):
    """For each element how many thresholds are at most its key."""
    keys = keys_of(values, dtype, model.elements).astype(numpy.uint8)
    thresholds = numpy.array(model.thresholds, numpy.uint8)
    return numpy.searchsorted(thresholds, keys, side="right")


# Steps, buckets


def ord_(u, modulus):
    top = modulus // 2
    return modulus - 1 - u if u >= top else u + top


def inverse_ord(o, modulus):
    top = modulus // 2
    return o - top if o >= top else modulus - 1 - o


def unbucket(bucket, m, bits):
    """The v whose bucket(v, m) it is, with the next extra bits."""
    if bucket < 2**m:
        return bucket
    extra = bucket // 2**m - 1
    return (2**m + bucket % 2**m) * 2**extra + bits.take(extra)


# The payload


class BitStream:
    def __init__(self, data):
        self.data, self.at = data, 0

    def left(self):
        return 8 * len(self.data) - self.at

    def take(self, bits):
        end = self.at + bits
        check(end <= 8 * len(self.data), "sparse: too few bits")
        window = int.from_bytes(self.data[self.at // 8 : (end + 7) // 8], "little")
        value = (window >> self.at % 8) % 2**bits
        self.at = end
        return value


def read_bitmap(bits, count):
    """For each of `count` elements whether it is active."""
    granule = 2 ** (9 + bits.take(2))
    k = bits.take(4)
    granules = -(-count // granule)
    active, at = numpy.zeros(granules, bool), rice(bits, k)
    while at < granules:
        active[at] = True
        at += 1 + rice(bits, k)
    check(at == granules, f"sparse: a bitmap of {at} granules, not {granules}")
    return numpy.repeat(active, granule)[:count]


def rice(bits, k):
    q = 0
    while bits.take(1) == 1:
        q += 1
    return q * 2**k + bits.take(k)


class Coder:
    """Takes symbols of one of the two coder states."""

    def __init__(self, bits):
        self.bits, self.state = bits, bits.take(9)

    def take(self, table):
        symbol, bits, base = table.decoding[self.state]
        self.state = base + self.bits.take(bits)
        return symbol


class Class:
    """What is known of a class while its changes are decoded: `position` is the next change's."""

    def __init__(self, positions, gap_table, step_table, after_all):
        self.positions, self.gap_table, self.step_table = positions, gap_table, step_table
        self.rank, self.position, self.after_all = -1, None, after_all

    def advance(self, coder):
        gap = take_gap(coder, self.gap_table)
        if gap is None:
            self.position = self.after_all
            return
        self.rank += gap + 1
        check(self.rank < len(self.positions), "sparse: a gap leads beyond its class")
        self.position = int(self.positions[self.rank])


def take_gap(coder, table):
    """None for the end of the class."""
    skipped = 0
    while (symbol := coder.take(table)) == SKIP:
        skipped += table.skip
    if symbol == END:
        check(skipped == 0, "sparse: END behind SKIP")
        return None
    return skipped + unbucket(symbol, 1, coder.bits)


def take_step(coder, table, b):
    bucket = coder.take(table)
    sign = coder.bits.take(1)
    magnitude = unbucket(bucket, 2, coder.bits) + 1
    d = -magnitude if sign else magnitude
    check(-(2 ** (b - 1)) <= d < 2 ** (b - 1), f"sparse: a step of {d}")
    return d


def decode_sparse(payload, old, dtype, model):
    """The new bytes of a chunk."""
    head, bits = payload[0], BitStream(payload[1:])
    check(head < 16, f"sparse: head {head:#x}")
    check(bits.take(head & 7) == 0, "sparse: pad bits that are not zero")
    values = split_elements(old, dtype, model.elements)
    active = read_bitmap(bits, len(values)) if head & 8 else numpy.ones(len(values), bool)
    gaps, steps = Coder(bits), Coder(bits)
    classes = classes_begun(values, active, dtype, model, gaps)

    b, changes = element_bits(dtype, model.elements), 0
    for block in range(0, len(values), BLOCK):
        for class_ in classes:
            while class_.position < block + BLOCK:
                d = take_step(steps, class_.step_table, b)
                o = ord_(int(values[class_.position]), 2**b)
                values[class_.position] = inverse_ord((o + d) % 2**b, 2**b)
                class_.advance(gaps)
                changes += 1
    check(changes > 0, "sparse: no change")
    check((gaps.state, steps.state) == (0, 0), "sparse: final states that are not 0")
    check(bits.left() == 0, f"sparse: {bits.left()} bits are left")
    return join_elements(values, model.elements)


def classes_begun(values, active, dtype, model, gaps):
    """The classes, after the first gap code of each."""
    numbers, classes = classes_of(values, dtype, model), []
    for number, (step_table, gap_table) in enumerate(model.classes):
        positions = numpy.flatnonzero(active & (numbers == number))
        after_all = len(values) + BLOCK
        classes.append(Class(positions, gap_table, model.step_tables[step_table], after_all))
        classes[-1].advance(gaps)
    return classes
