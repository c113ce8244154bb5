"""The functions of a graph in DuckDB: table macros over functions that return lists.

The argument types of a DuckDB function are fixed when it is created, and it cannot return a table. So the arguments are
passed as JSON, which distinguishes texts from lists, and the rows are returned as a list of structs, which a macro unnests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.duckdb.engine import create_function
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.sql.functions import FUNCTIONS, SCALARS, ScalarFunction, TableFunction
from omnigraph_sql.sql.resolver import NameResolver
from omnigraph_sql.sql.signatures import REQUIRED
from omnigraph_sql.sqltext.identifiers import quoted


@dataclass
class CurrentResolver:
    """The resolver of the current statement. It has no reference to the connection, which could not be freed otherwise."""

    resolver: NameResolver


def create_functions(duck: duckdb.DuckDBPyConnection, current: CurrentResolver, prefixes: tuple[str, ...]) -> None:
    """Create or replace the functions of a graph, except those whose columns depend on the arguments."""
    hidden = hidden_prefix(prefixes)
    for function in FUNCTIONS.values():
        if function.columns is not None:
            _create_table(duck, current, function, hidden, prefixes)
    for scalar in SCALARS.values():
        for prefix in prefixes:
            texts = [pa.string()] * len(scalar.parameters)
            create_scalar(duck, f"{prefix}{scalar.name}", _scalar_call(current, scalar), texts, scalar.result)


def hidden_prefix(prefixes: tuple[str, ...]) -> str:
    """Return the beginning of the names of functions that only macros call."""
    return f"__omnigraph_{prefixes[-1]}"


def _create_table(
    duck: duckdb.DuckDBPyConnection,
    current: CurrentResolver,
    function: TableFunction,
    hidden: str,
    prefixes: tuple[str, ...],
) -> None:
    assert function.columns is not None
    rows = pa.list_(pa.struct(list(function.columns)))
    inner = f"{hidden}{function.name}"
    create_scalar(duck, inner, _table_call(current, function, rows), [pa.string()], rows)
    create_macro(duck, function, prefixes, f"SELECT {rows_of(inner, call_of(function))}")


def create_macro(duck: duckdb.DuckDBPyConnection, function: TableFunction, prefixes: tuple[str, ...], query: str) -> None:
    """Create or replace the macro that a function is called by."""
    parameters = [f"{quoted(p.name)}{'' if p.default is REQUIRED else ' := NULL'}" for p in function.parameters]
    for prefix in prefixes:
        duck.execute(
            f"CREATE OR REPLACE TEMP MACRO {quoted(prefix + function.name)}({', '.join(parameters)}) AS TABLE {query}"
        )


def call_of(function: TableFunction) -> str:
    """Return the arguments of a call as one text, inside of a macro."""
    return f"json_array({', '.join(quoted(parameter.name) for parameter in function.parameters)})"


def rows_of(function: str, call: str) -> str:
    """Return the expression for the rows of a function that returns a list of structs."""
    return f"unnest({quoted(function)}({call}), max_depth := 2)"


def create_scalar(
    duck: duckdb.DuckDBPyConnection, name: str, run: Callable[..., pa.Array], texts: list[pa.DataType], result: pa.DataType
) -> None:
    with suppress(duckdb.InvalidInputException):  # there is no function of this name
        duck.remove_function(name)
    create_function(duck, name, run, texts, result)


def _table_call(current: CurrentResolver, function: TableFunction, kind: pa.DataType) -> Callable[..., pa.Array]:
    def run(calls: pa.Array) -> pa.Array:
        resolver = current.resolver
        try:
            resolver.confirm()
            return pa.array([_records(function.rows(resolver, json.loads(call))) for call in calls.to_pylist()], kind)
        except OmnigraphError as error:
            resolver.fail(error)
            raise

    return run


def _scalar_call(current: CurrentResolver, function: ScalarFunction) -> Callable[..., pa.Array]:
    def run(*arguments: pa.Array) -> pa.Array:
        resolver = current.resolver
        try:
            return function.run(resolver, *arguments)
        except OmnigraphError as error:
            resolver.fail(error)
            raise

    return run


def _records(rows: pa.Table) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = rows.to_pylist()
    return records
