"""Signed versions, and keeping a board small: board anchor, pin, unpin, gc; verify of a board; all
of it beside publishers and readers."""

import json
import shutil
import subprocess
import threading
import unittest

import harness
import runs

STEPS = (37, 38, 39, 40)


class SignatureTest(runs.RunTest):

    def setUp(self):
        super().setUp()
        self.key = self.new_key("trainer")
        self.trust = ["--trust", f"{self.key}.pub"]

    def new_key(self, name):
        harness.run("key", "new", self.dir / name)
        return self.dir / name

    def publish_signed(self, *steps, key=None):
        for step in steps:
            self.publish(self.step(step, "fp8"), "--sign-key", key or self.key)

    def entry(self, version):
        return self.board / "runs" / "r" / "log" / f"{version:010}.json"

    def test_signed_versions_are_pulled_by_those_who_trust_the_key(self):
        self.publish_signed(37, 38)
        found = harness.run_json(*self.pull_arguments("replica"), *self.trust)
        self.assertEqual(found["version"], 2)
        self.assert_replica("replica", self.step(38, "fp8"))
        for command in ("log", "verify"):
            harness.run(command, *self.run_options, *self.trust)
        self.pull("careless")  # who trusts nobody in particular asks for no signature

    def test_unsigned_and_foreign_versions_are_refused(self):
        self.publish_signed(37)
        self.publish(self.step(38, "fp8"))
        runs.refused(self, 5, [*self.pull_arguments("replica"), *self.trust], "0000000002.json",
                     "not signed")
        harness.run(*self.pull_arguments("replica", 1), *self.trust)
        self.publish_signed(39, key=self.new_key("other"))
        runs.refused(self, 5, [*self.pull_arguments("replica"), *self.trust], "0000000003.json",
                     "none of 1 trusted")
        both = [*self.trust, "--trust", f"{self.dir / 'other'}.pub"]
        runs.refused(self, 5, [*self.pull_arguments("replica"), *both], "not signed")
        self.assert_replica("replica", self.step(37, "fp8"))

    def test_an_altered_or_moved_entry_is_refused(self):
        self.publish_signed(37, 38, 39)
        whole = self.entry(3).read_text()
        changes = {"other parts": self.entry(2).read_text(),
                   "a changed key": whole.replace('"epoch":1', '"epoch":2'),
                   "a digest": whole.replace("sha256:", "sha256:0", 1)}
        for name, text in changes.items():
            with self.subTest(name):
                self.assertNotEqual(text, whole)
                self.entry(3).write_text(text)
                runs.refused(self, 5, [*self.pull_arguments("replica"), *self.trust], "0000000003")
        self.entry(3).write_text(whole)
        harness.run(*self.pull_arguments("replica"), *self.trust)

    def test_a_log_of_another_board_or_run_is_refused(self):
        self.publish_signed(37, 38)
        other = self.make_board("other")
        shutil.copytree(self.board / "runs", other / "runs")
        runs.refused(self, 5, ["pull", "--board", other, "--run", "r", "--replica",
                               self.dir / "a", *self.trust], "another place")
        harness.run("pull", "--board", other, "--run", "r", "--replica", self.dir / "b")
        shutil.copytree(self.board / "runs" / "r", self.board / "runs" / "s")
        for entry in (self.board / "runs" / "s" / "log").iterdir():
            entry.write_text(entry.read_text().replace('"run":"r"', '"run":"s"')
                             .replace("runs/r/", "runs/s/"))
        runs.refused(self, 5, ["pull", "--board", self.board, "--run", "s", "--replica",
                               self.dir / "c", *self.trust], "another place")

    def test_keys_that_are_none_are_refused_by_name(self):
        runs.refused(self, 4, ["key", "new", self.key], self.key)
        runs.refused(self, 2, [*self.publish_arguments(self.step(37, "fp8")), "--sign-key",
                               f"{self.key}.pub"], "trainer.pub", "Ed25519")
        runs.refused(self, 2, ["log", *self.run_options, "--trust", self.key], "trainer")
        runs.refused(self, 3, ["log", *self.run_options, "--trust", self.dir / "none"], "none")


