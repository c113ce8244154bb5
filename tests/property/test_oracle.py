"""Laws of read queries that the oracle must obey, and of plans that must agree with it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import omnigraph_sql as og
from omnigraph_compiler import PropType, compile_query, compile_schema
from omnigraph_sql.errors import Configuration
from tests.property.agreement import Rows, answered, check_agreement, shown_columns, without_now
from tests.property.graph_strategies import GraphCase, ReadCase, read_cases
from tests.property.laws import law
from tests.property.layout import Layout
from tests.property.model import schema_tokens
from tests.property.oracle import Answer, Embedder, OracleGraph, disagreement, evaluate
from tests.property.plan_runner import run_plan
from tests.property.query_model import Clause, Item, QueryCase, Tokens, reordered

QUICK, LONG = 80, 500
_STRING = PropType("String")


def plan(case: ReadCase) -> tuple[list[str], Rows]:
    answer = run_plan(case.graph.oracle(case.catalog), case.text, None, case.params)
    return shown_columns(answer), answer.to_json()


def changed(case: ReadCase, **members: Any) -> ReadCase:
    """The case with another query."""
    return dataclasses.replace(case, query=dataclasses.replace(case.query, **members))


def bag(answer: Answer) -> Counter[str]:
    """The rows without their order."""
    return Counter(repr(row) for row in answer.rows)


def plain(case: ReadCase, *clauses: Clause) -> ReadCase:
    """The case with other clauses, returning the ids of all variables in no order."""
    hidden = {name for name, _ in case.query.params}
    variables = [name for name, _ in case.query.variables if name not in hidden]
    items = [Item((f"${name}",), _STRING, name, variable=name) for name in variables] or [Item(("1",), _STRING, "literal")]
    return changed(case, clauses=clauses, items=tuple(items), order=(), limit=None)


def bindings(query: QueryCase) -> tuple[Clause, ...]:
    return tuple(Clause("binding", (f"${name}", ":", type_)) for name, type_ in query.variables)


def negated(*clauses: Clause) -> Clause:
    return Clause("negation", ("not", "{", *(token for clause in clauses for token in clause.tokens), "}"))


def is_condition(clause: Clause, query: QueryCase) -> bool:
    """Whether a clause only keeps or drops rows, and says something about a variable."""
    if clause.kind == "traversal":
        return "$_" not in clause.tokens and ":" not in clause.tokens
    return clause.kind in ("filter", "text") and _reads_a_variable(clause.tokens, query)


def _reads_a_variable(tokens: Tokens, query: QueryCase) -> bool:
    names = {f"${name}" for name, _ in query.variables}
    return any(token in names and after == "." for token, after in pairwise(tokens))


# Engines ---------------------------------------------------------------------------------------------------------


@law(read_cases(), quick=250, long=2_000)
def test_plans_mean_what_queries_mean(case: ReadCase) -> None:
    check_agreement(case, plan)


@law(read_cases(), quick=15, long=100)
def test_a_store_takes_every_graph_and_its_export_means_the_same(case: ReadCase) -> None:
    before = answered(case)
    with tempfile.TemporaryDirectory() as folder:
        graph = og.init(folder, Layout().write(schema_tokens(case.schema)))
        if case.graph.records:
            graph.load("\n".join(case.graph.records), mode="append")
        after = answered(dataclasses.replace(case, graph=GraphCase(tuple(graph.export()))))

    assert disagreement(before.to_json(), after.to_json(), in_order=before.is_ordered) is None


@law(read_cases(), quick=QUICK, long=LONG)
def test_columns_are_those_of_the_compiler(case: ReadCase) -> None:
    assert answered(case).columns == compile_query(case.catalog, case.text).columns


# Match -----------------------------------------------------------------------------------------------------------


@law(read_cases(), quick=150, long=LONG)
def test_what_holds_and_what_does_not_are_everything(case: ReadCase) -> None:
    conditions = [clause for clause in case.query.clauses if is_condition(clause, case.query)]
    assume(conditions)
    condition = conditions[0]
    rest = (*bindings(case.query), *(clause for clause in case.query.clauses if clause is not condition))

    everything = answered(plain(case, *rest))
    holding = answered(plain(case, *rest, condition))
    others = answered(plain(case, *rest, negated(condition)))
    assert bag(holding) + bag(others) == bag(everything)


@law(read_cases(), quick=QUICK, long=LONG)
def test_not_of_not_is_the_condition_itself(case: ReadCase) -> None:
    conditions = [clause for clause in case.query.clauses if is_condition(clause, case.query)]
    assume(conditions)
    condition = conditions[-1]
    name, type_ = case.query.variables[0]
    rest = (*bindings(case.query), *(clause for clause in case.query.clauses if clause is not condition))
    twice = negated(Clause("binding", (f"${name}", ":", type_)), negated(condition))

    assert bag(answered(plain(case, *rest, twice))) == bag(answered(plain(case, *rest, condition)))


@law(read_cases(), st.integers(0, 2**16), quick=QUICK, long=LONG)
def test_the_order_of_clauses_changes_nothing(case: ReadCase, seed: int) -> None:
    before = answered(case)
    after = answered(dataclasses.replace(case, query=reordered(case.query, Random(seed))))

    assert disagreement(without_now(before.to_json()), after.to_json(), in_order=before.is_ordered) is None


@law(read_cases(), quick=QUICK, long=LONG)
def test_a_clause_said_twice_changes_nothing(case: ReadCase) -> None:
    before = answered(case)
    said_again = [clause for clause in case.query.clauses if is_condition(clause, case.query) or clause.kind == "negation"]
    after = answered(changed(case, clauses=(*case.query.clauses, *said_again)))

    assert disagreement(without_now(before.to_json()), after.to_json(), in_order=before.is_ordered) is None


@law(read_cases(), st.integers(0, 2**16), quick=QUICK, long=LONG)
def test_names_of_variables_change_nothing_but_the_order_of_ties(case: ReadCase, seed: int) -> None:
    names = sorted(case.query.names())
    others = [f"v{number:02d}" for number in range(len(names))]
    kept = rename(case, dict(zip(names, others, strict=True)))
    assert list(answered(kept).rows) == list(answered(case).rows)

    Random(seed).shuffle(others)
    mixed = rename(case, dict(zip(names, others, strict=True)))
    assert bag(answered(changed(mixed, limit=None))) == bag(answered(changed(case, limit=None)))


def rename(case: ReadCase, names: dict[str, str]) -> ReadCase:
    params = {names[name]: value for name, value in case.params.items()}
    return dataclasses.replace(case, query=case.query.renamed(names), params=params)


# Traversals ------------------------------------------------------------------------------------------------------

LANES = compile_schema("node Port { code: String @key } edge Lane: Port -> Port { nm: I32? }")
_CODES = "ABCDE"


@st.composite
def lanes(draw: DrawFn) -> list[tuple[str, str]]:
    """Edges between a few ports, with parallel ones and self-loops."""
    return draw(st.lists(st.tuples(st.sampled_from(_CODES), st.sampled_from(_CODES)), max_size=9))


def pairs(edges: list[tuple[str, str]], clause: str) -> list[tuple[str, str]]:
    """All (`$p`, `$q`) of a clause on the graph with these edges."""
    nodes = {"Port": [{"code": code} for code in _CODES]}
    graph = OracleGraph.from_tables(LANES, nodes, {"Lane": [{"from": a, "to": b} for a, b in edges]})
    answer = evaluate(graph, f"query q() {{ match {{ $p: Port {clause} }} return {{ $p, $q }} }}")
    return [(p, q) for p, q in answer.rows]


def distances(edges: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The length of the shortest way between any two ports that are connected; 0 from a port to itself."""
    found = {(code, code): 0 for code in _CODES} | {(a, b): 1 for a, b in edges if a != b}
    for via in _CODES:
        for a in _CODES:
            for b in _CODES:
                if (a, via) in found and (via, b) in found:
                    found[a, b] = min(found.get((a, b), 99), found[a, via] + found[via, b])
    return found


