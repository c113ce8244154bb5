"""Functions of a graph whose columns depend on a type, in a connection: a hidden function for the types with equal columns.

DuckDB fixes the columns of a function when it is created. `history_of` therefore is a macro over `query`, whose text a
function writes while the statement is planned: it names the hidden function of the columns. The rows of the sides of
`merge_conflicts` have the columns of all types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.duckdb.functions import (
    CurrentResolver,
    call_of,
    create_macro,
    create_scalar,
    hidden_prefix,
    rows_of,
)
from omnigraph_sql.engines.duckdb.renamed_rows import case_safe_rows, case_safe_schema
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.sql.conflict_columns import all_types, conflict_columns
from omnigraph_sql.sql.functions import FUNCTIONS, TableFunction, history_type, merge_conflicts
from omnigraph_sql.sql.history_relation import history_columns
from omnigraph_sql.sql.refs import parse_ref
from omnigraph_sql.sql.resolver import NameResolver, type_columns
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.table_keys import TableKey

_HISTORIES = ("history_of", "entity_history")
Rows = Callable[[NameResolver, list[Any]], pa.Table]
"""From the arguments of a call to its rows."""


def create_typed_functions(duck: duckdb.DuckDBPyConnection, current: CurrentResolver, prefixes: tuple[str, ...]) -> None:
    """Create or replace `merge_conflicts`, `history_of` and `entity_history`."""
    hidden = hidden_prefix(prefixes)
    types = all_types(current.resolver.source.catalog)
    names: dict[str, str] = {}
    by_columns: dict[tuple[pa.Field, ...], str] = {}
    for type_ in types:
        columns = type_columns(type_)
        same = tuple(columns)
        if same not in by_columns:
            by_columns[same] = name = f"{hidden}history_{len(by_columns)}"
            _create_rows(duck, current, name, history_columns(columns), _history)
        names[TableKey.of_type(type_)] = by_columns[same]
    for history in _HISTORIES:
        function, chooser = FUNCTIONS[history], f"{hidden}{history}"
        create_scalar(duck, chooser, _chooser(current, function, names), [pa.string()], pa.string())
        create_macro(duck, function, prefixes, f"FROM query({quoted(chooser)}({call_of(function)}))")
    function, name = FUNCTIONS["merge_conflicts"], f"{hidden}merge_conflicts"
    _create_rows(duck, current, name, conflict_columns(types), _conflicts)
    create_macro(duck, function, prefixes, f"SELECT {rows_of(name, call_of(function))}")


def _history(resolver: NameResolver, values: list[Any]) -> pa.Table:
    """The versions of the rows of a type. The values are the type, an id or null, and a state or null."""
    type_name, entity_id, state = values
    type_ = history_type(resolver.source.catalog, type_name)
    history = resolver.source.history_of(type_, resolver.snapshot(None if state is None else parse_ref(state)))
    return pa.Table.from_batches(history.batches(history.schema.names, entity_id), history.schema)


def _conflicts(resolver: NameResolver, values: list[Any]) -> pa.Table:
    return merge_conflicts(resolver, FUNCTIONS["merge_conflicts"].signature.bind(values), of_all_types=True)


def _create_rows(
    duck: duckdb.DuckDBPyConnection, current: CurrentResolver, name: str, columns: pa.Schema, rows: Rows
) -> None:
    """Create a function that returns a list of rows. Its argument is a JSON list of values."""
    kind = pa.list_(pa.struct(list(case_safe_schema(columns))))

    def listed(resolver: NameResolver, call: str) -> Any:
        return case_safe_rows(rows(resolver, json.loads(call))).to_pylist()

    create_scalar(duck, name, _each_call(current, listed, kind), [pa.string()], kind)


def _chooser(current: CurrentResolver, function: TableFunction, names: Mapping[str, str]) -> Callable[..., pa.Array]:
    """Return the function that writes the query of a call: the rows of the hidden function of the type."""

    def query(resolver: NameResolver, call: str) -> str:
        arguments = function.signature.bind(json.loads(call))
        name = names[TableKey.of_type(history_type(resolver.source.catalog, arguments["type"]))]
        state = None if arguments["ref"] is None else str(arguments["ref"])
        literal = json.dumps([arguments["type"], arguments.get("id"), state]).replace("'", "''")
        return "SELECT " + rows_of(name, f"'{literal}'")

    return _each_call(current, query, pa.string())


def _each_call(
    current: CurrentResolver, run: Callable[[NameResolver, str], Any], kind: pa.DataType
) -> Callable[..., pa.Array]:
    def calls(texts: pa.Array) -> pa.Array:
        resolver = current.resolver
        try:
            resolver.confirm()
            return pa.array([run(resolver, text) for text in texts.to_pylist()], kind)
        except OmnigraphError as error:
            resolver.fail(error)
            raise

    return calls
