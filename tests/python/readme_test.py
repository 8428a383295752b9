#!/usr/bin/env python3
"""The README's Python runs as it is printed: it publishes, and gets a rollout of what it published."""

import asyncio
import json
import re
import struct
import textwrap
import unittest

import isthmus
import numpy
from clients import ROOT, fleet, harness
from fleet import island


def snippet():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(r"(?ms)^```python\n(.*?)^```$", text)[1]


class Model:
    """A trainer's model, as far as a publisher looks at it: the tensors of a checkpoint."""

    def __init__(self, directory):
        self.tensors = []
        for shard in sorted(directory.glob("*.safetensors")):
            data = shard.read_bytes()
            begin = 8 + struct.unpack("<Q", data[:8])[0]
            for name, entry in json.loads(data[8:begin]).items():
                if name == "__metadata__":
                    continue
                first, last = entry["data_offsets"]
                bits = numpy.frombuffer(data[begin + first:begin + last], "u2")
                self.tensors.append((name, bits.reshape(entry["shape"])))

    def named_parameters(self):
        return iter(self.tensors)


class ReadmeTest(fleet.FleetTest):
    count = 1

    def test_it_runs_as_it_is_printed(self):
        text = snippet()
        for shown, own in (("/mnt/board", str(self.run_of_weights.board)),
                           ("grpo-7", self.run_of_weights.name),
                           ("checkpoint-39", str(island.checkpoint(1))),
                           ("http://127.0.0.1:8088", f"http://127.0.0.1:{self.process.port}")):
            self.assertIn(shown, text)
            text = text.replace(shown, own)
        names = {"isthmus": isthmus, "model": Model(island.checkpoint(2)), "print": self.keep}
        exec("async def shown():\n" + textwrap.indent(text, "    "), names)  # noqa: S102
        asyncio.run(asyncio.wait_for(names["shown"](), harness.DEADLINE_S))
        self.assertEqual((self.printed.start_version, self.printed.end_version), (2, 2))
        self.assertEqual(len(self.printed.tokens), 8)

    def keep(self, rollout):
        self.printed = rollout


if __name__ == "__main__":
    unittest.main()
