#!/usr/bin/env python3
"""The tables of docs/benchmarks.md are those of the CSVs in bench/results."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import tables  # noqa: E402


class BenchTablesTest(unittest.TestCase):

    def setUp(self):
        self.results = tables.Results.of(ROOT / "bench/results")
        self.text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")

    def test_the_document_says_what_was_measured(self):
        self.assertEqual(tables.fill(self.text, self.results), self.text)

    def test_every_table_has_its_place(self):
        for name in tables.TABLES:
            self.assertEqual(self.text.count(f"<!-- table {name} -->"), 1, name)

    def test_a_missed_goal_is_bold_and_a_met_one_is_not(self):
        row = {"bench": "encode", "unit": "ratio", "value": "0.3", "target": ">= 0.4", "met": "no"}
        key = ("encode", "case", "speed / memcpy")
        self.assertIn("≥ 0.4 | **0.30** |", tables.goals_of({key: row}))
        self.assertIn("≥ 0.4 | 0.30 |", tables.goals_of({key: row | {"met": "yes"}}))

    def test_a_short_bench_shows_goals_beside_what_has_none(self):
        missed = {"bench": "far", "unit": "ratio", "value": "2", "target": "<= 1.5", "met": "no"}
        plain = {"bench": "far", "unit": "s", "value": "3", "target": "", "met": ""}
        text = tables.measured({("far", "case", "pull"): missed, ("far", "case", "time"): plain})
        self.assertIn("| case | pull | **2.00** | ≤ 1.5 |\n| case | time | 3.00 s |  |", text)
        self.assertEqual(tables.measured({}), "Not measured yet.")


if __name__ == "__main__":
    unittest.main()
