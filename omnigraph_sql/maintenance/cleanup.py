"""Cleanup: permanently removes old table versions and the leftovers of interrupted writers.

Every check runs before the first deletion. The versions that branches show, and all later ones, are never removed, whatever
the policy says, and neither are those that tags name. A branch never moves back to an earlier version, so versions that were
safe to remove at the start stay so; tags and branches that were made since are looked at again before each table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from omnigraph_sql import failpoints
from omnigraph_sql.errors import Conflict, NotFound, OmnigraphError, RecoveryRequired, VersionReclaimed
from omnigraph_sql.history.merge_base import branch_bases
from omnigraph_sql.maintenance.leftovers import StagedLoadUse, discard_staged, staged_loads, unneeded_files
from omnigraph_sql.maintenance.retention import LiveVersions, RetentionPolicy, staging_grace
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.storage.derived_files import DIRECTORY as DERIVED
from omnigraph_sql.storage.error_translation import START_OVER
from omnigraph_sql.storage.garbage import Removal, Survey, TableFork, forks_of, is_fork_name, made_at, plan_removal, survey
from omnigraph_sql.storage.identity import MANIFEST
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.store.locks.manager import table_lock
from omnigraph_sql.writes.protocol import refuse_schema_apply
from omnigraph_sql.writes.stage import owner_of

_TABLE_DIRECTORIES = ("edges", "nodes", "tables")
_MAX_READS = 20


@dataclass(frozen=True, kw_only=True)
class CleanupStat:
    """Totals of a cleanup for one table. The keys `_staged` and `_derived` stand for staged loads and derived files."""

    table_key: str
    """The table, as `node:TYPE`, `edge:TYPE` or `table:SCHEMA.NAME`."""
    bytes_removed: int = 0
    """Bytes that were freed."""
    versions_removed: int = 0
    """Versions of the table that were removed."""
    branches_removed: int = 0
    """Forks of the table that no branch uses any more."""
    files_removed: int = 0
    """Files that no version refers to. The manifest files of versions are not counted."""
    error: str | None = None
    """Why the cleanup of this table is incomplete; the next cleanup tries again."""

    @property
    def is_empty(self) -> bool:
        """True if nothing was removed and nothing failed.

        Example:
            >>> [stat.is_empty for stat in graph.cleanup(keep=5)]
            [True, True]
        """
        return self == CleanupStat(table_key=self.table_key)

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> [stat.to_dict()["table_key"] for stat in graph.cleanup(keep=5)]
            ['edge:Lane', 'node:Port']
        """
        return asdict(self)


@dataclass(kw_only=True)
class _Run:
    """One cleanup."""

    store: GraphStore
    policy: RetentionPolicy
    dry_run: bool
    live: LiveVersions
    started: datetime
    staged: StagedLoadUse
    before: float
    """Unreferenced files and lineages older than this are removed."""
    births: Mapping[str, int]
    """The times at which the branches of the graph were created."""
    stats: dict[str, CleanupStat] = field(default_factory=dict)
    retained: dict[str, Set[str]] = field(default_factory=dict)
    """The data files that stay, by the path of their table."""

    def add(self, key: str, **removed: Any) -> None:
        stat = self.stats.get(key, CleanupStat(table_key=key))
        new_error = removed.pop("error", None)
        errors = [error for error in (stat.error, new_error) if error is not None]
        sums = {name: getattr(stat, name) + count for name, count in removed.items()}
        self.stats[key] = replace(stat, **sums, error="; ".join(errors) or None)


