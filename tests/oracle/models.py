"""Models of the encodings direct and context, and their coder tables.

docs/patch-format.md, sections 3.4 and 3.5; the oracle decodes with them, the writer encodes.
"""

from dataclasses import dataclass, field
from functools import cached_property

from wire import check

STATES = 512
SKIP, END = 62, 63  # symbols of gap tables


@dataclass(eq=False)
class Table:
    """counts: [(symbol, count)], symbols ascending. skip: the skip length, if there is SKIP.

    Its properties are §3.5, coder states.
    """

    counts: list
    skip: int = 0

    @cached_property
    def states(self):
        """{symbol: [its states, ascending]}"""
        owner, position = {}, 0
        for symbol, count in self.counts:
            for _ in range(count):
                owner[position] = symbol
                position = (position + 323) % STATES
        states = {symbol: [] for symbol, _ in self.counts}
        for state in range(STATES):
            states[owner[state]].append(state)
        return states

    @cached_property
    def decoding(self):
        """[(symbol, bits to read, what to add to them for the next state) for each state]"""
        rows = [None] * STATES
        for symbol, states in self.states.items():
            for i, state in enumerate(states):
                x = len(states) + i
                bits = 9 - (x.bit_length() - 1)
                rows[state] = (symbol, bits, x * 2**bits - STATES)
        return rows


# §3.4 Model


@dataclass
class Model:
    elements: int
    thresholds: tuple
    step_tables: list  # of Table
    classes: list = field(default_factory=list)  # of (index of a step table, gap Table)


def read_model(tables):
    elements, classes = tables.u8(), tables.u8()
    check(elements in (0, 1), f"model: elements {elements}")
    check(1 <= classes <= 16, f"model: {classes} classes")
    thresholds = tuple(tables.take(classes - 1))
    check(all(a < b for a, b in zip((0, *thresholds), thresholds)),
          f"model: thresholds {thresholds} are not strictly ascending from 1")  # fmt: skip
    step_tables = tables.u8()
    check(1 <= step_tables <= 16, f"model: {step_tables} step tables")
    model = Model(elements, thresholds, [read_step_table(tables) for _ in range(step_tables)])
    for _ in range(classes):
        step_table = tables.u8()
        check(step_table < step_tables, f"model: step table {step_table} of {step_tables}")
        model.classes.append((step_table, read_gap_table(tables)))
    return model


def read_counts(tables, most, wanted_sum):
    m = tables.u8()
    check(1 <= m <= most, f"table: {m} counts, at most {most}")
    counts = [tables.varint() for _ in range(m)]
    check(counts[-1] != 0, "table: the last count is 0")
    check(sum(counts) == wanted_sum, f"table: counts of {sum(counts)} in sum, not {wanted_sum}")
    return [(symbol, count) for symbol, count in enumerate(counts) if count > 0]


def read_step_table(tables):
    return Table(read_counts(tables, 120, STATES))


def read_gap_table(tables):
    kind = tables.u8()
    check(kind in (0, 1), f"gap table: kind {kind}")
    if kind == 0:
        return geometric(tables.u8(), tables.u8())
    end = tables.varint()
    check(1 <= end <= 511, f"gap table: count of END {end}")
    return Table([*read_counts(tables, 46, STATES - end), (END, end)])


R = (4294967296, 3938502376, 3611622603, 3311872529, 3037000500, 2784941738, 2553802834,
     2341847524)  # fmt: skip


def fraction(i):
    """F(i)"""
    return R[i % 8] // 2 ** (i // 8)


def first_gap(bucket):
    """s_b: the gap at which a bucket begins."""
    return bucket if bucket < 2 else (2 + bucket % 2) * 2 ** (bucket // 2 - 1)


def reaching(a):
    """[Q_b for b from 0 to 46]: the shares of gaps that reach the bucket b."""
    q = [2**32 - fraction(a)]
    while len(q) < 24:
        q.append(q[-1] ** 2 // 2**32)
    odd = {b: q[b // 2] * q[b // 2 - 1] // 2**32 for b in range(3, 46, 2)}
    return [2**32, q[0]] + [odd[b] if b % 2 else q[b // 2] for b in range(2, 47)]


def geometric(a, e):
    end = max(1, STATES * fraction(e) // 2**32)
    if end == STATES:
        return Table([(END, STATES)])
    reach = reaching(a)
    buckets = next((b for b in range(1, 46) if reach[b] <= 2**24), 46)
    symbols = [*range(buckets), SKIP]
    shares = [reach[b] - reach[b + 1] for b in range(buckets)] + [reach[buckets]]
    counts = [max(1, (share * (STATES - end) + 2**31) // 2**32) for share in shares]
    largest = shares.index(max(shares))
    counts[largest] += STATES - end - sum(counts)
    check(counts[largest] >= 1, f"gap table: geometric {a}, {e} does not fit in {STATES} states")
    return Table([*zip(symbols, counts), (END, end)], first_gap(buckets))
