"""The rules of the planner: the steps they choose, the branches they prune, and what they decide beyond that."""

from collections.abc import Mapping

import pytest

from omnigraph_compiler import Catalog, compile_query, compile_schema, ir
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.from_ir import lift
from omnigraph_sql.planner.logical import (
    Branch,
    CloseStep,
    HopStep,
    Logical,
    MeetStep,
    Restrict,
    Scan,
    ScanEdges,
    Step,
    Where,
    Without,
)
from omnigraph_sql.planner.rules import apply_rules

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String? }
node City { name: String @key  size: I32? }
node Country { name: String @key }
edge Follows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
edge CityIn: City -> Country
"""
CATALOG: Catalog = compile_schema(SCHEMA)
SIZES = {
    "node:Person": 100_000,
    "node:City": 7_000,
    "node:Country": 5,
    "edge:Follows": 2_400_000,
    "edge:LivesIn": 100_000,
    "edge:CityIn": 7_000,
}
SINGLE = {("LivesIn", "out"), ("CityIn", "out")}


class StatedFacts:
    """Facts that a test gives."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def rows(self, table_key: str) -> int:
        return self._sizes[table_key]

    def is_functional(self, edge: str, direction: str) -> bool:
        return (edge, direction) in SINGLE


def planned(match: str, returns: str, sizes: Mapping[str, int] = SIZES, rest: str = "") -> Logical:
    query = compile_query(CATALOG, f"query q($name: String) {{ match {{ {match} }} return {{ {returns} }} {rest} }}")
    assert isinstance(query.plan, ir.ReadPlan)
    return apply_rules(lift(query.plan), Estimate(CATALOG, StatedFacts(sizes)))


def step_text(step: Step) -> str:
    match step:
        case Scan():
            return f"scan {step.vertex.variable}"
        case ScanEdges():
            return f"edges {step.link.edge_variable}"
        case HopStep():
            return f"{'one' if step.functional else 'hop'} {step.start}>{step.vertex.variable}"
        case MeetStep():
            return f"meet {step.vertex.variable}"
        case CloseStep():
            return f"close {step.link.source}>{step.link.target}"
        case Where():
            return "where"
        case Restrict():
            return f"restrict {step.vertex.variable}"
        case Without():
            return "without"


def steps(query: Logical) -> list[str]:
    return [step_text(step) for step in query.steps]


def pruned(query: Logical) -> dict[str, list[str]]:
    def shown(branch: Branch) -> str:
        inner = "".join(f" [{shown(each)}]" for each in branch.tree.branches)
        return f"{branch.edge} {branch.direction}{inner}"

    return {vertex.variable: [shown(branch) for branch in vertex.branches] for vertex in query.weighted}


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("$p: Person { name: $name } $p follows $q", ["scan p", "hop p>q"]),
        ("$p: Person $q: Person { name: $name } $p follows $q", ["scan q", "hop q>p"]),
        ("$p: Person $p livesIn $c $c cityIn $k $k: Country { name: $name }", ["scan k", "hop k>c", "hop c>p"]),
        ("$p: Person { name: $name } $p livesIn $c $c cityIn $k", ["scan p", "one p>c", "one c>k"]),
        ("$a: Person { name: $name } $a follows $b $b follows $c $c follows $a", ["scan a", "hop a>c", "meet b"]),
        ("$a: Person { name: $name } $a follows $b $b follows $a", ["scan a", "meet b"]),
        ("$a: Person { name: $name } $a follows{1,3} $b $b livesIn $c", ["scan a", "hop a>b", "one b>c"]),
        ("$a $w:follows $b $w.since > 2020", ["edges w"]),
        ("$a: Person { name: $name } $a $w:follows $b $w.since > 2020", ["scan a", "hop a>b"]),
        ("$p: Person $q: Person $p.age > $q.age", ["scan p", "scan q", "where"]),
        ("$p: Person { name: $name } $p follows $q $q.age > $p.age", ["scan p", "hop p>q", "where"]),
    ],
)
def test_steps_begin_where_few_are_and_follow_what_grows_least(match: str, expected: list[str]) -> None:
    returns = "$p.name" if "$p" in match else "$a.name"
    assert steps(planned(match, returns)) == expected


