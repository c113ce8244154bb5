"""`python -m bench.writer_child`: one of the writers of `bench/writers.py`, for as long as standard input stays open.

Every line of its input is a round, as JSON. It opens the store, commits one row to warm up, prints `ready`, waits for the
file `gate` in the directory, commits rows until the time is up, and prints the number of rows, its start and its end.
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
    """Create an empty store with these branches, or with these tables."""
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
    """Return the number of distinct keys in all places."""
    if system == "omnigraph":
        graph = og.connect(directory / "g", read_only=True)
        return sum(len(list(graph.export(place))) for place in places)
    if system == "LanceDB":
        tables = [_lancedb(directory).open_table(place) for place in places]
        return sum(len(set(table.to_arrow().column("name").to_pylist())) for table in tables)
    connection = _sqlite(directory, system)
    rows = sum(connection.execute(f'select count(*) from "{place}"').fetchone()[0] for place in places)
    connection.close()
    return int(rows)


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
        return lambda key: graph.mutate(INSERT, params={"name": key}, branch=place)
    if system == "LanceDB":
        table = _lancedb(directory).open_table(place)
        return lambda key: _upsert(table, key)
    connection = _sqlite(directory, system)
    statement = f'insert into "{place}" values (?, 1) on conflict (name) do update set age = 1'
    return lambda key: connection.execute(statement, (key,))


def _upsert(table: Any, key: str) -> None:
    row = pa.table({"name": [key], "age": pa.array([1], pa.int32())})
    table.merge_insert("name").when_matched_update_all().when_not_matched_insert_all().execute(row)


def _landed(commit: Commit, key: str) -> bool:
    """Try a commit once; True unless it lost against another process."""
    try:
        commit(key)
    except (Conflict, ExpectedVersionMismatch):
        return False
    except RuntimeError as error:  # LanceDB has no class of its own for it
        if "conflict" not in str(error).lower() and "concurrent" not in str(error).lower():
            raise
        return False
    return True


def run_round(system: str, directory: Path, place: str, number: int, seconds: float) -> dict[str, float]:
    commit = _writer(system, directory, place)
    while not _landed(commit, f"{number}-warm"):
        pass
    print("ready", flush=True)
    gate = directory / "gate"
    while not gate.exists():
        time.sleep(0.001)
    start = time.time()
    done = lost = 0
    while time.time() < start + seconds or not done:
        if _landed(commit, f"{number}-{done}"):
            done += 1
        else:
            lost += 1
    return {"start": start, "end": time.time(), "done": done, "lost": lost}


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        order["directory"] = Path(order["directory"])
        print(json.dumps(run_round(**order)), flush=True)


if __name__ == "__main__":
    main()
