"""What engines say of a statement that they cannot run, in a sentence and a hint."""

from __future__ import annotations

import re

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.sql.functions import FUNCTIONS, SCALARS
from omnigraph_sql.errors import BadRequest

_GIVE = "give a value for every $name of the statement"
READS_ONLY = "SQL only reads; write with load or mutate"
_FIELD = re.compile(r"No field named (.+?)\. (?:Did you mean|Valid fields are) (.*?)\.?$", re.DOTALL)
_CALL = re.compile(r"to satisfy a call to '(\w+)' function")
_PLACEHOLDER = re.compile(r"Placeholder '(\$\w+)' was not provided")
_FUNCTION = re.compile(r"(?:table function|Invalid function) '(\w+)'")
_WRITES = re.compile(
    r"(\s|--[^\n]*\n|/\*.*?\*/)*(insert|update|delete|merge|create|drop|alter|truncate|copy|set|reset|grant|vacuum)\b",
    re.IGNORECASE | re.DOTALL,
)
_WRITTEN = r"(DDL|DML|Statement) not supported|Query (INSERT|UPDATE|DELETE|MERGE) .* not implemented"
_PREFIXES = (
    "DataFusion error: ",
    "Error during planning: ",
    "Schema error: ",
    "SQL error: ",
    "Execution error: ",
    "Arrow error: ",
)


def failed(text: str) -> BadRequest:
    """Why DataFusion could not go on with a statement: what its values are decides."""
    missing = _PLACEHOLDER.search(text)
    if missing is not None:
        return BadRequest(f"a parameter has no value: {missing[1]}", hint=_GIVE)
    return BadRequest(f"the statement failed: {_first(text)}")


def refused(text: str, statement: str) -> BadRequest:
    """Why DataFusion does not plan a statement."""
    first = _first(text)
    if _WRITES.match(statement) or re.search(_WRITTEN, text):
        return BadRequest("this statement would change something", hint=READS_ONLY)
    if "single SQL statement" in text:
        return BadRequest("there is more than one statement", hint="run them one after the other")
    if "No SQL statements" in text:
        return BadRequest("there is no statement", hint="write one")
    field = _FIELD.search(text)
    if field is not None:
        return BadRequest(f"there is no column {field[1]}", hint=_columns(field[1], field[2]))
    function = _FUNCTION.search(text)
    if function is not None:
        return _no_function(function[1])
    called = _CALL.search(text)
    if called is not None and called[1].lower() in SCALARS:
        return SCALARS[called[1].lower()].misused()
    if "placeholder" in text.lower():
        return BadRequest(f"a parameter has no value: {first}", hint=_GIVE)
    return BadRequest(f"the statement cannot be run: {first}", hint="check it; names with signs need double quotes")


def _first(text: str) -> str:
    """The first line of what was said, without where in the engine it was said."""
    first = text.strip().splitlines()[0] if text.strip() else "nothing was said"
    for prefix in _PREFIXES:
        first = first.removeprefix(prefix)
    return first


def _columns(asked: str, listed: str) -> str:
    known = [_last(each) for each in listed.split(",")]
    return did_you_mean(_last(asked), known) or f"there are {listed}"


def _last(name: str) -> str:
    return name.strip().rsplit(".", maxsplit=1)[-1].strip("'\"?")


def _no_function(name: str) -> BadRequest:
    names = [*FUNCTIONS, *SCALARS]
    hint = did_you_mean(name, names) or f"those of a graph are {', '.join(names)}"
    return BadRequest(f"there is no function `{name}`", hint=hint)