class UpkeepTest(runs.RunTest):

    def anchor(self, version, step):
        return harness.run_json("board", "anchor", version, self.step(step, "fp8"),
                                *self.run_options)

    def clean(self, *options):
        return harness.run_json("board", "gc", *self.run_options, "--keep-last", 1,
                                "--keep-younger-h", 0, *options)

    def log(self):
        return {entry["version"]: entry
                for entry in harness.run_json("log", *self.run_options)["versions"]}

    def test_an_anchor_shortens_joins_and_lets_older_payloads_go(self):
        self.start_with(*STEPS)
        self.assertGreater(self.anchor(3, 39)["payload_bytes"], 0)
        self.assertEqual(self.anchor(3, 39)["payload_bytes"], 0)
        self.assertEqual(self.pull("replica")["chain"], ["anchor 3", "patch 4"])
        planned = self.clean()
        self.assertEqual((planned["applied"], planned["kept"]), (False, [4]))
        done = self.clean("--apply")
        self.assertEqual({**planned, "applied": True}, done)
        self.assertEqual(self.pull("fresh")["chain"], ["anchor 3", "patch 4"])
        self.assert_replica("fresh", self.step(40, "fp8"))
        entries = self.log()
        self.assertEqual([entries[n]["gone"] for n in (1, 2, 3, 4)], [True, True, True, False])
        self.assertEqual(entries[3]["added"], ["anchor"])
        text = harness.run("log", *self.run_options).stdout
        self.assertIn("patch, gone + anchor", text)
        runs.refused(self, 3, self.pull_arguments("old", 1), "version 1", "cleaned")
        harness.run("verify", *self.run_options, "--deep", "--rebuild", 4)
        found = harness.run_json("verify", *self.run_options, "--rebuild", 1, expect=5)
        self.assertIn("version 1", found["problems"][0])

    def test_a_pinned_version_stays(self):
        self.start_with(*STEPS)
        self.anchor(4, 40)
        pin = ["board", "pin", "evaluation", 2, *self.run_options]
        self.assertEqual(harness.run_json(*pin, "--hours", 2)["version"], 2)
        self.assertEqual(self.clean("--apply")["kept"], [2, 4])
        self.pull("pinned", 2)
        self.assert_replica("pinned", self.step(38, "fp8"))
        harness.run("board", "unpin", "evaluation", *self.run_options)
        self.assertEqual(self.clean("--apply")["kept"], [4])
        runs.refused(self, 3, ["board", "unpin", "evaluation", *self.run_options], "evaluation")
        runs.refused(self, 3, ["board", "pin", "x", 9, *self.run_options], "version 9")

    def test_another_checkpoint_is_no_anchor(self):
        self.start_with(37, 38)
        runs.refused(self, 2, ["board", "anchor", 2, self.step(39, "fp8"), *self.run_options],
                     "version 2", "step-39")

    def test_text_says_what_would_go_and_how_to_let_it_go(self):
        self.start_with(37, 38)
        done = harness.run("board", "gc", *self.run_options)
        self.assertIn("would remove", done.stdout)
        self.assertIn("--apply", done.stderr)

    def test_verify_reports_what_nothing_names(self):
        self.start_with(37, 38)
        stray = self.board / "runs/r/data/2/0123456789abcdef/00000-patch.part"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"x")
        done = harness.run("verify", *self.run_options)
        self.assertIn("0123456789abcdef", done.stderr)
        self.assertEqual(done.stdout, "ok\n")


