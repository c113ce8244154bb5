"""Values of parameters at every door that takes some: names, places and types."""

from __future__ import annotations

import array
import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest

SCHEMA = "node T { k: String @key n: I32? v: Vector(2)? tags: [String]? at: DateTime? }"
COUNT = "query q($min: I32?) { match { $t: T not { $t.n < $min } } return { count($t) as n } }"
ADD = "query add($k: String, $v: Vector(2)?, $tags: [String]?) { insert T { k: $k, v: $v, tags: $tags } }"
ENGINES: tuple[EngineName, ...] = ("datafusion", "duckdb")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        rows = ({"type": "T", "data": {"k": str(n), "n": n, "v": [n, 0], "tags": [f"t{n}"]}} for n in range(10))
        graph.load(map(json.dumps, rows), mode="append")
        yield graph


# Names


@pytest.mark.parametrize("engine", ENGINES)
def test_a_misspelt_parameter_of_a_query_is_an_error_that_proposes_the_right_name(
    graph: og.Graph, engine: EngineName
) -> None:
    assert graph.query(COUNT, params={"min": 7}, engine=engine).to_pylist() == [{"n": 3}]
    for ask in (graph.query, graph.explain):
        with pytest.raises(BadRequest, match="`mim` is not a parameter of query `q`") as caught:
            ask(COUNT, params={"mim": 7}, engine=engine)
        assert caught.value.hint == "did you mean `min`?"


def test_a_misspelt_parameter_of_a_mutation_is_an_error_and_nothing_is_written(graph: og.Graph) -> None:
    before = graph.commits()[0]
    with pytest.raises(BadRequest, match="`tag` is not a parameter"):
        graph.mutate(ADD, params={"k": "x", "tag": ["a"]})
    assert graph.commits()[0] == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parameter_that_a_statement_does_not_mention_is_an_error(graph: og.Graph, engine: EngineName) -> None:
    text = "select count(*) as c from T where n >= $min -- $max"
    assert graph.sql(text, {"min": 7}, engine=engine).to_pylist() == [{"c": 3}]
    for name, hint in (("mim", "did you mean `min`?"), ("max", "did you mean `min`?"), ("$min", "leave out the `$`")):
        with pytest.raises(BadRequest, match="is not a parameter of the statement") as caught:
            graph.sql(text, {"min": 7, name: 1}, engine=engine)
        assert hint in str(caught.value.hint) or name == "max"
    with pytest.raises(BadRequest, match="`x` is not a parameter") as caught:
        graph.sql("select '$x' as s", {"x": 1}, engine=engine)
    assert caught.value.hint == "it takes no parameters"


def test_a_session_of_datafusion_says_so_too(graph: og.Graph) -> None:
    with pytest.raises(BadRequest, match="did you mean `min`"):
        graph.datafusion().sql("select n from T where n > $min", param_values={"min": 7, "mim": 7})


@pytest.mark.parametrize("engine", ENGINES)
def test_gq_in_sql_says_so_too(graph: og.Graph, engine: EngineName) -> None:
    quoted = COUNT.replace("'", "''")
    assert graph.sql(f"""select n from gq('{quoted}', '{{"min": 7}}')""", engine=engine).to_pylist() == [{"n": 3}]
    with pytest.raises(BadRequest, match="`mim` is not a parameter of query `q`"):
        graph.sql(f"""select n from gq('{quoted}', '{{"mim": 7}}')""", engine=engine).to_pylist()
    with pytest.raises(BadRequest, match="`mim` is not a parameter of query `q`"):
        graph.sql(f"select n from gq('{quoted}', $p)", {"p": {"mim": 7}}, engine=engine).to_pylist()


def test_other_parameters_are_ignored_on_request(graph: og.Graph) -> None:
    more = {"min": 7, "other": object()}
    assert graph.query(COUNT, params=more, ignore_unknown_params=True).to_pylist() == [{"n": 3}]
    assert graph.explain(COUNT, params=more, ignore_unknown_params=True).query_name == "q"
    done = graph.mutate(ADD, params={"k": "x", "v": [0, 1], "tags": None, "other": 1}, ignore_unknown_params=True)
    assert done.affected_nodes == 1
    for engine in ENGINES:
        found = graph.sql("select $min as m", more, engine=engine, ignore_unknown_params=True)
        assert found.to_pylist() == [{"m": 7}]


# Places and types


