"""A strict double of a gateway, for the client's rules of trying again: it says what it is told to.

It reads whole HTTP/1.1 requests on a real socket and refuses, as the gateway does, what the lane
does not have. Steps of its script: reply(…), or a function (connection, request) that writes bytes.
"""

import asyncio
import dataclasses
import json

LANE = {"isthmus-run", "isthmus-min-version", "isthmus-exact-version", "isthmus-max-lag",
        "isthmus-session", "isthmus-session-pin", "isthmus-wait-ms", "isthmus-version-spans",
        "isthmus-deadline-ms", "isthmus-priority", "isthmus-request-id"}
PRIORITIES = ("training", "evaluation")


@dataclasses.dataclass
class Request:
    method: str
    target: str
    headers: dict
    body: object

    def wrong(self):
        """What the gateway would refuse with 400, or None."""
        for name, value in self.headers.items():
            if name.startswith("isthmus-") and name not in LANE:
                return f"no header {name}"
            if name.endswith(("-ms", "-version")) and name in LANE and not value.isdigit():
                return f"{name}: {value}"
        if self.headers.get("isthmus-priority", "training") not in PRIORITIES:
            return "isthmus-priority"
        if not 0 <= int(self.headers.get("isthmus-wait-ms", 0)) <= 3_600_000:
            return "isthmus-wait-ms"
        if not 1 <= int(self.headers.get("isthmus-deadline-ms", 1)) <= 86_400_000:
            return "isthmus-deadline-ms"
        if self.method == "POST" and not isinstance(self.body, dict):
            return "the body is no JSON object"
        return None


class FakeClock:
    """Time passes only while somebody sleeps, or as a test says."""

    def __init__(self, wall=1_700_000_000.0):
        self.time, self._wall, self.pauses = 0.0, wall, []

    def now(self):
        return self.time

    def wall(self):
        return self._wall + self.time

    async def sleep(self, seconds):
        assert seconds >= 0, seconds
        self.pauses.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class ScriptedServer:
    """`async with ScriptedServer(steps) as server`; fails at its end if steps were left over.

    forever: one step, for each request.
    """

    def __init__(self, *steps, forever=None):
        self.steps, self.forever, self.requests, self.broken = list(steps), forever, [], []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, kind, *_):
        self._server.close()
        await self._server.wait_closed()
        if kind is None:
            assert not self.broken, self.broken
            assert not self.steps, f"{len(self.steps)} steps were not asked for"

    async def _serve(self, reader, writer):
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                step = self.forever or (self.steps.pop(0) if self.steps else None)
                if (wrong := request.wrong()) or step is None:
                    self.broken.append(wrong or f"one request too many: {request}")
                    step = answer(400, {"error": {"message": self.broken[-1]}})
                if not await _say(step, writer, request):
                    break
        finally:
            writer.close()


async def _say(step, writer, request):
    """False: the connection ends."""
    if isinstance(step, bytes):
        writer.write(step)
        await writer.drain()
        return True
    return await step(writer, request)


async def _read(reader):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in
               (line.partition(":") for line in lines)}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    try:
        body = json.loads(data) if data else None
    except ValueError:
        body = data
    return Request(method, target, headers, body)


def head(status, headers, length):
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(status, body, **headers):
    """retry_after="1" becomes Retry-After: 1."""
    data = json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return head(status, {"Content-Type": "application/json", **named}, len(data)) + data


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(data):
    text = data if isinstance(data, str) else json.dumps(data)
    return chunk(f"data: {text}\n\n".encode())


def stream(events, headers=None, end=b"0\r\n\r\n"):
    """A streamed answer; end=b"": the connection is held open behind the last event."""
    return (head(200, {"Content-Type": "text/event-stream", **(headers or {})}, None)
            + b"".join(event(one) for one in events) + end)


def cut(data=b""):
    """These bytes, then the connection's end."""
    async def step(writer, _):
        writer.write(data)
        await writer.drain()
        return False
    return step


def passing(clock, seconds, data):
    """Time passes before these bytes."""
    async def step(writer, _):
        clock.time += seconds
        writer.write(data)
        await writer.drain()
        return True
    return step
