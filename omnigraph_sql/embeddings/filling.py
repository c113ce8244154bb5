"""Computing the vectors that rows lack, column by column.

How a write uses it, before anything is staged:

1. `handle = Embeddings(embedder)` once per graph; `handle.is_on(embed)` says whether this write computes vectors.
2. While records are read, the properties in `computed_properties(type)` may be absent, also those that are required: they
   are null until `fill` has run. With embedding off, a required one that is absent is an error at once.
3. `rows = fill(type, rows, handle)` for each batch of rows; nobody is asked where nothing is missing.
4. A required vector that is still null then has no text it could be computed from: the usual check of required properties
   refuses it.

An update that assigns the text of a vector but not the vector makes it outdated: `fill(..., outdated=outdated_by(type,
assigned))`. With embedding off, `fill` is not called and the vector stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType, Property
from omnigraph_sql.embeddings.client import Client, Embedder
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.embeddings.providers import Role
from omnigraph_sql.embeddings.settings import MODEL_VARIABLE
from omnigraph_sql.embeddings.vectors import UnusableVector, Vectors, normalised
from omnigraph_sql.errors import Configuration, EmbeddingFailed

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def computed_properties(type_: NodeType | EdgeType) -> tuple[Property, ...]:
    """The vector properties of a type that are computed from a text of the same entity."""
    return tuple(prop for prop in type_.properties.values() if prop.embed is not None)


def outdated_by(type_: NodeType | EdgeType, assigned: Collection[str]) -> frozenset[str]:
    """The vectors that are no longer right after an update has assigned these properties."""
    return frozenset(
        prop.name
        for prop in computed_properties(type_)
        if prop.embed is not None and prop.embed.source in assigned and prop.name not in assigned
    )


def fill(type_: NodeType | EdgeType, rows: Rows, embedder: Embedder | Embeddings, *, outdated: Collection[str] = ()) -> Rows:
    """The rows with every vector computed that is null and whose text is present; an empty text counts as absent.

    `rows` has a column for each property. The vectors named in `outdated` are computed even if they are not null. Other
    values stay as they are. Where there is something to compute, raises `Configuration` if nobody can compute it or the
    schema recorded another model than the embedder's, and `EmbeddingFailed`.
    """
    for prop in computed_properties(type_):
        rows = _filled(type_, prop, rows, embedder, everything=prop.name in outdated)
    return rows


def embed_for(type_name: str, prop: Property, texts: list[str], embedder: Embedder | Embeddings, role: Role) -> Vectors:
    """The vectors of texts for one property: the model must be the recorded one, the vectors those of its type.

    For the text of a `nearest` the role is query.
    """
    ready = embedder.client() if isinstance(embedder, Embeddings) else embedder
    check_model(type_name, prop, ready)
    dimension = prop.type.dimension or 0
    vectors = ready.embed(texts, dimension=dimension, role=role)
    return vectors if isinstance(ready, Client) else _checked(ready, vectors, len(texts), dimension)


def check_model(type_name: str, prop: Property, embedder: Embedder) -> None:
    """Refuse a model other than the one that the schema recorded: vectors of two models cannot be compared."""
    recorded = prop.embed.model if prop.embed is not None else None
    if recorded is not None and recorded != embedder.model:
        raise Configuration(
            f"`{type_name}.{prop.name}` is recorded with the embedding model `{recorded}`, "
            f"but the provider {embedder.provider} uses `{embedder.model}`",
            what="embedding model",
            hint=f"set {MODEL_VARIABLE} to the recorded model",
        )


def _checked(embedder: Embedder, vectors: Vectors, count: int, dimension: int) -> Vectors:
    """What an embedder of the caller's own gave, held to the same rules as a provider's answer."""
    try:
        checked = normalised(vectors, dimension)
        if len(checked) != count:
            raise UnusableVector(f"belongs to no text: {len(checked)} came for {count} texts")
        return checked
    except UnusableVector as error:
        text = f"the embedder {embedder.provider} gave a vector that {error}"
        raise EmbeddingFailed(text, provider=embedder.provider, attempts=1) from None


def _filled(
    type_: NodeType | EdgeType, prop: Property, rows: Rows, embedder: Embedder | Embeddings, *, everything: bool
) -> Rows:
    assert prop.embed is not None
    position = rows.schema.get_field_index(prop.name)
    vectors, sources = _chunked(rows.column(position)), _chunked(rows.column(prop.embed.source))
    wanted = pc.fill_null(pc.not_equal(sources, ""), False)
    if not everything:
        wanted = pc.and_(wanted, pc.is_null(vectors))
    texts = sources.filter(wanted)
    if len(texts) == 0:
        return rows
    distinct = texts.unique()
    computed = embed_for(type_.name, prop, distinct.to_pylist(), embedder, "document")
    field = rows.schema.field(position)
    values = pa.FixedSizeListArray.from_arrays(pa.array(computed.ravel()), type=field.type)
    owners = pc.index_in(texts, value_set=distinct)
    chunks = list(_replaced(vectors, np.asarray(wanted), np.asarray(owners), values))
    column = chunks[0] if isinstance(rows, pa.RecordBatch) else pa.chunked_array(chunks, field.type)
    return rows.set_column(position, field, column)


def _chunked(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _replaced(
    vectors: pa.ChunkedArray, wanted: npt.NDArray[np.bool_], owners: npt.NDArray[np.int32], values: pa.Array
) -> Iterator[pa.Array]:
    """The chunks of a column with the wanted rows taken from `values`, at the places that `owners` lists in order."""
    start = taken = 0
    for chunk in vectors.chunks:
        mask = wanted[start : start + len(chunk)]
        number = int(mask.sum())
        places = np.arange(len(chunk))
        places[mask] = owners[taken : taken + number] + len(chunk)
        yield pa.concat_arrays([chunk, values]).take(pa.array(places)) if number else chunk
        start += len(chunk)
        taken += number
