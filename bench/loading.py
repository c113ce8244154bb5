"""Bulk loads: validated and published, against only writing the same tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph_sql as og
from bench import people
from bench.measure import Sample, alternate
from omnigraph_sql.table_keys import TableKey


@dataclass(frozen=True)
class Comparison:
    """One workload: ours and a peer's, measured in turn."""

    workload: str
    ours: Sample
    peer: Sample
    target: float

    @property
    def ratio(self) -> float:
        return self.ours.median / self.peer.median


@dataclass(frozen=True)
class Child:
    """The measurements of a load in its own process."""

    records: int
    seconds: float
    before: int
    peak: int

    @property
    def per_second(self) -> float:
        return self.records / self.seconds


def bulk_loads(directory: Path, nodes: int, repeat: int) -> list[Comparison]:
    """Compare loads of Arrow tables and Parquet files."""
    data = people.tables(nodes)
    stored = _stored(directory, data)
    files = people.write_parquet(directory, data)
    stored_files = people.write_parquet(_created(directory / "stored"), stored)
    size = f"{nodes:,} nodes, {nodes * people.EDGES_PER_NODE:,} edges"
    compared = []
    for name, ours, peer in (
        ("Arrow tables", _load(directory, data), _write(directory, lambda: stored)),
        ("Parquet files", _load(directory, files), _write(directory, lambda: _read(stored_files))),
    ):
        mine, theirs = alternate(ours, peer, repeat=repeat)
        compared.append(Comparison(f"{name}: {size}", mine, theirs, 3.0))
    return compared


def jsonl_loads(directory: Path, nodes: int, repeat: int) -> list[Child]:
    """Load the same data as JSONL, each time in a new process."""
    file = directory / "people.jsonl"
    people.write_jsonl(file, nodes)
    children = [load_in_child(directory, file) for _ in range(repeat)]
    file.unlink()
    return children


def load_in_child(directory: Path, file: Path) -> Child:
    root = directory / "child"
    command = [sys.executable, "-m", "bench.load_child", str(root), str(file)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    shutil.rmtree(root)
    return Child(**json.loads(done.stdout))


def _created(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _load(directory: Path, data: Any) -> Callable[[int], object]:
    def run(number: int) -> Callable[[], None]:
        graph = og.init(directory / f"graph-{number}", people.SCHEMA)
        graph.load(data, mode="append")
        return lambda: shutil.rmtree(graph.uri)

    return run


def _write(directory: Path, tables: Callable[[], dict[str, pa.Table]]) -> Callable[[int], object]:
    def run(number: int) -> Callable[[], None]:
        root = directory / f"bare-{number}"
        for name, table in tables().items():
            write_table(root / name, table)
        return lambda: shutil.rmtree(root)

    return run


def write_table(path: Path, table: pa.Table) -> lance.LanceDataset:
    """Write a bare Lance table with the settings of the store."""
    return lance.write_dataset(table, str(path), enable_stable_row_ids=True, data_storage_version="2.2")


def stored_table(graph: og.Graph, key: str) -> Path:
    return Path(graph.uri) / graph.snapshot().entries[key].path


def _stored(directory: Path, data: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the tables as a load writes them, with ids."""
    graph = og.init(directory / "first", people.SCHEMA)
    graph.load(data, mode="append")
    stored = {key: lance.dataset(str(stored_table(graph, key))).to_table() for key in ("node:Person", "edge:Knows")}
    shutil.rmtree(graph.uri)
    return {TableKey(key).name: table for key, table in stored.items()}


def _read(files: dict[str, Path]) -> dict[str, pa.Table]:
    return {name: pq.read_table(path) for name, path in files.items()}
