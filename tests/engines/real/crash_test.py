#!/usr/bin/env python3
"""A sidecar that is killed in the middle of a switch of the real vLLM, and the one that follows."""

import http.client
import unittest

import island
import tap
from island import harness

LOAD = b"reload_weights"  # the method's name, in the body of a /collective_rpc


class CrashTest(island.IslandTest):

    def start_through_tap(self):
        """A sidecar whose every byte to the engine passes a tap."""
        self.tap = tap.Tap(self.engine.port)
        self.addCleanup(self.tap.close)
        self.assertEqual(self.process.stop(), 0, self.process.tail())
        self.start(engine_port=self.tap.port)
        self.wait_for_version(1)

    def kill_at(self, request, version):
        """kill -9 once the sidecar has sent this request, which the engine gets all the same."""
        self.tap.when_sent(request, self.process.process.kill)
        self.publish(version)
        try:
            self.sidecar.post("/wake")
        except (OSError, http.client.HTTPException):
            pass  # it died before it could answer
        self.process.process.wait(harness.DEADLINE_S)

    def assert_next_one_serves(self, version):
        self.start()
        self.wait_for_version(version)
        self.assertEqual(self.engine.get("/is_paused"), (200, {"is_paused": False}))
        self.assert_serves(version)

    def test_killed_while_it_pauses(self):
        self.start_through_tap()
        self.kill_at(b"POST /pause", 2)
        self.assert_next_one_serves(2)

    def test_killed_while_the_engine_loads(self):
        self.start_through_tap()
        self.kill_at(LOAD, 2)
        self.assert_next_one_serves(2)

    def test_killed_between_load_and_resume(self):
        self.start_through_tap()
        self.kill_at(b"POST /reset_prefix_cache", 2)
        self.assert_next_one_serves(2)

    def test_killed_while_it_resumes(self):
        self.start_through_tap()
        self.kill_at(b"POST /resume", 2)
        self.assert_next_one_serves(2)

    def test_killed_twice_and_then_pinned_to_the_old_version(self):
        self.start_through_tap()
        self.kill_at(LOAD, 2)
        self.start(engine_port=self.tap.port)
        self.kill_at(LOAD, 3)
        self.start("--pin", 1)
        self.wait_for_version(1)
        self.assert_serves(1)


if __name__ == "__main__":
    unittest.main()
