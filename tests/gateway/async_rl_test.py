#!/usr/bin/env python3
"""The loops of docs/async-rl.md run as they are printed, against a gateway and an island, and are as stale as it says."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "sidecar"))
import island  # noqa: E402
from island import harness  # noqa: E402

PROGRAM = pathlib.Path(os.environ["ISTHMUS_BIN"])
SKIPPED = 77
STEPS = 5
BATCH = 6
TRAINER = """
import json, os, pathlib
CHECKPOINTS, steps = json.loads(os.environ["CHECKPOINTS"]), []
def prompts():
    return [f"question {number}" for number in range(%d)]
def train(batch):
    steps.append([[answer["weight_version_start"], answer["weight_version_end"]] for answer in batch])
    pathlib.Path(os.environ["STEPS_FILE"]).write_text(json.dumps(steps))
    return CHECKPOINTS[len(steps) - 1]
""" % BATCH


def snippets():
    text = (ROOT / "docs/async-rl.md").read_text(encoding="utf-8")
    return dict(re.findall(r"(?ms)^<!-- snippet (\S+) -->\n```python\n(.*?)^```$", text))


def has_gateway():
    return "Usage: isthmus gateway " in subprocess.run([PROGRAM, "gateway", "--help"], text=True, capture_output=True,
                                                       check=False).stdout


class AsyncRlTest(island.IslandTest):

    def setUp(self):
        super().setUp()
        self.gateway = self.start_gateway()

    def start_gateway(self):
        process = subprocess.Popen([PROGRAM, "gateway", "--listen", "127.0.0.1:0", "--poll-ms", "50", "--island",
                                    f"http://127.0.0.1:{self.process.port}", "--json"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, harness.DEADLINE_S)
        self.addCleanup(process.terminate)
        return json.loads(process.stdout.readline())["listening"]

    def loop(self, name):
        """Runs it; the (first, last) versions of each answer of each batch that was trained."""
        script, steps = self.dir / "loop.py", self.dir / "steps.json"
        script.write_text(snippets()["shared"] + snippets()[name], encoding="utf-8")
        (self.dir / "trainer.py").write_text(TRAINER, encoding="utf-8")
        checkpoints = [str(island.checkpoint(number)) for number in range(2, STEPS + 2)]
        done = subprocess.run([sys.executable, script], text=True, capture_output=True, timeout=300, check=False, env={
            **os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "GATEWAY": self.gateway,
            "RUN": self.run_of_weights.name, "ISTHMUS_BOARD": str(self.board), "ISTHMUS_RUN": self.run_of_weights.name,
            "XDG_CACHE_HOME": str(self.dir / "cache"), "STEPS": str(STEPS), "CHECKPOINTS": json.dumps(checkpoints),
            "STEPS_FILE": str(steps)})
        self.assertEqual(done.returncode, 0, done.stderr)
        trained = json.loads(steps.read_text(encoding="utf-8"))
        self.assertEqual([len(batch) for batch in trained], [BATCH] * STEPS)
        return trained

    def test_synchronous_trains_what_the_version_itself_made(self):
        for step, batch in enumerate(self.loop("synchronous")):
            self.assertEqual(batch, [[step + 1, step + 1]] * BATCH)

    def test_one_step_off_policy_trains_what_is_at_most_one_version_old(self):
        for step, batch in enumerate(self.loop("one-step")):
            for start, end in batch:
                self.assertTrue(max(1, step) <= start <= end <= step + 1, (step, batch))

    def test_asynchronous_stays_within_its_bound(self):
        for step, batch in enumerate(self.loop("asynchronous")):
            for start, end in batch:
                self.assertTrue(max(1, step + 1 - 4 - 2) <= start <= end <= step + 1, (step, batch))


if __name__ == "__main__":
    if not has_gateway():
        print("this program has no command gateway", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
