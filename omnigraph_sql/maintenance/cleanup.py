"""Cleanup: old versions of tables, and what interrupted writers left, are removed for good.

Everything that could speak against it is looked at before the first deletion. What a branch shows, and every later version,
stays whatever the policy says; pins of a branch never go back, so what was looked at at the beginning is safe to the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from omnigraph_sql import failpoints
from omnigraph_sql.errors import Conflict, OmnigraphError, RecoveryRequired
from omnigraph_sql.maintenance.leftovers import StagedLoads, discard_staged, staged_loads, unneeded_files
from omnigraph_sql.maintenance.retention import Live, Policy, staging_grace
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.collecting import Fork, Survey, forks_of, is_fork_name, made_at, plan_removal, survey
from omnigraph_sql.storage.derived import DIRECTORY as DERIVED
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.locks import table_lock
from omnigraph_sql.writes.protocol import refuse_schema_apply
from omnigraph_sql.writes.staged import DIRECTORY as STAGED
from omnigraph_sql.writes.staging import open_entry, owner_of

_PLACES = ("edges", "nodes", "tables")
_LOOKS = 20


@dataclass(frozen=True)
class CleanupStat:
    """What was removed of a table. `_staged` and `_derived` stand for what is no table."""

    table_key: str
    bytes_removed: int = 0
    versions_removed: int = 0
    branches_removed: int = 0
    files_removed: int = 0
    """Files that no version names any more; those that are versions are not counted."""
    error: str | None = None
    """Why not everything was removed that could be; the next cleanup tries again."""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return self == CleanupStat(self.table_key)

    def to_dict(self) -> dict[str, Any]:
        """The members as JSON values."""
        return asdict(self)


@dataclass
class _Run:
    """One cleanup."""

    engine: Engine
    policy: Policy
    dry_run: bool
    live: Live
    started: datetime
    staged: StagedLoads
    before: float
    """What nothing refers to and is older than this goes."""
    births: Mapping[str, int]
    """When the branches of the graph were created."""
    stats: dict[str, CleanupStat] = field(default_factory=dict)
    kept: dict[str, Set[str]] = field(default_factory=dict)

    def add(self, key: str, **removed: Any) -> None:
        known = self.stats.get(key, CleanupStat(key))
        failed = removed.pop("error", None)
        errors = [each for each in (known.error, failed) if each is not None]
        sums = {name: getattr(known, name) + count for name, count in removed.items()}
        self.stats[key] = replace(known, **sums, error="; ".join(errors) or None)


def cleanup(engine: Engine, policy: Policy, *, dry_run: bool) -> list[CleanupStat]:
    """Remove what the policy does not keep; with `dry_run`, only say what would go."""
    refuse_schema_apply(engine)
    _refuse_pending(engine)
    started = datetime.now(UTC)
    before = (started - staging_grace()).timestamp()
    live = _live(engine)
    _require_heads(engine, live, dry_run=dry_run)
    births = engine.coordinator.table.created_at()
    run = _Run(engine, policy, dry_run, live, started, staged_loads(engine, before), before, births)
    paths = [f"{place}/{name}" for place in _PLACES for name in engine.objects.list_dir(place)]
    tables = sorted((live.keys.get(path, path), path) for path in paths if engine.storage.table_exists(path))
    for key, path in tables:
        with _isolated(run, key):
            _reclaim_forks(run, key, path)
    for key, path in tables:
        with _isolated(run, key):
            _collect(run, key, path)
    with _isolated(run, STAGED):
        _discard_staged(run)
    with _isolated(run, DERIVED):
        _discard_derived(run)
    keys = [key for key, _ in tables]
    return [run.stats.get(key, CleanupStat(key)) for key in [*keys, *(each for each in run.stats if each not in keys)]]


@contextmanager
def _isolated(run: _Run, key: str) -> Iterator[None]:
    """One table that fails is reported, and keeps nobody from the others. An interrupted write does."""
    try:
        yield
    except RecoveryRequired:
        raise
    except (OmnigraphError, OSError) as error:
        run.add(key, error=str(error))


# Before anything is removed ------------------------------------------------------------------------------------------


def _refuse_pending(engine: Engine) -> None:
    """An interrupted write may need versions and forks that look left over. One whose owner lives is waited for instead."""
    for operation_id in engine.sidecars.pending():
        with engine.locks.take_over(operation_id) as taken:
            if taken and operation_id in engine.sidecars.pending():
                text = f"operation {operation_id} was interrupted and is not recovered yet"
                hint = "reopen the graph read-write first"
                raise RecoveryRequired(text, reason="pending", operation_id=operation_id, hint=hint)


def _live(engine: Engine) -> Live:
    """What every branch shows. A branch that cannot be read may need anything, so nothing may go.

    A branch that was made while others were read may show what its base showed before: all are read again. One that is made
    later shows nothing older than what its base shows here.
    """
    coordinator = engine.coordinator
    for _ in range(_LOOKS):
        found = []
        for branch in coordinator.branches():
            failpoints.hit("cleanup.resolve_branch_snapshot")
            found.append(coordinator.fresh(branch))
        known = {each.branch: each.incarnation for each in found}
        if {branch: coordinator.incarnation(branch) for branch in coordinator.branches()} == known:
            return Live(tuple(found))
    text = "branches come and go too fast to tell what they show: nothing was removed"
    raise Conflict(text, reason="contention", hint="try again")


def _require_heads(engine: Engine, live: Live, *, dry_run: bool) -> None:
    """Every table of the main branch opens, and its newest version is the one that is shown."""
    main = next(each for each in live.snapshots if each.branch == MAIN)
    for key, entry in main.entries.items():
        if _head(engine, entry) == entry.version:
            continue
        # A writer may be between its commit and its publish; it has the lock until it is done.
        with nullcontext() if dry_run else engine.locks.hold([table_lock(key, MAIN)], shared=["__schema__"]):
            fresh = engine.coordinator.fresh(MAIN).entries.get(key)
            head = None if fresh is None else _head(engine, fresh)
            if fresh is not None and head != fresh.version:
                text = f"{key} has version {head}, but the graph shows {fresh.version}: nothing was removed"
                raise Conflict(text, reason="drift", hint="reopen the graph read-write; if it stays, run repair")


def _head(engine: Engine, entry: Entry) -> int:
    return engine.storage.newest_version(open_entry(engine, entry))


# Table branches ------------------------------------------------------------------------------------------------------


def _reclaim_forks(run: _Run, key: str, path: str) -> None:
    """Remove the table branches of graph branches that are gone."""
    engine = run.engine
    forks, shown = forks_of(engine.storage, path), run.live.pins(path)
    found = [name for name in forks if name not in shown and _is_orphan(run, name, forks[name], run.births)]
    # A branch that another one was forked from can go only after it.
    for name in sorted(found, key=lambda name: _depth(forks, name), reverse=True):
        failpoints.hit("cleanup.reconcile_fork")
        births = engine.coordinator.table.created_at()
        if (path, name) in _claims(engine) or not _is_orphan(run, name, forks[name], births):
            continue
        if not run.dry_run:
            engine.storage.force_delete_branch(path, name)
        run.add(key, branches_removed=1, bytes_removed=forks[name].size)


def _depth(forks: Mapping[str, Fork], name: str | None) -> int:
    """How many branches a table branch was made from, one after the other."""
    depth = 0
    while name is not None and name in forks and depth <= len(forks):
        parent = forks[name].parent
        name, depth = None if parent is None else parent[0], depth + 1
    return depth


def _is_orphan(run: _Run, name: str, fork: Fork, births: Mapping[str, int]) -> bool:
    """Whether the graph branch that a table branch was made for is gone, or is a later one of its name.

    Files of a branch without a reference may be about to get one; branches that others than writes of ours made are theirs.
    """
    if not is_fork_name(name):
        return False
    owner = owner_of(name) or MAIN
    if owner != MAIN and owner not in births:
        return True
    if fork.parent is None:
        return fork.created_at < run.before
    return owner in births and fork.created_at < births[owner]


def _claims(engine: Engine) -> set[tuple[str, str | None]]:
    """The table branches that writes under way have announced."""
    found = (engine.sidecars.read(each) for each in engine.sidecars.pending())
    return {(table.table_path, table.table_branch) for each in found if each is not None for table in each.tables}


# Versions and files --------------------------------------------------------------------------------------------------


def _collect(run: _Run, key: str, path: str) -> None:
    """Remove the old versions of a table, and what nothing refers to."""
    engine = run.engine
    with _gates(run, key, path):
        failpoints.hit("cleanup.table_gc")
        found = survey(engine.storage, path)
        going = {branch: _outdated(run, found, branch) for branch in found.lineages}
        removal = plan_removal(engine.storage, found, going, before=run.before, protected=run.staged.protected)
        run.kept[path] = removal.kept
        if not run.dry_run:
            engine.storage_inline.cleanup_versions(removal)
    run.add(key, bytes_removed=removal.size, versions_removed=len(removal.versions), files_removed=len(removal.files))


@contextmanager
def _gates(run: _Run, key: str, path: str) -> Iterator[None]:
    """Hold up the writers of a table, on every branch that has made it its own: others fork it before they write."""
    if run.dry_run:
        yield
        return
    locks = [table_lock(key, owner_of(branch) or MAIN) for branch in run.live.pins(path)]
    with run.engine.locks.hold(locks, shared=["__schema__"]):
        refuse_schema_apply(run.engine)
        _refuse_pending(run.engine)
        yield


def _outdated(run: _Run, found: Survey, branch: str | None) -> set[int]:
    """The versions of a table branch that go: older than all that is needed of it, and not kept by the policy.

    A table branch that no graph branch shows, or has shown last before a table was dropped, is left as it is: it may be one
    that a write has just made.
    """
    versions, pins = found.lineages[branch].versions.keys(), run.live.pins(found.path).get(branch)
    if pins is None or not versions:
        return set()
    missing = pins - versions
    if missing:
        text = f"version {min(missing)} of {found.path} is shown by a branch, and is gone: nothing was removed"
        raise Conflict(text, reason="damaged", hint="restore the directory of the table from a copy of the graph")
    oldest = min({*pins, *found.pinned.get(branch, ()), max(versions)})
    older = run.policy.outdated(set(versions), run.started, lambda: made_at(run.engine.storage, found.path, branch))
    return {version for version in older if version < oldest}


# What is no table ----------------------------------------------------------------------------------------------------


def _discard_staged(run: _Run) -> None:
    if run.staged.outdated:
        if not run.dry_run:
            discard_staged(run.engine, run.staged)
        run.add(STAGED, bytes_removed=run.staged.size, files_removed=run.staged.files)


def _discard_derived(run: _Run) -> None:
    found = unneeded_files(run.engine, run.live, run.kept)
    if found:
        if not run.dry_run:
            run.engine.storage.derived.discard(path for path, _ in found)
        run.add(DERIVED, bytes_removed=sum(size for _, size in found), files_removed=len(found))
