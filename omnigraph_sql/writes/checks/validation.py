"""Integrity checks: one evaluator for mutations, loads and merges.

It works on whole columns, never row by row. Each check is a generator of findings: rows of the change set that break one
rule of the schema in the graph as it will be. A write fails with the first of them, or leaves those rows out if its caller
asked for that. The order is values, uniqueness, endpoints, cardinality.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType, Property
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.findings import AT, CheckFinding, Row, raise_first, shown
from omnigraph_sql.writes.checks.pending_graph import EXPLICIT, PendingGraph, TableDelta, distinct, plain
from omnigraph_sql.writes.load.spool import are_distinct

Check = Callable[[PendingGraph], Iterator[CheckFinding]]
_WHOLE = pa.decimal128(38)
"""The type in which whole numbers are compared: a bound may lie outside the range of its column."""
_BEYOND = 10**37


def check(image: PendingGraph) -> None:
    """Raise for the first rule that the image breaks."""
    for key in _keys(image):
        raise_first(value_findings(image.store.type_of(key), key, image.deltas[key].rows.table(_with_at(image, key))))
    for state_check in STATE_CHECKS:
        raise_first(state_check(image))


def _keys(image: PendingGraph) -> list[str]:
    """Nodes before edges."""
    return sorted(image.deltas, key=lambda key: (TableKey(key).is_edge, key))


def _with_at(image: PendingGraph, key: str) -> list[str]:
    return [*image.deltas[key].rows.schema.names, AT]


# Values ----------------------------------------------------------------------------------------------------------


def value_findings(type_: NodeType | EdgeType, table_key: str, rows: pa.Table) -> Iterator[CheckFinding]:
    """Required properties, enums, ranges and patterns of rows that carry their places."""
    for prop in type_.properties.values():
        column = rows.column(prop.name)
        if not prop.type.nullable and column.null_count:
            text = f"`{type_.name}.{prop.name}` cannot be null"
            yield _values(table_key, "required", prop.name, rows, pc.is_null(column), text)
        if prop.type.enum_values is not None:
            yield from _enum(type_, table_key, prop, rows)
    if isinstance(type_, NodeType):
        yield from _ranges(type_, table_key, rows)
        yield from _patterns(type_, table_key, rows)


def _values(
    table_key: str,
    rule: str,
    name: str,
    rows: pa.Table,
    wrong: pa.ChunkedArray,
    template: str,
    hint: str | None = None,
) -> CheckFinding:
    """A finding about the values of one property; the template shows the value as `{value}`."""
    bad = rows.select([AT, "id", name]).filter(wrong).rename_columns([AT, "id", "value"])

    def text(row: Row) -> str:
        return f"{template.replace('{value}', shown(row['value']))} (id `{shown(row['id'])}`)"

    return CheckFinding(table_key=table_key, rule=rule, rows=bad, text=text, property=name, hint=hint)


def _enum(type_: NodeType | EdgeType, table_key: str, prop: Property, rows: pa.Table) -> Iterator[CheckFinding]:
    column = rows.column(prop.name)
    allowed = pa.array(prop.type.enum_values, pa.string())
    wrong = pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=allowed)))
    if pc.any(wrong).as_py():
        hint = f"it takes {', '.join(prop.type.enum_values or ())}"
        text = f"invalid enum value `{{value}}` for {type_.name}.{prop.name}"
        yield _values(table_key, "enum", prop.name, rows, wrong, text, hint)


def _ranges(type_: NodeType, table_key: str, rows: pa.Table) -> Iterator[CheckFinding]:
    for rule in type_.ranges:
        column = rows.column(rule.property)
        inside = pc.true_unless_null(column)
        if rule.low is not None:
            inside = pc.and_(inside, _at_least(column, rule.low))
        if rule.high is not None:
            inside = pc.and_(inside, _at_most(column, rule.high))
        if pa.types.is_floating(column.type):
            inside = pc.and_(inside, pc.invert(pc.is_nan(column)))
        wrong = pc.fill_null(pc.invert(inside), False)
        if pc.any(wrong).as_py():
            text = f"@range violation: {type_.name}.{rule.property} = {{value}}"
            yield _values(table_key, "range", rule.property, rows, wrong, text, f"the rule is {rule.display()}")


def _at_least(column: pa.ChunkedArray, bound: int | float) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type):
        return pc.greater_equal(column.cast(_WHOLE), pa.scalar(math.ceil(_within(bound, _BEYOND)), _WHOLE))
    return pc.greater_equal(column.cast(pa.float64()), pa.scalar(float(_within(bound, sys.float_info.max))))


def _at_most(column: pa.ChunkedArray, bound: int | float) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type):
        return pc.less_equal(column.cast(_WHOLE), pa.scalar(math.floor(_within(bound, _BEYOND)), _WHOLE))
    return pc.less_equal(column.cast(pa.float64()), pa.scalar(float(_within(bound, sys.float_info.max))))


def _within(bound: int | float, most: int | float) -> int | float:
    """Clamp a bound that is out of range of a column: all such bounds are equivalent."""
    return max(-most, min(bound, most))


def _patterns(type_: NodeType, table_key: str, rows: pa.Table) -> Iterator[CheckFinding]:
    for rule in type_.checks:
        matches = pc.match_substring_regex(rows.column(rule.property), rule.pattern)
        wrong = pc.fill_null(pc.invert(matches), False)
        if pc.any(wrong).as_py():
            text = f"@check violation: {type_.name}.{rule.property} = `{{value}}`"
            yield _values(table_key, "check", rule.property, rows, wrong, text, f"the rule is {rule.display()}")


# Uniqueness ------------------------------------------------------------------------------------------------------


def input_findings(image: PendingGraph) -> Iterator[CheckFinding]:
    """Two records of one load may not share a key or unique tuple, in any mode."""
    for key in sorted(image.deltas):
        type_ = image.store.type_of(key)
        key_rule = (type_.key,) if isinstance(type_, NodeType) and type_.key is not None else ()
        for columns in (*key_rule, *type_.unique):
            yield from _repeated(image, key, columns)


def repeated_ids(image: PendingGraph) -> Iterator[CheckFinding]:
    """An explicit id may occur once in the input, except where the last one wins."""
    for key in sorted(image.deltas):
        type_ = image.store.type_of(key)
        if isinstance(type_, NodeType) and type_.key is not None:
            continue
        for number in range(image.count):
            rows = image.part(key, ["id", AT, EXPLICIT], ["id"], number)
            if pc.any(rows.column(EXPLICIT)).as_py():
                later = _later(rows.select(["id", AT]), ["id"])
                if later.num_rows:
                    yield _id_finding(key, later, f"the id `{{id}}` of {key} is in the input already")


def existing_ids(image: PendingGraph) -> Iterator[CheckFinding]:
    """A strict insert meets no id that exists already."""
    for key in sorted(image.deltas):
        type_ = image.store.type_of(key)
        keyed = isinstance(type_, NodeType) and type_.key is not None
        entry = image.snapshot.entries.get(key)
        if entry is None or entry.row_count == 0:
            image.read.add(key)
            continue
        for number in range(image.count):
            rows = image.part(key, ["id", AT, EXPLICIT], ["id"], number)
            rows = rows if keyed else rows.filter(rows.column(EXPLICIT))
            before = plain(image.committed(key, ["id"], ["id"], number, rows.column("id")).column("id"))
            taken = rows.filter(pc.is_in(rows.column("id"), value_set=before))
            if taken.num_rows:
                hint = "use the mode merge to replace it"
                yield _id_finding(key, taken, f"the id `{{id}}` exists already in {key}", hint)


def _id_finding(key: str, rows: pa.Table, template: str, hint: str | None = None) -> CheckFinding:
    return CheckFinding(
        table_key=key,
        rule="key",
        rows=rows.select([AT, "id"]),
        text=lambda row: template.replace("{id}", row["id"]),
        hint=hint,
        is_conflict=True,
    )


def _unique(image: PendingGraph) -> Iterator[CheckFinding]:
    """No two rows of the resulting table share a unique tuple. Keys are ids and need no look at committed rows."""
    for key in _keys(image):
        for columns in image.store.type_of(key).unique:
            yield from _repeated(image, key, columns)
            yield from _taken(image, key, columns)


def complete_tuples(rows: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Rows whose unique tuple counts: one with a null in it is exempt. Both zeros are one value."""
    for name in columns:
        column = rows.column(name)
        if column.null_count:
            rows = rows.filter(pc.is_valid(column))
        if pa.types.is_floating(column.type):
            number = rows.schema.get_field_index(name)
            rows = rows.set_column(number, name, pc.add(rows.column(name), pa.scalar(0.0, column.type)))
    return rows


