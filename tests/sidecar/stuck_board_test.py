#!/usr/bin/env python3
"""A board whose reads hang, as those of a network file system do: the engines are looked at all the
same, and requests are answered."""

import contextlib
import fcntl
import http.client
import os
import pathlib
import signal
import unittest

import island
from island import harness

BREAK_S = int(pathlib.Path("/proc/sys/fs/lease-break-time").read_text(encoding="ascii"))


@contextlib.contextmanager
def hanging(path):
    """Whoever opens the file to read it waits: a lease of the kernel, broken after BREAK_S."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the request to give the lease back
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(descriptor)
        signal.signal(signal.SIGIO, before)


class StuckBoardTest(island.IslandTest):
    options = island.NO_POLLING

    def newest(self, pattern):
        return max(self.board.rglob(pattern), key=lambda found: found.stat().st_mtime_ns)

    def assert_notices_a_replaced_engine(self):
        self.assert_serves(1)
        self.replace_engine()
        self.wait_for(lambda info: not info["ready"], "the other engine is noticed", BREAK_S // 2)
        self.assertEqual(self.version_of(), -503)

    def test_a_stage_that_hangs_hides_no_replaced_engine(self):
        self.publish()
        with hanging(self.newest("*patch.part")):
            self.wake()
            self.wait_for(lambda info: info["state"] == "staging", "staging")
            self.assert_notices_a_replaced_engine()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_a_log_that_hangs_hides_no_replaced_engine(self):
        self.publish()
        with hanging(self.newest("head.json")):
            self.wake()
            self.assert_notices_a_replaced_engine()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_a_stage_that_hangs_keeps_no_request_from_its_answer(self):
        self.publish()
        with hanging(self.newest("*patch.part")):
            self.wake()
            self.wait_for(lambda info: info["state"] == "staging", "staging")
            for _ in range(20):
                self.assert_serves(1)
        self.wait_for_version(2)

    def listens_no_more(self):
        try:
            self.sidecar.get("/live")
        except (OSError, http.client.HTTPException):
            return True
        return False

    def test_a_second_signal_ends_it_at_once_whatever_hangs(self):
        self.publish()
        with hanging(self.newest("*patch.part")):
            self.wake()
            self.wait_for(lambda info: info["state"] == "staging", "staging")
            self.process.process.terminate()
            harness.wait_until(self.listens_no_more, "all but the stage has ended")
            self.assertIsNone(self.process.process.poll())
            self.process.process.terminate()
            self.assertEqual(self.process.process.wait(BREAK_S // 2), 6)
        self.start_sidecar()
        self.wake()
        self.wait_for_version(2)
        self.assert_serves(2)


if __name__ == "__main__":
    unittest.main()
