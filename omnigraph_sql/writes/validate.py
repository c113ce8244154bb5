"""Integrity checks: one evaluator for mutations, loads and merges.

It works on whole columns, never row by row, and runs once over the change set against the committed state. The first
violation fails the write: values, then uniqueness, then endpoints, then cardinality.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType, Property
from omnigraph_sql.errors import ValidationFailed
from omnigraph_sql.writes.delta import Image, TableDelta, distinct, plain

_SHOWN = 60


def check(image: Image) -> None:
    """Raise `ValidationFailed` for the first rule that the image breaks."""
    deltas = [image.deltas[key] for key in sorted(image.deltas, key=lambda key: (key.startswith("edge:"), key))]
    for delta in deltas:
        check_values(image.engine.type_of(delta.table_key), delta)
    for delta in deltas:
        check_unique(image, delta)
    for delta in deltas:
        _check_endpoints(image, delta)
        _check_referenced(image, delta)
    for key in sorted(image.engine.catalog.edges):
        _check_cardinality(image, image.engine.catalog.edges[key])


def _fail(delta: TableDelta | str, rule: str, text: str, row_id: str | None = None, hint: str | None = None) -> NoReturn:
    key = delta if isinstance(delta, str) else delta.table_key
    raise ValidationFailed(text, table_key=key, rule=rule, id=row_id, hint=hint)


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


# Values ----------------------------------------------------------------------------------------------------------


def check_values(type_: NodeType | EdgeType, delta: TableDelta) -> None:
    """Required properties, enums, ranges and patterns of the rows."""
    for prop in type_.properties.values():
        column = delta.rows.column(prop.name)
        if not prop.type.nullable and column.null_count:
            row = _first(delta, pc.is_null(column))
            _fail(delta, "required", f"`{type_.name}.{prop.name}` cannot be null (id `{_shown(row)}`)", row)
        if prop.type.enum_values is not None:
            _check_enum(type_, prop, delta)
    if isinstance(type_, NodeType):
        _check_ranges(type_, delta)
        _check_patterns(type_, delta)


def _first(delta: TableDelta, mask: pa.ChunkedArray | pa.Array) -> str:
    return str(delta.rows.filter(mask).column("id")[0].as_py())


def _check_enum(type_: NodeType | EdgeType, prop: Property, delta: TableDelta) -> None:
    column = delta.rows.column(prop.name)
    allowed = pa.array(prop.type.enum_values, pa.string())
    wrong = pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=allowed)))
    if pc.any(wrong).as_py():
        bad = delta.rows.filter(wrong)
        value, row = bad.column(prop.name)[0].as_py(), bad.column("id")[0].as_py()
        text = f"invalid enum value `{_shown(value)}` for {type_.name}.{prop.name} (id `{_shown(row)}`)"
        _fail(delta, "enum", text, row, f"it takes {', '.join(prop.type.enum_values or ())}")


def _check_ranges(type_: NodeType, delta: TableDelta) -> None:
    for rule in type_.ranges:
        column = delta.rows.column(rule.property)
        inside = pc.true_unless_null(column)
        if rule.low is not None:
            inside = pc.and_(inside, _compare(pc.greater_equal, column, rule.low))
        if rule.high is not None:
            inside = pc.and_(inside, _compare(pc.less_equal, column, rule.high))
        if pa.types.is_floating(column.type):
            inside = pc.and_(inside, pc.invert(pc.is_nan(column)))
        wrong = pc.fill_null(pc.invert(inside), False)
        if pc.any(wrong).as_py():
            bad = delta.rows.filter(wrong)
            value, row = bad.column(rule.property)[0].as_py(), bad.column("id")[0].as_py()
            text = f"@range violation: {type_.name}.{rule.property} = {value} (id `{_shown(row)}`)"
            _fail(delta, "range", text, row, f"the rule is {rule.display()}")


def _compare(function: object, column: pa.ChunkedArray, bound: int | float) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type) and isinstance(bound, int):
        # Compared as decimals: a bound may lie outside the column's own range.
        return function(column.cast(pa.decimal128(38)), pa.scalar(bound, pa.decimal128(38)))  # type: ignore[operator]
    return function(column.cast(pa.float64()), pa.scalar(float(bound)))  # type: ignore[operator]


def _check_patterns(type_: NodeType, delta: TableDelta) -> None:
    for rule in type_.checks:
        matches = pc.match_substring_regex(delta.rows.column(rule.property), rule.pattern)
        wrong = pc.fill_null(pc.invert(matches), False)
        if pc.any(wrong).as_py():
            bad = delta.rows.filter(wrong)
            value, row = bad.column(rule.property)[0].as_py(), bad.column("id")[0].as_py()
            text = f"@check violation: {type_.name}.{rule.property} = `{_shown(value)}` (id `{_shown(row)}`)"
            _fail(delta, "check", text, row, f"the rule is {rule.display()}")


# Uniqueness ------------------------------------------------------------------------------------------------------


def check_input_unique(type_: NodeType | EdgeType, rows: pa.Table, table_key: str) -> None:
    """Two records of one load may not share a key or unique tuple, whatever the mode."""
    rules = list(type_.unique)
    if isinstance(type_, NodeType) and type_.key is not None:
        rules.insert(0, type_.key)
    for columns in rules:
        _check_distinct(type_, rows, columns, table_key)


def check_unique(image: Image, delta: TableDelta) -> None:
    """No two rows of the resulting table share a unique tuple. Keys are ids and need no look at committed rows."""
    type_ = image.engine.type_of(delta.table_key)
    for columns in type_.unique:
        _check_distinct(type_, delta.rows, columns, delta.table_key)
        tuples = _tuples(delta.rows, columns)
        if tuples.num_rows == 0:
            continue
        first = min(columns, key=lambda name: name not in ("src", "dst"))
        committed = image.committed(delta.table_key, list(columns), first, plain(tuples.column(first)))
        both = _tuples(committed, columns).join(tuples, keys=list(columns), join_type="left semi")
        if both.num_rows:
            _unique_violation(type_, columns, both.slice(0, 1).to_pylist()[0], delta.table_key)


def _tuples(rows: pa.Table, columns: Iterable[str]) -> pa.Table:
    """The unique tuples of rows; one with a null in it is exempt. Both zeros are one value."""
    chosen = rows.select(list(columns))
    for number, name in enumerate(chosen.column_names):
        column = chosen.column(name)
        chosen = chosen.filter(pc.is_valid(column))
        if pa.types.is_floating(column.type):
            chosen = chosen.set_column(number, name, pc.add(chosen.column(name), pa.scalar(0.0, column.type)))
    return chosen


def _check_distinct(type_: NodeType | EdgeType, rows: pa.Table, columns: tuple[str, ...], table_key: str) -> None:
    tuples = _tuples(rows, columns)
    counted = tuples.group_by(list(columns)).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    if repeated.num_rows:
        _unique_violation(type_, columns, repeated.slice(0, 1).to_pylist()[0], table_key)


def _unique_violation(
    type_: NodeType | EdgeType, columns: tuple[str, ...], values: dict[str, object], table_key: str
) -> NoReturn:
    names = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    value = ", ".join(_shown(values[name]) for name in columns)
    text = f"@unique violation on {type_.name}.{names}: `{value}` occurs more than once"
    raise ValidationFailed(text, table_key=table_key, rule="unique")


# Endpoints -------------------------------------------------------------------------------------------------------


def _check_endpoints(image: Image, delta: TableDelta) -> None:
    type_ = image.engine.type_of(delta.table_key)
    if not isinstance(type_, EdgeType):
        return
    for end, node in (("src", type_.source), ("dst", type_.target)):
        image.read.add(f"node:{node}")
        missing = image.absent(f"node:{node}", delta.rows.column(end))
        if missing is None:
            continue
        row = _first(delta, pc.equal(delta.rows.column(end), missing))
        text = f"{end} `{_shown(missing)}` of edge {type_.name} not found among {node} nodes (edge id `{_shown(row)}`)"
        _fail(delta, "endpoint", text, row, "load the node first, or in the same load")


def _check_referenced(image: Image, delta: TableDelta) -> None:
    """No edge that stays may point to a node that goes."""
    type_ = image.engine.type_of(delta.table_key)
    if not isinstance(type_, NodeType) or not (delta.overwrite or len(delta.removed)):
        return
    for edge in image.engine.catalog.edges.values():
        for end, node in (("src", edge.source), ("dst", edge.target)):
            if node == type_.name:
                _check_dangling(image, delta, edge, end)


def _check_dangling(image: Image, delta: TableDelta, edge: EdgeType, end: str) -> None:
    key = f"edge:{edge.name}"
    other = image.deltas.get(key)
    entry = image.snapshot.entries.get(key)
    if entry is None or entry.row_count == 0 or (other is not None and other.overwrite):
        return
    image.read.add(key)
    handle = image.engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    kept = plain(delta.ids)
    for batch in image.engine.storage.scan(handle, ["id", end]):
        ids, ends = batch.column(0), batch.column(1)
        if delta.overwrite:
            dangling = pc.invert(pc.is_in(ends, value_set=kept))
        else:
            dangling = pc.is_in(ends, value_set=plain(delta.removed))
        if other is not None:
            gone = pc.or_(pc.is_in(ids, value_set=plain(other.removed)), pc.is_in(ids, value_set=plain(other.ids)))
            dangling = pc.and_(dangling, pc.invert(gone))
        if pc.any(dangling).as_py():
            missing = ends.filter(dangling)[0].as_py()
            row = ids.filter(dangling)[0].as_py()
            node = delta.table_key.removeprefix("node:")
            text = f"{end} `{_shown(missing)}` of edge {edge.name} not found among {node} nodes (edge id `{_shown(row)}`)"
            _fail(key, "endpoint", text, row, "the edge would lose its node; remove or replace it in the same write")


# Cardinality -----------------------------------------------------------------------------------------------------


def _check_cardinality(image: Image, edge: EdgeType) -> None:
    """Per source that the operation touched and that still exists: the number of edges after it."""
    key = f"edge:{edge.name}"
    delta = image.deltas.get(key)
    low, high = edge.cardinality.low, edge.cardinality.high
    if delta is None or (low == 0 and high is None):
        return
    touched = [plain(delta.rows.column("src"))]
    if delta.overwrite:
        touched.append(_former_sources(image, key, None))
    else:
        changed = distinct([plain(delta.ids), plain(delta.removed)])
        touched.append(_former_sources(image, key, changed))
    sources = image.existing(f"node:{edge.source}", distinct(touched))
    image.read |= {key, f"node:{edge.source}"}
    committed = image.committed(key, ["src"], "src", sources)
    counted = pa.concat_tables([committed.select(["src"]), delta.rows.select(["src"])]).group_by("src")
    counts = counted.aggregate([([], "count_all")])
    every = pa.table({"src": sources}).join(counts, keys="src", join_type="left outer")
    number = pc.fill_null(every.column("count_all"), 0)
    wrong = pc.less(number, low) if high is None else pc.or_(pc.less(number, low), pc.greater(number, high))
    if pc.any(wrong).as_py():
        bad = every.filter(wrong).sort_by("src").slice(0, 1).to_pylist()[0]
        count = bad["count_all"] or 0
        bound = f"min {low}" if count < low else f"max {high}"
        text = f"@card violation: {edge.name} from `{_shown(bad['src'])}` has {count} edges, {bound}"
        _fail(key, "cardinality", text, bad["src"])


def _former_sources(image: Image, key: str, ids: pa.Array | None) -> pa.Array:
    """Sources that edges had before the operation changed or removed them."""
    entry = image.snapshot.entries.get(key)
    if entry is None or (ids is not None and len(ids) == 0):
        return pa.array([], pa.string())
    handle = image.engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    if ids is None:
        return plain(image.engine.storage.scan(handle, ["src"]).read_all().column("src")).unique()
    before = Image(image.engine, image.snapshot, {})
    return plain(before.committed(key, ["src"], "id", ids).column("src")).unique()