def cleanup(store: GraphStore, policy: RetentionPolicy, *, dry_run: bool) -> list[CleanupStat]:
    """Remove the versions that the policy lets go, and unreferenced files; with `dry_run`, only report them."""
    refuse_schema_apply(store)
    _refuse_pending(store)
    started = datetime.now(UTC)
    before = (started - staging_grace()).timestamp()
    live = _live_versions(store)
    _require_heads(store, live, dry_run=dry_run)
    run = _Run(
        store=store,
        policy=policy,
        dry_run=dry_run,
        live=live,
        started=started,
        before=before,
        births=store.coordinator.table.created_at(),
        staged=staged_loads(store, before),
    )
    paths = [f"{directory}/{name}" for directory in _TABLE_DIRECTORIES for name in store.objects.list_dir(directory)]
    tables = sorted((live.keys.get(path, path), path) for path in paths if store.storage.table_exists(path))
    for key, path in tables:
        with _isolated(run, key):
            _reclaim_forks(run, key, path)
    for key, path in tables:
        with _isolated(run, key):
            _collect(run, key, path)
    with _isolated(run, MANIFEST):
        _reclaim_lineages(run)
    with _isolated(run, STAGED):
        _discard_staged(run)
    with _isolated(run, DERIVED):
        _discard_derived(run)
    keys = [key for key, _ in tables]
    keys += [key for key in run.stats if key not in keys]
    return [run.stats.get(key, CleanupStat(table_key=key)) for key in keys]


@contextmanager
def _isolated(run: _Run, key: str) -> Iterator[None]:
    """Report an error of one table in its `CleanupStat`, and go on with the next. An interrupted write stops the cleanup."""
    try:
        yield
    except RecoveryRequired:
        raise
    except (OmnigraphError, OSError) as error:
        run.add(key, error=str(error))


# Before anything is removed ------------------------------------------------------------------------------------------


def _refuse_pending(store: GraphStore) -> None:
    """Raise if a write was interrupted: it may need versions and forks that look unused. Wait for one whose owner lives."""
    for operation_id in store.sidecars.pending():
        with store.locks.take_over(operation_id) as is_taken_over:
            if is_taken_over and operation_id in store.sidecars.pending():
                text = f"operation {operation_id} was interrupted and is not recovered yet"
                hint = "reopen the graph read-write first"
                raise RecoveryRequired(text, reason="pending", operation_id=operation_id, hint=hint)


def _live_versions(store: GraphStore) -> LiveVersions:
    """Read the snapshots of all branches. A branch that cannot be read may need any version, so the error is raised.

    A branch created while others are read may show an earlier state of its base: then all branches are read again. A branch
    created after that shows nothing older than its base shows here.
    """
    coordinator = store.coordinator
    for _ in range(_MAX_READS):
        snapshots = []
        for branch in coordinator.branches():
            failpoints.hit("cleanup.resolve_branch_snapshot")
            snapshots.append(coordinator.fresh(branch))
        incarnations = {snapshot.branch: snapshot.incarnation for snapshot in snapshots}
        if {branch: coordinator.incarnation(branch) for branch in coordinator.branches()} == incarnations:
            main = next(snapshot for snapshot in snapshots if snapshot.branch == MAIN)
            return LiveVersions(
                tuple(snapshots),
                {tag: coordinator.at_tag(tag) for tag in main.tags.values()},
                tuple(_merge_bases(store, snapshots)),
            )
    text = "branches are created and deleted too fast to read what they show: nothing was removed"
    raise Conflict(text, reason="contention", hint="try again")


def _merge_bases(store: GraphStore, snapshots: Sequence[Snapshot]) -> Iterator[Snapshot]:
    """The states that merges between branches start from, as far as they can be read."""
    commits = store.coordinator.journal.commits()
    heads = {snapshot.commit_id for snapshot in snapshots}
    for commit_id in sorted(branch_bases(commits, heads) - heads):
        try:
            yield store.coordinator.at_commit(commit_id)
        except (NotFound, VersionReclaimed):
            continue  # its branch is gone


