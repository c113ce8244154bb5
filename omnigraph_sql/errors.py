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

__all__ = ["BadRequest", "Compile", "Configuration", "Internal", "NotFound", "OmnigraphError", "Span"]


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
    retryable: ClassVar[bool] = False

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
