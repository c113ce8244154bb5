"""Texts that are far larger than any real one: refused in time, by name, and never by a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_compiler import compile_query, compile_schema
from omnigraph_compiler.diagnostics import CompileError
from omnigraph_compiler.format.query import format_queries
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, Compile, ResourceLimit
from tests.internals import cached_plans

SCHEMA = "node T { k: String @key n: I32? tags: [String]? } edge E: T -> T"
hangs = pytest.mark.hangs_after(60)
"""Without bounds these refusals take many minutes, or never come."""


def query(match: str = "$t: T", items: str = "$t.k", rest: str = "", params: str = "") -> str:
    return f"query q({params}) {{ match {{ {match} }} return {{ {items} }} {rest} }}"


def star(count: int) -> str:
    return query("$a: T " + " ".join(f"$a e $b{number}" for number in range(count)), "$a.k")


def chain(count: int) -> str:
    return query("$a0: T " + " ".join(f"$a{number} e $a{number + 1}" for number in range(count)), "$a0.k")


LARGE = {
    "traversals of a chain": (chain(65), "66 bindings and traversals; at most 64"),
    "traversals of a star": (star(5_000), "at most 64"),
    "bindings": (query(" ".join(f"$a{number}: T" for number in range(65)), "$a0.k"), "65 bindings and traversals"),
    "traversals inside of not": (query("$t: T " + "not { $t e $_ $t e $_ } " * 40), "bindings and traversals; at most 64"),
    "filters": (query("$t: T " + "$t.n != 1 " * 513), "513 conditions; at most 512"),
    "matches": (query("$t: T { " + "n: 1, " * 513 + "}"), "513 conditions; at most 512"),
    "not blocks in each other": (query("$t: T " + "not { $t e $_ " * 9 + "}" * 9), "more than 8 deep"),
    "items": (query(items=", ".join(f"$t.k as a{number}" for number in range(1_025))), "1025 items in `return`"),
    "sort keys": (query(rest="order { " + ", ".join(["$t.k"] * 65) + " }"), "65 sort keys; at most 64"),
    "parameters": (query(params=", ".join(f"$p{number}: I64?" for number in range(1_025))), "1025 parameters"),
    "statements": (
        "query q() { " + " ".join(f'insert T {{ k: "k{number}" }}' for number in range(8_193)) + " }",
        "8193 statements; at most 8192",
    ),
    "tokens": (query("$t: T [" + ",".join(["1"] * 300_000) + "] contains $t.n"), "more than 250000 tokens"),
    "comments": ("/**/" * 600_000 + query(), "more than 250000 tokens"),
    "characters": (query(f'$t: T $t.k = "{"x" * (4 << 20)}"'), "characters; at most 4194304"),
    "brackets": ("{" * 100_000, ""),
    "lists": (query("$t: T " + "[" * 100_000 + "]" * 100_000 + " contains 1"), "nested more than 100"),
    "calls": (query(items="count(" * 80_000 + "$t" + ")" * 80_000), "nested more than 100"),
    "digits": (query(rest="limit " + "9" * 100_000), "does not fit in 64 bits"),
    "a text without an end": (query('$t: T $t.k = "' + "\\\\" * 500_000), "never ends"),
    "a name": (query(items="$t." + "k" * 1_000_000), "has no property"),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("large") / "g", SCHEMA) as graph:
        rows = [{"type": "T", "data": {"k": str(number), "n": number}} for number in range(5)]
        graph.load(map(json.dumps, rows), mode="append")
        yield graph


@hangs
@pytest.mark.parametrize("kind", LARGE)
def test_a_query_that_is_too_large_is_refused_by_name(graph: og.Graph, kind: str) -> None:
    text, fragment = LARGE[kind]
    for ask in (graph.query, graph.mutate):
        with pytest.raises(Compile) as caught:
            ask(text)
        assert fragment in str(caught.value)
        assert len(str(caught.value)) < 1_000


@hangs
@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "node T { k: enum(" + "(" * 100_000,
        "@" * 100_000,
        "/**/" * 600_000,
        'node T @description("' + "x" * (5 << 20) + '") { k: String }',
        "node T { " + " ".join(f"p{number}: String?" for number in range(90_000)) + " }",
        'node T { k: String @check(k, "' + "(" * 100_000 + ")" * 100_000 + '") }',
        'node T { k: String @check(k, "' + "(?:" * 100_000 + '") }',
    ],
    ids=["braces", "parentheses", "signs", "comments", "characters", "tokens", "groups", "open groups"],
)
def test_a_schema_that_is_too_large_is_refused(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_schema(text)
    assert caught.value.error_class == "parse"
    with pytest.raises(CompileError):
        format_queries(text)


def test_the_largest_patterns_run(graph: og.Graph) -> None:
    assert graph.query(chain(63)).to_pylist() == []
    assert graph.query(query("$t: T " + "$t.n != 1 " * 512)).to_arrow().num_rows == 4
    deep = query("$t: T " + "not { $t e $_ " * 8 + "}" * 8)
    assert compile_query(graph.catalog, deep).columns


# Time


@pytest.mark.parametrize("text", [star(63), query("$t: T [" + ",".join(["1"] * 120_000) + "] contains $t.n")])
@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_compiling_and_planning_count_towards_the_timeout(graph: og.Graph, text: str, engine: EngineName) -> None:
    graph.query(query(), engine=engine).to_pylist()  # whatever is imported is there
    planned = cached_plans(graph, engine)
    with pytest.raises(ResourceLimit, match=r"did not finish within 0\.1 seconds") as caught:
        graph.query(text, engine=engine, timeout=0.1)
    assert caught.value.resource == "time"
    assert cached_plans(graph, engine) == planned, "the plan was not finished"


def test_an_explanation_has_a_timeout_for_its_planning(graph: og.Graph) -> None:
    with pytest.raises(ResourceLimit, match="did not finish within"):
        graph.explain(star(62), timeout=0.05)


# Parameters


def test_values_that_are_nested_deeply_are_refused(graph: og.Graph) -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    text = query("$t: T $t.tags contains $s", params="$s: String, $l: [String]?")
    for params in ({"s": nested}, {"s": "a", "l": nested}, {"s": {"a": nested}}):
        with pytest.raises(BadRequest, match=r"^param "):
            graph.query(text, params)
    insert = 'query q($l: [String]) { insert T { k: "x", tags: $l } }'
    with pytest.raises(BadRequest, match=r"^param 'l'"):
        graph.mutate(insert, {"l": nested})
    while nested:  # to free it at once would need as many levels of the stack
        (nested,) = nested or ([],)  # type: ignore[assignment]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_json_that_is_nested_deeply_is_refused_by_gq_in_sql(graph: og.Graph, engine: EngineName) -> None:
    text = f"select * from gq('{query()}', '{'[' * 100_000}')"
    with pytest.raises(og.errors.OmnigraphError):
        graph.sql(text, engine=engine).to_pylist()


def test_a_file_of_another_program_is_no_query(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "q.gq"
    path.write_bytes(b"PAR1" + bytes(range(1, 127)) * 1_000)
    with pytest.raises(Compile):
        graph.query(path)
