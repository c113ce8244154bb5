"""The functions of a graph in SQL, independent of the engine: they take arguments and return Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.lazy_dataset import LazyDataset
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.sql.graph_functions import degrees_of, expand_ids, fewest_hops
from omnigraph_sql.sql.history_relation import HistoryDataset
from omnigraph_sql.sql.information_schema import KEYS, keys_table
from omnigraph_sql.sql.refs import SchemaRef, StateRef
from omnigraph_sql.sql.resolver import NameResolver, unknown_name
from omnigraph_sql.sql.signatures import FunctionParameter, Signature

_INSTANT = pa.timestamp("us", "UTC")
_REF = FunctionParameter("ref", "ref", None)
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class TableFunction:
    """A function whose result is a table."""

    name: str
    about: str
    parameters: tuple[FunctionParameter, ...]
    run: Callable[[NameResolver, Arguments], pa.Table | LazyDataset]
    columns: pa.Schema | None = None
    """None if they depend on the arguments."""

    @property
    def signature(self) -> Signature:
        return Signature(self.name, self.parameters)

    def rows(self, resolver: NameResolver, values: list[Any]) -> pa.Table | LazyDataset:
        """Call the function with positional arguments. A dataset reads its rows when an engine does."""
        return self.run(resolver, self.signature.bind(values))


@dataclass(frozen=True)
class ScalarFunction:
    """A function of the values of a row, whose arguments are all texts."""

    name: str
    about: str
    parameters: tuple[str, ...]
    result: pa.DataType
    run: Callable[..., pa.Array] = field(repr=False)

    def error_for_arguments(self) -> BadRequest:
        """Return the error for a call with wrong arguments."""
        text = f"{self.name} takes {len(self.parameters)} arguments, all of them texts"
        return BadRequest(text, hint=f"write {self.name}({', '.join(self.parameters)})")


# Functions that describe the graph


def _branches(resolver: NameResolver, _: Arguments) -> pa.Table:
    rows = []
    for name in resolver.branches():
        snapshot = resolver.snapshot(StateRef(name))
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


def _tags(resolver: NameResolver, _: Arguments) -> pa.Table:
    return pa.Table.from_pylist([tag.to_dict() for tag in resolver.source.tags()], _TAGS)


_TAGS = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("graph_commit_id", pa.string()),
        pa.field("branch", pa.string()),
        pa.field("manifest_version", pa.int64()),
        pa.field("created_at", _INSTANT),
        pa.field("actor_id", pa.string()),
        pa.field("message", pa.string()),
    ]
)


def _commits(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    branch = arguments["branch"] or resolver.default_state.branch
    return pa.Table.from_pylist([_commit(commit) for commit in resolver.source.commits(branch)], _COMMITS)


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


def _keys(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    return keys_table(resolver, SchemaRef(arguments["ref"] or resolver.default_state))


def _changes(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    return resolver.source.changes(
        resolver.snapshot(arguments["start"]), resolver.snapshot(arguments["end"] or resolver.default_state)
    )


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


def _merge_conflicts(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    return merge_conflicts(resolver, arguments, of_all_types=False)


def merge_conflicts(resolver: NameResolver, arguments: Arguments, *, of_all_types: bool) -> pa.Table:
    """Return the conflicts of a merge; `of_all_types` for an engine that needs to know the columns before."""
    theirs = resolver.snapshot(StateRef(arguments["source"]))
    ours = resolver.snapshot(StateRef(arguments["target"] or resolver.default_state.branch))
    return resolver.source.merge_conflicts(theirs, ours, of_all_types=of_all_types)


def history_dataset(resolver: NameResolver, arguments: Arguments) -> HistoryDataset:
    """Return the versions of the rows of a type, or of one entity."""
    type_ = history_type(resolver.source.catalog, arguments["type"])
    rows = resolver.source.history_of(type_, resolver.snapshot(arguments["ref"]))
    return HistoryDataset(rows, arguments.get("id"), resolver.fail)


def history_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """Return a type by its name; `node:T` and `edge:E` tell a node type from an edge type of its name."""
    nodes, edges = catalog.nodes, catalog.edges
    kind, colon, plain = name.partition(":")
    named: Mapping[str, NodeType | EdgeType] = {**edges, **nodes}
    if colon and kind in ("node", "edge"):
        named, name = nodes if kind == "node" else edges, plain
    if name not in named:
        raise unknown_name("type", name, named)
    return named[name]


# Queries, traversals and searches


def _gq(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    text, name = resolver.source.named(arguments["query"])
    return resolver.query_table(text, name, arguments["params"], resolver.snapshot(arguments["ref"]))


def _expand(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    edge = _edge(resolver, arguments["edge"])
    least, most = arguments["min"], arguments["max"] or arguments["min"]
    if most < least:
        raise BadRequest(f"expand goes at least {least} and at most {most} hops", hint="`max` must not be below `min`")
    scope = resolver.source.scope(resolver.snapshot(arguments["ref"]))
    columns = expand_ids(scope, edge, arguments["direction"], arguments["ids"], least, most)
    return pa.table(columns, schema=_EXPANDED)


_EXPANDED = pa.schema([pa.field("start", pa.string()), pa.field("id", pa.string())])
_DISTANCES = pa.schema([pa.field("id", pa.string()), pa.field("distance", pa.float64())])
_SCORES = pa.schema([pa.field("id", pa.string()), pa.field("score", pa.float64())])


def _nearest(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    node = _node(resolver, arguments["type"])
    vector = _property(node, arguments["property"], "vector")
    ranked = f"nearest($x.{vector}, $q)"
    text = (
        f"query nearest($q: {_query_type(node, vector, arguments['vector'])}) {{ match {{ $x: {node.name} }} "
        f"return {{ $x as id, {ranked} as distance }} order {{ {ranked} }} limit {arguments['k']} }}"
    )
    return _ranked(resolver, arguments, text, {"q": arguments["vector"]}, _DISTANCES)


def _bm25(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    node = _node(resolver, arguments["type"])
    ranked = f"bm25($x.{_property(node, arguments['property'], 'text')}, $q)"
    text = (
        f"query bm25($q: String) {{ match {{ $x: {node.name} }} "
        f"return {{ $x as id, {ranked} as score }} order {{ {ranked} }} limit {arguments['k']} }}"
    )
    return _ranked(resolver, arguments, text, {"q": arguments["text"]}, _SCORES)


def _rrf(resolver: NameResolver, arguments: Arguments) -> pa.Table:
    node = _node(resolver, arguments["type"])
    vector = _property(node, arguments["vector_property"], "vector")
    words = _property(node, arguments["text_property"], "text")
    ranked = f"rrf(nearest($x.{vector}, $v), bm25($x.{words}, $t))"
    text = (
        f"query rrf($v: {_query_type(node, vector, arguments['vector'])}, $t: String) {{ match {{ $x: {node.name} }} "
        f"return {{ $x as id, {ranked} as score }} order {{ {ranked} }} limit {arguments['k']} }}"
    )
    return _ranked(resolver, arguments, text, {"v": arguments["vector"], "t": arguments["text"]}, _SCORES)


def _ranked(resolver: NameResolver, arguments: Arguments, text: str, params: Arguments, columns: pa.Schema) -> pa.Table:
    return resolver.query_table(text, None, params, resolver.snapshot(arguments["ref"])).cast(columns)


def _query_type(node: NodeType, vector: str, query: list[float] | str) -> str:
    return "String" if isinstance(query, str) else f"Vector({node.properties[vector].type.dimension})"


def _node(resolver: NameResolver, name: str) -> NodeType:
    nodes = resolver.source.catalog.nodes
    if name not in nodes:
        raise unknown_name("node type", name, nodes)
    return nodes[name]


def _edge(resolver: NameResolver, name: str) -> EdgeType:
    edges = resolver.source.catalog.edges
    if name not in edges:
        raise unknown_name("edge type", name, edges)
    return edges[name]


def _property(node: NodeType, name: str, kind: str) -> str:
    if name not in node.properties:
        raise unknown_name(f"property of {node.name}", name, node.properties)
    type_ = node.properties[name].type
    fits = type_.is_vector if kind == "vector" else type_.scalar == "String" and not type_.is_list
    if not fits:
        raise BadRequest(f"`{node.name}.{name}` is {type_}, not a {kind}", hint=f"name a property that is a {kind}")
    return name


_TYPE, _K = FunctionParameter("type", "text"), FunctionParameter("k", "count", 10)
_VECTOR, _WORDS = FunctionParameter("vector", "vector"), FunctionParameter("text", "text")

FUNCTIONS: dict[str, TableFunction] = {
    function.name: function
    for function in (
        TableFunction("branches", "The branches, each with its newest commit.", (), _branches, _BRANCHES),
        TableFunction("tags", "The tags, each with the commit that it names.", (), _tags, _TAGS),
        TableFunction(
            "commits",
            "The history of a branch, newest first.",
            (FunctionParameter("branch", "text", None),),
            _commits,
            _COMMITS,
        ),
        TableFunction(
            "changes",
            "What was inserted, updated and deleted between two states.",
            (FunctionParameter("start", "ref"), FunctionParameter("end", "ref", None)),
            _changes,
            CHANGES,
        ),
        TableFunction(
            "merge_conflicts",
            "The conflicts that merging a branch into another one would meet.",
            (FunctionParameter("source", "text"), FunctionParameter("target", "text", None)),
            _merge_conflicts,
        ),
        TableFunction(
            "history_of",
            "Every version of the rows of a type, with its commit and its time.",
            (_TYPE, _REF),
            history_dataset,
        ),
        TableFunction(
            "entity_history",
            "Every version of one node or edge.",
            (_TYPE, FunctionParameter("id", "text"), _REF),
            history_dataset,
        ),
        TableFunction("keys", "Primary, unique and foreign keys of the types.", (_REF,), _keys, KEYS),
        TableFunction(
            "gq",
            "The rows of a .gq query: its text, or the name of one in the project's files.",
            (FunctionParameter("query", "text"), FunctionParameter("params", "params", {}), _REF),
            _gq,
        ),
        TableFunction(
            "expand",
            "What is within some hops along an edge type of the nodes with these ids.",
            (
                FunctionParameter("edge", "text"),
                FunctionParameter("ids", "ids"),
                FunctionParameter("min", "count", 1),
                FunctionParameter("max", "count", None),
                FunctionParameter("direction", "direction", "out"),
                _REF,
            ),
            _expand,
            _EXPANDED,
        ),
        TableFunction(
            "nearest",
            "The nodes whose vectors are nearest to one.",
            (_TYPE, FunctionParameter("property", "text"), _VECTOR, _K, _REF),
            _nearest,
            _DISTANCES,
        ),
        TableFunction(
            "bm25",
            "The nodes whose texts score highest for some words.",
            (_TYPE, FunctionParameter("property", "text"), _WORDS, _K, _REF),
            _bm25,
            _SCORES,
        ),
        TableFunction(
            "rrf",
            "The best nodes by their places among the nearest and among the highest scores.",
            (
                _TYPE,
                FunctionParameter("vector_property", "text"),
                _VECTOR,
                FunctionParameter("text_property", "text"),
                _WORDS,
                _K,
                _REF,
            ),
            _rrf,
            _SCORES,
        ),
    )
}

DYNAMIC = tuple(name for name, function in FUNCTIONS.items() if function.columns is None)
"""Functions whose columns depend on their arguments."""


# Scalar functions


def _degree(resolver: NameResolver, edges: pa.Array, ids: pa.Array, directions: pa.Array) -> pa.Array:
    return degrees_of(resolver.source.scope(resolver.snapshot()), lambda name: _edge(resolver, name), edges, ids, directions)


def _distance(resolver: NameResolver, edges: pa.Array, starts: pa.Array, ends: pa.Array, directions: pa.Array) -> pa.Array:
    scope = resolver.source.scope(resolver.snapshot())
    return fewest_hops(scope, lambda name: _edge(resolver, name), edges, starts, ends, directions)


SCALARS: dict[str, ScalarFunction] = {
    function.name: function
    for function in (
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
