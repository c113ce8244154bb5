"""The operation descriptor: the columns that a query returns and the types that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omnigraph_compiler import ir
from omnigraph_compiler.query.read import ResolvedBlock
from omnigraph_compiler.schema.catalog import Catalog
from omnigraph_compiler.types import PropType


@dataclass(frozen=True, slots=True)
class Column:
    """An output column."""

    name: str
    type: PropType

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": self.name, "kind": self.type.kind}
        if self.type.is_list:
            entry["item_kind"] = self.type.item.kind
        if self.type.is_vector:
            entry["vector_dim"] = self.type.dimension
        return entry | {"nullable": self.type.nullable}


@dataclass(frozen=True, slots=True, order=True)
class Table:
    """A node or edge type; sorts nodes before edges and then by name."""

    is_edge: bool
    type_name: str

    def to_dict(self) -> dict[str, str]:
        return {"kind": "edge" if self.is_edge else "node", "type_name": self.type_name}


@dataclass(frozen=True, slots=True)
class Operation:
    """The columns that a query returns, and the types that it reads and writes."""

    result: tuple[Column, ...]
    reads: tuple[Table, ...]
    writes: tuple[Table, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "result": [column.to_dict() for column in self.result],
            "reads": [table.to_dict() for table in self.reads],
            "writes": [table.to_dict() for table in self.writes],
        }


def describe_read(block: ResolvedBlock, items: Iterable[ir.OutputItem]) -> Operation:
    return Operation(tuple(Column(item.name, item.type) for item in items), tuple(sorted(set(_reads(block)))), ())


def _reads(block: ResolvedBlock) -> Iterable[Table]:
    for binding in block.bindings:
        yield Table(False, binding.type)
    for traversal in block.traversals:
        yield Table(True, traversal.edge)
        yield Table(False, traversal.source_type)
        yield Table(False, traversal.target_type)
    for _, inner in block.negations:
        yield from _reads(inner)


def describe_write(catalog: Catalog, plan: ir.WritePlan) -> Operation:
    reads: set[Table] = set()
    writes: set[Table] = set()
    for statement in plan.statements:
        is_edge = not isinstance(statement, ir.Update) and statement.type_kind == "edge"
        target = Table(is_edge, statement.type)
        reads.add(target)
        writes.add(target)
        if isinstance(statement, ir.Insert) and is_edge:
            edge = catalog.edges[statement.type]
            reads |= {Table(False, edge.source), Table(False, edge.target)}
        if isinstance(statement, ir.Delete) and not is_edge:
            incident = {
                Table(True, edge.name) for edge in catalog.edges.values() if statement.type in (edge.source, edge.target)
            }
            reads |= incident
            writes |= incident
    return Operation((), tuple(sorted(reads)), tuple(sorted(writes)))
