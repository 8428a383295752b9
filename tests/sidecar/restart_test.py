#!/usr/bin/env python3
"""Engines that die, are replaced behind the sidecar's back, or are restarted by its own program."""

import os
import signal
import stat
import sys
import time
import unittest

import island
from island import harness

# Says what it was given, and starts a double, as a supervisor would: on a port that must be free.
RESTART = """#!{python}
import subprocess, sys
with open({said!r}, "a") as said:
    said.write(" ".join(sys.argv[1:]) + "\\n")
new = None
while new is None or not new.stdout.readline():  # the port is still taken
    new = subprocess.Popen({command!r}, stdout=subprocess.PIPE, start_new_session=True,
                           stderr=subprocess.DEVNULL)
with open({pids!r}, "a") as pids:
    pids.write(str(new.pid) + "\\n")
"""
TRIES_S = 4  # the pauses between tries begin with a quarter of a second


class ReplacedEngineTest(island.IslandTest):

    def test_an_engine_that_died_is_an_island_that_is_not_ready_and_says_why(self):
        self.engine.stop()
        info = self.wait_for(lambda info: not info["ready"], "its death is noticed")
        self.assertEqual(self.version_of(), -503)
        info = self.wait_for(lambda info: info["reason"], "the reason is told")
        self.assertIn(str(self.engine.port), info["reason"])
        self.assertEqual(self.sidecar.get("/health")[0], 503)
        self.assertEqual(self.sidecar.get("/live")[0], 200)

    def test_an_engine_that_comes_back_is_loaded_before_it_gets_requests(self):
        self.engine.stop()
        self.wait_for(lambda info: not info["ready"], "its death is noticed")
        self.replace_engine(kill=False)
        self.wait_for_version(1)
        self.assert_serves(1)
        self.release()
        self.assert_serves(2)

    def test_an_engine_that_dies_in_a_request_answers_with_an_error_and_is_loaded_anew(self):
        self.engine.plan("/v1/completions", "die")
        self.assertEqual(self.version_of(stream=False), -503)
        self.wait_for(lambda info: not info["ready"], "its death is noticed")
        self.replace_engine(kill=False)
        self.wait_for_version(1)
        self.assert_serves(1)

    def test_an_engine_replaced_without_a_request_is_noticed(self):
        self.replace_engine()
        self.wait_for(lambda info: len(self.engine.loads()) == 1, "it is loaded")
        self.wait_for_version(1)
        self.assert_serves(1)

    def test_an_engine_replaced_between_two_requests_answers_none_with_other_weights(self):
        """Not one, however soon it is back: ask() checks every token."""
        for _ in range(3):
            self.assert_serves(1)
            self.replace_engine()
            for _ in range(20):
                self.assertIn(self.ask()[0], (200, 409, 503))
            self.wait_for_version(1)

    def test_an_engine_replaced_during_a_switch_is_loaded_anew(self):
        self.engine.plan("/update_weight_version", "die", when="before")
        self.publish()
        harness.wait_until(lambda: not self.engine.is_up(), "it dies of the switch")
        self.replace_engine(kill=False)
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_an_engine_that_somebody_else_paused_is_loaded_anew(self):
        self.engine.post("/pause?mode=keep")
        harness.wait_until(lambda: len(self.engine.loads()) == 2, "it is loaded")
        self.wait_for_version(1)
        self.assert_serves(1)

    def test_an_engine_that_somebody_else_relabelled_is_loaded_anew(self):
        self.engine.post("/update_weight_version", {"new_version": "7"})
        harness.wait_until(lambda: len(self.engine.loads()) == 2, "it is loaded")
        self.wait_for_version(1)
        self.assert_serves(1)


class ReplacedInAGroupTest(island.IslandTest):
    kinds = ("vllm", "vllm")

    def test_one_of_two_engines_replaced_answers_none_with_other_weights(self):
        self.replace_engine(place=1)
        for number in range(20):
            self.assertIn(self.ask({"Isthmus-Session": f"s{number}"})[0], (200, 409, 503))
        self.wait_for_version(1)
        self.assert_serves(1)


class SglangReplacedEngineTest(island.IslandTest):
    kinds = ("sglang",)

    def test_an_engine_replaced_without_a_request_is_noticed(self):
        self.replace_engine()
        harness.wait_until(lambda: self.engine.loads(), "it is loaded")
        self.wait_for_version(1)
        self.assert_serves(1)

    def test_an_engine_that_somebody_else_paused_is_not_ready_for_ever(self):
        self.engine.post("/pause_generation", {"mode": "retract"})
        harness.wait_until(lambda: len(self.engine.loads()) == 2, "it is loaded")
        self.wait_for_version(1)
        self.assert_serves(1)


class RestartProgramTest(island.IslandTest):

    def setUp(self):
        harness.ServerTest.setUp(self)
        self.run_of_weights = island.launch.Run(self.dir)
        self.head = self.sidecars = 0
        self.engines = [self.start_engine("vllm")]
        self.engine = self.engines[0]

    def restart_program(self):
        """Its path; in place of a dead engine it starts another at the same port."""
        program = self.dir / "restart"
        command = [sys.executable, str(harness.HERE / "vllm_double.py"),
                   str(island.checkpoint(0)), "--port", str(self.engine.port)]
        program.write_text(RESTART.format(python=sys.executable, command=command,
                                          said=str(self.dir / "said"), pids=str(self.dir / "pids")),
                           encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.addCleanup(self.end_started)
        return program

    def end_started(self):
        pids = self.dir / "pids"
        for pid in pids.read_text(encoding="ascii").split() if pids.exists() else ():
            os.kill(int(pid), signal.SIGKILL)

    def restarts(self):
        said = self.dir / "said"
        return said.read_text(encoding="utf-8").splitlines() if said.exists() else []

    def test_a_dead_engine_is_restarted_with_replica_and_version(self):
        self.publish()
        self.start_sidecar("--restart-program", self.restart_program(), "--start-limit-s", 1)
        self.wait_for_version(1)
        self.engine.stop()
        harness.wait_until(self.restarts, "it is restarted")
        self.wait_for_version(1)
        self.assertEqual(self.restarts(), [f"{self.dir / 'replica'} 1"])
        self.assert_serves(1)

    def test_an_engine_that_cannot_load_is_restarted(self):
        self.publish()
        self.start_sidecar("--restart-program", self.restart_program())
        self.wait_for_version(1)
        self.engine.plan("/collective_rpc", "error_in_200", count=20)
        self.publish()
        harness.wait_until(self.restarts, "it is restarted")
        self.engine.stop()  # the new one takes its port
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_a_board_without_a_version_is_no_reason_to_restart_engines(self):
        self.start_sidecar("--restart-program", self.restart_program())
        self.wait_for_retries()
        self.assertEqual(self.restarts(), [])
        self.publish()
        self.wait_for_version(1)

    def test_an_engine_that_is_still_starting_is_not_restarted(self):
        self.publish()
        self.engine.stop()
        self.start_sidecar("--restart-program", self.restart_program())
        self.wait_for_retries()
        self.assertEqual(self.restarts(), [])
        self.replace_engine(kill=False)
        self.wait_for_version(1)

    def wait_for_retries(self):
        """For so long that several tries have failed, by the sidecar's own account of time."""
        self.wait_for(lambda info: info["reason"], "the first try has failed")
        until = time.monotonic() + TRIES_S
        harness.wait_until(lambda: time.monotonic() > until or self.restarts(), "tries")


if __name__ == "__main__":
    unittest.main()
