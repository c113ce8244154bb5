"""Text predicates, scores and distances of a plan, bound to the search structures of one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.embeddings import embed_for
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.search.columns import terms, words
from omnigraph_sql.storage.approximate import has_index, probably_nearest
from omnigraph_sql.storage.indexing import index_specs
from omnigraph_udfs.nearness import VectorIndex
from omnigraph_udfs.text import TextIndex

Positions = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_WORTH = 100
"""An index of vectors is asked for less than one in so many of the rows; for more, all rows are compared."""


def text_index(scope: Scope, table_key: str, column: str) -> TextIndex:
    """The text index of a column."""
    return scope.search.text(scope.table(table_key), column)


def vector_index(scope: Scope, table_key: str, column: str) -> VectorIndex:
    """The vectors of a column."""
    return scope.search.vectors(scope.table(table_key), column)


def text(scope: Scope, asked: fn.Text) -> Bound:
    index = text_index(scope, asked.table_key, asked.column)
    edits = 2 if asked.edits is None else scope.values[asked.edits]
    if edits is not None and edits < 0:
        raise BadRequest(f"fuzzy: the distance {edits} is negative", hint="use 0 or more")

    def mask(query: str | None) -> npt.NDArray[np.bool_]:
        if query is None or edits is None:
            return np.zeros(index.size, np.bool_)
        return index.fuzzy(words(query), edits) if asked.function == "fuzzy" else index.search(terms(query))

    if asked.query is not None:
        return Bound((pa.int64(),), pa.bool_(), pa.array(mask(scope.values[asked.query])).take)
    run = _per_query(lambda query, at: mask(query)[at], np.bool_)
    return Bound((pa.int64(), pa.string()), pa.bool_(), lambda v, q: pa.array(run(v, q)))


def score(scope: Scope, asked: fn.Bm25Score) -> Bound:
    index = text_index(scope, asked.table_key, asked.column)
    if asked.query is not None:
        query = terms(scope.values[asked.query] or "")
        return Bound((pa.int64(),), pa.float64(), lambda v: pa.array(index.bm25_at(query, numbers(v))))
    run = _per_query(lambda query, at: index.bm25_at(terms(query or ""), at), np.float64)
    return Bound((pa.int64(), pa.string()), pa.float64(), lambda v, q: pa.array(run(v, q)))


def distance(scope: Scope, asked: fn.Distance) -> Bound:
    index = vector_index(scope, asked.table_key, asked.column)

    def measure(query: Any, at: Positions) -> Floats:
        if query is None:
            return np.full(len(at), np.nan)
        found, known = index.distances(np.asarray(query, np.float32), at, metric=asked.metric)  # type: ignore[arg-type]
        return np.where(known, found, np.nan)

    if asked.query is not None:
        point = query_point(scope, asked, scope.values[asked.query])
        return Bound((pa.int64(),), pa.float64(), lambda v: pa.array(measure(point, numbers(v)), from_pandas=True))
    run = _per_query(measure, np.float64)
    kind = pa.list_(pa.field("item", pa.float32()), _dimension(scope, asked))
    return Bound((pa.int64(), kind), pa.float64(), lambda v, q: pa.array(run(v, q), from_pandas=True))


def probable(scope: Scope, asked: fn.Distance, point: npt.NDArray[np.float32], limit: int) -> Positions | None:
    """Among which of all entities of a large type the nearest are to be sought, if there is an index to tell."""
    table, node = scope.table(asked.table_key), scope.catalog.nodes[asked.table_key.removeprefix("node:")]
    declared = any(spec.column == asked.column and spec.metric for spec in index_specs(node, table.size))
    if not declared or limit * _WORTH > table.size:
        return None
    handle = table.handle
    if not has_index(handle, asked.column):
        return None
    scope.trace.note(f"{asked.table_key}.{asked.column} nearest", "index")
    return probably_nearest(handle, asked.column, point, limit, asked.metric)


def _dimension(scope: Scope, asked: fn.Distance) -> int:
    found = scope.catalog.nodes[asked.table_key.removeprefix("node:")].properties[asked.column].type.dimension
    assert found is not None
    return found


def query_point(scope: Scope, asked: fn.Distance, query: Any) -> npt.NDArray[np.float32] | None:
    """The vector to be near to: given, and then checked when parameters were bound, or that of a text."""
    if query is None:
        return None
    if isinstance(query, str):
        query = _embedded(scope, asked, query)
    return np.asarray(query, np.float32)


def _embedded(scope: Scope, asked: fn.Distance, text: str) -> Any:
    name = asked.table_key.removeprefix("node:")
    if not scope.embeddings.is_on(None):
        raise Configuration(
            f"`{name}.{asked.column}` cannot be compared with a text: no embedding provider is configured",
            what="embedding provider",
            hint="configure one, or give a vector",
        )
    prop = scope.catalog.nodes[name].properties[asked.column]
    return embed_for(name, prop, [text], scope.embeddings, "query")[0]


def _per_query(
    answer: Callable[[Any, npt.NDArray[np.int64]], npt.NDArray[Any]], kind: Any
) -> Callable[..., npt.NDArray[Any]]:
    """For rows that bring their own query: each different query is answered once for its rows."""

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
