"""Where options come from: command line, configuration file, environment. Help, usage errors,
completion."""

import json
import os
import re
import shutil
import subprocess
import unittest

import harness
import runs


def subcommands(*path):
    """The subcommands that the help of a command lists."""
    text = harness.run(*path, "--help").stdout
    if "\nSubcommands:\n" not in text:
        return []
    listed = text.split("\nSubcommands:\n")[1].split("\n\n")[0]
    return [(*path, line.split()[0]) for line in listed.splitlines() if re.match(r"  \w", line)]


def leaf_commands(*path):
    nested = subcommands(*path)
    return [leaf for child in nested for leaf in leaf_commands(*child)] if nested else [path]


def long_options(*path):
    return set(re.findall(r"(--[a-z][a-z0-9-]*)", harness.run(*path, "--help").stdout.split(
        "\nExample:")[0]))


class OptionsTest(runs.RunTest):
    """The run "r" has the versions 1 and 2."""

    def setUp(self):
        super().setUp()
        self.start_with(37, 38)
        self.variables = {"ISTHMUS_BOARD": str(self.board), "ISTHMUS_RUN": "r"}

    def config(self, text):
        path = self.dir / "isthmus.toml"
        path.write_text(text.format(dir=self.dir))
        return path

    def pulled(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("{"), done.stdout)
        return json.loads(done.stdout)["version"]

    def test_every_long_option_comes_from_the_environment(self):
        replica, patch = self.dir / "replica", self.dir / "p"
        old, new = self.step(37, "fp8"), self.step(38, "fp8")
        for variables, arguments, expected in (
                ({"ISTHMUS_REPLICA": str(replica)}, ["pull"], {"version": 2}),
                ({"ISTHMUS_THREADS": "1"}, ["log"], {"run": "r"}),
                ({"ISTHMUS_OUTPUT": str(patch), "ISTHMUS_ENCODING": "xor"}, ["diff", old, new],
                 {"encodings": {"xor": 1}}),
                ({"ISTHMUS_STEP": "40", "ISTHMUS_META": "a=b", "ISTHMUS_BASELINE":
                  str(self.baseline)}, ["publish", self.step(40, "fp8")], {"version": 3})):
            with self.subTest(command=arguments[0]):
                done = runs.run_with(self.variables | variables | {"ISTHMUS_JSON": "1"},
                                     *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = json.loads(done.stdout)
                self.assertEqual({key: found[key] for key in expected}, expected)
        done = runs.run_with(self.variables | {"ISTHMUS_DEEP": "true"}, "verify")
        self.assertEqual(done.returncode, 2, "what verify looks at must not come from elsewhere")
        newest = harness.run_json("log", *self.run_options)["versions"][0]
        self.assertEqual(newest["step"], 40)

    def test_every_long_option_comes_from_the_configuration_file(self):
        config = self.config('json = true\nthreads = 1\n'
                             '[pull]\nboard = "{dir}/board"\nrun = "r"\nversion = 1\n'
                             'replica = "{dir}/replica"\n'
                             '[publish]\nboard = "{dir}/board"\nrun = "r"\nstep = 40\n'
                             'meta = ["a=b", "c=d e"]\nbaseline = "{dir}/baseline"\n'
                             'encoding = "raw"\n'
                             '[verify]\nboard = "{dir}/board"\nrun = "r"\ndeep = true\n')
        self.assertEqual(self.pulled(harness.run("pull", "--config", config)), 1)
        harness.run("--config", config, "publish", self.step(40, "fp8"))
        self.assertTrue(json.loads(harness.run("verify", "--config", config).stdout)["ok"])
        entry = json.loads((self.board / "runs/r/log/0000000003.json").read_text())
        self.assertEqual((entry["step"], entry["meta"]), (40, {"a": "b", "c": "d e"}))
        self.assertEqual(entry["payloads"][0]["encoding"], "raw")

    def test_the_environment_names_the_configuration_file(self):
        config = self.config('[pull]\nreplica = "{dir}/replica"\n')
        done = runs.run_with(self.variables | {"ISTHMUS_CONFIG": str(config)}, "pull", "--json")
        self.assertEqual(self.pulled(done), 2)

    def test_an_empty_variable_counts_as_absent(self):
        empty = {f"ISTHMUS_{name}": "" for name in ("CONFIG", "VERSION", "JSON", "THREADS", "RUN")}
        done = runs.run_with(empty, *self.pull_arguments("replica"), "--json")
        self.assertEqual(self.pulled(done), 2)

    def test_the_environment_names_the_version_to_pull(self):
        done = runs.run_with(self.variables | {"ISTHMUS_VERSION": "1"}, "pull", "--json",
                             "--replica", self.dir / "replica")
        self.assertEqual(self.pulled(done), 1)

    def test_the_command_line_wins_over_the_file_and_the_file_over_the_environment(self):
        config = self.config('[log]\nrun = "of-file"\nboard = "{dir}/board"\n')
        variables = {"ISTHMUS_RUN": "of-environment"}
        done = runs.run_with(variables, "log", "--config", config, "--run", "r")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = runs.run_with(variables, "log", "--config", config, "--json")
        self.assertIn("run of-file ", runs.assert_one_line(self, done, 3))
        done = runs.run_with(variables, "log", "--board", self.board, "--json")
        self.assertIn("run of-environment ", runs.assert_one_line(self, done, 3))

    def test_what_the_command_line_asks_to_verify_is_verified_whatever_the_environment_names(self):
        done = runs.run_with({"ISTHMUS_REPLICA": str(self.dir / "nowhere")}, "verify",
                             *self.run_options)
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)

    def test_a_checkpoint_without_another_to_compare_with_is_never_said_to_be_ok(self):
        (self.dir / "broken").mkdir()
        for variables, options in (({}, self.run_options), (self.variables, [])):
            done = runs.run_with(variables, "verify", self.dir / "broken", *options, "--json")
            self.assertIn("--against", runs.assert_one_line(self, done, 2))

    def test_a_configuration_file_that_is_missing_or_wrong_is_refused(self):
        done = harness.run("log", *self.run_options, "--config", self.dir / "nowhere.toml",
                           expect=None)
        self.assertIn(done.returncode, (2, 3))
        self.assertIn("nowhere.toml", done.stderr)
        for text in ("this is not toml at all\n", '[log]\nrunn = "r"\n'):
            done = harness.run("log", *self.run_options, "--config", self.config(text), "--json",
                               expect=None)
            runs.assert_one_line(self, done, 2)
        config = self.config('[publish]\nstep = "soon"\n')
        arguments = [*self.publish_arguments(self.step(37, "fp8")), "--config", config, "--json"]
        self.assertIn("step", runs.assert_one_line(self, harness.run(*arguments, expect=None), 2))

    def test_wrong_usage_is_one_line_and_exit_code_2(self):
        publish = self.publish_arguments(self.step(37, "fp8"))
        for arguments, named in (
                ([], "subcommand"), (["board"], "subcommand"), (["publsh"], "publsh"),
                (["board", "inot"], "inot"),
                (["diff"], "OLD"), (["log"], "--board"), (["inspect"], "PATH"),
                (["verify"], "--against"), (["completion", "fish"], "fish"),
                (["log", *self.run_options, "--runs", "r"], "--runs"),
                (["log", "--board", self.board, "--run", "../r"], "../r"),
                (["log", "--board", "gopher://x", "--run", "r"], "gopher"),
                ([*publish, "--step", "soon"], "--step"), ([*publish, "--meta", "x"], "--meta"),
                ([*publish, "--meta", "=x"], "--meta"), ([*publish, "--encoding", "zip"], "zip"),
                ([*publish, "--threads", "-1"], "--threads"),
                ([*publish, "--threads", "x"], "--threads"),
                ([*publish, "--threads", "9999999999"], "--threads"),
                (self.pull_arguments("x", "0"), "--version"),
                (self.pull_arguments("x", "newest"), "--version")):
            with self.subTest(arguments=" ".join(map(str, arguments))):
                done = harness.run(*arguments, "--json", expect=None)
                self.assertIn(named, runs.assert_one_line(self, done, 2))
        self.assertFalse((self.dir / "x").exists())

    def test_an_error_stays_one_line_of_unicode_whatever_a_name_holds(self):
        for name in (b"two\nlines", b"carriage\rreturn", b"not \xff unicode", "ünï".encode()):
            with self.subTest(name=name):
                done = subprocess.run([harness.PROGRAM, b"inspect", b"/nowhere/" + name, b"--json"],
                                      capture_output=True, env=harness.ENVIRONMENT, check=False)
                self.assertEqual(done.returncode, 3)
                self.assertIn("/nowhere/", json.loads(done.stdout.decode())["error"]["message"])
                self.assertEqual(len(done.stderr.decode().splitlines()), 1)

    def test_a_refused_run_name_leaves_no_directory(self):
        cache = self.dir / "cache"
        done = runs.run_with({"XDG_CACHE_HOME": str(cache)}, "publish", self.step(37, "fp8"),
                             "--board", self.board, "--run", "../../../evil", "--json")
        runs.assert_one_line(self, done, 2)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["baseline", "board"])

    def test_an_empty_name_of_a_replica_is_refused_and_no_file_is_made(self):
        here = self.dir / "here"
        here.mkdir()
        (here / "config.json").write_text("precious")
        done = runs.run_with({}, "pull", *self.run_options, "--replica", "", "--json", cwd=here)
        runs.assert_one_line(self, done, 2)
        self.assertEqual(os.listdir(here), ["config.json"])

    def test_the_version_and_the_help_are_printed(self):
        self.assertRegex(harness.run("--version").stdout, r"\Aisthmus \d+\.\d+\.\d+\n\Z")
        self.assertEqual(harness.run("--help").returncode, 0)

    def test_the_help_of_every_command_has_an_example_that_names_it(self):
        leaves = leaf_commands()
        self.assertIn(("board", "init"), leaves)
        for leaf in leaves:
            with self.subTest(command=leaf):
                self.assertRegex(harness.run(*leaf, "--help").stdout,
                                 rf"\nExample: .*isthmus {' '.join(leaf)}\b")