def test_parameters_may_come_second(graph: og.Graph) -> None:
    assert graph.query(COUNT, {"min": 7}).to_pylist() == [{"n": 3}]
    assert graph.query(COUNT, "q", {"min": 7}).to_pylist() == [{"n": 3}]
    assert graph.explain(COUNT, {"min": 7}).query_name == "q"
    assert graph.result_schema(COUNT, {"min": 7}).names == ["n"]
    assert graph.mutate(ADD, {"k": "x"}).affected_nodes == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((COUNT, {"min": 1}, {"min": 2}), "two mappings"),
        ((COUNT, 5), "the name of a query is a text, not int"),
        ((COUNT, b"q"), "the name of a query is a text, not bytes"),
        ((COUNT, "q", [("min", 7)]), "mapping from names to values, not list"),
        ((COUNT, "q", "min"), "mapping from names to values, not str"),
        ((None,), "a query is a text or a Path, not NoneType"),
        ((b"query q() {}",), "a query is a text or a Path, not bytes"),
        ((COUNT, "q", {7: 7}), "the name of a parameter is a text, found 7"),
        ((COUNT, "q", {10**5000: 7}), "the name of a parameter is a text"),
        ((COUNT, "q", {"min": 10**5000}), "param 'min'"),
        ((COUNT, "q", {"min": b"7"}), "param 'min'"),
    ],
)
def test_arguments_of_other_types_give_typed_errors(graph: og.Graph, arguments: tuple[Any, ...], message: str) -> None:
    for ask in (graph.query, graph.explain, graph.result_schema, graph.mutate):
        with pytest.raises(BadRequest) as caught:
            ask(*arguments)
        assert message in caught.value.message or (ask == graph.mutate and "is a read" in caught.value.message)


@pytest.mark.parametrize("params", [5, "k", [("k", 1)], {5: 1}, {None: 1}])
@pytest.mark.parametrize("engine", ENGINES)
def test_params_of_sql_of_other_types_give_typed_errors(graph: og.Graph, params: Any, engine: EngineName) -> None:
    with pytest.raises(BadRequest):
        graph.sql("select $k as k", params, engine=engine)


# Arrays

VECTORS = [
    np.array([3.0, 0.0]),
    np.array([3, 0], "float32"),
    np.array([3, 0], "int16"),
    array.array("f", [3, 0]),
    (3, 0),
    range(3, -1, -3),
    pa.array([3.0, 0.0]),
    pa.chunked_array([[3.0], [0.0]]),
    pa.scalar([3.0, 0.0]),
    [np.float32(3), np.int8(0)],
    memoryview(array.array("d", [3, 0])),
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda value: type(value).__module__ + "." + type(value).__name__)
def test_rows_of_numbers_are_vectors(graph: og.Graph, vector: Any) -> None:
    nearest = "query q($v: Vector(2)) { match { $t: T } return { $t.k } order { nearest($t.v, $v) } limit 1 }"
    for engine in ENGINES:
        assert graph.query(nearest, {"v": vector}, engine=engine).to_pylist() == [{"t.k": "3"}]
        found = graph.sql("select id from nearest('T', 'v', $v, 1)", {"v": vector}, engine=engine)
        assert found.to_pylist() == [{"id": "3"}]
    graph.mutate(ADD, {"k": "new", "v": vector})
    rows = graph.query('query q() { match { $t: T { k: "new" } } return { $t.v } }').to_pylist()
    assert rows == [{"t.v": [3.0, 0.0]}]


@pytest.mark.parametrize(
    "tags", [np.array(["t3", "t5"]), ("t3", "t5"), pa.array(["t3", "t5"]), np.array(["t3", "t5"], object)]
)
def test_rows_of_texts_are_lists(graph: og.Graph, tags: Any) -> None:
    given = "query q($l: [String]) { match { $t: T $l contains $t.k } return { count($t) as n } }"
    for engine in ENGINES:
        assert graph.query(given.replace("$t.k", '"t3"'), {"l": tags}, engine=engine).to_pylist() == [{"n": 10}]
    graph.mutate(ADD, {"k": "new", "tags": tags})
    rows = graph.query('query q() { match { $t: T { k: "new" } } return { $t.tags } }').to_pylist()
    assert rows == [{"t.tags": ["t3", "t5"]}]


