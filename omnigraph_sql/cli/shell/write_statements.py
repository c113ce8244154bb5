"""SQL in the shell that writes, and the transactions around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.result_writer import write_rows
from omnigraph_sql.cli.shell.statements import tokens
from omnigraph_sql.cli.source_files import located
from omnigraph_sql.cli.tables import count
from omnigraph_sql.errors import BadRequest

if TYPE_CHECKING:
    from omnigraph_sql.cli.shell.session import ShellSession
    from omnigraph_sql.graph.execute_result import ExecuteResult

_ROWS = frozenset(("insert", "update", "delete", "merge"))
_MARKS = frozenset(("begin", "start", "commit", "end", "rollback", "abort"))
_WRITES = _ROWS | _MARKS | frozenset(("truncate", "create", "drop", "alter", "comment", "use"))
_SHOWN = frozenset(("branches", "tags", "commits", "conflicts"))


def may_write(text: str, *, is_open: bool) -> bool:
    """True for a statement that does not only read for all that its words tell, and for all in an open transaction."""
    words = [token.text.lower() for token in tokens("sql", text) if token.kind in ("word", "symbol")]
    if is_open or not words:
        return is_open
    if words[0] == "with":
        return not _ROWS.isdisjoint(words)
    return words[0] in _WRITES or (words[0] == "show" and len(words) > 1 and words[1] in _SHOWN)


def run_write(session: ShellSession, text: str, path: str, params: Mapping[str, Any]) -> bool:
    """Run a statement in the open transaction, or as one of its own; False if it only reads and none is open."""
    from omnigraph_sql.sqltext.script import script_statements
    from omnigraph_sql.sqltext.write_statements import ReadStatement, ShowStatement, TransactionMark, UseBranchStatement

    with located(path):
        (statement,) = script_statements(text)
        if isinstance(statement, TransactionMark):
            _mark(session, statement.word)
            return True
        if isinstance(statement, ReadStatement) and session.transaction is None:
            return False
        if not isinstance(statement, ReadStatement | ShowStatement):
            session.require_writable("the statement writes")
        if isinstance(statement, UseBranchStatement):
            from omnigraph_sql.cli.shell.session import ShellTarget

            session.graph.snapshot(branch=statement.name)
            session.go_to(ShellTarget(statement.name))
            return True
        if session.transaction is not None:
            _write(session, session.transaction.execute(text, params))
            return True
        engine: Any = session.engine
        done = session.graph.execute(text, params, branch=session.place.branch, engine=engine, actor=session.actor)
        _write(session, done)
        return True


def _mark(session: ShellSession, word: str) -> None:
    if word == "begin":
        if session.transaction is not None:
            raise BadRequest("a transaction is open already", hint="end it with COMMIT or ROLLBACK")
        session.require_writable("a transaction writes")
        engine: Any = session.engine
        session.transaction = session.graph.transaction(session.place.branch, engine=engine, actor=session.actor)
        output.write(f"transaction on {session.place.branch}\n")
        return
    if session.transaction is None:
        raise BadRequest("no transaction is open", hint="BEGIN opens one")
    transaction, session.transaction = session.transaction, None
    if word == "rollback":
        transaction.rollback()
        output.write("rolled back\n")
        return
    commit = transaction.commit()
    output.write(f"commit {commit.graph_commit_id}\n" if commit else "nothing to commit\n")


def _write(session: ShellSession, done: ExecuteResult) -> None:
    if done.result is not None:
        with done.result as result:
            write_rows(result, session.form)
        if not done.rows_affected and done.commit is None:
            return
    if session.form == "table":
        output.write(f"affected {count(done.rows_affected, 'row')}\n")
        output.write(f"commit {done.commit.graph_commit_id}\n" if done.commit else "")
    elif done.result is None:
        commit = done.commit.to_dict() if done.commit else None
        output.write_json({"branch": session.place.branch, "rows_affected": done.rows_affected, "commit": commit})
