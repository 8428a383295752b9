"""Boards: logs of versions in a store (docs/board.md)."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Mapping, Sequence

from isthmus import _core
from isthmus.errors import NotFoundError


@dataclasses.dataclass(frozen=True)
class Version:
    """A version as its log entry says it. `int(version)` is its number."""

    run: str
    number: int
    parent: int | None
    step: int | None  # the trainer's optimizer step
    digest: str  # SHA-256 of the version table, 64 hexadecimal digits
    kind: str  # "anchor": it has a whole checkpoint; else "patch"
    view: str  # the dtype that most of the bytes have, for example "bf16"
    changed: int  # units (docs/patch-format.md) that differ from the parent, of
    elements: int
    payload_bytes: int
    checkpoint_bytes: int  # of all its files
    created_at: datetime.datetime  # aware, UTC
    meta: Mapping[str, str]

    def __int__(self) -> int:
        return self.number

    @classmethod
    def _of(cls, manifest: _core.Manifest) -> Version:
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return cls(
            run=manifest.run,
            number=manifest.version,
            parent=manifest.parent,
            step=manifest.step,
            digest=manifest.digest,
            kind=manifest.kind,
            view=manifest.view,
            changed=manifest.changed,
            elements=manifest.elements,
            payload_bytes=manifest.payload_bytes,
            checkpoint_bytes=manifest.checkpoint_bytes,
            created_at=epoch + datetime.timedelta(milliseconds=manifest.created_ms),
            meta=dict(manifest.meta),
        )


class Board:
    """An open board: a directory, `s3://BUCKET[/PREFIX]`, or to read `http(s)://HOST/PATH`. Thread-safe.

    Args:
        url: where it is.
        create: makes the board if there is none.
        s3_endpoint, s3_region, s3_virtual_host: the S3 server, if it is not the environment's.
        ca_file: PEM file of the authority of an https board or S3 server.
        token_file: file with the bearer token that an http board asks for.
        deadline_s: seconds, the most that a request to the store is tried again.
        trust: files of public keys; versions that none of them signed are refused (`CorruptError`).
        sign_key: file of a private key; what is published through this board is signed.

    Raises:
        NotFoundError: there is no board. UnavailableError: its store does not answer.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        create: bool = False,
        s3_endpoint: str = "",
        s3_region: str = "",
        s3_virtual_host: bool | None = None,
        ca_file: str | os.PathLike[str] = "",
        token_file: str | os.PathLike[str] = "",
        deadline_s: float = 120.0,
        trust: Sequence[str | os.PathLike[str]] = (),
        sign_key: str | os.PathLike[str] = "",
    ) -> None:
        self._native = _core.Board(
            os.fspath(url),
            create=create,
            s3_endpoint=s3_endpoint,
            s3_region=s3_region,
            s3_virtual_host=s3_virtual_host,
            ca_file=os.fspath(ca_file),
            token_file=os.fspath(token_file),
            deadline_s=deadline_s,
            trust=[os.fspath(file) for file in trust],
            sign_key=os.fspath(sign_key),
        )

    @property
    def url(self) -> str:
        return self._native.url

    @property
    def uuid(self) -> str:
        """Tells boards apart, whatever their address."""
        return self._native.uuid

    def runs(self) -> list[str]:
        """The names of the runs, sorted."""
        return self._native.runs()

    def log(self, run: str, *, after: int = 0) -> list[Version]:
        """The versions of a run above `after`, oldest first. Reads one object a version. Empty for a run
        that does not exist."""
        return [Version._of(manifest) for manifest in self._native.log(run, after)]

    def head(self, run: str) -> Version | None:
        """The newest version; None if the run has none. Versions that were withdrawn count."""
        manifest = self._native.head(run)
        return None if manifest is None else Version._of(manifest)

    def version(self, run: str, number: int) -> Version:
        """One version; NotFoundError if it does not exist."""
        manifest = self._native.read(run, number)
        if manifest is None:
            raise NotFoundError(f"read version {number} of run {run} on {self.url}: no such version")
        return Version._of(manifest)

    def __repr__(self) -> str:
        return f"isthmus.Board({self.url!r})"


def _opened(board: Board | str | os.PathLike[str]) -> Board:
    return board if isinstance(board, Board) else Board(board)
