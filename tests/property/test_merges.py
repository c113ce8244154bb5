"""Laws of merges, reverts, picks and restores, and random merges compared with the model in plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.simulation import drawing
from tests.simulation.engine import chain, observe, perform
from tests.simulation.merging import Decisions
from tests.simulation.model import CreateBranch, Model, Operation, Record, Revert
from tests.simulation.state import ENDS, SCHEMA, Branch, Refused
from tests.tiers import amount

SEEDS = amount(check=2, test=4, all=150)
LAWS = amount(check=1, test=1, all=60)
SIDES = ["a", "b"]


def key(clash: Any) -> tuple[str, str, str]:
    return clash.kind, getattr(clash, "type_name", None) or clash.type, str(clash.id)


class Pair:
    """A graph and the model of it, changed together."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = Random(seed)
        self.graph, self.model = og.init(root, SCHEMA), Model()
        for _ in range(4):
            self.edit("main")

    def do(self, operation: Operation) -> bool:
        """Run an operation; False if it was refused, as it had to be."""
        try:
            expected: Model | Refused = self.model.after(operation)
        except Refused as refused:
            expected = refused
        error: errors.OmnigraphError | None = None
        try:
            perform(self.graph, operation)
        except errors.OmnigraphError as refusal:
            error = refusal
        if error is not None:
            assert isinstance(expected, Refused), f"{operation}: {error}"
            assert error.kind in expected.kinds, f"{operation}: {error}"
            if isinstance(error, errors.MergeConflicts):
                assert sorted(map(key, error.conflicts)) == sorted(map(key, expected.clashes)), operation
            return False
        assert isinstance(expected, Model), f"{operation} is not refused"
        self.model = expected
        for branch, state in self.model.branches.items():
            assert observe(self.graph, branch) == state, operation
        return True

    def edit(self, branch: str) -> None:
        assert self.do(drawing.edit(self.random, self.model, branch))

    def branch_off(self, *names: str) -> None:
        for name in names:
            assert self.do(CreateBranch(name, "main"))

    def shown(self, branch: str) -> Branch:
        return observe(self.graph, branch)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_merges_with_random_decisions(tmp_path: Path, seed: int) -> None:
    """Three branches are changed and merged in all directions, crosswise too."""
    pair = Pair(tmp_path / "g", seed)
    pair.branch_off(*SIDES)
    for _ in range(8):
        for branch in pair.random.sample(["main", *SIDES], 2):
            for _ in range(pair.random.randrange(1, 3)):
                pair.edit(branch)
        source, target = pair.random.sample(["main", *SIDES], 2)
        pair.do(drawing.merge(pair.random, pair.model, source, target))