def reachable(edges: list[tuple[str, str]], least: int, most: int) -> Iterator[tuple[str, str]]:
    """Pairs whose shortest way has a fitting length; a self-loop adds one hop to the way to its port."""
    for (a, b), length in distances(edges).items():
        if (a != b and least <= length <= most) or ((b, b) in edges and least <= length + 1 <= most):
            yield a, b


@law(lanes(), st.integers(1, 5), st.integers(0, 4), quick=200)
def test_reach_is_about_shortest_ways(edges: list[tuple[str, str]], least: int, more: int) -> None:
    hops = f"{{{least},{least + more}}}"
    both = edges + [(b, a) for a, b in edges]

    assert sorted(pairs(edges, f"$p lane{hops} $q")) == sorted(reachable(edges, least, least + more))
    assert sorted(pairs(edges, f"$p <lane>{hops} $q")) == sorted(reachable(both, least, least + more))


@law(lanes(), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3))
def test_reach_can_be_cut_in_two(edges: list[tuple[str, str]], least: int, middle: int, more: int) -> None:
    low, cut, high = least, least + middle, least + middle + more
    first, second = pairs(edges, f"$p lane{{{low},{cut}}} $q"), pairs(edges, f"$p lane{{{cut + 1},{high}}} $q")

    assert set(pairs(edges, f"$p lane{{{low},{high}}} $q")) == {*first, *second}


