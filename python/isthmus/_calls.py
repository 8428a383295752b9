"""HTTP calls of RolloutClient: each as many attempts as patience and deadline allow."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx

from isthmus import errors
from isthmus._constraints import Constraints
from isthmus._retry import Clock, Patience

TRY_AGAIN = (409, 429, 503)
GRACE_S = 5.0  # beyond a time that the server keeps too
# A machine that vanished says nothing: the kernel asks for it after half a minute of silence.
KEEP_ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in
    (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)]


@dataclasses.dataclass(frozen=True)
class Request:
    """A generation. patience_s: of all its attempts together."""

    path: str
    body: dict[str, Any]
    constraints: Constraints
    patience_s: float

    def deadline_left(self, patience: Patience) -> float | None:
        wanted = self.constraints.deadline_s
        if wanted is None:
            return None
        if not wanted > 0:
            raise errors.InvalidError(f"deadline_s is {wanted!r}, not a time in seconds")
        if (left := wanted - patience.elapsed()) <= 0:
            raise errors.NotReadyError(
                f"{self.path}: no answer within the deadline of {wanted:g} s")
        return left

    def check(self, start: int | None, run: str | None) -> None:
        """The gateway keeps its word; an engine without a sidecar would ignore what was asked."""
        if why := self.constraints.broken_by(start, run):
            raise errors.CorruptError(f"{self.path}: the answer {why}")


class Refused(Exception):
    """An answer that may be another one later. retry_after: the header, if it was there."""

    def __init__(self, error: errors.Error, retry_after: str | None):
        super().__init__(str(error))
        self.error, self.retry_after = error, retry_after


class Caller:
    """Connections to one server."""

    def __init__(self, url: str, token: str | None, connect_timeout_s: float, verify: Any,
                 clock: Clock):
        self.url, self.clock = url.rstrip("/"), clock
        self._connect_timeout_s = connect_timeout_s
        # Who waits for a version holds a connection; the gateway bounds how many there may be.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
        self._http = httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"} if token else {},
            transport=httpx.AsyncHTTPTransport(verify=verify, limits=limits,
                                               socket_options=KEEP_ALIVE))

    async def close(self) -> None:
        await self._http.aclose()

    async def exchange(self, method: str, path: str, patience: Patience, **call) -> httpx.Response:
        """The whole answer, of status 2xx, of as many attempts as it takes. **call: as opened()."""
        while True:
            try:
                async with self.opened(method, path, patience, **call) as response:
                    await response.aread()
                    return response
            except (Refused, httpx.TransportError) as caught:
                await self.pause(caught, method, path, patience)

    @contextlib.asynccontextmanager
    async def opened(self, method: str, path: str, patience: Patience, *,
                     request: Request | None = None, params: dict[str, Any] | None = None,
                     read_timeout_s: float | None = None) -> AsyncIterator[httpx.Response]:
        """One attempt: the head of an answer of status 2xx.

        Raises Refused or httpx.TransportError for what may be tried again, else an Error.
        """
        headers = {}
        if request is not None:
            deadline_left_s = request.deadline_left(patience)
            headers = request.constraints.headers(patience.left(), deadline_left_s)
            if deadline_left_s is not None:
                read_timeout_s = deadline_left_s + GRACE_S
        timeout = httpx.Timeout(None, connect=self._connect_timeout_s, read=read_timeout_s)
        try:
            stream = self._http.stream(
                method, path, params=params, headers=headers, timeout=timeout,
                json=request.body if request else None)
            async with stream as response:
                if not response.is_success:
                    await response.aread()
                    raise self._failure(method, path, response)
                yield response
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL) as error:
            raise errors.InvalidError(f"{method} {path} to {self.url}: {error}") from error

    async def pause(self, caught: Refused | httpx.TransportError, method: str, path: str,
                    patience: Patience) -> None:
        """Sleeps before the next attempt, or raises the Error that the call ends with."""
        if isinstance(caught, Refused):
            error, retry_after = caught.error, caught.retry_after
        else:
            error, retry_after = self.lost(method, path, caught), None
        if not await patience.pause(retry_after):
            raise type(error)(f"{error} (attempts: {patience.attempts + 1}, in "
                              f"{patience.elapsed():.1f} s)") from caught

    def lost(self, method: str, path: str, broken: Exception) -> errors.UnavailableError:
        return errors.UnavailableError(
            f"{method} {path} to {self.url}: {type(broken).__name__}: {broken}")

    def _failure(self, method, path, response):
        status = response.status_code
        text = f"{method} {path} to {self.url}: {status}: {message(_loose_json(response))}"
        error = _kind(status)(text)
        if status in TRY_AGAIN:
            return Refused(error, response.headers.get("retry-after"))
        return error


def _kind(status):
    """The class of the error for a status that is no success."""
    if status in (409, 504):
        return errors.NotReadyError
    if status in (404, 410):
        return errors.NotFoundError
    if 400 <= status < 500 and status not in (408, 429):
        return errors.InvalidError
    return errors.UnavailableError


def message(body: Any) -> Any:
    """What a refusal says: the sidecar's, the gateway's or an engine's."""
    if not isinstance(body, dict):
        return body
    error = body.get("error")
    if isinstance(error, dict):
        return error.get("message") or error
    return error or body.get("message") or body


def _loose_json(response):
    try:
        return response.json()
    except ValueError:
        return response.text[:500]


def json_of(response: httpx.Response) -> Any:
    """CorruptError if it is none."""
    try:
        return response.json()
    except ValueError as error:
        raise errors.CorruptError(f"{response.url}: an answer that is no JSON: "
                                  f"{response.text[:200]!r}") from error