class TendTest(runs.RunTest):

    def tend_arguments(self, *options):
        return ["board", "tend", *self.run_options, "--dir", self.dir / "tend", "--skip-every", 2,
                "--most-between", 4, "--anchor-at", 1000, *options]

    def publish_to(self, version, *options):
        while self.head() < version:
            self.publish(self.step(STEPS[self.head() % 4], "fp8"), *options)

    def test_a_join_is_short_however_long_the_run(self):
        self.publish_to(12)
        added = harness.run_json(*self.tend_arguments())["added"]
        self.assertEqual(added, ["patch 3 from 1", "anchor 5", "patch 7 from 5", "anchor 9",
                                 "patch 11 from 9"])
        self.assertEqual(self.pull("replica")["chain"],
                         ["anchor 9", "patch 11 from 9", "patch 12"])
        self.assert_replica("replica", self.step(STEPS[11 % 4], "fp8"))
        self.assertEqual(harness.run_json(*self.tend_arguments())["added"], [])
        harness.run("verify", *self.run_options, "--deep")

    def test_signed_additions_are_used_by_those_who_trust_and_others_left_out(self):
        harness.run("key", "new", self.dir / "k")
        self.publish_to(5, "--sign-key", self.dir / "k")
        trust = ["--trust", self.dir / "k.pub"]
        harness.run(*self.tend_arguments("--sign-key", self.dir / "k", *trust))
        self.assertEqual(harness.run_json(*self.pull_arguments("a"), *trust)["chain"], ["anchor 5"])
        self.publish_to(7, "--sign-key", self.dir / "k")
        harness.run(*self.tend_arguments(*trust))  # these are not signed
        found = harness.run(*self.pull_arguments("b"), *trust)
        self.assertIn("not signed", found.stderr)
        self.assertIn("anchor 5, patch 6, patch 7", found.stdout)
        self.assert_replica("b", self.step(STEPS[6 % 4], "fp8"))

    def test_watching_goes_on_as_versions_come(self):
        self.publish_to(2)
        watching = subprocess.Popen(
            [harness.PROGRAM, *map(str, self.tend_arguments("--watch", "--poll-s", 1, "--json"))],
            env=harness.ENVIRONMENT, text=True, stdout=subprocess.PIPE)
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        self.publish_to(3)
        self.assertEqual(json.loads(watching.stdout.readline())["added"], ["patch 3 from 1"])
        self.publish_to(5)
        self.assertEqual(json.loads(watching.stdout.readline())["added"], ["anchor 5"])


class BesideOthersTest(runs.RunTest):
    """Cleaning while a publisher publishes and readers pull."""

    def test_publishers_and_readers_notice_nothing(self):
        self.publish_steps(*STEPS)
        ended, failures = threading.Event(), []

        def until_ended(action):
            def run():
                try:
                    while not ended.is_set():
                        action()
                except Exception as error:  # whatever it is, it is the finding
                    failures.append(error)
                    ended.set()
            thread = threading.Thread(target=run)
            thread.start()
            return thread

        def pull_fresh():
            found = self.pull("fresh")
            self.assert_replica("fresh", self.step(STEPS[(found["version"] - 1) % 4], "fp8"))
            shutil.rmtree(self.dir / "fresh")

        def pull_on():
            found = self.pull("follower")
            self.assert_replica("follower", self.step(STEPS[(found["version"] - 1) % 4], "fp8"))

        def clean():
            harness.run("board", "gc", *self.run_options, "--keep-last", 2, "--keep-younger-h", 0,
                        "--apply")

        threads = [until_ended(action) for action in (pull_fresh, pull_on, clean)]
        try:
            for version in range(5, 21):
                step = self.step(STEPS[(version - 1) % 4], "fp8")
                self.publish(step)
                if version % 4 == 0:
                    harness.run("board", "tend", *self.run_options, "--dir", self.dir / "tend",
                                "--skip-every", 2, "--most-between", 6, "--anchor-at", 1000)
                if ended.is_set():
                    break
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        clean()
        self.pull("last")
        self.assert_replica("last", self.step(40, "fp8"))
        gone = [entry["gone"] for entry in harness.run_json("log", *self.run_options)["versions"]]
        self.assertGreater(sum(gone), 12)


if __name__ == "__main__":
    unittest.main()