def _later(rows: pa.Table, columns: list[str]) -> pa.Table:
    """The rows that repeat the tuple of an earlier row."""
    counted = rows.select([*columns, AT]).group_by(columns).aggregate([(AT, "min"), ([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    if repeated.num_rows == 0:
        return rows.slice(0, 0)
    joined = rows.join(repeated.select([*columns, f"{AT}_min"]), keys=columns, join_type="inner")
    return joined.filter(pc.not_equal(joined.column(AT), joined.column(f"{AT}_min"))).select(rows.column_names)


def _repeated(image: PendingGraph, key: str, columns: tuple[str, ...]) -> Iterator[CheckFinding]:
    names = list(dict.fromkeys([AT, "id", *columns]))
    for number in range(image.count):
        if are_distinct(complete_tuples(image.part(key, list(columns), columns, number), columns)):
            continue
        later = _later(complete_tuples(image.part(key, names, columns, number), columns), list(columns))
        if later.num_rows:
            yield _unique_finding(image, key, columns, later)


def _taken(image: PendingGraph, key: str, columns: tuple[str, ...]) -> Iterator[CheckFinding]:
    """Incoming tuples that a row has which stays."""
    names = list(dict.fromkeys([AT, "id", *columns]))
    first = min(columns, key=lambda name: name not in ("src", "dst"))
    by = [first, *(name for name in columns if name != first)]
    for number in range(image.count):
        incoming = complete_tuples(image.part(key, names, by, number), columns)
        if incoming.num_rows == 0:
            continue
        stays = complete_tuples(image.kept(key, list(columns), by, number, incoming.column(first)), columns)
        if stays.num_rows:
            both = incoming.join(stays, keys=list(columns), join_type="left semi")
            if both.num_rows:
                yield _unique_finding(image, key, columns, both)


def _unique_finding(image: PendingGraph, key: str, columns: tuple[str, ...], rows: pa.Table) -> CheckFinding:
    type_ = image.store.type_of(key)
    names = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"

    def text(row: Row) -> str:
        value = ", ".join(shown(row[name]) for name in columns)
        return f"@unique violation on {type_.name}.{names}: `{value}` occurs more than once"

    return CheckFinding(
        table_key=key, rule="unique", rows=rows, text=text, property=columns[0] if len(columns) == 1 else None
    )


# Endpoints -------------------------------------------------------------------------------------------------------


def _endpoints(image: PendingGraph) -> Iterator[CheckFinding]:
    for key in _keys(image):
        type_ = image.store.type_of(key)
        delta = image.deltas[key]
        if isinstance(type_, EdgeType):
            for end, node in (("src", type_.source), ("dst", type_.target)):
                yield from _missing(image, key, type_, end, node)
        elif delta.overwrite or len(delta.removed):
            for edge in image.store.catalog.edges.values():
                for end, node in (("src", edge.source), ("dst", edge.target)):
                    if node == type_.name:
                        yield from _dangling(image, delta, edge, end)


def _missing(image: PendingGraph, key: str, edge: EdgeType, end: str, node: str) -> Iterator[CheckFinding]:
    """Incoming edges one of whose nodes will not exist."""
    image.read.add(TableKey.of_node(node))
    for number in range(image.count):
        ends = image.part(key, [AT, "id", end], [end], number)
        if ends.num_rows == 0:
            continue
        existing = image.existing(TableKey.of_node(node), number, ends.column(end))
        missing = pc.invert(pc.is_in(ends.column(end), value_set=existing))
        if pc.any(missing).as_py():
            yield _endpoint_finding(key, edge, end, node, ends.filter(missing), "load the node first, or in the same load")


def _endpoint_finding(key: str, edge: EdgeType, end: str, node: str, rows: pa.Table, hint: str) -> CheckFinding:
    def text(row: Row) -> str:
        return f"{end} `{shown(row['end'])}` of edge {edge.name} not found among {node} nodes (edge id `{shown(row['id'])}`)"

    return CheckFinding(
        table_key=key, rule="endpoint", rows=rows.rename_columns([AT, "id", "end"]), text=text, property=end, hint=hint
    )


def _dangling(image: PendingGraph, delta: TableDelta, edge: EdgeType, end: str) -> Iterator[CheckFinding]:
    """Find edges that remain although one of their nodes is removed."""
    key = TableKey.of_edge(edge.name)
    node = TableKey(delta.table_key).name
    hint = "the edge would lose its node; remove or replace it in the same write"
    if delta.overwrite:
        pieces = image.staying(key, ["id", end], [end])
    else:
        pieces = (
            (part_number, image.kept(key, ["id", end], [end], part_number, delta.removed))
            for part_number in range(image.count)
        )
    for number, edges in pieces:
        if delta.overwrite:
            nodes = plain(image.part(delta.table_key, ["id"], ["id"], number).column("id"))
            dangling = pc.invert(pc.is_in(edges.column(end), value_set=nodes))
        else:
            dangling = pc.is_in(edges.column(end), value_set=delta.removed)
        if pc.any(dangling).as_py():
            rows = edges.filter(dangling)
            rows = rows.add_column(0, AT, pa.nulls(rows.num_rows, pa.int64()))
            yield _endpoint_finding(key, edge, end, node, rows, hint)


# Cardinality -----------------------------------------------------------------------------------------------------


def _cardinality(image: PendingGraph) -> Iterator[CheckFinding]:
    """Per source that the operation touched and that still exists: the number of edges after it."""
    for name in sorted(image.store.catalog.edges):
        edge = image.store.catalog.edges[name]
        low, high = edge.cardinality.low, edge.cardinality.high
        if TableKey.of_edge(name) in image.deltas and (low > 0 or high is not None):
            image.read |= {TableKey.of_edge(name), TableKey.of_node(edge.source)}
            for number in range(image.count):
                yield from _miscounted(image, edge, number)


def _miscounted(image: PendingGraph, edge: EdgeType, number: int) -> Iterator[CheckFinding]:
    key = TableKey.of_edge(edge.name)
    low, high = edge.cardinality.low, edge.cardinality.high
    incoming = image.part(key, [AT, "id", "src"], ["src"], number)
    touched = distinct([incoming.column("src"), image.changed(key, ["src"], ["src"], number).column("src")])
    sources = touched.filter(pc.is_in(touched, value_set=image.existing(TableKey.of_node(edge.source), number, touched)))
    stays = image.kept(key, ["src"], ["src"], number, sources)
    before = stays.group_by("src").aggregate([([], "count_all")]).rename_columns(["src", "before"])
    added = incoming.group_by("src").aggregate([([], "count_all")]).rename_columns(["src", "added"])
    every = pa.table({"src": sources}).join(before, keys="src", join_type="left outer")
    every = every.join(added, keys="src", join_type="left outer")
    count = pc.add(pc.fill_null(every.column("before"), 0), pc.fill_null(every.column("added"), 0))
    wrong = pc.less(count, low) if high is None else pc.or_(pc.less(count, low), pc.greater(count, high))
    if pc.any(wrong).as_py():
        bad = every.append_column("number", count).filter(wrong)
        yield CheckFinding(
            table_key=key,
            rule="cardinality",
            rows=_surplus(incoming, bad, high),
            text=lambda row: _cardinality_text(edge, row),
            property="src",
        )


def _cardinality_text(edge: EdgeType, row: Row) -> str:
    count = row["number"]
    bound = f"min {edge.cardinality.low}" if count < edge.cardinality.low else f"max {edge.cardinality.high}"
    return f"@card violation: {edge.name} from `{shown(row['src'])}` has {count} edges, {bound}"


def _surplus(incoming: pa.Table, bad: pa.Table, high: int | None) -> pa.Table:
    """The incoming edges to blame: those past the maximum in the order they came, or all where there are too few.

    A source that only lost edges has none; it stands for itself.
    """
    rows = []
    edges: dict[str, list[tuple[int | None, str]]] = {}
    concerned = incoming.filter(pc.is_in(incoming.column("src"), value_set=plain(bad.column("src"))))
    for at, row_id, src in zip(*(concerned.column(name).to_pylist() for name in (AT, "id", "src")), strict=True):
        edges.setdefault(src, []).append((at, row_id))
    for source in bad.to_pylist():
        blamed = sorted(edges.get(source["src"], []))
        if high is not None and source["number"] > high:
            blamed = blamed[max(0, high - (source["before"] or 0)) :]
        for at, row_id in blamed or [(None, source["src"])]:
            rows.append({AT: at, "id": row_id, "src": source["src"], "number": source["number"]})
    fields = [(AT, pa.int64()), ("id", pa.string()), ("src", pa.string()), ("number", pa.int64())]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


STATE_CHECKS: tuple[Check, ...] = (_unique, _endpoints, _cardinality)
"""The checks of the graph as it will be, in their order."""
