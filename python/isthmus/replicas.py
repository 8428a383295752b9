"""Replicas: local checkpoints that follow a run, exact to the bit."""

from __future__ import annotations

import logging
import os
from types import TracebackType

from isthmus import _core
from isthmus.boards import Board, Version, _opened

_log = logging.getLogger("isthmus")


class Replica:
    """A directory with an ordinary Hugging Face checkpoint at one verified version, or at none. Holds the
    directory's lock until `close`. Not thread-safe.

    Args:
        directory: made if it is missing.
        threads: to work on; 0: one per core.

    Raises:
        InvalidError: the directory holds files but no replica. ConflictError: another process has it open.
    """

    def __init__(self, directory: str | os.PathLike[str], *, threads: int = 0) -> None:
        self._native = _core.Replica(os.fspath(directory), threads)

    @property
    def directory(self) -> str:
        return self._native.directory

    @property
    def version(self) -> int | None:
        """The number of the version that the files are; None: of none."""
        return self._native.version

    @property
    def run(self) -> str | None:
        return self._native.run

    @property
    def digest(self) -> str | None:
        """The version's digest, 64 hexadecimal digits."""
        return self._native.digest

    def pull(
        self, board: Board | str | os.PathLike[str], run: str, version: int | None = None
    ) -> Version:
        """Brings the files to a version of the run, forward or back, along the cheapest chain; None: the
        newest that is not withdrawn. On any error they are still what they were, and so after Ctrl-C.

        Raises:
            NotFoundError: no such version, or no chain to it. InvalidError: the replica follows another run
            or board. CorruptError: no payload is what the log says.
        """
        pulled = self._native.pull(_opened(board)._native, run, version)
        for note in pulled.notes:
            _log.warning("pull run %s into %s: %s", run, self.directory, note)
        return Version._of(pulled.manifest)

    def verify(self) -> None:
        """Reads every byte. CorruptError names the first difference; NotReadyError at no version."""
        self._native.verify()

    def close(self) -> None:
        """Gives the directory's lock back. The object is of no use afterwards."""
        self._native.close()

    def __enter__(self) -> Replica:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
