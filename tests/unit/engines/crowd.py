"""A graph in which everybody knows everybody, questions about it, and what a process that asks them still holds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName

ENGINES: Final[tuple[EngineName, ...]] = ("datafusion", "duckdb")
CROWD: Final = 100
SCHEMA = """
node Person { key: String @key
  age: I32 }
edge Knows: Person -> Person
"""
ONE = 'query one() { match { $p: Person { key: "p7" } } return { $p.key, $p.age } }'
ALL = "query all() { match { $p: Person } return { $p.key } }"
NONE = "query none() { match { $p: Person $p.age > 1000 } return { $p.key, $p.age } }"
PAIRS = "query pairs() { match { $a: Person $a knows $b } return { $a.key, $b.age } }"
CHAINS = "query chains() { match { $a: Person $a knows $b $b knows $c $c knows $d } return { $d.age } }"
ENDLESS = "query endless() { match { $a: Person $b: Person $c: Person $d: Person } return { $d.age } }"
SORTED = "query s() { match { $a: Person $a knows $b $b knows $c $c knows $d } return { $d.age } order { $d.age } }"
_HOPS = "$a: Person $a knows $b $b knows $c $c knows $d $d knows $e"
LONG_CHAINS = f"query chains() {{ match {{ {_HOPS} }} return {{ $e.age }} }}"
"""Ten thousand million rows."""
SORTED_LONG_CHAINS = f"query chains() {{ match {{ {_HOPS} }} return {{ $e.age }} order {{ $e.age }} }}"


def make(path: Path, count: int = CROWD) -> og.Graph:
    """A few hops make more rows than anybody can wait for."""
    graph = og.init(path, SCHEMA)
    keys = [f"p{number}" for number in range(count)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array(range(count), pa.int32())})}, mode="append")
    ends = [(a, b) for a in keys for b in keys]
    graph.load({"Knows": pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]})}, mode="append")
    return graph


def usable(graph: og.Graph) -> None:
    for engine in ENGINES:
        assert graph.query(ONE, engine=engine).to_pylist() == [{"p.key": "p7", "p.age": 7}]


def comes_to_rest() -> bool:
    """True if this process stops working within a while."""
    return settles(lambda: _busy() < 0.02)


def settles(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def native_threads() -> int:
    return len(os.listdir("/proc/self/task")) if Path("/proc/self/task").exists() else threading.active_count()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def _busy() -> float:
    """Processor time of this process per second, measured for a moment."""
    before, started = time.process_time(), time.monotonic()
    time.sleep(0.1)
    return (time.process_time() - before) / (time.monotonic() - started)
