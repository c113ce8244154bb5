"""Registry of the engines of one graph, for `.gq` queries and for SQL statements.

An engine is created, and its packages are imported, at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.caches import SharedPools
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.interrupt_safe_import import import_whole

if TYPE_CHECKING:
    from omnigraph_sql.explanation import Explanation
    from omnigraph_sql.foreign.locations import CsvOptions, Location
    from omnigraph_sql.result import ResultSource
    from omnigraph_sql.runtime.request import ReadEngine, ReadRequest
    from omnigraph_sql.runtime.resources import Resources
    from omnigraph_sql.sql.resolver import SqlSource
    from omnigraph_sql.sql.statement import SqlRequest


class Engines:
    """The engines of a graph that have been used, and their shared resources."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._engines: dict[str, ReadEngine] = {}

    def get(self, name: str) -> ReadEngine:
        """Return an engine, which is created at its first use."""
        engine = self._engines.get(name)
        return self._make(name) if engine is None else engine

    def _make(self, name: str) -> ReadEngine:
        make = _MAKERS.get(name)
        if make is None:
            raise unknown_engine(name)
        # Two threads that create the same engine at once both get the first one.
        return self._engines.setdefault(name, make(self.resources))


class _Runner(Protocol):
    """An engine without explanations."""

    def start(self, request: ReadRequest) -> ResultSource:
        """Run a query, and return it with its first rows read."""


EngineT = TypeVar("EngineT", bound=_Runner)
_Explain: TypeAlias = "Callable[[EngineT, ReadRequest], Explanation]"


@dataclass(frozen=True)
class _ExplainedEngine(Generic[EngineT]):
    """An engine together with the functions that explain its queries.

    These functions import the engine, not the other way round; they are imported when a query is first explained.
    """

    engine: EngineT
    import_explainers: Callable[[], tuple[_Explain[EngineT], _Explain[EngineT]]]
    """Imports and returns `explain` and `analyze`."""

    def start(self, request: ReadRequest) -> ResultSource:
        """Run a query, and return it with its first rows read."""
        return self.engine.start(request)

    def explain(self, request: ReadRequest) -> Explanation:
        """Explain how a query would run."""
        explain, _ = self.import_explainers()
        return explain(self.engine, request)

    def analyze(self, request: ReadRequest) -> Explanation:
        """Run a query to its end without keeping its rows, and explain how it ran."""
        _, analyze = self.import_explainers()
        return analyze(self.engine, request)


def _datafusion(resources: Resources) -> ReadEngine:
    import_whole("datafusion")
    from omnigraph_sql.engines.datafusion.engine import DataFusionEngine

    def import_explainers() -> tuple[_Explain[DataFusionEngine], _Explain[DataFusionEngine]]:
        from omnigraph_sql.engines.datafusion.explain import analyze, explain

        return explain, analyze

    return _ExplainedEngine(DataFusionEngine(resources), import_explainers)


def require_duckdb() -> None:
    """Raise if DuckDB is not installed."""
    try:
        import_whole("duckdb")
    except ImportError:
        text = "queries on DuckDB need the package `duckdb`, which is not installed"
        raise Configuration(text, what="duckdb", hint="run pip install 'omnigraph-sql[duckdb]'") from None


def _duckdb(resources: Resources) -> ReadEngine:
    require_duckdb()
    from omnigraph_sql.engines.duckdb.engine import DuckDBEngine

    def import_explainers() -> tuple[_Explain[DuckDBEngine], _Explain[DuckDBEngine]]:
        from omnigraph_sql.engines.duckdb.explain import analyze, explain

        return explain, analyze

    return _ExplainedEngine(DuckDBEngine(resources), import_explainers)


def _spark(resources: Resources) -> ReadEngine:
    from omnigraph_sql.engines.spark.session import require_pyspark

    require_pyspark()
    from omnigraph_sql.engines.spark.engine import SparkQueryEngine

    def import_explainers() -> tuple[_Explain[SparkQueryEngine], _Explain[SparkQueryEngine]]:
        from omnigraph_sql.engines.spark.explain import analyze, explain

        return explain, analyze

    return _ExplainedEngine(SparkQueryEngine(resources), import_explainers)


_MAKERS: dict[str, Callable[[Resources], ReadEngine]] = {"datafusion": _datafusion, "duckdb": _duckdb, "spark": _spark}


def unknown_engine(name: str, names: Iterable[str] = _MAKERS) -> BadRequest:
    """Return the error for an unknown engine name."""
    *first, last = names
    hint = did_you_mean(name, names) or f"there is {', '.join(first)} and {last}"
    return BadRequest(f"there is no engine `{name}`", hint=hint)


class StatementEngine(Protocol):
    """Runs read-only SQL statements."""

    def start(self, statement: SqlRequest) -> tuple[pa.Schema, ResultSource]:
        """Run a statement, and return it with its first rows read."""


def check_engine(engine: str) -> None:
    """Raise if SQL statements do not run on an engine."""
    if engine == "duckdb":
        require_duckdb()
    elif engine == "spark":
        text = "statements of SQL do not run on spark"
        hint = "use datafusion or duckdb; in SQL of Spark, the tables of a graph are views `using omnigraph`"
        raise BadRequest(text, hint=hint)
    elif engine != "datafusion":
        raise unknown_engine(engine, ("datafusion", "duckdb"))


def statement_engine(engine: str, source: SqlSource, pools: SharedPools) -> StatementEngine:
    """Create the runner of SQL statements on an engine. Its idle sessions are in `pools`."""
    check_engine(engine)
    if engine == "datafusion":
        from omnigraph_sql.engines.datafusion.statements import DataFusionStatements

        return DataFusionStatements(source, pools)
    from omnigraph_sql.engines.duckdb.statements import DuckDBStatements

    return DuckDBStatements(source, pools)


def infer_file_schema(location: Location, csv: CsvOptions, files: Sequence[Path]) -> pa.Schema:
    """Infer the columns of Parquet and CSV files with DataFusion, which is always installed."""
    from omnigraph_sql.engines.datafusion.foreign import infer_schema

    return infer_schema(location, csv, files)
