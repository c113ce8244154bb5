"""Reading tables: data frames, Arrow data and files whose columns are the properties of one type."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import Catalog, EdgeType, NodeType, PropType
from omnigraph_compiler.diagnostics import clip, did_you_mean, listing
from omnigraph_compiler.types import STRING
from omnigraph_sql.errors import BadRequest, ValidationFailed
from omnigraph_sql.writes.readers.casts import Cast, Explain, Rows, cast
from omnigraph_sql.writes.readers.csv_files import TableOptions
from omnigraph_sql.writes.readers.ids import canonical_texts
from omnigraph_sql.writes.readers.layout import Layout, LayoutPart, Layouts, to_batch, with_key_ids
from omnigraph_sql.writes.readers.line_parser import id_fault, null_fault, value_fault, width_fault
from omnigraph_sql.writes.readers.model import (
    Counted,
    Fault,
    Faults,
    OnReject,
    ReaderLimits,
    RecordPlaces,
    TableBatch,
)
from omnigraph_sql.writes.readers.records import DEFAULT_LIMITS
from omnigraph_sql.writes.readers.streams import AT_COLUMN, FLAW_COLUMNS, TableStream, opened, readable
from omnigraph_sql.writes.readers.texts import cast_texts
from omnigraph_sql.writes.value_codec import Complaint, recorded, shown

_ENDPOINTS = {"src": ("src", "from"), "dst": ("dst", "to")}
ROWS = Counted("row")
DEFAULT_OPTIONS = TableOptions()
_PANDAS_INDEX = "__index_level_"


def read_tables(
    tables: Mapping[str, Any] | Iterable[tuple[str, Any]],
    catalog: Catalog,
    *,
    on_reject: OnReject | None = None,
    batch_bytes: int = 32 << 20,
    limits: ReaderLimits = DEFAULT_LIMITS,
    computes: bool = False,
    places: RecordPlaces = ROWS,
    options: TableOptions = DEFAULT_OPTIONS,
) -> Iterator[TableBatch]:
    """Tables as batches of table rows.

    `tables` maps or pairs the name of a type (`node:T` or `edge:E` where a node type and an edge type share a name) with its
    data: a `Path` to a Parquet, CSV or Arrow file, Arrow data, record batches, or anything that speaks Arrow's stream
    protocol: pandas and polars frames, DuckDB relations, DataFusion frames.

    Columns are properties, for edges also `src` and `dst` (or `from` and `to`), and optionally `id`. Values are converted
    only where nothing is lost. Each table gives at least one batch, an empty one when it has no rows.

    What is wrong with a whole table (an unknown type or column, a column of an unsuitable type) always raises; faulty rows
    raise, or are reported to `on_reject` and left out. `options` tell how CSV files are written, and may pass over columns
    that the type does not have. With `computes`, vectors that are computed later may be null.
    """
    layouts = Layouts(catalog, computes=computes)
    for name, source in tables.items() if isinstance(tables, Mapping) else tables:
        layout = _layout(layouts, name)
        names = [*layout.properties, "id", *(alias for pair in _ENDPOINTS.values() for alias in pair)]
        with opened(source, layout.key, names, options.csv) as stream:
            faults = Faults(stream.name, places, on_reject)
            for batch in _TableReader(layout, stream, faults, limits, options.skips_extra).read(batch_bytes):
                yield replace(batch, source=stream.name)


def type_named(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """The type that data for a name belongs to: `T`, or `node:T` or `edge:E` where both kinds have it."""
    return _layout(Layouts(catalog), name).type


def check_table(name: str, source: Any, catalog: Catalog, *, computes: bool = False) -> None:
    """Raise the errors of `read_tables` that do not depend on rows. Reads no rows."""
    layout = _layout(Layouts(catalog, computes=computes), name)
    with opened(source, layout.key, [*layout.properties, "id", "src", "dst"]) as stream:
        _TableReader(layout, stream, Faults(None, ROWS, None), DEFAULT_LIMITS).check()


def _layout(layouts: Layouts, name: str) -> Layout:
    kind, _, bare = name.rpartition(":")
    node = layouts.node(bare) if kind in ("", "node") else None
    edge = layouts.edge(bare) if kind in ("", "edge") else None
    if node is not None and edge is not None:
        if edge.type.name == bare:
            raise BadRequest(
                f"`{bare}` is a node type and an edge type",
                hint=f"write `node:{bare}` or `edge:{bare}` for the one you mean",
            )
        return node
    type_ = node or edge
    if type_ is None:
        if kind == "edge":
            raise BadRequest(f"unknown edge type `{clip(bare)}`", hint=layouts.edge_hint(bare))
        raise BadRequest(
            f"unknown node type `{clip(bare)}`" if kind == "node" else f"unknown node type or edge type `{clip(name)}`",
            hint=layouts.node_hint(bare) if kind == "node" else layouts.hint(bare),
        )
    return type_


@dataclass
class _Findings:
    """Faults of the rows of one piece, the first one of each row."""

    makers: dict[int, Callable[[int], Fault]] = field(default_factory=dict)

    def add(self, rows: Rows, make: Callable[[int], Fault]) -> None:
        for row in rows.tolist():
            self.makers.setdefault(row, make)


class _TableReader:
    """Reads the pieces of one table."""

    def __init__(
        self, layout: Layout, stream: TableStream, faults: Faults, limits: ReaderLimits, skips_extra: bool = False
    ) -> None:
        self._layout = layout
        self._stream = stream
        self._faults = faults
        self._limits = limits
        self._columns = _resolve(layout, _own_columns(stream), skips_extra)
        self._next_row = 1

    def check(self) -> None:
        """Raise if a column is missing that every row needs, or is of an unsuitable type."""
        layout = self._layout
        for name, prop in layout.properties.items():
            if layout.requires(prop) and name not in self._columns and name not in layout.defaults:
                text = f"{layout.key}: the column `{name}` is missing, and {layout.named(name)} is required"
                raise BadRequest(text, hint="give every row a value for it")
        schema = self._stream.schema
        self._convert(pa.table([_sample(column.type) for column in schema], schema=schema), _Findings())

    def read(self, batch_bytes: int) -> Iterator[TableBatch]:
        is_empty = True
        for table in self._stream.tables(batch_bytes, max(1, batch_bytes // max(1, self._layout.vector_bytes))):
            batch = self._piece(table)
            if batch.rows.num_rows:
                is_empty = False
                yield batch
        self._numbered(0)
        for wrong in list(self._stream.wrong_rows):
            self._report_width(wrong.row)
        if is_empty:
            columns = {name: pa.nulls(0, _logical(self._layout, name)) for name in self._layout.schema.names}
            yield to_batch(self._layout, [LayoutPart(np.empty(0, dtype=np.int64), columns)])

    def _piece(self, table: pa.Table) -> TableBatch:
        numbers = self._numbers(table)
        findings = _Findings()
        if self._stream.is_placed:
            findings.add(np.flatnonzero(np.asarray(table.column(FLAW_COLUMNS[0]).is_valid())), _source_fault(table))
        if self._layout.vector_bytes > self._limits.vector_bytes and table.num_rows:
            raise width_fault(self._layout, self._limits).to_error(f"row {numbers[0]}")
        columns = self._convert(table, findings)
        reported = {wrong.row for wrong in self._stream.wrong_rows if wrong.row < self._next_row}
        problems = {int(numbers[row]): (row, make) for row, make in findings.makers.items()}
        for number in sorted(reported | problems.keys()):
            if number in reported:
                self._report_width(number)
            else:
                row, make = problems[number]
                self._faults.report(number, make(row))
        if findings.makers:
            kept = np.setdiff1d(np.arange(table.num_rows), np.fromiter(findings.makers, dtype=np.int64))
            columns = {name: column.take(pa.array(kept)) for name, column in columns.items()}
            numbers = numbers[kept]
        return to_batch(self._layout, [LayoutPart(numbers, columns)])

    def _numbers(self, table: pa.Table) -> npt.NDArray[np.int64]:
        if not self._stream.is_placed:
            return self._numbered(table.num_rows)
        return np.asarray(table.column(AT_COLUMN).to_numpy()).astype(np.int64)

    def _numbered(self, count: int) -> npt.NDArray[np.int64]:
        """The numbers of the next rows; rows that were left out keep theirs."""
        left_out = np.array([wrong.row for wrong in self._stream.wrong_rows if wrong.row >= self._next_row], dtype=np.int64)
        numbers = np.arange(self._next_row, self._next_row + count + len(left_out))
        numbers = numbers[~np.isin(numbers, left_out)][:count]
        if count:
            self._next_row = int(numbers[-1]) + 1
        return numbers

    def _report_width(self, number: int) -> None:
        wrong = next(wrong_row for wrong_row in self._stream.wrong_rows if wrong_row.row == number)
        self._stream.wrong_rows.remove(wrong)
        key = self._layout.key
        message = f"{key}: the row has {wrong.cells} cells, and the header names {wrong.expected} columns"
        self._faults.report(number, Fault(rule="record", message=message, table_key=self._layout.key))

    def _convert(self, table: pa.Table, findings: _Findings) -> dict[str, pa.Array]:
        layout = self._layout
        columns: dict[str, pa.Array] = {}
        stated_ids = self._texts(table, "id")
        for name in ("src", "dst") if layout.is_edge else ():
            columns[name] = self._ends(table, name, findings)
            findings.add(_null_rows(columns[name]), _endpoint_fault(layout, name, self._columns[name]))
        ids = _Ids(stated_ids)
        for name, prop in layout.properties.items():
            if name in self._columns:
                columns[name] = self._values(table, name, prop.type, ids, findings)
            else:
                columns[name] = _absent(layout, name, table.num_rows)
            if layout.requires(prop):
                findings.add(_null_rows(columns[name]), self._null_fault(name, ids))
        columns["id"] = stated_ids
        columns = with_key_ids(layout, columns)
        if layout.node_with_key is not None:
            ids.array = made = columns["id"]
            mismatch = np.flatnonzero(np.asarray(pc.not_equal(stated_ids, made).fill_null(False)))
            findings.add(mismatch, lambda row: id_fault(layout, stated_ids[row].as_py(), made[row].as_py()))
        return columns

    def _values(self, table: pa.Table, name: str, type_: PropType, ids: _Ids, findings: _Findings) -> pa.Array:
        array = self._column(table, name)
        result = self._cast(array, name, type_)
        for flaw in result.flaws:
            findings.add(flaw.rows, self._value_fault(name, array, flaw.explain, ids))
        return result.values

    def _value_fault(self, name: str, array: pa.Array, explain: Explain, ids: _Ids) -> Callable[[int], Fault]:
        def make(row: int) -> Fault:
            value = _python(array[row])
            return value_fault(self._layout, name, ids.at(row), recorded(value), explain(value))

        return make

    def _column(self, table: pa.Table, name: str) -> pa.Array:
        column = table.column(self._columns[name])
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        with readable(self._layout.key):
            array.validate(full=True)  # another program made it: texts may be invalid UTF-8
        return array

    def _cast(self, array: pa.Array, name: str, type_: PropType) -> Cast:
        try:
            is_text = self._stream.is_text and pa.types.is_string(array.type)
            return (cast_texts if is_text else cast)(array, type_, self._limits)
        except Complaint as complaint:
            raise ValidationFailed(
                f"{self._layout.key}: {self._layout.named(name)} {complaint.sentence}",
                table_key=self._layout.key,
                rule=complaint.rule,
            ) from None

    def _ends(self, table: pa.Table, name: str, findings: _Findings) -> pa.StringArray:
        """The ids of nodes: texts, or values of their keys."""
        type_ = self._layout.ends.get(name)
        kind = table.schema.field(self._columns[name]).type if name in self._columns else pa.null()
        if type_ is None or pa.types.is_null(kind) or _is_text(kind):
            return self._texts(table, name)
        array = self._column(table, name)
        try:
            result = cast(array, type_, self._limits)
        except Complaint as complaint:
            text = f"{self._layout.key}: `{self._columns[name]}` {complaint.sentence}"
            raise BadRequest(text, hint="give the keys of the nodes, or their ids as texts") from None
        for flaw in result.flaws:
            findings.add(flaw.rows, self._end_fault(name, array, flaw.explain))
        return canonical_texts(type_, result.values)

    def _end_fault(self, name: str, array: pa.Array, explain: Explain) -> Callable[[int], Fault]:
        def make(row: int) -> Fault:
            value = _python(array[row])
            text = f"{self._layout.key}: `{self._columns[name]}` {explain(value).sentence}"
            return Fault(rule="type", message=text, table_key=self._layout.key, property=name, value=recorded(value))

        return make

    def _texts(self, table: pa.Table, name: str) -> pa.StringArray:
        """Return ids or endpoints; all are null without such a column."""
        if name not in self._columns:
            return pa.nulls(table.num_rows, pa.string())
        try:
            return cast(self._column(table, name), STRING, self._limits).values
        except Complaint as complaint:
            raise BadRequest(
                f"{self._layout.key}: `{self._columns[name]}` {complaint.sentence}", hint="ids are texts; cast the column"
            ) from None

    def _null_fault(self, name: str, ids: _Ids) -> Callable[[int], Fault]:
        is_absent = name not in self._columns
        return lambda row: null_fault(self._layout, name, ids.at(row), is_absent=is_absent)


@dataclass
class _Ids:
    """The ids of the rows as far as they are known when a fault is described."""

    array: pa.Array

    def at(self, row: int) -> str | None:
        id_: str | None = self.array[row].as_py()
        return id_


def _own_columns(stream: TableStream) -> list[str]:
    """The columns of the data that are the table's."""
    names: list[str] = stream.schema.names
    return [name for name in names if not stream.is_placed or name not in (AT_COLUMN, *FLAW_COLUMNS)]


