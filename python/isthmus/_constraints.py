"""What a request asks of versions, as the headers of docs/request-lane.md say it. Pure."""

from __future__ import annotations

import dataclasses
import datetime

from isthmus import errors

MAX_WAIT_MS = 3_600_000
MAX_DEADLINE_MS = 86_400_000


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Of one request; None: not asked for. Times in seconds."""

    run: str | None = None
    min_version: int | None = None
    exact_version: int | None = None
    max_lag: int | datetime.timedelta | str | None = None
    session: str | None = None
    pin: bool | None = None
    priority: str | None = None
    request_id: str | None = None
    wait_s: float | None = None
    deadline_s: float | None = None

    def __post_init__(self):
        for name in ("min_version", "exact_version"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))

    def headers(self, left_s: float, deadline_left_s: float | None) -> dict[str, str]:
        """Of one attempt.

        left_s: for how long the caller still has patience; the islands and the gateway wait as
        long unless wait_s says otherwise. deadline_left_s: what is left of deadline_s.
        Raises InvalidError, which names the field.
        """
        wait_s = left_s if self.wait_s is None else self.wait_s
        fields = {
            "Isthmus-Run": self.run,
            "Isthmus-Min-Version": _decimal(self.min_version),
            "Isthmus-Exact-Version": _decimal(self.exact_version),
            "Isthmus-Max-Lag": _lag(self.max_lag),
            "Isthmus-Session": self.session,
            "Isthmus-Session-Pin": None if self.pin is None else str(int(self.pin)),
            "Isthmus-Priority": self.priority,
            "Isthmus-Request-Id": self.request_id,
            "Isthmus-Version-Spans": "1",
            "Isthmus-Wait-Ms": _milliseconds("wait_s", wait_s, 0, MAX_WAIT_MS),
            "Isthmus-Deadline-Ms": None if deadline_left_s is None else _milliseconds(
                "deadline_s", deadline_left_s, 1, MAX_DEADLINE_MS)}
        return {name: _text(name, value) for name, value in fields.items() if value is not None}

    def broken_by(self, start: int | None, run: str | None) -> str | None:
        """Why an answer that begins at this version, of this run, is not what was asked for."""
        if self.run is not None and run != self.run:
            return f"is of run {run}, not {self.run}"
        wanted = self.exact_version or self.min_version
        if wanted and start is None:
            return "does not say its version: no sidecar is in front of the engine"
        if self.exact_version and start != self.exact_version:
            return f"is of version {start}, not {self.exact_version}"
        if self.min_version and start < self.min_version:
            return f"is of version {start}, below {self.min_version}"
        return None


def _text(name, value):
    """What can stand in a header; the rest is judged by who reads it."""
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise errors.InvalidError(f"{name} is {value!r}, not a printable ASCII text")
    return value


def _number(name, value):
    """Of a version: a whole number, or what int() makes one of, as a Version."""
    if value is None:
        return None
    if isinstance(value, (bool, str, bytes, float)) or (number := int(value)) < 0:
        raise errors.InvalidError(f"{name} is {value!r}, not a version's number")
    return number


def _decimal(number):
    return None if number is None else str(number)


def _lag(value):
    """`3` in versions, `1500ms` in time."""
    if isinstance(value, datetime.timedelta):
        return f"{round(value.total_seconds() * 1000)}ms"
    if value is None or isinstance(value, str):
        return value
    return _decimal(_number("max_lag", value))


def _milliseconds(name, seconds, least, most):
    if not seconds >= 0:
        raise errors.InvalidError(f"{name} is {seconds!r}, not a time in seconds")
    return str(max(round(min(seconds * 1000, most)), least))