@pytest.mark.parametrize(
    ("match", "returns", "left", "expected"),
    [
        ("$f follows $p", "$p.name, count($f) as n", ["scan p"], {"p": ["Follows in"]}),
        ("$a follows $b $b follows $c", "count($a) as n", ["scan b"], {"b": ["Follows in", "Follows out"]}),
        (
            "$p livesIn $c $c cityIn $k $k: Country { name: $name }",
            "$c.name, avg($p.age) as age",
            ["scan c"],
            {"c": ["CityIn out", "LivesIn in"]},
        ),
        (
            "$p livesIn $c $c cityIn $k",
            "$k.name, count($p) as n",
            ["scan k"],
            {"k": ["CityIn in [LivesIn in]"]},
        ),
        ("$f follows $p $p livesIn $c", "$p.name, $c.name, count($f) as n", ["scan p", "one p>c"], {"p": ["Follows in"]}),
        ("$a follows{1,2} $b $c follows $b", "$a.name, count($c) as n", ["scan a"], {}),
    ],
)
def test_aggregates_take_off_what_they_only_count(
    match: str, returns: str, left: list[str], expected: dict[str, list[str]]
) -> None:
    query = planned(match, returns)

    assert steps(query) == left
    assert pruned(query) == expected


def test_what_hangs_on_two_nodes_is_a_number_of_common_neighbours() -> None:
    query = planned("$a follows $b $b follows $c $c follows $a", "count($a) as n")

    assert [(fork.tree.vertex.variable, {fork.first, fork.second}) for fork in query.forks] == [("b", {"a", "c"})]
    assert steps(query) == ["scan a", "hop a>c"]


@pytest.mark.parametrize(
    ("match", "returns", "expected"),
    [
        ("$a: Person $a.age < 30 $a follows{1,3} $b", "count($b) as n", ("a", False)),
        ("$a: Person $a follows{1,3} $b", "$b.name, count($a) as n", ("b", True)),
        ("$a: Person $a follows{2,6} $b $b livesIn $c", "$a.name, count($c) as n", ("a", False)),
    ],
)
def test_what_is_within_reach_is_a_number(match: str, returns: str, expected: tuple[str, bool]) -> None:
    query = planned(match, returns)
    assert [(spread.start, spread.is_turned) for spread in query.spreads] == [expected]
    assert steps(query) == [f"scan {expected[0]}"]


@pytest.mark.parametrize("returns", ["min($a.age) as n", "sum($b.age) as n", "$a.name, $b.name, count($b) as n"])
def test_what_has_to_be_looked_at_is_walked_to(returns: str) -> None:
    query = planned("$a: Person $a.age < 30 $a follows{1,3} $b", returns)
    assert not query.spreads
    assert steps(query) == ["scan a", "hop a>b"]


@pytest.mark.parametrize("returns", ["min($f.age) as low", "count($f.age) as n, max($p.age) as top"])
def test_smallest_and_largest_values_are_walked_to(returns: str) -> None:
    query = planned("$f follows $p", returns)

    assert ("f" in {vertex.variable for vertex in query.pattern.vertices}) == ("min($f" in returns)


@pytest.mark.parametrize("returns", ["sum($r.age) as n", "avg($r.age) as n"])
def test_few_rows_walk_to_what_is_summed(returns: str) -> None:
    few = planned("$p: Person { name: $name } $p follows $q $q follows $r $r.age > 30", f"$p.name, {returns}")

    assert steps(few) == ["scan p", "hop p>q", "hop q>r"]
    assert pruned(few) == {}


