"""Waiting, with a deadline, in tests of programs: for a condition, and for a function in a thread."""

import threading
import time

DEADLINE_S = 60  # of anything that is waited for; far above what a busy machine needs


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """Polls until condition() is true; returns its value."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {deadline_s} s: {what}")


class Background(threading.Thread):
    """Runs function(*arguments); result() waits for what it returns or raises."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self._function, self._arguments = function, arguments
        self._outcome = None
        self.start()

    def run(self):
        try:
            self._outcome = self._function(*self._arguments), None
        except Exception as error:
            self._outcome = None, error

    def result(self):
        self.join(DEADLINE_S)
        assert not self.is_alive(), f"{self._function} did not return within {DEADLINE_S} s"
        value, error = self._outcome
        if error:
            raise error
        return value
