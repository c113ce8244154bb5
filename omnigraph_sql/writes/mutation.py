"""Mutations: statements in order, each seeing what the earlier ones did, published as one commit or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType, Query, entity_id, ir
from omnigraph_sql import ulid
from omnigraph_sql.arguments import shown
from omnigraph_sql.embeddings import Embeddings, fill
from omnigraph_sql.errors import BadRequest, PreconditionFailed, ResourceLimit, ValidationFailed
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.runtime.parameters import bind_parameters
from omnigraph_sql.storage.columns import vector_bytes
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import NODE, TableKey
from omnigraph_sql.writes.checks.pending_graph import PendingGraph, TableDelta, TableRows, distinct, plain
from omnigraph_sql.writes.checks.validation import check
from omnigraph_sql.writes.mutation_values import evaluate, outdated_vectors, rows_table, stored
from omnigraph_sql.writes.operation import (
    Append,
    Delete,
    Merge,
    PreparedWrite,
    Provenance,
    Selection,
    TableWrite,
)
from omnigraph_sql.writes.predicates import Condition, predicate
from omnigraph_sql.writes.protocol import execute, find_replay

ROW_LIMIT = 8192
BYTE_LIMIT = 32 << 20


@dataclass(frozen=True)
class MutationResult:
    """The number of nodes and edges a mutation touched, and the commit it made; None when it changed nothing."""

    affected_nodes: int
    """Nodes that were inserted, updated or deleted."""
    affected_edges: int
    """Edges that were inserted, updated or deleted."""
    commit: Commit | None = None
    """The published commit; None if nothing changed."""
    replayed: bool = False
    """True if the idempotency key was published before; then nothing was touched, and `commit` is that first commit."""


@dataclass(kw_only=True)
class MutationStaging:
    """Pending effects of the statements so far."""

    store: GraphStore
    snapshot: Snapshot
    embeddings: Embeddings | None = None
    """The provider of vectors; None when embedding is off."""
    pending: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Rows by table and id; the last one wins."""
    merges: set[str] = field(default_factory=set)
    """Tables with rows that replace committed ones."""
    deletes: dict[str, pa.Array] = field(default_factory=dict)
    inserted: int = 0
    nodes: int = 0
    edges: int = 0
    reads: set[str] = field(default_factory=set)
    selections: list[Selection] = field(default_factory=list)

    def put(self, key: str, row: dict[str, Any], *, replaces: bool) -> None:
        rows = self.pending.setdefault(key, {})
        rows.pop(row["id"], None)
        rows[row["id"]] = row
        if replaces:
            self.merges.add(key)
        if len(rows) > ROW_LIMIT:
            text = f"a mutation may touch {ROW_LIMIT} rows of {key}"
            raise ResourceLimit(text, resource="rows", limit=ROW_LIMIT, actual=len(rows), hint="use a load")


def mutate(
    store: GraphStore,
    query: Query,
    params: Mapping[str, Any] | None,
    *,
    branch: str = "main",
    actor: str | None = None,
    if_commit: str | None = None,
    message: str | None = None,
    idempotency_key: str | None = None,
    embeddings: Embeddings | None = None,
    retries: int = 0,
    ignore_unknown: bool = False,
) -> MutationResult:
    """Run a compiled mutation; `embeddings` computes the vectors that it leaves out.

    When others have changed the rows that it chose, it is evaluated anew at most `retries` times.
    """
    _check_retries(retries)
    plan, prepare = prepare_mutation(store, query, params, embeddings, ignore_unknown=ignore_unknown)
    provenance = Provenance("Mutation", actor, message, idempotency_key)
    commit = find_replay(store, branch, provenance)
    if commit is not None:
        return MutationResult(0, 0, commit, replayed=True)
    outcome = execute(
        store,
        branch,
        prepare,
        provenance,
        lambda snapshot: _check_commit(snapshot, if_commit),
        retries=retries,
        tables=_tables(plan),
    )
    if outcome.replayed:
        return MutationResult(0, 0, outcome.commit, replayed=True)
    return MutationResult(outcome.result.affected_nodes, outcome.result.affected_edges, outcome.commit)


def prepare_mutation(
    store: GraphStore,
    query: Query,
    params: Mapping[str, Any] | None,
    embeddings: Embeddings | None,
    *,
    ignore_unknown: bool = False,
) -> tuple[ir.WritePlan, Callable[[Snapshot], PreparedWrite[MutationResult]]]:
    """The plan of a mutation, and the function that evaluates it on a snapshot."""
    plan = query.plan
    if not isinstance(plan, ir.WritePlan):
        raise BadRequest(f"`{query.name}` is a read, not a mutation", hint="run it as a query")
    bound = bind_parameters(query, params, ignore_unknown=ignore_unknown)

    def prepare(snapshot: Snapshot) -> PreparedWrite[MutationResult]:
        staging = MutationStaging(store=store, snapshot=snapshot, embeddings=embeddings)
        for statement in plan.statements:
            _run(staging, statement, bound)
        return _finish(staging)

    return plan, prepare


