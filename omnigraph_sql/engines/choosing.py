"""The engines of one graph, by name. Each is made, and its packages are imported, when a query first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.orders import ReadEngine
from omnigraph_sql.engines.resources import Resources
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.importing import import_whole


class Engines:
    """The engines that were asked for, and what they share."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._made: dict[str, ReadEngine] = {}

    def get(self, name: str) -> ReadEngine:
        """An engine."""
        found = self._made.get(name)
        return self._make(name) if found is None else found

    def _make(self, name: str) -> ReadEngine:
        make = _MAKERS.get(name)
        if make is None:
            raise unknown_engine(name)
        # Of two threads that ask for the same engine first, both get the same.
        return self._made.setdefault(name, make(self.resources))


def _datafusion(resources: Resources) -> ReadEngine:
    import_whole("datafusion")
    from omnigraph_sql.engines.datafusion import QueryEngine

    return QueryEngine(resources)


def require_duckdb() -> None:
    """Raise if DuckDB is not installed."""
    try:
        import_whole("duckdb")
    except ImportError:
        text = "queries on DuckDB need the package `duckdb`, which is not installed"
        raise Configuration(text, what="duckdb", hint="run pip install 'omnigraph-sql[duckdb]'") from None


def _duckdb(resources: Resources) -> ReadEngine:
    require_duckdb()
    from omnigraph_sql.engines.duckdb import DuckEngine

    return DuckEngine(resources)


def _spark(resources: Resources) -> ReadEngine:
    from omnigraph_sql.engines.spark.session import require_pyspark

    require_pyspark()
    from omnigraph_sql.engines.spark.queries import SparkEngine

    return SparkEngine(resources)


_MAKERS: dict[str, Callable[[Resources], ReadEngine]] = {"datafusion": _datafusion, "duckdb": _duckdb, "spark": _spark}


def unknown_engine(name: str, known: Iterable[str] = _MAKERS) -> BadRequest:
    """The error of a name that no engine has."""
    *first, last = known
    hint = did_you_mean(name, known) or f"there is {', '.join(first)} and {last}"
    return BadRequest(f"there is no engine `{name}`", hint=hint)
