"""The public face of a graph: everything a user does with it from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.compiling import Compiler
from omnigraph_sql.embeddings import Embedder, Embeddings
from omnigraph_sql.engines.limits import Limits, limits
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.history.commits import history
from omnigraph_sql.history.diff import ChangeSet, Filter, diff
from omnigraph_sql.history.export import entity_at, export_records
from omnigraph_sql.maintenance.door import MaintenanceDoor
from omnigraph_sql.manifest.coordinator import MAIN, public_name
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.sql_door import Preview, SqlDoor
from omnigraph_sql.writes import branching, lifecycle
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.load import LoadInput, LoadMode, LoadResult, check_mode
from omnigraph_sql.writes.load import load as run_load
from omnigraph_sql.writes.mutation import MutationResult, bind_or_raise
from omnigraph_sql.writes.mutation import mutate as run_mutation
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.reading import PlacedTables, read_records, read_tables
from omnigraph_sql.writes.reading.model import Counted
from omnigraph_sql.writes.recovery import sweep
from omnigraph_sql.writes.rejects import RejectLimit, Rejects, RejectTarget
from omnigraph_sql.writes.relational import RelationalWriter
from omnigraph_sql.writes.staged import StagedLoad, Step, publish_staged, stage_load
from omnigraph_sql.writes.unpublished import abandoned, discard, record, staged_snapshot, take_over

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph_sql.engines.choosing import Engines
    from omnigraph_sql.engines.orders import Order

_SYSTEM_PREFIX = "omnigraph:"


class Graph(SqlDoor, MaintenanceDoor):
    """An open graph. Made by `init` and `connect`; close it, or use it as a context manager."""

    def __init__(
        self,
        engine: Engine,
        *,
        read_only: bool = False,
        actor: str | None = None,
        embedder: str | Embedder | None = None,
        embed: str | None = None,
    ) -> None:
        self._engine = engine
        embeddings = Embeddings(embedder)
        self._embeddings = embeddings if embeddings.is_on(embed) else None
        self._query_embeddings = embeddings
        self._readers: Engines | None = None
        self._compiler = Compiler(engine)
        super().__init__(engine, self._engines, self._compiler)
        self._read_only = read_only
        self._actor = _checked_actor(actor)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the graph. What was published stays; nothing is pending."""
        self._close_sessions()

    def refresh(self) -> None:
        """Read the schema again and finish what crashed writers left, as far as it can be finished."""
        self._engine.catalog = lifecycle.read_contract(self._engine.objects)
        if not self._read_only:
            sweep(self._engine, full=False)

    @property
    def uri(self) -> str:
        """The address of the graph: a directory, or `s3://BUCKET/PREFIX`."""
        return str(self._engine.root)

    @property
    def schema(self) -> str:
        """The source of the accepted schema."""
        return self._engine.objects.read_text(lifecycle.SOURCE)

    @property
    def catalog(self) -> Catalog:
        """The accepted schema, compiled."""
        return self._engine.catalog

    # Reading

    def query(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
        engine: str = "datafusion",
    ) -> Result:
        """Run a read query of a `.gq` text or file on a branch, on an earlier version of it, or on a commit (`snapshot`).

        Returns when the first rows are there; a result of a few thousand rows is complete by then. The rest comes while the
        result is read. `timeout` bounds the seconds of work, `memory_limit` the bytes of rows that are worked on at a time.
        `engine` is datafusion, duckdb or spark; the rows are the same.
        """
        reader = self._engines().get(engine)
        order = self._order(source, name, params, branch, snapshot, version, limits(timeout, memory_limit))
        return Result(
            order.schema,
            lambda: reader.start(order),
            graph_commit_id=order.snapshot.commit_id,
            query_name=order.query.name,
            target=snapshot or (branch if version is None else f"{branch}@{version}"),
        )

    def result_schema(
        self, source: str | Path, name: str | None = None, params: Mapping[str, Any] | None = None
    ) -> pa.Schema:
        """Names and types of the columns that a read query gives; it is not run."""
        return self._order(source, name, params, MAIN, None, None, limits(None, None)).schema

    def explain(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        analyze: bool = False,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
        engine: str = "datafusion",
    ) -> Explanation:
        """How a read query runs: steps, SQL and what the engine makes of it. With `analyze` it is run, too."""
        reader = self._engines().get(engine)
        order = self._order(source, name, params, branch, snapshot, version, limits(timeout, memory_limit))
        return reader.analyze(order) if analyze else reader.explain(order)

    def _order(
        self,
        source: str | Path,
        name: str | None,
        params: Mapping[str, Any] | None,
        branch: str,
        commit: str | None,
        version: int | None,
        allowed: Limits,
    ) -> Order:
        from omnigraph_sql.engines.orders import Order

        query = self._compiler.query(source, name)
        if not isinstance(query.plan, ir.ReadPlan):
            raise BadRequest(f"`{query.name}` is a mutation, not a read", hint="run it with mutate")
        bound = bind_or_raise(query, params)
        snapshot = self.snapshot(branch=branch, version=version, commit=commit)
        return Order(query, self._engine.catalog, snapshot, bound, allowed)

    def _engines(self) -> Engines:
        if self._readers is None:
            from omnigraph_sql.engines.choosing import Engines
            from omnigraph_sql.engines.resources import Resources

            self._readers = Engines(Resources(self._engine.storage, self._query_embeddings, saves=not self._read_only))
        return self._readers

    # Writing

    def mutate(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Run a mutation of a `.gq` text or file; `if_commit` lets it run only on that head commit."""
        self._require_writable()
        query = self._compiler.query(source, name)
        return run_mutation(
            self._engine,
            query,
            params,
            branch=branch,
            actor=self._actor_for(actor),
            if_commit=if_commit,
            embeddings=self._embeddings,
        )

    def load(
        self,
        data: Any,
        *,
        mode: str,
        branch: str = MAIN,
        base: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: RejectTarget | None = None,
        max_rejects: RejectLimit | None = None,
    ) -> LoadResult:
        """Load records: a JSONL file, text or lines, or a mapping from type to a table or file.

        `mode` is append, merge or overwrite. With `base`, a missing branch is created from it first.

        The first faulty record fails the load. With `rejects` (a file, or a function called with each) all of them are
        reported, and the load fails at the end; `max_rejects` allows that many to be left out, or a share of them (`0.5%`).
        """
        self._require_writable()
        checked = check_mode(mode)
        provenance = Provenance("Load", self._actor_for(actor), message, idempotency_key)
        with self._reported(rejects, max_rejects) as reported:
            return self._load(data, checked, branch, base, provenance, reported)

    def _load(
        self, data: Any, mode: LoadMode, branch: str, base: str | None, provenance: Provenance, rejects: Rejects | None
    ) -> LoadResult:
        created = base is not None and branch not in self.branches()
        if created and base is not None:
            self.create_branch(branch, base)
        try:
            source = self._input(data, rejects)
            result = run_load(self._engine, source, mode=mode, branch=branch, provenance=provenance)
        except Exception:
            if created:
                self.delete_branch(branch)
            raise
        return replace(result, base_branch=base, branch_created=created)

    def stage(
        self,
        data: Any,
        *,
        mode: str,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: RejectTarget | Rejects | None = None,
        max_rejects: RejectLimit | None = None,
        on_step: Callable[[Step], None] = lambda _: None,
    ) -> StagedLoad:
        """Validate a load and write its files without making anything visible; `publish` does that later.

        The result can be sent to another process: `StagedLoad.from_json(staged.to_json())`. `on_step` is told what begins:
        read, validate, stage.
        """
        self._require_writable()
        check_mode(mode)
        provenance = Provenance("Load", self._actor_for(actor), message, idempotency_key)
        with self._reported(rejects, max_rejects) as reported:
            given = self._input(data, reported)
            staged = stage_load(self._engine, given, mode=mode, branch=branch, provenance=provenance, on_step=on_step)
        if idempotency_key is not None:
            record(self._engine, staged)
        return staged

    @contextmanager
    def preview(self, staged: StagedLoad) -> Iterator[Preview]:
        """A staged load as SQL will see it once it is published; nothing is visible to others, and nothing of it stays."""
        self._require_writable()
        with staged_snapshot(self._engine, staged) as snapshot, closing(self._previewed(snapshot)) as found:
            yield found

    def discard(self, staged: StagedLoad) -> None:
        """Remove the files of a staged load that nobody is to publish any more."""
        self._require_writable()
        discard(self._engine, staged)

    def discard_abandoned(self, idempotency_key: str) -> int:
        """Remove what processes that have ended left of loads of this key, staged and not published; returns how many."""
        self._require_writable()
        found = abandoned(self._engine, idempotency_key)
        for each in found:
            discard(self._engine, each.load)
        return len(found)

    def note_staged(self, staged: StagedLoad, notes: Any) -> None:
        """Keep something with a staged load that has an idempotency key, for whoever takes it over; it must suit JSON."""
        self._require_writable()
        record(self._engine, staged, notes)

    def take_over(self, idempotency_key: str, wanted: Callable[[Any], bool]) -> tuple[StagedLoad, Any] | None:
        """A load of this key that a process that has ended left, staged and noted, if its notes are wanted.

        It is this process's to publish or discard then. It must stand on the present state of its branch.
        """
        self._require_writable()
        for each in abandoned(self._engine, idempotency_key):
            if each.notes is not None and wanted(each.notes) and take_over(self._engine, each):
                return each.load, each.notes
        return None

    def published(self, idempotency_key: str, branch: str = MAIN) -> Commit | None:
        """The commit of a branch that was published with an idempotency key, if there is one."""
        head = self.snapshot(branch=branch).head
        return None if head is None else self._engine.coordinator.journal.find_key(idempotency_key, head.graph_commit_id)

    @contextmanager
    def _reported(self, rejects: RejectTarget | Rejects | None, limit: RejectLimit | None) -> Iterator[Rejects | None]:
        """Whoever notes rejected records, if somebody wants them; they are delivered at the end, whatever it is."""
        if rejects is None and limit is None:
            yield None
            return
        found = rejects if isinstance(rejects, Rejects) else Rejects(rejects, limit)
        try:
            yield found
        finally:
            found.deliver()

    def publish(
        self,
        staged: StagedLoad,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Commit | None:
        """Publish a staged load. None when it changes nothing."""
        self._require_writable()
        given = staged.provenance
        provenance = Provenance(
            "Load",
            self._actor_for(actor) if actor is not None else given.actor,
            message if message is not None else given.message,
            idempotency_key if idempotency_key is not None else given.idempotency_key,
        )
        outcome = publish_staged(self._engine, staged, provenance)
        if outcome.replayed:
            discard(self._engine, staged)  # another load of the same key came first
        return outcome.commit

    def ingest(self, data: Any, *, branch: str, mode: str, base: str = MAIN, actor: str | None = None) -> LoadResult:
        """A load that creates its branch from `base` when it is missing."""
        return self.load(data, mode=mode, branch=branch, base=base, actor=actor)

    def tables(self, branch: str = MAIN, *, actor: str | None = None, message: str | None = None) -> RelationalWriter:
        """Writes relational tables, views and schemas of a branch; every call is one commit."""
        self._require_writable()
        return RelationalWriter(self._engine, branch, Provenance("Load", self._actor_for(actor), message))

    # Branches and history

    def branches(self) -> list[str]:
        """Branch names, sorted."""
        return self._engine.coordinator.branches()

    def create_branch(self, name: str, base: str = MAIN) -> str:
        """A new branch that starts where `base` is now."""
        self._require_writable()
        return branching.create_branch(self._engine, name, base, self._actor)

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        self._require_writable()
        branching.delete_branch(self._engine, name)

    def snapshot(self, *, branch: str = MAIN, version: int | None = None, commit: str | None = None) -> Snapshot:
        """What a branch shows now, or showed at a version, or at a commit."""
        coordinator = self._engine.coordinator
        if commit is not None:
            return coordinator.at_commit(commit)
        name = public_name(branch)
        return coordinator.fresh(name) if version is None else coordinator.at_version(name, version)

    def commits(self, branch: str = MAIN) -> list[Commit]:
        """The history of a branch, newest first."""
        return history(self._engine.coordinator, self.snapshot(branch=branch))

    def commit(self, commit_id: str) -> Commit:
        """One commit by its id."""
        found = self._engine.coordinator.journal.find(commit_id)
        if found is None:
            hint = "list the commits of a branch"
            raise NotFound(f"there is no commit `{commit_id}`", what="commit", name=commit_id, hint=hint)
        return found

    def diff(
        self,
        start: str,
        end: str,
        *,
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
    ) -> ChangeSet:
        """What was inserted, updated and deleted between two states, each a branch, `BRANCH@VERSION` or a commit id."""
        wanted = Filter(kinds, types, ops)
        return diff(self._engine.storage, self._engine.catalog, self._state(start), self._state(end), wanted)

    def _state(self, name: str) -> Snapshot:
        from omnigraph_sql.engines.sql.names import parse_ref

        if "@" not in name and name not in self.branches() and self._engine.coordinator.journal.find(name) is not None:
            return self.snapshot(commit=name)
        ref = parse_ref(name)
        return self.snapshot(branch=ref.branch, version=ref.version, commit=ref.commit)

    def export(
        self,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        *,
        version: int | None = None,
        commit: str | None = None,
    ) -> Iterator[str]:
        """The graph as load records, one JSON text each."""
        snapshot = self.snapshot(branch=branch, version=version, commit=commit)
        return export_records(self._engine.storage, self._engine.catalog, snapshot, types)

    def entity_at(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = MAIN,
        version: int | None = None,
        commit: str | None = None,
    ) -> dict[str, Any] | None:
        """One entity (`node:T` or `edge:E`, and its id) as a load record, now or in the past; None when there is none."""
        snapshot = self.snapshot(branch=branch, version=version, commit=commit)
        return entity_at(self._engine.storage, self._engine.catalog, snapshot, table_key, entity_id)

    def recoveries(self) -> dict[str, list[Any]]:
        """Pending and quarantined sidecars, and what was recovered so far."""
        return {
            "pending": self._engine.sidecars.pending(),
            "quarantined": self._engine.sidecars.quarantined(),
            "audit": sorted(self._engine.audit.read(), key=lambda row: (row["created_at"], row["operation_id"])),
        }

    def _require_writable(self) -> None:
        if self._read_only:
            raise BadRequest("the graph is open read-only", hint="connect to it without read_only")

    def _actor_for(self, actor: str | None) -> str | None:
        return self._actor if actor is None else _checked_actor(actor)

    def _input(self, data: Any, rejects: Rejects | None = None) -> LoadInput:
        catalog, on_reject = self._engine.catalog, None if rejects is None else rejects.add_unread
        computes = self._embeddings is not None
        if isinstance(data, PlacedTables):
            placed = read_tables(data.tables, catalog, on_reject=on_reject, computes=computes, places=data.places)
            return LoadInput(placed, data.places, rejects, self._embeddings)
        if isinstance(data, Mapping):
            tables = read_tables(data, catalog, on_reject=on_reject, computes=computes)
            return LoadInput(tables, Counted("row"), rejects, self._embeddings)
        records = read_records(data, catalog, on_reject=on_reject, computes=computes)
        return LoadInput(records, Counted("line"), rejects, self._embeddings)


def _checked_actor(actor: str | None) -> str | None:
    if actor is not None and actor.startswith(_SYSTEM_PREFIX):
        raise BadRequest(
            f"the actor `{actor}` is reserved", hint=f"names that begin with `{_SYSTEM_PREFIX}` are the system's"
        )
    return actor


def init(
    uri: str | os.PathLike[str],
    schema: str | Path,
    *,
    actor: str | None = None,
    force: bool = False,
    embedder: str | Embedder | None = None,
) -> Graph:
    """Create a graph in a directory or under `s3://BUCKET/PREFIX`. `schema` is `.pg` text or the path of a file with it."""
    text = schema.read_text("utf-8") if isinstance(schema, Path) else schema
    engine = lifecycle.create_graph(uri, text, actor=_checked_actor(actor), force=force)
    return Graph(engine, actor=actor, embedder=embedder)


def connect(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    actor: str | None = None,
    embedder: str | Embedder | None = None,
    embed: str | None = None,
) -> Graph:
    """Open a graph. Read-write, it first finishes or undoes what a crashed writer left.

    `embedder` computes the vectors that writes leave out: the name of a provider, or an object of your own; the environment
    decides if it is None. `embed="off"` leaves vectors as they are given.
    """
    engine = lifecycle.open_graph(uri, read_only=read_only)
    return Graph(engine, read_only=read_only, actor=actor, embedder=embedder, embed=embed)
