"""Many small commits: the writes themselves fold the fragments, and nobody can tell from the content."""

import json
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph_sql as og
from omnigraph_sql.storage import fold
from omnigraph_sql.writes.load.staged_load import StagedLoad

SCHEMA = """
node Person { name: String @key  age: I32? @index  tags: [String]?  spot: Vector(2)? }
node Picture { name: String @key  bytes: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
FEW = 4


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MANY", FEW)


def table(graph: og.Graph, key: str, branch: str = "main") -> lance.LanceDataset:
    entry = graph.snapshot(branch=branch).entries[key]
    place = Path(graph.uri) / entry.path
    return lance.dataset(str(place if entry.branch is None else place / "tree" / entry.branch), version=entry.version)


def fragments(graph: og.Graph, key: str, branch: str = "main") -> int:
    return len(table(graph, key, branch).get_fragments())


def person(number: int, **others: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": f"p{number}", "age": number} | others})


def ages(graph: og.Graph, **at: Any) -> dict[str, int]:
    text = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
    return {row["name"]: row["age"] for row in graph.query(text, **at).to_pylist()}


def found(graph: og.Graph, age: int) -> list[str]:
    text = "query q($age: I32) { match { $p: Person  $p.age = $age } return { $p.name as name } order { $p.name } }"
    return [row["name"] for row in graph.query(text, params={"age": age}).to_pylist()]


def test_small_commits_do_not_pile_up(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    for number in range(30):
        graph.load([person(number, tags=[str(number), "x"], spot=[number, 0.5])], mode="append")
        assert fragments(graph, "node:Person") <= FEW
    rows = sorted((json.loads(line)["data"] for line in graph.export()), key=lambda each: each["age"])
    assert [(each["name"], each["age"]) for each in rows] == [(f"p{number}", number) for number in range(30)]
    assert [(each["tags"], each["spot"]) for each in rows] == [([str(n), "x"], [n, 0.5]) for n in range(30)]


def test_rows_keep_their_identity_and_the_past_stays(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    model: dict[str, int] = {}
    past: list[tuple[str, dict[str, int]]] = []
    first: dict[str, tuple[int, int]] = {}
    for number in range(24):
        name = f"p{number % 9}"
        if number % 5 == 4:
            commit = graph.mutate(
                "query q($name: String) { delete Person where name = $name }", params={"name": name}
            ).commit
            model.pop(name, None)
            first.pop(name, None)
        else:
            commit = graph.load([person(number, name=name)], mode="merge").commit
            model[name] = number
        if commit is not None:
            past.append((commit.graph_commit_id, dict(model)))
        columns = ["name", "_rowid", "_row_created_at_version"]
        for row in table(graph, "node:Person").scanner(columns=columns).to_table().to_pylist():
            place = row["_rowid"], row["_row_created_at_version"]
            assert first.setdefault(row["name"], place) == place
    assert fragments(graph, "node:Person") <= FEW + 1
    for known, content in past:
        assert ages(graph, snapshot=known) == content
    assert ages(og.connect(graph.uri)) == model


def test_indexes_and_branches_answer_alike(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    for number in range(FEW - 1):
        graph.load([person(number)], mode="append")
    graph.ensure_indices()
    graph.create_branch("side")
    for number in range(FEW, 3 * FEW):
        graph.load([person(number), person(0)], mode="merge")
        graph.load([person(number + 100)], mode="append", branch="side")
        edge = {"edge": "Knows", "from": "p1", "to": "p2", "data": {"since": number}}
        graph.load([json.dumps(edge)], mode="append", branch="side")
    for number in range(3 * FEW):
        known = number < FEW - 1
        assert found(graph, number) == ([f"p{number}"] if known or number >= FEW else [])
    assert sorted(ages(graph, branch="side").values()) == [*range(FEW - 1), *range(100 + FEW, 100 + 3 * FEW)]
    for key in ("node:Person", "edge:Knows"):
        assert fragments(graph, key, "side") <= FEW + FEW - 1


def test_a_staged_load_folds_as_well(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    for number in range(FEW):
        graph.load([person(number)], mode="append")
    text = graph.stage([person(FEW)], mode="append").to_json()
    assert len(ages(graph)) == FEW
    graph.publish(StagedLoad.from_json(text))
    assert ages(graph) == {f"p{number}": number for number in range(FEW + 1)}
    assert fragments(graph, "node:Person") == 2


def test_blobs_are_left_where_they_are(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    for number in range(2 * FEW):
        picture = {"type": "Picture", "data": {"name": str(number), "bytes": "base64:aGk="}}
        graph.load([json.dumps(picture)], mode="append")
    assert fragments(graph, "node:Picture") == 2 * FEW
    assert len(list(graph.export())) == 2 * FEW


def test_large_fragments_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SMALL", 1)
    graph = og.init(tmp_path / "graph", SCHEMA)
    for number in range(2 * FEW):
        graph.load([person(number)], mode="append")
    assert fragments(graph, "node:Person") == 2 * FEW


def test_a_fold_that_fails_does_not_fail_the_write(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.load([person(number) for number in range(3)], mode="append")
    for number in range(FEW):
        graph.load([json.dumps({"edge": "Knows", "from": "p1", "to": "p2", "data": {"since": number}})], mode="append")
    data = Path(graph.uri) / graph.snapshot().entries["edge:Knows"].path / "data"
    next(data.iterdir()).unlink()
    count = len(table(graph, "edge:Knows").get_fragments())
    graph.load([json.dumps({"edge": "Knows", "from": "p0", "to": "p2"})], mode="append")
    assert len(table(graph, "edge:Knows").get_fragments()) == count + 1


def test_what_an_index_knows_is_not_folded(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    for number in range(FEW - 1):
        graph.load([person(number)], mode="append")
    graph.ensure_indices()
    for number in range(FEW, 4 * FEW):
        graph.load([person(number)], mode="append")
    known = {
        index.name: {n for part in index.segments for n in part.fragment_ids}
        for index in table(graph, "node:Person").describe_indices()
    }
    assert all(len(each) == FEW - 1 for each in known.values())
    assert fragments(graph, "node:Person") <= FEW - 1 + FEW
