"""The public face of a graph: everything that a user does with it from Python.

The examples of the methods run on a graph of two ports and a lane between them, under the name `graph`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph_sql.arguments import (
    address,
    callback,
    checked,
    content,
    flag,
    instance,
    load_data,
    number,
    optional,
    path,
    path_like,
    text,
    text_or_path,
    texts,
    whole,
)
from omnigraph_sql.choices import EngineName, ExtraColumns, LoadMode, MergeGranularity
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph.queries import GraphQueries
from omnigraph_sql.graph.query_compiler import QueryRequest
from omnigraph_sql.graph.sql import GraphSql, Preview
from omnigraph_sql.history.commits import history, page
from omnigraph_sql.maintenance.retention import age, read_policy
from omnigraph_sql.manifest.coordinator import MAIN, public_name
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.refs import check_commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.texts import check_actor
from omnigraph_sql.project import ProjectSettings, find_project, is_listed, load_project
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.storage.source_files import refuse_path, source_text
from omnigraph_sql.store import lifecycle
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.recovery import sweep

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph_compiler import Catalog
    from omnigraph_sql.embeddings.client import Embedder
    from omnigraph_sql.engines.datafusion.sessions import GraphContext
    from omnigraph_sql.engines.duckdb.sessions import DuckDBPyConnection
    from omnigraph_sql.explanation import Explanation
    from omnigraph_sql.foreign.model import ForeignTable
    from omnigraph_sql.graph.changes import GraphChanges
    from omnigraph_sql.graph.checks import DataCheck
    from omnigraph_sql.graph.execute_result import ExecuteResult
    from omnigraph_sql.graph.graph_scripts import GraphScripts
    from omnigraph_sql.graph.loads import GraphLoads
    from omnigraph_sql.graph.merges import GraphMerges
    from omnigraph_sql.graph.pinned_sessions import PinnedSession
    from omnigraph_sql.graph.transactions import Transaction
    from omnigraph_sql.history.branch_changes import ChangeFeedPage
    from omnigraph_sql.history.branches import BranchInfo
    from omnigraph_sql.history.commit_changes import CommitChanges
    from omnigraph_sql.history.diff import ChangeSet
    from omnigraph_sql.maintenance.cleanup import CleanupStat
    from omnigraph_sql.maintenance.copies.copies import CopyResult
    from omnigraph_sql.maintenance.indexes import PendingIndex
    from omnigraph_sql.manifest.tags import Tag
    from omnigraph_sql.runtime.request import ReadRequest
    from omnigraph_sql.writes.load.loads import LoadResult
    from omnigraph_sql.writes.load.rejects import RejectLimit, Rejects, RejectTarget
    from omnigraph_sql.writes.load.stage import Step
    from omnigraph_sql.writes.load.staged_load import StagedLoad
    from omnigraph_sql.writes.merge.merges import MergeResult
    from omnigraph_sql.writes.mutation import MutationResult
    from omnigraph_sql.writes.operation import Provenance
    from omnigraph_sql.writes.protocol import Review
    from omnigraph_sql.writes.relational import RelationalWriter


def _staged_load(name: str, value: Any) -> Any:
    from omnigraph_sql.writes.load.staged_load import StagedLoad

    return instance(StagedLoad, "a staged load")(name, value)


def _embedder(name: str, value: Any) -> Any:
    from omnigraph_sql.embeddings.client import embedder

    return embedder(name, value)


_EMBEDDER = optional(_embedder)
_CHANGES = {"kinds": optional(texts), "types": optional(texts), "ops": optional(texts)}
_PAGE = whole(1, 8192)
_LIMITS = {"timeout": optional(number), "memory_limit": optional(whole())}


class Graph:
    """An open graph. `init` and `connect` make it; close it, or use it as a context manager.

    Threads may share a graph. It holds no lock and no open write between two calls.

    Example:
        >>> graph.query("query names() { match { $p: Port } return { $p.name } order { $p.name } }").to_pylist()
        [{'p.name': 'Duisburg'}, {'p.name': 'Rotterdam'}]
    """

    def __init__(
        self,
        store: GraphStore,
        *,
        read_only: bool = False,
        actor: str | None = None,
        embedder: str | Embedder | None = None,
        embed: str | None = None,
    ) -> None:
        embeddings = Embeddings(embedder)
        self._store = store
        self._read_only = read_only
        self._actor = check_actor(actor)
        self._embeddings = embeddings if embeddings.is_on(embed) else None
        self._queries = GraphQueries(store, embeddings, saves=not read_only)
        self._sql = GraphSql(store, self._queries)
        self._writers: GraphScripts | None = None
        self._checks: tuple[DataCheck, ...] = ()
        """The checks of the project file."""

    @property
    def _loads(self) -> GraphLoads:
        from omnigraph_sql.graph.loads import GraphLoads

        return GraphLoads(self._store, self._embeddings)

    @property
    def _scripts(self) -> GraphScripts:
        if self._writers is None:
            from omnigraph_sql.graph.graph_scripts import GraphScripts

            self._writers = GraphScripts(
                graph=self,
                store=self._store,
                queries=self._queries,
                sql=self._sql,
                embeddings=self._embeddings,
                provenance=self._transaction_provenance,
                review=self._review,
            )
        return self._writers

    def _transaction_provenance(self, *, message: str | None, actor: str | None, idempotency_key: str | None) -> Provenance:
        from omnigraph_sql.writes.operation import Provenance

        self._require_writable()
        return Provenance("Transaction", self._actor_for(actor), message, idempotency_key)

    def _review(self, checks: Any = None) -> Review:
        """What looks at the graph before a write is published: the checks of the project file and those of the call."""
        if checks is None and not self._checks:
            return None
        from omnigraph_sql.graph.checks import CheckRunner, read_checks

        return CheckRunner(self._store, self._queries).review([*self._checks, *read_checks(checks)])

    @property
    def _merges(self) -> GraphMerges:
        from omnigraph_sql.graph.merges import GraphMerges

        self._require_writable()
        return GraphMerges(self._store, self._actor, self._review, self._embeddings)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the sessions of the graph, and roll back its open transactions. What was published stays.

        Example:
            >>> graph.close()
        """
        if self._writers is not None:
            self._writers.close()
        self._sql.close()

    def refresh(self) -> None:
        """Read the schema again and finish what crashed writers left, as far as it can be finished.

        A handle sees commits of others without it.

        Raises:
            NotFound: the graph was removed, or another one is in its place.
            RecoveryRequired: what a writer left cannot be decided yet.

        Example:
            >>> graph.refresh()
        """
        self._store.coordinator.fresh(MAIN)  # fails if another graph is in the place of this one
        self._store.catalog, _ = lifecycle.read_contract(self._store.objects)
        if not self._read_only:
            sweep(self._store, full=False)

    @property
    def uri(self) -> str:
        """The address of the graph: a directory, or `s3://BUCKET/PREFIX`.

        Example:
            >>> graph.uri.endswith("harbour")
            True
        """
        return str(self._store.root)

    @property
    def schema(self) -> str:
        """The text of the accepted schema.

        Raises:
            NotFound: the graph was removed, or another one is in its place.

        Example:
            >>> print(graph.schema.splitlines()[0])
            node Port {
        """
        self._store.coordinator.require_same_graph()
        return self._store.objects.read_text(lifecycle.SOURCE)

    @property
    def catalog(self) -> Catalog:
        """The accepted schema, compiled.

        Example:
            >>> sorted(graph.catalog.nodes), sorted(graph.catalog.edges)
            (['Port'], ['Lane'])
        """
        return self._store.catalog

    # Reading ---------------------------------------------------------------------------------------------------------

    @checked(ignore_unknown_params=flag, engine=text, **_LIMITS)
    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
        engine: EngineName = "datafusion",
        ignore_unknown_params: bool = False,
    ) -> Result:
        """Run a read query of a `.gq` text or file.

        It returns when the first rows are there; a result of a few thousand rows is complete by then. The rest comes while
        the result is read.

        Args:
            source: the text of the queries, or the path of a file with them.
            name: which query of the text, if there are several. The parameters may stand in this place.
            params: values for its parameters, without `$`.
            branch: the branch to read.
            snapshot: a commit id or a tag, to read the graph as it was then.
            version: an earlier version of the branch.
            timeout: seconds of work; waiting for the reader of the rows does not count.
            memory_limit: bytes of rows that are worked on at a time.
            engine: which engine runs it; the rows are the same.
            ignore_unknown_params: ignore parameters that the query does not declare instead of refusing them.

        Returns:
            The rows, as Arrow batches, dicts, data frames or JSON.

        Raises:
            Compile: the query does not fit the schema.
            BadRequest: a parameter is missing, unknown or of the wrong type, or the query is a mutation.
            NotFound: there is no such branch, version, commit or query.
            ResourceLimit: it took longer or needed more memory than allowed.

        Example:
            >>> near = "query near($c: String) { match { $p: Port { code: $c } $p lane $q } return { $q.name, $q.depth } }"
            >>> graph.query(near, {"c": "NLRTM"}).to_pylist()
            [{'q.name': 'Duisburg', 'q.depth': None}]
        """
        request = QueryRequest.of(source, name, params, ignore_unknown=ignore_unknown_params)
        runner = self._queries.engines.get(engine)
        read = self._read_request(request, branch, snapshot, version, timeout, memory_limit)
        return Result(
            read.schema,
            lambda: runner.start(read),
            graph_commit_id=read.snapshot.commit_id,
            query_name=read.query.name,
            target=snapshot or (branch if version is None else f"{branch}@{version}"),
        )

    def result_schema(
        self, source: str | Path, name: str | Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None
    ) -> pa.Schema:
        """The columns that a read query returns; it is not run.

        Args:
            source: the text of the queries, or the path of a file with them.
            name: which query of the text, if there are several. The parameters may stand in this place.
            params: values for its parameters.

        Returns:
            Names and Arrow types of the columns.

        Raises:
            Compile: the query does not fit the schema.

        Example:
            >>> graph.result_schema("query depths() { match { $p: Port } return { $p.depth } }").names
            ['p.depth']
        """
        request = QueryRequest.of(source, name, params, ignore_unknown=False)
        return self._read_request(request, MAIN, None, None, None, None).schema

    @checked(ignore_unknown_params=flag, analyze=flag, engine=text, **_LIMITS)
    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        analyze: bool = False,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
        engine: EngineName = "datafusion",
        ignore_unknown_params: bool = False,
    ) -> Explanation:
        """Show how a read query runs: its steps, its SQL, and the plan of the engine.

        Args:
            source: as for `query`; so are the other arguments that are not listed here.
            name: which query of the text.
            params: values for its parameters.
            analyze: run the query as well, and add rows and times.
            branch: the branch to read.
            snapshot: a commit id or a tag.
            version: an earlier version of the branch.
            timeout: seconds of work.
            memory_limit: bytes of rows that are worked on at a time.
            engine: which engine would run it.
            ignore_unknown_params: ignore parameters that the query does not declare.

        Returns:
            The explanation; printing it shows the steps.

        Raises:
            Compile: the query does not fit the schema.
            BadRequest: a parameter is missing, unknown or of the wrong type.

        Example:
            >>> plan = graph.explain("query names() { match { $p: Port } return { $p.name } }")
            >>> "SELECT" in plan.sql
            True
        """
        request = QueryRequest.of(source, name, params, ignore_unknown=ignore_unknown_params)
        runner = self._queries.engines.get(engine)
        read = self._read_request(request, branch, snapshot, version, timeout, memory_limit)
        return runner.analyze(read) if analyze else runner.explain(read)

    def _read_request(
        self,
        request: QueryRequest,
        branch: str,
        commit: str | None,
        version: int | None,
        timeout: float | None,
        memory_limit: int | None,
    ) -> ReadRequest:
        return self._queries.request(
            request.source,
            request.name,
            request.params,
            lambda: self.snapshot(branch=branch, version=version, commit=commit),
            run_limits(timeout, memory_limit),
            ignore_unknown=request.ignore_unknown,
        )

    # SQL -------------------------------------------------------------------------------------------------------------

    @checked(ignore_unknown_params=flag, engine=text, isolated=flag, **_LIMITS)
    def sql(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
        engine: EngineName = "datafusion",
        timeout: float | None = None,
        memory_limit: int | None = None,
        ignore_unknown_params: bool = False,
        isolated: bool = False,
    ) -> Result:
        """Run an SQL statement that reads.

        Tables are the types of the graph. `"feature/x"."Person"`, `"main@42"."Person"`, `"@COMMIT"."Person"` and
        `"@TAG"."Person"` name other states of it. The statement sees all states as they are when it starts.

        Args:
            text: the statement, with `$name` for its parameters.
            params: values for the parameters.
            branch: the branch whose tables have plain names.
            snapshot: a commit id or a tag, in place of a branch.
            version: an earlier version of the branch.
            engine: `datafusion` or `duckdb`.
            timeout: seconds of work, planning included.
            memory_limit: bytes that it may take.
            ignore_unknown_params: ignore parameters that the statement does not mention instead of refusing them.
            isolated: run it in a process of its own, whose address space is limited: whatever the statement does ends that
                process and not this one. Use it for statements of people you do not trust.

        Returns:
            The rows.

        Raises:
            BadRequest: the statement is not valid, or would change something.
            NotFound: there is no such branch, version or commit.
            ResourceLimit: it took longer or needed more memory than allowed.

        Example:
            >>> graph.sql("select code from Port where depth > $least", {"least": 20}).to_pylist()
            [{'code': 'NLRTM'}]
        """
        refuse_path(text, ".sql", "a statement")
        sessions, state = self._sql.sessions, self._sql.state(branch, version, snapshot)
        run = sessions.isolated_sql if isolated else sessions.sql
        limits = run_limits(timeout, memory_limit)
        return run(text, params, state, engine, limits, ignore_unknown=ignore_unknown_params)

    @checked(engine=text, message=optional(text), actor=optional(text), idempotency_key=optional(text))
    def execute(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        engine: EngineName = "datafusion",
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecuteResult:
        """Run SQL statements that read or write, and publish what they change as one commit.

        A script that meets changes of others in tables that it read or wrote is run again.

        Args:
            text: one statement, or several that end with semicolons.
            params: values for their `$name` parameters.
            branch: the branch that plain names mean, and that is changed.
            engine: `datafusion` or `duckdb`.
            message: a note for the history.
            actor: who writes; the actor of the handle unless given.
            idempotency_key: a script of a key that is in the history of the branch does nothing, and returns its commit.

        Returns:
            The number of rows that were changed, the commit, and the rows of the last statement that gives some.

        Raises:
            BadRequest: a statement is not valid or not supported, or the graph is read-only. The message names the
                statement, and nothing is published.
            NotFound: a statement names something that does not exist.
            ValidationFailed: rows break a rule of the schema, or a constraint of a table.
            KeyConflict: a row with such a key exists.
            Conflict: a name is taken, or others keep changing the tables.

        Example:
            >>> graph.execute("update Port set depth = depth + 1 where code = $code", {"code": "NLRTM"}).rows_affected
            1
        """
        notes: Any = {"message": message, "actor": actor, "idempotency_key": idempotency_key}
        return self._scripts.run_script(text, params, branch, engine, None, **notes)

    @checked(branch=content, database=content, schema=content, engine=text)
    def pinned(
        self, *, branch: str = MAIN, database: str = "omnigraph", schema: str = "main", engine: EngineName = "datafusion"
    ) -> PinnedSession:
        """Open a session on one branch for tools that know no branches: its schemas are the relational schemas.

        In `Graph.sql`, `main.fees` is a table of the branch `main`, whatever branch is read. In a pinned session it is the
        table of the relational schema `main` on the branch of the session.

        Args:
            branch: the branch that it reads and writes.
            database: the name of its catalog, the first part of `DATABASE.SCHEMA.TABLE`.
            schema: the schema of names without one.
            engine: `datafusion` or `duckdb`.

        Returns:
            The session, for a `with` block.

        Raises:
            BadRequest: a name or the engine is not valid.
            NotFound: there is no such branch.

        Example:
            >>> with graph.pinned(database="harbour") as session:
            ...     session.sql("select schema_name from harbour.information_schema.schemata order by 1").to_pylist()
            [{'schema_name': 'graph'}, {'schema_name': 'information_schema'}, {'schema_name': 'main'}]
        """
        from omnigraph_sql.engines.registry import check_engine
        from omnigraph_sql.graph.pinned_sessions import PinnedSession
        from omnigraph_sql.manifest.texts import check_name
        from omnigraph_sql.sql.refs import CatalogPin

        check_engine(engine)
        pin = CatalogPin(database=check_name(database, "database"), schema=check_name(schema, "schema"))
        name = self._store.coordinator.require(public_name(branch))
        return PinnedSession(self._scripts, self._sql.pinned(pin), name, engine, pin)

    @checked(memory_limit=optional(whole()))
    def datafusion(
        self, *, branch: str = MAIN, snapshot: str | None = None, version: int | None = None, memory_limit: int | None = None
    ) -> GraphContext:
        """Open a DataFusion session on the graph.

        Each statement reads the newest state of the branches that it names, and none can change anything.

        Args:
            branch: the branch that is the default schema.
            snapshot: a commit id or a tag, in place of a branch.
            version: an earlier version of the branch.
            memory_limit: bytes that a statement may take.

        Returns:
            A `datafusion.SessionContext`.

        Raises:
            NotFound: there is no such branch, version or commit.

        Example:
            >>> graph.datafusion().sql("select count(*) as n from Lane").to_pydict()
            {'n': [1]}
        """
        return self._sql.sessions.datafusion(self._sql.state(branch, version, snapshot), run_limits(None, memory_limit))

    @checked(memory_limit=optional(whole()))
    def duckdb(
        self, *, branch: str = MAIN, snapshot: str | None = None, version: int | None = None, memory_limit: int | None = None
    ) -> DuckDBPyConnection:
        """Open a DuckDB connection on the graph.

        It shows the branches as they are now; attach the graph to it again to see later commits.

        Args:
            branch: the branch that is the default schema.
            snapshot: a commit id or a tag, in place of a branch.
            version: an earlier version of the branch.
            memory_limit: bytes that the connection may take.

        Returns:
            A `duckdb.DuckDBPyConnection`.

        Raises:
            Configuration: the package `duckdb` is not installed.
            NotFound: there is no such branch, version or commit.

        Example:
            >>> graph.duckdb().sql("select count(*) from Lane").fetchall()
            [(1,)]
        """
        return self._sql.sessions.duckdb(self._sql.state(branch, version, snapshot), run_limits(None, memory_limit))

    @checked(alias=optional(text))
    def attach(
        self,
        session: Any,
        *,
        alias: str | None = None,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> str:
        """Make the graph a catalog of a DataFusion or DuckDB session of yours.

        The session keeps each branch as it was when a statement first named it; attach the graph again to see later commits.

        Args:
            session: a `datafusion.SessionContext` or a connection of `duckdb.connect()`.
            alias: the name of the catalog; `graph` unless given.
            branch: the branch that functions read unless a state is named.
            snapshot: a commit id or a tag, in place of a branch.
            version: an earlier version of the branch.

        Returns:
            The name of the catalog.

        Raises:
            BadRequest: the session is neither of the two.
            Conflict: the session has a catalog of that name already.

        Example:
            >>> import duckdb
            >>> session = duckdb.connect()
            >>> graph.attach(session, alias="harbour")
            'harbour'
            >>> session.sql('select code from harbour.main."Port" order by code').fetchall()
            [('DEDUI',), ('NLRTM',)]
        """
        return self._sql.sessions.attach(session, alias, self._sql.state(branch, version, snapshot))

    @checked(name=text)
    def register(self, name: str, source: Any, **options: Any) -> ForeignTable:
        """Make data that lives elsewhere a table for SQL: `foreign."NAME"`, or just `NAME`.

        Its columns are looked up now; its rows are read when a statement needs them.

        Args:
            name: the name of the table.
            source: a path, pattern or directory of Parquet or CSV files, a `postgresql://` address, a DuckDB file, or Arrow
                data: a table, a reader, a data frame.
            **options: for files `format`, for CSV also `delimiter`, `header`, `schema` and `types`; for databases
                `table="SCHEMA.TABLE"`.

        Returns:
            The table: its name, kind, source and columns.

        Raises:
            BadRequest: the source or an option is not valid.
            Conflict: there is a table of that name.
            SourceFailed: the source cannot be read.

        Example:
            >>> import pyarrow as pa
            >>> graph.register("prices", pa.table({"code": ["NLRTM"], "fee": [12.5]})).kind
            'arrow'
            >>> graph.sql("select p.name, fee from Port p join prices using (code)").to_pylist()
            [{'name': 'Rotterdam', 'fee': 12.5}]
        """
        return self._sql.sessions.foreign.add(name, source, options, self._sql.table_names())

    @checked(name=text)
    def unregister(self, name: str) -> None:
        """Forget a foreign table. Its source stays as it is.

        Args:
            name: the name that it was registered with.

        Raises:
            NotFound: there is no such foreign table.

        Example:
            >>> import pyarrow as pa
            >>> _ = graph.register("prices", pa.table({"code": ["NLRTM"]}))
            >>> graph.unregister("prices")
        """
        self._sql.sessions.foreign.remove(name)

    def foreign(self) -> list[ForeignTable]:
        """The foreign tables of this handle, by name.

        Returns:
            Name, kind, source and columns of each; sources are shown without passwords.

        Example:
            >>> graph.foreign()
            []
        """
        return self._sql.sessions.foreign.all()

    @checked(path=optional(path))
    def use_project(self, path: str | os.PathLike[str] | None = None) -> ProjectSettings:
        """Use an `omnigraph.yaml`: its foreign tables, its queries (for `gq('NAME')`), and its checks.

        The checks run before every load, merge and publish of this handle, if the file lists no graphs or this one.

        Args:
            path: the file or its directory; the nearest from the working directory upwards unless given.

        Returns:
            What the file says.

        Raises:
            NotFound: there is no such file.
            BadRequest: the file is not valid.

        Example:
            >>> _ = Path("omnigraph.yaml").write_text("queries: []")
            >>> graph.use_project("omnigraph.yaml").queries
            ()
        """
        project = find_project() if path is None else load_project(Path(path))
        self.use_queries(*project.queries)
        for table in project.foreign:
            self.register(table.name, table.source, **table.options)
        if is_listed(project.graphs, self.uri):
            self.use_checks(dict(project.checks))
        return project

    def use_checks(self, checks: Any) -> None:
        """Run checks before every load, merge and publish of this handle, besides those of a call.

        Args:
            checks: reads that must return no row on the graph as it will be: a mapping from names to texts of SQL or `.gq`
                or to paths of files, or a list of texts and paths. They replace those of an earlier call.

        Raises:
            BadRequest: it is none of these.
            NotFound: there is no such file.

        Example:
            >>> graph.use_checks({"every port has a name": "select code from Port where name is null"})
            >>> graph.load('{"type": "Port", "data": {"code": "XXXXX"}}', mode="append")
            Traceback (most recent call last):
                ...
            omnigraph_sql.errors.DataTestFailed: the check `every port has a name` returned 1 row; nothing was published
              {'code': 'XXXXX'}
            hint: correct the data or the check
        """
        from omnigraph_sql.graph.checks import read_checks

        self._checks = read_checks(checks)

    def use_queries(self, *files: str | os.PathLike[str]) -> None:
        """Let `gq` in SQL call the queries of `.gq` files by name.

        Args:
            *files: paths of the files. They are read when a query is called.

        Raises:
            BadRequest: a path is not valid.

        Example:
            >>> _ = Path("ports.gq").write_text("query ports() { match { $p: Port } return { $p.code } }")
            >>> graph.use_queries("ports.gq")
            >>> graph.sql("select count(*) as n from gq('ports')").to_pylist()
            [{'n': 2}]
        """
        self._sql.sessions.use_files(Path(path("files", file)) for file in files)

    # Writing ---------------------------------------------------------------------------------------------------------

    @checked(
        ignore_unknown_params=flag,
    )
    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int = 0,
        message: str | None = None,
        idempotency_key: str | None = None,
        ignore_unknown_params: bool = False,
    ) -> MutationResult:
        """Run a mutation of a `.gq` text or file, as one commit or not at all.

        Writers of one table take turns.

        Args:
            source: the text of the queries, or the path of a file with them.
            name: which query of the text, if there are several. The parameters may stand in this place.
            params: values for its parameters.
            branch: the branch to change.
            actor: who changes it; the actor of the handle unless given.
            if_commit: run only if this is the newest commit of the branch.
            retries: how often to evaluate the mutation anew if others have changed the rows that it chose.
            message: a note for the history.
            idempotency_key: a mutation of a key that is in the history of the branch is not done again.
            ignore_unknown_params: ignore parameters that the mutation does not declare instead of refusing them.

        Returns:
            How many entities it changed, and the commit; the commit is None if nothing changed.

        Raises:
            Compile: the mutation does not fit the schema.
            BadRequest: a parameter is missing, unknown or of the wrong type, or the graph is read-only.
            ValidationFailed: the rows would break a rule of the schema.
            KeyConflict: an inserted id exists already.
            PreconditionFailed: `if_commit` is not the newest commit.
            ExpectedVersionMismatch: others have changed the rows that it chose.

        Example:
            >>> survey = "query survey($c: String, $d: F64) { update Port set { depth: $d } where code = $c }"
            >>> graph.mutate(survey, {"c": "DEDUI", "d": 4.5}).affected_nodes
            1
        """
        self._require_writable()
        request = QueryRequest.of(source, name, params, ignore_unknown=ignore_unknown_params)
        query = self._queries.compiler.query(request.source, request.name)
        from omnigraph_sql.writes.mutation import mutate as run_mutation

        return run_mutation(
            self._store,
            query,
            request.params,
            ignore_unknown=request.ignore_unknown,
            branch=branch,
            actor=self._actor_for(actor),
            if_commit=None if if_commit is None else check_commit(if_commit),
            message=message,
            idempotency_key=idempotency_key,
            embeddings=self._embeddings,
            retries=retries,
        )

    @checked(extra_columns=text, data=load_data, mode=text, rejects=path_like)
    def load(
        self,
        data: Any,
        *,
        mode: LoadMode,
        branch: str = MAIN,
        base: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: RejectTarget | None = None,
        max_rejects: RejectLimit | None = None,
        csv: Mapping[str, Any] | None = None,
        extra_columns: ExtraColumns = "refuse",
        checks: Any = None,
    ) -> LoadResult:
        """Load records of any number of types: validated as one change, published as one commit.

        Args:
            data: records as JSON lines (a text, a path, lines), or a mapping from type to a table, data frame or file.
            mode: how the load treats what is there.
            branch: the branch to load into.
            base: create the branch from this one if it is missing.
            actor: who loads; the actor of the handle unless given.
            message: a note for the history.
            idempotency_key: a load of a key that is in the history of the branch is not done again.
            rejects: report every faulty record to a file or a function, instead of failing at the first.
            max_rejects: how many faulty records may be left out, or which share of them, as `"0.5%"`.
            csv: how CSV files are written: delimiter, quote, escape, header, names, encoding, null.
            extra_columns: what becomes of columns that are no properties.
            checks: reads that must return no row on the graph as it will be, as for `merge`.

        Returns:
            How many entities were loaded and rejected, and the commit.

        Raises:
            BadRequest: a record or an argument is not valid, or the graph is read-only.
            ValidationFailed: the rows break a rule of the schema.
            KeyConflict: mode `append` meets an id that exists.
            DataTestFailed: a check returned rows.

        Example:
            >>> record = '{"type": "Port", "data": {"code": "GBFXT", "name": "Felixstowe"}}'
            >>> graph.load(record, mode="append", message="one more").nodes
            {'Port': 1}
        """
        self._require_writable()
        from omnigraph_sql.graph.loads import LoadRequest
        from omnigraph_sql.writes.operation import Provenance

        request = LoadRequest(
            data=data,
            mode=mode,
            branch=branch,
            provenance=Provenance("Load", self._actor_for(actor), message, idempotency_key),
            rejects=rejects,
            max_rejects=max_rejects,
            csv=csv,
            extra_columns=extra_columns,
            review=self._review(checks),
        )
        request.check()
        created = base is not None and branch not in self.branches()
        if created and base is not None:
            self.create_branch(branch, base)
        try:
            result = self._loads.load(request)
        except Exception:
            if created:
                self.delete_branch(branch)
            raise
        return replace(result, base_branch=base, branch_created=created)

    @checked(branch=content, data=load_data, mode=text)
    def ingest(self, data: Any, *, branch: str, mode: LoadMode, base: str = MAIN, actor: str | None = None) -> LoadResult:
        """Load into a branch, and create it from `base` when it is missing.

        Args:
            data: as for `load`.
            branch: the branch to load into.
            mode: how the load treats what is there.
            base: the branch that a missing one starts from.
            actor: who loads.

        Returns:
            As `load`; `branch_created` says whether the branch is new.

        Raises:
            BadRequest: a record or an argument is not valid.
            ValidationFailed: the rows break a rule of the schema.

        Example:
            >>> record = '{"type": "Port", "data": {"code": "GBFXT"}}'
            >>> graph.ingest(record, branch="spring", mode="append").branch_created
            True
        """
        return self.load(data, mode=mode, branch=branch, base=base, actor=actor)

    @checked(extra_columns=text, data=load_data, mode=text, rejects=path_like, on_step=callback)
    def stage(
        self,
        data: Any,
        *,
        mode: LoadMode,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: RejectTarget | Rejects | None = None,
        max_rejects: RejectLimit | None = None,
        csv: Mapping[str, Any] | None = None,
        extra_columns: ExtraColumns = "refuse",
        on_step: Callable[[Step], None] = lambda _: None,
    ) -> StagedLoad:
        """Validate a load and write its files without making anything visible; `publish` does that later.

        Args:
            data: as for `load`; so are the other arguments that are not listed here.
            mode: how the load treats what is there.
            branch: the branch that it is meant for.
            actor: who loads.
            message: a note for the history.
            idempotency_key: a load of a key that is in the history of the branch is not done again.
            rejects: where faulty records are reported.
            max_rejects: how many faulty records may be left out.
            csv: how CSV files are written.
            extra_columns: what becomes of columns that are no properties.
            on_step: called with each step as it begins: read, validate, stage.

        Returns:
            The staged load. Another process may publish it: `StagedLoad.from_json(staged.to_json())`.

        Raises:
            BadRequest: a record or an argument is not valid, or the graph is read-only.
            ValidationFailed: the rows break a rule of the schema.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> commit = graph.publish(staged, message="reviewed")
            >>> commit.message
            'reviewed'
        """
        self._require_writable()
        from omnigraph_sql.graph.loads import LoadRequest
        from omnigraph_sql.writes.operation import Provenance

        request = LoadRequest(
            data=data,
            mode=mode,
            branch=branch,
            provenance=Provenance("Load", self._actor_for(actor), message, idempotency_key),
            rejects=rejects,
            max_rejects=max_rejects,
            csv=csv,
            extra_columns=extra_columns,
        )
        return self._loads.stage(request, on_step)

    @checked(staged=_staged_load)
    @contextmanager
    def preview(self, staged: StagedLoad) -> Iterator[Preview]:
        """Ask a branch in SQL as it will be once a staged load is published. Others see nothing of it.

        Args:
            staged: the load.

        Yields:
            An object with the method `sql`.

        Raises:
            BadRequest: the load is not one of this graph, or the graph is read-only.
            Conflict: the branch has moved on.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> with graph.preview(staged) as preview:
            ...     preview.sql("select count(*) as n from Port").to_pylist()
            [{'n': 3}]
        """
        self._require_writable()
        from omnigraph_sql.writes.load.preview import staged_snapshot

        with staged_snapshot(self._store, staged) as snapshot, closing(self._sql.preview(snapshot)) as preview:
            yield preview

    @checked(staged=_staged_load)
    def publish(
        self,
        staged: StagedLoad,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        checks: Any = None,
    ) -> Commit | None:
        """Publish a staged load.

        Args:
            staged: the load. It must still stand on the state that it was validated against.
            message: a note for the history; that of the load unless given.
            actor: who publishes; the actor of the load unless given.
            idempotency_key: the key of the load unless given.
            checks: reads that must return no row on the graph as it will be, as for `merge`.

        Returns:
            The commit; None when the load changes nothing.

        Raises:
            BadRequest: the load is not one of this graph, or its files are not what it says.
            Conflict: the branch has moved on.
            ExpectedVersionMismatch: others have changed the tables of the load.
            DataTestFailed: a check returned rows.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> graph.publish(staged).graph_commit_id == graph.commits()[0].graph_commit_id
            True
        """
        self._require_writable()
        from omnigraph_sql.writes.operation import Provenance

        declared = staged.provenance
        provenance = Provenance(
            "Load",
            self._actor_for(actor) if actor is not None else declared.actor,
            message if message is not None else declared.message,
            idempotency_key if idempotency_key is not None else declared.idempotency_key,
        )
        return self._loads.publish(staged, provenance, self._review(checks))

    @checked(staged=_staged_load)
    def discard(self, staged: StagedLoad) -> None:
        """Remove the files of a staged load that is not to be published.

        Args:
            staged: the load.

        Raises:
            BadRequest: the graph is read-only.

        Example:
            >>> graph.discard(graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append"))
        """
        self._require_writable()
        from omnigraph_sql.writes.load.abandoned_loads import discard

        discard(self._store, staged)

    @checked()
    def tables(self, branch: str = MAIN, *, actor: str | None = None, message: str | None = None) -> RelationalWriter:
        """Write relational tables, views and schemas of a branch. Every call of the writer is one commit.

        Args:
            branch: the branch to change.
            actor: who changes it; the actor of the handle unless given.
            message: a note for the history.

        Returns:
            The writer.

        Raises:
            BadRequest: the graph is read-only.

        Example:
            >>> import pyarrow as pa
            >>> _ = graph.tables().create_table("main", "fees", pa.table({"code": ["NLRTM"], "fee": [12.5]}))
            >>> graph.sql("select fee from fees").to_pylist()
            [{'fee': 12.5}]
        """
        self._require_writable()
        from omnigraph_sql.writes.operation import Provenance
        from omnigraph_sql.writes.relational import RelationalWriter

        return RelationalWriter(self._store, branch, Provenance("Relational", self._actor_for(actor), message))

    # Branches and history --------------------------------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of the branches, sorted.

        Example:
            >>> graph.branches()
            ['main']
        """
        return self._store.coordinator.branches()

    def damaged_branches(self) -> dict[str, str]:
        """The branches that cannot be read, each with the reason.

        All others work, and a damaged one can be deleted.

        Example:
            >>> graph.damaged_branches()
            {}
        """
        return self._store.coordinator.damaged_branches()

    def branch_infos(self) -> list[BranchInfo]:
        """The branches with what their newest commits say, and how far each is from `main`; sorted by name.

        The history is read once, however many branches there are.

        Returns:
            Name, newest commit with its time, actor and message, and numbers of commits. Of a branch that cannot be read
            there is the reason instead.

        Example:
            >>> _ = graph.create_branch("survey")
            >>> _ = graph.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append", branch="survey")
            >>> [(info.name, info.ahead, info.behind) for info in graph.branch_infos()]
            [('main', 0, 0), ('survey', 1, 0)]
        """
        from omnigraph_sql.history.branches import branch_infos

        return branch_infos(self._store.coordinator)

    @checked()
    def create_branch(self, name: str, base: str = MAIN) -> str:
        """Create a branch that starts at a state of the graph. No data is copied.

        Args:
            name: the name of the new branch.
            base: the state to start from: a branch, `BRANCH@VERSION`, a tag or a commit id.

        Returns:
            The name, without surrounding blanks.

        Raises:
            BadRequest: the name is not valid, or the graph is read-only.
            Conflict: there is a branch or tag of that name.
            NotFound: there is no state `base`.
            VersionReclaimed: a cleanup removed rows of the state.

        Example:
            >>> graph.create_branch("survey")
            'survey'
            >>> graph.create_branch("replay", graph.commits()[-1].graph_commit_id)
            'replay'
        """
        self._require_writable()
        from omnigraph_sql.writes import branches as branch_writes

        return branch_writes.create_branch(self._store, name, base, self._actor)

    @checked()
    def delete_branch(self, name: str) -> None:
        """Delete a branch. Commits that other branches share stay.

        Args:
            name: the name of the branch.

        Raises:
            BadRequest: it is `main`, or the graph is read-only.
            NotFound: there is no such branch.
            Conflict: another branch was created from it, or a tag names a state of it.

        Example:
            >>> _ = graph.create_branch("survey")
            >>> graph.delete_branch("survey")
        """
        self._require_writable()
        from omnigraph_sql.writes import branches as branch_writes

        branch_writes.delete_branch(self._store, name)

    @checked(engine=text)
    def transaction(
        self,
        branch: str = MAIN,
        *,
        message: str | None = None,
        engine: EngineName = "datafusion",
        actor: str | None = None,
        idempotency_key: str | None = None,
        checks: Any = None,
    ) -> Transaction:
        """Begin a transaction: several reads and writes on the present state of a branch, published as one commit.

        Args:
            branch: the branch.
            message: a note for the history.
            engine: which engine runs the SQL statements.
            actor: who writes; the actor of the handle unless given.
            idempotency_key: a transaction of a key that is in the history of the branch publishes nothing.
            checks: reads that must return no row on the graph as it will be, as for `merge`.

        Returns:
            The transaction, for a `with` block.

        Raises:
            BadRequest: the graph is read-only, or an argument is not valid.
            NotFound: there is no such branch.

        Example:
            >>> with graph.transaction(message="a port and its lane") as tx:
            ...     _ = tx.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            ...     _ = tx.load('{"edge": "Lane", "from": "GBFXT", "to": "NLRTM"}', mode="append")
            >>> graph.commits()[0].message
            'a port and its lane'
        """
        notes: Any = {"message": message, "actor": actor, "idempotency_key": idempotency_key}
        return self._scripts.begin(branch, engine, None, checks=checks, **notes)

    @checked(branch=content, engine=text, delete_branch=flag)
    def resume(
        self,
        branch: str,
        *,
        message: str | None = None,
        engine: EngineName = "datafusion",
        actor: str | None = None,
        idempotency_key: str | None = None,
        checks: Any = None,
        delete_branch: bool = False,
    ) -> Transaction:
        """Go on from a branch that a transaction was kept as: begin a transaction with everything that the branch changed.

        It publishes to the branch that the first transaction was for. What others have published there since stands in
        its way only where both changed a table, or where the first transaction read what others changed.

        Args:
            branch: the branch, made by `Transaction.keep` or `Graph.create_branch`.
            message: a note for the history.
            engine: which engine runs the SQL statements.
            actor: who writes; the actor of the handle unless given.
            idempotency_key: a transaction of a key that is in the history of the target publishes nothing.
            checks: reads that must return no row on the graph as it will be, as for `merge`.
            delete_branch: delete the branch once the transaction is published.

        Returns:
            The transaction, for a `with` block.

        Raises:
            BadRequest: the graph is read-only, or the branch was not made from another one.
            NotFound: there is no such branch, or that from which it was made is deleted.
            Conflict: the branch from which it was made is another one now.
            VersionReclaimed: a cleanup has removed the state at which it was made.

        Example:
            >>> tx = graph.transaction()
            >>> _ = tx.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> _ = tx.keep("unfinished")
            >>> with graph.resume("unfinished", delete_branch=True) as tx:
            ...     _ = tx.load('{"edge": "Lane", "from": "GBFXT", "to": "NLRTM"}', mode="append")
            >>> graph.snapshot().entry("node:Port").row_count, graph.branches()
            (3, ['main'])
        """
        notes: Any = {"message": message, "actor": actor, "idempotency_key": idempotency_key}
        return self._scripts.resume(branch, engine, None, checks=checks, delete_branch=delete_branch, **notes)

    # Tags ------------------------------------------------------------------------------------------------------------

    @checked(name=content, ref=content)
    def tag(self, name: str, ref: str = MAIN, *, message: str | None = None, actor: str | None = None) -> Tag:
        """Give a state of the graph a name by which it can be read wherever a commit can.

        The name stays with the state: a cleanup keeps what the tag needs, and the tag never moves. To move it, delete it
        and make it again.

        Args:
            name: the name: like that of a branch, but neither that of one nor of the form of a commit id.
            ref: the state: a branch, `BRANCH@VERSION`, another tag or a commit id.
            message: a note.
            actor: who makes it; the actor of the handle unless given.

        Returns:
            The tag, with the commit that it names.

        Raises:
            BadRequest: the name is not valid, or the graph is read-only.
            Conflict: there is a tag or a branch of that name.
            NotFound: there is no state `ref`.
            VersionReclaimed: a cleanup removed rows of the state.

        Example:
            >>> graph.tag("v1", message="first release").branch
            'main'
            >>> _ = graph.mutate("query shallow() { delete Port where depth < 10.0 }")
            >>> graph.sql('select count(*) as n from "@v1"."Port"').to_pylist()
            [{'n': 2}]
        """
        self._require_writable()
        from omnigraph_sql.writes.tags import create_tag

        return create_tag(self._store, name, ref, message=message, actor=self._actor_for(actor))

    def tags(self) -> list[Tag]:
        """The tags of the graph, by name.

        Returns:
            Each with its commit, author, note and time.

        Raises:
            NotFound: the graph was removed, or another one is in its place.

        Example:
            >>> _ = graph.tag("v1")
            >>> [tag.name for tag in graph.tags()]
            ['v1']
        """
        return list(self._store.coordinator.tags().values())

    @checked(name=content)
    def delete_tag(self, name: str) -> None:
        """Delete a tag. The state stays as long as a branch, another tag or the policy of cleanups keeps it.

        Args:
            name: the name of the tag.

        Raises:
            BadRequest: the graph is read-only.
            NotFound: there is no such tag.

        Example:
            >>> _ = graph.tag("v1")
            >>> graph.delete_tag("v1")
            >>> graph.tags()
            []
        """
        self._require_writable()
        from omnigraph_sql.writes.tags import delete_tag

        delete_tag(self._store, name)

    # Merging ---------------------------------------------------------------------------------------------------------

    @checked(delete_source=flag, dry_run=flag, granularity=text)
    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        actor: str | None = None,
        message: str | None = None,
        delete_source: bool = False,
        granularity: MergeGranularity = "row",
        dry_run: bool = False,
        resolve: Any = None,
        checks: Any = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another one: what it changed since their common ancestor is applied there, as one commit.

        Where both sides changed a row differently, or the merged graph would break a rule of the schema, there is a
        conflict. Unless `resolve` decides all of them, nothing is changed.

        Args:
            source: the branch with the changes.
            into: the branch that gets them.
            actor: who does it; without it the actor of the handle.
            message: a note for the commit.
            delete_source: delete the branch `source` afterwards. A refusal is in the result and fails nothing.
            granularity: with `row`, two changes of one row are a conflict; with `column`, only of one property of it.
            dry_run: return what would be done, with the conflicts, and change nothing. Checks run as well.
            resolve: decisions about conflicts. `"ours"` (the target) or `"theirs"` (the source) for all of them; a mapping
                from types, kinds of conflicts or `(type, id)` to a side; or a list or table of decisions with the members
                `type`, `kind`, `id`, `take` and `values`. The most precise decision holds.
            checks: queries or SQL statements that must return no row on the merged graph, by name.
            idempotency_key: a key by which a repetition is recognised.

        Returns:
            The outcome with the commit and the numbers of changed rows.

        Raises:
            MergeConflicts: conflicts are left undecided; `conflicts` has them.
            DataTestFailed: a check returned rows.
            BadRequest: a branch would be merged into itself, or a decision is about no conflict.
            NotFound: there is no such branch.
            Conflict: others kept changing the target.

        Example:
            >>> _ = graph.create_branch("deeper")
            >>> deepen = "query deepen($c: String) { update Port set { depth: 25.0 } where code = $c }"
            >>> _ = graph.mutate(deepen, {"c": "NLRTM"}, branch="deeper")
            >>> result = graph.merge("deeper", delete_source=True)
            >>> result.outcome, result.changes["node:Port"].updates, result.branch_deleted
            ('fast_forward', 1, True)
        """
        return self._merges.run(
            source,
            into,
            resolve,
            checks,
            is_dry=dry_run,
            granularity=granularity,
            delete_source=delete_source,
            actor=actor,
            message=message,
            idempotency_key=idempotency_key,
        )

    @checked(granularity=text, dry_run=flag)
    def revert(
        self,
        commit: str,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        granularity: MergeGranularity = "row",
        dry_run: bool = False,
        resolve: Any = None,
        checks: Any = None,
    ) -> MergeResult:
        """Take one commit back: its inverse is applied to the branch, as a commit of its own.

        Later changes stay. Where they are in the way there is a conflict, as in a merge: `ours` is the branch, `theirs` the
        state before the commit. A merge is taken back as a whole.

        Args:
            commit: the id of the commit.
            branch: the branch that gets the inverse.
            actor: who does it.
            message: a note; without it one that names the commit.
            granularity: as for `merge`.
            dry_run: as for `merge`.
            resolve: decisions about conflicts, as for `merge`.
            checks: as for `merge`.

        Returns:
            The outcome; `already_up_to_date` if nothing of the commit is left to take back.

        Raises:
            MergeConflicts: conflicts are left undecided.
            BadRequest: it is the first commit.
            NotFound: there is no such commit or branch.
            VersionReclaimed: a cleanup removed the rows of the commit or of its parent.

        Example:
            >>> mistake = graph.load('{"type": "Port", "data": {"code": "XXXXX"}}', mode="append").commit
            >>> graph.revert(mistake.graph_commit_id).changes["node:Port"].deletes
            1
        """
        request = {"granularity": granularity, "actor": actor, "message": message}
        return self._merges.replay("Revert", commit, branch, resolve, checks, is_dry=dry_run, **request)

    @checked(granularity=text, dry_run=flag)
    def cherry_pick(
        self,
        commit: str,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        granularity: MergeGranularity = "row",
        dry_run: bool = False,
        resolve: Any = None,
        checks: Any = None,
    ) -> MergeResult:
        """Apply one commit of any branch to a branch: the changes that it made to its first parent, and no others.

        Args:
            commit: the id of the commit.
            branch: the branch that gets its changes.
            actor: who does it.
            message: a note; without it one that names the commit.
            granularity: as for `merge`.
            dry_run: as for `merge`.
            resolve: decisions about conflicts, as for `merge`.
            checks: as for `merge`.

        Returns:
            The outcome; `already_up_to_date` if the branch has the changes.

        Raises:
            MergeConflicts: conflicts are left undecided.
            BadRequest: it is the first commit.
            NotFound: there is no such commit or branch.
            VersionReclaimed: a cleanup removed the rows of the commit or of its parent.

        Example:
            >>> _ = graph.create_branch("lab")
            >>> wanted = graph.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append", branch="lab").commit
            >>> graph.cherry_pick(wanted.graph_commit_id).changes["node:Port"].inserts
            1
        """
        request = {"granularity": granularity, "actor": actor, "message": message}
        return self._merges.replay("CherryPick", commit, branch, resolve, checks, is_dry=dry_run, **request)

    @checked(dry_run=flag)
    def restore(
        self,
        ref: str,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        checks: Any = None,
    ) -> MergeResult:
        """Give a branch the rows of another state, as one commit. Nothing of its history is lost.

        Args:
            ref: the state: a commit id, a tag, `BRANCH`, or `BRANCH@VERSION`.
            branch: the branch.
            actor: who does it.
            message: a note; without it one that names the state.
            dry_run: as for `merge`.
            checks: as for `merge`.

        Returns:
            The outcome; `already_up_to_date` if the branch looks like that.

        Raises:
            NotFound: there is no such state or branch.
            VersionReclaimed: a cleanup removed rows of the state.

        Example:
            >>> before = graph.commits()[0].graph_commit_id
            >>> _ = graph.mutate('query q() { delete Port where code = "DEDUI" }')
            >>> graph.restore(before).changes["node:Port"].inserts
            1
        """
        request = {"actor": actor, "message": message}
        return self._merges.return_to(ref, self._state(ref), branch, checks, is_dry=dry_run, **request)

    # History ---------------------------------------------------------------------------------------------------------

    @checked()
    def snapshot(self, *, branch: str = MAIN, version: int | None = None, commit: str | None = None) -> Snapshot:
        """The tables that a branch shows now, or showed at a version or a commit.

        Args:
            branch: the branch.
            version: an earlier version of it.
            commit: a commit id or a tag, in place of a branch.

        Returns:
            An immutable map from tables to their versions, with the commit.

        Raises:
            NotFound: there is no such branch, version or commit.

        Example:
            >>> graph.snapshot().entry("node:Port").row_count
            2
        """
        coordinator = self._store.coordinator
        if commit is not None:
            return coordinator.at_name(commit)
        name = public_name(branch)
        return coordinator.fresh(name) if version is None else coordinator.at_version(name, version)

    @checked(limit=optional(whole(1)), after=optional(content))
    def commits(self, branch: str = MAIN, *, limit: int | None = None, after: str | None = None) -> list[Commit]:
        """The history of a branch, newest first.

        Args:
            branch: the branch.
            limit: the most commits to return.
            after: the last commit of the page before: return those that come after it, which are older.

        Returns:
            Its commits, each with its parents, actor, message and time.

        Raises:
            NotFound: there is no such branch, or no commit `after` in its history.

        Example:
            >>> [commit.message for commit in graph.commits()]
            ['first ports', 'init']
            >>> newest = graph.commits(limit=1)[-1]
            >>> [commit.message for commit in graph.commits(after=newest.graph_commit_id)]
            ['init']
        """
        commits = history(self._store.coordinator, self.snapshot(branch=branch))
        return page(commits, limit, None if after is None else check_commit(after), branch)

    @checked()
    def commit(self, commit_id: str) -> Commit:
        """One commit by its id.

        Args:
            commit_id: the id.

        Returns:
            The commit.

        Raises:
            NotFound: there is no such commit.

        Example:
            >>> graph.commit(graph.commits()[0].graph_commit_id).message
            'first ports'
        """
        self._store.coordinator.require_same_graph()
        return self._store.coordinator.commit(commit_id)

    @checked(images=flag, **_CHANGES)
    def diff(
        self,
        start: str,
        end: str,
        *,
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        images: bool = False,
    ) -> ChangeSet:
        """The entities that were inserted, updated and deleted between two states.

        Args:
            start: the earlier state: a branch, `BRANCH@VERSION`, a tag or a commit id.
            end: the later state.
            kinds: only these kinds: `node`, `edge`.
            types: only these types.
            ops: only these operations: `insert`, `update`, `delete`.
            images: also read the changed entities, as they were and as they are.

        Returns:
            The changes, with counts.

        Raises:
            NotFound: there is no such state or type.
            BadRequest: a filter names nothing that there is.

        Example:
            >>> _ = graph.create_branch("survey")
            >>> _ = graph.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append", branch="survey")
            >>> [(change.op, change.id) for change in graph.diff("main", "survey").changes]
            [('insert', 'GBFXT')]
        """
        from omnigraph_sql.history.diff import ChangeFilter, diff

        wanted = ChangeFilter(kinds, types, ops)
        states = self._state(start), self._state(end)
        return diff(self._store.storage, self._store.catalog, *states, wanted, has_images=images)

    @cached_property
    def _changes(self) -> GraphChanges:
        from omnigraph_sql.graph.changes import GraphChanges

        return GraphChanges(self._store)

    @checked(page_token=optional(text), limit=optional(_PAGE), **_CHANGES)
    def commit_changes(
        self,
        commit_id: str,
        *,
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        limit: int | None = None,
        page_token: str | None = None,
    ) -> CommitChanges:
        """The exact changes that a commit made to the state of its first parent, with the values before and after them.

        A commit that only rewrote tables, such as one that built indexes, has none.

        Args:
            commit_id: the commit.
            kinds: only these kinds: `node`, `edge`.
            types: only these types.
            ops: only these operations: `insert`, `update`, `delete`.
            limit: how many changes a page has at most, up to 8192; without it all of them come at once.
            page_token: `next_page_token` of the page before, for the same commit and filter.

        Returns:
            The changes, and what is known about the commit. The last of several pages may be empty.

        Raises:
            NotFound: there is no such commit, or its branch was deleted.
            CommitHasNoParent: it is the first commit of the graph.
            SchemaBoundary: a type that it changed had other properties before it.
            ChangeFeedGap: a cleanup removed rows of it or of its parent.
            CursorRejected: the page token belongs to another graph, commit or filter, or is none.
            BadRequest: a filter names nothing that there is.

        Example:
            >>> last = graph.commits()[0].graph_commit_id
            >>> page = graph.commit_changes(last, kinds=["node"], limit=1)
            >>> page.changes[0].after
            {'type': 'Port', 'data': {'id': 'DEDUI', 'code': 'DEDUI', 'name': 'Duisburg'}}
            >>> rest = graph.commit_changes(last, kinds=["node"], page_token=page.next_page_token)
            >>> [change.id for change in rest.changes], rest.next_page_token
            (['NLRTM'], None)
        """
        from omnigraph_sql.history.diff import ChangeFilter

        return self._changes.of_commit(commit_id, ChangeFilter(kinds, types, ops), page_token, limit)

    @checked(cursor=optional(text), page_token=optional(text), start=optional(text), limit=optional(_PAGE), **_CHANGES)
    def changes(
        self,
        branch: str = MAIN,
        *,
        cursor: str | None = None,
        start: str | None = None,
        page_token: str | None = None,
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        limit: int | None = None,
    ) -> ChangeFeedPage:
        """Poll the change feed of a branch: its commits along first parents, oldest first, each with its changes.

        Keep the cursor of a page when its commits are dealt with, and begin the next poll with it. A consumer that stops
        before that gets them again; none is left out. Commits that changed no entity move the cursor and are not listed.

        Args:
            branch: the branch.
            cursor: where the last poll ended: of the same graph, branch and filter.
            start: where to begin without a cursor: `now`, which is the default, `beginning`, or `after:COMMIT`.
            page_token: `next_page_token` of the page before, of the same poll.
            kinds: only these kinds: `node`, `edge`.
            types: only these types.
            ops: only these operations: `insert`, `update`, `delete`.
            limit: how many changes a page has at most, up to 8192; the last commit of the page may then be incomplete.
                Without it all commits are whole. A page looks at 128 commits at most.

        Returns:
            The commits, the cursor after those that are complete, and the token of the next page if the poll has one.

        Raises:
            NotFound: there is no such branch or commit.
            ChangeFeedGap: a cleanup removed rows of the next commit; a `baseline` begins anew.
            SchemaBoundary: a type that the next commit changed had other properties before it.
            CursorRejected: the cursor or token belongs to another graph, branch or filter, or is none, or the branch
                was deleted.
            BadRequest: a filter or `start` names nothing that there is.

        Example:
            >>> feed = graph.changes(start="beginning")
            >>> [(commit.message, len(commit.changes)) for commit in feed.blocks]
            [('first ports', 3)]
            >>> _ = graph.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> [change.id for commit in graph.changes(cursor=feed.cursor).blocks for change in commit.changes]
            ['GBFXT']
        """
        from omnigraph_sql.history.branch_changes import FeedRequest
        from omnigraph_sql.history.diff import ChangeFilter

        wanted = ChangeFilter(kinds, types, ops)
        request = FeedRequest(branch=branch, wanted=wanted, cursor=cursor, page_token=page_token, start=start, limit=limit)
        return self._changes.of_branch(request)

    @checked(**_CHANGES)
    def baseline(
        self,
        branch: str = MAIN,
        *,
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
    ) -> Iterator[str]:
        """The present state of a branch for a consumer that begins or has lost its place, and the cursor to go on from.

        Args:
            branch: the branch.
            kinds: only these kinds, here and in the feed that goes on from it.
            types: only these types, here and in that feed.
            ops: only these operations, in that feed.

        Returns:
            One JSON text for each load record, as `export` gives them, of one state; and a last one, `{"baseline":
            {"snapshot_commit_id": ..., "resume_cursor": ...}}`, with the cursor for `changes`.

        Raises:
            NotFound: there is no such branch.
            BadRequest: a filter names nothing that there is.

        Example:
            >>> import json
            >>> *records, last = graph.baseline()
            >>> resume = json.loads(last)["baseline"]["resume_cursor"]
            >>> len(records), graph.changes(cursor=resume).blocks
            (3, ())
        """
        from omnigraph_sql.history.diff import ChangeFilter

        return self._changes.baseline(branch, ChangeFilter(kinds, types, ops))

    @checked(type_name=text)
    def history_of(
        self, type_name: str, *, branch: str = MAIN, version: int | None = None, commit: str | None = None
    ) -> Result:
        """Every version of every row of a type, up to a state: what it was, from when to when, and who made it so.

        A version is credited to the commit that made it, also if a merge brought it to the branch. In SQL the function
        `history_of` returns the same.

        Args:
            type_name: the type; `node:T` or `edge:E` if a node type and an edge type have the name.
            branch: the branch.
            version: an earlier version of the branch.
            commit: a commit id, in place of a branch.

        Returns:
            The versions by id and time: `valid_from`, `valid_to` (null for what is current), `commit`, `actor`, `operation`
            (`insert`, `update`, `delete`, or `baseline` for a row that is older than the oldest state that can be read),
            `is_exact` (false if the commit is not known to have made the version), and the columns of the row.

        Raises:
            NotFound: there is no such type or state.
            VersionReclaimed: a cleanup removed the rows of the state.

        Example:
            >>> _ = graph.mutate('query deepen() { update Port set { depth: 25.0 } where code = "NLRTM" }')
            >>> [(row["id"], row["operation"], row["depth"]) for row in graph.history_of("Port").to_pylist()]
            [('DEDUI', 'insert', None), ('NLRTM', 'insert', 24.0), ('NLRTM', 'update', 25.0)]
        """
        return self._history(type_name, None, self.snapshot(branch=branch, version=version, commit=commit))

    @checked(type_name=text, entity_id=text)
    def entity_history(
        self,
        type_name: str,
        entity_id: str,
        *,
        branch: str = MAIN,
        version: int | None = None,
        commit: str | None = None,
    ) -> Result:
        """Every version of one node or edge, up to a state. Other rows are not read.

        Args:
            type_name: the type; `node:T` or `edge:E` if a node type and an edge type have the name.
            entity_id: the id.
            branch: the branch.
            version: an earlier version of the branch.
            commit: a commit id, in place of a branch.

        Returns:
            The versions, oldest first, as `history_of` returns them; none for an id that was never there.

        Raises:
            NotFound: there is no such type or state.
            VersionReclaimed: a cleanup removed the rows of the state.

        Example:
            >>> _ = graph.mutate('query q() { delete Port where code = "DEDUI" }', actor="ada")
            >>> [(row["operation"], row["actor"]) for row in graph.entity_history("Port", "DEDUI").to_pylist()]
            [('insert', None), ('delete', 'ada')]
        """
        return self._history(type_name, entity_id, self.snapshot(branch=branch, version=version, commit=commit))

    def _history(self, type_name: str, entity_id: str | None, snapshot: Snapshot) -> Result:
        from omnigraph_sql.graph.histories import history_result

        return history_result(self._store, type_name, entity_id, snapshot)

    def _state(self, name: str) -> Snapshot:
        from omnigraph_sql.sql.states import named_state

        return named_state(self._store.coordinator, name)

    @checked(types=optional(texts), with_schema=flag)
    def export(
        self,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        *,
        version: int | None = None,
        commit: str | None = None,
        with_schema: bool = False,
    ) -> Iterator[str]:
        """The graph as load records.

        Relational tables and views are not exported. A bundle says which ones it leaves out, and so does a warning
        (`OmittedRelationsWarning`).

        Args:
            branch: the branch.
            types: only these types.
            version: an earlier version of the branch.
            commit: a commit id or a tag, in place of a branch.
            with_schema: make it a bundle: before the records comes one with the schema and their number. `og.init` makes a
                graph of a bundle, and `load` refuses it where the schema is another one.

        Returns:
            One JSON text for each record; loading them gives the same graph.

        Raises:
            NotFound: there is no such branch, version, commit or type.

        Example:
            >>> import json
            >>> [json.loads(record)["data"]["name"] for record in graph.export(types=["Port"])]
            ['Duisburg', 'Rotterdam']
            >>> restored = og.init("restored", bundle=graph.export(with_schema=True))
            >>> list(restored.export()) == list(graph.export())
            True
        """
        snapshot = self.snapshot(branch=branch, version=version, commit=commit)
        from omnigraph_sql.history.export import export_records

        wanted = None if types is None else list(types)
        records = export_records(self._store.storage, self._store.catalog, snapshot, wanted)
        if not with_schema:
            return records
        from omnigraph_sql.graph.bundles import bundle

        return bundle(self._store.catalog, snapshot, self.schema, records, wanted)

    @checked(table_key=text, entity_id=text)
    def entity_at(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = MAIN,
        version: int | None = None,
        commit: str | None = None,
    ) -> dict[str, Any] | None:
        """One entity as a load record, now or in the past.

        Args:
            table_key: its type, as `node:TYPE` or `edge:TYPE`.
            entity_id: its id.
            branch: the branch.
            version: an earlier version of the branch.
            commit: a commit id or a tag, in place of a branch.

        Returns:
            The record; None when there is no such entity.

        Raises:
            NotFound: there is no such branch, version, commit or type.

        Example:
            >>> graph.entity_at("node:Port", "NLRTM")["data"]["depth"]
            24.0
        """
        snapshot = self.snapshot(branch=branch, version=version, commit=commit)
        from omnigraph_sql.history.export import entity_at

        return entity_at(self._store.storage, self._store.catalog, snapshot, table_key, entity_id)

    # Upkeep ----------------------------------------------------------------------------------------------------------

    @checked(lance_text=flag)
    def ensure_indices(
        self, branch: str = MAIN, *, lance_text: bool = False, actor: str | None = None
    ) -> list[PendingIndex]:
        """Build every index that the schema declares and a table with rows lacks: one commit, or none.

        Structures for text and vector search are made beside the tables. Answers do not depend on any of it, except that
        `nearest` over a whole type of more than a million nodes asks a vector index for candidates.

        Args:
            branch: the branch.
            lance_text: add Lance's own text indexes, for other readers of the tables.
            actor: who builds them.

        Returns:
            The indexes that cannot be built yet.

        Raises:
            BadRequest: the graph is read-only.

        Example:
            >>> graph.ensure_indices()
            []
        """
        self._require_writable()
        from omnigraph_sql.maintenance.indexes import ensure_indices

        pending = ensure_indices(self._store, branch, self._actor_for(actor), lance_text=lance_text)
        resources = self._queries.engines.resources
        resources.prepare(self._store.catalog, self._store.coordinator.fresh(public_name(branch)))
        return pending

    @checked(keep=optional(whole()), older_than=optional(age), dry_run=flag)
    def cleanup(
        self, keep: int | None = None, older_than: timedelta | str | None = None, *, dry_run: bool = False
    ) -> list[CleanupStat]:
        """Remove old versions of the tables, and what interrupted writers left behind, for good.

        What a branch shows always stays, with every later version, and so does what a tag names. Reading a version that is
        gone raises `VersionReclaimed`.
        Files that nothing refers to go when they are older than OMNIGRAPH_STAGING_GRACE (7 days): younger ones may belong to
        a write in progress.

        Args:
            keep: how many of the newest versions of each table stay.
            older_than: only versions of this age go: a `timedelta`, or a text like `7d`. With both, a version goes only if
                neither keeps it.
            dry_run: remove nothing, and say what would be removed.

        Returns:
            What was removed, table by table.

        Raises:
            BadRequest: neither `keep` nor `older_than` is given or valid, or the graph is read-only.

        Example:
            >>> [stat.versions_removed for stat in graph.cleanup(older_than="30d", dry_run=True)]
            [0, 0]
        """
        policy = read_policy(keep, older_than)
        if not dry_run:
            self._require_writable()
        from omnigraph_sql.maintenance.cleanup import cleanup

        stats = cleanup(self._store, policy, dry_run=dry_run)
        if not dry_run:
            self._queries.clear_caches()
        return stats

    @checked(target=address, ref=optional(text), whole=flag)
    def copy(
        self,
        target: str | os.PathLike[str],
        ref: str | None = None,
        *,
        whole: bool = False,
        actor: str | None = None,
        message: str | None = None,
    ) -> CopyResult:
        """Copy the graph to another place, also from a directory to a bucket or back. Others may go on writing.

        Without `whole`, the copy is a new graph: its `main` shows one state of this one, its first commit says where that
        came from, and nothing of the history is in it. With `whole`, it is this graph at another place, with the same id and
        all branches and commits. Either way it reads no file of the original, and both can be written to.

        Data files are copied as they are. A copy that was interrupted is refused as incomplete; repeat it, and the files
        that are there already are not copied again.

        Args:
            target: a directory that is missing or empty, or `s3://BUCKET/PREFIX`.
            ref: the state to copy: a branch, `BRANCH@VERSION`, a tag or a commit id; `main` unless given.
            whole: copy all branches with their history.
            actor: who is recorded as the author of the first commit; the actor of the handle unless given.
            message: a note for the first commit; without it one that names the original.

        Returns:
            The address and id of the copy, its newest commit, and what was copied.

        Raises:
            AlreadyInitialized: there is a graph, or an incomplete copy of something else.
            BadRequest: the place is not empty, or lies in this graph.
            NotFound: there is no such state.
            VersionReclaimed: a cleanup removed rows of the state.
            Conflict: cleanups removed files faster than they could be copied.

        Example:
            >>> made = graph.copy("elsewhere", message="for the survey")
            >>> og.connect("elsewhere").commits()[0].origin_commit_id == graph.commits()[0].graph_commit_id
            True
            >>> graph.copy("backup", whole=True).branches
            ('main',)
        """
        from omnigraph_sql.maintenance.copies.copies import copy_one, copy_whole

        if whole:
            if ref is not None or message is not None:
                name = "message" if ref is None else "ref"
                raise BadRequest(f"a copy of the whole graph takes no `{name}`", hint=f"leave out `{name}`, or `whole`")
            return copy_whole(self._store, target)
        name = MAIN if ref is None else ref
        return copy_one(self._store, target, name, lambda: self._state(name), self._actor_for(actor), message)

    def recoveries(self) -> dict[str, list[Any]]:
        """What crashed writers left, and what was recovered so far.

        Returns:
            `pending` and `quarantined` sidecars, and the `audit` of recoveries, oldest first.

        Example:
            >>> graph.recoveries()
            {'pending': [], 'quarantined': [], 'audit': []}
        """
        self._store.coordinator.require_same_graph()
        return {
            "pending": self._store.sidecars.pending(),
            "quarantined": self._store.sidecars.quarantined(),
            "audit": sorted(self._store.audit.read(), key=lambda row: (row["created_at"], row["operation_id"])),
        }

    def _require_writable(self) -> None:
        if self._read_only:
            raise BadRequest("the graph is open read-only", hint="connect to it without read_only")

    def _actor_for(self, actor: str | None) -> str | None:
        return self._actor if actor is None else check_actor(actor)


@checked(uri=address, schema=optional(text_or_path), bundle=load_data, force=flag, embedder=_EMBEDDER)
def init(
    uri: str | os.PathLike[str],
    schema: str | Path | None = None,
    *,
    bundle: Any = None,
    actor: str | None = None,
    force: bool = False,
    embedder: str | Embedder | None = None,
) -> Graph:
    """Create a graph: an empty one of a schema, or one of a bundle with its schema and records.

    Args:
        uri: a directory that is missing or empty, or `s3://BUCKET/PREFIX`.
        schema: `.pg` text, or the path of a file with it.
        bundle: in place of the schema, what `export(with_schema=True)` wrote: a path, a text, lines, or a file open for
            reading bytes. Its records become one commit. If they cannot be loaded, there is no graph.
        actor: who writes through this handle.
        force: also create it in a directory that holds other files, or the rest of a creation that failed.
        embedder: what computes the vectors that writes leave out: the name of a provider, or an object of your own; the
            environment decides if it is None.

    Returns:
        The open graph.

    Raises:
        Compile: the schema is not valid.
        AlreadyInitialized: there is a graph.
        BadRequest: an argument or the bundle is not valid, or the bundle is incomplete.

    Example:
        >>> new = og.init("fleet", "node Ship { imo: I64 @key }")
        >>> new.branches()
        ['main']
        >>> twin = og.init("twin", bundle=new.export(with_schema=True))
        >>> twin.schema == new.schema
        True
    """
    if (schema is None) == (bundle is None):
        wrong = "neither `schema` nor `bundle`" if schema is None else "both `schema` and `bundle`"
        raise BadRequest(f"a graph is created of {wrong}", hint="give one of the two: a bundle has its own schema")
    if bundle is not None:
        from omnigraph_sql.graph.bundles import open_bundle

        opened = open_bundle(bundle)
        store = lifecycle.create_graph(uri, opened.schema, actor=check_actor(actor), force=force)
        graph = Graph(store, actor=actor, embedder=embedder)
        with lifecycle.removed_on_failure(store):
            graph.load(opened.lines, mode="append", message="load of a bundle")
        return graph
    assert schema is not None
    source = source_text(schema, ".pg", "the schema")
    store = lifecycle.create_graph(uri, source, actor=check_actor(actor), force=force)
    return Graph(store, actor=actor, embedder=embedder)


@checked(uri=address, read_only=flag, embedder=_EMBEDDER, embed=optional(text))
def connect(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    actor: str | None = None,
    embedder: str | Embedder | None = None,
    embed: str | None = None,
) -> Graph:
    """Open a graph. Unless read-only, it first finishes or undoes what crashed writers left.

    Args:
        uri: the directory of the graph, or `s3://BUCKET/PREFIX`.
        read_only: refuse everything that writes.
        actor: who writes through this handle.
        embedder: what computes the vectors that writes leave out: the name of a provider, or an object of your own; the
            environment decides if it is None.
        embed: `off` leaves vectors as they are given.

    Returns:
        The open graph.

    Raises:
        NotFound: there is no graph.
        UnsupportedFormat: the graph was written by a newer release.
        RecoveryRequired: what a writer left cannot be decided yet.

    Example:
        >>> with og.connect(graph.uri, read_only=True) as reader:
        ...     reader.snapshot().entry("edge:Lane").row_count
        1
    """
    check_actor(actor)
    store = lifecycle.open_graph(uri, read_only=read_only)
    return Graph(store, read_only=read_only, actor=actor, embedder=embedder, embed=embed)
