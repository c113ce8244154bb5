"""Foreign tables as views of a DuckDB connection."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner.remote import quoted


def create_view(connection: Any, schema: str, name: str, columns: pa.Schema, select: str) -> None:
    """Make the rows of a query visible under a name."""
    _check_columns(name, columns)
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(schema, name)} AS {select}")


def create_object_view(connection: Any, schema: str, name: str, data: Any) -> None:
    """Make Arrow data, or a dataset, visible under a name; the connection holds on to it."""
    create_view(connection, schema, name, data.schema, f"SELECT * FROM {create_object(connection, schema, name, data)}")


def create_object(connection: Any, schema: str, name: str, data: Any) -> str:
    """Make Arrow data, or a dataset, known for a view of this name; how SQL names it."""
    _check_columns(name, data.schema)
    # Names of objects have no schema: it is a part of them. What had the name before is let go.
    registered = f"omnigraph foreign {schema!r} {name!r}"
    connection.register(registered, data)
    return quoted("temp", "main", registered)


def _check_columns(name: str, columns: pa.Schema) -> None:
    """DuckDB compares names without case, and would read the wrong column in silence."""
    seen: dict[str, str] = {}
    for column in columns.names:
        other = seen.setdefault(column.lower(), column)
        if other != column:
            text = f"DuckDB cannot tell the columns `{other}` and `{column}` of the foreign table `{name}` apart"
            raise BadRequest(text, hint="use the engine datafusion, or rename one of them at the source")