@pytest.mark.parametrize("seed", range(LAWS))
def test_a_merge_with_itself_is_refused_and_a_second_one_changes_nothing(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    pair.branch_off("a")
    pair.edit("a")
    for branch in ("main", "a"):
        with pytest.raises(errors.BadRequest):
            pair.graph.merge(branch, branch)
    pair.graph.merge("a")
    before = pair.graph.snapshot()

    for _ in range(2):
        assert pair.graph.merge("a").outcome == "already_up_to_date"
    assert pair.graph.snapshot() == before
    assert pair.shown("main") == pair.shown("a")


@pytest.mark.parametrize("seed", range(LAWS))
def test_disjoint_changes_commute(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    pair.branch_off("a", "b", "c")
    graph, random = pair.graph, pair.random
    for side in SIDES:
        people = [Record("Person", f"{side}{number}", random.choice([None, 1])) for number in range(random.randrange(1, 5))]
        edges = [Record("Knows", f"{side}{n}", ends=(people[0].id, people[-1].id)) for n in range(random.randrange(3))]
        graph.load([json.dumps(record.to_json()) for record in [*people, *edges]], mode="append", branch=side)
        graph.tables(side).define_view("main", side, "select 1", dialect="duckdb", columns=["n"])

    for target, order in (("main", SIDES), ("c", SIDES[::-1])):
        for source in order:
            graph.merge(source, target)

    assert pair.shown("main") == pair.shown("c")


@pytest.mark.parametrize("seed", range(LAWS))
def test_a_difference_applied_to_one_state_gives_the_other(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    pair.branch_off("a", "b")
    for _ in range(3):
        pair.edit("a")
    graph = pair.graph
    records = {}
    for line in graph.export("a"):
        record = json.loads(line)
        records[record.get("type") or record["edge"], record["data"]["id"]] = line

    changes = graph.diff("b", "a").changes
    gone = [change for change in changes if change.op == "delete"]
    kept = {}
    for line in graph.export("b"):
        record = json.loads(line)
        kept[record.get("type") or record["edge"], record["data"]["id"]] = line
    for change in gone:
        del kept[change.type_name, change.id]
    kept |= {(change.type_name, change.id): records[change.type_name, change.id] for change in changes if change not in gone}

    assert kept == records
    assert graph.diff("a", "a").changes == ()
    graph.restore("a", branch="b")
    assert pair.shown("b") == pair.shown("a")
    assert graph.diff("b", "a").changes == ()


@pytest.mark.parametrize("seed", range(LAWS))
def test_a_revert_gives_what_was_before_and_a_revert_of_it_what_was_after(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    graph = pair.graph
    before = pair.shown("main")
    pair.edit("main")
    after, changed = pair.shown("main"), chain(graph, "main")[0]

    result = graph.revert(changed.graph_commit_id)

    assert pair.shown("main") == before
    if result.commit is None:
        assert after == before
        return
    assert (result.commit.origin_commit_id, result.commit.merged_parent_commit_id) == (changed.graph_commit_id, None)
    graph.revert(result.commit.graph_commit_id)
    assert pair.shown("main") == after
    assert graph.revert(changed.graph_commit_id).commit is not None
    assert pair.shown("main") == before


@pytest.mark.parametrize("seed", range(LAWS))
def test_a_merge_is_taken_back_as_a_whole(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    pair.branch_off("a")
    for branch in ("a", "main", "a"):
        pair.edit(branch)
    before = pair.shown("main")
    merged = pair.graph.merge("a", resolve="theirs").commit
    assert merged is not None

    pair.graph.revert(merged.graph_commit_id)

    assert pair.shown("main") == before


@pytest.mark.parametrize("seed", range(LAWS))
def test_picking_all_commits_of_a_branch_is_merging_it(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    pair.branch_off("a", "b")
    for _ in range(4):
        pair.edit("a")
    start = chain(pair.graph, "main")[0].graph_commit_id
    line = chain(pair.graph, "a")
    own = line[: [commit.graph_commit_id for commit in line].index(start)]

    for commit in reversed(own):
        pair.graph.cherry_pick(commit.graph_commit_id, branch="b")
    pair.graph.merge("a")

    assert pair.shown("b") == pair.shown("main") == pair.shown("a")
    assert pair.graph.cherry_pick(own[0].graph_commit_id).commit is None, "the branch has these changes already"


@pytest.mark.parametrize("seed", range(LAWS))
def test_every_state_of_the_past_can_be_restored(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    for _ in range(3):
        pair.edit("main")
    line = chain(pair.graph, "main")
    past = [observe(pair.graph, "main", version=commit.manifest_version) for commit in line]

    for commit, state in pair.random.sample(list(zip(line, past, strict=True)), 4):
        pair.graph.restore(commit.graph_commit_id)
        assert pair.shown("main") == state
        assert pair.graph.restore(commit.graph_commit_id).commit is None
    assert len(chain(pair.graph, "main")) <= len(line) + 4


@pytest.mark.parametrize("seed", range(LAWS))
def test_random_reverts_with_later_changes_on_top(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path / "g", seed)
    for _ in range(6):
        pair.edit("main")
        back = pair.random.randrange(min(5, len(pair.model.chain("main")) - 1))
        decisions: list[Decisions] = [(), (("*", "ours"),), (("*", "theirs"),)]
        pair.do(Revert("main", back, pair.random.choice(decisions)))
    assert set(ENDS) <= pair.shown("main").keys()
