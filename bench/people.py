"""The data of the store's benchmarks: people who know each other, as Arrow tables, Parquet files and JSONL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  joined: Date?
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: I32?  weight: F64? }
"""
NODES = 100_000
EDGES_PER_NODE = 24
_CHUNK = 50_000
_CITIES = 500
_MEAN_RECORD = 101
"""The mean size of a record in the JSONL file, in bytes."""


def person(number: int) -> str:
    return f"person-{number:07}"


def tables(nodes: int, edges_per_node: int = EDGES_PER_NODE) -> dict[str, pa.Table]:
    """`nodes` people and 24 times as many edges, or another number, the same on every run."""
    random = np.random.default_rng(7)
    names = pa.array([person(number) for number in range(nodes)])
    cities = pa.array([f"city-{number}" for number in range(_CITIES)])
    people = {
        "name": names,
        "age": pa.array(random.integers(0, 100, nodes), pa.int32()),
        "city": cities.take(pa.array(random.integers(0, _CITIES, nodes))),
        "joined": pa.array(random.integers(10_000, 20_000, nodes), pa.int32()).cast(pa.date32()),
    }
    edges = nodes * edges_per_node
    knows = {
        "src": names.take(pa.array(random.integers(0, nodes, edges))),
        "dst": names.take(pa.array(random.integers(0, nodes, edges))),
        "since": pa.array(random.integers(1990, 2025, edges), pa.int32()),
        "weight": pa.array(random.integers(0, 1000, edges) / 1000),
    }
    return {"Person": pa.table(people), "Knows": pa.table(knows)}


def write_parquet(directory: Path, data: dict[str, pa.Table]) -> dict[str, Path]:
    paths = {name: directory / f"{name}.parquet" for name in data}
    for name, path in paths.items():
        pq.write_table(data[name], path)
    return paths


def write_jsonl(path: Path, nodes: int) -> int:
    """Write the people and their edges as load records, and return the number of records."""
    random = np.random.default_rng(7)
    edges = nodes * EDGES_PER_NODE
    with path.open("w", encoding="utf-8") as stream:
        lines = _people(nodes)
        while part := list(islice(lines, _CHUNK)):
            stream.writelines(part)
        for start in range(0, edges, _CHUNK):
            size = min(_CHUNK, edges - start)
            ends = random.integers(0, nodes, (2, size)).tolist()
            values = random.integers(0, 1000, size).tolist()
            stream.writelines(_edge(*row) for row in zip(*ends, values, strict=True))
    return nodes + edges


def nodes_for(size: int) -> int:
    """Return the number of people that make a JSONL file of about so many bytes."""
    return max(size // (_MEAN_RECORD * (1 + EDGES_PER_NODE)), 1)


def _people(nodes: int) -> Iterator[str]:
    for number in range(nodes):
        properties = (
            f'"age":{number % 100},"city":"city-{number % _CITIES}","joined":"20{number % 24:02}-05-{number % 28 + 1:02}"'
        )
        yield f'{{"type":"Person","data":{{"name":"{person(number)}",{properties}}}}}\n'


def _edge(source: int, target: int, value: int) -> str:
    ends = f'"from":"{person(source)}","to":"{person(target)}"'
    return f'{{"edge":"Knows",{ends},"data":{{"since":{1990 + value % 35},"weight":0.{value:03}}}}}\n'
