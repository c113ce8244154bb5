"""Branches of the whole graph: created by one record, deleted by removing it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from omnigraph_sql import failpoints
from omnigraph_sql.errors import BadRequest, NotFound, OmnigraphError, Storage
from omnigraph_sql.manifest.coordinator import LOCK_BRANCH, MAIN, check_branch_name
from omnigraph_sql.manifest.refs import check_branch
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.texts import check_actor
from omnigraph_sql.sql.states import named_state
from omnigraph_sql.storage.branch_records import BranchRecord
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.stage import owner_of
from omnigraph_sql.writes.tags import branch_lock, require_state


def create_branch(store: GraphStore, name: str, base: str = MAIN, actor: str | None = None) -> str:
    """Create a branch at a state: the head of another one, or an earlier one of it, a tag or a commit that can be read.

    Costs one record, for graphs of any size.
    """
    return create_branch_at(store, name, named_state(store.coordinator, base), actor)


def create_branch_at(
    store: GraphStore, name: str, snapshot: Snapshot, actor: str | None, *, reads: Iterable[str] = ()
) -> str:
    """Create a branch at a state. `reads` are the tables that a transaction which becomes the branch has read."""
    name = check_branch_name(name, [])
    check_actor(actor)
    with store.locks.hold([branch_lock(name), branch_lock(snapshot.branch)]):
        if snapshot.is_past:
            require_state(store, snapshot)
        else:
            # The new branch shares the head: recorded now, it is recorded as a commit of the branch that made it.
            store.publisher.reconcile(snapshot)
        store.coordinator.create_branch(name, snapshot, actor, lambda: require_state(store, snapshot), reads=reads)
    return name


def delete_branch(store: GraphStore, name: str) -> None:
    """Remove a branch with the table branches that only it used. One that is damaged can be deleted as well.

    With its record the branch is gone. What cannot be removed after that is reported as a warning, and left for a cleanup.
    """
    name = check_branch(name).strip()
    if name in (MAIN, LOCK_BRANCH):
        raise BadRequest(f"the branch `{name}` cannot be deleted", hint="delete another branch")
    with store.locks.hold([branch_lock(name)]):
        name = store.coordinator.require(name)
        record = store.coordinator.table.record(name)
        owned = list(_owned(store, name))
        obstacles = _remove_record(store, name, record) + _remove_leftovers(store, record, owned)
    if obstacles:
        text = f"the branch `{name}` is deleted, but not everything of it could be removed: {obstacles[0]}"
        warnings.warn(f"{text}; cleanup removes what is left of it", UserWarning, stacklevel=3)


def _remove_record(store: GraphStore, name: str, record: BranchRecord | None) -> list[str]:
    """Remove what makes the branch exist. Returns what went wrong after that: the branch is gone."""
    try:
        store.coordinator.delete_branch(name, record)
    except (OmnigraphError, OSError) as error:
        if store.coordinator.table.has_branch(name):
            raise
        store.coordinator.forget(name)
        return [_reason(error)]
    return []


def _remove_leftovers(store: GraphStore, record: BranchRecord | None, owned: list[tuple[str, str]]) -> list[str]:
    """Remove the table branches that only a deleted branch used, and its lineage. Returns what went wrong.

    A tag may have been made after the look at the tags and before the record was removed. It reads the lineage: all stays.
    """
    try:
        if record is not None and any(tag.lineage == record.lineage for tag in store.coordinator.tags().values()):
            return []
    except (OmnigraphError, OSError) as error:
        return [_reason(error)]
    steps: list[Callable[[], object]] = [lambda: failpoints.hit("branch_delete.after_ref")]
    steps.append(lambda: failpoints.hit("branch_delete.before_table_cleanup"))
    steps += [partial(store.storage.force_delete_branch, path, branch) for path, branch in owned]
    if record is not None:
        steps.append(partial(store.coordinator.table.delete_lineage, record.lineage))
    obstacles = []
    for step in steps:
        try:
            step()
        except (OmnigraphError, OSError) as error:
            obstacles.append(_reason(error))
    return obstacles


def _owned(store: GraphStore, name: str) -> Iterator[tuple[str, str]]:
    """The table branches that a branch owns: those that it shows, or all that were made for it if that cannot be read."""
    try:
        snapshot = store.coordinator.fresh(name)
    except (NotFound, Storage):
        paths = {entry.path for entry in store.coordinator.fresh(MAIN).entries.values()}
        for path in sorted(paths):
            yield from ((path, branch) for branch in store.storage.list_branches(path) if owner_of(branch) == name)
        return
    for entry in snapshot.entries.values():
        if entry.branch is not None and owner_of(entry.branch) == name:
            yield entry.path, entry.branch


def _reason(error: OmnigraphError | OSError) -> str:
    return error.message if isinstance(error, OmnigraphError) else str(error)
