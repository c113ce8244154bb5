"""Computation of missing vectors of rows, column by column.

A write uses it before it stages anything:

1. `handle = Embeddings(embedder)` once per graph; `handle.is_on(embed)` is True if this write computes vectors.
2. In the records, the properties in `computed_properties(type)` may be absent, even required ones: they are null until
   `fill` has run. With embedding off, an absent required property is an error at once.
3. `rows = fill(type, rows, handle)` for each batch of rows; it sends no request if no vector is missing.
4. A required vector that is still null has no text to compute it from, and the check of required properties rejects it.

An update that assigns the text of a vector but not the vector makes it outdated: `fill(..., outdated=outdated_by(type,
assigned))`. With embedding off, `fill` is not called and the vector does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType, Property
from omnigraph_sql import arguments
from omnigraph_sql.embeddings.client import Client, Embedder, embedder_object, role
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.embeddings.providers import Role
from omnigraph_sql.embeddings.settings import MODEL_VARIABLE
from omnigraph_sql.embeddings.vectors import UnusableVector, Vectors, normalised
from omnigraph_sql.errors import BadRequest, Configuration, EmbeddingFailed, OmnigraphError

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
_TYPE = arguments.instance((NodeType, EdgeType), "a type of a schema")
_PROPERTY = arguments.instance(Property, "a property of a type")
_ROWS = arguments.instance((pa.RecordBatch, pa.Table), "an Arrow table or record batch")
_EMBEDDER = arguments.either(arguments.instance(Embeddings, "an embedder"), embedder_object)


@arguments.checked(type_=_TYPE)
def computed_properties(type_: NodeType | EdgeType) -> tuple[Property, ...]:
    """Return the vector properties of a type that are computed from a text of the same entity."""
    return tuple(prop for prop in type_.properties.values() if prop.embed is not None)


@arguments.checked(type_=_TYPE, assigned=arguments.texts)
def outdated_by(type_: NodeType | EdgeType, assigned: Collection[str]) -> frozenset[str]:
    """Return the names of the vectors that are outdated after an update of these properties."""
    return frozenset(
        prop.name
        for prop in computed_properties(type_)
        if prop.embed is not None and prop.embed.source in assigned and prop.name not in assigned
    )


@arguments.checked(type_=_TYPE, rows=_ROWS, embedder=_EMBEDDER, outdated=arguments.texts)
def fill(type_: NodeType | EdgeType, rows: Rows, embedder: Embedder | Embeddings, *, outdated: Collection[str] = ()) -> Rows:
    """Compute every vector that is null and whose text is present; an empty text counts as absent.

    `rows` has a column for each property. The vectors named in `outdated` are computed even if they are not null. Other
    values do not change. If there are vectors to compute, raises `Configuration` if no provider is configured or the schema
    records another model than the embedder's, and `EmbeddingFailed`.
    """
    for prop in computed_properties(type_):
        source = prop.name if prop.embed is None else prop.embed.source
        for name in (prop.name, source):
            if rows.schema.names.count(name) != 1:
                hint = "give a column for each property"
                raise BadRequest(f"the rows of {type_.name} have no column `{name}`, or several", hint=hint)
        rows = _filled(type_, prop, rows, embedder, everything=prop.name in outdated)
    return rows


@arguments.checked(
    type_name=arguments.text, prop=_PROPERTY, texts=arguments.collection(arguments.content), embedder=_EMBEDDER, role=role
)
def embed_for(type_name: str, prop: Property, texts: list[str], embedder: Embedder | Embeddings, role: Role) -> Vectors:
    """Compute the vectors of texts for one property, after checking the recorded model and the dimension.

    For the text of a `nearest` the role is query.
    """
    client = embedder.client() if isinstance(embedder, Embeddings) else embedder
    check_model(type_name, prop, client)
    dimension = prop.type.dimension or 0
    if isinstance(client, Client):
        return client.embed(texts, dimension=dimension, role=role)
    try:
        vectors = client.embed(texts, dimension=dimension, role=role)
    except OmnigraphError:
        raise
    except Exception as error:
        message = f"the embedder {client.provider} failed: {arguments.raised(error)}"
        raise EmbeddingFailed(message, provider=client.provider, attempts=1) from error
    return _checked(client, vectors, len(texts), dimension)


@arguments.checked(type_name=arguments.text, prop=_PROPERTY, embedder=_EMBEDDER)
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
    """Check the vectors of a custom embedder by the rules for the responses of providers."""
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
    vectors: pa.ChunkedArray, selected: npt.NDArray[np.bool_], owners: npt.NDArray[np.int32], values: pa.Array
) -> Iterator[pa.Array]:
    """Yield the chunks of a column with the selected rows replaced by `values`, at the indices in `owners`."""
    start = taken = 0
    for chunk in vectors.chunks:
        mask = selected[start : start + len(chunk)]
        number = int(mask.sum())
        places = np.arange(len(chunk))
        places[mask] = owners[taken : taken + number] + len(chunk)
        yield pa.concat_arrays([chunk, values]).take(pa.array(places)) if number else chunk
        start += len(chunk)
        taken += number
