"""Merging one branch into another, and reverting, picking and restoring: merges whose base is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph_compiler import Catalog
from omnigraph_sql import failpoints
from omnigraph_sql.choices import MergeGranularity
from omnigraph_sql.errors import BadRequest, MergeConflicts, NotFound, OmnigraphError, VersionReclaimed
from omnigraph_sql.history.merge_base import common_ancestors
from omnigraph_sql.manifest.coordinator import MAIN, lineage
from omnigraph_sql.manifest.journal import Commit, commit_of
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.version_difference import portions
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.branches import delete_branch
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.merge.conflict_relation import conflicts_table
from omnigraph_sql.writes.merge.conflicts import MergeConflict
from omnigraph_sql.writes.merge.frame import MergeFrame
from omnigraph_sql.writes.merge.plan import MergePlan, TypeChanges, plan_merge, plan_writes
from omnigraph_sql.writes.merge.resolution import MergeResolution, read_resolution
from omnigraph_sql.writes.merge.row_states import RowStates
from omnigraph_sql.writes.operation import CommitSources, PreparedWrite, Provenance
from omnigraph_sql.writes.protocol import Review, execute, refuse_schema_apply

MergeOutcome: TypeAlias = Literal["already_up_to_date", "conflicts", "fast_forward", "merged"]
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """The result of a merge, or what a merge would do."""

    outcome: MergeOutcome
    """`already_up_to_date`: nothing was to be merged. `fast_forward`: the target had no commits of its own. `merged`: both
    had. `conflicts`: only in a dry run, the merge would fail."""
    source: str
    """What was merged: a branch or a commit."""
    target: str
    """The branch that was merged into."""
    commit: Commit | None = None
    """The commit of the merge; None if nothing was published."""
    base_commit_id: str | None = None
    """The commit that both sides were compared with."""
    changes: dict[str, TypeChanges] = field(default_factory=dict)
    """Numbers of changed rows of the target, by table key."""
    relations: tuple[str, ...] = ()
    """Relational tables, views and schemas that became those of the source."""
    conflicts: tuple[MergeConflict, ...] = ()
    """In a dry run, the conflicts that nobody decided, with the rows of both sides."""
    resolved: int = 0
    """Conflicts that `resolve` decided."""
    branch_deleted: bool = False
    """Whether the source was deleted."""
    branch_delete_error: str | None = None
    """Why it could not be deleted."""
    warnings: tuple[str, ...] = ()
    """What a reader of the result should know."""
    _catalog: Catalog = field(repr=False, compare=False)

    def conflicts_table(self) -> pa.Table:
        """The conflicts as an Arrow table, with the columns of `merge_conflicts` in SQL.

        Returns:
            One row per conflict: `kind`, `type`, `id`, the row on each side (`base`, `ours`, `theirs`) as a structure, the
            changed `properties`, and `message`.

        Example:
            >>> graph.create_branch("idle")
            'idle'
            >>> graph.merge("idle", dry_run=True).conflicts_table().column_names[:4]
            ['kind', 'type', 'id', 'base']
        """
        return conflicts_table(self._catalog, self.conflicts)

    def to_dict(self) -> dict[str, Any]:
        """Everything as values of Python.

        Example:
            >>> graph.create_branch("quiet")
            'quiet'
            >>> graph.merge("quiet").to_dict()["outcome"]
            'already_up_to_date'
        """
        members = {name: value for name, value in vars(self).items() if name != "_catalog"}
        return members | {
            "commit": self.commit.to_dict() if self.commit else None,
            "changes": {key: dict(vars(counts)) for key, counts in self.changes.items()},
            "relations": list(self.relations),
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """A merge as it is asked for."""

    source: str
    target: str = MAIN
    granularity: MergeGranularity = "row"
    resolution: MergeResolution = field(default_factory=MergeResolution)
    review: Review = None
    delete_source: bool = False
    actor: str | None = None
    message: str | None = None
    idempotency_key: str | None = None


def check_request(store: GraphStore, request: MergeRequest) -> MergeRequest:
    """The request with the names of branches as they are kept. `BadRequest` or `NotFound` for others."""
    source, target = store.coordinator.require(request.source), store.coordinator.require(request.target)
    if source == target:
        raise BadRequest(f"`{source}` cannot be merged into itself", hint="name another branch")
    if request.delete_source and source == MAIN:
        raise BadRequest("the branch `main` cannot be deleted", hint="merge without deleting the source")
    return replace(request, source=source, target=target)


def merge(store: GraphStore, request: MergeRequest) -> MergeResult:
    """Merge a branch. `MergeConflicts`, and nothing is changed, if a conflict is left undecided."""
    request = check_request(store, request)
    refuse_schema_apply(store)
    theirs = store.coordinator.fresh(request.source)
    store.publisher.reconcile(theirs)
    failpoints.hit("merge.post_authority_capture")
    provenance = Provenance(
        "BranchMerge",
        request.actor,
        request.message,
        request.idempotency_key,
        CommitSources(merged_parent=theirs.commit_id),
    )
    planner = _branch_planner(store, request, theirs)
    result = run_merge(store, request.target, planner, provenance, request.review, always=True)
    return _deleted(store, request, result) if request.delete_source else result


def preview_merge(
    store: GraphStore, request: MergeRequest, theirs: Snapshot | None = None, ours: Snapshot | None = None
) -> MergeResult:
    """What a merge would do now, or on snapshots of both branches. Nothing is written."""
    request = check_request(store, request)
    theirs = theirs or store.coordinator.fresh(request.source)
    planned = _branch_planner(store, request, theirs)(ours or store.coordinator.fresh(request.target))
    result = _result(planned, store.catalog)
    if planned.plan is None:
        return result
    with Workspace() as workspace:
        if not planned.plan.conflicts:
            plan_writes(planned.plan, workspace)  # finds rows that break a rule of their type
        conflicts = with_images(planned.plan)
    return replace(result, conflicts=conflicts, outcome="conflicts" if conflicts else result.outcome)


def _deleted(store: GraphStore, request: MergeRequest, result: MergeResult) -> MergeResult:
    """Delete the source of a merge that succeeded. A refusal is reported and fails nothing."""
    try:
        delete_branch(store, request.source)
    except OmnigraphError as error:
        return replace(result, branch_delete_error=error.message)
    return replace(result, branch_deleted=True)


# Frames --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PlannedMerge:
    """A merge that was planned on one state of its target."""

    source: str
    target: str
    base_commit_id: str | None
    is_forward: bool = False
    plan: MergePlan | None = None
    """None if there is nothing to merge."""
    warnings: tuple[str, ...] = ()


Planner: TypeAlias = Callable[[Snapshot], PlannedMerge]


def _branch_planner(store: GraphStore, request: MergeRequest, theirs: Snapshot) -> Planner:
    def plan(ours: Snapshot) -> PlannedMerge:
        commits = _all_commits(store, ours, theirs)
        bases = common_ancestors(commits, theirs.commit_id, ours.commit_id)
        if not bases:
            text = f"`{request.source}` and `{request.target}` have no commit in common"
            raise BadRequest(text, hint="load an export of one into the other")
        if bases[0].graph_commit_id == theirs.commit_id:
            return PlannedMerge(source=request.source, target=request.target, base_commit_id=theirs.commit_id)
        base, planned, warnings = _nearest_plan(store, bases, ours, theirs, request)
        is_forward = base.graph_commit_id == ours.commit_id
        return PlannedMerge(
            source=request.source,
            target=request.target,
            base_commit_id=base.graph_commit_id,
            is_forward=is_forward,
            plan=planned,
            warnings=warnings,
        )

    return plan


def _all_commits(store: GraphStore, *heads: Snapshot) -> dict[str, Commit]:
    """Every commit, those that a writer which died did not record included."""
    commits = store.coordinator.journal.commits()
    for snapshot in heads:
        if snapshot.head is not None and snapshot.commit_id not in commits:
            commits[snapshot.commit_id] = commit_of(lineage(snapshot.branch), snapshot.head_version, snapshot.head)
    return commits


def _nearest_plan(
    store: GraphStore, bases: list[Commit], ours: Snapshot, theirs: Snapshot, request: MergeRequest
) -> tuple[Commit, MergePlan, tuple[str, ...]]:
    """The plan with the nearest common ancestor that can still be read."""
    lost: OmnigraphError | None = None
    for base in bases:
        try:
            snapshot = _state_of(store, base, ours, theirs)
            frame = MergeFrame(store=store, base=snapshot, ours=ours, theirs=theirs)
            resolution = MergeResolution(decisions=request.resolution.decisions)
            plan = plan_merge(frame, resolution, by_column=request.granularity == "column")
        except (VersionReclaimed, NotFound) as error:
            lost = lost or error
            continue
        if lost is None:
            return base, plan, ()
        text = (
            f"the nearest common ancestor {bases[0].graph_commit_id} cannot be read any more ({lost.message}); "
            f"the merge compared both sides with {base.graph_commit_id}"
        )
        return base, plan, (text,)
    assert lost is not None
    raise lost


def _state_of(store: GraphStore, commit: Commit, *known: Snapshot) -> Snapshot:
    for snapshot in known:
        if snapshot.commit_id == commit.graph_commit_id:
            return snapshot
    return store.coordinator.at_commit(commit.graph_commit_id)


# Running -------------------------------------------------------------------------------------------------------------


def run_merge(
    store: GraphStore, target: str, planner: Planner, provenance: Provenance, review: Review, *, always: bool
) -> MergeResult:
    """Plan and publish on the head of the target, again if it moves. `always` publishes also what changes nothing."""
    with _workspace() as fresh_workspace:

        def prepare(ours: Snapshot) -> PreparedWrite[MergeResult]:
            planned = planner(ours)
            result = _result(planned, store.catalog)
            if planned.plan is None:
                return PreparedWrite(writes=(), reads=frozenset(), result=result)
            _require_decided(planned)
            writes, changes = plan_writes(planned.plan, fresh_workspace())
            _require_decided(planned)
            return PreparedWrite(
                writes=tuple(writes),
                reads=planned.plan.reads,
                result=result,
                changes=tuple(changes),
                head=ours.commit_id,
                is_commit=always,
            )

        outcome = execute(store, target, prepare, provenance, review=review)
    if outcome.commit is None:
        return replace(outcome.result, outcome="already_up_to_date")
    return replace(outcome.result, commit=outcome.commit)


@contextmanager
def _workspace() -> Iterator[Callable[[], Workspace]]:
    """Workspaces for the attempts of one merge; only the last one is kept."""
    held: list[Workspace] = []

    def fresh() -> Workspace:
        while held:
            held.pop().close()
        held.append(Workspace())
        return held[-1]

    try:
        yield fresh
    finally:
        for workspace in held:
            workspace.close()


def _result(planned: PlannedMerge, catalog: Catalog) -> MergeResult:
    result = MergeResult(
        outcome="already_up_to_date",
        source=planned.source,
        target=planned.target,
        base_commit_id=planned.base_commit_id,
        warnings=planned.warnings,
        _catalog=catalog,
    )
    if planned.plan is None:
        return result
    return replace(
        result,
        outcome="fast_forward" if planned.is_forward else "merged",
        changes=dict(sorted(planned.plan.counts.items())),
        relations=tuple(str(key) for key in planned.plan.taken),
        resolved=planned.plan.resolved,
    )


def _require_decided(planned: PlannedMerge) -> None:
    assert planned.plan is not None
    conflicts = planned.plan.conflicts
    if not conflicts:
        return
    first = "; ".join(conflict.message for conflict in conflicts[:_SHOWN])
    more = f"; +{len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    number = f"{len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}"
    raise MergeConflicts(
        f"merging `{planned.source}` into `{planned.target}` met {number}: {first}{more}",
        conflicts=conflicts,
        hint="look at them with a dry run, and decide them with `resolve`; nothing was changed",
    )


# Images of conflicts -------------------------------------------------------------------------------------------------


def with_images(plan: MergePlan) -> tuple[MergeConflict, ...]:
    """The conflicts of a plan with the rows of base, target and source."""
    by_key: dict[str, list[int]] = {}
    for place, conflict in enumerate(plan.conflicts):
        if conflict.id is not None and TableKey(conflict.table_key).kind in ("node", "edge"):
            by_key.setdefault(conflict.table_key, []).append(place)
    conflicts = list(plan.conflicts)
    for key, places in by_key.items():
        states = plan.frame.rows(key)
        rows = [states.index(conflicts[place].id or "") for place in places]
        for place, images in zip(places, _images(plan.frame, states, rows), strict=True):
            conflicts[place] = replace(conflicts[place], **images)
    return tuple(conflicts)


def _images(frame: MergeFrame, states: RowStates, rows: list[int | None]) -> list[dict[str, Any]]:
    """The rows of the three sides; None where a side does not have a row."""
    images: list[dict[str, Any]] = [{"base": None, "ours": None, "theirs": None} for _ in rows]
    handle = states.target or states.theirs.changes.after
    if handle is None:
        return images
    storage = frame.store.storage
    names = storage.schema(handle).names
    unchanged = np.zeros(len(states.ids), np.bool_)
    base = replace(states.theirs, is_changed=unchanged)
    for name, side in (("base", base), ("ours", states.ours), ("theirs", states.theirs)):
        present = side.is_present
        chosen = [(place, row) for place, row in enumerate(rows) if row is not None and present[row]]
        for part in portions(storage, handle, names, len(chosen)):
            table = side.columns(storage, names, np.array([row for _, row in chosen[part]], np.int64))
            for (place, _), image in zip(chosen[part], table.to_pylist(), strict=True):
                images[place][name] = image
    return images


def merge_request(store: GraphStore, source: str, target: str, resolve: Any, **settings: Any) -> MergeRequest:
    """A request with decisions in any form that a caller may give them."""
    return MergeRequest(source=source, target=target, resolution=read_resolution(resolve, store.catalog), **settings)
