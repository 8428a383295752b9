#!/usr/bin/env python3
"""`isthmus status`: what it prints of a sidecar, once, as JSON, and again and again."""

import json
import subprocess
import unittest

import island
from island import harness, launch


class StatusTest(island.IslandTest):

    @property
    def url(self):
        return f"http://127.0.0.1:{self.process.port}"

    def test_a_table_says_version_state_and_the_last_update(self):
        self.release()
        text = launch.isthmus("status", self.url)
        for words in ("ready", "2 (target 2, lag 0)", "0 in flight, 0 waiting", self.engine.spec,
                      "switch 1 to 2", "load", "pause"):
            self.assertIn(words, text)

    def test_json_is_what_the_sidecar_says(self):
        info = json.loads(launch.isthmus("status", self.url, "--json"))
        self.assertEqual((info["ready"], info["applied"], info["run"]), (True, 1, "run"))
        self.assertEqual(info.keys(), self.info().keys())

    def test_it_says_why_an_island_is_not_ready(self):
        self.engine.stop()
        self.wait_for(lambda info: not info["ready"] and info["reason"], "its death is noticed")
        self.assertIn(str(self.engine.port), launch.isthmus("status", self.url))

    def test_watching_shows_the_next_version_too(self):
        watching = subprocess.Popen([launch.program(), "status", self.url, "--watch"], text=True,
                                    stdout=subprocess.PIPE)
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        self.read_until(watching, "1 (target 1, lag 0)")
        self.release()
        self.read_until(watching, "2 (target 2, lag 0)")

    def test_watching_goes_on_while_the_sidecar_is_away(self):
        watching = subprocess.Popen([launch.program(), "status", self.url, "--watch"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        self.read_until(watching, "1 (target 1, lag 0)")
        self.stop_sidecar()
        self.read_until(watching, "isthmus: ")
        self.start_sidecar(port=self.process.port)
        self.read_until(watching, "1 (target 1, lag 0)")

    @staticmethod
    def read_until(process, words):
        def read():
            for line in process.stdout:
                if words in line:
                    return
            raise AssertionError(f"it ended and did not say {words!r}")
        harness.Background(read).result()

    def test_nobody_there_is_an_error(self):
        self.stop_sidecar()
        with self.assertRaises(launch.LaunchError):
            launch.isthmus("status", self.url)


if __name__ == "__main__":
    unittest.main()
