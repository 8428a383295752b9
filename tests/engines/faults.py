"""Faults on demand: what a test asks a double to do wrong, and how a call meets it.

A call has three points: before its effect, midway (half of the ranks have loaded; a pause has begun
but not drained) and after. A fault strikes at one of them.
"""

import os
import threading

POINTS = ("before", "midway", "after")
# kind: (action, default point)
KINDS = {
    "hang": ("hang", "before"),  # until POST /_double/release; then it goes on as if it were slow
    "slow_drain": ("hang", "midway"),
    "error": ("error", "before"),  # 500
    "half_applied": ("error", "midway"),
    "reset": ("reset", "midway"),  # the connection ends by a TCP reset
    "die": ("die", "midway"),  # the process exits
    "error_in_200": ("error_in_200", "midway"),
    "stale": ("stale", "midway"),  # a load that answers well and changes nothing
}
EXIT_STATUS = 9


class Fault:
    """One planned misbehaviour; `released` lets a hanging call go on."""

    def __init__(self, route, kind, when):
        self.route = route
        self.kind = kind
        self.action, default = KINDS[kind]
        self.when = when or default
        self.released = threading.Event()


class Faults:
    """The faults that wait for their call. Any thread may use it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._planned = []
        self._hanging = []

    def plan(self, route, kind, count, when):
        """ValueError for a kind or point that does not exist."""
        if kind not in KINDS or when not in (None, *POINTS):
            raise ValueError(f"kinds are {', '.join(KINDS)}; points are {', '.join(POINTS)}")
        if type(count) is not int or count < 1:
            raise ValueError(f"count must be at least 1, not {count!r}")
        with self._lock:
            self._planned += [Fault(route, kind, when) for _ in range(count)]

    def take(self, route):
        """The next fault planned for a route, or None."""
        with self._lock:
            for fault in self._planned:
                if fault.route == route:
                    self._planned.remove(fault)
                    return fault
            return None

    def clear(self):
        with self._lock:
            self._planned.clear()

    def strike(self, call, point, error):
        """Does what the call's fault says for this point; `error` is the exception for a 500."""
        fault = call.fault
        if fault is None or fault.when != point:
            return
        if fault.action == "hang":
            self._hang(fault)
        elif fault.action == "error":
            raise error
        elif fault.action == "reset":
            call.reset_connection()
        elif fault.action == "die":
            os._exit(EXIT_STATUS)

    def _hang(self, fault):
        with self._lock:
            self._hanging.append(fault)
        fault.released.wait()

    def hanging(self):
        with self._lock:
            return [fault.route for fault in self._hanging]

    def release(self, route):
        """Lets the hanging calls of a route (None: of all) go on; returns their number."""
        with self._lock:
            chosen = [fault for fault in self._hanging if route in (None, fault.route)]
            self._hanging = [fault for fault in self._hanging if fault not in chosen]
        for fault in chosen:
            fault.released.set()
        return len(chosen)

    def planned(self):
        with self._lock:
            return [{"route": fault.route, "kind": fault.kind, "when": fault.when}
                    for fault in self._planned]
