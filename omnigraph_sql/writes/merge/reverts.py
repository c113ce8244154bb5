"""Merges whose base is chosen: taking a commit back, picking one from another branch, returning to an earlier state."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.merge.frame import MergeFrame
from omnigraph_sql.writes.merge.merges import MergeRequest, MergeResult, PlannedMerge, Planner, run_merge, run_preview
from omnigraph_sql.writes.merge.plan import plan_merge
from omnigraph_sql.writes.merge.resolution import MergeResolution
from omnigraph_sql.writes.operation import CommitSources, Provenance
from omnigraph_sql.writes.protocol import Review, refuse_schema_apply

Replay: TypeAlias = Literal["CherryPick", "Revert"]


def replay_commit(store: GraphStore, request: MergeRequest, kind: Replay, *, is_dry: bool = False) -> MergeResult:
    """Apply one commit, or the inverse of it, to a branch, as a merge from its parent. `request.source` is the commit."""
    target = store.coordinator.require(request.target)
    refuse_schema_apply(store)
    commit = store.coordinator.commit(request.source)
    if commit.parent_commit_id is None:
        text = f"the commit `{commit.graph_commit_id}` is the first one and has no parent"
        verb = "reverted" if kind == "Revert" else "picked"
        raise BadRequest(f"{text}, so it cannot be {verb}", hint="name a later commit; list them with `commits`")
    after = store.coordinator.at_commit(commit.graph_commit_id)
    before = store.coordinator.at_commit(commit.parent_commit_id)
    base, theirs = (after, before) if kind == "Revert" else (before, after)
    text = f"{'revert of' if kind == 'Revert' else 'pick of'} {commit.graph_commit_id}"
    if request.message is None and commit.message:
        text = f"{text}: {commit.message}"
    doing = "reverting" if kind == "Revert" else "picking"
    planner = _planner(store, replace(request, target=target), doing, base, theirs)
    provenance = Provenance(
        kind,
        request.actor,
        text[:_MESSAGE] if request.message is None else request.message,
        request.idempotency_key,
        CommitSources(origin=commit.graph_commit_id),
    )
    return _run(store, target, planner, provenance, request.review, is_dry=is_dry)


def restore_state(store: GraphStore, request: MergeRequest, state: Snapshot, *, is_dry: bool = False) -> MergeResult:
    """Give a branch the rows of an earlier state. `request.source` is the name of the state."""
    target = store.coordinator.require(request.target)
    refuse_schema_apply(store)
    planner = _planner(store, replace(request, target=target), "restoring", None, state)
    message = f"restore of {state.commit_id}" if request.message is None else request.message
    sources = CommitSources(origin=state.commit_id)
    provenance = Provenance("Restore", request.actor, message, request.idempotency_key, sources)
    return _run(store, target, planner, provenance, request.review, is_dry=is_dry)


def _run(
    store: GraphStore, target: str, planner: Planner, provenance: Provenance, review: Review, *, is_dry: bool
) -> MergeResult:
    if is_dry:
        return run_preview(store, store.coordinator.fresh(target), planner, review, always=False)
    return run_merge(store, target, planner, provenance, review, always=False)


_MESSAGE = 1000
"""Characters of a message that quotes another one."""


def _planner(store: GraphStore, request: MergeRequest, doing: str, base: Snapshot | None, theirs: Snapshot) -> Planner:
    """Plans with a base of its own; without one the base is the target itself, so every row is that of the source."""

    def plan(ours: Snapshot) -> PlannedMerge:
        start = ours if base is None else base
        frame = MergeFrame(store=store, base=start, ours=ours, theirs=theirs)
        resolution = MergeResolution(decisions=request.resolution.decisions)
        by_column = request.granularity == "column"
        planned = plan_merge(frame, resolution, by_column=by_column, embeddings=request.embeddings)
        return PlannedMerge(
            source=request.source,
            target=request.target,
            action=f"{doing} `{request.source}` on `{request.target}`",
            base_commit_id=start.commit_id,
            plan=planned,
        )

    return plan
