"""States whose rows a cleanup has taken: whoever asks for rows is told so, also where the answer would need none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import OmnigraphError, Storage, VersionReclaimed
from tests.stores import Place

SCHEMA = """
node Port { code: String @key  depth: I64?  note: String? @index  place: Vector(2)? @index }
node Ship { name: String @key }
edge Lane: Port -> Port
edge Calls: Ship -> Port
"""
QUERIES = {
    "count": "query q() { match { $p: Port } return { count($p) as n } }",
    "codes": "query q() { match { $p: Port } return { $p.code } }",
    "condition": "query q() { match { $p: Port $p.depth > 1 } return { count($p) as n } }",
    "key": 'query q() { match { $p: Port { code: "0" } } return { count($p) as n } }',
    "hop": "query q() { match { $p: Port $p lane $q } return { count($q) as n } }",
    "hops": "query q() { match { $p: Port $p lane{1,2} $q } return { count($q) as n } }",
    "none": "query q() { match { $p: Port not { $p lane $q } } return { count($p) as n } }",
    "limit 0": "query q() { match { $p: Port } return { $p.code } limit 0 }",
    "greatest": "query q() { match { $p: Port } return { max($p.depth) as n } }",
    "other end": "query q() { match { $s: Ship $s calls $p } return { count($p) as n } }",
    "text": 'query q() { match { $p: Port search($p.note, "nothing") } return { $p.code } }',
    "near": "query q() { match { $p: Port } return { $p.code } order { nearest($p.place, [0.0, 1.0]) } limit 1 }",
}
STATEMENTS = {
    "count": "select count(*) as n from Port",
    "limit 0": "select * from Port limit 0",
    "false": "select * from Port where 1 = 0",
    "constant": "select 1 as x from Port",
    "exists": "select 1 as x where exists (select 1 from Port where 1 = 0)",
    "union": "select code from Port where false union all select name from Ship",
    "edges": "select count(*) as n from Lane",
    "cross": "select count(*) as n from Ship, Port",
    "subquery": "select (select max(depth) from Port) as n",
    "join": "select count(*) as n from Ship s left join Port p on false",
    "gq": "select * from gq('query q() { match { $p: Port } return { count($p) as n } }')",
    "degree": "select degree('Calls', id, 'out') as d from Ship",
}
ENGINES: list[EngineName] = ["datafusion", "duckdb"]


def port(number: int) -> list[str]:
    data = {"code": str(number), "depth": number, "note": f"deep {number}", "place": [number, 1.0]}
    lane = {"edge": "Lane", "from": str(number), "to": str(max(number - 1, 0))}
    call = {"edge": "Calls", "from": "s", "to": str(number)}
    return [json.dumps({"type": "Port", "data": data}), json.dumps(lane), json.dumps(call)]


def filled(place: Place) -> tuple[og.Graph, int]:
    """A graph, and a version of it that a cleanup will take."""
    graph = og.init(place / "g", SCHEMA)
    graph.load([json.dumps({"type": "Ship", "data": {"name": "s"}})], mode="append")
    for number in range(3):
        graph.load(port(number), mode="append")
    past = graph.snapshot().manifest_version
    for number in range(3, 8):
        graph.load(port(number), mode="append")
    return graph, past


def asked(graph: og.Graph, past: int) -> dict[str, Callable[[], Any]]:
    """Every way to ask for rows of the past state."""
    commit = next(each.graph_commit_id for each in graph.commits() if each.manifest_version == past)
    questions: dict[str, Callable[[], Any]] = {}
    for engine in ENGINES:
        for name, text in QUERIES.items():
            questions[f"{engine} query {name}"] = partial(_rows, graph.query, text, version=past, engine=engine)
        for name, text in STATEMENTS.items():
            questions[f"{engine} sql {name}"] = partial(_rows, graph.sql, text, version=past, engine=engine)
        for name, state in (("version", f"main@{past}"), ("commit", f"@{commit}")):
            text = f'select * from "{state}"."Port" where false'
            questions[f"{engine} sql of a {name}"] = partial(_rows, graph.sql, text, engine=engine)
    return questions | {
        "query by commit": lambda: graph.query(QUERIES["count"], snapshot=commit).to_pylist(),
        "explain": lambda: graph.explain(QUERIES["count"], version=past),
        "export": lambda: list(graph.export(version=past)),
        "export of a type": lambda: list(graph.export(version=past, types=["Lane"])),
        "entity": lambda: graph.entity_at("node:Port", "nobody", version=past),
        "diff": lambda: graph.diff(f"main@{past}", "main").to_dict(),
        "diff back": lambda: graph.diff("main", f"@{commit}").to_dict(),
        "session": lambda: graph.datafusion(version=past).sql("select count(*) as n from Port").to_pylist(),
    }


def _rows(ask: Callable[..., og.Result], text: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ask(text, **options).to_pylist()
    return rows


def clean(uri: str) -> None:
    """In another process."""
    code = "import sys, omnigraph_sql as og; og.connect(sys.argv[1]).cleanup(keep=3)"
    subprocess.run([sys.executable, "-c", code, uri], check=True, timeout=300)


def check_reclaimed(graph: og.Graph, past: int) -> None:
    answered = {}
    for name, ask in asked(graph, past).items():
        try:
            answered[name] = ask()
        except OmnigraphError as error:
            if not isinstance(error, VersionReclaimed) or "read a later version" not in str(error.hint):
                answered[name] = error
    assert answered == {}


@pytest.mark.parametrize("cleaner", ["same handle", "other process"])
def test_whoever_asks_for_rows_that_are_gone_is_told_so(place: Place, cleaner: str) -> None:
    graph, past = filled(place)
    if cleaner == "same handle":
        for ask in asked(graph, past).values():
            ask()
        graph.cleanup(keep=3)
        check_reclaimed(graph, past)
    else:
        clean(graph.uri)

    with og.connect(graph.uri, read_only=True) as reader:
        check_reclaimed(reader, past)
    with og.connect(graph.uri) as writer:
        check_reclaimed(writer, past)


def test_what_needs_no_row_that_is_gone_is_still_told(place: Place) -> None:
    graph, past = filled(place)
    clean(graph.uri)

    for engine in ENGINES:
        assert graph.sql("select name from Ship", version=past, engine=engine).to_pylist() == [{"name": "s"}]
        count = graph.query("query q() { match { $s: Ship } return { count($s) as n } }", version=past, engine=engine)
        assert count.to_pylist() == [{"n": 1}]
    assert graph.entity_at("node:Ship", "s", version=past) is not None
    assert len(list(graph.export(version=past, types=["Ship"]))) == 1
    assert graph.snapshot(version=past).entries["node:Port"].row_count == 3
    assert graph.diff(f"main@{past}", "main", types=["Ship"]).changes == ()


@pytest.mark.parametrize("replaced", [False, True], ids=["files shared", "files gone"])
def test_a_reader_of_before_goes_on_with_what_it_knows_or_is_told(place: Place, replaced: bool) -> None:
    graph, past = filled(place)
    reader = og.connect(graph.uri, read_only=True)
    questions = asked(reader, past)
    before = {name: ask() for name, ask in questions.items()}
    if replaced:
        graph.load([json.dumps({"type": "Ship", "data": {"name": "s"}}), *port(0)], mode="overwrite")
        graph.load(port(1), mode="merge")
        graph.load(port(2), mode="merge")
    clean(graph.uri)
    for name, ask in questions.items():
        try:
            found = ask()
        except (VersionReclaimed, Storage):
            continue
        if not name.startswith(("explain", "diff")):  # to a state that has moved
            assert found == before[name], name
    for engine in ENGINES:  # columns that were not read before
        try:
            rows = reader.sql("select note, place from Port", version=past, engine=engine).to_pylist()
        except (VersionReclaimed, Storage):
            continue
        assert len(rows) == 3
