"""Rules that the merged graph would break.

Each side of a merge satisfies the schema by itself, and so does every part of the merged graph that is that of one side. A
rule between rows can therefore be broken only where rows of both sides meet, and those are all among the rows that a side
changed since the base. So nothing else is looked at, except for rows with values of their own and for counts of edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.storage.columns import blob_column, table_schema
from omnigraph_sql.storage.version_difference import portions
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.findings import AT, shown
from omnigraph_sql.writes.checks.pending_graph import distinct, plain, probe
from omnigraph_sql.writes.checks.validation import complete_tuples, value_findings
from omnigraph_sql.writes.merge.conflicts import Member, MergeConflict
from omnigraph_sql.writes.merge.frame import MergeFrame, type_key
from omnigraph_sql.writes.merge.row_states import WRITTEN, Mask, RowStates, Side

_ENDS: Final = ("src", "dst")
_NO_IDS: Final = pa.array([], pa.string())


def image_conflicts(frame: MergeFrame) -> list[MergeConflict]:
    """The conflicts of the merged graph with the schema."""
    return [*_orphans(frame), *_duplicates(frame), *_miscounted(frame), *_wrong_values(frame)]


def _rows_where(mask: Mask) -> Any:
    return np.flatnonzero(mask)


def _images(frame: MergeFrame, states: RowStates, names: list[str], mask: Mask) -> pa.Table:
    """Columns of merged rows, with their ids."""
    rows = _rows_where(mask)
    if len(rows) == 0:
        return pa.table({"id": _NO_IDS, **dict.fromkeys(names, _NO_IDS)})
    handle = states.target or states.theirs.changes.after
    assert handle is not None
    storage = frame.store.storage
    parts = [states.images(storage, ["id", *names], rows[part]) for part in portions(storage, handle, names, len(rows))]
    return pa.concat_tables(parts)


# Endpoints -----------------------------------------------------------------------------------------------------------


def _orphans(frame: MergeFrame) -> Iterator[MergeConflict]:
    """Edges one of whose nodes the other side deleted."""
    for edge in frame.types():
        if not isinstance(edge, EdgeType):
            continue
        key = type_key(edge)
        ends = dict(zip(_ENDS, (TableKey.of_node(edge.source), TableKey.of_node(edge.target)), strict=True))
        if not frame.touches(key) and not any(_loses_rows(frame, node) for node in ends.values()):
            continue
        states = frame.rows(key)
        candidates = _images(frame, states, list(_ENDS), states.is_merged)
        for end, node in ends.items():
            nodes = frame.rows(node) if candidates.num_rows else None
            if nodes is None or not len(nodes.ids):
                continue
            absent = nodes.ids.filter(pa.array(~nodes.is_merged))
            orphans = candidates.filter(pc.is_in(candidates.column(end), value_set=absent))
            for edge_id, node_id in zip(*(orphans.column(name).to_pylist() for name in ("id", end)), strict=True):
                yield _orphan(key, edge, end, node, edge_id, node_id)


def _loses_rows(frame: MergeFrame, key: TableKey) -> bool:
    if not frame.touches(key) and key not in frame.states:
        return False
    return bool(frame.rows(key).is_removed.any())


def _orphan(key: str, edge: EdgeType, end: str, node: TableKey, edge_id: str, node_id: str) -> MergeConflict:
    text = f"edge {edge.name} `{shown(edge_id)}` needs the {node.name} `{shown(node_id)}` ({end}), which one side deleted"
    return MergeConflict(
        table_key=key,
        kind="OrphanEdge",
        id=edge_id,
        properties=(end,),
        message=text,
        members=((key, edge_id), (str(node), node_id)),
    )


# Uniqueness ----------------------------------------------------------------------------------------------------------


def _duplicates(frame: MergeFrame) -> Iterator[MergeConflict]:
    """Rows of both sides with one unique tuple."""
    for type_ in frame.types():
        key = type_key(type_)
        if not type_.unique or (not frame.touches(key) and key not in frame.states):
            continue
        states = frame.rows(key)
        if not states.is_put.any():
            continue
        for columns in type_.unique:
            yield from _repeated(frame, type_, states, columns)


def _repeated(
    frame: MergeFrame, type_: NodeType | EdgeType, states: RowStates, columns: tuple[str, ...]
) -> Iterator[MergeConflict]:
    key = type_key(type_)
    names = list(dict.fromkeys(columns))
    rows = complete_tuples(_images(frame, states, names, states.is_put | states.is_kept), names)
    rows = pa.concat_tables([rows, *_strangers(frame, key, states, names)], promote_options="permissive")
    counted = rows.group_by(names).aggregate([("id", "list"), ([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    label = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    for tuple_ in repeated.to_pylist():
        ids = sorted(tuple_["id_list"])
        value = ", ".join(shown(tuple_[name]) for name in names)
        text = (
            f"@unique violation on {type_.name}.{label}: `{value}` is that of {', '.join(f'`{shown(id_)}`' for id_ in ids)}"
        )
        yield MergeConflict(
            table_key=key,
            kind="UniqueViolation",
            id=ids[-1],
            properties=tuple(names),
            message=text,
            members=tuple((str(key), row_id) for row_id in ids),
        )


def _strangers(frame: MergeFrame, key: TableKey, states: RowStates, names: list[str]) -> Iterator[pa.Table]:
    """Rows that no side changed and that share a tuple with a row that has values of its own."""
    is_written = states.outcome == WRITTEN
    entry = frame.ours.entries.get(key)
    if not is_written.any() or entry is None:
        return
    written = complete_tuples(_images(frame, states, names, is_written), names)
    storage = frame.store.storage
    handle = storage.open(entry)
    likes = plain(written.column(names[0]))
    batches = list(probe(storage, handle, entry.row_count, ["id", *names], names[0], likes))
    if not batches:
        return
    rows = complete_tuples(pa.Table.from_batches(batches).select(["id", *names]), names)
    yield rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=states.ids)))


# Cardinality ---------------------------------------------------------------------------------------------------------


def _miscounted(frame: MergeFrame) -> Iterator[MergeConflict]:
    """Sources whose edges both sides changed, and that have too few or too many of them together."""
    for edge in frame.types():
        if not isinstance(edge, EdgeType) or (edge.cardinality.low == 0 and edge.cardinality.high is None):
            continue
        key = type_key(edge)
        if not frame.touches(key) and key not in frame.states:
            continue
        states = frame.rows(key)
        sources = _met_sources(frame, edge, states)
        if len(sources):
            yield from _counted(frame, edge, states, sources)


def _met_sources(frame: MergeFrame, edge: EdgeType, states: RowStates) -> pa.Array:
    """Sources that exist, with edges that are written and edges that the target changed."""
    storage = frame.store.storage
    is_touched = states.is_put | states.is_removed
    put = plain(_images(frame, states, ["src"], states.is_put).column("src"))
    written = distinct([put, _sources(storage, states, states.ours, is_touched)])
    before = Side(
        changes=states.ours.changes,
        old=states.ours.old,
        new=states.ours.new,
        is_changed=np.zeros(len(states.ids), np.bool_),
    )
    changed = states.ours.is_changed
    ours = distinct([_sources(storage, states, states.ours, changed), _sources(storage, states, before, changed)])
    both = written.filter(pc.is_in(written, value_set=ours))
    node = TableKey.of_node(edge.source)
    if len(both) == 0:
        return both
    nodes = frame.rows(node)
    return both.filter(pc.invert(pc.is_in(both, value_set=nodes.ids.filter(pa.array(~nodes.is_merged)))))


def _sources(storage: Any, states: RowStates, side: Side, mask: Mask) -> pa.Array:
    """The sources of edges that a side has."""
    rows = _rows_where(mask & side.is_present)
    handle = states.target or states.theirs.changes.after
    if len(rows) == 0 or handle is None:
        return _NO_IDS
    parts = portions(storage, handle, ["src"], len(rows))
    return distinct([side.columns(storage, ["src"], rows[part]).column("src") for part in parts])


def _counted(frame: MergeFrame, edge: EdgeType, states: RowStates, sources: pa.Array) -> Iterator[MergeConflict]:
    key = type_key(edge)
    storage = frame.store.storage
    entry = frame.ours.entries.get(key)
    stays = _NO_IDS
    if entry is not None:
        batches = list(probe(storage, storage.open(entry), entry.row_count, ["id", "src"], "src", sources))
        if batches:
            table = pa.Table.from_batches(batches)
            touched = states.ids.filter(pa.array(states.is_put | states.is_removed))
            table = table.filter(pc.invert(pc.is_in(table.column("id"), value_set=touched)))
            stays = plain(table.column("src"))
    put = plain(_images(frame, states, ["src"], states.is_put).column("src"))
    counts: dict[str, int] = dict.fromkeys(sources.to_pylist(), 0)
    for source in pa.concat_arrays([stays, put]).to_pylist():
        if source in counts:
            counts[source] += 1
    low, high = edge.cardinality.low, edge.cardinality.high
    wrong = {source: count for source, count in counts.items() if count < low or (high is not None and count > high)}
    if not wrong:
        return
    members = _edges_of(frame, states, set(wrong))
    for source, count in sorted(wrong.items()):
        bound = f"min {low}" if count < low else f"max {high}"
        text = f"@card violation: {edge.name} from `{shown(source)}` has {count} edges, {bound}"
        rows = tuple((str(key), edge_id) for edge_id in members[source])
        yield MergeConflict(
            table_key=key, kind="CardinalityViolation", id=None, properties=("src",), message=text, members=rows
        )


def _edges_of(frame: MergeFrame, states: RowStates, sources: set[str]) -> dict[str, list[str]]:
    """The changed edges of each source, on either side."""
    edges: dict[str, set[str]] = {source: set() for source in sources}
    storage = frame.store.storage
    everything = np.ones(len(states.ids), np.bool_)
    for side in (states.ours, states.theirs):
        rows = _rows_where(everything & side.is_present)
        if len(rows) == 0:
            continue
        table = side.columns(storage, ["id", "src"], rows)
        for edge_id, source in zip(table.column("id").to_pylist(), table.column("src").to_pylist(), strict=True):
            if source in edges:
                edges[source].add(edge_id)
    return {source: sorted(ids) for source, ids in edges.items()}


# Values --------------------------------------------------------------------------------------------------------------


def _wrong_values(frame: MergeFrame) -> Iterator[MergeConflict]:
    """Rows with values of their own that break a rule about one row."""
    for key, states in list(frame.states.items()):
        is_written = states.outcome == WRITTEN
        if not is_written.any():
            continue
        type_ = frame.store.type_of(key)
        rows = stored_rows(type_, states.images(frame.store.storage, table_schema(type_).names, _rows_where(is_written)))
        yield from value_conflicts(type_, key, rows)


def value_conflicts(type_: NodeType | EdgeType, key: str, rows: pa.Table) -> Iterator[MergeConflict]:
    """Conflicts of rows with the rules about single values."""
    placed = rows.append_column(AT, pa.array(np.arange(rows.num_rows)))
    for finding in value_findings(type_, key, placed):
        for row in finding.rows.to_pylist():
            members: tuple[Member, ...] = ((str(key), row["id"]),)
            yield MergeConflict(
                table_key=key,
                kind="ValueConstraintViolation",
                id=row["id"],
                properties=() if finding.property is None else (finding.property,),
                message=finding.text(row),
                members=members,
            )


def stored_rows(type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    """Rows as they are written: blobs are read as bytes and stored as blobs, columns that a version lacks are null."""
    schema = table_schema(type_)
    return pa.Table.from_arrays([_stored(rows, field) for field in schema], schema=schema)


def with_plain_blobs(rows: pa.Table) -> pa.Table:
    """Rows that are to be written, with blobs as bytes: as they are read."""
    for number, field in enumerate(rows.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            rows = rows.set_column(number, field.name, pc.struct_field(plain(rows.column(number)).storage, "data"))
    return rows


def _stored(rows: pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in rows.column_names:
        return pa.nulls(rows.num_rows, field.type)
    values = plain(rows.column(field.name))
    if values.type == field.type:
        return values
    if isinstance(field.type, pa.BaseExtensionType):
        return blob_column(values.cast(pa.large_binary()))
    return values.cast(field.type)
