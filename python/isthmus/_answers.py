"""What engines answer, behind a sidecar, in one form. Pure.

Read are the shapes of OpenAI's and vLLM's routes and of SGLang's /generate, in one piece, in
events, and as gateways record them (docs/rollouts.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from isthmus import errors

Span = tuple[int, int, int]  # version, first token, end


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of the answers to a prompt.

    tokens, logprobs: of the output, one each; None where the engine did not say them.
    spans: which output tokens are of which version, [(version, start, end)], half-open; empty if
    only start_version and end_version of the rollout are known. exact: whether the engine said
    them, or a single version made all; else a boundary may be some tokens early (request-lane.md).
    """

    index: int
    text: str
    tokens: list[int] | None
    logprobs: list[float] | None
    finish_reason: str | None
    spans: list[Span]
    exact: bool

    def versions(self) -> list[int]:
        """The version of each output token; empty if spans is."""
        return [version for version, start, end in self.spans for _ in range(start, end)]


@dataclasses.dataclass(frozen=True)
class Rollout:
    """An answer. `text`, `tokens`, … are those of the first choice.

    start_version: at which it was admitted; end_version: the last that made a token of it; both
    None if no sidecar was in front. lag_start, lag_end: versions behind the newest that the gateway
    knew; None in streams and behind no gateway. raw: what came, parsed: the answer, or the events.
    """

    choices: list[Choice]
    start_version: int | None
    end_version: int | None
    run: str | None
    island: str | None
    request_id: str | None
    lag_start: int | None
    lag_end: int | None
    raw: Any = dataclasses.field(repr=False)

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def tokens(self) -> list[int] | None:
        return self.choices[0].tokens

    @property
    def logprobs(self) -> list[float] | None:
        return self.choices[0].logprobs

    @property
    def finish_reason(self) -> str | None:
        return self.choices[0].finish_reason

    @property
    def spans(self) -> list[Span]:
        return self.choices[0].spans


@dataclasses.dataclass(frozen=True)
class Piece:
    """What an event of a stream adds to a choice. version: the last that made a token up to now."""

    index: int
    text: str
    tokens: list[int] | None
    logprobs: list[float] | None
    finish_reason: str | None
    version: int | None


@dataclasses.dataclass
class _Growing:
    """A choice as far as it came."""

    text: str = ""
    tokens: list[int] | None = None
    logprobs: list[float] | None = None
    finish_reason: str | None = None
    own_spans: list[Span] | None = None  # as the engine says them
    stamped: list[Span] | None = None  # as the sidecar does
    count: int | None = None  # output tokens, where they are only counted

    def add(self, piece: _Growing) -> None:
        self.text += piece.text
        for name in ("tokens", "logprobs"):
            if (more := getattr(piece, name)) is not None:
                setattr(self, name, (getattr(self, name) or []) + more)
        for name in ("finish_reason", "own_spans", "stamped", "count"):
            if (value := getattr(piece, name)) is not None:
                setattr(self, name, value)

    def length(self) -> int | None:
        for tokens in (self.tokens, self.logprobs):
            if tokens is not None:
                return len(tokens)
        return self.count


