"""Histories of rows against a plain model, which reads the state of every commit, on random walks of branches and merges."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, MergeConflicts
from omnigraph_sql.manifest.journal import Commit

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String?  tags: [String]? }
edge Knows: Person -> Person { since: I32?  @unique(src, dst) }
"""
NAMES = "abcdef"
STEPS = 24
Row = dict[str, Any]
Version = tuple[str, str | None, str, int, Row]
"""Commit, actor, operation, time, and the row."""


class Walk:
    """A graph, changed at random."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph = og.init(place / "graph", SCHEMA)
        self.actors = 0

    def step(self) -> None:
        branches = self.graph.branches()
        branch = self.random.choice(branches)
        self.actors += 1
        try:
            match self.random.choice(["load", "load", "change", "change", "delete", "branch", "merge", "merge", "undo"]):
                case "load":
                    mode = self.random.choice(["merge", "merge", "overwrite"])
                    self.graph.load(self._records(), mode=mode, branch=branch, actor=f"p{self.actors}")  # type: ignore[arg-type]
                case "change":
                    text = f'update Person set {{ age: {self.random.randrange(4)} }} where name = "{self._name()}"'
                    self.graph.mutate(f"query q() {{ {text} }}", branch=branch, actor=f"p{self.actors}")
                case "delete":
                    text = f'delete Person where name = "{self._name()}"'
                    self.graph.mutate(f"query q() {{ {text} }}", branch=branch, actor=f"p{self.actors}")
                case "branch" if len(branches) < 4:
                    self.graph.create_branch(f"b{self.actors}", branch)
                case "merge" if len(branches) > 1:
                    self._merge(branch, self.random.choice([name for name in branches if name != branch]))
                case "undo":
                    commit = self.random.choice(self.graph.commits(branch))
                    self.graph.revert(commit.graph_commit_id, branch=branch, actor=f"p{self.actors}", resolve=self._side())
        except (BadRequest, MergeConflicts):
            pass  # drawn so that it cannot be done

    def _merge(self, source: str, target: str) -> None:
        granularity = self.random.choice(["row", "column"])
        resolve = self._side()
        self.graph.merge(source, target, actor=f"p{self.actors}", granularity=granularity, resolve=resolve)  # type: ignore[arg-type]

    def _side(self) -> str:
        return self.random.choice(["ours", "theirs"])

    def _name(self) -> str:
        return self.random.choice(NAMES)

    def _records(self) -> list[str]:
        chosen = self.random.sample(NAMES, self.random.randrange(1, 5))
        values = {"age": self.random.randrange(4), "nick": self.random.choice("xyz"), "tags": self.random.sample("pq", 1)}
        people = [{"type": "Person", "data": {"name": name, **values}} for name in chosen]
        edges = [{"edge": "Knows", "from": chosen[0], "to": name, "data": {"since": values["age"]}} for name in chosen[1:3]]
        return [json.dumps(record) for record in [*people, *edges]]


def state(graph: og.Graph, commit: str, type_name: str) -> dict[str, Row]:
    rows = graph.sql(f'select * from "@{commit}"."{type_name}"').to_pylist()
    return {row["id"]: row for row in rows}


def model(graph: og.Graph, commits: list[Commit], type_name: str) -> dict[str, dict[str, list[Version]]]:
    """The versions of each row at each commit."""
    histories: dict[str, dict[str, list[Version]]] = {}
    states = {commit.graph_commit_id: state(graph, commit.graph_commit_id, type_name) for commit in commits}
    for commit in reversed(commits):
        after = states[commit.graph_commit_id]
        before = states.get(commit.parent_commit_id or "", {})
        own = histories.get(commit.parent_commit_id or "", {})
        current = dict(own)
        for row_id in before.keys() | after.keys():
            old, new = before.get(row_id), after.get(row_id)
            if old == new:
                continue
            operation = "insert" if old is None else "delete" if new is None else "update"
            made = (commit.graph_commit_id, commit.actor_id, operation, commit.created_at, new or old or {})
            mine = own.get(row_id, [])
            theirs: list[Version] = []
            if commit.merged_parent_commit_id is not None and states[commit.merged_parent_commit_id].get(row_id) == new:
                theirs = histories[commit.merged_parent_commit_id].get(row_id, [])
            if theirs and theirs[: len(mine)] == mine:
                current[row_id] = theirs
            elif theirs and mine[: len(theirs)] != theirs:
                current[row_id] = [*mine, (theirs[-1][0], theirs[-1][1], *made[2:])]
            else:
                current[row_id] = [*mine, made]
        histories[commit.graph_commit_id] = current
    return histories


def versions(result: og.Result) -> dict[str, list[Version]]:
    """The versions that a history lists, after a look at what it says of their ends."""
    found: dict[str, list[Version]] = {}
    rows = result.to_pylist()
    own = ("valid_from", "valid_to", "commit", "actor", "operation", "is_exact")
    for number, row in enumerate(rows):
        assert row["is_exact"]
        values = {name: value for name, value in row.items() if name not in own}
        time = round(row["valid_from"].timestamp() * 1_000_000)
        found.setdefault(row["id"], []).append((row["commit"], row["actor"], row["operation"], time, values))
        later = rows[number + 1] if number + 1 < len(rows) and rows[number + 1]["id"] == row["id"] else None
        end = row["valid_from"] if row["operation"] == "delete" else later and later["valid_from"]
        assert row["valid_to"] == end
    return found


@pytest.mark.parametrize("seed", range(6))
def test_histories_agree_with_the_states_of_all_commits(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path, seed)
    for _ in range(STEPS):
        walk.step()

    graph = walk.graph
    for branch in graph.branches():
        commits = graph.commits(branch)
        for type_name in ("Person", "Knows"):
            expected = model(graph, commits, type_name)
            head = commits[0].graph_commit_id
            assert versions(graph.history_of(type_name, branch=branch)) == expected[head]
            past = walk.random.choice(commits).graph_commit_id
            assert versions(graph.history_of(type_name, commit=past)) == expected[past]
            for row_id in {*expected[head], "nobody"}:
                entity = graph.entity_history(type_name, row_id, branch=branch)
                assert versions(entity).get(row_id, []) == expected[head].get(row_id, [])


@pytest.mark.parametrize("seed", [100, 101])
def test_engines_agree_about_histories_and_conflicts(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path, seed)
    for _ in range(STEPS):
        walk.step()

    graph = walk.graph
    for branch in graph.branches():
        text = "select * from history_of('Person', $ref)"
        plain = graph.history_of("Person", branch=branch).to_pylist()
        assert graph.sql(text, {"ref": branch}).to_pylist() == plain
        assert graph.sql(text, {"ref": branch}, engine="duckdb").to_pylist() == plain
        for other in graph.branches():
            if other != branch:
                text = "select * from merge_conflicts($source, $target)"
                both = {"source": branch, "target": other}
                conflicts = graph.merge(branch, other, dry_run=True).conflicts_table().to_pylist()
                assert graph.sql(text, both).to_pylist() == conflicts
                assert graph.sql(text, both, engine="duckdb").to_pylist() == conflicts