def test_what_is_only_counted_hangs_on_few_rows_too() -> None:
    few = planned("$p: Person { name: $name } $p follows $q $q follows $r $r.age > 30", "$p.name, count($r) as n")

    assert steps(few) == ["scan p"]
    assert pruned(few) == {"p": ["Follows out [Follows out]"]}


def test_counting_begins_where_little_is_walked() -> None:
    query = planned("$p: Person $p.age < 30 $p livesIn $c $c.size = 7", "count($p) as n")

    assert steps(query) == ["scan c"]


def test_weights_are_sent_from_the_few() -> None:
    few = planned("$p: Person { name: $name } $p follows $q $q.age > 30", "$q.name, count($q) as n")

    assert steps(few) == ["scan q"]
    assert pruned(few) == {"q": ["Follows in"]}


def test_counting_begins_with_a_key() -> None:
    query = planned("$p: Person { name: $name } $p follows $q $q.age > 30", "count($q) as n")

    assert steps(query) == ["scan p"]
    assert pruned(query) == {"p": ["Follows out"]}


def test_a_negation_of_a_neighbour_is_a_weight() -> None:
    query = planned("$p: Person not { $p follows $q $q.age > 20 }", "$p.name")
    (vertex,) = query.pattern.vertices

    assert [negation.branches is not None for negation in vertex.negations] == [True]


def test_a_negation_on_few_rows_is_a_weight_too() -> None:
    query = planned("$p: Person { name: $name } not { $p follows $q $q.age > 20 }", "$p.name")
    (vertex,) = query.pattern.vertices

    assert [negation.branches is not None for negation in vertex.negations] == [True]


def test_a_negation_with_a_negation_inside_is_walked_for_few_rows() -> None:
    query = planned("$p: Person { name: $name } not { $p follows $q not { $q livesIn $c } }", "$p.name")
    (vertex,) = query.pattern.vertices

    assert [negation.branches is not None for negation in vertex.negations] == [False]


def test_rules_say_what_they_did() -> None:
    assert planned("$f follows $p", "$p.name, count($f) as n").applied == (
        "weights instead of walks: $f",
        "begins with $p",
    )


@pytest.mark.parametrize(
    ("returns", "rest", "top_k"),
    [
        ("$p.name, count($f) as n", "order { n desc } limit 10", 10),
        ("$p, $p.age, count($f) as n", "order { n desc, $p.age asc } limit 3", 3),
        ("$p.name, count($f) as n", "order { n desc }", None),
        ("$p.name, count($f) as n", "order { n desc } limit 0", None),
        ("$p.name, count($f) as n", "order { n asc } limit 10", None),
        ("$p.name, count($f) as n", "order { $p.name asc, n desc } limit 10", None),
        ("$p.age, count($f) as n", "order { n desc } limit 10", None),
    ],
)
def test_a_limit_of_nodes_by_match_count_is_pushed_down(returns: str, rest: str, top_k: int | None) -> None:
    query = planned("$f follows $p", returns, rest=rest)

    assert [step.top_k for step in query.steps if isinstance(step, Scan)] == [top_k]
    assert (f"top {top_k} of $p by matches" in query.applied) == (top_k is not None)


@pytest.mark.parametrize(
    ("match", "returns", "shortcut"),
    [
        ("$p: Person { name: $name } $p follows $q", "count($q) as n", True),
        ("$p: Person not { $p livesIn $c }", "count($p) as n, count($p) as m", True),
        ("$p: Person $p.age > 3", "count($p) as n", True),
        ("$p: Person $p.nick = $p.name", "count($p) as n", False),
        ("$p: Person", "count($p.age) as n", False),
        ("$p: Person", "$p.name, count($p) as n", False),
    ],
)
def test_counts_of_one_vertex_need_no_rows(match: str, returns: str, shortcut: bool) -> None:
    query = planned(match, returns)

    assert (query.shortcut is not None) == shortcut
    assert ("counted without making rows" in query.applied) == shortcut


