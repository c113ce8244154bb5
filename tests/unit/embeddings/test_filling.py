"""Vectors for rows that lack them, column by column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from omnigraph_compiler import NodeType, compile_schema
from omnigraph_sql.embeddings import Client, Embeddings, Role, computed_properties, embed_for, fill, outdated_by, resolve
from omnigraph_sql.errors import Configuration, EmbeddingFailed

SCHEMA = """
node Doc {
  slug: String @key
  title: String
  body: String?
  title_vector: Vector(3) @embed(title)
  body_vector: Vector(2)? @embed("body", model="tiny")
  supplied: Vector(2)?
}
edge Cites: Doc -> Doc { weight: F32? }
"""
CATALOG = compile_schema(SCHEMA)
DOC: NodeType = CATALOG.nodes["Doc"]


def vector_type(dimension: int) -> pa.DataType:
    return pa.list_(pa.field("item", pa.float32()), dimension)


ARROW = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"primary": "yes"}),
        pa.field("slug", pa.string(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("body", pa.string()),
        pa.field("title_vector", vector_type(3), nullable=False, metadata={"kept": "yes"}),
        pa.field("body_vector", vector_type(2)),
        pa.field("supplied", vector_type(2)),
    ],
    metadata={"table": "Doc"},
)


class Recording:
    """An embedder as a user might bring along; remembers what it was asked for."""

    provider = "own"
    model = "tiny"

    def __init__(self, answer: Any = None) -> None:
        self.calls: list[tuple[list[str], int, str]] = []
        self._answer = answer

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> npt.NDArray[np.float32]:
        self.calls.append((list(texts), dimension, role))
        if self._answer is not None:
            return np.asarray(self._answer)
        return np.array([[float(len(text))] * dimension for text in texts], np.float32)


def mock() -> Client:
    return Client(resolve("mock", model="tiny", environ={}))


def docs(*rows: dict[str, Any]) -> pa.RecordBatch:
    full = [{"id": f"d{at}", "slug": f"d{at}", "title": f"title {at}", **row} for at, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(full, schema=ARROW)


def expected(text: str, dimension: int) -> list[float]:
    vector: list[float] = mock().embed([text], dimension=dimension)[0].tolist()
    return vector


def test_missing_vectors_are_computed_and_the_others_kept() -> None:
    rows = docs(
        {"body": "tides", "supplied": [5.0, 6.0]},
        {"title_vector": [1.0, 2.0, 3.0], "body": "locks", "body_vector": [9.0, 9.0]},
        {"body": None},
        {"body": ""},
    )

    filled = fill(DOC, rows, mock())

    filled.validate(full=True)
    assert isinstance(filled, pa.RecordBatch)
    assert filled.schema.equals(rows.schema, check_metadata=True)
    titles = filled.column("title_vector").to_pylist()
    assert titles == [expected("title 0", 3), [1.0, 2.0, 3.0], expected("title 2", 3), expected("title 3", 3)]
    assert filled.column("body_vector").to_pylist() == [expected("tides", 2), [9.0, 9.0], None, None]
    assert filled.column("supplied").to_pylist() == [[5.0, 6.0], None, None, None]
    assert filled.select(["id", "slug", "title", "body"]).equals(rows.select(["id", "slug", "title", "body"]))


def test_equal_texts_are_asked_for_once() -> None:
    embedder = Recording()

    fill(DOC, docs(*[{"title": "same", "body": f"body {at % 2}"} for at in range(6)]), embedder)

    assert embedder.calls == [(["same"], 3, "document"), (["body 0", "body 1"], 2, "document")]


def test_nothing_missing_means_nothing_to_do() -> None:
    rows = docs({"title_vector": [1.0, 0.0, 0.0], "body": "tides", "body_vector": [1.0, 0.0]})
    embedder = Recording()

    assert fill(DOC, rows, embedder) is rows
    assert fill(DOC, rows.slice(0, 0), embedder).num_rows == 0
    assert embedder.calls == []


def test_a_key_is_needed_only_where_something_is_missing() -> None:
    handle = Embeddings("openai", environ={})
    complete = docs({"title_vector": [1.0, 0.0, 0.0]})

    assert fill(DOC, complete, handle) is complete
    with pytest.raises(Configuration, match="needs a key"):
        fill(DOC, docs({}), handle)


def test_a_handle_fills_like_its_client() -> None:
    handle = Embeddings("mock", environ={"OMNIGRAPH_EMBED_MODEL": "tiny"})

    assert fill(DOC, docs({"body": "x"}), handle).equals(fill(DOC, docs({"body": "x"}), mock()))


def test_a_type_without_computed_vectors_is_left_alone() -> None:
    rows = pa.table({"id": ["e"], "src": ["a"], "dst": ["b"], "weight": pa.array([1.0], pa.float32())})

    assert fill(CATALOG.edges["Cites"], rows, Recording()) is rows
    assert computed_properties(CATALOG.edges["Cites"]) == ()


def test_tables_keep_their_chunks() -> None:
    first = docs({"body": "a"}, {"title_vector": [1.0, 0.0, 0.0]})
    second = docs({"title_vector": [0.0, 1.0, 0.0]})
    table = pa.Table.from_batches([first, second, second.slice(0, 0), docs({"body": "b"}, {"body": "a"})])
    embedder = Recording()

    filled = fill(DOC, table, embedder)

    filled.validate(full=True)
    assert filled.schema.equals(table.schema, check_metadata=True)
    assert [len(chunk) for chunk in filled.column("title_vector").chunks] == [2, 1, 0, 2]
    assert filled.column("title_vector").null_count == 0
    assert embedder.calls[1] == (["a", "b"], 2, "document")
    bodies = filled.column("body_vector").to_pylist()
    assert bodies[0] == bodies[4] != None  # noqa: E711
    assert bodies[1:3] == [None, None]


def test_slices_are_read_where_they_begin() -> None:
    rows = docs({"body": "a"}, {"body": "b", "body_vector": [1.0, 0.0]}, {"body": "c"}).slice(1)

    filled = fill(DOC, rows, mock())

    assert filled.column("body_vector").to_pylist() == [[1.0, 0.0], expected("c", 2)]


def test_outdated_vectors_are_computed_anew_where_there_is_a_text() -> None:
    rows = docs({"body": "new", "body_vector": [1.0, 0.0]}, {"body_vector": [0.0, 1.0]})

    filled = fill(DOC, rows, mock(), outdated=outdated_by(DOC, {"body"}))

    assert filled.column("body_vector").to_pylist() == [expected("new", 2), [0.0, 1.0]]


@pytest.mark.parametrize(
    ("assigned", "outdated"),
    [
        (["slug"], set()),
        (["body"], {"body_vector"}),
        (["body", "body_vector"], set()),
        (["title", "body", "body_vector"], {"title_vector"}),
    ],
)
def test_what_an_update_makes_outdated(assigned: list[str], outdated: set[str]) -> None:
    assert outdated_by(DOC, assigned) == outdated


def test_properties_that_may_be_absent_while_records_are_read() -> None:
    assert [prop.name for prop in computed_properties(DOC)] == ["title_vector", "body_vector"]


def test_another_model_than_the_recorded_one_is_refused() -> None:
    other = Client(resolve("mock", model="huge", environ={}))

    with pytest.raises(Configuration) as caught:
        fill(DOC, docs({"body": "tides"}), other)

    assert caught.value.what == "embedding model"
    assert caught.value.message == (
        "`Doc.body_vector` is recorded with the embedding model `tiny`, but the provider mock uses `huge`"
    )


def test_the_model_does_not_matter_where_nothing_is_computed() -> None:
    other = Client(resolve("mock", model="huge", environ={}))

    assert fill(DOC, docs({"body": None}), other).column("title_vector").null_count == 0


def test_a_text_to_search_with() -> None:
    embedder = Recording()

    vectors = embed_for("Doc", DOC.properties["body_vector"], ["tides"], embedder, "query")

    assert embedder.calls == [(["tides"], 2, "query")]
    assert np.allclose(vectors, [[0.5**0.5, 0.5**0.5]])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([[1.0, 2.0]], "has 2 dimensions, not 3"),
        ([1.0, 2.0, 3.0], "does not stand in a row of its own"),
        (7.0, "does not stand in a row of its own"),
        ([["x", "y", "z"]], "is not made of numbers"),
        ([], "does not stand in a row of its own"),
        ([[1.0, 2.0, 3.0]] * 2, "2 came for 1 texts"),
        ([[0.0, 0.0, 0.0]], "is zero"),
        ([[np.nan, 0.0, 0.0]], "is not finite"),
    ],
)
def test_an_embedder_of_ones_own_must_give_usable_vectors(answer: Any, text: str) -> None:
    with pytest.raises(EmbeddingFailed, match="the embedder own gave a vector that") as caught:
        fill(DOC, docs({}), Recording(answer))

    assert text in caught.value.message
    assert caught.value.provider == "own"


def test_the_vectors_of_an_embedder_of_ones_own_are_made_to_have_length_one() -> None:
    filled = fill(DOC, docs({}), Recording([[3.0, 0.0, 4.0]]))

    assert np.allclose(filled.column("title_vector").to_pylist(), [[0.6, 0.0, 0.8]])
