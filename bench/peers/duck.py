"""DuckDB with its own tables in a file: keys as primary keys, edges in the order of their sources, both ends indexed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from bench.peers import Answer
from bench.social import ENDS, NODES, Size, stored_tables
from bench.workloads import Workload

TABLES = {
    "Follows": "follows",
    "LivesIn": "lives_in",
    "CityIn": "city_in",
    "StateIn": "state_in",
    "HasInterest": "has_interest",
    **{name: name.lower() for name in NODES},
}


def prepare(size: Size, directory: Path) -> Path:
    file = directory / size.name / "data.duckdb"
    if not file.exists():
        draft = file.with_name("draft.duckdb")
        draft.unlink(missing_ok=True)
        tables = stored_tables(size, directory)
        with duckdb.connect(str(draft)) as database:
            for name in (*NODES, *ENDS):
                database.register("rows", tables[name])
                _fill(database, name)
                database.unregister("rows")
        draft.rename(file)
    return file


def _fill(database: duckdb.DuckDBPyConnection, name: str) -> None:
    table = TABLES[name]
    if name in NODES:
        database.execute(f"create table {table} as select number as id, * exclude number from rows order by number")
        database.execute(f"alter table {table} add primary key (id)")
    else:
        database.execute(f"create table {table} as select * from rows order by src, dst")
        for end in ("src", "dst"):
            database.execute(f"create index {table}_{end} on {table} ({end})")


class Opened:
    def __init__(self, size: Size, directory: Path) -> None:
        self._database = duckdb.connect(str(prepare(size, directory)), read_only=True)
        self._database.execute("set enable_progress_bar = false")

    def run(self, workload: Workload, parameters: Mapping[str, Any]) -> Answer:
        # A node's number is its id here; in our tables the id is the text of it.
        text = (workload.duckdb or workload.sql).replace(".number", ".id")
        return self._database.execute(text, dict(parameters)).fetchall()