def _require_heads(store: GraphStore, live: LiveVersions, *, dry_run: bool) -> None:
    """Raise unless every table of the main branch opens, and the branch shows its newest version."""
    main = next(snapshot for snapshot in live.snapshots if snapshot.branch == MAIN)
    for key, entry in main.entries.items():
        if _head(store, entry) == entry.version:
            continue
        # A writer may be between its commit and its publish; it holds the lock until it has published.
        with nullcontext() if dry_run else store.locks.hold([table_lock(key, MAIN)], shared=["__schema__"]):
            fresh = store.coordinator.fresh(MAIN).entries.get(key)
            head = None if fresh is None else _head(store, fresh)
            if fresh is not None and head != fresh.version:
                text = f"{key} has version {head}, but the graph shows {fresh.version}: nothing was removed"
                raise Conflict(text, reason="drift", hint=f"reopen the graph read-write; if it stays, {START_OVER}")


def _head(store: GraphStore, entry: Entry) -> int:
    return store.storage.newest_version(store.storage.open(entry))


# Table branches ------------------------------------------------------------------------------------------------------


def _reclaim_forks(run: _Run, key: str, path: str) -> None:
    """Remove the table branches of deleted graph branches."""
    store = run.store
    forks, pins = forks_of(store.storage, path), run.live.pins(path)
    pinned = pins.keys() | run.live.tag_pins(path).keys()
    orphans = [name for name in forks if name not in pinned and _is_orphan(run, name, forks[name], run.births)]
    # A table branch can be removed only after the branches that were forked from it.
    for name in sorted(orphans, key=lambda name: _depth(forks, name), reverse=True):
        failpoints.hit("cleanup.reconcile_fork")
        births = store.coordinator.table.created_at()
        if (path, name) in _claims(store) or not _is_orphan(run, name, forks[name], births):
            continue
        if any(tag.branch == owner_of(name) for tag in _new_tags(run)):
            continue  # made while the branch was deleted
        if not run.dry_run:
            store.storage.force_delete_branch(path, name)
        run.add(key, branches_removed=1, bytes_removed=forks[name].size)


def _reclaim_lineages(run: _Run) -> None:
    """Remove the lineages of the manifest without a branch: of deleted branches, and of interrupted creations."""
    table = run.store.coordinator.table
    tagged = {tag.lineage for tag in run.store.coordinator.tags().values()}
    for lineage, created_at in table.unused_lineages().items():
        if created_at >= run.before or lineage in tagged:
            continue  # the record of its branch may be about to be written
        if run.dry_run or table.delete_lineage(lineage):
            run.add(MANIFEST, branches_removed=1)


def _depth(forks: Mapping[str, TableFork], name: str | None) -> int:
    """The number of ancestors of a table branch."""
    depth = 0
    while name is not None and name in forks and depth <= len(forks):
        parent = forks[name].parent
        name, depth = None if parent is None else parent[0], depth + 1
    return depth


def _is_orphan(run: _Run, name: str, fork: TableFork, births: Mapping[str, int]) -> bool:
    """True if the graph branch that a table branch was made for was deleted, or a later one has its name.

    A table branch without a reference may be about to get one. Branches that no write of ours made are not touched.
    """
    if not is_fork_name(name):
        return False
    owner = owner_of(name) or MAIN
    if owner != MAIN and owner not in births:
        return True
    if fork.parent is None:
        return fork.created_at < run.before
    return owner in births and fork.created_at < births[owner]


def _claims(store: GraphStore) -> set[tuple[str, str | None]]:
    """Return the table branches that the sidecars of running writes name, as paths and branch names."""
    sidecars = (store.sidecars.read(operation_id) for operation_id in store.sidecars.pending())
    return {
        (table.table_path, table.table_branch) for sidecar in sidecars if sidecar is not None for table in sidecar.tables
    }


# Versions and files --------------------------------------------------------------------------------------------------


def _collect(run: _Run, key: str, path: str) -> None:
    """Remove the old versions of a table, and the files that nothing refers to."""
    store = run.store
    with _writer_locks(run, key, path):
        failpoints.hit("cleanup.table_gc")
        table = survey(store.storage, path)
        outdated = {branch: _outdated(run, table, branch) for branch in table.lineages}
        removal = plan_removal(store.storage, table, outdated, before=run.before, protected=run.staged.protected)
        run.retained[path] = removal.kept
        if not run.dry_run:
            store.storage_inline.cleanup_versions(removal, lambda: _require_unneeded(run, removal))
    run.add(key, bytes_removed=removal.size, versions_removed=len(removal.versions), files_removed=len(removal.files))


