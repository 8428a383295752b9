"""Rollouts from a fleet: a client for the gateway, or for one island's sidecar.

What can be asked of versions, and what an answer says of them: docs/request-lane.md; the gateway's
own routes: docs/gateway.md. Needs httpx (`pip install isthmus[rollouts]`).
"""

from __future__ import annotations

import dataclasses
import json
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx

from isthmus import errors
from isthmus._answers import Assembly, Choice, Piece, Rollout
from isthmus._calls import GRACE_S, Caller, Refused, Request, json_of, message
from isthmus._constraints import Constraints
from isthmus._retry import Clock, Patience

__all__ = ["Choice", "Piece", "Ready", "Rollout", "RolloutClient", "RolloutStream"]

ROUTES = {"complete": "/v1/completions", "chat": "/v1/chat/completions"}
NATIVE = {"vllm": "/inference/v1/generate", "sglang": "/generate"}
POLL_S = 60.0  # of one call of ready()


@dataclasses.dataclass(frozen=True)
class Ready:
    """How many of a run's islands serve `version` or newer. fraction: serving / islands."""

    run: str
    version: int
    islands: int
    serving: int
    fraction: float


class RolloutClient:
    """Calls to one gateway. One event loop at a time; any number of calls at once.

    run, model: for calls that name none. token: of a client, shown as a bearer token. patience_s:
    for how long a call that is refused (409, 429, 503) or whose connection broke is tried again,
    as long as nothing of its answer was given to the caller; the same time is given to the fleet
    to come to a version (Isthmus-Wait-Ms). engine: whose native route generate() takes.
    """

    def __init__(self, url: str, *, run: str | None = None, model: str | None = None,
                 token: str | None = None, patience_s: float = 300.0, engine: str = "vllm",
                 connect_timeout_s: float = 10.0, verify: Any = True,
                 _clock: Clock | None = None):
        if engine not in NATIVE:
            raise errors.InvalidError(f"engine is {engine!r}, not one of {', '.join(NATIVE)}")
        self.run, self.model = run, model
        self.patience_s, self.engine = patience_s, engine
        self._clock = _clock or Clock()
        self._caller = Caller(url, token, connect_timeout_s, verify, self._clock)

    async def __aenter__(self) -> RolloutClient:
        return self

    async def __aexit__(self, *_) -> None:
        await self.close()

    async def close(self) -> None:
        await self._caller.close()

    async def complete(self, prompt: str | Sequence[int], **options) -> Rollout:
        """POST /v1/completions: one answer to a text or to token ids.

        options: min_version, exact_version (a number or a Version), max_lag (in versions; or a
        timedelta; or as the header has it), session, pin, priority ("training", "evaluation"),
        request_id, run, wait_s, deadline_s, patience_s; extra_body, a mapping; all others are
        fields of the body, for example max_tokens. Token ids and log-probabilities are asked for.

        Raises, when patience is over, NotReadyError (409) or UnavailableError (429, 503, no
        connection); at once InvalidError (400 and the like), NotFoundError (404, 410: the version
        is revoked), NotReadyError (504: deadline_s is over), CorruptError (an answer that is not
        what was asked for), UnavailableError (what else a server may say).
        """
        return await self._rollout(self._request("complete", prompt, options))

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options) -> Rollout:
        """POST /v1/chat/completions; else as complete()."""
        return await self._rollout(self._request("chat", messages, options))

    async def generate(self, prompt: str | Sequence[int], **options) -> Rollout:
        """The engine's own route, on which it says itself which token is of which version.

        vLLM's /inference/v1/generate (token ids only), or SGLang's /generate. Fields of the body
        are the engine's, for example sampling_params; else as complete().
        """
        return await self._rollout(self._request("generate", prompt, options))

    def stream(self, prompt: Any, *, kind: str = "complete", **options) -> RolloutStream:
        """The answer piece by piece: `async for piece in client.stream(…)`.

        kind: "complete", "chat" or "generate", with what that one takes. Called off by leaving the
        loop and closing the stream (`async with`), which ends the generation on the engine.
        """
        return RolloutStream(self, self._request(kind, prompt, {**options, "stream": True}))

    async def ready(self, version: int, *, fraction: float = 1.0, run: str | None = None,
                    timeout_s: float = 600.0) -> Ready:
        """Returns when so much of the run's islands serves the version or a newer one.

        NotReadyError, or UnavailableError if no gateway answered, after timeout_s.
        """
        name = self._run(run)
        patience = Patience(timeout_s, self._clock)
        while True:
            begun_s, poll_s = patience.elapsed(), min(POLL_S, patience.left())
            response = await self._caller.exchange(
                "GET", f"/v1/runs/{_quoted(name)}/ready", patience,
                params={"version": int(version), "fraction": fraction,
                        "timeout_ms": round(poll_s * 1000)}, read_timeout_s=poll_s + GRACE_S)
            found = json_of(response)
            if response.status_code == 200:
                return Ready(found["run"], found["version"], found["islands"], found["serving"],
                             found["fraction"])
            if patience.left() <= 0:
                raise errors.NotReadyError(
                    f"{found['serving']} of {found['islands']} islands of run {name} serve version "
                    f"{int(version)} after {timeout_s:g} s, wanted: {fraction:g} of them")
            if patience.elapsed() - begun_s < poll_s / 2:  # a proxy that cut it short
                await patience.pause()

    async def fleet(self, *, brief: bool = False) -> dict[str, Any]:
        """GET /v1/fleet (gateway.md); asks for an operator's token."""
        return json_of(await self._caller.exchange("GET", "/v1/fleet", self._patience(None),
                                          params={"brief": 1} if brief else {}))

    async def rollout(self, request_id: str) -> Rollout:
        """A recorded one (docs/rollouts.md), for example after a lost connection.

        raw is the record. NotFoundError if this gateway does not know it, CorruptError if it was
        too large to be recorded whole.
        """
        record = json_of(await self._caller.exchange("GET", f"/v1/rollouts/{_quoted(request_id)}",
                                            self._patience(None)))
        if record.get("cut") or "answer" not in record:
            raise errors.CorruptError(f"rollout {request_id}: the answer was not recorded whole")
        assembly = Assembly()
        assembly.add(record["answer"])
        names = {"id": "isthmus-request-id", "run": "isthmus-run", "island": "isthmus-island",
                 "version_start": "isthmus-version-start", "version_end": "isthmus-version-end",
                 "lag_start": "isthmus-lag-start", "lag_end": "isthmus-lag-end"}
        return assembly.rollout({names[key]: str(value) for key, value in record.items()
                                 if key in names}, record)

    # Requests

    def _run(self, run):
        if (name := run or self.run) is None:
            raise errors.InvalidError("which run? Give `run` here or to the client")
        return name

    def _request(self, kind, prompt, options) -> Request:
        options = dict(options)
        fields = {field.name: options.pop(field.name) for field in dataclasses.fields(Constraints)
                  if field.name in options}
        fields["run"] = fields.get("run") or self.run
        fields["request_id"] = fields.get("request_id") or uuid.uuid4().hex
        patience_s = options.pop("patience_s", None)
        extra = options.pop("extra_body", None) or {}
        path, body = self._body(kind, prompt, options)
        return Request(path, {**body, **options, **extra}, Constraints(**fields),
                        self.patience_s if patience_s is None else patience_s)

    def _body(self, kind, prompt, options):
        """(path, what its body has unless `options` say otherwise)"""
        body = {} if self.model is None else {"model": self.model}
        if kind == "complete":
            return ROUTES[kind], {**body, "prompt": _plain(prompt), "logprobs": 1,
                                  "return_token_ids": True}
        if kind == "chat":
            return ROUTES[kind], {**body, "messages": list(prompt), "logprobs": True,
                                  "return_token_ids": True}
        if kind != "generate":
            raise errors.InvalidError(f"kind is {kind!r}, not complete, chat or generate")
        if self.engine == "sglang":
            name = "text" if isinstance(prompt, str) else "input_ids"
            return NATIVE["sglang"], {name: _plain(prompt), "return_logprob": True}
        if isinstance(prompt, str):
            raise errors.InvalidError("vLLM's generate takes token ids, not a text")
        sampling = {"logprobs": 1, **options.pop("sampling_params", {})}
        return NATIVE["vllm"], {**body, "token_ids": _plain(prompt), "sampling_params": sampling}

    def _patience(self, seconds):
        return Patience(self.patience_s if seconds is None else seconds, self._clock)

    async def _rollout(self, request: Request) -> Rollout:
        patience = self._patience(request.patience_s)
        response = await self._caller.exchange("POST", request.path, patience, request=request)
        answer, assembly = json_of(response), Assembly()
        assembly.add(answer)
        rollout = assembly.rollout(response.headers, answer)
        request.check(rollout.start_version, rollout.run)
        return rollout


