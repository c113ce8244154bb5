"""Strategies for small graphs of a schema, and for read queries that find something in them.

Graphs obey every rule of their schema, so that a store takes them. Values come from small pools that graphs, literals and
parameters share: what a query looks for is often there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from hypothesis.vendor.pretty import RepresentationPrinter

from omnigraph_compiler import Catalog, EdgeType, NodeType, Property, PropType, compile_schema, entity_id
from omnigraph_compiler.values import canonical_text, stored_scalar
from tests.property.layout import Layout
from tests.property.model import Owner, Prop, Schema, schema_tokens
from tests.property.oracle import OracleGraph
from tests.property.query_model import QueryCase, write
from tests.property.query_strategies import Style, reads
from tests.property.strategies import pick, schemas

# How many entities of a type there may be; the first choice is the one that is drawn most often.
NODES = (3, 4, 4, 2, 1, 0)
EDGES = (5, 6, 6, 3, 1, 0)
_WIDEST = 400

# Pools -----------------------------------------------------------------------------------------------------------

TEXTS = ("ship", "the ships", "a", "b", "", "Ship to shore", "café boat", "long long boat", "thé", "B", "a_b", "日本語")
_WHOLE = (0, 1, 2, 3, 5)
_BROKEN = (0.0, 0.1, 0.5, 1.0, 2.5)
_DATES = ("1970-01-01", "1969-12-31", "2020-02-29", "2020-03-01")
_MOMENTS = ("1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "2020-02-29T12:00:00.5Z", "2020-02-29T12:00:00.500999Z")
_POOLS: Mapping[str, Sequence[Any]] = {
    "String": TEXTS,
    "Bool": (True, False),
    "I32": (*_WHOLE, -1, 2**31 - 1),
    "I64": (*_WHOLE, -1, 2**53 + 1),
    "U32": (*_WHOLE, 2**32 - 1),
    "U64": (*_WHOLE, 2**53 + 1, 2**64 - 1),
    "F32": (*_BROKEN, -1.5, -0.0, 16777216.0),
    "F64": (*_BROKEN, -1.5, -0.0, 16777217.0),
    "Date": _DATES,
    "DateTime": _MOMENTS,
    "Blob": ("base64:", "base64:AQID"),
}
# Lengths that are whole numbers, so that no distance depends on the order of additions.
_VECTORS: Mapping[int, Sequence[Sequence[float]]] = {
    1: ((0,), (1,), (2,), (-3,)),
    2: ((0, 0), (1, 0), (0, 2), (3, 4), (-3, 0), (6, 8)),
    3: ((0, 0, 0), (1, 2, 2), (2, 0, 0), (0, -1, 0), (2, 3, 6)),
}


GENTLE = Style(
    st.sampled_from(TEXTS),
    st.sampled_from(_WHOLE),
    st.sampled_from(_BROKEN),
    st.sampled_from(_DATES),
    st.sampled_from(_MOMENTS),
    clauses=3,
    matches=(0, 0, 0, 1),
    limit=6,
    embeds=False,
)
"""Queries with few conditions, on values from the pools."""


def candidates(type_: PropType) -> Sequence[Any]:
    """Values of a type as JSON, null left out."""
    if type_.is_vector:
        size = type_.dimension or 0
        if size in _VECTORS:
            return [list(vector) for vector in _VECTORS[size]]
        return [[0.0] * size, [1.0] + [0.0] * (size - 1)] if size <= _WIDEST else []
    if type_.is_list:
        items = candidates(type_.item)
        return [[], [items[0]], [items[1], items[0]], [items[-1], items[-1]]]
    return type_.enum_values or _POOLS[type_.scalar]


# Graphs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphCase:
    """A graph as load records."""

    records: tuple[str, ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text("…" if cycle else "\n".join(("<graph", *self.records)) + ">")

    def oracle(self, catalog: Catalog) -> OracleGraph:
        return OracleGraph.from_records(catalog, self.records)


@st.composite
def graphs(draw: DrawFn, catalog: Catalog) -> GraphCase:
    """A small graph that the rules of the catalog allow."""
    ids: dict[str, list[str]] = {}
    records: list[dict[str, Any]] = []
    for node in catalog.nodes.values():
        rows = [row for _ in range(pick(draw, NODES)) if (row := _row(draw, node)) is not None]
        for number, row in enumerate(rows):
            if node.key is None:
                row["id"] = TEXTS[number] if number % 2 else f"n{number}"
        kept = list(_allowed(node, rows))
        ids[node.name] = [_id(node, row) for row in kept]
        records += [{"type": node.name, "data": row} for row in kept]
    for edge in catalog.edges.values():
        records += _edges(draw, edge, ids[edge.source], ids[edge.target])
    return GraphCase(tuple(json.dumps(record, ensure_ascii=False) for record in records))


def _edges(draw: DrawFn, edge: EdgeType, sources: list[str], targets: list[str]) -> list[dict[str, Any]]:
    rows = []
    for number in range(pick(draw, EDGES) if sources and targets else 0):
        row = _row(draw, edge)
        if row is not None:
            # Ids in another order than the edges.
            row |= {"id": f"e{number * 5 % 7}", "src": pick(draw, sources), "dst": pick(draw, targets)}
            rows.append(row)
    kept = list(_allowed(edge, rows))
    card = edge.cardinality
    taken: Counter[str] = Counter()
    bounded = []
    for row in kept:
        taken[row["src"]] += 1
        if card.high is None or taken[row["src"]] <= card.high:
            bounded.append(row)
    counts = Counter(row["src"] for row in bounded)
    return [
        {"edge": edge.name, "from": row.pop("src"), "to": row.pop("dst"), "data": row}
        for row in bounded
        if counts[row["src"]] >= card.low
    ]


def _row(draw: DrawFn, type_: NodeType | EdgeType) -> dict[str, Any] | None:
    """Properties of one entity, or None where there can be none: a required one has no value, or vectors take too much."""
    if any((prop.type.dimension or 0) > _WIDEST for prop in type_.properties.values()):
        return None
    row: dict[str, Any] = {}
    for prop in type_.properties.values():
        fitting = [value for value in candidates(prop.type) if _fits(type_, prop, value)]
        if prop.type.nullable:
            fitting = [None, *fitting]
        if not fitting:
            return None
        row[prop.name] = pick(draw, fitting)
    return row


def _fits(type_: NodeType | EdgeType, prop: Property, value: Any) -> bool:
    """Whether a value obeys the rules of its own property."""
    if isinstance(type_, EdgeType):
        return True
    ranges = [rule for rule in type_.ranges if rule.property == prop.name]
    checks = [rule for rule in type_.checks if rule.property == prop.name]
    return all(
        (rule.low is None or value >= rule.low) and (rule.high is None or value <= rule.high) for rule in ranges
    ) and all(pc.match_substring_regex(pa.scalar(value), rule.pattern).as_py() for rule in checks)


def _allowed(type_: NodeType | EdgeType, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows that share neither key nor unique tuple with an earlier one."""
    rules = [*type_.unique]
    if isinstance(type_, NodeType) and type_.key is not None:
        rules.append(type_.key)
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        tuples = [(number, *(_text(type_, name, row[name]) for name in rule)) for number, rule in enumerate(rules)]
        tuples = [each for each in tuples if None not in each]
        if not seen.intersection(tuples):
            seen.update(tuples)
            yield row


