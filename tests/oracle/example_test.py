#!/usr/bin/env python3
"""docs/patch-format-example.md against tests/golden/example.part."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy  # noqa: E402
from checkpoint import DTYPE_IDS, read_checkpoint  # noqa: E402
from golden import GOLDEN, ROOT, read_tree  # noqa: E402
from patch_oracle import apply_to, read_part  # noqa: E402
from sparse import classes_of, keys_of, ord_  # noqa: E402

DOCUMENT = (ROOT / "docs" / "patch-format-example.md").read_text()
PART = (GOLDEN / "example.part").read_bytes()
VECTOR = GOLDEN / "must-decode" / "example"


def rows():
    """[(offset, bytes)] of the rows of the document's tables."""
    found = re.findall(r"^\| (\d+) \| `([0-9A-F ]+)` \|", DOCUMENT, re.MULTILINE)
    return [(int(offset), bytes.fromhex(digits)) for offset, digits in found]


def codes():
    """The rows of the table of the stream: [[at, code, state, symbol, x, r, sign, extra, next]]"""
    lines = re.findall(r"^\| \d+ \| (?:pad|coder|gap|step).*\|$", DOCUMENT, re.MULTILINE)
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def number(bits):
    """The lowest bit first."""
    return int(bits[::-1] or "0", 2)


def units_row(name):
    """The eight cells of a row of the table of units."""
    (row,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", DOCUMENT, re.MULTILINE)
    return [cell.strip(" *") for cell in row.split("|")]


def bits_of(directory):
    base = read_checkpoint(directory)
    return memoryview(base.data(base.tensors[b"w"])).cast("H").tolist()


class ExampleTest(unittest.TestCase):
    def test_the_bytes_of_the_document_are_the_part(self):
        self.assertEqual(b"".join(data for _, data in rows()), PART)
        at = 0
        for offset, data in rows():
            self.assertEqual(offset, at)
            at += len(data)

    def test_the_part_is_the_vector_of_that_name(self):
        self.assertEqual((VECTOR / "patch.part").read_bytes(), PART)

    def test_the_oracle_decodes_it(self):
        result = apply_to([read_part(PART)], read_checkpoint(VECTOR / "base"))
        self.assertEqual(result.files, read_tree(VECTOR / "expected"))

    def test_the_table_of_units_is_right(self):
        for name, folder in (("base", "base"), ("result", "expected")):
            bits = bits_of(VECTOR / folder)
            self.assertEqual([int(cell, 16) for cell in units_row(f"{name}, bits")], bits)
            for u, cell in zip(bits, units_row(f"ord({name})")):
                self.assertIn(cell, ("", f"{ord_(u, 2**16):04X}"))

    def test_the_keys_classes_and_ranks_are_right(self):
        (chunk,) = read_part(PART).chunks
        values = numpy.array(bits_of(VECTOR / "base"), numpy.uint16)
        dtype = DTYPE_IDS["BF16"]
        classes = classes_of(values, dtype, chunk.model).tolist()
        ranks = [classes[:at].count(class_) for at, class_ in enumerate(classes)]
        for name, want in (("key", keys_of(values, dtype, 0).tolist()), ("class", classes),
                           ("rank", ranks)):  # fmt: skip
            self.assertEqual([int(cell) for cell in units_row(name)], want)

    def test_the_bits_of_the_document_are_the_stream(self):
        found, at = "", 0
        for row in codes():
            self.assertEqual(int(row[0]), at)
            found += "".join(row[5:8])
            at = len(found)
        stream = read_part(PART).chunks[0].payload[1:]
        self.assertEqual(found, "".join(f"{byte:08b}"[::-1] for byte in stream))

    def test_the_codes_of_the_document_are_those_of_the_model(self):
        _, gaps, steps, *rows = codes()
        model = read_part(PART).chunks[0].model
        states = {"gap": number(gaps[5]), "step": number(steps[5])}
        self.assertEqual([int(gaps[8]), int(steps[8])], list(states.values()))
        for _, code, state, symbol, x, r, _, _, next_state in rows:
            coder, class_ = re.fullmatch(r"(gap|step), class (\d)", code).groups()
            step_table, gap_table = model.classes[int(class_)]
            table = gap_table if coder == "gap" else model.step_tables[step_table]
            self.assertEqual(int(state), states[coder])
            want = table.decoding[states[coder]]
            self.assertEqual((int(symbol), len(r), int(x) * 2 ** len(r) - 512), want)
            states[coder] = want[2] + number(r)
            self.assertEqual(int(next_state), states[coder])
        self.assertEqual(states, {"gap": 0, "step": 0})


if __name__ == "__main__":
    unittest.main()
