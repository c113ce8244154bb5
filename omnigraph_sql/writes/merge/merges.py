"""Merging one branch into another, and reverting, picking and restoring: merges whose base is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph_compiler import Catalog
from omnigraph_sql import failpoints
from omnigraph_sql.choices import MergeGranularity
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.errors import BadRequest, MergeConflicts, NotFound, OmnigraphError, VersionReclaimed
from omnigraph_sql.history.merge_base import ancestors, merge_bases
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
from omnigraph_sql.writes.merge.frame import CrossBases, MergeFrame
from omnigraph_sql.writes.merge.plan import MergePlan, TypeChanges, plan_merge, plan_writes
from omnigraph_sql.writes.merge.resolution import MergeResolution, read_resolution
from omnigraph_sql.writes.merge.row_states import RowStates
from omnigraph_sql.writes.operation import Attempt, CommitSources, PreparedWrite, Provenance
from omnigraph_sql.writes.protocol import Review, execute, find_replay, refuse_schema_apply, review_attempt

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
    replayed: bool = False
    """Whether an earlier merge with the idempotency key had published the commit; what it changed is not said again."""
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
    embeddings: Embeddings | None = None
    """Computes the vectors of texts that a decision gives; None when embedding is off, and in a dry run."""
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
    replay = find_replay(store, request.target, Provenance("BranchMerge", idempotency_key=request.idempotency_key))
    if replay is not None:
        return _replayed(store, request, replay)
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
    return _deleted(store, request, result, theirs.commit_id) if request.delete_source else result


def preview_merge(
    store: GraphStore, request: MergeRequest, theirs: Snapshot | None = None, ours: Snapshot | None = None
) -> MergeResult:
    """What a merge would do now, or on snapshots of both branches. Nothing is written."""
    request = check_request(store, request)
    theirs = theirs or store.coordinator.fresh(request.source)
    planner = _branch_planner(store, request, theirs)
    return run_preview(store, ours or store.coordinator.fresh(request.target), planner, request.review, always=True)


def _replayed(store: GraphStore, request: MergeRequest, commit: Commit) -> MergeResult:
    """The result of a merge that was published before under its key. The branch is deleted now if it was not then."""
    commits = store.coordinator.journal.commits() | {commit.graph_commit_id: commit}
    merged, parent = commit.merged_parent_commit_id or "", commit.parent_commit_id or ""
    bases = merge_bases(commits, merged, parent)
    base = bases[0].graph_commit_id if bases else None
    result = MergeResult(
        outcome="fast_forward" if base == parent else "merged",
        source=request.source,
        target=request.target,
        commit=commit,
        base_commit_id=base,
        replayed=True,
        _catalog=store.catalog,
    )
    if not request.delete_source:
        return result
    is_gone = request.source not in store.coordinator.branches()
    return replace(result, branch_deleted=True) if is_gone else _deleted(store, request, result, merged)


def _deleted(store: GraphStore, request: MergeRequest, result: MergeResult, merged: str) -> MergeResult:
    """Delete the source of a merge that succeeded. A refusal is reported and fails nothing."""
    try:
        if store.coordinator.fresh(request.source).commit_id != merged:
            text = f"`{request.source}` has commits that were not merged: others have written to it"
            return replace(result, branch_delete_error=text)
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
    action: str
    """What is done, in the words of messages."""
    base_commit_id: str | None
    is_forward: bool = False
    plan: MergePlan | None = None
    """None if there is nothing to merge."""
    warnings: tuple[str, ...] = ()


Planner: TypeAlias = Callable[[Snapshot], PlannedMerge]


def _branch_planner(store: GraphStore, request: MergeRequest, theirs: Snapshot) -> Planner:
    def plan(ours: Snapshot) -> PlannedMerge:
        commits = _all_commits(store, ours, theirs)
        bases = merge_bases(commits, theirs.commit_id, ours.commit_id)
        if not bases:
            text = f"`{request.source}` and `{request.target}` have no commit in common"
            raise BadRequest(text, hint="load an export of one into the other")
        first = bases[0].graph_commit_id
        action = f"merging `{request.source}` into `{request.target}`"
        if first == theirs.commit_id:
            return PlannedMerge(source=request.source, target=request.target, action=action, base_commit_id=first)
        state, *others = (_base_state(store, commits, base, ours, theirs) for base in bases)
        crossing: CrossBases | None = None
        warnings: tuple[str, ...] = ()
        if others:
            names = ", ".join(base.graph_commit_id for base in bases)
            warnings = (f"the branches were merged crosswise: rows were compared with the newest of {names}",)
            start = _base_state(store, commits, _start_of(commits, bases), ours, theirs)
            crossing = CrossBases(start=start, others=tuple(others))
        frame = MergeFrame(store=store, base=state, ours=ours, theirs=theirs, crossing=crossing)
        resolution = MergeResolution(decisions=request.resolution.decisions)
        try:
            by_column = request.granularity == "column"
            planned = plan_merge(frame, resolution, by_column=by_column, embeddings=request.embeddings)
        except VersionReclaimed as error:
            raise _lost_base(bases[0], error) from error
        return PlannedMerge(
            source=request.source,
            target=request.target,
            action=action,
            base_commit_id=first,
            is_forward=first == ours.commit_id,
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


def _start_of(commits: Mapping[str, Commit], bases: Sequence[Commit]) -> Commit:
    """The last commit that all of several bases descend from."""
    common = set.intersection(*(ancestors(commits, [base.graph_commit_id]) for base in bases))
    passed = ancestors(commits, (parent for commit_id in common for parent in commits[commit_id].parents))
    return commits[max(common - passed)]


def _base_state(store: GraphStore, commits: Mapping[str, Commit], base: Commit, *known: Snapshot) -> Snapshot:
    """The state of a base. One whose branch was deleted is that of a commit which has forwarded another branch to it.

    An older common ancestor is no substitute: with it, rows that one side removed since would come back.
    """
    lost: OmnigraphError | None = None
    for commit_id in (base.graph_commit_id, *_forwards(commits, base.graph_commit_id)):
        for snapshot in known:
            if snapshot.commit_id == commit_id:
                return snapshot
        try:
            snapshot = store.coordinator.at_commit(commit_id)
            _require_tables(store, snapshot, known)
            return snapshot
        except (VersionReclaimed, NotFound) as error:
            lost = lost or error
    assert lost is not None
    raise _lost_base(base, lost) from lost


def _require_tables(store: GraphStore, base: Snapshot, known: Sequence[Snapshot]) -> None:
    """Raise if a version that differs from those of the sides was removed by a cleanup."""
    for key, entry in base.entries.items():
        if all(side.entries.get(key) != entry for side in known):
            store.storage.open(entry)


def _forwards(commits: Mapping[str, Commit], commit_id: str) -> Iterator[str]:
    """Merges that brought a branch to the very state of a commit, because it had no commits of its own."""
    before = ancestors(commits, [commit_id])
    for merged in commits.values():
        is_merge = merged.merged_parent_commit_id == commit_id and merged.origin_commit_id is None
        if is_merge and merged.parent_commit_id in before:
            yield merged.graph_commit_id


def _lost_base(base: Commit, reason: OmnigraphError) -> VersionReclaimed:
    text = f"the last common state of both branches, {base.graph_commit_id}, cannot be read any more: {reason.message}"
    hint = "pick the missing commits of the source one by one (cherry_pick), or load an export of their rows"
    version = reason.version if isinstance(reason, VersionReclaimed) else base.manifest_version
    return VersionReclaimed(text, version=version, hint=hint)


# Running -------------------------------------------------------------------------------------------------------------


def run_merge(
    store: GraphStore, target: str, planner: Planner, provenance: Provenance, review: Review, *, always: bool
) -> MergeResult:
    """Plan and publish on the head of the target, again if it moves. `always` publishes also what changes nothing."""
    with _workspace() as fresh_workspace:

        def prepare(ours: Snapshot) -> PreparedWrite[MergeResult]:
            planned = planner(ours)
            _require_decided(planned)
            prepared = _prepared(planned, _result(planned, store.catalog), ours, fresh_workspace(), always=always)
            _require_decided(planned)
            return prepared

        outcome = execute(store, target, prepare, provenance, review=review)
    if outcome.replayed:
        return replace(outcome.result, commit=outcome.commit, changes={}, relations=(), replayed=True)
    if outcome.commit is None:
        return replace(outcome.result, outcome="already_up_to_date")
    return replace(outcome.result, commit=outcome.commit)


def run_preview(store: GraphStore, ours: Snapshot, planner: Planner, review: Review, *, always: bool) -> MergeResult:
    """What a merge would do on a state of its target. It is reviewed like one, and nothing is published."""
    planned = planner(ours)
    result = _result(planned, store.catalog)
    if planned.plan is None:
        return result
    with Workspace() as workspace:
        if not planned.plan.conflicts:
            prepared = _prepared(planned, result, ours, workspace, always=always)
            if not planned.plan.conflicts:
                review_attempt(store, Attempt(ours, prepared), review)
                return replace(result, outcome="already_up_to_date") if prepared.is_empty else result
        return replace(result, conflicts=with_images(planned.plan), outcome="conflicts")


def _prepared(
    planned: PlannedMerge, result: MergeResult, ours: Snapshot, workspace: Workspace, *, always: bool
) -> PreparedWrite[MergeResult]:
    """The writes of a merge without conflicts. Its plan gets those of rows that break a rule of their type."""
    if planned.plan is None:
        return PreparedWrite(writes=(), reads=frozenset(), result=result)
    writes, changes = plan_writes(planned.plan, workspace)
    return PreparedWrite(
        writes=tuple(writes),
        reads=planned.plan.reads,
        result=result,
        changes=tuple(changes),
        head=ours.commit_id,
        is_commit=always,
    )


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
    conflicts = () if planned.plan is None else planned.plan.conflicts
    if not conflicts:
        return
    first = "; ".join(conflict.message for conflict in conflicts[:_SHOWN])
    more = f"; +{len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    number = f"{len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}"
    raise MergeConflicts(
        f"{planned.action} met {number}: {first}{more}",
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
