"""Runs that start from a version of another: board fork, and what log, verify, gc, pull and publish
make of them."""

import json
import unittest

import harness
import runs


class ForkTest(runs.RunTest):

    def fork_arguments(self, version, *options, run="r", new="n"):
        return ["board", "fork", run, version, "--board", self.board, "--run", new, *options]

    def fork(self, version, *options, **names):
        return harness.run_json(*self.fork_arguments(version, *options, **names))

    def on(self, run, command, *options):
        return harness.run_json(*command.split(), "--board", self.board, "--run", run, *options)

    def publish_on(self, run, step):
        return self.on(run, f"publish {self.step(step, 'fp8')}", "--baseline",
                       self.dir / f"baseline-{run}")

    def pull_on(self, run, replica, *options):
        return self.on(run, "pull", "--replica", self.dir / replica, *options)

    def test_a_run_forked_from_another_goes_on_by_itself(self):
        self.start_with(37, 38, 39)
        self.assertEqual(self.publish(self.step(40, "fp8"))["version"], 4)
        done = self.fork(2, "--checkpoint", self.step(38, "fp8"))
        self.assertGreater(done["stored_bytes"], 0)
        self.assertEqual(done, {"run": "n", "version": 1, "fork": {"run": "r", "version": 2},
                                "digest": done["digest"], "payload_bytes": done["stored_bytes"],
                                "stored_bytes": done["stored_bytes"]})
        found = self.publish_on("n", 40)
        self.assertEqual((found["version"], found["parent"], found["kind"]), (2, 1, "patch"))
        self.assertEqual(self.pull_on("n", "replica")["chain"], ["anchor 1", "patch 2"])
        self.assert_replica("replica", self.step(40, "fp8"))
        self.pull_on("n", "replica", "--version", 1)
        self.assert_replica("replica", self.step(38, "fp8"))
        self.pull("parent", 3)
        self.assert_replica("parent", self.step(39, "fp8"))
        for run in ("r", "n"):
            self.assertEqual(self.on(run, "verify", "--deep")["problems"], [])
        runs.refused(self, 2, ["pull", "--board", self.board, "--run", "r", "--replica",
                               self.dir / "replica"], "run")  # a replica is of one run

    def test_text_says_what_was_made_and_the_log_where_it_comes_from(self):
        self.start_with(37, 38)
        text = harness.run(*self.fork_arguments(1)).stdout
        self.assertEqual(text, "version  1 of run n\n"
                               "fork of  version 1 of run r, whose anchor it shares\n"
                               "stored   0 B\n")
        self.assertEqual(self.on("n", "log")["versions"][0]["fork"], {"run": "r", "version": 1})
        self.assertNotIn("fork", self.on("r", "log")["versions"][-1])
        options = ["--board", self.board, "--run", "n"]
        self.assertIn("anchor, fork of r 1 ", harness.run("log", *options).stdout)
        entry = self.board / "runs/n/log/0000000001.json"
        self.assertIn("fork of   version 1 of run r\n", harness.run("inspect", entry).stdout)
        self.assertEqual(harness.run_json("inspect", entry)["manifest"]["fork"],
                         {"run": "r", "version": 1})

    def test_what_cannot_be_forked_is_refused(self):
        self.start_with(37, 38, 39)
        runs.refused(self, 2, self.fork_arguments(2), "version 2 of run r", "--checkpoint")
        runs.refused(self, 2, self.fork_arguments(2, "--checkpoint", self.step(39, "fp8")),
                     "step-39", "not that version")
        runs.refused(self, 3, self.fork_arguments(4), "version 4 of run r", "no such version")
        runs.refused(self, 3, self.fork_arguments(1, run="none"), "run none")
        runs.refused(self, 2, self.fork_arguments(1, run="../r"), "../r")
        runs.refused(self, 4, self.fork_arguments(1, new="r"), "has versions up to 3")
        harness.run("board", "revoke", 1, *self.run_options)
        runs.refused(self, 4, self.fork_arguments(1), "version 1 of run r is revoked")
        self.assertFalse((self.board / "runs" / "n").exists())

    def test_cleaning_either_run_leaves_what_the_other_needs(self):
        self.start_with(37, 38, 39)
        self.fork(2, "--checkpoint", self.step(38, "fp8"))
        self.publish_on("n", 40)
        harness.run("board", "anchor", 3, self.step(39, "fp8"), *self.run_options)
        harness.run("board", "anchor", 2, self.step(40, "fp8"), "--board", self.board, "--run", "n")
        everything = ("--keep-last", 1, "--keep-younger-h", 0, "--grace-h", 0, "--apply")
        self.assertEqual(self.on("r", "board gc", *everything)["kept"], [2, 3])
        cleaned = self.on("n", "board gc", *everything)
        self.assertEqual((cleaned["kept"], cleaned["unexplained"]), ([2], []))
        self.pull("parent", 2)
        self.assert_replica("parent", self.step(38, "fp8"))
        self.pull_on("n", "replica")
        self.assert_replica("replica", self.step(40, "fp8"))
        self.fork(1, run="n", new="m")
        self.pull_on("m", "again")
        self.assert_replica("again", self.step(38, "fp8"))
        self.assertEqual(self.on("r", "verify", "--deep", "--rebuild", 3)["problems"], [])

    def test_damage_of_a_fork_ends_cleaning_of_its_parent(self):
        self.start_with(37, 38)
        self.fork(1)
        entry = self.board / "runs/n/log/0000000001.json"
        entry.write_text("{")
        runs.refused(self, 5, ["board", "gc", *self.run_options], entry.name, "other runs")

    def test_forks_are_signed_and_unsigned_ones_refused(self):
        harness.run("key", "new", self.dir / "key")
        trust = ("--trust", self.dir / "key.pub")
        self.start_with(37)
        self.fork(1, new="unsigned")
        self.fork(1, "--sign-key", self.dir / "key", new="signed")
        self.pull_on("signed", "replica", *trust)
        self.assert_replica("replica", self.step(37, "fp8"))
        runs.refused(self, 5, ["pull", "--board", self.board, "--run", "unsigned", "--replica",
                               self.dir / "other", *trust], "not signed")
        # An entry that was signed for one run is no entry of another.
        log = self.board / "runs"
        text = (log / "signed/log/0000000001.json").read_text()
        moved = text.replace('"run":"signed"', '"run":"unsigned"')
        self.assertNotEqual(moved, text)
        self.assertEqual(json.loads(moved)["run"], "unsigned")
        (log / "unsigned/log/0000000001.json").write_text(moved)
        runs.refused(self, 5, ["pull", "--board", self.board, "--run", "unsigned", "--replica",
                               self.dir / "other", *trust], "another place")


if __name__ == "__main__":
    unittest.main()
