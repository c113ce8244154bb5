"""Rows whose names DuckDB can tell apart: it ignores case, in columns and in members of structures."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_sql.foreign.predicate_evaluation import ENGINE_FILTERS
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan, columnless_batch
from omnigraph_sql.sqltext.identifiers import case_safe_names


def case_safe_rows(rows: pa.Table | LazyDataset) -> pa.Table | LazyDataset:
    """The same rows, with a number in a name that differs from an earlier one only in case."""
    schema = case_safe_schema(rows.schema)
    if schema.equals(rows.schema):
        return rows
    if isinstance(rows, LazyDataset):
        return CaseSafeDataset(rows, schema)
    columns = [_renamed(column.combine_chunks(), field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def case_safe_schema(schema: pa.Schema) -> pa.Schema:
    """The columns with names that differ by more than case."""
    return pa.schema(_case_safe_fields(list(schema)))


def _case_safe_fields(fields: list[pa.Field]) -> list[pa.Field]:
    names = case_safe_names(field.name for field in fields)
    return [
        pa.field(name, pa.struct(_case_safe_fields(list(field.type))), field.nullable)
        if pa.types.is_struct(field.type)
        else field.with_name(name)
        for name, field in zip(names, fields, strict=True)
    ]


def _renamed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column with other names of its members."""
    if not pa.types.is_struct(kind):
        return column
    members = [_renamed(column.field(number), kind.field(number).type) for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=column.is_null())


class CaseSafeDataset(LazyDataset):
    """A dataset under other names."""

    def __init__(self, rows: LazyDataset, columns: pa.Schema) -> None:
        super().__init__(columns)
        self._rows = rows
        self._originals = dict(zip(columns.names, rows.schema.names, strict=True))

    def batches(self, scan: LazyScan) -> Batches:
        """Read the rows under their own names; the filter uses the others, so it is evaluated here."""
        is_filtered = scan.filter is not None and not isinstance(scan.filter, pa.Scalar)
        needed = list(dict.fromkeys([*scan.columns, *(ENGINE_FILTERS.columns(scan.filter) if is_filtered else ())]))
        needed = needed or self.schema.names[:1]
        fields = [self.schema.field(name) for name in needed]
        for batch in self._rows.batches(LazyScan(self._rows, [self._originals[name] for name in needed], None)):
            rows = pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
            satisfying = rows if scan.filter is None else ENGINE_FILTERS.satisfying(rows, scan.filter)
            yield satisfying.select(list(scan.columns)) if scan.columns else columnless_batch(satisfying.num_rows)
