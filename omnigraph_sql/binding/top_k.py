"""The best entities of a plan by distance, score or both, bound to the search structures of one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.binding import search as searching
from omnigraph_sql.binding.context import Array, BindContext, BoundFunction
from omnigraph_sql.binding.filters import matching
from omnigraph_sql.binding.search import query_point, text_index, vector_index
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.search.search_columns import terms
from omnigraph_udfs.fusion import Arm, K, rrf
from omnigraph_udfs.ranking import by_id, least

Positions: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RankedEntities:
    """Unordered entities and their ranking keys; smaller is better."""

    positions: Positions
    values: Floats

    def best(self, limit: int | None) -> RankedEntities:
        """Return the best entities up to the limit, and all that tie with the last one."""
        if limit is None or limit >= len(self.values):
            return self
        chosen = least(self.values, limit)
        return RankedEntities(self.positions[chosen], self.values[chosen])


Ranked: TypeAlias = dict[str, npt.NDArray[Any]]
"""Positions `v` of the best entities, and their score columns."""
Search: TypeAlias = Callable[[Positions | None], RankedEntities]
Choose: TypeAlias = Callable[[Positions | None], Ranked]
"""Ranks candidates, which are distinct and ascending; None stands for all entities of the type."""


def bind_search(context: BindContext, function: fn.Search) -> BoundFunction:
    """Bind a search function."""
    match function:
        case fn.Text():
            return searching.text(context, function)
        case fn.Bm25Score():
            return searching.score(context, function)
        case fn.Distance():
            return searching.distance(context, function)
        case fn.Among():
            return among(context, function)


def best(context: BindContext, top: fn.Top | fn.FusedTop) -> pa.RecordBatch:
    """The best entities of a type, or of a subset."""
    columns = _choose(context, top)(None if top.of is None else matching(context, f"node:{top.of.type}", top.of.conditions))
    return pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))


def among(context: BindContext, function: fn.Among) -> BoundFunction:
    """Bind a function that keeps the rows whose entity is among the best of the rows."""
    choose = _choose(context, function.top)
    kinds = {"r": pa.float64()} if isinstance(function.top, fn.Top) else {"r": pa.int64(), "s": pa.float64()}
    names = [f"v{number}" for number in range(function.variables)]
    fields = pa.struct([(name, pa.int64()) for name in names] + list(kinds.items()))

    def run(*lists: Array) -> Array:
        columns = [column.flatten() for column in lists]  # one list column; null without rows
        entities = columns[0].to_numpy(zero_copy_only=False)
        best = choose(entities if _ascends(entities) else np.unique(entities))
        rows, places = _rows(entities, best["v"])
        kept = [column.take(pa.array(rows)) for column in columns]
        kept += [pa.array(best[name][places], kind) for name, kind in kinds.items()]
        offsets = np.zeros(len(lists[0]) + 1, np.int64)
        offsets[1:] = len(rows)
        return pa.LargeListArray.from_arrays(offsets, pa.StructArray.from_arrays(kept, fields=list(fields)))

    return BoundFunction((pa.list_(pa.int64()),) * function.variables, pa.large_list(fields), run)


def _ascends(values: Positions) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _rows(entities: Positions, chosen: Positions) -> tuple[Positions, Positions]:
    """Return the rows of the chosen entities, and for each row the index of its entity."""
    if not len(chosen):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(chosen)
    at = np.minimum(np.searchsorted(chosen[order], entities), len(chosen) - 1)
    rows = np.flatnonzero(chosen[order][at] == entities)
    return rows, order[at[rows]]


def _choose(context: BindContext, top: fn.Top | fn.FusedTop) -> Choose:
    if isinstance(top, fn.FusedTop):
        return _fused(context, top)
    search = _search(context, top.by, top.limit)
    sign = -1.0 if isinstance(top.by, fn.Bm25Score) else 1.0

    def choose(candidates: Positions | None) -> Ranked:
        best = search(candidates).best(top.limit)
        if not top.is_ordered:
            return {"v": best.positions, "r": sign * best.values}
        _, ids = context.table(top.by.table_key).order(context.traversal)
        first = by_id(best.values, best.positions, ids, limit=top.limit)
        return {"v": best.positions[first], "r": sign * best.values[first], "p": np.arange(1, len(first) + 1)}

    return choose


def _search(context: BindContext, by: fn.Bm25Score | fn.Distance, limit: int | None) -> Search:
    """Return a ranking of all entities with a score, or of the nearest ones; the query is resolved, or rejected, here."""
    assert by.query is not None
    if isinstance(by, fn.Bm25Score):
        texts = text_index(context, by.table_key, by.column)
        query = terms(context.values[by.query] or "")

        def scored(candidates: Positions | None) -> RankedEntities:
            if candidates is None:
                scores = texts.bm25(query)
                return RankedEntities(scores.hits, -scores.values[scores.hits])
            values = texts.bm25_at(query, candidates)
            hits = np.flatnonzero(values > 0)
            return RankedEntities(candidates[hits], -values[hits])

        return scored
    vectors = vector_index(context, by.table_key, by.column)
    point, metric = query_point(context, by, context.values[by.query]), by.metric
    most = vectors.size if limit is None else limit

    def near(candidates: Positions | None) -> RankedEntities:
        if point is None:
            return RankedEntities(np.empty(0, np.int64), np.empty(0))
        if candidates is None and limit is not None:
            candidates = searching.probable(context, by, point, limit)
        nearest = vectors.nearest(point, limit=most, metric=metric, candidates=candidates)  # type: ignore[arg-type]
        return RankedEntities(nearest.positions, nearest.distances)

    return near


def _fused(context: BindContext, top: fn.FusedTop) -> Choose:
    k = K if top.k is None else context.values[top.k]
    k = K if k is None else k
    if k <= 0:
        raise BadRequest(f"k of rrf is {k}", hint="it must be above 0")
    arms = (top.first, top.second)
    searches = [_search(context, arm, top.limit) for arm in arms]
    ids = context.table(top.first.table_key).column("id").take
    # Distances list as many as the limit says, scores everything; beside such a short list the first scores will do,
    # and those of what that list has.
    short = [isinstance(arm, fn.Distance) for arm in arms]
    limits = [top.limit if any(short) else None for _ in arms]
    completed = [any(short) and not is_short for is_short in short]

    def choose(candidates: Positions | None) -> Ranked:
        arms = [search(candidates) for search in searches]
        lists = [Arm.first(arm.positions, arm.values, ids, limit=most) for arm, most in zip(arms, limits, strict=True)]
        for number, other in ((0, 1), (1, 0)):
            if completed[number]:
                arm = arms[number]
                lists[number] = lists[number].with_ranks_of(lists[other].positions, arm.positions, arm.values, ids)
        fused = rrf(*lists, limit=top.limit, k=k)
        return {"v": fused.positions, "r": np.arange(1, len(fused.positions) + 1), "s": fused.scores}

    return choose
