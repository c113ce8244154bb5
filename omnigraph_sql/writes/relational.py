"""Writing relational tables, views and schemas: they live in the graph's manifest and publish, branch and recover with it.

Rows have no identity and no constraints here. Each call is one commit on its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import BadRequest, Conflict, NotFound, Storage, ValidationFailed
from omnigraph_sql.manifest.changes import Define, Tombstone
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.relations import (
    DEFAULT_SCHEMA,
    Relation,
    qualified,
    relation,
    relations,
    schema_key,
    schemas,
    table_key,
    view_key,
)
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.names import fnv1a64_hex
from omnigraph_sql.writes.delta import TableRows
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.operation import Prepared, Provenance, TableWrite
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.spool import Workspace

Steps = tuple[tuple[TableWrite, ...], tuple[Tombstone | Define, ...]]


class RelationalWriter:
    """Writes to one branch. Data is anything with an Arrow C stream."""

    def __init__(self, engine: Engine, branch: str, provenance: Provenance) -> None:
        self._engine = engine
        self._branch = branch
        self._provenance = provenance

    # Schemas

    def create_schema(self, name: str, comment: str | None = None) -> Commit | None:
        """A schema; one that exists stays as it is."""
        key = schema_key(name)

        def steps(snapshot: Snapshot) -> Steps:
            if name in schemas(snapshot):
                return (), ()
            return (), (Define(key, snapshot.pin(key) + 1, {} if comment is None else {"comment": comment}),)

        return self._run(steps, {key})

    def drop_schema(self, name: str, *, cascade: bool = False) -> Commit | None:
        """Drop a schema; with `cascade` also what is in it. One that does not exist is fine."""
        if name == DEFAULT_SCHEMA:
            raise BadRequest(f"the schema `{name}` cannot be dropped", hint="it is always there")
        key = schema_key(name)

        def steps(snapshot: Snapshot) -> Steps:
            inside = [each for each in relations(snapshot) if each.schema == name]
            if inside and not cascade:
                text = f"the schema `{name}` is not empty: it holds `{inside[0].name}`"
                raise Conflict(text, reason="not empty", hint="drop what is in it, or use cascade")
            changes = [_drop(snapshot, each) for each in inside]
            if snapshot.defined(key) is not None:
                changes.append(Define(key, snapshot.pin(key) + 1, None))
            return (), tuple(changes)

        return self._run(steps, {key})

    # Tables

    def create_table(self, schema: str, name: str, data: Any, *, replace: bool = False) -> Commit | None:
        """A table with these rows. `replace` lets it take the place of a table or view of that name, in one step."""

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            found = relation(snapshot, schema, name)
            if found is not None and not replace:
                text = f"`{schema}.{name}` exists already: it is a {found.kind}"
                raise Conflict(text, reason="exists", hint="replace it, or choose another name")
            created = _created(snapshot, schema, name, rows)
            gone = (_drop(snapshot, found),) if found is not None and found.kind == "view" else ()
            return (created,), (*_schema_of(snapshot, schema), *gone)

        return self._run_with(steps, data, schema, name)

    def append(self, schema: str, name: str, data: Any) -> Commit | None:
        """More rows for a table. Columns are matched by name; a nullable one may be missing."""

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            key, _ = self._table(snapshot, schema, name)
            return ((TableWrite(key, "append", rows=rows),) if rows.num_rows else ()), ()

        return self._run_with(steps, data, schema, name, fits=True)

    def rewrite(self, schema: str, name: str, condition: str, data: Any | None = None) -> Commit | None:
        """Remove the rows that satisfy an SQL condition, and add others in the same step."""

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            key, entry = self._table(snapshot, schema, name)
            if rows.num_rows == 0 and self._count(entry, condition) == 0:
                return (), ()
            return (TableWrite(key, "rewrite", rows=rows, condition=condition),), ()

        return self._run_with(steps, data, schema, name, fits=True)

    def delete(self, schema: str, name: str, condition: str) -> Commit | None:
        """Remove the rows that satisfy an SQL condition."""
        return self.rewrite(schema, name, condition)

    def upsert(self, schema: str, name: str, data: Any, keys: Sequence[str]) -> Commit | None:
        """Rows that replace those with the same keys, or are added where there are none."""

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            key, _ = self._table(snapshot, schema, name)
            _check_keys(key, rows, keys)
            return ((TableWrite(key, "upsert", rows=rows, keys=tuple(keys)),) if rows.num_rows else ()), ()

        return self._run_with(steps, data, schema, name, fits=True)

    # Views, and whatever has a name

    def define_view(
        self,
        schema: str,
        name: str,
        sql: str,
        *,
        dialect: str,
        columns: Sequence[str],
        comment: str | None = None,
        replace: bool = False,
    ) -> Commit | None:
        """A view. `replace` lets it take the place of a view or table of that name, in one step."""
        key = view_key(schema, name)
        definition: dict[str, Any] = {"sql": sql, "dialect": dialect, "columns": list(columns)}
        if comment is not None:
            definition["comment"] = comment

        def steps(snapshot: Snapshot) -> Steps:
            found = relation(snapshot, schema, name)
            if found is not None and not replace:
                text = f"`{schema}.{name}` exists already: it is a {found.kind}"
                raise Conflict(text, reason="exists", hint="replace it, or choose another name")
            if found is not None and found.definition == definition:
                return (), ()
            gone = (_drop(snapshot, found),) if found is not None and found.kind == "table" else ()
            return (), (*_schema_of(snapshot, schema), *gone, Define(key, snapshot.pin(key) + 1, definition))

        return self._run(steps, {key, table_key(schema, name)})

    def rename(self, schema: str, name: str, new_name: str, new_schema: str | None = None) -> Commit | None:
        """Give a table or view another name; its rows are copied, the old name is free afterwards."""
        target = schema if new_schema is None else new_schema

        def steps(snapshot: Snapshot, workspace: Workspace) -> Steps:
            found = self._require(snapshot, schema, name)
            other = relation(snapshot, target, new_name)
            if other is not None:
                text = f"`{target}.{new_name}` exists already: it is a {other.kind}"
                raise Conflict(text, reason="exists", hint="drop it first, or choose another name")
            made = (*_schema_of(snapshot, target), _drop(snapshot, found))
            if found.kind == "view":
                key = view_key(target, new_name)
                return (), (*made, Define(key, snapshot.pin(key) + 1, found.definition))
            entry = snapshot.entry(found.table_key)
            handle = self._engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
            rows = TableRows.put(self._engine.storage.scan(handle), workspace)
            return (_created(snapshot, target, new_name, rows),), made

        with Workspace() as workspace:
            reads = {
                table_key(schema, name),
                view_key(schema, name),
                table_key(target, new_name),
                view_key(target, new_name),
            }
            return self._run(lambda snapshot: steps(snapshot, workspace), reads)

    def drop(self, schema: str, name: str) -> Commit | None:
        """Drop a table or view; one that does not exist is fine."""

        def steps(snapshot: Snapshot) -> Steps:
            found = relation(snapshot, schema, name)
            return (), () if found is None else (_drop(snapshot, found),)

        return self._run(steps, {table_key(schema, name), view_key(schema, name)})

    # How it is done

    def _run_with(
        self, steps: Callable[[Snapshot, TableRows], Steps], data: Any, schema: str, name: str, *, fits: bool = False
    ) -> Commit | None:
        reads = {table_key(schema, name), view_key(schema, name)}
        with Workspace() as workspace:
            # Put aside first: a stream can be read once only, and the steps may have to be taken again.
            given = None if data is None else TableRows.put(_reader(data), workspace)

            def with_rows(snapshot: Snapshot) -> Steps:
                if given is not None and not fits:
                    return steps(snapshot, given)
                wanted = self._schema(snapshot, schema, name)
                rows = wanted.empty_table().to_reader() if given is None else _fitted(given.reader(), wanted)
                return steps(snapshot, TableRows.put(rows, workspace))

            return self._run(with_rows, reads)

    def _run(self, steps: Callable[[Snapshot], Steps], reads: set[str]) -> Commit | None:
        def prepare(snapshot: Snapshot) -> Prepared[None]:
            writes, changes = steps(snapshot)
            return Prepared(writes, frozenset(reads), None, changes=changes)

        return execute(self._engine, self._branch, prepare, self._provenance).commit

    def _require(self, snapshot: Snapshot, schema: str, name: str) -> Relation:
        found = relation(snapshot, schema, name)
        if found is None:
            names = [f"{each.schema}.{each.name}" for each in relations(snapshot)]
            hint = f"there are {', '.join(names[:10])}" if names else "there are no tables yet"
            raise NotFound(f"there is no table `{schema}.{name}`", what="table", name=f"{schema}.{name}", hint=hint)
        return found

    def _table(self, snapshot: Snapshot, schema: str, name: str) -> tuple[str, Entry]:
        found = self._require(snapshot, schema, name)
        if found.kind == "view":
            raise BadRequest(f"`{schema}.{name}` is a view and takes no rows", hint="write to the tables it reads")
        return found.table_key, snapshot.entry(found.table_key)

    def _schema(self, snapshot: Snapshot, schema: str, name: str) -> pa.Schema:
        _, entry = self._table(snapshot, schema, name)
        storage = self._engine.storage
        return storage.schema(storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid))

    def _count(self, entry: Entry, condition: str) -> int:
        storage = self._engine.storage
        handle = storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
        try:
            return storage.count(handle, condition)
        except Storage as error:
            if error.storage_class != "unknown":
                raise
            text = f"the condition `{condition}` cannot be evaluated: {error.message.removeprefix(f'{entry.path}: ')}"
            raise BadRequest(text, hint=f"the columns are {', '.join(storage.schema(handle).names)}") from None


def _drop(snapshot: Snapshot, found: Relation) -> Tombstone | Define:
    if found.kind == "view":
        return Define(found.table_key, snapshot.pin(found.table_key) + 1, None)
    return Tombstone(found.table_key, snapshot.pin(found.table_key) + 1)


def _created(snapshot: Snapshot, schema: str, name: str, rows: TableRows) -> TableWrite:
    key = table_key(schema, name)
    exists = key in snapshot.entries
    return TableWrite(
        key, "overwrite" if exists else "create", rows=rows, path=f"tables/{fnv1a64_hex(qualified(schema, name))}"
    )


def _schema_of(snapshot: Snapshot, schema: str) -> tuple[Define, ...]:
    """What makes the schema exist."""
    if schema in schemas(snapshot):
        return ()
    key = schema_key(schema)
    return (Define(key, snapshot.pin(key) + 1, {}),)


def _reader(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if not hasattr(data, "__arrow_c_stream__"):
        text = f"a {type(data).__name__} is not a table"
        raise BadRequest(text, hint="give an Arrow table, a data frame, or anything with an Arrow C stream")
    return pa.RecordBatchReader.from_stream(data)


def _fitted(reader: pa.RecordBatchReader, wanted: pa.Schema) -> pa.RecordBatchReader:
    unknown = [name for name in reader.schema.names if name not in wanted.names]
    missing = [field.name for field in wanted if field.name not in reader.schema.names and not field.nullable]
    if unknown:
        hint = f"the columns are {', '.join(wanted.names)}"
        raise BadRequest(f"the table has no column `{unknown[0]}`", hint=hint)
    if missing:
        raise BadRequest(f"the column `{missing[0]}` is missing, and it cannot be null")

    def batches() -> Any:
        for batch in reader:
            columns = [_column(batch, field) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    return pa.RecordBatchReader.from_batches(wanted, batches())


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    try:
        return column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadRequest(f"the column `{field.name}` takes {field.type}: {error}", hint="cast the column") from None


def _check_keys(key: str, rows: TableRows, keys: Sequence[str]) -> None:
    unknown = [name for name in keys if name not in rows.schema.names]
    if unknown or not keys:
        text = f"there is no column `{unknown[0]}` to be a key" if unknown else "an upsert needs at least one key"
        raise BadRequest(text, hint=f"the columns are {', '.join(rows.schema.names)}")
    table = rows.table(list(keys))
    for name in keys:
        if table.column(name).null_count:
            raise ValidationFailed(f"the key `{name}` of {key} is null", table_key=key, rule="key")
    counted = table.group_by(list(keys)).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    if repeated.num_rows:
        row = repeated.slice(0, 1).to_pylist()[0]
        value = ", ".join(str(row[name]) for name in keys)
        raise ValidationFailed(f"two rows for {key} have the key `{value}`", table_key=key, rule="key")