def _text(type_: NodeType | EdgeType, name: str, value: Any) -> str | None:
    if value is None or (name in ("src", "dst") and name not in type_.properties):
        found: str | None = value
        return found
    prop = type_.properties[name].type
    return canonical_text(prop, stored_scalar(prop, value))


def _id(node: NodeType, row: Mapping[str, Any]) -> str:
    found = row["id"] if node.key is None else entity_id(node, row)
    assert isinstance(found, str)
    return found


# Queries on graphs -----------------------------------------------------------------------------------------------


@st.composite
def arguments(draw: DrawFn, params: Mapping[str, PropType]) -> dict[str, Any]:
    """Values for declared parameters. A nullable one is sometimes null or absent."""
    given: dict[str, Any] = {}
    for name, type_ in params.items():
        options = list(candidates(type_))
        if type_.nullable:
            options.append(None)
        assume(options)
        value = pick(draw, options)
        if value is not None or draw(st.booleans()):
            given[name] = value
    return given


@dataclass(frozen=True)
class ReadCase:
    """A schema, a graph of it, and a read query with its arguments."""

    schema: Schema
    catalog: Catalog
    graph: GraphCase
    query: QueryCase
    params: Mapping[str, Any]

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        if cycle:
            printer.text("…")
            return
        schema = " ".join(schema_tokens(self.schema))
        printer.text("\n".join((schema, *self.graph.records, write(self.query), json.dumps(self.params))))

    @property
    def text(self) -> str:
        return write(self.query)


WORLD = Schema(
    (
        Owner(
            "node",
            "Port",
            (
                Prop("code", PropType("String")),
                Prop("title", PropType("String", True)),
                Prop("depth", PropType("F64", True)),
                Prop("half", PropType("F32", True)),
                Prop("crew", PropType("I32", True)),
                Prop("open", PropType("Bool", True)),
                Prop("opened", PropType("Date", True)),
                Prop("kind", PropType("String", enum_values=("river", "sea"))),
                Prop("tags", PropType("String", True, is_list=True)),
                Prop("v", PropType("Vector", True, dimension=2)),
            ),
            key=("code",),
        ),
        Owner(
            "node",
            "Ship",
            (
                Prop("name", PropType("String")),
                Prop("crew", PropType("U64", True)),
                Prop("at", PropType("DateTime", True)),
                Prop("c", PropType("Vector", True, dimension=2), metric="cosine"),
            ),
        ),
        Owner(
            "edge",
            "Lane",
            (Prop("nm", PropType("I32", True)), Prop("note", PropType("String", True))),
            source="Port",
            target="Port",
        ),
        Owner("edge", "Visited", (Prop("year", PropType("I64")),), source="Ship", target="Port"),
        Owner("edge", "Tows", source="Ship", target="Ship"),
    )
)
"""A schema in which most things can be connected and compared."""


@st.composite
def read_cases(draw: DrawFn, worlds: SearchStrategy[Schema] | None = None) -> ReadCase:
    """A read query on a graph; three times out of four in the same schema, unless a strategy for schemas is given."""
    schema = draw(worlds if worlds is not None else st.sampled_from((True, True, True, False)).flatmap(_world))
    catalog = compile_schema(Layout().write(schema_tokens(schema)))
    query = draw(reads(schema, GENTLE))
    graph = draw(graphs(catalog))
    return ReadCase(schema, catalog, graph, query, draw(arguments(dict(query.params))))


def _world(same: bool) -> SearchStrategy[Schema]:
    return st.just(WORLD) if same else schemas(min_nodes=1)
