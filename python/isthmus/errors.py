"""The one error type of the package, and its table: docs/python.md."""

from __future__ import annotations


class Error(Exception):
    """A failure. code: what the caller can do about it, as logs show it."""

    code = "internal"


class InvalidError(Error, ValueError):
    code = "invalid"


class NotFoundError(Error, LookupError):
    code = "not-found"


class ConflictError(Error):
    code = "conflict"


class NotReadyError(Error):
    code = "not-ready"


class UnavailableError(Error, OSError):
    code = "unavailable"


class CorruptError(Error):
    code = "corrupt"


class PoisonedError(Error):
    code = "poisoned"


class InternalError(Error, RuntimeError):
    code = "internal"


BY_CODE = {kind.code: kind for kind in (
    InvalidError, NotFoundError, ConflictError, NotReadyError, UnavailableError, CorruptError,
    PoisonedError, InternalError)}
