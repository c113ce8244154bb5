"""The exceptions of omnigraph-sql: one family, distinguished by class and typed fields.

No caller needs to parse a message. Each class states the answer of a door (`exit_code`, `http_status`) and whether a retry
can succeed (`retryable`). Each instance has a message that names its subject, and a hint if there is a next step.

>>> error = NotFound("no branch is called `draft`", what="branch", name="draft", hint="list them with `branches`")
>>> error.kind, error.name, error.http_status
('NotFound', 'draft', 404)
>>> print(error)
no branch is called `draft`
hint: list them with `branches`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

__all__ = [
    "AlreadyInitialized",
    "BadRequest",
    "ChangeFeedGap",
    "CommitHasNoParent",
    "Compile",
    "Configuration",
    "Conflict",
    "CursorRejected",
    "DataTestFailed",
    "EmbeddingFailed",
    "ExpectedVersionMismatch",
    "InitializationClaimed",
    "Internal",
    "KeyConflict",
    "MergeConflicts",
    "NotFound",
    "OmittedRelationsWarning",
    "OmnigraphError",
    "OmnigraphWarning",
    "ParallelEdgesWarning",
    "PreconditionFailed",
    "RecoveryRequired",
    "RejectsWarning",
    "ResourceLimit",
    "RowLevelCasContention",
    "SchemaBoundary",
    "SourceFailed",
    "Span",
    "Storage",
    "UnsupportedFormat",
    "ValidationFailed",
    "VersionReclaimed",
]


_LONGEST = 4000
"""Characters of a message."""


class Span(Protocol):
    """A half-open range of byte offsets into a source text.

    Example:
        >>> text = "query q() { match { $p: Prot } return { $p.id } }"
        >>> try:
        ...     graph.query(text)
        ... except og.errors.Compile as error:
        ...     print(text[error.span.start : error.span.end])
        Prot
    """

    @property
    def start(self) -> int:
        """Offset of the first byte."""

    @property
    def end(self) -> int:
        """Offset just after the last byte."""


class OmnigraphError(Exception):
    """Base of the family. `str()` returns the message and, on a separate line, the hint.

    `kind` names the class, `exit_code` and `http_status` are the answers of the command line and of servers, and `retryable`
    says whether the same request may succeed later. Instances have `message`, `code` and `hint`.

    Example:
        >>> try:
        ...     graph.snapshot(branch="draft")
        ... except og.errors.OmnigraphError as error:
        ...     print(error.kind, error.http_status, error.retryable)
        NotFound 404 False
    """

    kind: ClassVar[str] = "OmnigraphError"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    retryable: bool = False
    """Set by the class; by the instance for kinds with both transient and permanent causes."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        message = writable(message)
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = None if hint is None else writable(hint)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., OmnigraphError], tuple[Any, ...], dict[str, Any]]:
        # Errors cross process boundaries, so they must survive pickling. The default calls the class with the message
        # alone, which fails for a class with required fields.
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


class BadRequest(OmnigraphError):
    """The request is invalid: its parameters, arguments or input cannot be used."""

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


ConflictReason: TypeAlias = Literal[
    "aborted",
    "branch replaced",
    "closed",
    "commit",
    "contention",
    "damaged",
    "descendants",
    "drift",
    "duplicate version",
    "existing version",
    "exists",
    "indeterminate",
    "lock held",
    "name_taken",
    "not empty",
    "prefix",
    "published",
    "rebased",
    "registration",
    "schema apply",
    "schema changed",
    "schema contract",
    "schema differs",
    "table changed",
    "tagged",
    "undone",
    "unknown table",
]
"""The reasons of conflicts."""
RecoveryReason: TypeAlias = Literal["pending", "undo"]
"""Why a recovery is needed: an operation is pending, or undoing it failed."""
CursorReason: TypeAlias = Literal["branch", "commit", "filter", "graph", "history", "kind", "malformed"]
"""What a token does not fit; `kind`: it is a token of another kind, `history`: its commit is not in that of the branch."""


class Conflict(OmnigraphError):
    """The state of the graph prevents the operation: a lock, drift, a branch in use, or a publish that lost every retry."""

    kind = "Conflict"
    exit_code = 5
    http_status = 409

    def __init__(self, message: str, *, reason: ConflictReason, code: str | None = None, hint: str | None = None) -> None:
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
    """Another publish changed the same row of the manifest first. The publisher retries; callers see the last failure."""

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


