"""Translation of DuckDB's errors about a statement into a message and a hint."""

from __future__ import annotations

import re
from collections.abc import Callable

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.sql.errors import error_for_ambiguous_column
from omnigraph_sql.sql.functions import FUNCTIONS, SCALARS
from omnigraph_sql.sql.hints import syntax_hint
from omnigraph_sql.sqltext.text_limits import too_deep

_COLUMN = re.compile(r'column "([^"]+)"(?: that)? .*?not found|column "([^"]+)" does not exist', re.IGNORECASE)
_OF = re.compile(r'"([^"]+)" does not have a column named "([^"]+)"')
_CANDIDATES = re.compile(r"Candidate bindings: :? ?(.*)")
_FUNCTION = re.compile(r"(?:Scalar|Table|Macro)[\w ]* Function with name \"?(\w+)\"? does not exist", re.IGNORECASE)
_AMBIGUOUS = re.compile(r'Ambiguous reference to column name "([^"]+)"(.*)')
_QUOTED = re.compile(r"'([^']+)'")
_NEAR = re.compile(r'syntax error at or near "(.*)"$')
_PREFIX = re.compile(r"^[A-Z][\w ]* Error: ")


def statement_error(text: str, columns: Callable[[], list[str]], statement: str = "") -> OmnigraphError:
    """Return the error for a statement that DuckDB rejected or failed; `columns` returns the columns of its tables."""
    if "Max expression depth limit" in text or "Maximum tree depth" in text:
        return too_deep("the statement")
    lines = text.strip().splitlines()
    first = _PREFIX.sub("", lines[0]) if lines else "nothing was said"
    function = _FUNCTION.search(text)
    if function is not None:
        names = [*FUNCTIONS, *SCALARS]
        hint = did_you_mean(function[1], names) or f"those of a graph are {', '.join(names)}"
        return BadRequest(f"there is no function `{function[1]}`", hint=hint)
    column = _COLUMN.search(lines[0] if lines else "")
    if column is not None:
        name = column[1] or column[2]
        return BadRequest(f"there is no column {name}", hint=_columns(name, text, columns))
    of = _OF.search(lines[0] if lines else "")
    if of is not None:
        return BadRequest(f"there is no column {of[1]}.{of[2]}", hint=_columns(of[2], text, columns))
    ambiguous = _AMBIGUOUS.search(first)
    if ambiguous is not None:
        return error_for_ambiguous_column(
            ambiguous[1], [column.replace('"', "") for column in _QUOTED.findall(ambiguous[2])]
        )
    if text.startswith("Parser Error"):
        near = _NEAR.search(first)
        return BadRequest(
            f"the statement cannot be read: {first}", hint=None if near is None else syntax_hint(statement, near[1])
        )
    if "Values were not provided" in text or "parameter" in first.lower():
        return BadRequest(f"a parameter has no value: {first}", hint="give a value for every $name of the statement")
    return BadRequest(f"the statement failed: {first}")


def _columns(name: str, text: str, columns: Callable[[], list[str]]) -> str | None:
    listed = _CANDIDATES.search(text)
    if listed is None:
        return did_you_mean(name, columns())
    candidates = [column.strip().strip('"').rsplit(".", maxsplit=1)[-1].strip('"') for column in listed[1].split(",")]
    return did_you_mean(name, candidates) or f"there are {listed[1]}"
