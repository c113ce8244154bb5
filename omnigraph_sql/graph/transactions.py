"""Transactions of a graph: several writes that see each other and are published as one commit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph_sql.arguments import checked, flag, load_data, path_like, text
from omnigraph_sql.choices import EngineName, ExtraColumns, LoadMode, WriteMode
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.graph.queries import GraphQueries
from omnigraph_sql.graph.query_compiler import QueryRequest
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.relations import DEFAULT_SCHEMA, Relation, relations
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sql.refs import CatalogPin, SchemaRef
from omnigraph_sql.writes.branches import delete_branch
from omnigraph_sql.writes.transactions import WriteTransaction

if TYPE_CHECKING:
    from omnigraph_sql.graph.execute_result import ExecuteResult
    from omnigraph_sql.graph.sessions import SqlSessions
    from omnigraph_sql.graph.write_targets import KnownKeys, StatementContext, WriteTarget
    from omnigraph_sql.sqltext.write_statements import ScriptStatement
    from omnigraph_sql.store.graph_store import GraphStore
    from omnigraph_sql.writes.load.loads import LoadResult
    from omnigraph_sql.writes.load.rejects import RejectLimit, RejectTarget
    from omnigraph_sql.writes.mutation import MutationResult
    from omnigraph_sql.writes.protocol import Review
    from omnigraph_sql.writes.relational import RelationalWriter


class Transaction:
    """Writes that see each other, that nobody else sees, and that become visible in one commit. Made by `Graph.transaction`.

    Leaving the `with` block commits; leaving it by an exception rolls back. Threads may share a transaction. It sees the
    branch as it was when the block was entered. If others change a table that it wrote or read, its commit is refused;
    other tables may have moved.

    Example:
        >>> with graph.transaction(message="two steps") as tx:
        ...     _ = tx.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
        ...     tx.sql("select count(*) as ports from Port").to_pylist()
        [{'ports': 3}]
        >>> graph.commits()[0].message
        'two steps'
    """

    def __init__(
        self,
        store: GraphStore,
        queries: GraphQueries,
        writes: WriteTransaction,
        *,
        engine: EngineName = "datafusion",
        embeddings: Embeddings | None = None,
        graph_sessions: Callable[[], SqlSessions],
        review: Review = None,
        pin: CatalogPin | None = None,
        resumed_branch: str | None = None,
    ) -> None:
        self._store = store
        self._queries = queries
        self._provenance = writes.provenance
        self._engine = engine
        self._embeddings = embeddings
        self._graph_sessions = graph_sessions
        self._review = review
        self._pin = pin
        self._resumed_branch = resumed_branch
        self._writes = writes
        self._sessions: SqlSessions | None = None
        self._reads: set[str] = set()
        self._keys: dict[str, KnownKeys] = {}
        self._targets: dict[tuple[str, ...], tuple[int, WriteTarget]] = {}
        """The tables that statements have written to, each with the version of the transaction in which it was looked up."""
        self._seen = -1
        self._shown = self._writes.snapshot()
        self._commit: Commit | None = None

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._writes.is_open:
            return
        if error is None:
            self.commit()
        else:
            self.rollback()

    @property
    def branch(self) -> str:
        """The branch that it publishes to.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.branch
            'main'
        """
        return self._writes.branch

    @property
    def is_open(self) -> bool:
        """True until it is committed or rolled back.

        Example:
            >>> tx = graph.transaction()
            >>> tx.rollback()
            >>> tx.is_open
            False
        """
        return self._writes.is_open

    @property
    def snapshot(self) -> Snapshot:
        """The tables as the transaction sees them.

        Raises:
            Conflict: the transaction is closed.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.snapshot.entry("node:Port").row_count
            2
        """
        self._writes.require_open()
        return self._writes.snapshot()

    # Reading

    def sql(self, statement: str, params: Mapping[str, Any] | None = None) -> Result:
        """Run an SQL statement that reads. It sees what the transaction has written.

        Args:
            statement: the statement; names are resolved as in `Graph.sql`.
            params: values for its `$name` parameters.

        Returns:
            The rows.

        Raises:
            BadRequest: the statement is not valid, or would change something.
            Conflict: the transaction is closed.

        Example:
            >>> with graph.transaction() as tx:
            ...     _ = tx.mutate('query q() { delete Port where code = "DEDUI" }')
            ...     tx.sql("select code from Port").to_pylist()
            [{'code': 'NLRTM'}]
        """
        from omnigraph_sql.sql.refs import StateRef

        sessions = self._current_sessions()
        result = sessions.sql(statement, params, StateRef(self.branch), self._engine, run_limits())
        self._writes.note_reads(set(self._reads))
        return result

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Result:
        """Run a read query of a `.gq` text or file. It sees what the transaction has written.

        Args:
            source: the text of the queries, or the path of a file with them.
            name: which query of the text, if there are several. The parameters may stand in this place.
            params: values for its parameters.

        Returns:
            The rows.

        Raises:
            Compile: the query does not fit the schema.
            BadRequest: a parameter is missing, unknown or of the wrong type, or the query is a mutation.
            Conflict: the transaction is closed.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.query("query names() { match { $p: Port } return { $p.name } order { $p.name } }").to_pylist()
            [{'p.name': 'Duisburg'}, {'p.name': 'Rotterdam'}]
        """
        snapshot = self.snapshot
        request = QueryRequest.of(source, name, params, ignore_unknown=False)
        queries = self._queries.unsaved()
        read = queries.request(request.source, request.name, request.params, lambda: snapshot, run_limits())
        runner = queries.engines.get("datafusion")
        self._writes.note_reads({key for key in snapshot.entries if not key.startswith("table:")})
        return Result(
            read.schema,
            lambda: runner.start(read),
            graph_commit_id=snapshot.commit_id,
            query_name=read.query.name,
            target=self.branch,
        )

    def relations(self) -> list[Relation]:
        """The relational tables and views that the transaction sees.

        Returns:
            Schema, name, kind and number of rows of each, and the definition of views.

        Raises:
            Conflict: the transaction is closed.

        Example:
            >>> import pyarrow as pa
            >>> with graph.transaction() as tx:
            ...     tx.write("main", "fees", pa.table({"fee": [12.5]}))
            ...     [(relation.name, relation.row_count) for relation in tx.relations()]
            [('fees', 1)]
        """
        return list(relations(self.snapshot))

    def _current_sessions(self) -> SqlSessions:
        """Sessions on what the transaction sees now."""
        self._writes.require_open()
        if self._sessions is None:
            from omnigraph_sql.graph.sessions import SqlSessions
            from omnigraph_sql.interrupt_safe_import import import_whole

            import_whole("datafusion")
            shared = self._graph_sessions()
            # Engines ask in their own threads, and the thread of the statement holds the transaction: they must not wait.
            self._sessions = SqlSessions(
                self._store,
                self._queries.unsaved(),
                lambda: self._shown,
                shared.foreign,
                self._reads,
                self._pin,
                shared.pools,
            )
        self._renew()
        return self._sessions

    def _renew(self) -> None:
        """Show the sessions what the transaction sees now."""
        self._writes.flush()
        version = self._writes.version
        if self._seen != version:
            self._shown, self._seen = self._writes.snapshot(), version

    # Writing

    @checked(extra_columns=text, data=load_data, mode=text, rejects=path_like)
    def load(
        self,
        data: Any,
        *,
        mode: LoadMode,
        rejects: RejectTarget | None = None,
        max_rejects: RejectLimit | None = None,
        csv: Mapping[str, Any] | None = None,
        extra_columns: ExtraColumns = "refuse",
    ) -> LoadResult:
        """Load records of any number of types. Every rule of the schema is checked at once.

        Args:
            data: as for `Graph.load`; so are the other arguments.
            mode: how the load treats what is there.
            rejects: report every faulty record to a file or a function, instead of failing at the first.
            max_rejects: how many faulty records may be left out, or which share of them.
            csv: how CSV files are written.
            extra_columns: what becomes of columns that are no properties.

        Returns:
            How many entities were loaded and rejected; there is no commit yet.

        Raises:
            BadRequest: a record or an argument is not valid.
            ValidationFailed: the rows break a rule of the schema.
            KeyConflict: mode `append` meets an id that exists.
            Conflict: the transaction is closed.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append").nodes
            {'Port': 1}
        """
        from omnigraph_sql.graph.loads import GraphLoads, LoadRequest

        self._writes.require_open()
        request = LoadRequest(
            data=data,
            mode=mode,
            branch=self.branch,
            provenance=self._provenance,
            rejects=rejects,
            max_rejects=max_rejects,
            csv=csv,
            extra_columns=extra_columns,
        )
        request.check()
        return GraphLoads(self._store, self._embeddings).load_into(self._writes, request)

    @checked(ignore_unknown_params=flag)
    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        ignore_unknown_params: bool = False,
    ) -> MutationResult:
        """Run a mutation of a `.gq` text or file.

        Args:
            source: the text of the queries, or the path of a file with them.
            name: which query of the text, if there are several. The parameters may stand in this place.
            params: values for its parameters.
            ignore_unknown_params: ignore parameters that the mutation does not declare instead of refusing them.

        Returns:
            How many entities it changed; there is no commit yet.

        Raises:
            Compile: the mutation does not fit the schema.
            BadRequest: a parameter is missing, unknown or of the wrong type.
            ValidationFailed: the rows would break a rule of the schema.
            Conflict: the transaction is closed.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.mutate('query q() { update Port set { depth: 4.5 } where code = "DEDUI" }').affected_nodes
            1
        """
        from omnigraph_sql.writes.mutation import MutationResult, prepare_mutation

        self._writes.require_open()
        request = QueryRequest.of(source, name, params, ignore_unknown=ignore_unknown_params)
        query = self._queries.compiler.query(request.source, request.name)
        _, prepare = prepare_mutation(
            self._store, query, request.params, self._embeddings, ignore_unknown=request.ignore_unknown
        )
        done = self._writes.apply(prepare)
        return MutationResult(done.affected_nodes, done.affected_edges)

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> ExecuteResult:
        """Run SQL statements that read or write. Each sees what the ones before it wrote.

        Args:
            text: one statement, or several that end with semicolons.
            params: values for their `$name` parameters.

        Returns:
            The number of rows that were changed, and the rows of the last statement that gives some; there is no commit yet.

        Raises:
            BadRequest: a statement is not valid or not supported; the message names it. Nothing of the text takes effect.
            NotFound: a statement names something that does not exist.
            ValidationFailed: rows break a rule of the schema, or a constraint of a table.
            KeyConflict: a row with such a key exists.
            Conflict: the transaction is closed, or a name is taken.

        Example:
            >>> with graph.transaction() as tx:
            ...     _ = tx.execute("create table fees (code varchar primary key, fee double)")
            ...     tx.execute("insert into fees select code, depth * 2 from Port").rows_affected
            2
        """
        from omnigraph_sql.graph.statement_executor import parsed_script

        return self._run_statements(parsed_script(text, params), params)

    def _run_statements(self, statements: Iterable[ScriptStatement], params: Mapping[str, Any] | None) -> ExecuteResult:
        from omnigraph_sql.graph.statement_executor import StatementExecutor

        return StatementExecutor(self._context(params)).run(statements)

    def _context(self, params: Mapping[str, Any] | None) -> StatementContext:
        from omnigraph_sql.graph.write_targets import StatementContext

        return StatementContext(
            store=self._store,
            writes=self._writes,
            open_sessions=self._current_sessions,
            engine=self._engine,
            params=params or {},
            embeddings=self._embeddings,
            reads=self._reads,
            targets=self._targets,
            keys=self._keys,
            pin=self._pin,
        )

    @property
    def tables(self) -> RelationalWriter:
        """Writes to relational tables, views and schemas, as part of the transaction. Its methods return None.

        Raises:
            Conflict: the transaction is closed.

        Example:
            >>> with graph.transaction() as tx:
            ...     sql = "select code from Port where depth > 10"
            ...     tx.tables.define_view("main", "deep", sql, dialect="datafusion", columns=["code"])
            ...     tx.sql("select code from deep").to_pylist()
            [{'code': 'NLRTM'}]
        """
        from omnigraph_sql.writes.relational import RelationalWriter

        self._writes.require_open()
        return RelationalWriter(self._store, self.branch, self._provenance, self._writes)

    @checked(mode=text)
    def write(self, schema: str, name: str, data: Any, *, mode: WriteMode = "create") -> None:
        """Write rows to a relational table.

        Args:
            schema: the schema of the table; a missing one is created.
            name: its name.
            data: an Arrow table, a data frame, or any other object with an Arrow C stream.
            mode: `create` makes the table, `replace` makes it or replaces what is there, `append` adds the rows.

        Raises:
            BadRequest: the rows do not fit the table, or a name or the mode is not valid.
            Conflict: there is a table of that name already, or the transaction is closed.
            NotFound: mode `append` finds no table.

        Example:
            >>> import pyarrow as pa
            >>> with graph.transaction() as tx:
            ...     tx.write("main", "fees", pa.table({"code": ["NLRTM"], "fee": [12.5]}))
            ...     tx.write("main", "fees", pa.table({"code": ["DEDUI"], "fee": [8.0]}), mode="append")
            >>> graph.sql("select count(*) as n from fees").to_pylist()
            [{'n': 2}]
        """
        if mode not in ("create", "replace", "append"):
            raise BadRequest(f"`{mode}` is no mode of a write", hint="use create, replace or append")
        if mode == "append" and self._has_constraints(schema, name):
            self._append_checked(schema, name, data)
        elif mode == "append":
            self.tables.append(schema, name, data)
        else:
            self.tables.create_table(schema or DEFAULT_SCHEMA, name, data, replace=mode == "replace")

    def _has_constraints(self, schema: str, name: str) -> bool:
        from omnigraph_sql.manifest.relations import table_key
        from omnigraph_sql.manifest.table_rules import TableRules

        entry = self.snapshot.entries.get(table_key(schema, name))
        storage = self._store.storage
        return entry is not None and TableRules.of(storage.schema(storage.open(entry))).are_enforced

    def _append_checked(self, schema: str, name: str, data: Any) -> None:
        from omnigraph_sql.graph.table_rows import TableRowStatements
        from omnigraph_sql.writes.relational_rows import opened_rows

        context = self._context(None)
        with self._writes.statement():
            resolver = context.resolver()
            place = SchemaRef(context.state, None if schema == DEFAULT_SCHEMA else schema)
            parts = (resolver.schema_text(place), name)
            TableRowStatements(context, context.target(parts)).append(opened_rows(data))

    # The end

    def commit(self) -> Commit | None:
        """Publish everything as one commit.

        Returns:
            The commit; None if nothing changed.

        Raises:
            Conflict: others have changed a table that the transaction wrote or read, or it is closed.
            DataTestFailed: a check returned rows.

        Example:
            >>> tx = graph.transaction(message="by hand")
            >>> _ = tx.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> tx.commit().message
            'by hand'
        """
        self._writes.note_reads(self._reads)
        self._commit = self._writes.commit(review=self._review)
        self._close_sessions()
        if self._resumed_branch is not None:
            self._delete_resumed(self._resumed_branch)
        return self._commit

    def _delete_resumed(self, branch: str) -> None:
        """Delete the branch that was resumed. The transaction is published, so what stands in the way is a warning."""
        try:
            delete_branch(self._store, branch)
        except OmnigraphError as error:
            text = f"the transaction is published, but the branch `{branch}` stays: {error.message}"
            warnings.warn(text, UserWarning, stacklevel=3)

    def keep(self, branch: str, *, message: str | None = None) -> Commit:
        """Make what the transaction has written a new branch with one commit, instead of publishing it.

        The branch begins at the state that the transaction sees of its target, which stays as it is. The transaction is
        closed. `Graph.resume` goes on from the branch; it can also be read, changed and merged like any other. Temporary
        tables are not kept.

        Args:
            branch: the name of the new branch.
            message: a note for the history; that of the transaction unless given.

        Returns:
            The commit of the branch.

        Raises:
            BadRequest: the name is not valid.
            Conflict: there is such a branch or tag, or the transaction is closed.
            VersionReclaimed: a cleanup has removed the state that the transaction began on.

        Example:
            >>> tx = graph.transaction()
            >>> _ = tx.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> _ = tx.keep("unfinished", message="to be reviewed")
            >>> graph.sql("select count(*) as ports from Port", branch="unfinished").to_pylist()
            [{'ports': 3}]
        """
        from omnigraph_sql.writes.kept_transactions import keep_transaction

        self._writes.note_reads(self._reads)
        note = self._provenance.message if message is None else message
        provenance = replace(self._provenance, message=note, idempotency_key=None)
        commit = keep_transaction(self._writes, branch, provenance)
        self._close_sessions()
        return commit

    def rollback(self) -> None:
        """Drop everything that the transaction wrote. A second call does nothing.

        Example:
            >>> tx = graph.transaction()
            >>> _ = tx.mutate('query q() { delete Port where code = "DEDUI" }')
            >>> tx.rollback()
            >>> graph.snapshot().entry("node:Port").row_count
            2
        """
        self._writes.rollback()
        self._close_sessions()

    def _close_sessions(self) -> None:
        if self._sessions is not None:
            with closing(self._sessions):
                self._sessions = None