class CompletionTest(unittest.TestCase):
    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_isthmus; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, harness.PROGRAM, "isthmus", *words],
                              capture_output=True, text=True, env=harness.ENVIRONMENT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands(self):
        self.assertEqual(self.complete("pu"), ["publish", "pull"])
        self.assertEqual(self.complete("ver"), ["verify"])
        self.assertEqual(self.complete("board", "i"), ["init"])
        self.assertEqual(self.complete("nonsense"), [])
        self.assertLessEqual({child[0] for child in subcommands()}, set(self.complete("")))

    def test_bash_completes_every_long_option_of_every_command(self):
        for (command,) in subcommands():
            with self.subTest(command=command):
                self.assertLessEqual(long_options(command), set(self.complete(command, "--")))
        self.assertEqual(set(self.complete("publish", "--ba")), {"--baseline"})

    def test_bash_runs_the_completion_for_the_program(self):
        script = 'source <("$0" completion bash); complete -p isthmus'
        done = subprocess.run(["bash", "-c", script, harness.PROGRAM], capture_output=True,
                              text=True, env=harness.ENVIRONMENT, check=True)
        self.assertIn("-F _isthmus", done.stdout)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_completes_commands_and_options(self):
        script = ('compdef() { :; }; _files() { :; }; compadd() { shift; print -l -- "$@"; }; '
                  'source <($PROGRAM completion zsh); words=(isthmus "$@"); CURRENT=$#words; '
                  '_isthmus')
        for words, expected in ((["pu"], "publish"), (["publish", "--b"], "--baseline")):
            done = subprocess.run(["zsh", "-fc", script, "zsh", *words], capture_output=True,
                                  text=True, check=False,
                                  env=harness.ENVIRONMENT | {"PROGRAM": harness.PROGRAM})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(expected, done.stdout.split())


if __name__ == "__main__":
    unittest.main()