@law(lanes())
def test_single_hops_in_all_their_spellings(edges: list[tuple[str, str]]) -> None:
    out = pairs(edges, "$p lane $q")
    back = [(b, a) for a, b in edges]

    assert sorted(out) == sorted(set(edges))
    assert sorted(pairs(edges, "$p lane{1,1} $q")) == sorted(out)
    assert sorted(pairs(edges, "$p $_:lane $q")) == sorted(out)
    assert sorted(pairs(edges, "$q: Port $q lane $p")) == sorted(set(back))
    assert sorted(pairs(edges, "$p <lane> $q")) == sorted({*edges, *back})
    assert sorted(pairs(edges, "$p $w:lane $q")) == sorted(edges)
    assert sorted(pairs(edges, "$p $w:<lane> $q")) == sorted(edges + [(b, a) for a, b in edges if a != b])


# Order and limit -------------------------------------------------------------------------------------------------


@law(read_cases(), st.integers(0, 6), quick=QUICK, long=LONG)
def test_a_limit_takes_the_first_rows(case: ReadCase, most: int) -> None:
    # The limit of a query is part of what rrf means.
    assume(not any("rrf" in part for part in (*(item.tokens for item in case.query.items), *case.query.order)))
    everything = answered(changed(case, limit=99))
    first = answered(changed(case, limit=most))

    assert list(first.rows) == list(everything.rows)[:most]


@law(read_cases(), quick=QUICK, long=LONG)
def test_an_order_keeps_all_rows(case: ReadCase) -> None:
    query = case.query
    ranking = {item.name for item in query.items if item.rank is not None}
    assume(query.order)
    assume(not any(key[0] in ("bm25", "nearest", "rrf", *ranking) for key in query.order))

    ordered = answered(changed(case, limit=None))
    assert bag(ordered) == bag(answered(changed(case, order=(), limit=None)))


@law(read_cases(), quick=QUICK, long=LONG)
def test_descending_is_ascending_backwards_where_nothing_ties(case: ReadCase) -> None:
    visible = [name for name, _ in case.query.variables if name not in dict(case.query.params)]
    assume(visible)
    items = [Item((f"${name}",), _STRING, name, f"c{place}", name) for place, name in enumerate(visible)]
    upwards = changed(case, items=tuple(items), order=tuple((item.name,) for item in items), limit=None)
    downwards = changed(upwards, order=tuple((item.name, "desc") for item in items))

    assert list(answered(downwards).rows) == list(reversed(answered(upwards).rows))


# Aggregates ------------------------------------------------------------------------------------------------------


@law(read_cases(), quick=QUICK, long=LONG)
def test_counts_of_groups_add_up(case: ReadCase) -> None:
    count = Item(("count", "(", "1", ")"), PropType("I64", True), "count", "n")
    visible = [name for name, _ in case.query.variables if name not in dict(case.query.params)]
    assume(visible)
    group = Item((f"${visible[0]}",), _STRING, visible[0], variable=visible[0])

    rows = answered(plain(case, *case.query.clauses)).rows
    total = answered(changed(case, items=(count,), order=(), limit=None)).rows
    groups = answered(changed(case, items=(group, count), order=(), limit=None)).rows
    assert total == [(len(rows),)]
    assert sum(number for _, number in groups) == len(rows)
    assert len({key for key, _ in groups}) == len(groups)


# Values ----------------------------------------------------------------------------------------------------------

NUMBERS = compile_schema('node N { k: String @key  i: I64?  u: U64?  e: Vector(2)? @embed(k, model="m") }')


def test_large_numbers_can_be_shown_as_text() -> None:
    rows = [{"k": "a", "i": 2**53 - 1, "u": 2**53}, {"k": "b", "i": -(2**53)}]
    graph = OracleGraph.from_tables(NUMBERS, {"N": rows}, {})
    answer = evaluate(graph, "query q() { match { $n: N } return { $n.i, $n.u } order { $n.k } }")

    assert answer.to_json(javascript_safe=True) == [
        {"n.i": 9007199254740991, "n.u": "9007199254740992"},
        {"n.i": "-9007199254740992", "n.u": None},
    ]


def test_a_text_is_embedded_by_the_model_of_the_property() -> None:
    graph = OracleGraph.from_tables(NUMBERS, {"N": [{"k": "a", "e": [3, 4]}]}, {})
    text = 'query q() { match { $n: N } return { nearest($n.e, "any") as d } }'

    assert evaluate(graph, text, embedder=Embedder("m", lambda _, size: [0.0] * size)).rows == [(25.0,)]
    with pytest.raises(Configuration, match=r"(?s)`m`.*`other`"):
        evaluate(graph, text, embedder=Embedder("other", lambda _, size: [0.0] * size))
