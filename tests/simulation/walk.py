"""One seeded walk: operations, crashes, readers of the past and second handles, checked against the model step by step."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import omnigraph_sql as og
from omnigraph_sql import failpoints
from omnigraph_sql.errors import MergeConflicts, OmnigraphError
from tests.crash.world import armed, sidecars
from tests.simulation.drawing import draw
from tests.simulation.engine import caught_up, chain, observe, perform
from tests.simulation.model import (
    CreateBranch,
    DeleteBranch,
    Merge,
    Model,
    Operation,
    Pick,
    Restore,
    Revert,
)
from tests.simulation.state import SCHEMA, Branch, Refused

STEPS = 30

BEFORE, AFTER = "before", "after"
PROTOCOL = {
    "mutation.post_stage_pre_gates": BEFORE,
    "write.sidecar_write": BEFORE,
    "write.post_sidecar_pre_effect": BEFORE,
    "write.post_fork_pre_commit": BEFORE,
    "write.post_table_commit@1": "after, if it was the only table",
    "write.post_effects_pre_publish": AFTER,
    "publish.before_merge": "after, if a table was moved",
    "publish.after_merge": AFTER,
    "journal.before_append": AFTER,
    "write.before_sidecar_delete": AFTER,
}
"""What a write that died at a failpoint leaves, once the graph was opened again."""
BRANCHING = {
    CreateBranch: ["branch_create.after_ref"],
    DeleteBranch: ["branch_delete.after_ref", "branch_delete.before_table_cleanup"],
}
RECOVERING = ["recovery.post_restore_pre_publish", "recovery.record_audit", "recovery.before_sidecar_delete"]


class Deviation(AssertionError):
    """The graph and the model differ."""


@dataclass
class Walk:
    """The state of a walk."""

    root: Path
    random: Random
    say: Callable[[str], None]
    model: Model = field(default_factory=Model)
    handles: list[og.Graph] = field(default_factory=list)
    past: dict[str, list[tuple[int, Branch]]] = field(default_factory=dict)
    """By branch: versions and what they showed."""

    @property
    def graph(self) -> og.Graph:
        return self.random.choice(self.handles)


def walk(root: Path, seed: int, steps: int = STEPS, say: Callable[[str], None] = lambda _: None) -> None:
    """Walk; an exception names nothing but what went wrong, the caller knows the seed."""
    random = Random(seed)
    state = Walk(root, random, say)
    state.handles = [og.init(root, SCHEMA)]
    state.past["main"] = [(state.graph.snapshot().manifest_version, copy.deepcopy(state.model.branches["main"]))]
    kinds: list[tuple[int, Callable[[Walk], None]]] = [
        (62, _write),
        (20, _crash),
        (8, _look_back),
        (5, _reopen),
        (5, _second_handle),
    ]
    for number in range(steps):
        (step,) = random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        say(f"step {number}:")
        step(state)
    _reopen(state)
    for branch in sorted(state.model.branches):
        _check(state, state.graph, branch)
        for version, shown in random.sample(state.past[branch], min(3, len(state.past[branch]))):
            _compare(observe(state.graph, branch, version=version), shown, f"{branch} at version {version}")
    _check_chains(state)


def _check_chains(state: Walk) -> None:
    """First parents form one chain per branch, with all commits that the model has, and each of them is in the journal."""
    for branch in state.model.branches:
        line = chain(state.graph, branch)
        expected = [state.model.commits[number].parents for number in state.model.chain(branch)]
        if [len(commit.parents) for commit in line] != [len(parents) for parents in expected]:
            raise Deviation(f"the commits of {branch} are {[commit.message for commit in line]}, expected {len(expected)}")


# Steps -----------------------------------------------------------------------------------------------------------


def _write(state: Walk) -> None:
    operation = draw(state.random, state.model)
    graph = state.graph
    expected = _predict(state.model, operation)
    state.say(f"  {operation} -> {expected if isinstance(expected, Refused) else 'done'!r}")
    try:
        perform(graph, operation)
    except OmnigraphError as error:
        _check_refusal(operation, expected, error)
    else:
        if isinstance(expected, Refused):
            raise Deviation(f"{operation} succeeded, expected {expected!r}")
    _accept(state, expected, operation)


def _crash(state: Walk) -> None:
    """The process of a writer dies at some point; all handles go with it."""
    operation = draw(state.random, state.model)
    if isinstance(operation, Merge):
        operation = replace(operation, delete=False)  # a merge that died has deleted nothing yet
    points = BRANCHING.get(type(operation), list(PROTOCOL))
    point: str = state.random.choice(points)
    expected = _predict(state.model, operation)
    name, at, nth = point.partition("@")
    died = False
    with armed(f"{name}=panic{at}{nth}"):
        try:
            perform(state.graph, operation)
        except failpoints.Panic:
            died = True
        except OmnigraphError as error:
            _check_refusal(operation, expected, error)
    visible = not died or _survives(state, operation, point)
    state.say(f"  crash of {operation} at {point}: {'died' if died else 'not reached'}, {AFTER if visible else BEFORE}")
    _crash_while_opening(state)
    state.handles = [og.connect(state.root)]
    if visible and isinstance(expected, Model):
        state.model = expected
    state.model = caught_up(state.graph, state.model)
    _accept(state, state.model, operation)
    if state.handles[0].recoveries()["pending"]:
        raise Deviation("a sidecar is left after opening")


def _check_refusal(operation: Operation, expected: Model | Refused, error: OmnigraphError) -> None:
    if not isinstance(expected, Refused) or error.kind not in expected.kinds:
        raise Deviation(f"{operation} failed with {error.kind}: {error}, expected {expected!r}") from error
    if isinstance(error, MergeConflicts):
        met = [(conflict.kind, conflict.type_name, conflict.id) for conflict in error.conflicts]
        clashes = [(clash.kind, clash.type, clash.id) for clash in expected.clashes]
        if sorted(met, key=str) != sorted(clashes, key=str):
            raise Deviation(f"{operation} met {met}, expected {clashes}") from error


def _survives(state: Walk, operation: Operation, point: str) -> bool:
    if point not in PROTOCOL:
        return True
    tables = state.model.tables_of(operation)
    if isinstance(operation, Merge | Revert | Pick | Restore):
        # Which tables it writes and which it takes over as they are is the engine's business; its note says so.
        tables = sum(len(json.loads(sidecar.read_text())["tables"]) for sidecar in sidecars(state.root))
    if point == "write.post_table_commit@1":
        return tables == 1
    if point == "publish.before_merge":
        return tables > 0
    return PROTOCOL[point] == AFTER


def _crash_while_opening(state: Walk) -> None:
    if state.random.random() < 0.7:
        return
    point = state.random.choice(RECOVERING)
    with armed(f"{point}=panic"):
        try:
            og.connect(state.root)
        except failpoints.Panic:
            state.say(f"  crash of the recovery at {point}")


def _look_back(state: Walk) -> None:
    branch = state.random.choice(sorted(state.model.branches))
    version, shown = state.random.choice(state.past[branch])
    state.say(f"  read {branch} at version {version}")
    _compare(observe(state.graph, branch, version=version), shown, f"{branch} at version {version}")


def _reopen(state: Walk) -> None:
    state.say("  reopen")
    state.handles = [og.connect(state.root)]
    if state.handles[0].branches() != sorted(state.model.branches):
        raise Deviation(f"there are {state.handles[0].branches()}, expected {sorted(state.model.branches)}")


def _second_handle(state: Walk) -> None:
    state.say("  another handle")
    state.handles.append(og.connect(state.root))


# Checks ----------------------------------------------------------------------------------------------------------


def _predict(model: Model, operation: Operation) -> Model | Refused:
    try:
        return model.after(operation)
    except Refused as refused:
        return refused


def _accept(state: Walk, expected: Model | Refused, operation: Operation) -> None:
    """Take over what an operation made of the model, and look whether the graph shows it."""
    if isinstance(expected, Model):
        state.model = expected
    state.past = {branch: state.past.get(branch, []) for branch in state.model.branches}
    if state.graph.branches() != sorted(state.model.branches):
        raise Deviation(f"there are {state.graph.branches()}, expected {sorted(state.model.branches)}")
    name = operation.name if isinstance(operation, CreateBranch | DeleteBranch) else operation.branch
    if name in state.model.branches:
        graph = state.graph
        _check(state, graph, name)
        version = graph.snapshot(branch=name).manifest_version
        state.past[name].append((version, copy.deepcopy(state.model.branches[name])))


def _check(state: Walk, graph: og.Graph, branch: str) -> None:
    _compare(observe(graph, branch), state.model.branches[branch], branch)


def _compare(found: Any, expected: Any, what: str) -> None:
    for key in expected:
        if found[key] != expected[key]:
            raise Deviation(f"{what} shows {key} as {found[key]}, expected {expected[key]}")