def _source_fault(table: pa.Table) -> Callable[[int], Fault]:
    """What the source of a row found: no table is concerned, because the record could not even be read."""

    def make(row: int) -> Fault:
        rule, column, value = (table.column(name)[row].as_py() for name in FLAW_COLUMNS)
        return Fault(rule=rule, message=_FLAWS[rule](column, value), property=column, value=recorded(value))

    return make


_FLAWS: Mapping[str, Callable[[str | None, str | None], str]] = {
    "json": lambda _, value: f"the line is not a JSON object: {shown(value)}",
    "record": lambda _, value: f"the row is not like the others: {value}",
    "type": lambda column, value: f"`{column}` is not of the type that the source declares: {shown(value)}",
}


def _resolve(layout: Layout, names: list[str], skips_extra: bool) -> dict[str, str]:
    """Which column of the data holds what."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"{layout.key}: the data has two columns called `{clip(twice)}`")
    columns = {name: name for name in (*layout.properties, "id") if name in names}
    for role, aliases in _ENDPOINTS.items() if layout.is_edge else ():
        present = [alias for alias in aliases if alias in names]
        if len(present) > 1:
            raise BadRequest(f"{layout.key}: the data has exactly one of the columns {listing(aliases)}, found both")
        if present:
            columns[role] = present[0]
        elif names:
            raise BadRequest(f"{layout.key}: the column `{role}` (or `{aliases[1]}`) is missing")
    for name in names:
        if name not in columns.values() and not skips_extra:
            raise _unknown_column(layout, name)
    return columns


_DELIMITERS = {";": ";", "\t": "\\t", "|": "|", ",": ","}
"""Delimiters of CSV files, and how they are written."""


def _unknown_column(layout: Layout, name: str) -> BadRequest:
    text = f"unknown column `{clip(name)}` of {layout.key}"
    if layout.is_reserved(name):
        return BadRequest(f"{text}: the name is reserved")
    if name.startswith(_PANDAS_INDEX):
        return BadRequest(text, hint="it is the index of a data frame; leave it out with `reset_index(drop=True)`")
    declared = [*layout.properties, "id", *(_ENDPOINTS if layout.is_edge else ())]
    for delimiter, option in _DELIMITERS.items():
        if delimiter in name and not {part.strip('"') for part in name.split(delimiter)}.isdisjoint(declared):
            hint = f'say what separates the cells: csv={{"delimiter": "{option}"}}, or --csv-delimiter "{option}"'
            return BadRequest(text, hint=hint)
    others = "leave it out, or pass over such columns with extra_columns='skip' or --skip-extra-columns"
    return BadRequest(text, hint=did_you_mean(name, declared) or others)


def _absent(layout: Layout, name: str, count: int) -> pa.Array:
    type_ = layout.value_types[name]
    return pa.repeat(pa.scalar(layout.defaults[name], type_), count) if name in layout.defaults else pa.nulls(count, type_)


def _logical(layout: Layout, name: str) -> pa.DataType:
    return layout.value_types.get(name, pa.string())


def _python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # an instant beyond the years that Python knows
        return value.cast(pa.int64()).as_py()


def _null_rows(column: pa.Array) -> Rows:
    return np.flatnonzero(np.asarray(column.is_null())) if column.null_count else np.empty(0, dtype=np.int64)


def _sample(type_: pa.DataType) -> pa.Array:
    """One value of a type, where there is a simple one: of columns without values none is unsuitable."""
    values: tuple[Any, ...] = (0, "", b"", False, [], {}, datetime.date(1970, 1, 1), datetime.datetime(1970, 1, 1))
    for value in values:
        try:
            return pa.array([value], type_)
        except (pa.ArrowException, TypeError, ValueError):
            continue
    return pa.nulls(1, type_)


def _endpoint_fault(layout: Layout, end: str, column: str) -> Callable[[int], Fault]:
    text = f"{layout.key}: `{column}` must be {layout.end_kind(end)}, found null"
    return lambda _: Fault(rule="required", message=text, table_key=layout.key, property=end)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