class RolloutStream:
    """The pieces of an answer, once. `rollout()` is the whole, when they have ended.

    Errors as of RolloutClient.complete(), and UnavailableError for an answer that was cut off after
    its first piece: it is not tried again.
    """

    def __init__(self, client: RolloutClient, request: Request):
        self._client, self._request = client, request
        self._assembly, self._events, self._headers = Assembly(), [], {}
        self._pieces = self._read()
        self._is_whole = False

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self._pieces

    async def __aenter__(self) -> RolloutStream:
        return self

    async def __aexit__(self, *_) -> None:
        await self.close()

    async def close(self) -> None:
        """Leaves; a generation that is under way is ended."""
        await self._pieces.aclose()

    def rollout(self) -> Rollout:
        """InvalidError before the stream has ended as it should."""
        if not self._is_whole:
            raise errors.InvalidError("the stream has not come to its end")
        return self._assembly.rollout(self._headers, self._events)

    async def _read(self):
        patience, caller = self._client._patience(self._request.patience_s), self._client._caller
        call = ("POST", self._request.path, patience)
        while True:
            try:
                async with caller.opened(*call, request=self._request) as response:
                    async for piece in self._read_events(response):
                        yield piece
                self._is_whole = True
                return
            except (Refused, httpx.TransportError) as caught:
                if self._events:
                    raise errors.UnavailableError(f"cut off after {len(self._events)} events: "
                                                  f"{caught}") from caught
                await caller.pause(caught, *call)

    async def _read_events(self, response):
        self._headers = dict(response.headers)
        run, version = self._headers.get("isthmus-run"), self._headers.get("isthmus-version-start")
        self._request.check(int(version) if version else None, run)
        is_done = False
        async for line in response.aiter_lines():
            if not line.startswith("data:"):
                continue
            data = line[5:].strip()
            if is_done := data == "[DONE]":
                break
            event = _event(data)
            if isinstance(event, dict) and event.get("error"):
                raise Refused(errors.UnavailableError(f"the engine: {message(event)}"), None)
            self._events.append(event)
            for piece in self._assembly.add(event):
                yield piece
        if not is_done and not self._assembly.is_finished():
            raise httpx.RemoteProtocolError("the stream ended before the answer did")


def _event(data):
    try:
        return json.loads(data)
    except ValueError as error:
        raise errors.CorruptError(f"an event that is no JSON: {data[:200]!r}") from error


def _plain(prompt):
    """Token ids may come as a tensor or an array."""
    if isinstance(prompt, str):
        return prompt
    return prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)


def _quoted(name):
    return urllib.parse.quote(str(name), safe="")
