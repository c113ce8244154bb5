"""Pinned sessions: SQL on one branch whose schemas are the relational schemas, for tools that know no branches."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph_sql.arguments import checked, flag, optional, text
from omnigraph_sql.choices import EngineName
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sql.refs import CatalogPin, StateRef

if TYPE_CHECKING:
    from omnigraph_sql.graph.execute_result import ExecuteResult
    from omnigraph_sql.graph.sessions import SqlSessions
    from omnigraph_sql.graph.transactions import Transaction


class PinnedWrites(Protocol):
    """What a pinned session asks its graph for."""

    def run_script(
        self, script: str, params: Mapping[str, Any] | None, branch: str, engine: EngineName, pin: CatalogPin, **notes: Any
    ) -> ExecuteResult:
        """Run a script that reads or writes."""

    def begin(self, branch: str, engine: EngineName, pin: CatalogPin, *, checks: Any, **notes: Any) -> Transaction:
        """Begin a transaction."""

    def resume(
        self, branch: str, engine: EngineName, pin: CatalogPin, *, checks: Any, delete_branch: bool, **notes: Any
    ) -> Transaction:
        """Go on from a branch that a transaction was kept as."""


class PinnedSession:
    """SQL on one branch. Its catalog has one name, and its schemas are the relational schemas. Made by `Graph.pinned`.

    Every schema shows the types of the graph besides its own tables, and so does the schema `graph`. No name of a schema
    means a branch, so that tools which write `CATALOG.SCHEMA.TABLE` stay where they are. Names are compared without case.
    Each statement sees the branch as it is when the statement starts.

    Example:
        >>> with graph.pinned(database="harbour") as session:
        ...     _ = session.execute("create schema finance; create table finance.fees as select code, 10 as fee from Port")
        ...     session.sql("select count(*) as n from harbour.finance.fees").to_pylist()
        [{'n': 2}]
    """

    def __init__(
        self, writes: PinnedWrites, sessions: SqlSessions, branch: str, engine: EngineName, pin: CatalogPin
    ) -> None:
        self._writes = writes
        self._sessions = sessions
        self._branch = branch
        self._engine: EngineName = engine
        self._pin = pin

    def __enter__(self) -> PinnedSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def branch(self) -> str:
        """The branch that it reads and writes.

        Example:
            >>> graph.pinned().branch
            'main'
        """
        return self._branch

    @property
    def database(self) -> str:
        """The name of its catalog.

        Example:
            >>> graph.pinned(database="harbour").database
            'harbour'
        """
        return self._pin.database

    @checked(statement=text)
    def sql(self, statement: str, params: Mapping[str, Any] | None = None) -> Result:
        """Run an SQL statement that reads.

        Args:
            statement: the statement, with `$name` for its parameters.
            params: values for the parameters.

        Returns:
            The rows.

        Raises:
            BadRequest: the statement is not valid, or would change something.
            NotFound: a name is unknown, or the branch was deleted.

        Example:
            >>> graph.pinned(database="harbour").sql("select code from harbour.main.Port where depth > 20").to_pylist()
            [{'code': 'NLRTM'}]
        """
        return self._sessions.sql(statement, params, StateRef(self._branch), self._engine, run_limits())

    @checked(script=text, message=optional(text), actor=optional(text), idempotency_key=optional(text))
    def execute(
        self,
        script: str,
        params: Mapping[str, Any] | None = None,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecuteResult:
        """Run SQL statements that read or write, and publish what they change as one commit.

        Args:
            script: one statement, or several that end with semicolons.
            params: values for their `$name` parameters.
            message: a note for the history.
            actor: who writes; the actor of the handle unless given.
            idempotency_key: a script of a key that is in the history of the branch does nothing, and returns its commit.

        Returns:
            The number of rows that were changed, the commit, and the rows of the last statement that gives some.

        Raises:
            BadRequest: a statement is not valid or not supported, `use branch` included.
            NotFound: a statement names something that does not exist.
            ValidationFailed: rows break a rule of the schema, or a constraint of a table.
            KeyConflict: a row with such a key exists.
            Conflict: a name is taken, or others keep changing the tables.

        Example:
            >>> graph.pinned().execute("update Port set depth = depth + 1 where code = 'NLRTM'").rows_affected
            1
        """
        return self._writes.run_script(
            script,
            params,
            self._branch,
            self._engine,
            self._pin,
            message=message,
            actor=actor,
            idempotency_key=idempotency_key,
        )

    @checked(message=optional(text), actor=optional(text), idempotency_key=optional(text))
    def transaction(
        self,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        checks: Any = None,
    ) -> Transaction:
        """Begin a transaction whose statements have the names of the session.

        Args:
            message: a note for the history.
            actor: who writes; the actor of the handle unless given.
            idempotency_key: a transaction of a key that is in the history of the branch publishes nothing.
            checks: reads that must return no row on the graph as it will be, as for `Graph.merge`.

        Returns:
            The transaction, for a `with` block.

        Raises:
            BadRequest: the graph is read-only.
            NotFound: the branch was deleted.

        Example:
            >>> with graph.pinned(database="harbour").transaction() as tx:
            ...     _ = tx.execute("create table harbour.main.fees as select code, 10 as fee from harbour.graph.Port")
            >>> graph.sql("select count(*) as n from fees").to_pylist()
            [{'n': 2}]
        """
        return self._writes.begin(
            self._branch,
            self._engine,
            self._pin,
            checks=checks,
            message=message,
            actor=actor,
            idempotency_key=idempotency_key,
        )

    @checked(branch=text, message=optional(text), actor=optional(text), idempotency_key=optional(text), delete_branch=flag)
    def resume(
        self,
        branch: str,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        checks: Any = None,
        delete_branch: bool = False,
    ) -> Transaction:
        """Go on from a branch that a transaction was kept as, with the names of the session.

        Args:
            branch: the branch.
            message: a note for the history.
            actor: who writes; the actor of the handle unless given.
            idempotency_key: a transaction of a key that is in the history of the target publishes nothing.
            checks: reads that must return no row on the graph as it will be, as for `Graph.merge`.
            delete_branch: delete the branch once the transaction is published.

        Returns:
            A transaction that publishes to the branch that the first one was for.

        Raises:
            BadRequest: the graph is read-only, or the branch was not made from another one.
            NotFound: there is no such branch, or that from which it was made is deleted.

        Example:
            >>> session = graph.pinned()
            >>> tx = session.transaction()
            >>> _ = tx.execute("create table fees as select code, 10 as fee from Port")
            >>> _ = tx.keep("unfinished")
            >>> with session.resume("unfinished", delete_branch=True) as tx:
            ...     tx.execute("update fees set fee = 12").rows_affected
            2
        """
        return self._writes.resume(
            branch,
            self._engine,
            self._pin,
            checks=checks,
            delete_branch=delete_branch,
            message=message,
            actor=actor,
            idempotency_key=idempotency_key,
        )

    def close(self) -> None:
        """Release what its statements hold.

        Example:
            >>> graph.pinned().close()
        """
        self._sessions.close()
