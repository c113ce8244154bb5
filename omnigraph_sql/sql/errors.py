"""Translation of DataFusion's errors about a statement into a message and a hint."""

from __future__ import annotations

import re

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.sql.functions import FUNCTIONS, SCALARS
from omnigraph_sql.sql.hints import owners, syntax_hint
from omnigraph_sql.sql.resolver import NameResolver
from omnigraph_sql.sqltext.text_limits import too_deep

_GIVE = "give a value for every $name of the statement"
READS_ONLY = "SQL only reads here; write with Graph.execute or `ogsql sql --write`"
_FIELD = re.compile(r"No field named (.+?)\. (?:Did you mean|Valid fields are) (.*?)\.?$", re.DOTALL)
_CALL = re.compile(r"to satisfy a call to '(\w+)' function")
_PLACEHOLDER = re.compile(r"Placeholder '(\$\w+)' was not provided")
_AMBIGUOUS = re.compile(r"Ambiguous reference to unqualified field (.+)$")
_GROUPED = re.compile(r'column "([^"]+)" must appear in the GROUP BY')
_MISMATCH = re.compile(r"Function '(\w+)' failed to match any signature.*?received (\w+)", re.DOTALL)
_SYNTAX = re.compile(r"ParserError\(\"(Expected: .*?, found: (\S+).*?)\"\)")
_TREE = re.compile(r" \w+ \{ .*")
"""The engine's dump of its syntax tree."""
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


def error_for_run(text: str) -> BadRequest:
    """Return the error for a statement that failed while it was running."""
    missing = _PLACEHOLDER.search(text)
    if missing is not None:
        return BadRequest(f"a parameter has no value: {missing[1]}", hint=_GIVE)
    if "outer_ref(" in text or "(<subquery>) is not yet supported" in text or "expression Exists(" in text:
        hint = "write it as a join, or run it on DuckDB"
        return BadRequest("DataFusion cannot run a subquery of this form", hint=hint)
    return BadRequest(f"the statement failed: {_first(text)}")


def statement_error(text: str, statement: str, resolver: NameResolver | None = None) -> OmnigraphError:
    """Return the error for a statement that DataFusion could not plan; `resolver` finds the tables that it names."""
    first = _first(text)
    if "RecursionLimitExceeded" in text:
        return too_deep("the statement")
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
        return _error_for_function(function[1])
    called = _CALL.search(text)
    if called is not None and called[1].lower() in SCALARS:
        return SCALARS[called[1].lower()].error_for_arguments()
    if "placeholder" in text.lower():
        return BadRequest(f"a parameter has no value: {first}", hint=_GIVE)
    return _error_for_meaning(text, first, statement, resolver)


def _error_for_meaning(text: str, first: str, statement: str, resolver: NameResolver | None) -> BadRequest:
    """Return the error for a statement that is ambiguous, ill-typed or not valid SQL."""
    ambiguous = _AMBIGUOUS.search(first)
    if ambiguous is not None:
        return error_for_ambiguous_column(
            ambiguous[1], [] if resolver is None else owners(statement, ambiguous[1], resolver)
        )
    grouped = _GROUPED.search(text)
    if grouped is not None:
        hint = "add it to GROUP BY, or use an aggregate such as min()"
        return BadRequest(f"the column {grouped[1]} is neither in GROUP BY nor in an aggregate", hint=hint)
    if "Substring without for/from" in text:
        return BadRequest(
            "substr needs a place to begin at", hint="write substr(TEXT, START) or substr(TEXT, START, LENGTH)"
        )
    called = _MISMATCH.search(text)
    if called is not None:
        return BadRequest(f"the function {called[1]} takes no value of type {called[2]}", hint="cast it")
    syntax = _SYNTAX.search(text)
    if syntax is not None:
        return BadRequest(f"the statement cannot be read: {syntax[1]}", hint=syntax_hint(statement, syntax[2]))
    return BadRequest(f"the statement cannot be run: {first}")


def error_for_ambiguous_column(name: str, candidates: list[str]) -> BadRequest:
    """Return the error for a column that several tables have."""
    listed = f": {' or '.join(candidates)}" if len(candidates) > 1 else ""
    hint = f"write {candidates[0]}" if candidates else f"write the name of its table before it: TABLE.{name}"
    return BadRequest(f"the column `{name}` is ambiguous{listed}", hint=hint)


def _first(text: str) -> str:
    """Return the first line of a message, or of its last cause, without the engine's prefixes."""
    lines = text.strip().splitlines()
    causes = [place for place, line in enumerate(lines[:-1], 1) if line.strip() == "caused by"]
    first = lines[causes[-1] if causes else 0] if lines else "nothing was said"
    for prefix in (*_PREFIXES, *_PREFIXES):
        first = first.removeprefix(prefix)
    return _TREE.sub("", first)


def _columns(name: str, listed: str) -> str:
    columns = [_last(column) for column in listed.split(",")]
    return did_you_mean(_last(name), columns) or f"there are {listed}"


def _last(name: str) -> str:
    return name.strip().rsplit(".", maxsplit=1)[-1].strip("'\"?")


def _error_for_function(name: str) -> BadRequest:
    names = [*FUNCTIONS, *SCALARS]
    hint = did_you_mean(name, names) or f"those of a graph are {', '.join(names)}"
    return BadRequest(f"there is no function `{name}`", hint=hint)
