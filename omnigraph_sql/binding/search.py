"""Text predicates, scores and distances of a plan, bound to the search structures of one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.binding.context import Array, BindContext, BoundFunction, numbers
from omnigraph_sql.embeddings import embed_for
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.search.search_columns import terms, words
from omnigraph_sql.storage.ann_index import has_index, probably_nearest
from omnigraph_sql.storage.index_definitions import index_specs
from omnigraph_sql.table_keys import TableKey
from omnigraph_udfs.text import TextIndex
from omnigraph_udfs.vector_index import VectorIndex

Positions = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_WORTH = 100
"""The vector index is used if it returns at most one in so many rows; otherwise all rows are compared."""


def text_index(context: BindContext, table_key: str, column: str) -> TextIndex:
    """The text index of a column."""
    return context.search.text(context.table(table_key), column)


def vector_index(context: BindContext, table_key: str, column: str) -> VectorIndex:
    """The vectors of a column."""
    return context.search.vectors(context.table(table_key), column)


def text(context: BindContext, function: fn.Text) -> BoundFunction:
    index = text_index(context, function.table_key, function.column)
    edits = 2 if function.edits is None else context.values[function.edits]
    if edits is not None and edits < 0:
        raise BadRequest(f"fuzzy: the distance {edits} is negative", hint="use 0 or more")

    def mask(query: str | None) -> npt.NDArray[np.bool_]:
        if query is None or edits is None:
            return np.zeros(index.size, np.bool_)
        return index.fuzzy(words(query), edits) if function.function == "fuzzy" else index.search(terms(query))

    if function.query is not None:
        return BoundFunction((pa.int64(),), pa.bool_(), pa.array(mask(context.values[function.query])).take)
    run = _per_query(lambda query, at: mask(query)[at], np.bool_)
    return BoundFunction((pa.int64(), pa.string()), pa.bool_(), lambda v, q: pa.array(run(v, q)))


def score(context: BindContext, function: fn.Bm25Score) -> BoundFunction:
    index = text_index(context, function.table_key, function.column)
    if function.query is not None:
        query = terms(context.values[function.query] or "")
        return BoundFunction((pa.int64(),), pa.float64(), lambda v: pa.array(index.bm25_at(query, numbers(v))))
    run = _per_query(lambda query, at: index.bm25_at(terms(query or ""), at), np.float64)
    return BoundFunction((pa.int64(), pa.string()), pa.float64(), lambda v, q: pa.array(run(v, q)))


def distance(context: BindContext, function: fn.Distance) -> BoundFunction:
    index = vector_index(context, function.table_key, function.column)

    def measure(query: Any, at: Positions) -> Floats:
        if query is None:
            return np.full(len(at), np.nan)
        distances, is_valid = index.distances(np.asarray(query, np.float32), at, metric=function.metric)  # type: ignore[arg-type]
        return np.where(is_valid, distances, np.nan)

    if function.query is not None:
        point = query_point(context, function, context.values[function.query])
        return BoundFunction((pa.int64(),), pa.float64(), lambda v: pa.array(measure(point, numbers(v)), from_pandas=True))
    run = _per_query(measure, np.float64)
    kind = pa.list_(pa.field("item", pa.float32()), _dimension(context, function))
    return BoundFunction((pa.int64(), kind), pa.float64(), lambda v, q: pa.array(run(v, q), from_pandas=True))


def probable(context: BindContext, function: fn.Distance, point: npt.NDArray[np.float32], limit: int) -> Positions | None:
    """Return the candidates of the vector index for the nearest entities of a large type; None without an index."""
    table, node = context.table(function.table_key), context.catalog.nodes[TableKey(function.table_key).name]
    declared = any(spec.column == function.column and spec.metric for spec in index_specs(node, table.size))
    if not declared or limit * _WORTH > table.size:
        return None
    handle = table.handle
    if not has_index(handle, function.column):
        return None
    context.trace.note(f"{function.table_key}.{function.column} nearest", "index")
    return probably_nearest(handle, function.column, point, limit, function.metric)


def _dimension(context: BindContext, function: fn.Distance) -> int:
    dimension = context.catalog.nodes[TableKey(function.table_key).name].properties[function.column].type.dimension
    assert dimension is not None
    return dimension


def query_point(context: BindContext, function: fn.Distance, query: Any) -> npt.NDArray[np.float32] | None:
    """Return the query vector: a parameter, checked when it was bound, or the embedding of a text."""
    if query is None:
        return None
    if isinstance(query, str):
        query = _embedded(context, function, query)
    return np.asarray(query, np.float32)


def _embedded(context: BindContext, function: fn.Distance, text: str) -> Any:
    name = TableKey(function.table_key).name
    if not context.embeddings.is_on(None):
        raise Configuration(
            f"`{name}.{function.column}` cannot be compared with a text: no embedding provider is configured",
            what="embedding provider",
            hint="configure one, or give a vector",
        )
    prop = context.catalog.nodes[name].properties[function.column]
    return embed_for(name, prop, [text], context.embeddings, "query")[0]


def _per_query(
    answer: Callable[[Any, npt.NDArray[np.int64]], npt.NDArray[Any]], kind: Any
) -> Callable[..., npt.NDArray[Any]]:
    """Evaluate rows with a query each: every distinct query runs once, for all its rows."""

    def run(v: Array, queries: Array) -> npt.NDArray[Any]:
        at = numbers(v)
        rows: dict[Any, list[int]] = {}
        for row, query in enumerate(queries.to_pylist()):
            rows.setdefault(tuple(query) if isinstance(query, list) else query, []).append(row)
        out = np.empty(len(at), kind)
        for query, places in rows.items():
            out[places] = answer(query, at[places])
        return out

    return run
