"""Loads: records of any number of types, validated as one change set and published as one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import NodeType
from omnigraph_sql.errors import BadRequest, KeyConflict, ValidationFailed
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.writes.delta import Image, TableDelta, plain
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.protocol import Prepared, Provenance, TableWrite, execute
from omnigraph_sql.writes.reading import TableBatch
from omnigraph_sql.writes.validate import check, check_input_unique, check_values

LoadMode = Literal["append", "merge", "overwrite"]
T = TypeVar("T")
MODES: tuple[LoadMode, ...] = ("append", "merge", "overwrite")


@dataclass(frozen=True)
class LoadResult:
    """What a load did."""

    branch: str
    mode: LoadMode
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    commit: Commit | None
    base_branch: str | None = None
    branch_created: bool = False

    def to_dict(self) -> dict[str, Any]:
        rows = {f"node:{name}": count for name, count in self.nodes.items()}
        rows |= {f"edge:{name}": count for name, count in self.edges.items()}
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "nodes": dict(self.nodes),
            "edges": dict(self.edges),
            "tables": [{"table_key": key, "rows": count} for key, count in rows.items()],
            "commit": self.commit.to_dict() if self.commit else None,
        }


@dataclass(frozen=True)
class Incoming:
    """All records of one type, in the order of the input."""

    table_key: str
    rows: pa.Table
    lines: pa.ChunkedArray
    explicit: pa.ChunkedArray

    def line_of(self, row_id: str) -> int | None:
        at = pc.index(self.rows.column("id"), row_id).as_py()
        return None if at < 0 else int(self.lines[at].as_py())


def check_mode(mode: str) -> LoadMode:
    for known in MODES:
        if mode == known:
            return known
    raise BadRequest(f"`{mode}` is not a load mode", hint=f"use {', '.join(MODES)}")


def load(
    engine: Engine,
    batches: Iterable[TableBatch],
    *,
    mode: str,
    branch: str = "main",
    provenance: Provenance | None = None,
    mentioned: Iterable[str] = (),
) -> LoadResult:
    """Load typed batches. `mentioned` names types that an overwrite empties although they have no record."""
    prepare = prepare_load(engine, batches, mode=mode, branch=branch, mentioned=mentioned)
    outcome = execute(engine, branch, prepare, provenance or Provenance("Load"))
    return replace(outcome.result, commit=outcome.commit)


def prepare_load(
    engine: Engine, batches: Iterable[TableBatch], *, mode: str, branch: str, mentioned: Iterable[str] = ()
) -> Callable[[Snapshot], Prepared[LoadResult]]:
    """Read all records and check the rules about the input alone; the result validates them against a snapshot."""
    checked = check_mode(mode)
    incoming = collect(engine, batches, mentioned)
    lines = _Lines(incoming)
    for each in incoming.values():
        lines.run(partial(check_values, engine.type_of(each.table_key), TableDelta(each.table_key, each.rows)))
    for each in incoming.values():
        _check_input(engine, each, checked)
    result = LoadResult(branch, checked, _counts(incoming, "node:"), _counts(incoming, "edge:"), None)

    def prepare(snapshot: Snapshot) -> Prepared[LoadResult]:
        return lines.run(lambda: _prepare(engine, snapshot, incoming, checked, result))

    return prepare


def collect(engine: Engine, batches: Iterable[TableBatch], mentioned: Iterable[str] = ()) -> dict[str, Incoming]:
    parts: dict[str, list[TableBatch]] = {key: [] for key in mentioned}
    for batch in batches:
        parts.setdefault(batch.table_key, []).append(batch)
    found = {}
    for key in sorted(parts):
        from omnigraph_sql.storage.columns import table_schema

        schema = table_schema(engine.type_of(key))
        found[key] = Incoming(
            key,
            pa.Table.from_batches([part.rows for part in parts[key]], schema=schema),
            pa.chunked_array([part.lines for part in parts[key]], pa.int64()),
            pa.chunked_array([part.explicit_id for part in parts[key]], pa.bool_()),
        )
    return found


def _counts(incoming: Mapping[str, Incoming], prefix: str) -> dict[str, int]:
    return {key[5:]: each.rows.num_rows for key, each in incoming.items() if key.startswith(prefix)}


def _check_input(engine: Engine, incoming: Incoming, mode: LoadMode) -> None:
    """Rules about the input alone: repeated keys and unique tuples, repeated explicit ids."""
    type_ = engine.type_of(incoming.table_key)
    check_input_unique(type_, incoming.rows, incoming.table_key)
    keyed = isinstance(type_, NodeType) and type_.key is not None
    if mode == "merge" or keyed or not pc.any(incoming.explicit).as_py():
        return
    counted = incoming.rows.select(["id"]).group_by("id").aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    if repeated.num_rows:
        row_id = repeated.column("id")[0].as_py()
        raise KeyConflict(
            f"the id `{row_id}` of {incoming.table_key} is in the input already", table_key=incoming.table_key, id=row_id
        )


def _prepare(
    engine: Engine, snapshot: Snapshot, incoming: Mapping[str, Incoming], mode: LoadMode, result: LoadResult
) -> Prepared[LoadResult]:
    deltas: dict[str, TableDelta] = {}
    writes: list[TableWrite] = []
    for key, each in incoming.items():
        rows = _coalesce(each.rows) if mode == "merge" else each.rows
        deltas[key] = TableDelta(key, rows, overwrite=mode == "overwrite")
        empty = snapshot.entry(key).row_count == 0
        if mode == "overwrite":
            writes.append(TableWrite(key, "overwrite", rows=rows))
        elif rows.num_rows:
            writes.append(TableWrite(key, "append" if mode == "append" or empty else "merge", rows=rows))
    image = Image(engine, snapshot, deltas)
    if mode == "append":
        _check_new(image, incoming)
    check(image)
    return Prepared(tuple(writes), frozenset(image.read), result)


def _coalesce(rows: pa.Table) -> pa.Table:
    """One row per id; the last one wins and the order is kept."""
    ids = plain(rows.column("id"))
    if len(ids.unique()) == len(ids):
        return rows
    numbered = pa.table({"id": ids, "at": pa.array(range(len(ids)), pa.int64())})
    last = plain(numbered.group_by("id").aggregate([("at", "max")]).column("at_max"))
    return rows.take(last.take(pc.sort_indices(last)))


def _check_new(image: Image, incoming: Mapping[str, Incoming]) -> None:
    """Strict insert: no id may exist already."""
    for key, each in incoming.items():
        type_ = image.engine.type_of(key)
        keyed = isinstance(type_, NodeType) and type_.key is not None
        ids = each.rows.column("id") if keyed else each.rows.column("id").filter(each.explicit)
        before = Image(image.engine, image.snapshot, {})
        existing = before.committed(key, ["id"], "id", plain(ids))
        image.read |= before.read
        if existing.num_rows:
            row_id = existing.column("id")[0].as_py()
            line = each.line_of(row_id)
            text = f"{f'line {line}: ' if line else ''}the id `{row_id}` exists already in {key}"
            raise KeyConflict(text, table_key=key, id=row_id, hint="use the mode merge to replace it")


class _Lines:
    """Puts the line of a record in front of a violation that names the record."""

    def __init__(self, incoming: Mapping[str, Incoming]) -> None:
        self._incoming = incoming

    def run(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except ValidationFailed as error:
            self._raise(error)

    def _raise(self, error: ValidationFailed) -> NoReturn:
        incoming = self._incoming.get(error.table_key)
        line = incoming.line_of(error.id) if incoming is not None and error.id is not None else None
        if line is None:
            raise error
        raise ValidationFailed(
            f"line {line}: {error.message}", table_key=error.table_key, rule=error.rule, id=error.id, hint=error.hint
        ) from None
