"""The README's commands, run as they stand there."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "support"))
import shares  # noqa: E402

ENGINES = importlib.util.spec_from_file_location(
    "engines_harness", harness.ROOT / "tests" / "engines" / "harness.py")
engines_harness = importlib.util.module_from_spec(ENGINES)
ENGINES.loader.exec_module(engines_harness)

README = (harness.ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks():
    return re.findall(r"^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def program_commands():
    return [line for block in code_blocks() for line in block.splitlines()
            if line.startswith(("isthmus ", "curl "))]


class ReadmeTest(harness.CheckpointTest):
    def setUp(self):
        super().setUp()
        for step in (37, 38, 39):
            shutil.copytree(self.step(step), self.dir / f"checkpoint-{step}")
        for rank in (0, 1):
            shares.cut_checkpoint(self.step(39), rank, 2, self.dir / f"share-{rank}")
        (self.dir / "bin").mkdir()
        (self.dir / "bin/isthmus").symlink_to(harness.PROGRAM)
        self.environment = dict(harness.ENVIRONMENT, XDG_CACHE_HOME=str(self.dir / "cache"),
                                PATH=f"{self.dir / 'bin'}:{os.environ['PATH']}")
        self.moved = {"/mnt/board": str(self.dir / "board"), "/srv/": f"{self.dir}/"}

    def here(self, line):
        """The line with its paths and ports moved to this test's own."""
        for shown, own in self.moved.items():
            line = line.replace(shown, own)
        return line

    def start_sidecar(self, line):
        """Starts a double of the engine, and the sidecar; returns when it is ready."""
        engine = engines_harness.Server(harness.ROOT / "tests" / "engines" / "vllm_double.py",
                                        self.dir / "checkpoint-37")
        self.addCleanup(engine.stop)
        self.moved["127.0.0.1:8000"] = f"127.0.0.1:{engine.port}"
        port = self.start(line.replace("127.0.0.1:8089", "127.0.0.1:0"))
        self.moved["127.0.0.1:8089"] = f"127.0.0.1:{port}"
        client = engines_harness.Client(port)
        engines_harness.wait_until(lambda: client.get("/health")[0] == 200, "ready")

    def start(self, line):
        """Runs a line whose program serves, on a port of its own choice; the port."""
        process = subprocess.Popen(["bash", "-c", f"exec {self.here(line)}"], cwd=self.dir,
                                   env=self.environment, text=True, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.terminate)
        return int(process.stdout.readline().rpartition(":")[2])

    def start_gateway(self, line):
        """Before the sidecar that was started; returns when it knows its island."""
        port = self.start(line.replace("127.0.0.1:8088", "127.0.0.1:0"))
        self.moved["127.0.0.1:8088"] = f"127.0.0.1:{port}"
        client = engines_harness.Client(port)
        engines_harness.wait_until(lambda: client.get("/health")[0] == 200, "an island serves")

    def start_relay(self, line):
        self.moved["/var/cache/"] = f"{self.dir}/cache-of-"
        port = self.start(line.replace("0.0.0.0:8090", "127.0.0.1:0"))
        status, answer = engines_harness.Client(port).get("/health")
        self.assertEqual((status, answer["origin"]), (200, True))

    def run_line(self, line):
        """Runs one line of the README in a shell; beside a rank the other one."""
        if " --rank 0 --ranks 2" in line:
            other = line.replace("share-0", "share-1").replace("--rank 0", "--rank 1")
            process = subprocess.Popen(["bash", "-c", self.here(other)], cwd=self.dir,
                                       env=self.environment, stdout=subprocess.DEVNULL)
            self.addCleanup(lambda: self.assertEqual(process.wait(60), 0))
        if line.startswith("isthmus sidecar "):
            return self.start_sidecar(line)
        if line.startswith("isthmus gateway "):
            return self.start_gateway(line)
        if line.startswith("isthmus board serve "):
            return self.start_relay(line)
        done = subprocess.run(["bash", "-c", self.here(line)], cwd=self.dir, env=self.environment,
                              text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if line.startswith("curl ") and "/ready" in line:
            self.assertTrue(json.loads(done.stdout)["ready"])
        elif line.startswith("curl "):
            self.assertEqual(json.loads(done.stdout)["weight_version_end"], 3)
        return None

    def test_every_command_of_the_program_works_in_the_order_shown(self):
        commands = program_commands()
        self.assertGreaterEqual(len(commands), 10)
        for line in commands:
            with self.subTest(line):
                self.run_line(line)
        harness.assert_same_files(self.dir / "model", self.step(37))
        harness.assert_same_files(self.dir / "checkpoint-37", self.step(39))

    def test_the_commands_of_the_entry_point_exist(self):
        shown = set(re.findall(r"\./run ([\w-]+)", README))
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