class MergeConflicts(OmnigraphError):
    """A merge met conflicts that nobody decided. Nothing was changed; `conflicts` has all of them."""

    kind = "MergeConflicts"
    exit_code = 5
    http_status = 409

    def __init__(self, message: str, *, conflicts: Sequence[Any], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.conflicts = list(conflicts)


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
    """The root already holds a graph."""

    kind = "AlreadyInitialized"
    http_status = 409

    def __init__(self, message: str, *, uri: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.uri = uri


class InitializationClaimed(AlreadyInitialized):
    """Another initialisation of the same root is under way, or was interrupted."""

    kind = "InitializationClaimed"


class ResourceLimit(OmnigraphError):
    """A limit was exceeded; nothing was written. `resource` names it: `time`, `memory`, `statement nesting` and others."""

    kind = "ResourceLimit"
    exit_code = 8
    http_status = 413

    def __init__(self, message: str, *, resource: str, limit: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.resource = resource
        self.limit = limit
        self.actual = actual


class RecoveryRequired(OmnigraphError):
    """An interrupted operation must be recovered first; opening the graph read-write recovers it."""

    kind = "RecoveryRequired"
    exit_code = 7
    http_status = 503

    def __init__(
        self, message: str, *, reason: RecoveryReason, operation_id: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.operation_id = operation_id


class UnsupportedFormat(OmnigraphError):
    """The graph was written in a format that this release does not support."""

    kind = "UnsupportedFormat"

    def __init__(self, message: str, *, actual: str, supported: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.actual = actual
        self.supported = supported


class VersionReclaimed(OmnigraphError):
    """The data of a past version was removed by a cleanup."""

    kind = "VersionReclaimed"
    http_status = 410

    def __init__(self, message: str, *, version: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.version = version


class ChangeFeedGap(OmnigraphError):
    """The changes of a commit cannot be read any more: a cleanup removed its rows, or those of its parent.

    `first_unreadable_commit_id` is that commit, and `cursor` the cursor just before it, if a change feed met it.
    """

    kind = "ChangeFeedGap"
    http_status = 410

    def __init__(
        self, message: str, *, first_unreadable_commit_id: str, cursor: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.first_unreadable_commit_id = first_unreadable_commit_id
        self.cursor = cursor


class CommitHasNoParent(OmnigraphError):
    """The first commit of a graph has no parent to compare it with."""

    kind = "CommitHasNoParent"
    http_status = 409

    def __init__(self, message: str, *, commit_id: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.commit_id = commit_id


class SchemaBoundary(OmnigraphError):
    """A type that a commit changed has other properties than before it, so its rows cannot be compared."""

    kind = "SchemaBoundary"
    http_status = 409

    def __init__(self, message: str, *, commit_id: str, type_name: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.commit_id = commit_id
        self.type_name = type_name


class CursorRejected(OmnigraphError):
    """A page token or cursor does not belong to the request: it is of another graph, branch, commit, filter or kind."""

    kind = "CursorRejected"
    http_status = 400

    def __init__(self, message: str, *, reason: CursorReason, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Storage(OmnigraphError):
    """The storage of the graph failed; `storage_class` is `transient`, `configuration`, `permanent` or `unknown`."""

    kind = "Storage"

    def __init__(self, message: str, *, storage_class: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.storage_class = storage_class


class EmbeddingFailed(OmnigraphError):
    """The embedding provider returned no usable vectors; nothing was stored.

    `status` is the HTTP status of its last response, if there was one, and `attempts` the number of requests. `retryable`
    is true after a transient failure: no connection, a timeout, or the statuses 429 and 5xx.
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
    """The source of a foreign table cannot be reached or read, or has changed since it was registered.

    `name` is the foreign table and `source` its address, without passwords. `retryable` is true if the source could not be
    reached.
    """

    kind = "SourceFailed"
    http_status = 502

    def __init__(self, message: str, *, name: str, source: str, retryable: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name
        self.source = source
        self.retryable = retryable


class DataTestFailed(OmnigraphError):
    """A test of a pipeline returned rows; nothing was published.

    `test` is its name, `count` the number of rows, and `rows` the first of them.
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


class OmnigraphWarning(UserWarning):
    """Base of the warnings of successful operations, issued through Python's `warnings`; results have the same texts."""


class OmittedRelationsWarning(OmnigraphWarning):
    """A bundle leaves out relational tables or views of its graph."""


class ParallelEdgesWarning(OmnigraphWarning):
    """A load in the mode merge inserted new edges, because its records have nothing that identifies existing edges."""


class RejectsWarning(OmnigraphWarning):
    """A load was published, but the report of its rejected records could not be moved to its target."""


def writable(text: str) -> str:
    """Return a text that can be logged: of limited length and encodable, whatever input it quotes."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more characters)"
    return text.encode("utf-8", "backslashreplace").decode()


def _restore(cls: type[OmnigraphError], message: str) -> OmnigraphError:
    """Return an error without its fields, which unpickling sets."""
    error = cls.__new__(cls, message)
    error.args = (message,)
    return error
