"""Checks whether a statement of DuckDB is deterministic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from omnigraph_sql.sql.functions import FUNCTIONS, SCALARS

_MOMENTARY = ("current_", "local")
"""Prefixes of functions that are written like columns: `current_timestamp`."""
_consistent: set[str] = set()


def is_deterministic(duck: duckdb.DuckDBPyConnection, nodes: Iterable[dict[str, Any]]) -> bool:
    """True if a statement depends on nothing but its tables: not on random numbers, the time, or functions of the graph."""
    return all(_is_deterministic_node(duck, node) for node in nodes)


def _is_deterministic_node(duck: duckdb.DuckDBPyConnection, node: dict[str, Any]) -> bool:
    if node.get("sample") is not None or node.get("type") == "SHOW_REF":
        return False
    if node.get("type") == "COLUMN_REF" and node["column_names"][-1].lower().startswith(_MOMENTARY):
        return False
    return "function_name" not in node or node["function_name"].lower() in _functions(duck)


def _functions(duck: duckdb.DuckDBPyConnection) -> set[str]:
    """Return DuckDB's deterministic functions, looked up once; macros are left out, for DuckDB does not classify them."""
    if not _consistent:
        rows = duck.execute(
            "SELECT function_name FROM duckdb_functions() WHERE internal GROUP BY 1 "
            "HAVING bool_and(function_type = 'table' OR coalesce(stability, '') = 'CONSISTENT')"
        )
        ours = {*FUNCTIONS, *SCALARS}
        _consistent.update({"unnest", *(name.lower() for (name,) in rows.fetchall())} - ours)
    return _consistent
