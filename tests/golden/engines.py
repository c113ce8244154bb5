"""What runs the `read` blocks. Each engine of the list runs every block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import omnigraph_sql as og
from omnigraph_compiler import compile_query
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

    def read(
        self, graph: og.Graph, target: Target, source: str, name: str | None, params: Mapping[str, Any] | None
    ) -> Reading: ...


Evaluator = Callable[[OracleGraph, str, str | None, Mapping[str, Any] | None], Answer]


@dataclass
class OnRecords:
    """Runs queries in plain Python on the records that a graph exports."""

    name: str
    evaluate: Evaluator
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
    """The engine itself."""

    name: str = "datafusion"

    def read(
        self, graph: og.Graph, target: Target, source: str, name: str | None, params: Mapping[str, Any] | None
    ) -> Reading:
        found = graph.query(source, name, params, branch=target.branch, version=target.version, snapshot=target.commit)
        query = compile_query(graph.catalog, source, name)
        return Reading([f"{item.name}: {item.type}" for item in query.columns], found.to_json())


ENGINES: list[Engine] = [OnRecords("oracle", evaluate), OnRecords("plan", run_plan), OnDataFusion()]
