"""What runs the `read` blocks. Each engine of the list runs every block."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from zlib import crc32

import omnigraph_sql as og
from omnigraph_compiler import compile_query
from omnigraph_sql.choices import EngineName
from omnigraph_sql.storage.derived_files import derived_directory
from tests.property.oracle import Answer, OracleGraph, evaluate
from tests.property.plan_runner import run_plan


@dataclass(frozen=True)
class Target:
    """What is read: a branch as it is, as it was at a version, or a commit."""

    branch: str = "main"
    version: int | None = None
    commit: str | None = None


@dataclass(frozen=True)
class Reading:
    """What came out: `name: Type` of every column, and the rows as JSON objects."""

    columns: list[str]
    rows: list[dict[str, Any]]


class Engine(Protocol):
    """Runs a read query of a `.gq` text on a graph. Raises what a user would get."""

    name: str
    tables: str
    """Which tables of the graph have physical indexes: none, some or all."""

    def read(
        self, graph: og.Graph, target: Target, source: str, name: str | None, params: Mapping[str, Any] | None
    ) -> Reading: ...


Evaluator = Callable[[OracleGraph, str, str | None, Mapping[str, Any] | None], Answer]


@dataclass
class OnRecords:
    """Runs queries in plain Python on the records that a graph exports."""

    name: str
    evaluate: Evaluator
    tables: str = "none"
    _graphs: dict[tuple[str, Target], OracleGraph] = field(default_factory=dict)

    def read(
        self, graph: og.Graph, target: Target, source: str, name: str | None, params: Mapping[str, Any] | None
    ) -> Reading:
        answer = self.evaluate(self._graph(graph, target), source, name, params)
        return Reading([f"{column.name}: {column.type}" for column in answer.columns], answer.to_json())

    def _graph(self, graph: og.Graph, target: Target) -> OracleGraph:
        key = graph.uri, target
        if key not in self._graphs:
            records = graph.export(target.branch, version=target.version, commit=target.commit)
            self._graphs[key] = OracleGraph.from_records(graph.catalog, records)
        return self._graphs[key]


@dataclass
class OnDataFusion:
    """The engine itself, with everything at hand that earlier queries left."""

    name: str = "datafusion"
    mode: str = ""
    """How traversals are done; chosen by cost if it is empty."""
    tables: str = "none"
    engine: EngineName = "datafusion"

    def read(
        self, graph: og.Graph, target: Target, source: str, name: str | None, params: Mapping[str, Any] | None
    ) -> Reading:
        place: dict[str, Any] = {"branch": target.branch, "version": target.version, "snapshot": target.commit}
        with traversal_mode(self.mode):
            found = graph.query(source, name, params, **place, engine=self.engine)
        assert found.to_arrow().schema == found.schema
        query = compile_query(graph.catalog, source, name)
        return Reading([f"{item.name}: {item.type}" for item in query.columns], found.to_json())


@dataclass
class OnDuckDB(OnDataFusion):
    """The other engine, with the same things at hand."""

    name: str = "duckdb"
    engine: EngineName = "duckdb"


@dataclass
class Forgetful(OnDataFusion):
    """The engine in a graph that was just opened and has no derived files."""

    read_only: bool = False

    def read(
        self, graph: og.Graph, target: Target, source: str, name: str | None, params: Mapping[str, Any] | None
    ) -> Reading:
        derived = derived_directory(graph.uri)
        shutil.rmtree(derived, ignore_errors=True)
        with og.connect(graph.uri, read_only=self.read_only) as opened:
            found = super().read(opened, target, source, name, params)
        assert not (self.read_only and derived.exists()), "a read-only handle wrote derived files"
        return found


@contextmanager
def traversal_mode(mode: str) -> Iterator[None]:
    """Queries go through the graph in one mode, or choose by cost if it is empty."""
    before = os.environ.get("OMNIGRAPH_TRAVERSAL_MODE")
    os.environ["OMNIGRAPH_TRAVERSAL_MODE"] = mode
    try:
        yield
    finally:
        os.environ.pop("OMNIGRAPH_TRAVERSAL_MODE")
        if before is not None:
            os.environ["OMNIGRAPH_TRAVERSAL_MODE"] = before


ENGINES: list[Engine] = [OnRecords("oracle", evaluate), OnRecords("plan", run_plan), OnDataFusion(), OnDuckDB()]

WAYS: list[Engine] = [
    OnDataFusion("indexed", "indexed"),
    OnDataFusion("csr", "csr"),
    OnDataFusion("indexed with BTREEs", "indexed", tables="all"),
    OnDataFusion("with BTREEs on some tables", tables="some"),
    Forgetful("cold"),
    Forgetful("cold csr", "csr", read_only=True),
    Forgetful("cold with BTREEs", tables="all"),
]
"""Other ways to the same rows. Each block is read in one of them; in the long set, in all."""


def way_of(block_id: str) -> Engine:
    """The way that a block is read in besides the usual one: always the same, and all ways get their share."""
    return WAYS[crc32(block_id.encode()) % len(WAYS)]
