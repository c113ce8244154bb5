"""Mutations: statements in order, each seeing what the earlier ones did, published as one commit or not at all."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import CompileError, EdgeType, NodeType, Query, bind_params, entity_id, ir
from omnigraph_sql import ulid
from omnigraph_sql.embeddings import Embeddings, fill, outdated_by
from omnigraph_sql.errors import BadRequest, PreconditionFailed, ResourceLimit, ValidationFailed
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.columns import table_key, vector_bytes
from omnigraph_sql.writes.delta import Image, TableDelta, TableRows, distinct, plain
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.operation import Prepared, Provenance, TableWrite
from omnigraph_sql.writes.predicates import Condition, predicate
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.validate import check
from omnigraph_sql.writes.values import default_value, evaluate, key_text_value, rows_table, stored

ROW_LIMIT = 8192
BYTE_LIMIT = 32 << 20


@dataclass(frozen=True)
class MutationResult:
    """How many nodes and edges a mutation touched, and the commit it made; None when it changed nothing."""

    affected_nodes: int
    affected_edges: int
    commit: Commit | None = None


@dataclass
class MutationStaging:
    """Pending effects of the statements so far."""

    engine: Engine
    snapshot: Snapshot
    embeddings: Embeddings | None = None
    """Who computes vectors; nobody when embedding is off."""
    pending: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Rows by table and id; the last one wins."""
    merges: set[str] = field(default_factory=set)
    """Tables with rows that replace committed ones."""
    deletes: dict[str, pa.Array] = field(default_factory=dict)
    inserted: int = 0
    nodes: int = 0
    edges: int = 0
    reads: set[str] = field(default_factory=set)

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
    engine: Engine,
    query: Query,
    params: Mapping[str, Any] | None,
    *,
    branch: str = "main",
    actor: str | None = None,
    if_commit: str | None = None,
    message: str | None = None,
    embeddings: Embeddings | None = None,
) -> MutationResult:
    """Run a compiled mutation; `embeddings` computes the vectors that it leaves out."""
    if not isinstance(query.plan, ir.WritePlan):
        raise BadRequest(f"`{query.name}` is a read, not a mutation", hint="run it as a query")
    plan = query.plan
    bound = bind_or_raise(query, params)

    def prepare(snapshot: Snapshot) -> Prepared[MutationResult]:
        staging = MutationStaging(engine, snapshot, embeddings)
        for statement in plan.statements:
            _run(staging, statement, bound)
        return _finish(staging, plan)

    outcome = execute(
        engine, branch, prepare, Provenance("Mutation", actor, message), lambda snapshot: _check_commit(snapshot, if_commit)
    )
    return MutationResult(outcome.result.affected_nodes, outcome.result.affected_edges, outcome.commit)


