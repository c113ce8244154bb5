"""Random histories with branches and cleanups: what the policy and the branches keep is read as it was read before."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import lance
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.manifest.snapshot import Entry
from tests.crash.world import Rows, abandon, assert_writable, edge, node, reopened, rows, seeded
from tests.stores import Place, repetitions

State = tuple[str, int]
"""A branch and a version of it."""
Lineage = tuple[str, str | None]
"""The path of a table, and a branch of it."""


class Walk:
    """A graph, and everything that was ever read of its branches."""

    def __init__(self, root: Place, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.graph = seeded(root)
        self.read: dict[State, Rows] = {}
        self.names = (f"n{number}" for number in range(1000))
        self.look()

    def look(self) -> None:
        """Read what every branch shows now."""
        for branch in self.graph.branches():
            self.read[branch, self.graph.snapshot(branch=branch).manifest_version] = rows(self.graph, branch)

    def forget(self, branch: str) -> None:
        self.read = {state: found for state, found in self.read.items() if state[0] != branch}

    # Steps

    def step(self) -> None:
        steps = [self.insert, self.change, self.remove, self.replace, self.fork, self.index, self.drop]
        (chosen,) = self.random.choices(steps, [4, 2, 1, 2, 3, 1, 1])
        chosen()
        self.look()

    def branch(self) -> str:
        return "main" if self.random.random() < 0.5 else self.random.choice(self.graph.branches())

    def people(self, branch: str) -> list[str]:
        return [row["id"] for row in rows(self.graph, branch).get("Person", [])]

    def insert(self) -> None:
        branch, name = self.branch(), next(self.names)
        known = self.random.choice([*self.people(branch), name])
        self.graph.load([node("Person", name=name), edge("Knows", name, known)], mode="append", branch=branch)

    def change(self) -> None:
        branch = self.branch()
        chosen = self.random.sample(people := self.people(branch), min(2, len(people)))
        records = [node("Person", name=name, age=self.random.randrange(100)) for name in chosen]
        self.graph.load(records, mode="merge", branch=branch)

    def remove(self) -> None:
        branch = self.branch()
        for name in self.random.sample(people := self.people(branch), min(1, len(people))):
            query = "query q($name: String) { delete Person where name = $name }"
            self.graph.mutate(query, params={"name": name}, branch=branch)

    def replace(self) -> None:
        branch = self.branch()
        people = self.people(branch)
        ends = [(self.random.choice(people), self.random.choice(people)) for _ in range(3)] if people else []
        if ends:
            self.graph.load([edge("Knows", *each) for each in ends], mode="overwrite", branch=branch)

    def index(self) -> None:
        self.graph.ensure_indices(self.branch())

    def fork(self) -> None:
        self.graph.create_branch(next(self.names), self.branch())

    def drop(self) -> None:
        branch = self.branch()
        try:
            if branch != "main" and self.random.random() < 0.5:
                abandon("branch_delete.before_table_cleanup", lambda: self.graph.delete_branch(branch))
            else:
                self.graph.delete_branch(branch)
        except (errors.BadRequest, errors.Conflict):
            return  # main, or a branch from which others were made
        self.forget(branch)

    # Cleanups

    def clean(self) -> None:
        keep = self.random.choice([None, None, 3, 4, 8])
        kept = self.kept(keep)
        before = dict(self.read)

        stats = self.graph.cleanup(keep=keep) if keep else self.graph.cleanup(older_than=timedelta(0))

        assert [each.error for each in stats if each.error] == []
        for reader in (self.graph, og.connect(self.root, read_only=True)):
            for state, found in before.items():
                self.compare(reader, state, found, kept)

    def compare(self, reader: og.Graph, state: State, found: Rows, kept: dict[Lineage, set[int]]) -> None:
        branch, version = state
        needed = reader.snapshot(branch=branch, version=version).entries.values()
        must = all(entry.version in kept[entry.path, entry.branch] for entry in needed)
        try:
            assert rows(reader, branch, version=version) == found, state
        except errors.VersionReclaimed:
            assert not must, f"{state} was to be kept"
        else:
            assert must, f"{state} was not to be kept"

    def kept(self, keep: int | None) -> dict[Lineage, set[int]]:
        """The versions of each table branch that must stay, told from Lance and from what branches show alone."""
        live = [self.graph.snapshot(branch=branch) for branch in self.graph.branches()]
        shown = {(entry.path, entry.branch) for each in live for entry in each.entries.values()}
        found: dict[Lineage, set[int]] = {}
        for entry in self.entries():
            lineage = entry.path, entry.branch
            if lineage in found or not self.is_there(lineage):
                found.setdefault(lineage, set())
                continue
            there = self.versions(lineage)
            forks = lance.dataset(str(self.root / entry.path)).branches.list()
            pins = {each.version for one in live for each in one.entries.values() if (each.path, each.branch) == lineage}
            starts = {
                int(fork["parent_version"])
                for name, fork in forks.items()
                if fork["parent_branch"] == entry.branch and (entry.path, name) in shown
            }
            oldest = min({*pins, *starts, there[-1]})
            newest = there[-(keep or 1) :]
            found[lineage] = {version for version in there if version >= oldest or version in newest}
        return found

    def entries(self) -> Iterator[Entry]:
        for branch, version in self.read:
            yield from self.graph.snapshot(branch=branch, version=version).entries.values()

    def place(self, lineage: Lineage) -> Any:
        path, branch = lineage
        return self.root / path if branch is None else self.root / path / "tree" / branch

    def is_there(self, lineage: Lineage) -> bool:
        return bool(self.place(lineage).exists())

    def versions(self, lineage: Lineage) -> list[int]:
        return sorted(int(each["version"]) for each in lance.dataset(str(self.place(lineage))).versions())


def take(root: Place, seed: int, steps: int) -> None:
    walk = Walk(root / "g", seed)
    for number in range(steps):
        walk.step()
        if number % 5 == 4:
            walk.clean()
    walk.clean()
    graph = reopened(root / "g")
    for branch in graph.branches():
        assert rows(graph, branch) == walk.read[branch, graph.snapshot(branch=branch).manifest_version]
    graph.load([node("Person", name="bob")], mode="merge")
    assert_writable(graph)


@pytest.mark.parametrize("seed", range(4))
def test_invariant_51_on_random_histories(tmp_path: Place, seed: int) -> None:
    take(tmp_path, seed, repetitions(20))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_invariant_51_on_many_random_histories(tmp_path: Place, seed: int) -> None:
    take(tmp_path, seed, repetitions(40))
