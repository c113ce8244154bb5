"""How an error looks: lines for people, a document for programs."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_sql.errors import BadRequest, Compile, OmnigraphError

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
        """The rendering for people, and an empty line after it."""
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
    found = error.diagnostics if isinstance(error, Compile | BadRequest) else ()
    return [each for each in found if isinstance(each, Located)]


def error_lines(error: OmnigraphError) -> Iterator[StyledLine]:
    """An error for people: its diagnostics or, without any, its message and hint."""
    diagnostics = diagnostics_of(error)
    for each in diagnostics:
        yield from each.lines()
    if not diagnostics:
        yield from plain_lines(error.message, error.hint)


def plain_lines(message: str, hint: str | None = None) -> Iterator[StyledLine]:
    """A message that stands for itself, and what to do about it."""
    yield [("error", "error"), ("bold", f": {message}")]
    if hint is not None:
        yield [("help", "hint"), ("source", f": {hint}")]


def warning_lines(message: str, hint: str | None = None) -> Iterator[StyledLine]:
    """As `plain_lines`, for what a command goes on in spite of."""
    yield [("help", "warning"), ("source", f": {message}")]
    if hint is not None:
        yield [("help", "hint"), ("source", f": {hint}")]


def defect(error: Exception) -> tuple[str, str]:
    """An error that should not have happened, as message and hint; on request it is shown where it did."""
    hint = "this is a defect in omnigraph-sql; please report it with the command and the files that lead to it"
    if os.environ.get(_TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    else:
        hint += f" ({_TRACEBACK_VARIABLE}=1 shows where it happened)"
    return f"internal error: {type(error).__name__}: {error}", hint


def error_document(error: OmnigraphError) -> dict[str, Any]:
    """An error for programs."""
    return document(error.message, code=error.code, hint=error.hint, diagnostics=diagnostics_of(error))


def document(
    message: str, *, code: str | None = None, hint: str | None = None, diagnostics: list[Located] | None = None
) -> dict[str, Any]:
    """The one shape of every error document: `error` and `diagnostics`, and `code` and `hint` where there are any."""
    optional = {"code": code, "hint": hint}
    return {
        "error": message,
        **{name: text for name, text in optional.items() if text is not None},
        "diagnostics": [each.to_dict() for each in diagnostics or ()],
    }