def bind_or_raise(query: Query, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters of a query, typed, with the instant of `now()` if it asks for that."""
    try:
        bound = bind_params(query, params)
    except CompileError as error:
        raise BadRequest(error.message, code=error.code, hint=error.hint) from None
    if not query.uses_now:
        return bound
    now = datetime.datetime.now(datetime.UTC)
    return bound | {ir.NOW: now.replace(microsecond=now.microsecond // 1000 * 1000)}


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


def _finish(staging: MutationStaging, plan: ir.WritePlan) -> Prepared[MutationResult]:
    engine = staging.engine
    deltas: dict[str, TableDelta] = {}
    writes: list[TableWrite] = []
    for key, rows in staging.pending.items():
        _check_size(key, len(rows) * vector_bytes(engine.type_of(key)))  # before there is a table of them
        table = rows_table(engine.type_of(key), list(rows.values()))
        if staging.embeddings is not None:
            table = fill(engine.type_of(key), table, staging.embeddings)
        _check_size(key, table.nbytes)
        deltas[key] = TableDelta(key, TableRows.of(table))
        writes.append(TableWrite(key, "merge" if key in staging.merges else "append", rows=deltas[key].rows))
    for key, ids in staging.deletes.items():
        if len(ids):
            deltas[key] = TableDelta(key, TableRows.of(_no_rows(engine, key)), removed=ids)
            writes.append(TableWrite(key, "delete", ids=ids))
    image = Image(engine, staging.snapshot, deltas)
    check(image)
    strict = any(not isinstance(statement, ir.Insert) for statement in plan.statements)
    return Prepared(
        tuple(writes), frozenset(image.read | staging.reads), MutationResult(staging.nodes, staging.edges), strict=strict
    )


def _check_size(key: str, size: int) -> None:
    if size > BYTE_LIMIT:
        text = f"a mutation may hold {BYTE_LIMIT} bytes of {key}"
        raise ResourceLimit(text, resource="bytes", limit=BYTE_LIMIT, actual=size, hint="use a load")


def _no_rows(engine: Engine, key: str) -> pa.Table:
    return rows_table(engine.type_of(key), [])


# Statements ------------------------------------------------------------------------------------------------------


def _insert(staging: MutationStaging, statement: ir.Insert, params: Mapping[str, Any]) -> None:
    key = f"{statement.type_kind}:{statement.type}"
    type_ = staging.engine.type_of(key)
    given = {each.property: evaluate(each.value, params) for each in statement.assignments}
    row: dict[str, Any] = {}
    for prop in type_.properties.values():
        value = given[prop.name] if prop.name in given else default_value(prop.type, prop.default)
        if value is None and not prop.type.nullable and prop.name not in given:
            if prop.embed is None or staging.embeddings is None:
                text = f"missing required property `{type_.name}.{prop.name}`"
                hint = "no embedding provider is configured; supply the vector" if prop.embed else None
                raise ValidationFailed(text, table_key=key, rule="required", hint=hint)
            row[prop.name] = None  # computed from its text when all statements have run
            continue
        row[prop.name] = stored(f"{type_.name}.{prop.name}", prop.type, value)
    if isinstance(type_, EdgeType):
        row |= {"id": ulid.new(), "src": given["from"], "dst": given["to"]}
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
            raise ValidationFailed(text, table_key=table_key(node), rule="key")
    return entity_id(node, {name: key_text_value(row[name]) for name in node.key or ()})


def _update(staging: MutationStaging, statement: ir.Update, params: Mapping[str, Any]) -> None:
    key = f"node:{statement.type}"
    type_ = staging.engine.type_of(key)
    condition = _condition(statement.predicate, params)
    changes = {
        each.property: stored(f"{type_.name}.{each.property}", each.type, evaluate(each.value, params))
        for each in statement.assignments
    }
    if staging.embeddings is not None:
        changes |= _outdated(type_, changes)
    for row in _matching(staging, key, condition):
        staging.nodes += 1
        staging.put(key, {**row, **changes}, replaces=True)


def _outdated(type_: NodeType | EdgeType, changes: Mapping[str, Any]) -> dict[str, None]:
    """Vectors whose text changes; they are computed anew when all statements have run.

    Without a text there is nothing to compute: a vector that may be null goes, one that is required stays.
    """
    names = outdated_by(type_, changes.keys())
    found = [prop for prop in type_.properties.values() if prop.name in names and prop.embed is not None]
    return {prop.name: None for prop in found if prop.type.nullable or changes[prop.embed.source]}  # type: ignore[union-attr]


def _condition(compare: ir.Compare, params: Mapping[str, Any]) -> Condition:
    assert isinstance(compare.left, ir.PropertyRef)
    column = {"from": "src", "to": "dst"}.get(compare.left.property, compare.left.property)
    return predicate(column, compare.left.type, compare.op, evaluate(compare.right, params))


def _matching(staging: MutationStaging, key: str, condition: Condition) -> list[dict[str, Any]]:
    """Committed and pending rows that satisfy a condition; a pending row hides the committed one of its id."""
    pending = staging.pending.get(key, {})
    committed = [row for row in _scan(staging, key, condition.scan) if row["id"] not in pending]
    if not pending:
        return committed
    type_ = staging.engine.type_of(key)
    table = rows_table(type_, list(pending.values()))
    plain_columns = [name for name in table.column_names if name == "id" or not type_.properties[name].type.is_blob]
    hits = table.select(plain_columns).filter(condition.expression).column("id").to_pylist()
    return committed + [pending[row_id] for row_id in hits]


def _scan(staging: MutationStaging, key: str, condition: pc.Expression | str) -> list[dict[str, Any]]:
    entry = staging.snapshot.entry(key)
    staging.reads.add(key)
    handle = staging.engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    rows: list[dict[str, Any]] = []
    for batch in staging.engine.storage.scan(handle, None, condition):
        rows += batch.to_pylist()
        if len(rows) > ROW_LIMIT:
            text = f"a mutation may touch {ROW_LIMIT} rows of {key}"
            raise ResourceLimit(text, resource="rows", limit=ROW_LIMIT, actual=len(rows), hint="use a load")
    return rows


def _delete(staging: MutationStaging, statement: ir.Delete, params: Mapping[str, Any]) -> None:
    key = f"{statement.type_kind}:{statement.type}"
    ids = _scan_ids(staging, key, _condition(statement.predicate, params).scan)
    _remove(staging, key, ids)
    if statement.type_kind == "edge":
        return
    for edge in staging.engine.catalog.edges.values():
        ends = [end for end, node in (("src", edge.source), ("dst", edge.target)) if node == statement.type]
        for end in ends:
            staging.reads.add(f"edge:{edge.name}")
            if len(ids):
                _remove(staging, f"edge:{edge.name}", _scan_ids(staging, f"edge:{edge.name}", pc.field(end).isin(ids)))


def _scan_ids(staging: MutationStaging, key: str, condition: pc.Expression | str) -> pa.Array:
    entry = staging.snapshot.entry(key)
    staging.reads.add(key)
    handle = staging.engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    return plain(staging.engine.storage.scan(handle, ["id"], condition).read_all().column("id"))


def _remove(staging: MutationStaging, key: str, ids: pa.Array) -> None:
    """Add ids to what is removed; an entity counts once however many statements match it."""
    before = staging.deletes.get(key, pa.array([], pa.string()))
    after = distinct([before, ids])
    staging.deletes[key] = after
    if key.startswith("node:"):
        staging.nodes += len(after) - len(before)
    else:
        staging.edges += len(after) - len(before)
