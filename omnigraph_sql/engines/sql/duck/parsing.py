"""What a statement is to DuckDB: its own parser says which tables it names, and whether it does anything but read them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.sql.duck.steadiness import is_steady
from omnigraph_sql.engines.sql.functions import FUNCTIONS, SCALARS
from omnigraph_sql.engines.sql.names import Place
from omnigraph_sql.engines.sql.pins import Pins
from omnigraph_sql.engines.sql.refusals import READS_ONLY
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner.statements import state_written, unexplained

_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
_TABLES = ("unnest", "generate_series", "range", "repeat", "repeat_row", "json_each", "json_tree", "pg_timezone_names")
"""Functions of DuckDB that give tables of their arguments alone. Others read files, settings, or texts as statements."""


@dataclass
class Parsed:
    """A statement that only reads."""

    statement: Any
    """As DuckDB has read it: it can be run again and again without being read anew."""
    tables: tuple[tuple[tuple[str, ...], bool], ...]
    """The names of tables, and whether each may be one that the statement itself gives to a query."""
    lists_tables: bool
    """Whether it asks which tables there are."""
    batch_rows: int | None = None
    """How many of its rows to take at a time; None before it was run."""
    is_steady: bool = False
    """Whether it does the same whenever it is run over the same tables."""
    short: Hashable | None = None
    """The tables over which it took but a moment when it was last run; None if it took longer, or never was."""


def parsed(duck: duckdb.DuckDBPyConnection, pins: Pins, text: str) -> Parsed:
    """Read a statement. Raises for anything but one that reads tables."""
    how, query = unexplained(text)
    nodes = list(_nodes(_tree(duck, pins, query)))
    for node in nodes:
        _check(node)
    local = {each["key"].lower() for node in nodes for each in (node.get("cte_map") or {}).get("map", ())}
    tables = [_name(node) for node in nodes if node.get("type") == "BASE_TABLE"]
    (statement,) = duck.extract_statements(f"{how} {query}" if how else text)
    return Parsed(
        statement,
        tuple((parts, len(parts) == 1 and parts[0].lower() in local) for parts in tables),
        any(node.get("type") == "SHOW_REF" and node.get("query") is None for node in nodes),
        is_steady=not how and is_steady(duck, nodes),
    )


def _tree(duck: duckdb.DuckDBPyConnection, pins: Pins, query: str) -> Any:
    ((found,),) = duck.execute("SELECT json_serialize_sql($1::VARCHAR)", [query]).fetchall()
    tree = json.loads(found)
    if tree["error"]:
        state = state_written(query)
        if state is not None:
            pins.find(Place(pins.own), state)  # raises, with what to write
        raise _no_query(duck, query)
    if len(tree["statements"]) != 1:
        what = "more than one statement" if tree["statements"] else "no statement"
        raise BadRequest(f"there is {what}", hint="run one at a time")
    return tree["statements"][0]


def _no_query(duck: duckdb.DuckDBPyConnection, text: str) -> BadRequest:
    """Why a text is no query; raises what DuckDB says if it is no statement at all."""
    found = duck.extract_statements(text)
    if len(found) > 1:
        return BadRequest("there is more than one statement", hint="run one at a time")
    if any(each.type == duckdb.StatementType.MULTI for each in found):
        hint = "PIVOT takes the values of its columns: PIVOT t ON c IN ('a', 'b') USING sum(x)"
        return BadRequest("the statement is more than one to DuckDB", hint=hint)
    return BadRequest("this statement would change something", hint=READS_ONLY)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a tree, in the order in which they are written."""
    rest = [tree]
    while rest:
        found = rest.pop()
        if isinstance(found, dict):
            yield found
            rest.extend(reversed(found.values()))
        elif isinstance(found, list):
            rest.extend(reversed(found))


def _check(node: dict[str, Any]) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _QUERIES:
        raise BadRequest("this statement would change something", hint=READS_ONLY)
    if kind == "FUNCTION" and node["function_name"].lower() in SCALARS:
        function = SCALARS[node["function_name"].lower()]
        if len(node["arguments"]) != len(function.parameters):
            raise function.misused()
    if kind == "TABLE_FUNCTION":
        _check_table_function(node["function"]["function_name"].lower(), node["function"]["arguments"])


def _check_table_function(name: str, arguments: list[dict[str, Any]]) -> None:
    if name in FUNCTIONS:
        if not any(each["name"] for each in arguments):  # those with a name may be in any place
            FUNCTIONS[name].signature.check_count(len(arguments))
    elif name not in _TABLES:
        elsewhere = "register what is elsewhere with Graph.register, or use a connection of Graph.duckdb()"
        hint = did_you_mean(name, [*FUNCTIONS, *_TABLES]) or elsewhere
        raise BadRequest(f"there is no function `{name}` that gives a table", hint=hint)


def _name(node: dict[str, Any]) -> tuple[str, ...]:
    return tuple(part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part)
