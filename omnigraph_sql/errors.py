"""The exceptions a caller of omnigraph-sql can meet: one family, told apart by class and typed fields.

No caller needs to parse a message. Each class says how a door answers (`exit_code`, `http_status`) and whether trying
again can help (`retryable`); each instance carries a message that names the thing, and a hint where there is a next
step.

>>> error = NotFound("no branch is called `draft`", what="branch", name="draft", hint="list them with `branches`")
>>> error.kind, error.name, error.http_status
('NotFound', 'draft', 404)
>>> print(error)
no branch is called `draft`
hint: list them with `branches`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

__all__ = [
    "AlreadyInitialized",
    "BadRequest",
    "Compile",
    "Configuration",
    "Conflict",
    "DataTestFailed",
    "EmbeddingFailed",
    "ExpectedVersionMismatch",
    "InitializationClaimed",
    "Internal",
    "KeyConflict",
    "NotFound",
    "OmnigraphError",
    "PreconditionFailed",
    "RecoveryRequired",
    "ResourceLimit",
    "RowLevelCasContention",
    "SourceFailed",
    "Span",
    "Storage",
    "UnsupportedFormat",
    "ValidationFailed",
    "VersionReclaimed",
]


class Span(Protocol):
    """A half-open range of byte offsets into a source text."""

    @property
    def start(self) -> int:
        """Offset of the first byte."""

    @property
    def end(self) -> int:
        """Offset just after the last byte."""


class OmnigraphError(Exception):
    """Base of the family. `str()` gives the message and, on a line of its own, the hint."""

    kind: ClassVar[str] = "OmnigraphError"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    retryable: bool = False
    """Said by the class; where the same kind can have passing and lasting causes, by the instance."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., OmnigraphError], tuple[Any, ...], dict[str, Any]]:
        # The default calls the class with the message alone, which a class with required fields refuses. Errors cross
        # process boundaries, so they must survive pickling.
        return _restore, (type(self), self.message), self.__dict__