def _check_retries(retries: object) -> None:
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise BadRequest(f"`retries` takes a whole number from 0 on, not {shown(retries)}", hint="use for example retries=3")


def _tables(plan: ir.WritePlan) -> set[str]:
    """The tables that the statements name; a removed node may take edges of others with it."""
    return {
        TableKey.of(NODE if isinstance(statement, ir.Update) else statement.type_kind, statement.type)
        for statement in plan.statements
    }


def _check_commit(snapshot: Snapshot, if_commit: str | None) -> None:
    if if_commit is not None and snapshot.commit_id != if_commit:
        text = f"branch `{snapshot.branch}` is at commit {snapshot.commit_id}, not {if_commit}"
        raise PreconditionFailed(text, expected=if_commit, actual=snapshot.commit_id, hint="read again and decide anew")


def _run(staging: MutationStaging, statement: ir.Insert | ir.Update | ir.Delete, params: Mapping[str, Any]) -> None:
    match statement:
        case ir.Insert():
            _insert(staging, statement, params)
        case ir.Update():
            _update(staging, statement, params)
        case ir.Delete():
            _delete(staging, statement, params)


def _finish(staging: MutationStaging) -> PreparedWrite[MutationResult]:
    store = staging.store
    deltas: dict[str, TableDelta] = {}
    writes: list[TableWrite] = []
    for key, rows in staging.pending.items():
        _check_size(key, len(rows) * vector_bytes(store.type_of(key)))  # before there is a table of them
        table = rows_table(store.type_of(key), list(rows.values()))
        if staging.embeddings is not None:
            table = fill(store.type_of(key), table, staging.embeddings)
        _check_size(key, table.nbytes)
        deltas[key] = TableDelta(key, TableRows.of(table))
        writes.append((Merge if key in staging.merges else Append)(key, deltas[key].rows))
    for key, ids in staging.deletes.items():
        if len(ids):
            deltas[key] = TableDelta(key, TableRows.of(_no_rows(store, key)), removed=ids)
            writes.append(Delete(key, ids))
    image = PendingGraph(store, staging.snapshot, deltas)
    check(image)
    result = MutationResult(staging.nodes, staging.edges)
    return PreparedWrite(
        writes=tuple(writes),
        reads=frozenset(image.read | staging.reads),
        result=result,
        selections=tuple(staging.selections),
    )


def _check_size(key: str, size: int) -> None:
    if size > BYTE_LIMIT:
        text = f"a mutation may hold {BYTE_LIMIT} bytes of {key}"
        raise ResourceLimit(text, resource="bytes", limit=BYTE_LIMIT, actual=size, hint="use a load")


def _no_rows(store: GraphStore, key: str) -> pa.Table:
    return rows_table(store.type_of(key), [])


# Statements ------------------------------------------------------------------------------------------------------


def _insert(staging: MutationStaging, statement: ir.Insert, params: Mapping[str, Any]) -> None:
    key = TableKey.of(statement.type_kind, statement.type)
    type_ = staging.store.type_of(key)
    values = {assignment.property: evaluate(assignment.value, params) for assignment in statement.assignments}
    row: dict[str, Any] = {}
    for prop in type_.properties.values():
        value = values.get(prop.name, prop.default)
        if value is None and not prop.type.nullable and prop.name not in values:
            if prop.embed is None or staging.embeddings is None:
                text = f"missing required property `{type_.name}.{prop.name}`"
                hint = "no embedding provider is configured; supply the vector" if prop.embed else None
                raise ValidationFailed(text, table_key=key, rule="required", hint=hint)
            row[prop.name] = None  # computed from its text when all statements have run
            continue
        row[prop.name] = stored(f"{type_.name}.{prop.name}", prop.type, value)
    if isinstance(type_, EdgeType):
        row |= {"id": ulid.new(), "src": _end_id(values["from"]), "dst": _end_id(values["to"])}
        _require_ends(key, row)
        staging.edges += 1
        staging.put(key, row, replaces=False)
        return
    staging.nodes += 1
    derived = _node_id(type_, row)
    row["id"] = ulid.new() if derived is None else derived
    staging.put(key, row, replaces=type_.key is not None)


def _require_ends(key: str, row: Mapping[str, Any]) -> None:
    for end, name in (("src", "from"), ("dst", "to")):
        if row[end] is None:
            raise ValidationFailed(f"`{name}` of {key} cannot be null", table_key=key, rule="required")


def _node_id(node: NodeType, row: Mapping[str, Any]) -> str | None:
    for name in node.key or ():
        if row[name] is None:
            text = f"the @key property `{node.name}.{name}` is null"
            raise ValidationFailed(text, table_key=TableKey.of_type(node), rule="key")
    return entity_id(node, {name: row[name] for name in node.key or ()})


