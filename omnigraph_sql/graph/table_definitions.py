"""Statements that define relational tables, views and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, Conflict, NotFound, OmnigraphError
from omnigraph_sql.foreign.registry import SCHEMA as FOREIGN
from omnigraph_sql.graph.column_values import TargetColumn
from omnigraph_sql.graph.table_constraints import check_conditions, check_whole
from omnigraph_sql.graph.write_targets import StatementContext, TableLocation, WriteTarget, column_named
from omnigraph_sql.manifest.relations import schemas, table_key, view_key
from omnigraph_sql.manifest.table_rules import SqlText, TableConstraint, TableRules
from omnigraph_sql.sql.resolver import GRAPH_SCHEMA, ResolvedTable
from omnigraph_sql.sqltext.column_types import column_type
from omnigraph_sql.sqltext.duckdb_tokens import tokens_of
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.write_statements import (
    ColumnClause,
    ConstraintClause,
    CreateSchemaStatement,
    CreateTableStatement,
    CreateViewStatement,
    DropSchemaStatement,
    DropStatement,
    QualifiedName,
)
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.relational import RelationalWriter
from omnigraph_sql.writes.relational_columns import check_column_names, kept_type

_SHOWN = {GRAPH_SCHEMA: "the types of the graph", FOREIGN: "foreign tables"}


class TableDefinitions:
    """Runs the statements. Rows and changes go through the writer of relational tables."""

    def __init__(self, context: StatementContext, tables: RelationalWriter) -> None:
        self._context = context
        self._tables = tables

    # Create

    def create_table(self, statement: CreateTableStatement) -> int:
        """Create a table; returns the number of its rows."""
        location = self._new_location(statement, "table")
        if location is None:
            return 0
        key = table_key(location.schema, location.name)
        with Workspace() as workspace:
            if statement.query is None:
                fields = [declared_field(column) for column in statement.columns]
                check_names([column.name for column in fields])
                rules = table_rules(self._context.engine, location.name, statement.columns, statement.constraints)
                schema = rules.applied(fields)
                self._check_rules(key, rules, schema)
                reader = schema.empty_table().to_reader()
            else:
                reader = self._queried(statement)
            rows = TableRows.put(reader, workspace)
            self._tables.create_table(location.schema, location.name, rows.reader(), replace=statement.replace)
            if statement.is_temporary:
                self._context.writes.make_temporary(key)
            return rows.num_rows

    def _queried(self, statement: CreateTableStatement) -> pa.RecordBatchReader:
        assert statement.query is not None
        result = self._context.run(statement.query)
        names = self._names(result.schema.names, statement.names)
        schema = pa.schema([kept_field(name, kind) for name, kind in zip(names, result.schema.types, strict=True)])
        columns = [TargetColumn("the table", field) for field in schema]
        if not statement.with_data:
            result.cancel()
            return schema.empty_table().to_reader()
        batches = (
            pa.RecordBatch.from_arrays(
                [column.taken(values, 1) for column, values in zip(columns, batch.columns, strict=True)], schema=schema
            )
            for batch in result
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    @staticmethod
    def _names(queried: list[str], names: Sequence[str]) -> list[str]:
        if names and len(names) != len(queried):
            text = f"the statement names {len(names)} columns, and the query has {len(queried)}"
            raise BadRequest(text, hint="name all of them")
        chosen = list(names) or queried
        check_names(chosen)
        return chosen

    def _check_rules(self, key: str, rules: TableRules, schema: pa.Schema) -> None:
        """Raise if a default or a check cannot be computed."""
        for name, default in rules.defaults.items():
            self._default_value(key, schema.field(name), default)
        check_conditions(self._context, key, rules, TableRows.of(schema.empty_table()))

    def _default_value(self, key: str, field: pa.Field, default: SqlText) -> pa.Array:
        try:
            value = self._context.run(f"SELECT ({default.sql}\n) AS c").to_arrow().column(0).combine_chunks()
            return TargetColumn(key, field.with_nullable(True)).taken(value, 1)
        except OmnigraphError as error:
            error.message = f"the default of `{field.name}`: {error.message}"
            error.args = (error.message,)
            raise

    def create_view(self, statement: CreateViewStatement) -> None:
        """Define a view. Its query is planned, so that it can be read."""
        location = self._new_location(statement, "view")
        if location is None:
            return
        query = statement.query
        if statement.names:
            check_names(statement.names)
            query = f"SELECT * FROM ({query}\n) AS q({', '.join(map(quoted, statement.names))})"
        self._define_view(location, query, (), replaces=statement.replace)
        # Its names are those of its own schema, so it is planned as it will be read.
        with self._context.collected_reads() as reads:
            planned = self._context.run(f"SELECT * FROM {location.sql()}")
            planned.cancel()
        self._define_view(location, query, planned.schema.names, replaces=True)
        if statement.names and len(planned.schema.names) != len(statement.names):
            text = f"the statement names {len(statement.names)} columns, and the query has {len(planned.schema.names)}"
            raise BadRequest(text, hint="name all of them")
        temporary = sorted(key for key in reads if self._context.writes.is_temporary(key))
        if statement.is_temporary:
            self._context.writes.make_temporary(view_key(location.schema, location.name))
        elif temporary:
            name = TableKey(temporary[0]).name
            text = f"the view `{location.text}` reads `{name}`, which ends with the transaction"
            raise BadRequest(text, hint="write CREATE TEMPORARY VIEW, or make the table one that stays")

    def _define_view(self, location: TableLocation, query: str, columns: Sequence[str], *, replaces: bool) -> None:
        pin = self._context.pin
        self._tables.define_view(
            location.schema,
            location.name,
            query,
            dialect=self._context.engine,
            columns=columns,
            catalog=None if pin is None else pin.database,
            replace=replaces,
        )

    def create_schema(self, statement: CreateSchemaStatement) -> None:
        """Create a schema."""
        name = statement.name[-1]
        self._require_branch(statement.name)
        if name in schemas(self._context.snapshot) or name.lower() in {
            known.lower() for known in schemas(self._context.snapshot)
        }:
            if statement.if_not_exists:
                return
            raise Conflict(f"the schema `{name}` exists already", reason="exists", hint="use CREATE SCHEMA IF NOT EXISTS")
        if self._context.pin is not None:
            self._require_relational(name)
        elif name in self._context.resolver().branches():
            text = f"`{name}` is the name of a branch, which SQL would take for it"
            raise Conflict(text, reason="exists", hint="choose another name")
        self._tables.create_schema(name)

    def _require_branch(self, name: QualifiedName) -> None:
        """Raise if the name of a schema says another branch."""
        pin = self._context.pin
        catalogs = ("graph", str(self._context.state).lower()) if pin is None else (pin.database.lower(),)
        if len(name) > 1 and name[-2].lower() not in catalogs:
            raise BadRequest(f"`{'.'.join(name)}` is no name of a schema", hint="write its plain name")

    @staticmethod
    def _require_relational(schema: str) -> None:
        """Raise for the schemas of a pinned catalog that hold no relational tables."""
        if schema.lower() in (GRAPH_SCHEMA, FOREIGN):
            text = f"the schema `{schema}` of a pinned catalog shows {_SHOWN[schema.lower()]}, and nothing is created in it"
            raise BadRequest(text, hint="choose another schema")

    def _new_location(self, statement: CreateTableStatement | CreateViewStatement, what: str) -> TableLocation | None:
        """Where something is created; None if it exists and may."""
        replaces, skips = statement.replace, statement.if_not_exists
        resolver = self._context.resolver()
        location = self._context.location(statement.name, resolver)
        if self._context.pin is not None:
            self._require_relational(location.schema)
        tables = resolver.tables(location.place)
        same = [table for known, table in tables.items() if known.lower() == location.name.lower()]
        if not same:
            return location
        table = same[0]
        if table.type is not None:
            text = f"`{table.name}` is a {table.kind} type of the graph"
            hint = "types are defined by the schema of the graph (`ogsql schema`); choose another name for a table"
            raise Conflict(text, reason="exists", hint=hint)
        if skips and table.kind == what:
            return None
        if not replaces or table.kind != what:
            hint = f"use CREATE OR REPLACE {what.upper()}, or drop it first"
            if table.kind != what:
                hint = f"drop the {table.kind} first"
            raise Conflict(f"`{location.text}` exists already: it is a {table.kind}", reason="exists", hint=hint)
        if self._context.writes.is_temporary(table.key) != statement.is_temporary:
            kept = "stays" if statement.is_temporary else "ends with the transaction"
            text = f"`{location.text}` exists already: it is a {table.kind} that {kept}"
            raise Conflict(text, reason="exists", hint="drop it first, or choose another name")
        return replace(location, name=table.name)

    # Drop

    def drop(self, statement: DropStatement) -> None:
        """Drop tables or views. Views that read them stay, and fail when they are read."""
        for name in statement.names:
            existing = self.existing_relation(name, statement.kind, may_lack=statement.if_exists)
            if existing is not None:
                self._tables.drop(existing[0].schema, existing[0].name)

    def existing_relation(
        self, name: QualifiedName, kind: str, *, may_lack: bool
    ) -> tuple[TableLocation, ResolvedTable] | None:
        """A relational table or view of a kind; None if there is none and that is allowed."""
        try:
            location, table = self._context.existing(name)
        except NotFound as error:
            if may_lack:
                return None
            error.message = error.message.replace("no table", f"no {kind}", 1)
            error.args = (error.message,)
            raise
        if table.type is not None:
            text = f"`{table.name}` is a {table.kind} type of the graph"
            raise BadRequest(text, hint="types are defined by the schema of the graph; DELETE and TRUNCATE remove its rows")
        if table.kind != kind:
            raise BadRequest(f"`{location.text}` is a {table.kind}, not a {kind}", hint=f"write {table.kind.upper()}")
        return location, table

    def drop_schema(self, statement: DropSchemaStatement) -> None:
        """Drop a schema."""
        self._require_branch(statement.name)
        name, known = statement.name[-1], schemas(self._context.snapshot)
        if name not in known:
            if statement.if_exists:
                return
            hint = f"there are {', '.join(known)}"
            raise NotFound(f"there is no schema `{name}`", what="schema", name=name, hint=hint)
        self._tables.drop_schema(name, cascade=statement.cascade)

    # Other changes of whole tables

    def rewrite(self, target: WriteTarget, schema: pa.Schema, rows: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        """Give a table other columns or rules, and rows that fit them."""
        with Workspace() as workspace:
            changed = TableRows.put(pa.RecordBatchReader.from_batches(schema, rows()), workspace)
            rules = TableRules.of(schema)
            self._check_rules(target.table_key, rules, schema)
            check_whole(self._context, target.table_key, rules, changed)
            location = target.location
            self._tables.create_table(location.schema, location.name, changed.reader(), replace=True)


def check_names(names: Sequence[str]) -> None:
    """Raise if two columns have the same name, or names that differ in case only."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise BadRequest(f"the columns `{other}` and `{name}` differ in case only", hint="rename one of them")
        if not name.isprintable():
            raise BadRequest(f"`{name!r}` cannot be the name of a column", hint="use visible characters")
    check_column_names(names)


