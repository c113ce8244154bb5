"""`python -m bench.writer_child SYSTEM DIRECTORY PLACE NUMBER COUNT`: one of the writers of `bench/writers.py`.

It says `ready`, waits for the file `gate` in the directory, commits COUNT rows, and says when it began and ended, as JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph_sql as og
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch

SCHEMA = "node Person { name: String @key  age: I32? }"
INSERT = "query q($name: String) { insert Person { name: $name, age: 1 } }"
SYSTEMS = ("omnigraph", "SQLite NORMAL", "SQLite FULL", "LanceDB")
Commit = Callable[[str], object]


def prepare(system: str, directory: Path, places: list[str]) -> None:
    """An empty store with these branches, or with these tables."""
    if system == "omnigraph":
        graph = og.init(directory / "g", SCHEMA)
        for place in places:
            if place != "main":
                graph.create_branch(place)
    elif system == "LanceDB":
        for place in places:
            _lancedb(directory).create_table(place, schema=pa.schema([("name", pa.string()), ("age", pa.int32())]))
    else:
        with _sqlite(directory, system) as connection:
            for place in places:
                connection.execute(f'create table "{place}" (name text primary key, age integer) without rowid')
        connection.close()


def count_rows(system: str, directory: Path, places: list[str]) -> int:
    """Distinct keys in all places."""
    if system == "omnigraph":
        graph = og.connect(directory / "g", read_only=True)
        return sum(len(list(graph.export(place))) for place in places)
    if system == "LanceDB":
        tables = [_lancedb(directory).open_table(place) for place in places]
        return sum(len(set(table.to_arrow().column("name").to_pylist())) for table in tables)
    connection = _sqlite(directory, system)
    found = sum(connection.execute(f'select count(*) from "{place}"').fetchone()[0] for place in places)
    connection.close()
    return int(found)


def _sqlite(directory: Path, system: str) -> sqlite3.Connection:
    connection = sqlite3.connect(directory / "db", timeout=120, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute(f"pragma synchronous={system.split(' ')[1]}")
    return connection


def _lancedb(directory: Path) -> Any:
    import lancedb

    return lancedb.connect(directory / "lancedb")


def _writer(system: str, directory: Path, place: str) -> Commit:
    if system == "omnigraph":
        graph = og.connect(directory / "g")
        return lambda key: _again(lambda: graph.mutate(INSERT, params={"name": key}, branch=place))
    if system == "LanceDB":
        table = _lancedb(directory).open_table(place)
        return lambda key: _again(lambda: _upsert(table, key))
    connection = _sqlite(directory, system)
    statement = f'insert into "{place}" values (?, 1) on conflict (name) do update set age = 1'
    return lambda key: connection.execute(statement, (key,))


def _upsert(table: Any, key: str) -> None:
    row = pa.table({"name": [key], "age": pa.array([1], pa.int32())})
    table.merge_insert("name").when_matched_update_all().when_not_matched_insert_all().execute(row)


def _again(commit: Callable[[], object]) -> None:
    """Repeat a commit that lost against another process."""
    while True:
        try:
            commit()
        except (Conflict, ExpectedVersionMismatch):
            continue
        except RuntimeError as error:  # LanceDB has no class of its own for it
            if "conflict" not in str(error).lower() and "concurrent" not in str(error).lower():
                raise
        else:
            return


def main(system: str, directory: str, place: str, number: str, count: str) -> None:
    commit = _writer(system, Path(directory), place)
    print("ready", flush=True)
    gate = Path(directory) / "gate"
    while not gate.exists():
        time.sleep(0.001)
    start = time.time()
    for each in range(int(count)):
        commit(f"{number}-{each}")
    print(json.dumps({"start": start, "end": time.time()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