@pytest.mark.parametrize(
    ("match", "counted", "grouped"),
    [
        ("$p $w:follows $q $w.since > 3", "$q", True),
        ("$p $w:follows $q $w.since >= 3 $w.since < 9", "$w.since", True),
        ("$p $w:follows $q $p.age > 3", "$q", False),
        ("$p $w:follows $q $w.since > 3 $p livesIn $c", "$c", False),
    ],
)
def test_groups_of_edges_are_columns_where_nothing_else_restricts_the_edges(match: str, counted: str, grouped: bool) -> None:
    query = planned(match, f"$p.nick as a, $q.nick as b, count({counted}) as n")

    assert steps(query) == ["edges w"]
    assert (query.edge_groups is not None) == grouped


@pytest.mark.parametrize(
    ("match", "negations", "conditions", "stored"),
    [
        ("$p: Person not { $p.age > 5 }", 1, 1, 0),
        ("$p follows $q not { $q follows $p }", 1, 1, 0),
        ("$p follows $q not { $p follows $r $q follows $r }", 1, 1, 0),
        ("$p follows $q not { $p $w:follows $r $q follows $r $w.since = 1 }", 1, 0, 0),
        (
            "$p follows $q " + " ".join(
                f"not {{ $p $w{n}:follows $r{n} $q follows $r{n} $w{n}.since = {n} }}" for n in range(4)
            ),
            4, 0, 2,
        ),
    ],
)  # fmt: skip
def test_negations_are_conditions_or_match_stored_rows_again(
    match: str, negations: int, conditions: int, stored: int
) -> None:
    query = planned(match, "$p.name")
    found = [step.negation for step in query.steps if isinstance(step, Without)]
    found += [each for step in query.steps if isinstance(step, Scan | HopStep) for each in step.vertex.negations]

    assert len(found) == negations
    assert sum(negation.is_condition for negation in found) == conditions
    assert sum(negation.stores_rows for negation in found) == stored
    assert ("negations are conditions on the rows" in query.applied) == (conditions > 0)
    assert ("rows are stored before a negation" in query.applied) == (stored > 0)


SEARCH: Catalog = compile_schema("node Doc { k: String @key  t: String?  v: Vector(2)?  n: I32? }\nedge Cites: Doc -> Doc")


@pytest.mark.parametrize(
    ("match", "rest", "ranks", "orders"),
    [
        ("$d: Doc", "order { nearest($d.v, [0, 1]) } limit 3", True, True),
        ("$d: Doc $d.n > 3", 'order { bm25($d.t, "ship") } limit 3', True, True),
        ("$d: Doc", 'order { bm25($d.t, "ship") }', True, False),
        ("$d: Doc", "order { nearest($d.v, [0, 1]), $d.n asc } limit 3", True, False),
        ("$d: Doc", 'order { rrf(nearest($d.v, [0, 1]), bm25($d.t, "ship")) } limit 3', True, True),
        ('$d: Doc { k: "a" }', "order { nearest($d.v, [0, 1]) } limit 3", False, False),
        ("$d: Doc $d.n > $d.n", "order { nearest($d.v, [0, 1]) } limit 3", False, False),
        ("$e cites $d", "order { nearest($d.v, [0, 1]) } limit 3", False, False),
        ("$d: Doc", "order { bm25($d.t, $d.k) } limit 3", False, False),
    ],
)
def test_search_ranks_nodes_before_rows_are_made(match: str, rest: str, ranks: bool, orders: bool) -> None:
    query = compile_query(SEARCH, f"query q() {{ match {{ {match} }} return {{ $d.k }} {rest} }}")
    assert isinstance(query.plan, ir.ReadPlan)
    sizes = {"node:Doc": 1000, "edge:Cites": 5000}
    logical = apply_rules(lift(query.plan), Estimate(SEARCH, StatedFacts(sizes)))

    assert (logical.ranked_nodes is not None) == ranks
    assert logical.is_ordered_by_search == orders
