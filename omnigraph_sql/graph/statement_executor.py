"""Runs the statements of a script on a transaction: one that reads on the engine, every other one as staged writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.graph.execute_result import ExecuteResult
from omnigraph_sql.graph.table_changes import TableChanges
from omnigraph_sql.graph.table_definitions import TableDefinitions
from omnigraph_sql.graph.table_rows import TableRowStatements
from omnigraph_sql.graph.type_rows import TypeRowStatements
from omnigraph_sql.graph.write_targets import StatementContext
from omnigraph_sql.result import Result
from omnigraph_sql.sql.signatures import statement_params
from omnigraph_sql.sqltext.parameter_limits import check_parameters
from omnigraph_sql.sqltext.script import located, script_statements
from omnigraph_sql.sqltext.write_statements import (
    AlterStatement,
    BranchStatement,
    CommentStatement,
    CreateSchemaStatement,
    CreateTableStatement,
    CreateViewStatement,
    DeleteStatement,
    DropSchemaStatement,
    DropStatement,
    InsertStatement,
    MergeIntoStatement,
    ReadStatement,
    RowStatement,
    ScriptStatement,
    ShowStatement,
    TransactionMark,
    TruncateStatement,
    UpdateStatement,
)
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.relational import RelationalWriter


def parsed_script(text: object, params: object) -> list[ScriptStatement]:
    """The statements of a script, without those that begin and end it. Raises if one or a parameter is not valid."""
    if not isinstance(text, str):
        raise BadRequest(f"a script is a text, not {type(text).__name__}", hint="give the statements as a text")
    if params is not None and not isinstance(params, Mapping):
        raise BadRequest(f"params is a mapping from names to values, not {type(params).__name__}", hint="give a dict")
    statements = script_statements(text)
    check_parameters(params or {})
    statement_params(text, params or {})
    if isinstance(statements[0], TransactionMark) and statements[0].word == "begin":
        del statements[0]
        if statements and isinstance(statements[-1], TransactionMark) and statements[-1].word == "commit":
            del statements[-1]
    for statement in statements:
        if isinstance(statement, TransactionMark):
            hint = "a script is one transaction: BEGIN may only be its first word, and COMMIT its last"
            raise located(BadRequest(f"{statement.word.upper()} is not supported here", hint=hint), statement)
    return statements


class StatementExecutor:
    """Runs statements. A script that fails leaves the transaction as it was."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context
        self._tables = RelationalWriter(context.store, context.writes.branch, Provenance("Transaction"), context.writes)
        self._definitions = TableDefinitions(context, self._tables)
        self._changes = TableChanges(context, self._tables, self._definitions)

    def run(self, statements: Iterable[ScriptStatement]) -> ExecuteResult:
        """Run the statements in their order."""
        affected, last = 0, None
        with self._context.writes.statement():
            for statement in statements:
                try:
                    done = self._run(statement)
                except OmnigraphError as error:
                    raise located(error, statement) from error.__cause__
                if isinstance(done, Result):
                    if last is not None:
                        last.cancel()
                    last = done
                else:
                    affected += done
        return ExecuteResult(affected, None, last)

    def _run(self, statement: ScriptStatement) -> int | Result:
        match statement:
            case ReadStatement():
                return self._context.run(statement.text)
            case ShowStatement():
                return self._show(statement)
            case RowStatement():
                return self._change_rows(statement)
        if isinstance(statement, BranchStatement):
            hint = "run it in a script of its own with Graph.execute, before the transaction begins or after it"
            raise BadRequest("a transaction stays on its branch and holds no statements about branches", hint=hint)
        return self._define(statement)

    def _show(self, statement: ShowStatement) -> Result:
        branch = self._context.writes.branch
        match statement.what:
            case "commits":
                text, params = "SELECT * FROM commits($branch)", {"branch": branch}
            case "conflicts":
                text = "SELECT * FROM merge_conflicts($source, $target)"
                params = {"source": str(statement.source), "target": statement.target or branch}
            case what:
                text, params = f"SELECT * FROM {what}() ORDER BY name", {}
        return replace(self._context, params=params).run(text)

    def _change_rows(self, statement: RowStatement) -> int:
        target = self._context.target(statement.table, may_wait=isinstance(statement, InsertStatement))
        kind: Any = TableRowStatements if target.table.type is None else TypeRowStatements
        rows: TableRowStatements | TypeRowStatements = kind(self._context, target)
        match statement:
            case InsertStatement():
                return rows.insert(statement)  # inline-commit-ok: stages rows
            case UpdateStatement():
                return rows.update(statement)  # inline-commit-ok: stages rows
            case DeleteStatement():
                return rows.delete(statement)  # inline-commit-ok: stages rows
            case MergeIntoStatement():
                return rows.merge(statement)  # inline-commit-ok: stages rows
        assert isinstance(statement, TruncateStatement)
        return rows.truncate(statement)

    def _define(self, statement: ScriptStatement) -> int:
        definitions = self._definitions
        match statement:
            case CreateTableStatement():
                return definitions.create_table(statement)
            case CreateViewStatement():
                definitions.create_view(statement)
            case CreateSchemaStatement():
                definitions.create_schema(statement)
            case DropStatement():
                definitions.drop(statement)
            case DropSchemaStatement():
                definitions.drop_schema(statement)
            case AlterStatement():
                self._changes.alter(statement)
            case CommentStatement():
                self._changes.comment(statement)
            case _:
                raise AssertionError(type(statement))
        return 0
