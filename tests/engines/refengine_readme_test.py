#!/usr/bin/env python3
"""The commands of the reference engine's README, run as they stand there."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import unittest

import harness


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RefengineReadmeTest(harness.ServerTest):

    def test_the_commands_work_in_the_order_shown(self):
        text = (harness.REFENGINE / "README.md").read_text(encoding="utf-8")
        script = "\n".join(re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        script = script.replace("8000", str(free_port()))
        script = script.replace("/tmp/refengine", str(self.dir)).replace("curl ", "curl --fail ")
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        shell = subprocess.Popen(["bash", "-e", "-c", script + "\nkill $(jobs -p) || true"],
                                 cwd=harness.ROOT, text=True, stdout=subprocess.PIPE,
                                 env={**os.environ, "PATH": path}, start_new_session=True)
        self.addCleanup(self.end_session, shell)
        output, _ = shell.communicate(timeout=harness.DEADLINE_S)
        self.assertEqual(shell.returncode, 0, output)
        self.assertTrue(output.endswith('{"weight_version": "v2"}'), output)

    @staticmethod
    def end_session(shell):
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    unittest.main()