def _update(staging: MutationStaging, statement: ir.Update, params: Mapping[str, Any]) -> None:
    key = TableKey.of_node(statement.type)
    type_ = staging.store.type_of(key)
    condition = _condition(statement.predicate, params)
    changes = {
        assignment.property: stored(
            f"{type_.name}.{assignment.property}", assignment.type, evaluate(assignment.value, params)
        )
        for assignment in statement.assignments
    }
    if staging.embeddings is not None:
        changes |= outdated_vectors(type_, changes)
    for row in _matching(staging, key, condition):
        staging.nodes += 1
        staging.put(key, {**row, **changes}, replaces=True)


def _condition(compare: ir.Compare, params: Mapping[str, Any]) -> Condition:
    assert isinstance(compare.left, ir.PropertyRef)
    column = {"from": "src", "to": "dst"}.get(compare.left.property, compare.left.property)
    value = evaluate(compare.right, params)
    return predicate(column, compare.left.type, compare.op, _end_id(value) if column in ("src", "dst") else value)


def _end_id(value: Any) -> Any:
    """The id of a node that an edge names by the integer that is its key."""
    return str(value) if isinstance(value, int) else value


def _matching(staging: MutationStaging, key: str, condition: Condition) -> list[dict[str, Any]]:
    """Committed and pending rows that satisfy a condition; a pending row hides the committed one of its id."""
    pending = staging.pending.get(key, {})
    chosen = _scan(staging, key, condition.scan)
    staging.selections.append(Selection(key, condition.scan, pa.array([row["id"] for row in chosen], pa.string())))
    committed = [row for row in chosen if row["id"] not in pending]
    if not pending:
        return committed
    type_ = staging.store.type_of(key)
    table = rows_table(type_, list(pending.values()))
    plain_columns = [name for name in table.column_names if name == "id" or not type_.properties[name].type.is_blob]
    hits = table.select(plain_columns).filter(condition.expression).column("id").to_pylist()
    return committed + [pending[row_id] for row_id in hits]


def _scan(staging: MutationStaging, key: str, condition: pc.Expression | str) -> list[dict[str, Any]]:
    entry = staging.snapshot.entry(key)
    staging.reads.add(key)
    handle = staging.store.storage.open(entry)
    rows: list[dict[str, Any]] = []
    for batch in staging.store.storage.scan(handle, None, condition):
        rows += batch.to_pylist()
        if len(rows) > ROW_LIMIT:
            text = f"a mutation may touch {ROW_LIMIT} rows of {key}"
            raise ResourceLimit(text, resource="rows", limit=ROW_LIMIT, actual=len(rows), hint="use a load")
    return rows


def _delete(staging: MutationStaging, statement: ir.Delete, params: Mapping[str, Any]) -> None:
    key = TableKey.of(statement.type_kind, statement.type)
    condition = _condition(statement.predicate, params).scan
    ids = _scan_ids(staging, key, condition)
    staging.selections.append(Selection(key, condition, ids))
    _remove_entities(staging, key, ids)


def prepare_removal(store: GraphStore, key: TableKey, ids: pa.Array) -> Callable[[Snapshot], PreparedWrite[MutationResult]]:
    """The function that removes entities by their ids, nodes with their edges, from a snapshot that has them."""

    def prepare(snapshot: Snapshot) -> PreparedWrite[MutationResult]:
        staging = MutationStaging(store=store, snapshot=snapshot)
        _remove_entities(staging, key, ids)
        return _finish(staging)

    return prepare


def _remove_entities(staging: MutationStaging, key: TableKey, ids: pa.Array) -> None:
    """Remove entities; nodes take their edges with them."""
    _remove(staging, key, ids)
    if key.is_edge:
        return
    for edge in staging.store.catalog.edges.values():
        ends = [end for end, node in (("src", edge.source), ("dst", edge.target)) if node == key.name]
        for end in ends:
            edges = TableKey.of_edge(edge.name)
            staging.reads.add(edges)
            if len(ids):
                _remove(staging, edges, _scan_ids(staging, edges, pc.field(end).isin(ids)))


def _scan_ids(staging: MutationStaging, key: str, condition: pc.Expression | str) -> pa.Array:
    entry = staging.snapshot.entry(key)
    staging.reads.add(key)
    handle = staging.store.storage.open(entry)
    return plain(staging.store.storage.scan(handle, ["id"], condition).read_all().column("id"))


def _remove(staging: MutationStaging, key: str, ids: pa.Array) -> None:
    """Add ids to what is removed; an entity counts once however many statements match it."""
    before = staging.deletes.get(key, pa.array([], pa.string()))
    after = distinct([before, ids])
    staging.deletes[key] = after
    if TableKey(key).is_node:
        staging.nodes += len(after) - len(before)
    else:
        staging.edges += len(after) - len(before)