class Assembly:
    """Puts one answer together from its pieces; an answer in one piece is one of them."""

    def __init__(self):
        self._choices: dict[int, _Growing] = {}
        self._start = self._end = None
        self._own_spans = None  # of an answer with one choice, outside of it (SGLang)

    def add(self, event: Any) -> list[Piece]:
        """Raises CorruptError if it is of none of the known shapes."""
        try:
            return self._add(event)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise errors.CorruptError(f"an answer of no known shape ({error!r}): {event!r:.200}"
                                      ) from error

    def _add(self, event):
        if isinstance(event, list):
            return [piece for place, one in enumerate(event) for piece in self._record(one, place)]
        if "meta_info" in event:
            return self._record(event, event.get("index", 0))
        self._stamp(event)
        if (own := (event.get("metadata") or {}).get("weight_versions")) is not None:
            self._own_spans = _spans(own)
        stamped = _stamped(event)
        usage = event.get("usage") or {}
        pieces = []
        for choice in event["choices"]:
            piece = _openai_choice(choice)
            piece.stamped = stamped.get(choice.get("index", 0))
            if len(event["choices"]) == 1:
                piece.count = usage.get("completion_tokens")
            pieces.append(self._grow(choice.get("index", 0), piece))
        return pieces

    def _record(self, record, index):
        """Of SGLang's /generate, whose events have all up to them, or only what is new."""
        meta = record["meta_info"]
        self._stamp(meta)
        known = self._choices.get(index, _Growing())
        count = meta.get("completion_tokens")
        tokens, logprobs = record.get("output_ids"), meta.get("output_token_logprobs")
        if logprobs is not None:
            logprobs = [entry[0] for entry in logprobs]
        whole = len(tokens) == count if tokens is not None else (
            record.get("text") or "").startswith(known.text)
        finish = meta.get("finish_reason")
        piece = _Growing(
            _new(record.get("text") or "", known.text, whole),
            _new(tokens, known.tokens, whole), _new(logprobs, known.logprobs, whole),
            finish["type"] if isinstance(finish, Mapping) else finish,
            _spans(meta.get("weight_versions")), _stamped(meta).get(index), count)
        return [self._grow(index, piece)]

    def _grow(self, index, piece):
        self._choices.setdefault(index, _Growing()).add(piece)
        return Piece(index, piece.text, piece.tokens, piece.logprobs, piece.finish_reason,
                     self._end)

    def _stamp(self, holder):
        if (start := holder.get("weight_version_start")) is not None:
            self._start = start if self._start is None else self._start
            self._end = holder["weight_version_end"]

    def is_finished(self) -> bool:
        return bool(self._choices) and all(one.finish_reason for one in self._choices.values())

    def rollout(self, headers: Mapping[str, str], raw: Any) -> Rollout:
        """Of what was added. headers: of the answer; names in any case."""
        if not self._choices:
            raise errors.CorruptError(f"an answer without a choice: {raw!r:.200}")
        start, end = self._start, self._end
        if start is None:
            start = _integer(headers, "isthmus-version-start")
            end = _integer(headers, "isthmus-version-end")
        choices = [self._choice(index, self._choices[index], start, end)
                   for index in sorted(self._choices)]
        return Rollout(choices, start, start if end is None else end, headers.get("isthmus-run"),
                       headers.get("isthmus-island"), headers.get("isthmus-request-id"),
                       _integer(headers, "isthmus-lag-start"), _integer(headers, "isthmus-lag-end"),
                       raw)

    def _choice(self, index, grown, start, end):
        own = grown.own_spans
        if own is None and len(self._choices) == 1:
            own = self._own_spans
        spans, exact = [], False
        if own is not None:
            spans, exact = own, True
        elif start is not None and start == end and grown.length():
            spans, exact = [(start, 0, grown.length())], True
        elif grown.stamped is not None:
            spans = grown.stamped
        return Choice(index, grown.text, grown.tokens, grown.logprobs, grown.finish_reason, spans,
                      exact)


def _openai_choice(choice):
    message = choice.get("delta") or choice.get("message") or {}
    logprobs = choice.get("logprobs") or {}
    values = logprobs.get("token_logprobs")
    tokens = choice.get("token_ids")
    if (content := logprobs.get("content")) is not None:
        values = [entry["logprob"] for entry in content]
        if tokens is None and content and "token_id" in content[0]:
            tokens = [entry["token_id"] for entry in content]
    return _Growing(choice.get("text") or message.get("content") or "", tokens, values,
                    choice.get("finish_reason"), _spans(choice.get("weight_versions")))


def _new(values, known, whole):
    if values is None or known is None or not whole:
        return values
    return values[len(known):]


def _spans(versions: Iterable[Mapping] | None) -> list[Span] | None:
    """Of an engine; None if it has a label that is none of ours."""
    if versions is None:
        return None
    spans = [(str(span["version"]), span["start"], span["end"]) for span in versions]
    if not all(label.isdigit() for label, _, _ in spans):
        return None
    return [(int(label), start, end) for label, start, end in spans]


def _stamped(holder) -> dict[int, list[Span]]:
    stamp = holder.get("weight_version_spans") or {}
    return {choice["index"]: [(span["version"], span["start"], span["end"])
                              for span in choice["spans"]] for choice in stamp.get("choices", ())}


def _integer(headers, name):
    value = headers.get(name)
    return int(value) if value is not None and value.isdigit() else None
