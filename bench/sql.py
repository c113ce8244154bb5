"""SQL over the tables of a graph, against the engines over the same Lance tables registered by hand."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
from datafusion import SessionContext
from lance import FFILanceTableProvider

import omnigraph_sql as og
from bench.measure import Sample, alternate, markdown, shown
from bench.social import Size, default_directory, stored_graph
from omnigraph_sql.choices import EngineName
from omnigraph_sql.table_keys import TableKey

INTRO = (
    "SQL over the tables of a graph. The peers are DataFusion and DuckDB themselves, over the same Lance tables, each "
    "registered by hand before anything is measured. Both run in one process and alternate; answers are compared. A process "
    "may be lucky with its memory for as long as it lasts, so the times of several are taken together. The ratio "
    "is our median by the peer's; the target is 1.1. Then what it takes to attach a graph with 100 types to a session that "
    "is there, and what a join of two branches takes, by the rows of the tables joined."
)
PACKAGES = ("omnigraph-sql", "pylance", "datafusion", "duckdb", "pyarrow")
REPEAT = 20
PROCESSES = 6
TYPES = 100

STATEMENTS = {
    "persons by age": 'select age, count(*) as n from "Person" group by age order by age',
    "follows since 2015, counted": 'select count(*) as n from "Follows" where since > 2015',
    "the ten most followed": 'select dst, count(*) as n from "Follows" group by dst order by n desc, dst limit 10',
    "persons and cities, joined": (
        'select c.name, count(*) as n, avg(p.age) as age from "Person" p join "LivesIn" l on l.src = p.id '
        'join "City" c on c.id = l.dst where p.age < 40 group by c.name order by n desc, c.name limit 10'
    ),
    "one person by id": "select name, age from \"Person\" where id = '4242'",
    "all names": 'select name from "Person"',
}
TITLES: dict[EngineName, str] = {"datafusion": "DataFusion", "duckdb": "DuckDB"}


@dataclass(frozen=True)
class Peers:
    """The engines with the tables of a graph registered by hand."""

    fusion: SessionContext
    duck: duckdb.DuckDBPyConnection

    @classmethod
    def of(cls, graph: og.Graph) -> Peers:
        snapshot = graph.snapshot()
        datasets = {
            TableKey(key).name: lance.dataset(f"{graph.uri}/{entry.path}", version=entry.version)
            for key, entry in snapshot.entries.items()
        }
        fusion, duck = SessionContext(), duckdb.connect()
        for name, dataset in datasets.items():
            fusion.register_table(f'"{name}"', FFILanceTableProvider(dataset))
            duck.register(name, dataset)
        return cls(fusion, duck)


def run(options: argparse.Namespace) -> str:
    """Measure, and return the tables of the report."""
    directory = options.data or default_directory()
    stored_graph(Size(), directory)
    runs = [_in_process(directory) for _ in range(PROCESSES)]
    tables = []
    for engine in TITLES.values():
        lines = [_line(name, [times[f"{engine}: {name}"] for times in runs]) for name in STATEMENTS]
        head = ["statement", "omnigraph", engine, "ratio", "target", "met"]
        tables.append(f"## On {engine}\n\n{markdown(head, lines)}")
    graph = og.connect(stored_graph(Size(), directory))
    tables.append(f"## Attaching a graph with {TYPES} types\n\n{_attaching()}")
    tables.append(f"## Two branches, joined\n\n{_branches(graph)}")
    return "\n\n".join(tables)


def _fusion(session: SessionContext) -> Callable[[str], pa.Table]:
    return lambda text: session.sql(text).to_arrow_table()


def _duck(connection: duckdb.DuckDBPyConnection) -> Callable[[str], pa.Table]:
    return lambda text: connection.sql(text).to_arrow_table()


def _in_process(directory: Path) -> dict[str, list[list[float]]]:
    """Return the times of all statements, ours and the peer's, from a new process."""
    command = [sys.executable, "-m", "bench.sql", str(directory)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # type: ignore[no-any-return]


def main(directory: str) -> None:
    """Measure all statements, and print the times."""
    graph = og.connect(stored_graph(Size(), Path(directory)))
    peers = Peers.of(graph)
    times = {}
    engines: dict[EngineName, Any] = {"datafusion": _fusion(peers.fusion), "duckdb": _duck(peers.duck)}
    for engine, ask in engines.items():
        for name, text in STATEMENTS.items():
            times[f"{TITLES[engine]}: {name}"] = _compared(graph, engine, text, ask)
    print(json.dumps(times))


def _compared(graph: og.Graph, engine: EngineName, text: str, ask: Callable[[str], pa.Table]) -> list[list[float]]:
    our_rows, peer_rows = graph.sql(text, engine=engine).to_arrow(), ask(text)
    assert _rows(our_rows, text) == _rows(peer_rows, text), text

    def ours(_: int) -> None:
        graph.sql(text, engine=engine).to_arrow()

    def theirs(_: int) -> None:
        ask(text)

    return [list(sample.times) for sample in alternate(ours, theirs, repeat=REPEAT, warm_up=3)]


def _line(name: str, runs: list[list[list[float]]]) -> list[str]:
    mine, peer = (Sample(tuple(time for times in runs for time in times[which])) for which in (0, 1))
    ratio = mine.median / peer.median
    return [name, shown(mine), shown(peer), f"{ratio:.2f}", "≤ 1.1", "yes" if ratio <= 1.1 else "no"]


def _rows(table: pa.Table, text: str) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return rows if "order by" in text else sorted(rows)


def _attaching() -> str:
    schema = "\n".join(f"node T{number} {{ k: String @key  a: I64?  b: String?  c: F64? }}" for number in range(TYPES))
    with tempfile.TemporaryDirectory() as place, og.init(Path(place) / "graph", schema) as graph:
        graph.sql("select 1")
        graph.sql("select 1", engine="duckdb")
        lines = []
        for name, open_session in (("DataFusion", SessionContext), ("DuckDB", duckdb.connect)):
            taken = []
            for _ in range(15):
                session = open_session()
                start = time.perf_counter()
                graph.attach(session)
                taken.append((time.perf_counter() - start) * 1000)
            sample = Sample(tuple(taken[2:]))
            lines.append([name, shown(sample), "< 50 ms", "yes" if sample.median < 50 else "no"])
        return markdown(["session", "attach ms", "target", "met"], lines)


def _branches(graph: og.Graph) -> str:
    """Measure a join of two branches, with the tables that it reads."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(graph.uri, Path(place) / "graph")
        with og.connect(Path(place) / "graph") as copy:
            copy.create_branch("draft")
            lines = []
            for name in ("Country", "City", "Person", "Follows"):
                text = f'select count(*) as n from "{name}" m join draft."{name}" d on d.id = m.id'
                rows = copy.sql(text).to_pylist()[0]["n"]
                (sample,) = alternate(partial(_asked, copy, text), repeat=7)
                lines.append([name, f"{rows:,}", shown(sample), f"{sample.median / rows * 1000:.2f}"])
            return markdown(["table", "rows", "ms", "µs a row"], lines)


def _asked(graph: og.Graph, text: str, _: int) -> None:
    graph.sql(text).to_arrow()


if __name__ == "__main__":
    main(sys.argv[1])
