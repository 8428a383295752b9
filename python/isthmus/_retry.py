"""When a call is tried again. Pure but for the clock, which tests replace."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


class Clock:
    """The time, in seconds from any beginning, and sleeping."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970: what a Retry-After that is a date is compared with."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Patience:
    """Of one call, all its attempts together.

    A server's Retry-After is kept to, and stretched by up to a quarter so that those who were
    refused together do not come back together. Without one, pauses double from 0.1 s up to 10 s,
    and each is between half and all of that.
    """

    def __init__(self, seconds: float, clock: Clock, uniform=random.uniform):
        self._clock, self._uniform = clock, uniform
        self._begun = clock.now()
        self._seconds = seconds
        self.attempts = 0

    def elapsed(self) -> float:
        return self._clock.now() - self._begun

    def left(self) -> float:
        return max(0.0, self._seconds - self.elapsed())

    async def pause(self, retry_after: str | None = None) -> bool:
        """Sleeps before the next attempt; False, at once, if there is to be none.

        A pause that the server asked for and that would not end in time is not begun. One of our
        own is cut to what is left, so that the last attempt is made at the very end.
        """
        left = self.left()
        if left <= 0:
            return False
        asked = self._asked(retry_after)
        if asked is None:
            most = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self.attempts, 20))
            seconds = min(left, self._uniform(most / 2, most))
        elif asked > left:
            return False
        else:
            seconds = min(left, self._uniform(asked, asked * 1.25))
        self.attempts += 1
        await self._clock.sleep(seconds)
        return True

    def _asked(self, retry_after):
        """Seconds; None if the header is not there, means nothing, or is 0: that is no pause."""
        if retry_after is None:
            return None
        if retry_after.isascii() and retry_after.isdigit():
            seconds = float(retry_after)
        else:
            try:
                date = email.utils.parsedate_to_datetime(retry_after)
            except (TypeError, ValueError):
                return None
            seconds = date.timestamp() - self._clock.wall()
        return seconds if seconds > 0 else None
