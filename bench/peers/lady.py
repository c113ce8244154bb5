"""LadybugDB with its own tables in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ladybug

from bench.peers import Answer
from bench.social import ENDS, NODES, Size, stored_tables
from bench.workloads import Workload

_TYPES = {"int64": "INT64", "int32": "INT32", "string": "STRING"}


def prepare(size: Size, directory: Path) -> Path:
    home = directory / size.name
    file = home / "data.ladybug"
    if not file.exists():
        draft = home / "draft.ladybug"
        for leftover in home.glob("draft.ladybug*"):
            leftover.unlink()
        tables = stored_tables(size, directory)
        database = ladybug.Database(str(draft))
        connection = ladybug.Connection(database)
        for name in (*NODES, *ENDS):
            columns = [f"{field.name} {_TYPES[str(field.type)]}" for field in tables[name].schema]
            connection.execute(_create(name, columns))
            connection.execute(f'copy {name} from "{home / "parquet" / name}.parquet"')
        connection.execute("checkpoint")
        connection.close()
        database.close()
        draft.rename(file)
    return file


def _create(name: str, columns: list[str]) -> str:
    if name in NODES:
        return f"create node table {name}({', '.join(columns)}, primary key (number))"
    source, target = ENDS[name]
    return f"create rel table {name}({', '.join([f'from {source} to {target}', *columns[2:]])})"


class Opened:
    def __init__(self, size: Size, directory: Path) -> None:
        self._database = ladybug.Database(str(prepare(size, directory)), read_only=True)
        self._connection = ladybug.Connection(self._database)

    def run(self, workload: Workload, parameters: Mapping[str, Any]) -> Answer:
        result = self._connection.execute(workload.cypher, dict(parameters))
        if isinstance(result, list):
            raise TypeError(f"{workload.name}: expected one statement")
        return [tuple(row) for row in result.get_all()]
