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
from omnigraph_udfs.text import TextIndex
from omnigraph_udfs.vector import distances


def _text_index(scope: Scope, table_key: str, column: str) -> TextIndex:
    table = scope.table(table_key)
    return scope.search.text(table, column, lambda: table.column(column))


def text(scope: Scope, asked: fn.Text) -> Bound:
    index = _text_index(scope, asked.table_key, asked.column)
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
    index = _text_index(scope, asked.table_key, asked.column)
    if asked.query is not None:
        query = terms(scope.values[asked.query] or "")
        return Bound((pa.int64(),), pa.float64(), lambda v: pa.array(index.bm25_at(query, numbers(v))))
    run = _per_query(lambda query, at: index.bm25_at(terms(query or ""), at), np.float64)
    return Bound((pa.int64(), pa.string()), pa.float64(), lambda v, q: pa.array(run(v, q)))


def distance(scope: Scope, asked: fn.Distance) -> Bound:
    table = scope.table(asked.table_key)
    vectors = scope.search.vectors(table, asked.column, lambda: table.column(asked.column))

    def measure(query: Any, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if query is None:
            return np.full(len(at), np.nan)
        found, known = distances(vectors, np.asarray(query, np.float32), at, metric=asked.metric)  # type: ignore[arg-type]
        return np.where(known, found, np.nan)

    if asked.query is not None:
        query = scope.values[asked.query]
        if isinstance(query, str):
            query = _embedded(scope, asked, query)
        return Bound((pa.int64(),), pa.float64(), lambda v: pa.array(measure(query, numbers(v)), from_pandas=True))
    run = _per_query(measure, np.float64)
    kind = pa.list_(pa.field("item", pa.float32()), vectors.matrix.shape[1])
    return Bound((pa.int64(), kind), pa.float64(), lambda v, q: pa.array(run(v, q), from_pandas=True))


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
