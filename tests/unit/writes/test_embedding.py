"""Vectors that writes compute from texts."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.embeddings import Role
from tests.stores import Place

SCHEMA = """
node Doc {
  slug: String @key
  title: String?
  body: String?
  title_vector: Vector(4) @embed(title)
  body_vector: Vector(4)? @embed(body)
}
"""


class Counting:
    """An embedder of the caller's own that remembers what it was asked."""

    provider, model = "counting", "one"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> npt.NDArray[np.float32]:
        assert role == "document"
        self.asked += texts
        return np.array([[len(text) + 1.0] + [1.0] * (dimension - 1) for text in texts], dtype=np.float32)


def docs(graph: og.Graph, branch: str = "main") -> dict[str, dict[str, Any]]:
    return {row["slug"]: row for row in (json.loads(line)["data"] for line in graph.export(branch))}


def doc(**data: Any) -> str:
    return json.dumps({"type": "Doc", "data": data})


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def graph(place: Place, embedder: Counting) -> og.Graph:
    return og.init(place / "graph", SCHEMA, embedder=embedder)


def test_a_load_computes_what_is_missing_and_asks_for_each_text_once(graph: og.Graph, embedder: Counting) -> None:
    given = [1.0, 0.0, 0.0, 0.0]
    records = [doc(slug="a", title="tide"), doc(slug="b", title="tide", body="x"), doc(slug="c", title_vector=given)]

    graph.load("\n".join(records), mode="append")

    found = docs(graph)
    assert sorted(embedder.asked) == ["tide", "x"]
    assert found["a"]["title_vector"] == found["b"]["title_vector"] == pytest.approx(_unit([5, 1, 1, 1]))
    assert found["b"]["body_vector"] == pytest.approx(_unit([2, 1, 1, 1]))
    assert found["c"]["title_vector"] == given
    assert found["a"].get("body_vector") is None


def _unit(values: list[float]) -> list[float]:
    return [float(value) for value in np.array(values) / np.linalg.norm(values)]


def test_many_records_and_tables_are_filled_too(graph: og.Graph, embedder: Counting) -> None:
    graph.load("\n".join(doc(slug=f"s{n}", title=f"t{n % 7}") for n in range(500)), mode="append")
    graph.load({"Doc": pa.table({"slug": ["x"], "title": ["abc"]})}, mode="append")

    assert len(set(embedder.asked)) == 8
    assert docs(graph)["x"]["title_vector"] == pytest.approx(_unit([4, 1, 1, 1]))


def test_a_required_vector_without_a_text_is_refused(graph: og.Graph) -> None:
    with pytest.raises(errors.ValidationFailed, match=r"line 1: `Doc\.title_vector` cannot be null") as refused:
        graph.load(doc(slug="a", body="x"), mode="append")
    assert refused.value.rule == "required"
    with pytest.raises(errors.ValidationFailed, match="title_vector"):
        graph.mutate('query q() { insert Doc { slug: "a", title: "" } }')
    with pytest.raises(errors.Compile, match="omits the required `title_vector`"):
        graph.mutate('query q() { insert Doc { slug: "a" } }')
    assert docs(graph) == {}


def test_mutations_compute_missing_and_outdated_vectors(graph: og.Graph, embedder: Counting) -> None:
    graph.mutate('query q() { insert Doc { slug: "a", title: "ab", body: "abc" } }')
    first = docs(graph)["a"]
    graph.mutate('query q() { update Doc set { title: "abcdef" } where slug = "a" }')
    second = docs(graph)["a"]
    both = 'query q($v: Vector(4)) { update Doc set { title: "z", title_vector: $v } where slug = "a" }'
    graph.mutate(both, params={"v": [0, 1, 0, 0]})
    third = docs(graph)["a"]
    graph.mutate('query q($none: String?) { update Doc set { body: $none } where slug = "a" }', params={"none": None})

    assert first["title_vector"] == pytest.approx(_unit([3, 1, 1, 1]))
    assert second["title_vector"] == pytest.approx(_unit([7, 1, 1, 1]))
    assert second["body_vector"] == first["body_vector"]
    assert third["title_vector"] == [0, 1, 0, 0]
    assert docs(graph)["a"].get("body_vector") is None
    assert sorted(embedder.asked) == ["ab", "abc", "abcdef"]


def test_with_embedding_off_vectors_stay_as_they_are_given(graph: og.Graph, embedder: Counting) -> None:
    graph.load(doc(slug="a", title="ab"), mode="append")
    before = docs(graph)["a"]["title_vector"]
    silent = og.connect(graph.uri, embedder=embedder, embed="off")
    asked = list(embedder.asked)

    silent.mutate('query q() { update Doc set { title: "abcdef" } where slug = "a" }')
    with pytest.raises(errors.ValidationFailed, match="title_vector"):
        silent.load(doc(slug="b", title="x"), mode="append")
    with pytest.raises(errors.ValidationFailed, match="missing required property") as refused:
        silent.mutate('query q() { insert Doc { slug: "c", title: "t" } }')

    assert refused.value.hint == "no embedding provider is configured; supply the vector"
    assert docs(silent)["a"]["title_vector"] == before
    assert embedder.asked == asked


def test_a_provider_that_fails_leaves_nothing(place: Place) -> None:
    class Broken(Counting):
        def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> npt.NDArray[np.float32]:
            assert role == "document"
            return np.zeros((len(texts), dimension), dtype=np.float32)

    graph = og.init(place / "graph", SCHEMA, embedder=Broken())
    before = graph.commits()

    for write in (
        lambda: graph.load(doc(slug="a", title="x"), mode="append"),
        lambda: graph.mutate('query q() { insert Doc { slug: "a", title: "x" } }'),
    ):
        with pytest.raises(errors.EmbeddingFailed):
            write()
    assert (graph.commits(), docs(graph)) == (before, {})


def test_the_environment_names_the_mock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    graph = og.init(place / "graph", SCHEMA)

    graph.load(doc(slug="a", title="High and low water"), mode="append")

    assert docs(graph)["a"]["title_vector"][0] == pytest.approx(0.2966768, abs=1e-6)
