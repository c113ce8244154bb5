"""Statements that change the definition of a relational table: alter and comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, Conflict, NotFound
from omnigraph_sql.graph.column_values import TargetColumn
from omnigraph_sql.graph.table_definitions import (
    TableDefinitions,
    check_names,
    declared_field,
    table_constraint,
    with_comment,
)
from omnigraph_sql.graph.write_targets import StatementContext, WriteTarget
from omnigraph_sql.manifest.changes import DefinitionChange
from omnigraph_sql.manifest.relations import relations, schema_key, schemas, table_key, view_key
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.table_rules import SqlText, TableConstraint, TableRules
from omnigraph_sql.sqltext.column_types import column_type
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.write_statements import (
    AddColumnAction,
    AddConstraintAction,
    AlterAction,
    AlterStatement,
    ColumnRuleAction,
    ColumnTypeAction,
    CommentStatement,
    ConstraintClause,
    DropColumnAction,
    DropConstraintAction,
    RenameAction,
)
from omnigraph_sql.writes.operation import PreparedWrite
from omnigraph_sql.writes.relational import RelationalWriter


class TableChanges:
    """Runs the statements. A table with other columns or rules is written anew."""

    def __init__(self, context: StatementContext, tables: RelationalWriter, definitions: TableDefinitions) -> None:
        self._context = context
        self._tables = tables
        self._definitions = definitions

    def alter(self, statement: AlterStatement) -> None:
        """Run `alter`."""
        existing = self._definitions.existing_relation(statement.name, statement.kind, may_lack=statement.if_exists)
        if existing is None:
            return
        location, table = existing
        first = statement.actions[0]
        if isinstance(first, RenameAction) and first.column is None:
            self._require_free(location.schema, first.name)
            is_temporary = self._context.writes.is_temporary(table.key)
            self._tables.rename(location.schema, location.name, first.name)
            if is_temporary:
                key = view_key if table.kind == "view" else table_key
                self._context.writes.make_temporary(key(location.schema, first.name))
            return
        for action in statement.actions:
            self._change(self._context.target(statement.name), action)

    def _require_free(self, schema: str, name: str) -> None:
        for other in relations(self._context.snapshot):
            if other.schema == schema and other.name.lower() == name.lower():
                text = f"`{other.name}` exists already: it is a {other.kind}"
                raise Conflict(text, reason="exists", hint="drop it first, or choose another name")

    def _change(self, target: WriteTarget, action: AlterAction) -> None:
        match action:
            case RenameAction(name=name, column=str(column)):
                self._rename_column(target, target.column(column), name)
            case AddColumnAction():
                self._add_column(target, action)
            case DropColumnAction(column=column, if_exists=may_lack):
                self._drop_column(target, column, may_lack=may_lack)
            case ColumnTypeAction():
                self._change_type(target, action)
            case ColumnRuleAction():
                self._change_rule(target, action)
            case AddConstraintAction(constraint=clause):
                self._with_rules(target, self._with_constraint(target, target.rules, target.schema.names, clause))
            case DropConstraintAction():
                self._drop_constraint(target, action)

    # Columns

    def _rename_column(self, target: WriteTarget, column: str, name: str) -> None:
        self._refuse_checked(target, column)
        fields = [field.with_name(name) if field.name == column else field for field in target.schema]
        check_names([field.name for field in fields])
        schema = target.rules.renamed(column, name).applied(fields)
        self._definitions.rewrite(target, schema, lambda: _renamed(self._rows(target), schema))

    def _add_column(self, target: WriteTarget, action: AddColumnAction) -> None:
        column = action.column
        if column.name.lower() in {name.lower() for name in target.schema.names}:
            if action.if_not_exists:
                return
            raise BadRequest(f"`{target.location.text}` has a column `{column.name}` already", hint="choose another name")
        field = declared_field(column)
        names = [*target.schema.names, column.name]
        check_names(names)
        rules = target.rules
        if column.default is not None:
            default = SqlText(column.default, self._context.engine)
            rules = replace(rules, defaults={**rules.defaults, column.name: default})
        for clause in column.constraints:
            rules = self._with_constraint(target, rules, names, clause)
        schema = rules.applied([*target.schema, field])
        taking = TargetColumn(target.table_key, schema.field(column.name))
        value = f"({column.default or 'NULL'}\n) AS c"
        text = f"SELECT {value} FROM {target.sql()} AS t"

        def rows() -> Iterator[pa.RecordBatch]:
            values = self._context.run(text).to_arrow().column(0)
            done = 0
            for batch in self._rows(target):
                piece = values.slice(done, batch.num_rows)
                kept = taking.taken(pa.concat_arrays(piece.chunks) if piece.num_chunks else pa.nulls(0), done + 1)
                done += batch.num_rows
                yield pa.RecordBatch.from_arrays([*batch.columns, kept], schema=schema)

        self._definitions.rewrite(target, schema, rows)

    def _drop_column(self, target: WriteTarget, name: str, *, may_lack: bool) -> None:
        try:
            column = target.column(name)
        except BadRequest:
            if may_lack:
                return
            raise
        user = target.rules.using(column)
        if user is not None:
            text = f"the constraint `{user.name}` of `{target.location.text}` uses the column `{column}`"
            raise BadRequest(text, hint=f"drop it first: ALTER TABLE … DROP CONSTRAINT {user.name}")
        fields = [field for field in target.schema if field.name != column]
        if not fields:
            raise BadRequest(f"`{column}` is the only column of `{target.location.text}`", hint="drop the table")
        schema = target.rules.without(column).applied(fields)
        self._definitions.rewrite(
            target, schema, lambda: (_as(batch.select(schema.names), schema) for batch in self._rows(target))
        )

    def _change_type(self, target: WriteTarget, action: ColumnTypeAction) -> None:
        column = target.column(action.column)
        old = target.schema.field(column)
        field = pa.field(column, column_type(action.type_text), old.nullable)
        schema = target.rules.applied([field if other.name == column else other for other in target.schema])
        number = schema.get_field_index(column)
        taking = TargetColumn(target.table_key, field)

        def rows() -> Iterator[pa.RecordBatch]:
            computed = None
            if action.using is not None:
                alias = quoted(target.location.name)
                text = f'SELECT ({action.using}\n) AS c FROM {target.sql()} AS {alias} ORDER BY {alias}."_rowaddr"'
                computed = self._context.run(text).to_arrow().column(0)
            done = 0
            for batch in self._rows(target):
                values = batch.column(number)
                if computed is not None:
                    values = pa.concat_arrays(computed.slice(done, batch.num_rows).chunks)
                columns = list(batch.columns)
                columns[number] = taking.taken(values, done + 1)
                done += batch.num_rows
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        self._definitions.rewrite(target, schema, rows)

    # Rules

    def _change_rule(self, target: WriteTarget, action: ColumnRuleAction) -> None:
        column, rules = target.column(action.column), target.rules
        if action.rule == "default":
            rules = replace(rules, defaults={name: text for name, text in rules.defaults.items() if name != column})
            if action.value is not None:
                rules = replace(rules, defaults={**rules.defaults, column: SqlText(action.value, self._context.engine)})
            self._with_rules(target, rules)
            return
        if not action.is_set and any(key.kind == "primary key" and column in key.columns for key in rules.unique_keys()):
            raise BadRequest(f"`{column}` is part of the primary key and cannot be null", hint="drop the key first")
        fields = [field.with_nullable(not action.is_set) if field.name == column else field for field in target.schema]
        self._with_rules(target, rules, fields)

    def _with_constraint(
        self, target: WriteTarget, rules: TableRules, names: list[str], clause: ConstraintClause
    ) -> TableRules:
        taken = [constraint.name for constraint in rules.constraints]
        made = table_constraint(self._context.engine, target.location.name, names, clause, taken)
        if made.kind == "primary key" and any(key.kind == "primary key" for key in rules.unique_keys()):
            raise BadRequest(f"`{target.location.text}` has a primary key", hint="drop it first, or add UNIQUE")
        return replace(rules, constraints=(*rules.constraints, made))

    def _drop_constraint(self, target: WriteTarget, action: DropConstraintAction) -> None:
        kept: tuple[TableConstraint, ...] = tuple(
            constraint for constraint in target.rules.constraints if constraint.name != action.name
        )
        if len(kept) == len(target.rules.constraints):
            if action.if_exists:
                return
            names = [constraint.name for constraint in target.rules.constraints]
            hint = f"there are {', '.join(names)}" if names else "it has none"
            text = f"`{target.location.text}` has no constraint `{action.name}`"
            raise NotFound(text, what="constraint", name=action.name, hint=hint)
        self._with_rules(target, replace(target.rules, constraints=kept))

    def _with_rules(self, target: WriteTarget, rules: TableRules, fields: Iterable[pa.Field] | None = None) -> None:
        schema = rules.applied(target.schema if fields is None else fields)
        columns = [TargetColumn(target.table_key, field) for field in schema]

        def rows() -> Iterator[pa.RecordBatch]:
            row = 1
            for batch in self._rows(target):
                arrays = [column.taken(values, row) for column, values in zip(columns, batch.columns, strict=True)]
                row += batch.num_rows
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        self._definitions.rewrite(target, schema, rows)

    def _refuse_checked(self, target: WriteTarget, column: str) -> None:
        for constraint in target.rules.checks():
            if column in constraint.columns:
                text = f"the check `{constraint.name}` of `{target.location.text}` uses the column `{column}`"
                raise BadRequest(text, hint=f"drop it first: ALTER TABLE … DROP CONSTRAINT {constraint.name}")

    def _rows(self, target: WriteTarget) -> Iterator[pa.RecordBatch]:
        assert target.table.entry is not None
        storage = self._context.store.storage
        yield from storage.scan(storage.open(target.table.entry))

    # Comments

    def comment(self, statement: CommentStatement) -> None:
        """Run `comment on`."""
        if statement.kind == "schema":
            self._comment_schema(statement)
            return
        name = statement.name[:-1] if statement.kind == "column" else statement.name
        location, table = self._context.existing(name)
        if table.type is not None:
            hint = "write `@description` in the schema of the graph"
            raise BadRequest(f"`{table.name}` is a {table.kind} type of the graph", hint=hint)
        if table.kind == "view":
            if statement.kind == "column":
                raise BadRequest("columns of views have no comments", hint="comment on the view")
            assert table.relation is not None
            assert table.relation.definition is not None
            definition = table.relation.definition
            self._tables.define_view(
                location.schema,
                location.name,
                definition["sql"],
                dialect=definition["dialect"],
                columns=definition["columns"],
                comment=statement.comment,
                catalog=definition.get("catalog"),
                replace=True,
            )
            return
        if statement.kind == "view":
            raise BadRequest(f"`{location.text}` is a table, not a view", hint="write COMMENT ON TABLE")
        target = self._context.target(name)
        column = target.column(statement.name[-1]) if statement.kind == "column" else None
        self._with_rules(target, with_comment(target.rules, column, statement.comment))

    def _comment_schema(self, statement: CommentStatement) -> None:
        known = schemas(self._context.snapshot)
        name = statement.name[-1]
        if name not in known:
            raise NotFound(f"there is no schema `{name}`", what="schema", name=name, hint=f"there are {', '.join(known)}")
        metadata = {} if statement.comment is None else {"comment": statement.comment}

        def prepare(snapshot: Snapshot) -> PreparedWrite[None]:
            change = DefinitionChange(schema_key(name), snapshot.pin(schema_key(name)) + 1, metadata)
            return PreparedWrite(writes=(), reads=frozenset(), result=None, changes=(change,))

        self._context.writes.apply(prepare)


def _renamed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (_as(batch, schema) for batch in batches)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