def declared_field(column: ColumnClause) -> pa.Field:
    """A column as it is declared."""
    return pa.field(column.name, column_type(column.type_text), nullable=not column.is_required)


def kept_field(name: str, kind: pa.DataType) -> pa.Field:
    """The column that keeps values of a type of an engine: wider where tables lack the type."""
    kept = kept_type(name, kind)
    if pa.types.is_timestamp(kept) and kept.unit == "ns":
        kept = pa.timestamp("us", kept.tz)
    elif pa.types.is_time(kept):
        kept = pa.time64("us")
    elif pa.types.is_string_view(kept) or pa.types.is_large_string(kept):
        kept = pa.string()
    return pa.field(name, kept)


# Rules ---------------------------------------------------------------------------------------------------------------


def table_rules(
    engine: str, table: str, columns: Sequence[ColumnClause], constraints: Sequence[ConstraintClause]
) -> TableRules:
    """The rules that a table declares."""
    names = [column.name for column in columns]
    clauses = [*(clause for column in columns for clause in column.constraints), *constraints]
    made: list[TableConstraint] = []
    for clause in clauses:
        made.append(table_constraint(engine, table, names, clause, [constraint.name for constraint in made]))
    if sum(constraint.kind == "primary key" for constraint in made) > 1:
        raise BadRequest(f"`{table}` has several primary keys", hint="declare one, and UNIQUE for the others")
    defaults = {column.name: SqlText(column.default, engine) for column in columns if column.default is not None}
    return TableRules(constraints=tuple(made), defaults=defaults)


