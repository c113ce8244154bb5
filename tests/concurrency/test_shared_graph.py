"""One `Graph` for many threads: whatever some of them change, the others go on reading."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch
from tests.stores import Place

SCHEMA = """
node Port { code: String @key  depth: I64?  note: String? @index  place: Vector(2)? @index }
edge Lane: Port -> Port
"""
READS: dict[str, Callable[[og.Graph], Any]] = {
    "export": lambda graph: list(graph.export()),
    "sql": lambda graph: graph.sql("select count(*) as n, max(depth) as d from Port").to_pylist(),
    "duckdb": lambda graph: graph.sql("select depth from Port", engine="duckdb").to_pylist(),
    "count": lambda graph: graph.query("query q() { match { $p: Port } return { count($p) as n } }").to_pylist(),
    "hops": lambda graph: graph.query(
        "query q() { match { $p: Port $p lane $q } return { $p.code, $q.code } order { $q.code } limit 3 }"
    ).to_pylist(),
    "text": lambda graph: graph.query(
        'query q() { match { $p: Port search($p.note, "deep") } return { $p.code } limit 3 }'
    ).to_pylist(),
    "near": lambda graph: graph.query(
        "query q() { match { $p: Port } return { $p.code } order { nearest($p.place, [0.0, 1.0]) } limit 3 }"
    ).to_pylist(),
    "entity": lambda graph: graph.entity_at("node:Port", "p0"),
    "diff": lambda graph: graph.diff(graph.snapshot().commit_id, "main"),
}


def record(code: str) -> str:
    return json.dumps({"type": "Port", "data": {"code": code, "depth": 1, "note": f"deep {code}", "place": [1.0, 2.0]}})


def lane(code: str) -> str:
    return json.dumps({"edge": "Lane", "from": "p0", "to": code})


def branch(graph: og.Graph, number: int) -> None:
    name = f"draft-{number}"
    graph.create_branch(name)
    graph.load([record(f"on branch {number}")], mode="merge", branch=name)
    graph.query("query q() { match { $p: Port } return { count($p) as n } }", branch=name)
    graph.delete_branch(name)


def table(graph: og.Graph, number: int) -> None:
    tables = graph.tables()
    tables.create_table("own", f"T{number}", pa.table({"a": [1, 2]}))
    tables.append("own", f"T{number}", pa.table({"a": [3]}))
    tables.drop("own", f"T{number}")


def staged(graph: og.Graph, number: int) -> None:
    load = graph.stage([record(f"staged {number}")], mode="append")
    with graph.preview(load) as preview:
        preview.sql("select count(*) as n from Port")
    graph.publish(load)


def cleanup(graph: og.Graph, number: int) -> None:
    graph.cleanup(keep=40, dry_run=number % 3 == 2)


WRITES: dict[str, Callable[[og.Graph, int], Any]] = {
    "append": lambda graph, number: graph.load([record(f"a{number}"), lane("p0")], mode="append"),
    "merge": lambda graph, number: graph.load([record(f"m{number % 5}")], mode="merge"),
    "update": lambda graph, number: graph.mutate(f'query q() {{ update Port set {{ depth: {number} }} where code = "p0" }}'),
    "delete": lambda graph, number: graph.mutate(f'query q() {{ delete Port where code = "a{number}" }}'),
    "indices": lambda graph, number: graph.ensure_indices(lance_text=number % 2 == 0),
    "cleanup": cleanup,
    "branch": branch,
    "table": table,
    "staged": staged,
}


def run(graph: og.Graph, seconds: float) -> tuple[Counter[str], list[str]]:
    """Reads and writes of all kinds on one graph. How often each was done, and what went wrong."""
    done: Counter[str] = Counter()
    failures: list[str] = []
    end = time.monotonic() + seconds

    def loop(name: str, act: Callable[[int], Any], refusals: tuple[type[BaseException], ...]) -> None:
        for number in count():
            if time.monotonic() > end and number:
                return
            try:
                act(number)
            except refusals:  # another writer was first: that is an answer
                continue
            except BaseException as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
                return
            done[name] += 1

    def reader(read: Callable[[og.Graph], Any]) -> Callable[[int], Any]:
        return lambda _: read(graph)

    def writer(write: Callable[[og.Graph, int], Any]) -> Callable[[int], Any]:
        return lambda number: write(graph, number)

    threads = [threading.Thread(target=loop, args=(name, reader(read), ())) for name, read in READS.items()]
    refusals = (Conflict, ExpectedVersionMismatch)
    threads += [threading.Thread(target=loop, args=(name, writer(write), refusals)) for name, write in WRITES.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done, failures


def check(place: Place, seconds: float) -> None:
    graph = og.init(place / "g", SCHEMA)
    graph.tables().create_schema("own")
    graph.load([*map(record, (f"p{number}" for number in range(300))), *(lane(f"p{n}") for n in range(50))], mode="append")

    done, failures = run(graph, seconds)

    assert failures == []
    assert set(done) >= set(READS) | {"append", "indices"}


def test_threads_that_share_a_graph_read_while_others_change_it(place: Place) -> None:
    check(place, 4)


@pytest.mark.slow
def test_threads_that_share_a_graph_for_long(place: Place) -> None:
    check(place, 90)
