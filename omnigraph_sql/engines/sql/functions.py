"""The functions of a graph in SQL, apart from any engine: arguments in, rows of Arrow out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.engines.sql.arguments import Parameter, Signature
from omnigraph_sql.engines.sql.information import KEYS, keys_table
from omnigraph_sql.engines.sql.names import Place, Ref
from omnigraph_sql.engines.sql.pins import Pins, unknown
from omnigraph_sql.engines.sql.walking import degrees, expanded, fewest_hops
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.journal import Commit

_INSTANT = pa.timestamp("us", "UTC")
_REF = Parameter("ref", "ref", None)
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class TableFunction:
    """A function whose result is a table."""

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    run: Callable[[Pins, Arguments], pa.Table]
    columns: pa.Schema | None = None
    """None if they depend on the arguments."""

    @property
    def signature(self) -> Signature:
        return Signature(self.name, self.parameters)

    def rows(self, pins: Pins, given: list[Any]) -> pa.Table:
        """The rows for some arguments."""
        return self.run(pins, self.signature.bound(given))


@dataclass(frozen=True)
class ScalarFunction:
    """A function of the values of a row. All its arguments are texts."""

    name: str
    about: str
    parameters: tuple[str, ...]
    result: pa.DataType
    run: Callable[..., pa.Array] = field(repr=False)

    def misused(self) -> BadRequest:
        """The error of a call with other arguments than it takes."""
        text = f"{self.name} takes {len(self.parameters)} arguments, all of them texts"
        return BadRequest(text, hint=f"write {self.name}({', '.join(self.parameters)})")


# About the graph


def _branches(pins: Pins, _: Arguments) -> pa.Table:
    rows = []
    for name in pins.branches():
        snapshot = pins.snapshot(Ref(name))
        head = snapshot.head
        rows.append(
            {
                "name": name,
                "graph_commit_id": snapshot.commit_id,
                "manifest_version": snapshot.manifest_version,
                "created_at": None if head is None else head.created_at,
                "actor_id": None if head is None else head.actor_id,
                "message": None if head is None else head.message,
            }
        )
    return pa.Table.from_pylist(rows, _BRANCHES)


_BRANCHES = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("graph_commit_id", pa.string()),
        pa.field("manifest_version", pa.int64()),
        pa.field("created_at", _INSTANT),
        pa.field("actor_id", pa.string()),
        pa.field("message", pa.string()),
    ]
)


def _commits(pins: Pins, given: Arguments) -> pa.Table:
    branch = given["branch"] or pins.own.branch
    return pa.Table.from_pylist([_commit(each) for each in pins.source.commits(branch)], _COMMITS)


def _commit(commit: Commit) -> dict[str, Any]:
    return {name: value for name, value in commit.to_dict().items() if name in _COMMITS.names}


_COMMITS = pa.schema(
    [
        pa.field("graph_commit_id", pa.string()),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.int64()),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("actor_id", pa.string()),
        pa.field("created_at", _INSTANT),
        pa.field("message", pa.string()),
        pa.field("idempotency_key", pa.string()),
    ]
)


def _keys(pins: Pins, given: Arguments) -> pa.Table:
    return keys_table(pins, Place(given["ref"] or pins.own))


def _changes(pins: Pins, given: Arguments) -> pa.Table:
    return pins.source.changes(pins.snapshot(given["start"]), pins.snapshot(given["end"] or pins.own))


CHANGES = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("type_name", pa.string()),
        pa.field("id", pa.string()),
        pa.field("op", pa.string()),
        pa.field("src", pa.string()),
        pa.field("dst", pa.string()),
    ]
)


# Queries, walks and searches


def _gq(pins: Pins, given: Arguments) -> pa.Table:
    text, name = pins.source.named(given["query"])
    return pins.source.query(text, name, given["params"], pins.snapshot(given["ref"])).to_arrow()


def _expand(pins: Pins, given: Arguments) -> pa.Table:
    edge = _edge(pins, given["edge"])
    least, most = given["min"], given["max"] or given["min"]
    if most < least:
        raise BadRequest(f"expand goes at least {least} and at most {most} hops", hint="`max` must not be below `min`")
    scope = pins.source.scope(pins.snapshot(given["ref"]))
    found = expanded(scope, edge, given["direction"], given["ids"], least, most)
    return pa.table(found, schema=_EXPANDED)


_EXPANDED = pa.schema([pa.field("start", pa.string()), pa.field("id", pa.string())])
_DISTANCES = pa.schema([pa.field("id", pa.string()), pa.field("distance", pa.float64())])
_SCORES = pa.schema([pa.field("id", pa.string()), pa.field("score", pa.float64())])


def _nearest(pins: Pins, given: Arguments) -> pa.Table:
    node = _node(pins, given["type"])
    vector = _property(node, given["property"], "vector")
    ranked = f"nearest($x.{vector}, $q)"
    text = (
        f"query nearest($q: {_query_type(node, vector, given['vector'])}) {{ match {{ $x: {node.name} }} "
        f"return {{ $x as id, {ranked} as distance }} order {{ {ranked} }} limit {given['k']} }}"
    )
    return _ranked(pins, given, text, {"q": given["vector"]}, _DISTANCES)


def _bm25(pins: Pins, given: Arguments) -> pa.Table:
    node = _node(pins, given["type"])
    ranked = f"bm25($x.{_property(node, given['property'], 'text')}, $q)"
    text = (
        f"query bm25($q: String) {{ match {{ $x: {node.name} }} "
        f"return {{ $x as id, {ranked} as score }} order {{ {ranked} }} limit {given['k']} }}"
    )
    return _ranked(pins, given, text, {"q": given["text"]}, _SCORES)


def _rrf(pins: Pins, given: Arguments) -> pa.Table:
    node = _node(pins, given["type"])
    vector = _property(node, given["vector_property"], "vector")
    words = _property(node, given["text_property"], "text")
    ranked = f"rrf(nearest($x.{vector}, $v), bm25($x.{words}, $t))"
    text = (
        f"query rrf($v: {_query_type(node, vector, given['vector'])}, $t: String) {{ match {{ $x: {node.name} }} "
        f"return {{ $x as id, {ranked} as score }} order {{ {ranked} }} limit {given['k']} }}"
    )
    return _ranked(pins, given, text, {"v": given["vector"], "t": given["text"]}, _SCORES)


def _ranked(pins: Pins, given: Arguments, text: str, params: Arguments, columns: pa.Schema) -> pa.Table:
    return pins.source.query(text, None, params, pins.snapshot(given["ref"])).to_arrow().cast(columns)


def _query_type(node: NodeType, vector: str, given: list[float] | str) -> str:
    return "String" if isinstance(given, str) else f"Vector({node.properties[vector].type.dimension})"


def _node(pins: Pins, name: str) -> NodeType:
    known = pins.source.catalog.nodes
    if name not in known:
        raise unknown("node type", name, known)
    return known[name]


def _edge(pins: Pins, name: str) -> EdgeType:
    known = pins.source.catalog.edges
    if name not in known:
        raise unknown("edge type", name, known)
    return known[name]


def _property(node: NodeType, name: str, kind: str) -> str:
    if name not in node.properties:
        raise unknown(f"property of {node.name}", name, node.properties)
    type_ = node.properties[name].type
    fits = type_.is_vector if kind == "vector" else type_.scalar == "String" and not type_.is_list
    if not fits:
        raise BadRequest(f"`{node.name}.{name}` is {type_}, not a {kind}", hint=f"name a property that is a {kind}")
    return name


_TYPE, _K = Parameter("type", "text"), Parameter("k", "count", 10)
_VECTOR, _WORDS = Parameter("vector", "vector"), Parameter("text", "text")

FUNCTIONS: dict[str, TableFunction] = {
    each.name: each
    for each in (
        TableFunction("branches", "The branches, each with its newest commit.", (), _branches, _BRANCHES),
        TableFunction(
            "commits", "The history of a branch, newest first.", (Parameter("branch", "text", None),), _commits, _COMMITS
        ),
        TableFunction(
            "changes",
            "What was inserted, updated and deleted between two states.",
            (Parameter("start", "ref"), Parameter("end", "ref", None)),
            _changes,
            CHANGES,
        ),
        TableFunction("keys", "Primary, unique and foreign keys of the types.", (_REF,), _keys, KEYS),
        TableFunction(
            "gq",
            "The rows of a .gq query: its text, or the name of one in the project's files.",
            (Parameter("query", "text"), Parameter("params", "params", {}), _REF),
            _gq,
        ),
        TableFunction(
            "expand",
            "What is within some hops along an edge type of the nodes with these ids.",
            (
                Parameter("edge", "text"),
                Parameter("ids", "ids"),
                Parameter("min", "count", 1),
                Parameter("max", "count", None),
                Parameter("direction", "direction", "out"),
                _REF,
            ),
            _expand,
            _EXPANDED,
        ),
        TableFunction(
            "nearest",
            "The nodes whose vectors are nearest to one.",
            (_TYPE, Parameter("property", "text"), _VECTOR, _K, _REF),
            _nearest,
            _DISTANCES,
        ),
        TableFunction(
            "bm25",
            "The nodes whose texts score highest for some words.",
            (_TYPE, Parameter("property", "text"), _WORDS, _K, _REF),
            _bm25,
            _SCORES,
        ),
        TableFunction(
            "rrf",
            "The best nodes by their places among the nearest and among the highest scores.",
            (
                _TYPE,
                Parameter("vector_property", "text"),
                _VECTOR,
                Parameter("text_property", "text"),
                _WORDS,
                _K,
                _REF,
            ),
            _rrf,
            _SCORES,
        ),
    )
}


# For each row


def _degree(pins: Pins, edges: pa.Array, ids: pa.Array, directions: pa.Array) -> pa.Array:
    return degrees(pins.source.scope(pins.snapshot()), lambda name: _edge(pins, name), edges, ids, directions)


def _distance(pins: Pins, edges: pa.Array, starts: pa.Array, ends: pa.Array, directions: pa.Array) -> pa.Array:
    scope = pins.source.scope(pins.snapshot())
    return fewest_hops(scope, lambda name: _edge(pins, name), edges, starts, ends, directions)


SCALARS: dict[str, ScalarFunction] = {
    each.name: each
    for each in (
        ScalarFunction(
            "degree",
            "How many neighbours a node has along an edge type; null for an id that is not there.",
            ("edge", "id", "direction"),
            pa.int64(),
            _degree,
        ),
        ScalarFunction(
            "distance",
            "The fewest hops from one node to another along an edge type; null if there is no way.",
            ("edge", "start", "end", "direction"),
            pa.int64(),
            _distance,
        ),
    )
}