def _require_unneeded(run: _Run, removal: Removal) -> None:
    """Raise if a tag or a branch that was made since the cleanup began needs a version that is to go.

    It is asked after the removal was written down, where whoever makes a tag or a branch looks in turn.
    """
    coordinator = run.store.coordinator
    known = {snapshot.branch: snapshot.incarnation for snapshot in run.live.snapshots}
    states = {f"the tag `{tag.name}`": coordinator.at_tag(tag) for tag in _new_tags(run)}
    for branch in coordinator.branches():
        if coordinator.incarnation(branch) != known.get(branch):
            states[f"the branch `{branch}`"] = coordinator.fresh(branch)
    for what, state in states.items():
        for entry in state.entries.values():
            if entry.path == removal.path and (entry.branch, entry.version) in removal.versions:
                text = f"{what} needs version {entry.version} of {entry.table_key} now: nothing of the table was removed"
                raise Conflict(text, reason="tagged", hint="run the cleanup again")


def _new_tags(run: _Run) -> list[Tag]:
    """Return the tags that were made since the cleanup began."""
    return [tag for tag in run.store.coordinator.tags().values() if tag not in run.live.tagged]


@contextmanager
def _writer_locks(run: _Run, key: str, path: str) -> Iterator[None]:
    """Hold the locks of a table on every branch that owns a fork of it. Other branches fork it before they write."""
    if run.dry_run:
        yield
        return
    locks = [table_lock(key, owner_of(branch) or MAIN) for branch in run.live.pins(path)]
    with run.store.locks.hold(locks, shared=["__schema__"]):
        refuse_schema_apply(run.store)
        _refuse_pending(run.store)
        yield


def _outdated(run: _Run, table: Survey, branch: str | None) -> set[int]:
    """Return the versions of a table branch to remove: older than every version in use, and not retained by the policy.

    A table branch that no graph branch shows, or showed last before a table was dropped, keeps its versions: a write may
    have just created it. A tag keeps its version, but not later ones.
    """
    versions, pins = table.lineages[branch].versions.keys(), run.live.pins(table.path).get(branch)
    if pins is None or not versions:
        return set()
    missing = pins - versions
    if missing:
        text = f"version {min(missing)} of {table.path} is shown by a branch, and is gone: nothing was removed"
        raise Conflict(text, reason="damaged", hint="restore the directory of the table from a copy of the graph")
    tagged = run.live.tag_pins(table.path).get(branch, {})
    lost = sorted(tagged.keys() - versions)
    if lost:
        text = f"version {lost[0]} of {table.path} is named by the tag `{tagged[lost[0]]}`, and is gone: nothing was removed"
        hint = "restore the directory of the table from a copy of the graph, or delete the tag"
        raise Conflict(text, reason="damaged", hint=hint)
    bases = run.live.merge_bases(table.path).get(branch, set()) & versions
    oldest = min({*pins, *bases, *table.pinned.get(branch, ()), max(versions)})
    outdated = run.policy.outdated(set(versions), run.started, lambda: made_at(run.store.storage, table.path, branch))
    return {version for version in outdated if version < oldest and version not in tagged}


# Staged loads and derived files --------------------------------------------------------------------------------------


def _discard_staged(run: _Run) -> None:
    if run.staged.outdated:
        if not run.dry_run:
            discard_staged(run.store, run.staged)
        run.add(STAGED, bytes_removed=run.staged.size, files_removed=run.staged.files)


def _discard_derived(run: _Run) -> None:
    unneeded = unneeded_files(run.store, run.live, run.retained)
    if unneeded:
        if not run.dry_run:
            run.store.storage.derived.discard(path for path, _ in unneeded)
        run.add(DERIVED, bytes_removed=sum(size for _, size in unneeded), files_removed=len(unneeded))
