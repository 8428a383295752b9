"""The README's commands, run as they stand there."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

README = (harness.ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks():
    return re.findall(r"^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def program_commands():
    return [line for block in code_blocks() for line in block.splitlines()
            if line.startswith("isthmus ")]


class ReadmeTest(harness.CheckpointTest):
    def setUp(self):
        super().setUp()
        for step in (37, 38, 39):
            shutil.copytree(self.step(step), self.dir / f"checkpoint-{step}")
        (self.dir / "bin").mkdir()
        (self.dir / "bin/isthmus").symlink_to(harness.PROGRAM)

    def run_line(self, line):
        """Runs one line of the README in a shell, with its two absolute paths moved here."""
        line = line.replace("/mnt/board", str(self.dir / "board"))
        line = line.replace("/srv/model", str(self.dir / "model"))
        environment = dict(harness.ENVIRONMENT, XDG_CACHE_HOME=str(self.dir / "cache"),
                           PATH=f"{self.dir / 'bin'}:{os.environ['PATH']}")
        return subprocess.run(["bash", "-c", line], cwd=self.dir, env=environment, text=True,
                              capture_output=True, timeout=60, check=False)

    def test_every_command_of_the_program_works_in_the_order_shown(self):
        commands = program_commands()
        self.assertGreaterEqual(len(commands), 10)
        for line in commands:
            with self.subTest(line):
                done = self.run_line(line)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        harness.assert_same_files(self.dir / "model", self.step(37))
        harness.assert_same_files(self.dir / "checkpoint-37", self.step(39))

    def test_the_commands_of_the_entry_point_exist(self):
        shown = set(re.findall(r"\./run (\w+)", README))
        self.assertTrue({"demo", "test", "build"} <= shown)
        usage = subprocess.run([harness.ROOT / "run", "help"], text=True, capture_output=True,
                               check=True).stdout
        for command in shown:
            self.assertIn(f"\n  {command}", usage)

    def test_every_link_leads_somewhere(self):
        for target in re.findall(r"\]\(([^)#:]+)\)", README):
            self.assertTrue((harness.ROOT / pathlib.Path(target)).exists(), target)


if __name__ == "__main__":
    unittest.main()
