"""Analysis of statements with DuckDB's parser: the tables that they name, and whether they only read."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.duckdb.determinism import is_deterministic
from omnigraph_sql.engines.duckdb.literal_sizes import largest_value
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sql.errors import READS_ONLY
from omnigraph_sql.sql.functions import FUNCTIONS, SCALARS
from omnigraph_sql.sql.resolver import NameResolver
from omnigraph_sql.sqltext.text_limits import too_deep
from omnigraph_sql.sqltext.user_sql import state_written, unexplained

_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
_TABLES = ("unnest", "generate_series", "range", "repeat", "repeat_row", "json_each", "json_tree", "pg_timezone_names")
"""Table functions of DuckDB that depend on their arguments alone. Others read files or settings, or run SQL texts."""


@dataclass(kw_only=True)
class ParsedStatement:
    """A read-only statement."""

    statement: Any
    """DuckDB's parsed statement, which can be run repeatedly."""
    tables: tuple[tuple[tuple[str, ...], bool], ...]
    """The names of tables, each with True if it may refer to a common table expression of the statement."""
    lists_tables: bool
    """True for SHOW TABLES and the like."""
    batch_rows: int | None = None
    """The number of rows in a batch; None before the first run."""
    is_deterministic: bool = False
    """True if the statement depends on nothing but its tables."""
    short_run_tables: Hashable | None = None
    """The table versions of its last run if that run was short; None if it was not, or before the first run."""


def parse_statement(duck: duckdb.DuckDBPyConnection, resolver: NameResolver, text: str) -> ParsedStatement:
    """Parse a statement. Raises unless it only reads tables."""
    explain, query = unexplained(text)
    nodes = list(_nodes(_tree(duck, resolver, query)))
    for node in nodes:
        _check(node)
    if resolver.execution is not None and (size := largest_value(nodes)) > resolver.execution.limits.memory:
        raise resolver.execution.error_for_memory(size)
    local = {cte["key"].lower() for node in nodes for cte in (node.get("cte_map") or {}).get("map", ())}
    tables = [_name(node) for node in nodes if node.get("type") == "BASE_TABLE"]
    (statement,) = duck.extract_statements(f"{explain} {query}" if explain else text)
    return ParsedStatement(
        statement=statement,
        tables=tuple((parts, len(parts) == 1 and parts[0].lower() in local) for parts in tables),
        lists_tables=any(node.get("type") == "SHOW_REF" and node.get("query") is None for node in nodes),
        is_deterministic=not explain and is_deterministic(duck, nodes),
    )


def _tree(duck: duckdb.DuckDBPyConnection, resolver: NameResolver, query: str) -> Any:
    ((serialized,),) = duck.execute("SELECT json_serialize_sql($1::VARCHAR)", [query]).fetchall()
    try:
        tree = json.loads(serialized)
    except RecursionError:
        raise too_deep("the statement") from None
    if tree["error"]:
        state = state_written(query)
        if state is not None:
            resolver.find(resolver.default_place, state)  # raises an error that says what to write
        raise _error_for_non_query(duck, query)
    if len(tree["statements"]) != 1:
        count = "more than one statement" if tree["statements"] else "no statement"
        raise BadRequest(f"there is {count}", hint="run one at a time")
    return tree["statements"][0]


def _error_for_non_query(duck: duckdb.DuckDBPyConnection, text: str) -> BadRequest:
    """Return the error for a statement that is no query; raises DuckDB's error if the text is no statement."""
    statements = duck.extract_statements(text)
    if len(statements) > 1:
        return BadRequest("there is more than one statement", hint="run one at a time")
    if any(statement.type == duckdb.StatementType.MULTI for statement in statements):
        hint = "PIVOT takes the values of its columns: PIVOT t ON c IN ('a', 'b') USING sum(x)"
        return BadRequest("the statement is more than one to DuckDB", hint=hint)
    return BadRequest("this statement would change something", hint=READS_ONLY)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a tree in the order of the text."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(reversed(node.values()))
        elif isinstance(node, list):
            stack.extend(reversed(node))


def _check(node: dict[str, Any]) -> None:
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _QUERIES:
        raise BadRequest("this statement would change something", hint=READS_ONLY)
    if kind == "FUNCTION" and node["function_name"].lower() in SCALARS:
        function = SCALARS[node["function_name"].lower()]
        if len(node["arguments"]) != len(function.parameters):
            raise function.error_for_arguments()
    if kind == "TABLE_FUNCTION":
        _check_table_function(node["function"]["function_name"].lower(), node["function"]["arguments"])


def _check_table_function(name: str, arguments: list[dict[str, Any]]) -> None:
    if name in FUNCTIONS:
        if not any(argument["name"] for argument in arguments):  # named arguments may be in any order
            FUNCTIONS[name].signature.check_count(len(arguments))
    elif name not in _TABLES:
        advice = "register files and other sources with Graph.register, or use a connection of Graph.duckdb()"
        hint = did_you_mean(name, [*FUNCTIONS, *_TABLES]) or advice
        raise BadRequest(f"there is no function `{name}` that gives a table", hint=hint)


def _name(node: dict[str, Any]) -> tuple[str, ...]:
    return tuple(part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part)