def table_constraint(
    engine: str, table: str, names: list[str], clause: ConstraintClause, taken: Sequence[str]
) -> TableConstraint:
    """A constraint with a name of its own."""
    columns = tuple(column_named(names, name, table) for name in clause.columns)
    check = None
    if clause.expression is not None:
        mentioned = {token.name.lower() for token in tokens_of(clause.expression) if token.name is not None}
        columns = tuple(name for name in names if name.lower() in mentioned)
        check = SqlText(clause.expression, engine)
    ending = {"primary key": "pkey", "unique": "key", "check": "check", "foreign key": "fkey"}[clause.kind]
    middle = "" if clause.kind == "primary key" else "_".join(columns)
    name = clause.name or "_".join(part for part in (table, middle, ending) if part)
    if clause.name is not None and clause.name in taken:
        raise BadRequest(f"two constraints are called `{clause.name}`", hint="rename one of them")
    number = 1
    base = name
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return TableConstraint(
        kind=clause.kind,
        name=name,
        columns=columns,
        check=check,
        references=clause.references,
        referenced_columns=clause.referenced_columns,
    )


def with_comment(rules: TableRules, column: str | None, comment: str | None) -> TableRules:
    """Rules with a comment of the table, or of a column."""
    if column is None:
        return replace(rules, comment=comment)
    others = {name: text for name, text in rules.column_comments.items() if name != column}
    return replace(rules, column_comments=others if comment is None else others | {column: comment})
