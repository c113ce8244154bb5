"""What DuckDB says of a statement that it cannot run, in a sentence and a hint."""

from __future__ import annotations

import re
from collections.abc import Callable

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.sql.functions import FUNCTIONS, SCALARS
from omnigraph_sql.errors import BadRequest

_COLUMN = re.compile(r'column "([^"]+)"(?: that)? .*?not found|column "([^"]+)" does not exist', re.IGNORECASE)
_OF = re.compile(r'"([^"]+)" does not have a column named "([^"]+)"')
_CANDIDATES = re.compile(r"Candidate bindings: :? ?(.*)")
_FUNCTION = re.compile(r"(?:Scalar|Table|Macro)[\w ]* Function with name \"?(\w+)\"? does not exist", re.IGNORECASE)
_PREFIX = re.compile(r"^[A-Z][\w ]* Error: ")


def refused(text: str, columns: Callable[[], list[str]]) -> BadRequest:
    """Why DuckDB does not run a statement, or could not go on with it. `columns` are those of the tables it names."""
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
    if text.startswith("Parser Error"):
        return BadRequest(f"the statement cannot be run: {first}", hint="check it; names with signs need double quotes")
    if "Values were not provided" in text or "parameter" in first.lower():
        return BadRequest(f"a parameter has no value: {first}", hint="give a value for every $name of the statement")
    return BadRequest(f"the statement failed: {first}")


def _columns(asked: str, text: str, columns: Callable[[], list[str]]) -> str | None:
    found = _CANDIDATES.search(text)
    if found is None:
        return did_you_mean(asked, columns())
    known = [each.strip().strip('"').rsplit(".", maxsplit=1)[-1].strip('"') for each in found[1].split(",")]
    return did_you_mean(asked, known) or f"there are {found[1]}"
