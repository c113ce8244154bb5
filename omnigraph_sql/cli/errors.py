"""Rendering of errors: styled lines for terminals, a JSON document for programs."""

from __future__ import annotations

import os
import resource
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_sql.errors import BadRequest, Compile, OmnigraphError, ResourceLimit

if TYPE_CHECKING:
    from omnigraph_compiler import Diagnostic
    from omnigraph_sql.cli.output import StyledLine


_TRACEBACK_VARIABLE = "OMNIGRAPH_TRACEBACK"


@dataclass(frozen=True, slots=True)
class Located:
    """A diagnostic, the file it points into and, where it belongs to one, the query."""

    diagnostic: Diagnostic
    path: str
    query: str | None = None

    def lines(self) -> Iterator[StyledLine]:
        """The rendered diagnostic, followed by an empty line."""
        yield from self.diagnostic.segments(self.path)
        if self.diagnostic.position is None:
            yield [("gutter", " --> "), ("source", self.path)]
        yield []

    def to_dict(self) -> dict[str, Any]:
        """The diagnostic's members, with `path` and `query` in front."""
        place = {"path": self.path} if self.query is None else {"path": self.path, "query": self.query}
        return {**place, **self.diagnostic.to_dict()}


def diagnostics_of(error: OmnigraphError) -> list[Located]:
    """The diagnostics an error carries; most errors have none."""
    diagnostics = error.diagnostics if isinstance(error, Compile | BadRequest) else ()
    return [diagnostic for diagnostic in diagnostics if isinstance(diagnostic, Located)]


def error_lines(error: OmnigraphError) -> Iterator[StyledLine]:
    """The lines of an error: its diagnostics or, without any, its message and hint."""
    diagnostics = diagnostics_of(error)
    for diagnostic in diagnostics:
        yield from diagnostic.lines()
    if not diagnostics:
        yield from plain_lines(error.message, error.hint)


def plain_lines(message: str, hint: str | None = None) -> Iterator[StyledLine]:
    """The lines of a message and its hint."""
    yield [("error", "error"), ("bold", f": {message}")]
    if hint is not None:
        yield [("help", "hint"), ("source", f": {hint}")]


def warning_lines(message: str, hint: str | None = None) -> Iterator[StyledLine]:
    """The lines of a warning and its hint."""
    yield [("help", "warning"), ("source", f": {message}")]
    if hint is not None:
        yield [("help", "hint"), ("source", f": {hint}")]


def typed(error: BaseException) -> OmnigraphError | None:
    """The typed error for an exception; None for a defect."""
    if isinstance(error, OmnigraphError):
        return error
    if isinstance(error, MemoryError):
        limit, used = _memory()
        hint = "give it less at a time, bound queries with --memory, or use a machine with more memory"
        return ResourceLimit("there is not enough memory", resource="memory", limit=limit, actual=used, hint=hint)
    if isinstance(error, RecursionError):
        return BadRequest("the input is nested too deeply", hint="write it with fewer levels")
    return None


def _memory() -> tuple[int, int]:
    """The memory limit of this process and its peak use, in bytes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return limit, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def defect(error: Exception) -> tuple[str, str]:
    """Message and hint of a defect; the environment may ask for its traceback."""
    hint = "this is a defect in omnigraph-sql; please report it with the command and the files that lead to it"
    if os.environ.get(_TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    else:
        hint += f" ({_TRACEBACK_VARIABLE}=1 shows where it happened)"
    return f"internal error: {type(error).__name__}: {error}", hint


def error_document(error: OmnigraphError) -> dict[str, Any]:
    """The JSON document of an error."""
    return document(error.message, code=error.code, hint=error.hint, diagnostics=diagnostics_of(error))


def document(
    message: str, *, code: str | None = None, hint: str | None = None, diagnostics: list[Located] | None = None
) -> dict[str, Any]:
    """The one shape of every error document: `error` and `diagnostics`, and `code` and `hint` where there are any."""
    optional = {"code": code, "hint": hint}
    return {
        "error": message,
        **{name: text for name, text in optional.items() if text is not None},
        "diagnostics": [diagnostic.to_dict() for diagnostic in diagnostics or ()],
    }
