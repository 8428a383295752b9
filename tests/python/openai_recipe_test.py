#!/usr/bin/env python3
"""What docs/python.md says of OpenAI's own client runs as it is printed."""

import importlib.util
import re
import sys
import unittest

from clients import ROOT, fleet, harness

SKIPPED = 77


def snippet():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    return re.search(r"(?ms)^<!-- snippet openai -->\n```python\n(.*?)^```$", text)[1]


class OpenAiTest(fleet.FleetTest):
    count = 1

    def run_snippet(self, **replaced):
        text = snippet()
        for old, new in replaced.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        names = {"GATEWAY": f"http://127.0.0.1:{self.process.port}"}
        exec(compile(text, "python.md", "exec"), names)  # noqa: S102
        return names

    def test_it_runs_as_it_is_printed(self):
        names = self.run_snippet()
        self.assert_true_answer(names["answer"].model_dump())
        self.assertEqual((len(names["tokens"]), names["first"], names["last"]), (8, 1, 1))

    def test_it_waits_for_a_version(self):
        later = harness.Background(lambda: self.run_snippet(**{'"Isthmus-Min-Version": "1"':
                                                               '"Isthmus-Min-Version": "2"'}))
        self.publish()
        self.assertEqual(later.result()["first"], 2)


if __name__ == "__main__":
    if importlib.util.find_spec("openai") is None:
        print("openai is not installed", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
