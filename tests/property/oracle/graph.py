"""The graph a query reads: entities in plain lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph_compiler import Catalog, EdgeType, NodeType, entity_id
from tests.property.oracle.values import stored


@dataclass(frozen=True, eq=False)
class Entity:
    """A node or an edge. Dates are days, instants milliseconds, F32 values and vectors are rounded to 32 bits."""

    type: NodeType | EdgeType
    id: str
    values: Mapping[str, Any]
    source: str = ""
    target: str = ""


@dataclass
class OracleGraph:
    """All entities of one snapshot, by type."""

    catalog: Catalog
    nodes: dict[str, list[Entity]] = field(default_factory=dict)
    edges: dict[str, list[Entity]] = field(default_factory=dict)
    _generated: int = 0

    @classmethod
    def from_records(cls, catalog: Catalog, records: Iterable[str]) -> OracleGraph:
        """Read load records, such as an export. Blank lines and `//` lines are skipped."""
        graph = cls(catalog)
        for line in records:
            if line.strip() and not line.startswith("//"):
                record = json.loads(line)
                if "type" in record:
                    graph.add_node(record["type"], record.get("data", {}))
                else:
                    graph.add_edge(record["edge"], record["from"], record["to"], record.get("data", {}))
        return graph

    @classmethod
    def from_tables(
        cls, catalog: Catalog, nodes: Mapping[str, Sequence[Mapping[str, Any]]], edges: Mapping[str, Sequence[Any]]
    ) -> OracleGraph:
        """Read rows by type: properties as in a load record, `id` where there is one, `from` and `to` of an edge."""
        graph = cls(catalog)
        for name, rows in nodes.items():
            for row in rows:
                graph.add_node(name, row)
        for name, rows in edges.items():
            for row in rows:
                graph.add_edge(name, row["from"], row["to"], {k: v for k, v in row.items() if k not in ("from", "to")})
        return graph

    def add_node(self, name: str, data: Mapping[str, Any]) -> None:
        type_ = self.catalog.nodes[name]
        key = data["id"] if "id" in data else entity_id(type_, data)
        key = self._fresh() if key is None else key
        self.nodes.setdefault(name, []).append(Entity(type_, key, _values(type_, data)))

    def add_edge(self, word: str, source: str, target: str, data: Mapping[str, Any]) -> None:
        type_ = self.catalog.edge_by_word(word)
        assert type_ is not None, word
        key = data["id"] if "id" in data else self._fresh()
        self.edges.setdefault(type_.name, []).append(Entity(type_, key, _values(type_, data), source, target))

    def _fresh(self) -> str:
        self._generated += 1
        return f"{self._generated:026d}"


def _values(type_: NodeType | EdgeType, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stored(prop.type, data.get(name, prop.default)) for name, prop in type_.properties.items()}
