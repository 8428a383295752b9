"""A test with a board and one run on it; refusals as the command line words them."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import harness

CODES = {2: ("invalid",), 3: ("not_found",), 4: ("conflict",), 5: ("corrupt",),
         6: ("unavailable", "not_ready")}
# isthmus: ACTION OBJECT: what was found
ERROR_LINE = r"\Aisthmus: \w+ \S[^\n]*: [^\n]+\n\Z"


def run_with(variables, *arguments, **options):
    """Runs the program with more variables in its environment; any exit code."""
    return subprocess.run([harness.PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          env=harness.ENVIRONMENT | variables, timeout=300, check=False, **options)


def assert_one_line(test, done, code):
    """A failure: an exit code, one line on standard error, the same as JSON on standard output."""
    shown = f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    test.assertEqual(done.returncode, code, shown)
    test.assertTrue(done.stdout.startswith('{"error":'), shown)
    error = json.loads(done.stdout)["error"]
    test.assertEqual(sorted(error), ["code", "message"])
    test.assertIn(error["code"], CODES[code])
    test.assertEqual(done.stderr, f"isthmus: {error['message']}\n")
    test.assertEqual(done.stderr.count("\n"), 1, shown)
    return error["message"]


def refused(test, code, arguments, *named, expect_line=ERROR_LINE):
    """Runs the program, which must refuse with this code and one line that has all of `named`."""
    done = harness.run(*arguments, "--json", expect=None)
    message = assert_one_line(test, done, code)
    test.assertRegex(done.stderr, expect_line)
    for name in named:
        test.assertIn(str(name), message)
    return message


class RunTest(harness.CheckpointTest):
    """A board with the run "r", published with one baseline."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._templates = tempfile.TemporaryDirectory(prefix="isthmus-templates-")
        cls.addClassCleanup(cls._templates.cleanup)

    def setUp(self):
        super().setUp()
        self.board = self.make_board()
        self.run_options = ["--board", self.board, "--run", "r"]
        self.baseline = self.dir / "baseline"

    def publish_arguments(self, checkpoint, baseline=None):
        return ["publish", checkpoint, *self.run_options, "--baseline", baseline or self.baseline]

    def publish(self, checkpoint, *options):
        return harness.run_json(*self.publish_arguments(checkpoint), *options)

    def publish_steps(self, *steps, view="fp8"):
        for step in steps:
            self.publish(self.step(step, view))

    def start_with(self, *steps):
        """As publish_steps at a test's beginning, but done once: later tests get a copy."""
        template = pathlib.Path(self._templates.name) / "-".join(map(str, steps))
        if template.exists():
            shutil.rmtree(self.board)
            shutil.copytree(template, self.dir, dirs_exist_ok=True)
        else:
            self.publish_steps(*steps)
            shutil.copytree(self.dir, template)

    def pull_arguments(self, replica, version="latest"):
        return ["pull", *self.run_options, "--replica", self.dir / replica, "--version", version]

    def pull(self, replica, version="latest"):
        return harness.run_json(*self.pull_arguments(replica, version))

    def assert_replica(self, replica, checkpoint):
        """The replica verifies, and holds the files of the checkpoint and no others."""
        harness.run("verify", "--replica", self.dir / replica)
        harness.assert_same_files(self.dir / replica, checkpoint)

    def head(self, run="r"):
        """The newest version; 0 for none."""
        runs = harness.run_json("inspect", self.board)["runs"]
        return {item["run"]: item["head"] for item in runs}.get(run, 0)
