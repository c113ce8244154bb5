"""Merges: what a branch, a change and a merge cost, in small and large tables and with few and many types."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph_sql as og
from bench import plots
from bench.measure import Sample, alternate, markdown, shown

INTRO = (
    "Branching, changing ten rows and merging them back, with everything in one process. A ratio compares two graphs in one "
    "run: the same operations, repeated in turn. Each merge brings rows that were not merged before."
)
PACKAGES = ("omnigraph-sql", "pylance", "pyarrow", "numpy")
REPORTS = Path(__file__).parent / "reports"
_CHANGED = 10
_MANY = 100_000
_SCHEMA = "node Person { name: String @key  age: I32?  face: Vector(%d)? }\nedge Knows: Person -> Person { since: I32? }\n"


@dataclass(frozen=True)
class Limit:
    """A ratio of two samples and the most that it may be."""

    workload: str
    ours: Sample
    other: Sample
    most: float

    @property
    def ratio(self) -> float:
        return self.ours.median / self.other.median


class _People:
    """A graph of persons, and changes of ten of them at a time."""

    def __init__(self, directory: Path, rows: int, width: int) -> None:
        random = np.random.default_rng(rows)
        self.graph = og.init(directory, _SCHEMA % width)
        self.names = pa.array([f"person-{number:08d}" for number in range(rows)])
        self._width = width
        ends = (self.names.take(pa.array(random.integers(0, rows, rows))) for _ in range(2))
        self.graph.load({"Person": self._persons(np.arange(rows), 0)}, mode="append")
        self.graph.load({"Knows": pa.table(dict(zip(("src", "dst"), ends, strict=True)))}, mode="append")
        self._number = 0

    def _persons(self, rows: np.ndarray, age: int) -> pa.Table:
        numbers = np.full(len(rows) * self._width, age / 7, np.float32)
        return pa.table(
            {
                "name": self.names.take(pa.array(rows)),
                "age": pa.array(np.full(len(rows), age, np.int32)),
                "face": pa.FixedSizeListArray.from_arrays(pa.array(numbers), self._width),
            }
        )

    def change(self, branch: str, rows: int = _CHANGED) -> og.Commit:
        """Change rows that no change before this one has touched."""
        self._number += 1
        start = self._number * _CHANGED * 3
        chosen = np.arange(start, start + rows * 7, 7) % len(self.names)
        commit = self.graph.load({"Person": self._persons(chosen, self._number)}, mode="merge", branch=branch).commit
        assert commit is not None
        return commit

    def round(self, number: int) -> None:
        """Branch, change, merge."""
        self.graph.create_branch(f"work-{number}")
        self.change(f"work-{number}")
        self.graph.merge(f"work-{number}")

    def prepared_merge(self, number: int) -> Callable[[], object]:
        """A branch with a change, ready to be merged."""
        self.graph.create_branch(f"ready-{number}")
        self.change(f"ready-{number}")
        return lambda: self.graph.merge(f"ready-{number}")


def run(options: argparse.Namespace) -> str:
    """Measure everything and return the tables of the report."""
    repeat = 15
    with tempfile.TemporaryDirectory(prefix="omnigraph-merges-") as directory:
        root = Path(directory)
        sizes = [10_000, 100_000, 1_000_000]
        people = {size: _People(root / f"people-{size}", size, 16) for size in sizes}
        limits = _by_size(people, repeat)
        limits += _by_types(root, repeat)
        limits += _many(root)
        if options.million:
            wide = {size: _People(root / f"wide-{size}", size, 768) for size in (10_000, 1_000_000)}
            limits += [_round("768 numbers a row: ", wide, repeat)]
        growth = _growth(people, repeat)
    plots.lines("Ten rows, by the size of the table", "rows of the table", growth, REPORTS / "merges-growth.svg")
    rows = [
        (limit.workload, shown(limit.ours), shown(limit.other), f"{limit.ratio:.2f}", f"{limit.most:g}") for limit in limits
    ]
    head = ("workload", "ms (quartiles)", "compared with", "ratio", "target")
    return f"{markdown(head, rows)}\n\n![Growth](merges-growth.svg)"


def _by_size(people: dict[int, _People], repeat: int) -> list[Limit]:
    small, large = people[10_000], people[1_000_000]
    limits = [_round("", {10_000: small, 1_000_000: large}, repeat)]
    commit, merges = _against_commit(large, repeat)
    limits.append(Limit("merging 10 rows into 1,000,000, and a commit of 10 rows there", merges, commit, 4.0))
    names: dict[str, Callable[[_People, og.Commit], object]] = {
        "diff of": lambda them, commit: them.graph.diff(str(commit.parent_commit_id), commit.graph_commit_id),
        "changes of": lambda them, commit: them.graph.commit_changes(commit.graph_commit_id),
        "revert of": lambda them, commit: them.graph.revert(commit.graph_commit_id),
    }
    for name, operation in names.items():
        slow, quick = (_after_commit(them, operation, repeat) for them in (large, small))
        limits.append(Limit(f"{name} a commit of 10 rows, 1,000,000 and 10,000 rows", slow, quick, 1.3))
    return limits


def _round(prefix: str, people: dict[int, _People], repeat: int) -> Limit:
    sizes = sorted(people)
    small, large = alternate(*(people[size].round for size in sizes), repeat=repeat, warm_up=5)
    title = f"{prefix}branch, change of 10 rows and merge, {sizes[-1]:,} and {sizes[0]:,} rows"
    for them in people.values():
        _drop_branches(them)
    return Limit(title, large, small, 1.3)


def _drop_branches(people: _People) -> None:
    for name in people.graph.branches():
        if name != "main":
            people.graph.delete_branch(name)


def _against_commit(people: _People, repeat: int) -> tuple[Sample, Sample]:
    waiting = [people.prepared_merge(number) for number in range(repeat + 3)]
    commit, merges = alternate(
        lambda _: _none(people.change("main")), lambda number: _none(waiting[number]()), repeat=repeat, warm_up=3
    )
    _drop_branches(people)
    return commit, merges


def _after_commit(people: _People, operation: Callable[[_People, og.Commit], object], repeat: int) -> Sample:
    commits = [people.change("main") for _ in range(repeat + 3)]
    (sample,) = alternate(lambda number: _none(operation(people, commits[number])), repeat=repeat, warm_up=3)
    return sample


def _none(_: object) -> None:
    """Nothing: `alternate` calls what it is handed back."""


def _by_types(root: Path, repeat: int) -> list[Limit]:
    graphs = {}
    for types in (10, 200):
        schema = "".join(f"node T{number} {{ name: String @key  age: I32? }}\n" for number in range(types))
        graph = graphs[types] = og.init(root / f"types-{types}", schema)
        rows = pa.table({"name": ["a", "b"], "age": pa.array([1, 2], pa.int32())})
        graph.load({f"T{number}": rows for number in range(types)}, mode="append")

    def work(graph: og.Graph) -> Callable[[int], None]:
        def round_(number: int) -> None:
            graph.create_branch(f"work-{number}")
            names = [f"{number}-{row}" for row in range(_CHANGED)]
            graph.load({"T1": pa.table({"name": names})}, mode="merge", branch=f"work-{number}")
            graph.merge(f"work-{number}")

        return round_

    few, many = alternate(work(graphs[10]), work(graphs[200]), repeat=repeat, warm_up=3)
    return [Limit("branch, change of 10 rows and merge, 200 and 10 types", many, few, 1.3)]


def _many(root: Path) -> list[Limit]:
    people = _People(root / "many", 1_000_000, 16)

    def load(number: int) -> None:
        people.graph.create_branch(f"many-{number}")
        people.change(f"many-{number}", _MANY)

    loads, merges = alternate(load, lambda number: _none(people.graph.merge(f"many-{number}")), repeat=5, warm_up=1)
    return [Limit(f"merging {_MANY:,} changed rows, and loading them", merges, loads, 2.0)]


def _growth(people: dict[int, _People], repeat: int) -> dict[str, list[tuple[int, float]]]:
    """Milliseconds by the size of the table, by operation."""
    growth: dict[str, list[tuple[int, float]]] = {}
    for size, them in people.items():
        commit, merges = _against_commit(them, repeat)
        diffs = _after_commit(
            them, lambda graph, made: graph.graph.diff(str(made.parent_commit_id), made.graph_commit_id), repeat
        )
        reverts = _after_commit(them, lambda graph, made: graph.graph.revert(made.graph_commit_id), repeat)
        for name, sample in (("commit", commit), ("merge", merges), ("diff", diffs), ("revert", reverts)):
            growth.setdefault(name, []).append((size, sample.median))
    return growth