class Compile(OmnigraphError):
    """A schema, query or migration was rejected before anything ran."""

    kind = "Compile"
    http_status = 400

    def __init__(
        self,
        message: str,
        *,
        error_class: str,
        span: Span | None = None,
        diagnostics: tuple[object, ...] = (),
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.error_class = error_class
        self.span = span
        self.diagnostics = diagnostics

    @property
    def class_(self) -> str:
        """The class of the cause (`parse`, `catalog`, `type`, …): another name of `error_class`."""
        return self.error_class


class BadRequest(OmnigraphError):
    """The request cannot be carried out as it stands: unusable parameters, arguments or input."""

    kind = "BadRequest"
    http_status = 400

    def __init__(
        self,
        message: str,
        *,
        diagnostics: tuple[object, ...] = (),
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.diagnostics = diagnostics


class NotFound(OmnigraphError):
    """Something the request names does not exist."""

    kind = "NotFound"
    http_status = 404

    def __init__(self, message: str, *, what: str, name: str, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.what = what
        self.name = name


class ValidationFailed(OmnigraphError):
    """Data breaks a rule of the schema; nothing was written."""

    kind = "ValidationFailed"
    http_status = 400

    def __init__(
        self,
        message: str,
        *,
        table_key: str,
        rule: str,
        id: str | None = None,
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.table_key = table_key
        self.rule = rule
        self.id = id


class Conflict(OmnigraphError):
    """Something else is in the way: a lock, drift, a branch in use, or a publish that lost too often."""

    kind = "Conflict"
    exit_code = 5
    http_status = 409

    def __init__(self, message: str, *, reason: str, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.reason = reason


class ExpectedVersionMismatch(OmnigraphError):
    """A table moved since the write was prepared. Read again and repeat the write."""

    kind = "ExpectedVersionMismatch"
    exit_code = 5
    http_status = 409
    retryable = True

    def __init__(self, message: str, *, table_key: str, expected: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.table_key = table_key
        self.expected = expected
        self.actual = actual


class RowLevelCasContention(OmnigraphError):
    """Another publish landed first on the same row. The publisher retries; callers see it only if that failed."""

    kind = "RowLevelCasContention"
    exit_code = 5
    http_status = 409
    retryable = True


class KeyConflict(OmnigraphError):
    """A strict insert met an id that exists already."""

    kind = "KeyConflict"
    exit_code = 5
    http_status = 409

    def __init__(self, message: str, *, table_key: str, id: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.table_key = table_key
        self.id = id


class PreconditionFailed(OmnigraphError):
    """The branch is not at the commit the caller named."""

    kind = "PreconditionFailed"
    exit_code = 4
    http_status = 412

    def __init__(self, message: str, *, expected: str, actual: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class AlreadyInitialized(OmnigraphError):
    """There is a graph already."""

    kind = "AlreadyInitialized"
    http_status = 409

    def __init__(self, message: str, *, uri: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.uri = uri


class InitializationClaimed(AlreadyInitialized):
    """Another initialisation of the same root is under way, or was interrupted."""

    kind = "InitializationClaimed"


class ResourceLimit(OmnigraphError):
    """A ceiling would be exceeded; nothing was written."""

    kind = "ResourceLimit"
    exit_code = 8
    http_status = 413

    def __init__(self, message: str, *, resource: str, limit: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.resource = resource
        self.limit = limit
        self.actual = actual


class RecoveryRequired(OmnigraphError):
    """An interrupted operation must be recovered first; opening the graph read-write does it."""

    kind = "RecoveryRequired"
    exit_code = 7
    http_status = 503

    def __init__(self, message: str, *, reason: str, operation_id: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.operation_id = operation_id


class UnsupportedFormat(OmnigraphError):
    """The graph was written by a release this one does not understand."""

    kind = "UnsupportedFormat"

    def __init__(self, message: str, *, found: str, supported: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.found = found
        self.supported = supported


class VersionReclaimed(OmnigraphError):
    """The data of a past version was removed by a cleanup."""

    kind = "VersionReclaimed"
    http_status = 410

    def __init__(self, message: str, *, version: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.version = version


class Storage(OmnigraphError):
    """The store under the graph failed; `storage_class` says how (transient, configuration, permanent, unknown)."""

    kind = "Storage"

    def __init__(self, message: str, *, storage_class: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.storage_class = storage_class


class EmbeddingFailed(OmnigraphError):
    """The embedding provider gave no usable vectors; nothing was stored.

    `status` is the HTTP status of its last answer, if there was one, and `attempts` how often it was asked. `retryable` is
    true after a passing failure: no connection, no answer in time, or the statuses 429 and 5xx.
    """

    kind = "EmbeddingFailed"
    http_status = 502

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        attempts: int,
        status: int | None = None,
        retryable: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.attempts = attempts
        self.status = status
        self.retryable = retryable


class SourceFailed(OmnigraphError):
    """The source of a foreign table gave no rows: it cannot be reached or read, or is no longer what it was.

    `name` is the foreign table and `source` its address, without passwords. `retryable` is true where the source could not
    be reached.
    """

    kind = "SourceFailed"
    http_status = 502

    def __init__(self, message: str, *, name: str, source: str, retryable: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name
        self.source = source
        self.retryable = retryable


class DataTestFailed(OmnigraphError):
    """A test of a pipeline found rows that must not be there; nothing was published.

    `test` is its name, `count` how many rows it found, and `rows` the first of them.
    """

    kind = "DataTestFailed"
    http_status = 400

    def __init__(
        self, message: str, *, test: str, count: int, rows: tuple[dict[str, Any], ...], hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.test = test
        self.count = count
        self.rows = rows


class Configuration(OmnigraphError):
    """The installation or its settings are wrong; nothing was attempted."""

    kind = "Configuration"
    exit_code = 2
    http_status = 400

    def __init__(self, message: str, *, what: str, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.what = what


class Internal(OmnigraphError):
    """An invariant was broken: a defect in omnigraph-sql, not in the request."""

    kind = "Internal"


def _restore(cls: type[OmnigraphError], message: str) -> OmnigraphError:
    """An error without its fields; unpickling fills them in."""
    error = cls.__new__(cls, message)
    error.args = (message,)
    return error
