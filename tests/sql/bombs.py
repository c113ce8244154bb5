"""Statements that ask for too much, one per line of defence, and a process that runs one of them.

`python -m tests.sql.bombs URI ENGINE NAME` runs one with a limited address space and says what came of it.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

from omnigraph_sql.choices import EngineName

ADDRESS_SPACE = 8 << 30
MEMORY = 64 << 20
SECONDS = 3.0


def chain(piece: str, sign: str, count: int, start: str = "select ") -> str:
    return start + sign.join([piece] * count)


def doubling(first: str, step: str, count: int) -> str:
    """Common table expressions, each of which reads the one before it; `step` has `{last}` for its name."""
    tables = [f"c0 as ({first})", *(f"c{n} as ({step.format(last=f'c{n - 1}')})" for n in range(1, count))]
    return f"with {', '.join(tables)} select count(*) as n from c{count - 1}"


def nested(opening: str, inner: str, closing: str, count: int) -> str:
    return f"select {opening * count}{inner}{closing * count} as x"


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# Each with its text, and parameters if it has any. What is in `SLICE` runs in every run of the tests.
BOMBS: dict[str, tuple[str, dict[str, Any]]] = {
    "minus": (chain("1", "-", 20_000), {}),
    "minus of columns": (chain("x", "-", 3_000) + " from (values (1)) t(x)", {}),
    "or": (chain("1=2", " or ", 5_000, "select 1 where "), {}),
    "concat": (chain("'a'", "||", 5_000), {}),
    "not": (f"select {'not ' * 30_000} true", {}),
    "casts": (f"select 1{'::int' * 5_000}", {}),
    "union all": (" union all ".join(["select 1"] * 5_000), {}),
    "except": (" except ".join(["select 1"] * 3_000), {}),
    "joins": ("select 1 from " + ", ".join(f"(select 1) t{n}" for n in range(400)), {}),
    "subqueries": (chain("1 in (select 1)", " and ", 400, "select 1 where "), {}),
    "windows": ("select " + ", ".join(f"sum(k) over (order by k || '{n}')" for n in range(1_000)) + " from P", {}),
    "cube": (f"select 1 from P group by cube({', '.join(f'k || {n}' for n in range(24))})", {}),
    "brackets": (nested("(", "1", ")", 10_000), {}),
    "calls": (nested("abs(", "1", ")", 5_000), {}),
    "cases": (nested("case when true then ", "1", " end", 5_000), {}),
    "quoted brackets": ("select `'`" + nested("(", "1", ")", 5_000) + "`'`", {}),
    "table expressions": (doubling("select * from P", "select * from {last}", 2_000), {}),
    "doubling": (doubling("select 1 as x", "select a.x from {last} a, {last} b", 24), {}),
    "doubling texts": (doubling("select 'x' as s", "select s || s as s from {last}", 36), {}),
    "long": ("select '" + "x" * (3 << 20) + "'", {}),
    "lists of lists": (f"select cast(null as int{'[]' * 50_000}) as x", {}),
    "signs": ("," * (2 << 20), {}),
    "many words": ("select " + "1," * 300_000 + "1", {}),
    "nested repeat": (nested("repeat(", "'xxxxxxxxxx'", ", 100)", 5), {}),
    "repeat": ("select length(repeat('x', 1000000000)) as n", {}),
    "repeat by a column": ("select length(repeat(k, n)) as n from P, (values (2000000000)) t(n)", {}),
    "repeat a parameter": ("select length(repeat($t, 100)) as n", {"t": "x" * (60 << 20)}),
    "replace": ("select length(replace(repeat('x', 30000000), 'x', 'yyyyyyyyyy')) as n", {}),
    "deep parameter": ("select $p as x", {"p": deep(100_000)}),
    "wide parameter": ("select $p as x", {"p": [0] * 1_500_000}),
    "product": ('select count(*) as n from "P" a, "P" b, "P" c, "P" d, "P" e where a.k < b.k or c.k < d.k or d.k < e.k', {}),
    "or of columns": (" or ".join(f"k = '{n}'" for n in range(60)).join(["select count(*) as n from P where ", ""]), {}),
    "gq": ("select count(*) as n from gq('query q() { match { $a: P $b: P } return { $a.k, $b.k } }')", {}),
}
ONE_ENGINE: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "datafusion": {
        "lpad": ("select length(lpad('x', 2000000000, ' ')) as n", {}),
        "repeat in all rows": ("select length(string_agg(repeat('x', 100000), '')) as n from P a, P b, P c", {}),
        "replace in all rows": (
            "select count(distinct replace('xxxxxxxxxx', 'x', repeat('y', 10000))) as n from P a, P b, P c",
            {},
        ),
        "concat of repeat": (
            "with a as (select repeat('x', 1000000) as s), b as (select s||s||s||s||s||s||s||s as s from a), "
            "c as (select s||s||s||s||s||s||s||s as s from b), d as (select s||s||s||s||s||s||s||s as s from c), "
            "e as (select s||s||s||s||s||s||s||s as s from d) select length(s||s||s||s||s||s||s||s) as n from e",
            {},
        ),
        "concat_ws of repeat": (
            "select sum(length(concat_ws(repeat('x', 50000), a.k, b.k, c.k, a.k, b.k, c.k, a.k))) as n from P a, P b, P c",
            {},
        ),
        "nested array_repeat": ("select array_repeat(array_repeat(array_repeat(1, 1000), 1000), 1000) as x", {}),
        "array_repeat of array_repeat": (
            "with a as (select array_repeat(1, 1000) x), b as (select array_repeat(x, 1000) x from a)"
            " select array_repeat(x, 1000) from b",
            {},
        ),
        "types in a text": (f"select arrow_cast(null, '{'List(' * 60_000}Int64{')' * 60_000}') as x", {}),
        "array_repeat": ("select array_length(array_repeat(1, 2000000000)) as n", {}),
    },
    "duckdb": {
        "lpad": ("select length(lpad('x', 2000000000, ' ')) as n", {}),
        "texts": ("select string_agg(repeat('x', 1000000), '') as s from range(10000)", {}),
        "lists": ("select list(repeat('x', 1000000)) as s from range(10000)", {}),
    },
}
SLICE = (
    *("minus", "except", "doubling", "nested repeat", "deep parameter", "or of columns", "lists of lists"),
    *("types in a text", "nested array_repeat", "repeat in all rows", "concat of repeat"),
)
MAY_ANSWER = frozenset(
    ("doubling", "quoted brackets", "long", "or of columns", "casts", "table expressions", "nested repeat")
)


def bombs_of(engine: EngineName) -> dict[str, tuple[str, dict[str, Any]]]:
    return BOMBS | ONE_ENGINE[engine]


def main(uri: str, engine: Any, name: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import omnigraph_sql as og

    text, params = bombs_of(engine)[name]
    with og.connect(uri, read_only=True) as graph:
        graph.sql("select count(*) as n from P", engine=engine).to_arrow()  # what is imported first does not count
        try:
            graph.sql(text, params, engine=engine, timeout=SECONDS, memory_limit=MEMORY).to_arrow()
            print("answered", flush=True)
        except og.errors.OmnigraphError as error:
            print(type(error).__name__, flush=True)
        # The process that served it goes on.
        print(graph.sql("select 1 as one", engine=engine).to_pylist()[0]["one"], flush=True)
        os._exit(0)  # an engine that is still at work is nobody's business here


if __name__ == "__main__":
    main(*sys.argv[1:])
