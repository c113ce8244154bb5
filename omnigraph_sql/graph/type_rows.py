"""Statements that change nodes and edges: the engine computes the rows, and they become loads and removals.

So every rule of the schema holds, as it does for a load or a mutation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph.literal_statements import LiteralChange, literal_change, literal_rows
from omnigraph_sql.graph.row_selects import (
    MergeSelects,
    columns_once,
    insert_columns,
    insert_query,
    select,
    set_values,
    updated_items,
    wrong_count,
)
from omnigraph_sql.graph.staged_rows import ROW_NUMBER
from omnigraph_sql.graph.table_constraints import first_repeated
from omnigraph_sql.graph.table_rows import later_places
from omnigraph_sql.graph.write_targets import StatementContext, WriteTarget
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.write_statements import (
    ConflictClause,
    DeleteStatement,
    InsertStatement,
    MergeIntoStatement,
    SetClause,
    TruncateStatement,
    UpdateStatement,
)
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.pending_graph import TableRows, plain, probe
from omnigraph_sql.writes.load.loads import LoadInput, prepare_load, warn_of
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.mutation import prepare_removal
from omnigraph_sql.writes.readers import read_tables
from omnigraph_sql.writes.readers.model import Counted


class TypeRowStatements:
    """Runs statements on the nodes or edges of one type."""

    def __init__(self, context: StatementContext, target: WriteTarget) -> None:
        assert target.table.type is not None
        self._context = context
        self._target = target
        self._type: NodeType | EdgeType = target.table.type
        self._key = TableKey.of_type(self._type)

    # Insert

    def insert(self, statement: InsertStatement) -> int:
        """Run an insert; returns the number of rows that were inserted or updated."""
        if statement.query is None:
            raise BadRequest(
                f"`{self._target.location.text}` takes no row of defaults alone", hint="name the columns and their values"
            )
        literals = literal_rows(self._context, self._target, statement)
        if literals is not None:
            return self._load(pa.RecordBatchReader.from_batches(literals.schema, [literals]), "append")
        reader = self._incoming(statement)
        if statement.conflict is None:
            return self._load(reader, "append")
        with Workspace() as workspace:
            return self._insert_or_update(statement.conflict, TableRows.put(reader, workspace))

    def _incoming(self, statement: InsertStatement) -> pa.RecordBatchReader:
        result = self._context.run(insert_query(self._context, self._target, statement))
        count = len(result.schema)
        if statement.by_name:
            columns = columns_once(self._target, result.schema.names)
        else:
            columns = insert_columns(self._target, statement, count)
        if len(columns) != count:
            raise wrong_count(self._target, count, len(columns))
        return _named(result.schema, iter(result), columns)

    def _insert_or_update(self, conflict: ConflictClause, rows: TableRows) -> int:
        columns = self._conflict_key(conflict)
        missing = [name for name in columns if name not in rows.schema.names]
        if missing:
            raise BadRequest(f"the rows have no value for the key `{missing[0]}`", hint="insert a value for it")
        repeated = first_repeated(rows, columns)
        if repeated is not None and conflict.sets:
            text = f"row {repeated + 1} has the same ({', '.join(columns)}) as an earlier one"
            raise BadRequest(text, hint="ON CONFLICT DO UPDATE takes each key once")
        if repeated is not None:
            rows = rows.without(later_places(rows, columns))
        alias = self._target.location.name
        values = self._values(conflict.sets)
        with self._context.staged(rows) as staged:
            matches = " AND ".join(f"{quoted(alias, name)} = excluded.{quoted(name)}" for name in columns)
            sources = f"{self._target.sql()} AS {quoted(alias)} JOIN {staged} AS excluded ON {matches}"
            number = f"excluded.{quoted(ROW_NUMBER)} AS n"
            taken = self._context.run(select("", [number], sources, ())).to_arrow().column(0)
            updated = 0
            if conflict.sets:
                items = updated_items(self._target, alias, self._all_values(values, alias))
                updated = self._replace(select("", items, sources, (conflict.condition,)))
        inserted = rows.without(plain(taken).unique())
        return updated + self._load(inserted.reader(), "append")

    def _conflict_key(self, conflict: ConflictClause) -> tuple[str, ...]:
        named = tuple(self._target.column(name) for name in conflict.columns)
        keys = [("id",), *self._type.unique]
        if isinstance(self._type, NodeType) and self._type.key is not None:
            keys.insert(0, self._type.key)
            named = named or self._type.key
        if not any(set(named) == set(key) for key in keys):
            what = f"({', '.join(named)})" if named else "without columns"
            text = f"ON CONFLICT {what} names no key of `{self._target.location.text}`"
            listed = (f"({', '.join(key)})" for key in keys)
            raise BadRequest(text, hint=f"the keys are {', '.join(listed)}")
        return named

    # Update and delete

    def update(self, statement: UpdateStatement) -> int:
        """Run an update; returns the number of rows that it matched."""
        values = self._values(statement.sets)
        change = literal_change(self._context, self._target, statement)
        if change is not None and self._is_plain(values):
            rows = self._changed_row(change)
            return 0 if rows is None else self._load(rows, "merge")
        items = updated_items(self._target, statement.alias, self._all_values(values, statement.alias))
        sources = f"{self._target.sql()} AS {quoted(statement.alias)}"
        if statement.sources is not None:
            sources += f", {statement.sources}"
        text = select(statement.prefix, items, sources, (statement.condition,), distinct=statement.sources is not None)
        return self._replace(text, "matches several rows of FROM that differ")

    def delete(self, statement: DeleteStatement) -> int:
        """Run a delete; returns the number of rows that it removed, without the edges that went with nodes."""
        change = literal_change(self._context, self._target, statement)
        if change is not None:
            return self._remove(plain(self._row(change.entity_id, ["id"]).column("id")))
        sources = f"{self._target.sql()} AS {quoted(statement.alias)}"
        if statement.sources is not None:
            sources += f", {statement.sources}"
        items = [f"{quoted(statement.alias, 'id')} AS id"]
        text = select(statement.prefix, items, sources, (statement.condition,), distinct=True)
        return self._remove(self._ids(text))

    def _is_plain(self, changed: Mapping[str, str]) -> bool:
        """True if values can be taken as they are stored: no column holds Blobs, and no vector is computed of a change."""
        properties = self._type.properties.values()
        computed = self._context.embeddings is not None and any(
            prop.embed is not None and prop.embed.source in changed for prop in properties
        )
        return not computed and not any(prop.type.is_blob for prop in properties)

    def _changed_row(self, change: LiteralChange) -> pa.RecordBatchReader | None:
        """The row of an entity with its new values; None if there is no such entity."""
        rows = self._row(change.entity_id, self._target.schema.names)
        if rows.num_rows == 0:
            return None
        for name, value in change.values.items():
            place = rows.schema.get_field_index(name)
            column = pa.array([value])
            rows = rows.set_column(place, name, column)
        return rows.to_reader()

    def _row(self, entity_id: str, columns: list[str]) -> pa.Table:
        """Columns of an entity, as one row or none."""
        entry = self._target.table.entry
        storage = self._context.store.storage
        if entry is None:
            return self._target.schema.empty_table().select(columns)
        handle = storage.open(entry)
        batches = list(probe(storage, handle, entry.row_count, columns, "id", pa.array([entity_id])))
        return pa.Table.from_batches(batches) if batches else storage.scan(handle, columns, limit=0).read_all()

    def truncate(self, _: TruncateStatement) -> int:
        """Remove all rows; returns their number."""
        return self._remove(self._ids(f"SELECT id FROM {self._target.sql()}"))

    # Merge

    def merge(self, statement: MergeIntoStatement) -> int:
        """Run a merge; returns the number of rows that it inserted or updated."""
        selects = MergeSelects(self._context, self._target, statement)
        for clause in statement.clauses:
            self._values(clause.sets)  # raises before anything is written
        ids = [f"{quoted(statement.alias, 'id')} AS id"]
        removed = [self._ids(selects.removed(clause, ids)) for clause in statement.clauses if clause.action == "delete"]
        with Workspace() as workspace:
            updates = [
                TableRows.put(self._own(self._context.batches(selects.updated(clause, ()))), workspace)
                for clause in statement.clauses
                if clause.action == "update"
            ]
            inserts = []
            for clause in statement.clauses:
                if clause.action == "insert":
                    columns, text = selects.inserted(clause)
                    reader = self._context.batches(text)
                    inserts.append(TableRows.put(_named(reader.schema, reader, columns), workspace))
            changed = [plain(rows.table(["id"]).column("id")) for rows in updates] + removed
            self._require_distinct(changed, "matches several rows of the source")
            count = sum(self._load(rows.reader(), "merge") for rows in updates)
            for gone in removed:
                self._remove(gone)
            return count + sum(self._load(rows.reader(), "append") for rows in inserts)

    # Staging

    def _values(self, sets: Sequence[SetClause]) -> dict[str, str]:
        values = set_values(self._context, self._target, sets)
        key = self._type.key or () if isinstance(self._type, NodeType) else ()
        for name in values:
            if name == "id" or name in key:
                text = f"`{self._target.location.text}.{name}` identifies the row and cannot be changed"
                raise BadRequest(text, hint="delete the row and insert another one")
        return values

    def _all_values(self, values: dict[str, str], alias: str) -> dict[str, str]:
        """The values that are set, and the vectors that are computed anew because their text is set."""
        if self._context.embeddings is None:
            return values
        made = dict(values)
        for prop in self._type.properties.values():
            if prop.embed is not None and prop.embed.source in values and prop.name not in values:
                text = values[prop.embed.source]
                old = "NULL" if prop.type.nullable else quoted(alias, prop.name)
                made[prop.name] = f"CASE WHEN COALESCE({text}, '') = '' THEN {old} END"
        return made

    def _own(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return _named(reader.schema, reader, self._target.schema.names)

    def _replace(self, text: str, problem: str = "is changed twice") -> int:
        """Replace rows by those of a query, which have all columns of the type."""
        with Workspace() as workspace:
            rows = TableRows.put(self._own(self._context.batches(text)), workspace)
            self._require_distinct([plain(rows.table(["id"]).column("id"))], problem)
            return self._load(rows.reader(), "merge")

    def _require_distinct(self, ids: Sequence[pa.Array], problem: str) -> None:
        every = pa.concat_arrays([part.cast(pa.string()) for part in ids]) if ids else pa.array([], pa.string())
        if len(every.unique()) < len(every):
            text = f"a row of `{self._target.location.text}` {problem}"
            raise BadRequest(text, hint="let each row match one at most, for example by grouping the other side")

    def _load(self, rows: pa.RecordBatchReader, mode: LoadMode) -> int:
        store = self._context.store
        computes = self._context.embeddings is not None
        batches = read_tables({str(self._key): rows}, store.catalog, computes=computes)
        data = LoadInput(batches, Counted("row"), None, self._context.embeddings)
        with Workspace() as workspace:
            prepare = prepare_load(store, data, workspace, mode=mode, branch=self._context.writes.branch)
            result = self._context.writes.apply(prepare)
        warn_of(result.warnings)
        return sum(result.nodes.values()) + sum(result.edges.values())

    def _ids(self, text: str) -> pa.Array:
        return plain(self._context.run(text).to_arrow().column(0)).cast(pa.string())

    def _remove(self, ids: pa.Array) -> int:
        if len(ids):
            self._context.writes.apply(prepare_removal(self._context.store, self._key, ids))
        return len(ids)


def _named(schema: pa.Schema, batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatchReader:
    """The same rows under the names of columns of the type."""
    named = pa.schema([field.with_name(name) for field, name in zip(schema, columns, strict=True)])
    renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=named) for batch in batches)
    return pa.RecordBatchReader.from_batches(named, renamed)
