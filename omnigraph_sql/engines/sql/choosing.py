"""The engines that run SQL statements, by name. Their packages are imported when one is first asked for."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from omnigraph_sql.engines.choosing import require_duckdb, unknown_engine
from omnigraph_sql.engines.sql.orders import Statement
from omnigraph_sql.engines.sql.pins import Source
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.result import Source as Rows


class Statements(Protocol):
    """Runs statements that only read."""

    def start(self, statement: Statement) -> tuple[pa.Schema, Rows]:
        """Run a statement until its first rows are there."""

    def close(self) -> None:
        """Let go of what is kept for the next statements."""


def statements_of(engine: str, source: Source) -> Statements:
    """What runs statements on an engine."""
    if engine == "datafusion":
        from omnigraph_sql.engines.sql.statement import DataFusionStatements

        return DataFusionStatements(source)
    if engine == "duckdb":
        require_duckdb()
        from omnigraph_sql.engines.sql.duck.statement import DuckDBStatements

        return DuckDBStatements(source)
    if engine == "spark":
        text = "statements of SQL do not run on spark"
        hint = "use datafusion or duckdb; in SQL of Spark, the tables of a graph are views `using omnigraph`"
        raise BadRequest(text, hint=hint)
    raise unknown_engine(engine, ("datafusion", "duckdb"))