@pytest.mark.parametrize("number", [np.int64(7), np.float64(7), np.uint8(7), pa.scalar(7), np.array(7), np.array([7])[0]])
def test_numbers_of_numpy_and_arrow_are_numbers(graph: og.Graph, number: Any) -> None:
    assert graph.query(COUNT, {"min": number}).to_pylist() == [{"n": 3}]
    for engine in ENGINES:
        found = graph.sql("select count(*) as c from T where n >= $min", {"min": number}, engine=engine)
        assert found.to_pylist() == [{"c": 3}]


def test_instants_of_numpy_are_instants(graph: og.Graph) -> None:
    instant = 'query q($a: DateTime, $d: Date) { match { $t: T { k: "1" } } return { $a as a, $d as d } }'
    given = {"a": np.datetime64("2024-05-01T12:00:00", "ns"), "d": np.datetime64("2024-05-01")}
    (row,) = graph.query(instant, given).to_pylist()
    assert row == {"a": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), "d": datetime.date(2024, 5, 1)}
    for engine in ENGINES:
        (row,) = graph.sql("select cast($d as date) as d", {"d": given["d"]}, engine=engine).to_pylist()
        assert row == {"d": datetime.date(2024, 5, 1)}


@pytest.mark.parametrize(
    "value", [np.array([[3.0, 0.0]]), np.array([3.0]), np.array([np.nan, 0]), np.array(["a", "b"]), {3, 0}, b"ab", object()]
)
def test_other_arrays_are_no_vectors(graph: og.Graph, value: Any) -> None:
    text = "query q($v: Vector(2)) { match { $t: T } return { nearest($t.v, $v) as d } }"
    with pytest.raises(BadRequest, match="param 'v'"):
        graph.query(text, {"v": value})


# Limits

SEARCHED = "node D { k: String @key v: Vector(1)? t: String? } edge Near: D -> D"
LIMITED = {
    "order": "query q($n: I64) { match { $d: D } return { $d.k } order { $d.k } limit $n }",
    "no order": "query q($n: I64) { match { $d: D } return { $d.k } limit $n }",
    "traversal": "query q($n: I64) { match { $d: D $d near $e } return { $e.k } order { $e.k } limit $n }",
    "nearest": "query q($n: I64) { match { $d: D } return { $d.k } order { nearest($d.v, [0.0]) } limit $n }",
    "bm25": 'query q($n: I64) { match { $d: D } return { $d.k } order { bm25($d.t, "ship") } limit $n }',
    "rrf": "query q($n: I64) { match { $d: D } return { $d.k } "
    'order { rrf(nearest($d.v, [0.0]), bm25($d.t, "ship")) } limit $n }',
    "groups": "query q($n: I64) { match { $d: D $d near $e } return { $d.k, count($e) as c } order { c desc } limit $n }",
    "count": "query q($n: I64) { match { $d: D } return { count($d) as c } limit $n }",
    "parameter used twice": "query q($n: I64) { match { $d: D } return { $d.k, $n } order { $d.k } limit $n }",
}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("searched") / "g", SEARCHED) as graph:
        rows = [{"type": "D", "data": {"k": f"{n:02}", "v": [n], "t": "ship " * (n + 1)}} for n in range(20)]
        rows += [{"edge": "Near", "from": f"{n:02}", "to": f"{m:02}", "data": {}} for n in range(20) for m in range(n)]
        graph.load(map(json.dumps, rows), mode="append")
        yield graph


@pytest.mark.parametrize("kind", LIMITED)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_of_one_run_is_not_that_of_the_next(searched: og.Graph, engine: EngineName, kind: str) -> None:
    text = LIMITED[kind]
    for number in (3, 1, 5, 0, 3, 2**63 - 1, 3):
        written = text.replace("limit $n", f"limit {number}")
        expected = searched.query(written, {"n": number}, engine=engine).to_pylist()
        assert searched.query(text, {"n": number}, engine=engine).to_pylist() == expected
        # The most that a limit may be is no limit.
        assert len(expected) == (1 if kind == "count" else number) or (number == 0 and not expected) or number > 20


@pytest.mark.parametrize("engine", ENGINES)
def test_an_explanation_shows_the_number_of_a_limit(searched: og.Graph, engine: EngineName) -> None:
    for number in (7, 4):
        found = searched.explain(LIMITED["order"], {"n": number}, engine=engine)
        assert {"kind": "Limit", "count": number} in found.plan["stages"]
        assert f"LIMIT {number}" in found.sql


