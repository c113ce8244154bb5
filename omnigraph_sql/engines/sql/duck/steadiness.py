"""Whether a statement of DuckDB takes about as long each time it is run over the same tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from omnigraph_sql.engines.sql.functions import FUNCTIONS, SCALARS

_MOMENTARY = ("current_", "local")
"""How the names begin of what is written as a column, and is a function: `current_timestamp`."""
_steady: set[str] = set()


def is_steady(duck: duckdb.DuckDBPyConnection, nodes: Iterable[dict[str, Any]]) -> bool:
    """Whether a statement depends on nothing but its tables: neither on chance, nor on time, nor on functions of ours."""
    return all(_is_steady(duck, node) for node in nodes)


def _is_steady(duck: duckdb.DuckDBPyConnection, node: dict[str, Any]) -> bool:
    if node.get("sample") is not None or node.get("type") == "SHOW_REF":
        return False
    if node.get("type") == "COLUMN_REF" and node["column_names"][-1].lower().startswith(_MOMENTARY):
        return False
    return "function_name" not in node or node["function_name"].lower() in _functions(duck)


def _functions(duck: duckdb.DuckDBPyConnection) -> set[str]:
    """The functions of DuckDB that always give the same; of its macros nobody says it. They are looked up once."""
    if not _steady:
        found = duck.execute(
            "SELECT function_name FROM duckdb_functions() WHERE internal GROUP BY 1 "
            "HAVING bool_and(function_type = 'table' OR coalesce(stability, '') = 'CONSISTENT')"
        )
        ours = {*FUNCTIONS, *SCALARS}
        _steady.update({"unnest", *(name.lower() for (name,) in found.fetchall())} - ours)
    return _steady
