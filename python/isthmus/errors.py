"""What the package raises: one class for each code that logs and HTTP answers show.

Every failure of the package is an `Error`; what Python itself raises (TypeError for an argument of another
type, MemoryError, KeyboardInterrupt) stays what it is.
"""

from __future__ import annotations


class Error(Exception):
    """A failure. `code` says what the caller can do about it; the message names action, object, what was
    found and what was allowed."""

    code: str = "internal"


class InvalidError(Error, ValueError):
    """The request or its arguments are wrong; repeating it cannot help."""

    code = "invalid"


class NotFoundError(Error, LookupError):
    """The named thing does not exist."""

    code = "not_found"


class ConflictError(Error):
    """Somebody else did it first; read again and decide again."""

    code = "conflict"


class NotReadyError(Error):
    """Not yet; wait and try again."""

    code = "not_ready"


class UnavailableError(Error, OSError):
    """A disk, a store or a network failed; try again later."""

    code = "unavailable"


class CorruptError(Error):
    """Bytes are not what they claim to be. `problems` lists what is wrong, if there is a list."""

    code = "corrupt"

    def __init__(self, message: str = "", problems: list[str] | None = None) -> None:
        super().__init__(message)
        self.problems: list[str] = problems or []


class PoisonedError(Error):
    """An engine holds unknown weights until a full reload."""

    code = "poisoned"


class InternalError(Error, RuntimeError):
    """A bug in this program."""

    code = "internal"


BY_CODE: dict[str, type[Error]] = {
    error.code: error
    for error in (
        InvalidError,
        NotFoundError,
        ConflictError,
        NotReadyError,
        UnavailableError,
        CorruptError,
        PoisonedError,
        InternalError,
    )
}
