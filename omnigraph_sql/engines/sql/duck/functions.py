"""The functions of a graph in DuckDB: table macros over functions that return lists.

DuckDB fixes the types of a function's arguments when it is made, and lets nobody say how many rows it returns. So arguments
come as JSON, which tells a text from a list, and rows go as a list of structs, which a macro unfolds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.duckdb import create_function
from omnigraph_sql.engines.sql.arguments import REQUIRED
from omnigraph_sql.engines.sql.duck.naming import quoted
from omnigraph_sql.engines.sql.functions import FUNCTIONS, SCALARS, ScalarFunction, TableFunction
from omnigraph_sql.engines.sql.pins import Pins
from omnigraph_sql.errors import OmnigraphError


@dataclass
class Current:
    """The states that the functions of a connection read. It does not know the connection, which could not go otherwise."""

    pins: Pins


def create_functions(duck: duckdb.DuckDBPyConnection, current: Current, prefixes: tuple[str, ...]) -> None:
    """Make the functions of a graph known, or known anew; `gq` is not among them, for its columns depend on the query."""
    hidden = f"__omnigraph_{prefixes[-1]}"
    for function in FUNCTIONS.values():
        if function.columns is not None:
            _create_table(duck, current, function, hidden, prefixes)
    for scalar in SCALARS.values():
        for prefix in prefixes:
            texts = [pa.string()] * len(scalar.parameters)
            _create(duck, f"{prefix}{scalar.name}", _values_of(current, scalar), texts, scalar.result)


def _create_table(
    duck: duckdb.DuckDBPyConnection, current: Current, function: TableFunction, hidden: str, prefixes: tuple[str, ...]
) -> None:
    assert function.columns is not None
    rows = pa.list_(pa.struct(list(function.columns)))
    inner = f"{hidden}{function.name}"
    _create(duck, inner, _rows_of(current, function, rows), [pa.string()], rows)
    given = [f"{quoted(each.name)}{'' if each.default is REQUIRED else ' := NULL'}" for each in function.parameters]
    passed = ", ".join(quoted(each.name) for each in function.parameters)
    for prefix in prefixes:
        duck.execute(
            f"CREATE OR REPLACE TEMP MACRO {quoted(prefix + function.name)}({', '.join(given)}) AS TABLE "
            f"SELECT unnest({quoted(inner)}(json_array({passed})), recursive := true)"
        )


def _create(
    duck: duckdb.DuckDBPyConnection, name: str, run: Callable[..., pa.Array], texts: list[pa.DataType], result: pa.DataType
) -> None:
    with suppress(duckdb.InvalidInputException):  # there is none to remove
        duck.remove_function(name)
    create_function(duck, name, run, texts, result)


def _rows_of(current: Current, function: TableFunction, kind: pa.DataType) -> Callable[..., pa.Array]:
    def run(given: pa.Array) -> pa.Array:
        pins = current.pins
        try:
            return pa.array([_listed(function.rows(pins, json.loads(call))) for call in given.to_pylist()], kind)
        except OmnigraphError as error:
            pins.fail(error)
            raise

    return run


def _values_of(current: Current, function: ScalarFunction) -> Callable[..., pa.Array]:
    def run(*given: pa.Array) -> pa.Array:
        pins = current.pins
        try:
            return function.run(pins, *given)
        except OmnigraphError as error:
            pins.fail(error)
            raise

    return run


def _listed(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.to_pylist()
    return found
