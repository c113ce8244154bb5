"""The data of the query benchmarks: a social network, the same on every run, stored on disk between runs.

`python -m bench.social [PERSONS]` creates the graph and prints its directory.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import omnigraph_sql as og

SCHEMA = """
node Person {
  number: I64 @key
  name: String
  age: I32
  gender: enum(female, male)
}
node City {
  number: I64 @key
  name: String @index
}
node State {
  number: I64 @key
  name: String @index
}
node Country {
  number: I64 @key
  name: String @index
}
node Interest {
  number: I64 @key
  name: String @index
}
edge Follows: Person -> Person { since: I32 }
edge LivesIn: Person -> City @card(0..1)
edge CityIn: City -> State @card(0..1)
edge StateIn: State -> Country @card(0..1)
edge HasInterest: Person -> Interest
"""
NODES = ("Person", "City", "State", "Country", "Interest")
ENDS = {
    "Follows": ("Person", "Person"),
    "LivesIn": ("Person", "City"),
    "CityIn": ("City", "State"),
    "StateIn": ("State", "Country"),
    "HasInterest": ("Person", "Interest"),
}
CITIES, STATES = 7_117, 273
COUNTRIES = ("United States", "United Kingdom", "Canada", "Australia", "Ireland")
INTERESTS = 41
_LAYOUT = 1
"""The version of the data, part of the names of its files: increase it when the data changes."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Size:
    """The size of the network. The numbers of cities, states, countries and interests are fixed."""

    persons: int = 100_000
    follows_each: int = 24
    seed: int = 7

    @property
    def name(self) -> str:
        return f"social-{_LAYOUT}-{self.persons}-{self.follows_each}-{self.seed}"


def default_directory() -> Path:
    return Path(tempfile.gettempdir()) / "omnigraph-bench"


def tables(size: Size) -> dict[str, pa.Table]:
    """Generate nodes with their properties, and edges with `src` and `dst` as numbers, without duplicates and self-loops."""
    random = np.random.default_rng(size.seed)
    count = size.persons
    src, dst = _follows(random, count, count * size.follows_each)
    fans, interests = _interests(random, count)
    return {
        "Person": _persons(random, count),
        "City": _places("city", CITIES),
        "State": _places("state", STATES),
        "Country": pa.table({"number": pa.array(range(len(COUNTRIES)), pa.int64()), "name": list(COUNTRIES)}),
        "Interest": _places("interest", INTERESTS),
        "Follows": _edges(src, dst).append_column("since", pa.array(random.integers(2005, 2026, len(src)), pa.int32())),
        "LivesIn": _edges(np.arange(count), random.choice(CITIES, count, p=_skewed(random, CITIES, 0.5))),
        "CityIn": _edges(np.arange(CITIES), random.choice(STATES, CITIES, p=_skewed(random, STATES, 0.5))),
        "StateIn": _edges(np.arange(STATES), np.sort(np.arange(STATES) % len(COUNTRIES))),
        "HasInterest": _edges(fans, interests),
    }


def stored_tables(size: Size, directory: Path) -> dict[str, pa.Table]:
    """Return the tables from Parquet files in the directory, which are created if they are missing."""
    home = directory / size.name / "parquet"
    if not home.exists():
        draft = _draft(home)
        for name, table in tables(size).items():
            pq.write_table(table, draft / f"{name}.parquet")
        draft.rename(home)
    return {name: pq.read_table(home / f"{name}.parquet") for name in (*NODES, *ENDS)}


def stored_graph(size: Size, directory: Path) -> Path:
    """Return the directory of a graph with these tables, which is loaded if it is missing."""
    home = directory / size.name / "graph"
    if not home.exists():
        draft = _draft(home)
        with og.init(draft, SCHEMA) as graph:
            graph.load({name: _loadable(table) for name, table in stored_tables(size, directory).items()}, mode="append")
        draft.rename(home)
    return home


def _draft(home: Path) -> Path:
    """Return an empty directory, which its caller renames to `home` when complete: an interrupted run leaves no `home`."""
    draft = home.with_name(f"{home.name}-{os.getpid()}")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(parents=True)
    return draft


def _loadable(table: pa.Table) -> pa.Table:
    """Replace the numbers of the ends of edges by ids, which are the texts of the keys."""
    if "src" not in table.column_names:
        return table
    for position, end in enumerate(("src", "dst")):
        table = table.set_column(position, end, pc.cast(table[end], pa.string()))
    return table


def _persons(random: np.random.Generator, count: int) -> pa.Table:
    return pa.table(
        {
            "number": np.arange(count),
            "name": pa.array([f"person-{number:07}" for number in range(count)]),
            "age": pa.array(np.clip(random.normal(38, 14, count), 16, 90).astype(np.int32)),
            "gender": pa.array(["female", "male"]).take(pa.array(random.integers(0, 2, count))),
        }
    )


def _places(kind: str, count: int) -> pa.Table:
    return pa.table({"number": np.arange(count), "name": [f"{kind}-{number:04}" for number in range(count)]})


def _edges(src: Ints, dst: Ints) -> pa.Table:
    return pa.table({"src": pa.array(src, pa.int64()), "dst": pa.array(dst, pa.int64())})


def _skewed(random: np.random.Generator, count: int, exponent: float) -> npt.NDArray[np.float64]:
    """Return probabilities that fall with the rank by a power law, with random ranks."""
    weights = random.permutation(np.arange(1, count + 1) ** -exponent)
    return np.asarray(weights / weights.sum(), np.float64)


def _follows(random: np.random.Generator, persons: int, wanted: int) -> tuple[Ints, Ints]:
    """Draw pairs in order of creation; some persons follow many, and a few are followed by very many."""
    eager = random.lognormal(0, 0.8, persons)
    sources, famous = eager / eager.sum(), _skewed(random, persons, 0.6)
    pairs = np.empty(0, np.int64)
    while len(pairs) < wanted:
        missing = int((wanted - len(pairs)) * 1.05) + 10
        src, dst = random.choice(persons, missing, p=sources), random.choice(persons, missing, p=famous)
        pairs = np.union1d(pairs, (src * persons + dst)[src != dst])
    drawn = random.permutation(pairs)[:wanted]
    return drawn // persons, drawn % persons


def _interests(random: np.random.Generator, persons: int) -> tuple[Ints, Ints]:
    """Draw one to five values for each person, without duplicates."""
    fans = np.repeat(np.arange(persons), random.integers(1, 6, persons))
    drawn = random.choice(INTERESTS, len(fans), p=_skewed(random, INTERESTS, 0.7))
    pairs = np.unique(fans * INTERESTS + drawn)
    return pairs // INTERESTS, pairs % INTERESTS


if __name__ == "__main__":
    wanted = Size(*(int(argument) for argument in sys.argv[1:]))
    print(stored_graph(wanted, default_directory()))