def test_an_explanation_is_printed_as_a_text_for_people(searched: og.Graph) -> None:
    found = searched.explain(LIMITED["traversal"], {"n": 3})
    assert str(found) == found.render()
    assert str(found).startswith("q on ")
    assert len(str(found).splitlines()) > 3


def test_a_limit_within_sql(searched: og.Graph) -> None:
    for engine in ENGINES:
        for number in (2, 4):
            text = LIMITED["order"]
            assert (
                len(searched.sql(f"select * from gq('{text}', $p)", {"p": {"n": number}}, engine=engine).to_pylist())
                == number
            )


# Texts that have no UTF-8 form

HALF = "a\ud800b"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lone_surrogate_in_a_parameter_of_a_query_is_an_error_that_names_it(graph: og.Graph, engine: EngineName) -> None:
    read = "query q($key: String, $keys: [String]?) { match { $t: T { k: $key } } return { $t.k } }"
    for ask in (graph.query, graph.explain):
        for params in ({"key": HALF}, {"key": np.str_(HALF)}, {"key": "a", "keys": ["b", HALF]}):
            with pytest.raises(BadRequest, match=r"param 'keys?': .*surrogate") as caught:
                ask(read, params=params, engine=engine)
            str(caught.value).encode()
            assert caught.value.hint
    for param in ("key", "keys"):
        given = json.dumps({"key": "a"} | {param: [HALF] if param == "keys" else HALF})
        with pytest.raises(BadRequest, match=f"param '{param}': .*surrogate"):
            graph.sql(f"select * from gq('{read}', '{given}')", engine=engine).to_arrow()


def test_half_of_a_surrogate_pair_in_a_parameter_of_a_mutation_writes_nothing(graph: og.Graph) -> None:
    before = graph.commits()[0]
    for name, value in (("k", HALF), ("k", "\udcff"), ("tags", ["x", HALF]), ("tags", np.array([HALF], object))):
        with pytest.raises(BadRequest, match=f"param '{name}': .*surrogate"):
            graph.mutate(ADD, params={"k": "x", "tags": None, name: value})
    assert graph.commits()[0] == before
    graph.mutate(ADD, params={"k": "⚓🚢", "tags": ["\U0010ffff", "\0"]})


@pytest.mark.parametrize("engine", ENGINES)
def test_half_of_a_surrogate_pair_in_a_parameter_of_a_statement_is_an_error_that_names_it(
    graph: og.Graph, engine: EngineName
) -> None:
    for value in (HALF, ["x", HALF], [["x"], [HALF]], {"a": {"b": HALF}}, {HALF: 1}, ("x", HALF)):
        for isolated in (False, True):
            with pytest.raises(BadRequest, match=r"`p`.*surrogate") as caught:
                graph.sql("select $p as p", {"p": value}, engine=engine, isolated=isolated)
            str(caught.value).encode()
            assert caught.value.hint


def test_names_of_parameters_with_half_of_a_surrogate_pair_are_unknown(graph: og.Graph) -> None:
    asked: tuple[Callable[[], object], ...] = (
        lambda: graph.query(COUNT, params={HALF: 1}),
        lambda: graph.sql("select $p as p", {"p": 1, HALF: 1}),
    )
    for ask in asked:
        with pytest.raises(BadRequest, match="is not a parameter") as caught:
            ask()
        str(caught.value).encode()


def test_half_of_a_surrogate_pair_in_the_text_of_a_query_is_a_parse_error_at_its_place(graph: og.Graph) -> None:
    before = graph.commits()[0]
    for text, half in (
        (f'query q() {{ insert T {{ k: "{HALF}" }} }}', "\ud800"),
        ('query q() { match { $t: T { k: "\udfff" } } return { $t.k } }', "\udfff"),
        ("query q() { match { $t: T } return { $t.k } } // \ud800", "\ud800"),
        ("query \ud800() { match { $t: T } return { $t.k } }", "\ud800"),
    ):
        column = text.index(half) + 1
        for ask in (graph.query, graph.mutate, graph.explain, graph.result_schema):
            with pytest.raises(og.errors.Compile, match=f"column {column}: .*surrogate") as caught:
                ask(text)
            assert caught.value.error_class == "parse"
            str(caught.value).encode()
            for each in caught.value.diagnostics:
                each.render().encode()  # type: ignore[attr-defined]
    with pytest.raises(og.errors.OmnigraphError) as named:
        graph.query("query q() { match { $t: T } return { $t.k } }", HALF)
    str(named.value).encode()
    assert graph.commits()[0] == before
