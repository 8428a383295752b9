#!/usr/bin/env python3
"""docs/patch-format-example.md against tests/golden/example.part."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from checkpoint import read_checkpoint  # noqa: E402
from golden import GOLDEN, ROOT, read_tree  # noqa: E402
from patch_oracle import apply_to, ord_, read_part  # noqa: E402

DOCUMENT = (ROOT / "docs" / "patch-format-example.md").read_text()
PART = (GOLDEN / "example.part").read_bytes()
VECTOR = GOLDEN / "must-decode" / "example"


def rows():
    """[(offset, bytes)] of the rows of the document's tables."""
    found = re.findall(r"^\| (\d+) \| `([0-9A-F ]+)` \|", DOCUMENT, re.MULTILINE)
    return [(int(offset), bytes.fromhex(digits)) for offset, digits in found]


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


if __name__ == "__main__":
    unittest.main()
