"""Writing relational tables, views and schemas: they live in the graph's manifest and publish, branch and recover with it.

Rows have no identity and no constraints here. Each call is one commit on its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_sql.arguments import checked, flag, text, texts
from omnigraph_sql.errors import BadRequest, Conflict, NotFound, Storage
from omnigraph_sql.manifest.changes import DefinitionChange, Tombstone
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
from omnigraph_sql.manifest.table_rules import TableRules
from omnigraph_sql.manifest.texts import check_name, check_optional
from omnigraph_sql.manifest.texts import check_sql as check_sql_text
from omnigraph_sql.sqltext.script import view_query
from omnigraph_sql.sqltext.text_limits import check_sql
from omnigraph_sql.sqltext.user_sql import check_dialect
from omnigraph_sql.storage.table_names import fnv1a64_hex
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.operation import (
    Append,
    CreateTable,
    Overwrite,
    PreparedWrite,
    Provenance,
    Rewrite,
    TableWrite,
    Upsert,
)
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.relational_columns import kept_rows
from omnigraph_sql.writes.relational_rows import check_keys, fitted_rows, opened_rows
from omnigraph_sql.writes.transactions import WriteTransaction

Steps = tuple[tuple[TableWrite, ...], tuple[Tombstone | DefinitionChange, ...]]


class RelationalWriter:
    """Writes relational tables, views and schemas of one branch. Made by `Graph.tables`; every call is one commit.

    Data is an Arrow table, a data frame, or any other object with an Arrow C stream.
    """

    def __init__(
        self, store: GraphStore, branch: str, provenance: Provenance, transaction: WriteTransaction | None = None
    ) -> None:
        self._transaction = transaction
        self._store = store
        self._branch = branch
        self._provenance = provenance

    # Schemas

    @checked()
    def create_schema(self, name: str, comment: str | None = None) -> Commit | None:
        """Create a schema. One that exists stays as it is.

        Args:
            name: the name of the schema.
            comment: a note about it.

        Returns:
            The commit; None if the schema exists.

        Raises:
            BadRequest: the name is not valid.

        Example:
            >>> graph.tables().create_schema("finance") is None
            False
        """
        key = schema_key(name)
        check_optional(comment, "comment")

        def steps(snapshot: Snapshot) -> Steps:
            if name in schemas(snapshot):
                return (), ()
            return (), (DefinitionChange(key, snapshot.pin(key) + 1, {} if comment is None else {"comment": comment}),)

        return self._run(steps, {key})

    @checked(cascade=flag)
    def drop_schema(self, name: str, *, cascade: bool = False) -> Commit | None:
        """Drop a schema, if it exists.

        Args:
            name: the name of the schema.
            cascade: also drop the tables and views in it.

        Returns:
            The commit; None if there is no such schema.

        Raises:
            BadRequest: it is the default schema `main`.
            Conflict: the schema is not empty.

        Example:
            >>> graph.tables().drop_schema("finance") is None
            True
        """
        if name == DEFAULT_SCHEMA:
            raise BadRequest(f"the schema `{name}` cannot be dropped", hint="it is always there")
        key = schema_key(name)

        def steps(snapshot: Snapshot) -> Steps:
            inside = [member for member in relations(snapshot) if member.schema == name]
            if inside and not cascade:
                text = f"the schema `{name}` is not empty: it holds `{inside[0].name}`"
                raise Conflict(text, reason="not empty", hint="drop what is in it, or use cascade")
            changes = [_drop(snapshot, member) for member in inside]
            if snapshot.defined(key) is not None:
                changes.append(DefinitionChange(key, snapshot.pin(key) + 1, None))
            return (), tuple(changes)

        return self._run(steps, {key})

    # Tables

    @checked(replace=flag)
    def create_table(self, schema: str, name: str, data: Any, *, replace: bool = False) -> Commit | None:
        """Create a table with these rows.

        Args:
            schema: its schema; a missing one is created.
            name: its name.
            data: the rows; their columns become those of the table.
            replace: replace a table or view of that name in the same commit.

        Returns:
            The commit.

        Raises:
            BadRequest: the name is not valid, or the rows cannot be read.
            Conflict: there is a table, view or type of that name.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> graph.sql("select sum(fee) as total from fees").to_pylist()
            [{'total': 20.5}]
        """

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            existing = relation(snapshot, schema, name)
            if existing is not None and not replace:
                message = f"`{schema}.{name}` exists already: it is a {existing.kind}"
                raise Conflict(message, reason="exists", hint="replace it, or choose another name")
            if existing is None:
                self._require_free(snapshot, schema, name)
            created = _created(snapshot, schema, name, rows)
            gone = (_drop(snapshot, existing),) if existing is not None and existing.kind == "view" else ()
            return (created,), (*_schema_of(snapshot, schema), *gone)

        return self._run_with(steps, data, schema, name)

    @checked()
    def append(self, schema: str, name: str, data: Any) -> Commit | None:
        """Add rows to a table. Columns are matched by name; a nullable one may be missing.

        Args:
            schema: the schema of the table.
            name: its name.
            data: the rows.

        Returns:
            The commit; None if there are no rows.

        Raises:
            BadRequest: a column is unknown, missing or of another type, or it is a view.
            NotFound: there is no such table.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> _ = tables.append("main", "fees", pa.table({"code": ["GBFXT"], "fee": [9.0]}))
            >>> graph.sql("select count(*) as n from fees").to_pylist()
            [{'n': 3}]
        """

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            key, _ = self._table(snapshot, schema, name)
            return ((Append(key, rows),) if rows.num_rows else ()), ()

        return self._run_with(steps, data, schema, name, fits=True)

    @checked(condition=text)
    def rewrite(self, schema: str, name: str, condition: str, data: Any | None = None) -> Commit | None:
        """Remove the rows that satisfy a condition, and add others in the same commit.

        Args:
            schema: the schema of the table.
            name: its name.
            condition: an SQL expression over the columns of the table.
            data: the rows to add; none if it is None.

        Returns:
            The commit; None if nothing changed.

        Raises:
            BadRequest: the condition or the rows are not valid, or it is a view.
            NotFound: there is no such table.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> _ = tables.rewrite("main", "fees", "fee < 10", pa.table({"code": ["DEDUI"], "fee": [10.0]}))
            >>> graph.sql("select min(fee) as least from fees").to_pylist()
            [{'least': 10.0}]
        """
        check_sql(condition, "the condition")

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            key, entry = self._table(snapshot, schema, name)
            if rows.num_rows == 0 and self._count(entry, condition) == 0:
                return (), ()
            return (Rewrite(key, rows, condition),), ()

        return self._run_with(steps, data, schema, name, fits=True)

    @checked(condition=text)
    def delete(self, schema: str, name: str, condition: str) -> Commit | None:
        """Remove the rows that satisfy a condition.

        Args:
            schema: the schema of the table.
            name: its name.
            condition: an SQL expression over the columns of the table.

        Returns:
            The commit; None if no row satisfies the condition.

        Raises:
            BadRequest: the condition is not valid, or it is a view.
            NotFound: there is no such table.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> _ = tables.delete("main", "fees", "code = 'DEDUI'")
            >>> graph.sql("select code from fees").to_pylist()
            [{'code': 'NLRTM'}]
        """
        return self.rewrite(schema, name, condition)

    @checked(keys=texts)
    def upsert(self, schema: str, name: str, data: Any, keys: Sequence[str]) -> Commit | None:
        """Add rows, replacing those with the same keys.

        Args:
            schema: the schema of the table.
            name: its name.
            data: the rows.
            keys: the columns that identify a row.

        Returns:
            The commit; None if there are no rows.

        Raises:
            BadRequest: a key is no column, or the rows do not fit the table.
            NotFound: there is no such table.
            ValidationFailed: a key is null, or two rows have the same.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> _ = tables.upsert("main", "fees", pa.table({"code": ["DEDUI"], "fee": [10.0]}), ["code"])
            >>> graph.sql("select sum(fee) as total from fees").to_pylist()
            [{'total': 22.5}]
        """

        def steps(snapshot: Snapshot, rows: TableRows) -> Steps:
            key, _ = self._table(snapshot, schema, name)
            check_keys(key, rows, keys)
            return ((Upsert(key, rows, tuple(keys)),) if rows.num_rows else ()), ()

        return self._run_with(steps, data, schema, name, fits=True)

    # Views, and tables by name

    @checked(sql=text, dialect=text, columns=texts, replace=flag)
    def define_view(
        self,
        schema: str,
        name: str,
        sql: str,
        *,
        dialect: str,
        columns: Sequence[str],
        comment: str | None = None,
        catalog: str | None = None,
        replace: bool = False,
    ) -> Commit | None:
        """Define a view.

        Args:
            schema: its schema; a missing one is created.
            name: its name.
            sql: the statement.
            dialect: the dialect of the statement: `datafusion` or `duckdb`.
            columns: the names of its columns.
            comment: a note about it.
            catalog: the name of the pinned catalog whose names the statement uses; None if its schemas are branches.
            replace: replace a view or table of that name in the same commit.

        Returns:
            The commit; None if the view is defined like that already.

        Raises:
            BadRequest: the name, the statement or the columns are not valid.
            Conflict: there is a table, view or type of that name.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> sql = "select code from fees where fee > 10"
            >>> _ = tables.define_view("main", "dear", sql, dialect="datafusion", columns=["code"])
            >>> graph.sql("select code from dear").to_pylist()
            [{'code': 'NLRTM'}]
        """
        check_sql(check_sql_text(sql, "sql"), f"the view `{name}`")
        key = view_key(schema, name)
        definition: dict[str, Any] = {
            "sql": view_query(sql, name),
            "dialect": check_dialect(check_name(dialect, "dialect")),
            "columns": _column_names(columns),
        }
        if check_optional(comment, "comment") is not None:
            definition["comment"] = comment
        if catalog is not None:
            definition["catalog"] = check_name(catalog, "catalog")

        def steps(snapshot: Snapshot) -> Steps:
            existing = relation(snapshot, schema, name)
            if existing is not None and not replace:
                message = f"`{schema}.{name}` exists already: it is a {existing.kind}"
                raise Conflict(message, reason="exists", hint="replace it, or choose another name")
            if existing is None:
                self._require_free(snapshot, schema, name)
            elif existing.definition == definition:
                return (), ()
            gone = (_drop(snapshot, existing),) if existing is not None and existing.kind == "table" else ()
            return (), (*_schema_of(snapshot, schema), *gone, DefinitionChange(key, snapshot.pin(key) + 1, definition))

        return self._run(steps, {key, table_key(schema, name)})

    @checked()
    def rename(self, schema: str, name: str, new_name: str, new_schema: str | None = None) -> Commit | None:
        """Give a table or view another name. The rows of a table are copied.

        Args:
            schema: its schema.
            name: its name.
            new_name: the new name.
            new_schema: the new schema; it stays where it is if this is None.

        Returns:
            The commit.

        Raises:
            Conflict: the new name is taken.
            NotFound: there is no such table or view.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> _ = tables.rename("main", "fees", "dues")
            >>> graph.sql("select count(*) as n from dues").to_pylist()
            [{'n': 2}]
        """
        target = schema if new_schema is None else new_schema

        def steps(snapshot: Snapshot, workspace: Workspace) -> Steps:
            source = self._require(snapshot, schema, name)
            other = relation(snapshot, target, new_name)
            if other is not None:
                text = f"`{target}.{new_name}` exists already: it is a {other.kind}"
                raise Conflict(text, reason="exists", hint="drop it first, or choose another name")
            self._require_free(snapshot, target, new_name, besides=source)
            changes = (*_schema_of(snapshot, target), _drop(snapshot, source))
            if source.kind == "view":
                key = view_key(target, new_name)
                return (), (*changes, DefinitionChange(key, snapshot.pin(key) + 1, source.definition))
            entry = snapshot.entry(source.table_key)
            handle = self._store.storage.open(entry)
            rows = TableRows.put(self._store.storage.scan(handle), workspace)
            return (_created(snapshot, target, new_name, rows),), changes

        with Workspace() as workspace:
            reads = {
                table_key(schema, name),
                view_key(schema, name),
                table_key(target, new_name),
                view_key(target, new_name),
            }
            return self._run(lambda snapshot: steps(snapshot, workspace), reads)

    @checked()
    def drop(self, schema: str, name: str) -> Commit | None:
        """Drop a table or view, if it exists.

        Args:
            schema: its schema.
            name: its name.

        Returns:
            The commit; None if there is no such table or view.

        Raises:
            BadRequest: the name is not valid.

        Example:
            >>> import pyarrow as pa
            >>> tables = graph.tables()
            >>> fees = pa.table({"code": ["NLRTM", "DEDUI"], "fee": [12.5, 8.0]})
            >>> _ = tables.create_table("main", "fees", fees)
            >>> _ = tables.drop("main", "fees")
            >>> tables.drop("main", "fees") is None
            True
        """

        def steps(snapshot: Snapshot) -> Steps:
            existing = relation(snapshot, schema, name)
            return (), () if existing is None else (_drop(snapshot, existing),)

        return self._run(steps, {table_key(schema, name), view_key(schema, name)})

    # How it is done

    def _run_with(
        self, steps: Callable[[Snapshot, TableRows], Steps], data: Any, schema: str, name: str, *, fits: bool = False
    ) -> Commit | None:
        reads = {table_key(schema, name), view_key(schema, name)}
        with Workspace() as workspace:
            # Spool first: a stream can be read once only, and the steps may run again.
            rows = None if data is None else opened_rows(data)
            incoming = None if rows is None else TableRows.put(rows if fits else kept_rows(rows), workspace)

            def with_rows(snapshot: Snapshot) -> Steps:
                if incoming is not None and not fits:
                    return steps(snapshot, incoming)
                wanted = self._schema(snapshot, schema, name)
                if TableRules.of(wanted).are_enforced and incoming is not None:
                    hint = "write with Graph.execute, or with execute or write of a transaction"
                    raise BadRequest(f"`{schema}.{name}` has constraints, which are checked by SQL only", hint=hint)
                fitted = wanted.empty_table().to_reader() if incoming is None else fitted_rows(incoming.reader(), wanted)
                return steps(snapshot, TableRows.put(fitted, workspace))

            return self._run(with_rows, reads)

    def _run(self, steps: Callable[[Snapshot], Steps], reads: Iterable[str]) -> Commit | None:
        def prepare(snapshot: Snapshot) -> PreparedWrite[None]:
            writes, changes = steps(snapshot)
            return PreparedWrite(writes=writes, reads=frozenset(reads), result=None, changes=changes)

        if self._transaction is not None:
            return self._transaction.apply(prepare)
        return execute(self._store, self._branch, prepare, self._provenance).commit

    def _require_free(self, snapshot: Snapshot, schema: str, name: str, besides: Relation | None = None) -> None:
        """Raise if a new name differs from that of another relation in its case only, or is that of a type."""
        for other in relations(snapshot, schema):
            if (
                other.name.lower() == name.lower()
                and other.name != name
                and (besides is None or other.table_key != besides.table_key)
            ):
                text = f"`{schema}.{name}` differs only in its case from the {other.kind} `{schema}.{other.name}`"
                raise Conflict(text, reason="exists", hint="choose another name: SQL compares names without case")
        if schema != DEFAULT_SCHEMA:
            return
        catalog = self._store.catalog
        for kind, types in (("node", catalog.nodes), ("edge", catalog.edges)):
            folded = {type_name.lower(): type_name for type_name in types}
            known = folded.get(name.lower()) or folded.get(name.removeprefix(f"{kind}:").lower())
            if known is not None:
                text = f"`{schema}.{name}` is the name of the {kind} type `{known}`"
                raise Conflict(text, reason="exists", hint="choose another name, or another schema")

    def _require(self, snapshot: Snapshot, schema: str, name: str) -> Relation:
        existing = relation(snapshot, schema, name)
        if existing is None:
            names = [f"{other.schema}.{other.name}" for other in relations(snapshot)]
            hint = f"there are {', '.join(names[:10])}" if names else "there are no tables yet"
            raise NotFound(f"there is no table `{schema}.{name}`", what="table", name=f"{schema}.{name}", hint=hint)
        return existing

    def _table(self, snapshot: Snapshot, schema: str, name: str) -> tuple[str, Entry]:
        target = self._require(snapshot, schema, name)
        if target.kind == "view":
            raise BadRequest(f"`{schema}.{name}` is a view and takes no rows", hint="write to the tables it reads")
        return target.table_key, snapshot.entry(target.table_key)

    def _schema(self, snapshot: Snapshot, schema: str, name: str) -> pa.Schema:
        _, entry = self._table(snapshot, schema, name)
        storage = self._store.storage
        return storage.schema(storage.open(entry))

    def _count(self, entry: Entry, condition: str) -> int:
        storage = self._store.storage
        handle = storage.open(entry)
        try:
            return storage.count(handle, condition)
        except Storage as error:
            if error.storage_class != "unknown":
                raise
            text = f"the condition `{condition}` cannot be evaluated: {error.message.removeprefix(f'{entry.path}: ')}"
            raise BadRequest(text, hint=f"the columns are {', '.join(storage.schema(handle).names)}") from None


def _column_names(columns: object) -> list[str]:
    """Engines name columns after expressions, so a name may be long and have lines."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise BadRequest("`columns` is a list of names", hint="give the names of the columns in their order")
    return [check_sql_text(column, "columns") for column in columns]


def _drop(snapshot: Snapshot, dropped: Relation) -> Tombstone | DefinitionChange:
    if dropped.kind == "view":
        return DefinitionChange(dropped.table_key, snapshot.pin(dropped.table_key) + 1, None)
    return Tombstone(dropped.table_key, snapshot.pin(dropped.table_key) + 1)


def _created(snapshot: Snapshot, schema: str, name: str, rows: TableRows) -> TableWrite:
    key = table_key(schema, name)
    if key in snapshot.entries:
        return Overwrite(key, rows)
    return CreateTable(key, rows, f"tables/{fnv1a64_hex(qualified(schema, name))}")


def _schema_of(snapshot: Snapshot, schema: str) -> tuple[DefinitionChange, ...]:
    """The change that creates the schema, if it is missing."""
    if schema in schemas(snapshot):
        return ()
    key = schema_key(schema)
    return (DefinitionChange(key, snapshot.pin(key) + 1, {}),)
