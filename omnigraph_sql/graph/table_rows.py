"""Statements that change rows of relational tables: the engine computes the rows, the store stages them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph.column_values import TargetColumn
from omnigraph_sql.graph.literal_statements import insert_literals
from omnigraph_sql.graph.row_selects import (
    MergeSelects,
    columns_once,
    default_text,
    insert_columns,
    insert_query,
    select,
    set_values,
    updated_items,
    wrong_count,
)
from omnigraph_sql.graph.staged_rows import ROW_NUMBER
from omnigraph_sql.graph.table_constraints import check_rows, first_repeated
from omnigraph_sql.graph.write_targets import StatementContext, WriteTarget
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.sql.resolver import ADDRESSES
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.write_statements import (
    ConflictClause,
    DeleteStatement,
    InsertStatement,
    MergeIntoStatement,
    TruncateStatement,
    UpdateStatement,
)
from omnigraph_sql.writes.checks.findings import AT
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.checks.validation import complete_tuples
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.operation import Append, Overwrite, PreparedWrite, RowEdits, TableWrite

_UNSIGNED = pa.uint64()


@dataclass
class _Edits:
    """Rows that replace others, with the row ids and addresses of these, and addresses of rows that go."""

    row_ids: list[pa.Array] = field(default_factory=list)
    addresses: list[pa.Array] = field(default_factory=list)
    removed: list[pa.Array] = field(default_factory=list)

    def gone(self) -> pa.Array:
        """The addresses of all rows that are replaced or removed."""
        return _joined([*self.addresses, *self.removed])


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([array.cast(_UNSIGNED) for array in arrays]) if arrays else pa.array([], _UNSIGNED)


class TableRowStatements:
    """Runs statements on one relational table."""

    def __init__(self, context: StatementContext, target: WriteTarget) -> None:
        self._context = context
        self._target = target

    # Insert

    def insert(self, statement: InsertStatement) -> int:
        """Run an insert; returns the number of rows that were inserted or updated."""
        count = insert_literals(self._context, self._target, statement)
        if count is not None:
            return count
        self._target = self._context.target(statement.table)
        with Workspace() as workspace:
            rows = TableRows.put(self._incoming(statement), workspace)
            if statement.conflict is not None:
                return self._insert_or_update(statement.conflict, rows, workspace)
            check_rows(self._context, self._target, rows)
            if rows.num_rows:
                self._apply(Append(self._target.table_key, rows))
            return rows.num_rows

    def append(self, reader: pa.RecordBatchReader) -> None:
        """Add rows whose columns have names of the table."""
        names = [self._target.column(name) for name in reader.schema.names]
        with Workspace() as workspace:
            rows = TableRows.put(self._fitted(reader, names), workspace)
            check_rows(self._context, self._target, rows)
            if rows.num_rows:
                self._apply(Append(self._target.table_key, rows))

    def _incoming(self, statement: InsertStatement) -> pa.RecordBatchReader:
        names = self._target.schema.names
        if statement.query is None:
            items = [
                f"{default_text(self._context, self._target, name)} AS {quoted(f'c{n}')}" for n, name in enumerate(names)
            ]
            return self._fitted(self._context.batches(f"SELECT {', '.join(items)}"), names)
        query = insert_query(self._context, self._target, statement)
        result = self._context.run(query)
        count = len(result.schema)
        if statement.by_name:
            columns = columns_once(self._target, result.schema.names)
        else:
            columns = insert_columns(self._target, statement, count)
        if len(columns) != count:
            raise wrong_count(self._target, count, len(columns))
        defaults = [name for name in names if name not in columns and name in self._target.rules.defaults]
        if defaults:
            result.cancel()
            extra = [
                f"{default_text(self._context, self._target, name)} AS {quoted(f'd{n}')}" for n, name in enumerate(defaults)
            ]
            body = query[len(statement.prefix) :]
            result = self._context.run(select(statement.prefix, ["q.*", *extra], f"({body}\n) AS q", ()))
        reader = pa.RecordBatchReader.from_batches(result.schema, iter(result))
        return self._fitted(reader, [*columns, *defaults])

    def _fitted(self, reader: pa.RecordBatchReader, columns: Sequence[str]) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._target.schema, self._rows(reader, columns))

    def _rows(self, reader: pa.RecordBatchReader, columns: Sequence[str], skipped: int = 0) -> Iterator[pa.RecordBatch]:
        """Rows of the table from the columns of a query; the others are null."""
        row = 1
        for batch in reader:
            arrays = []
            for column in self._target.schema:
                if column.name in columns:
                    values = batch.column(skipped + columns.index(column.name))
                else:
                    values = pa.nulls(batch.num_rows)
                arrays.append(TargetColumn(self._target.table_key, column).taken(values, row))
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays(arrays, schema=self._target.schema)

    def _insert_or_update(self, conflict: ConflictClause, rows: TableRows, workspace: Workspace) -> int:
        """Insert the rows whose key is new; update the rows whose key exists, or leave them."""
        keys = self._conflict_keys(conflict)
        edits = _Edits()
        for columns in keys:
            rows = self._without_repeated(conflict, rows, columns)
        taken: list[pa.Array] = []
        updates: list[pa.RecordBatch] = []
        for columns in keys:
            with self._context.staged(rows) as staged:
                matches = " AND ".join(f"t.{quoted(name)} = excluded.{quoted(name)}" for name in columns)
                sources = f"{self._target.sql()} AS t JOIN {staged} AS excluded ON {matches}"
                number = f"excluded.{quoted(ROW_NUMBER)}"
                taken.append(
                    self._context.run(select("", [f"{number} AS n"], sources, ())).to_arrow().column(0).combine_chunks()
                )
                if conflict.sets:
                    updates += self._updates(self._conflict_update(conflict, staged, columns), edits)
        inserted = rows.without(pa.concat_arrays(taken).unique())
        batches = (*updates, *inserted.batches(self._target.schema.names))
        return self._edit(edits, iter(batches), workspace)

    def _conflict_keys(self, conflict: ConflictClause) -> list[tuple[str, ...]]:
        declared = [constraint.columns for constraint in self._target.rules.unique_keys()]
        named = tuple(self._target.column(name) for name in conflict.columns)
        if named:
            if not any(set(columns) == set(named) for columns in declared):
                text = f"ON CONFLICT ({', '.join(named)}) names no unique columns of `{self._target.location.text}`"
                raise BadRequest(text, hint="declare them UNIQUE or PRIMARY KEY, or use MERGE INTO")
            return [named]
        if not declared or (conflict.sets and len(declared) > 1):
            text = f"`{self._target.location.text}` has {'several keys' if declared else 'no key'} for ON CONFLICT"
            raise BadRequest(text, hint="name the columns of one: ON CONFLICT (COLUMN) …")
        return declared

    def _without_repeated(self, conflict: ConflictClause, rows: TableRows, columns: tuple[str, ...]) -> TableRows:
        """The rows with different keys: of those that repeat one, DO NOTHING takes the first."""
        repeated = first_repeated(rows, columns)
        if repeated is None:
            return rows
        if conflict.sets:
            text = f"row {repeated + 1} has the same ({', '.join(columns)}) as an earlier one"
            raise BadRequest(text, hint="ON CONFLICT DO UPDATE takes each key once")
        return rows.without(later_places(rows, columns))

    def _conflict_update(self, conflict: ConflictClause, staged: str, columns: tuple[str, ...]) -> str:
        alias = self._target.location.name
        values = set_values(self._context, self._target, conflict.sets)
        matches = " AND ".join(f"{quoted(alias, name)} = excluded.{quoted(name)}" for name in columns)
        sources = f"{self._target.sql()} AS {quoted(alias)} JOIN {staged} AS excluded ON {matches}"
        items = [*_addresses(alias), *updated_items(self._target, alias, values)]
        return select("", items, sources, (conflict.condition,))

    # Update and delete

    def update(self, statement: UpdateStatement) -> int:
        """Run an update; returns the number of rows that it matched."""
        values = set_values(self._context, self._target, statement.sets)
        items = [*_addresses(statement.alias), *updated_items(self._target, statement.alias, values)]
        sources = f"{self._target.sql()} AS {quoted(statement.alias)}"
        if statement.sources is not None:
            sources += f", {statement.sources}"
        text = select(statement.prefix, items, sources, (statement.condition,), distinct=statement.sources is not None)
        edits = _Edits()
        with Workspace() as workspace:
            return self._edit(edits, self._updates(text, edits), workspace, "matches several rows of FROM that differ")

    def delete(self, statement: DeleteStatement) -> int:
        """Run a delete; returns the number of rows that it removed."""
        sources = f"{self._target.sql()} AS {quoted(statement.alias)}"
        if statement.sources is not None:
            sources += f", {statement.sources}"
        item = f"{quoted(statement.alias, ADDRESSES[1].name)} AS a"
        text = select(statement.prefix, [item], sources, (statement.condition,), distinct=statement.sources is not None)
        edits = _Edits(removed=[batch.column(0) for batch in self._context.batches(text)])
        with Workspace() as workspace:
            self._edit(edits, iter(()), workspace)
        return len(edits.gone())

    def truncate(self, _: TruncateStatement) -> int:
        """Remove all rows; returns their number."""
        entry = self._target.table.entry
        assert entry is not None
        if entry.row_count:
            self._apply(Overwrite(self._target.table_key, TableRows.of(self._target.schema.empty_table())))
        return entry.row_count

    # Merge

    def merge(self, statement: MergeIntoStatement) -> int:
        """Run a merge; returns the number of rows that it inserted or updated."""
        selects = MergeSelects(self._context, self._target, statement)
        edits = _Edits()
        address = f"{quoted(statement.alias, ADDRESSES[1].name)} AS a"
        for clause in statement.clauses:
            if clause.action == "delete":
                batches = self._context.batches(selects.removed(clause, [address]))
                edits.removed += [batch.column(0) for batch in batches]

        def rows() -> Iterator[pa.RecordBatch]:
            for clause in statement.clauses:
                if clause.action == "update":
                    yield from self._updates(selects.updated(clause, _addresses(statement.alias)), edits)
            for clause in statement.clauses:
                if clause.action == "insert":
                    columns, text = selects.inserted(clause)
                    yield from self._rows(self._context.batches(text), columns)

        with Workspace() as workspace:
            return self._edit(edits, rows(), workspace, "matches several rows of the source")

    # Staging

    def _updates(self, text: str, edits: _Edits) -> Iterator[pa.RecordBatch]:
        """The rows of a query that begins with row ids and addresses, which go to the edits."""
        reader = self._context.batches(text)
        names = self._target.schema.names
        batches = []

        def noted() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                batches.append((batch.column(0), batch.column(1)))
                yield batch

        noted_reader = pa.RecordBatchReader.from_batches(reader.schema, noted())
        for rows in self._rows(noted_reader, names, len(ADDRESSES)):
            row_ids, addresses = batches.pop(0)
            edits.row_ids.append(row_ids)
            edits.addresses.append(addresses)
            yield rows

    def _edit(
        self, edits: _Edits, batches: Iterator[pa.RecordBatch], workspace: Workspace, problem: str = "is changed twice"
    ) -> int:
        """Stage rows that replace others, then new ones; returns their number."""
        rows = TableRows.put(pa.RecordBatchReader.from_batches(self._target.schema, batches), workspace)
        gone = edits.gone()
        if len(gone) and len(np.unique(gone.to_numpy())) < len(gone):
            text = f"a row of `{self._target.location.text}` {problem}"
            raise BadRequest(text, hint="let each row match one at most, for example by grouping the other side")
        check_rows(self._context, self._target, rows, gone)
        if rows.num_rows or len(gone):
            self._apply(
                RowEdits(
                    table_key=self._target.table_key,
                    rows=rows,
                    row_ids=_joined(edits.row_ids),
                    addresses=_joined(edits.addresses),
                    removed=_joined(edits.removed),
                )
            )
        return rows.num_rows

    def _apply(self, write: TableWrite) -> None:
        def prepare(_: Snapshot) -> PreparedWrite[None]:
            return PreparedWrite(writes=(write,), reads=frozenset(), result=None)

        self._context.writes.apply(prepare)


def _addresses(alias: str) -> list[str]:
    return [f"{quoted(alias, column.name)} AS {quoted(f'a{number}')}" for number, column in enumerate(ADDRESSES)]


def later_places(rows: TableRows, columns: tuple[str, ...]) -> pa.Array:
    """The places of rows whose key an earlier row has."""
    table = complete_tuples(rows.table([*columns, AT]), columns)
    first = table.group_by(list(columns)).aggregate([(AT, "min")]).column(f"{AT}_min").combine_chunks()
    places = table.column(AT).combine_chunks()
    return places.filter(pc.invert(pc.is_in(places, value_set=first)))
