"""The best entities of a plan by distance, score or both, bound to the search structures of one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.engines import searching
from omnigraph_sql.engines.masks import matching
from omnigraph_sql.engines.scope import Array, Bound, Scope
from omnigraph_sql.engines.searching import query_point, text_index, vector_index
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.search.columns import terms
from omnigraph_udfs.fusion import Arm, K, rrf
from omnigraph_udfs.ranking import by_id, least

Positions: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """Entities in no particular order, and what ranks them; the better the smaller."""

    positions: Positions
    values: Floats

    def best(self, limit: int | None) -> Found:
        """As many as the limit says, and all that tie with the last."""
        if limit is None or limit >= len(self.values):
            return self
        chosen = least(self.values, limit)
        return Found(self.positions[chosen], self.values[chosen])


Ranked: TypeAlias = dict[str, npt.NDArray[Any]]
"""Positions `v` of the best entities, and the columns that go with them."""
Search: TypeAlias = Callable[[Positions | None], Found]
Choose: TypeAlias = Callable[[Positions | None], Ranked]
"""From the candidates (None for all entities of the type), each once and ascending."""


def bind_search(scope: Scope, function: fn.Search) -> Bound:
    """What a function of text or vectors does."""
    match function:
        case fn.Text():
            return searching.text(scope, function)
        case fn.Bm25Score():
            return searching.score(scope, function)
        case fn.Distance():
            return searching.distance(scope, function)
        case fn.Among():
            return among(scope, function)


def best(scope: Scope, top: fn.Top | fn.FusedTop) -> pa.RecordBatch:
    """The best of the entities of a type, or of some of them."""
    found = _choose(scope, top)(None if top.of is None else matching(scope, f"node:{top.of.type}", top.of.conditions))
    return pa.record_batch([pa.array(column) for column in found.values()], names=list(found))


def among(scope: Scope, asked: fn.Among) -> Bound:
    """The rows whose entity is among the best of these rows."""
    choose = _choose(scope, asked.top)
    kinds = {"r": pa.float64()} if isinstance(asked.top, fn.Top) else {"r": pa.int64(), "s": pa.float64()}
    names = [f"v{number}" for number in range(asked.variables)]
    fields = pa.struct([(name, pa.int64()) for name in names] + list(kinds.items()))

    def run(*lists: Array) -> Array:
        columns = [each.flatten() for each in lists]  # one list each, or null where there are no rows
        entities = columns[0].to_numpy(zero_copy_only=False)
        found = choose(entities if _ascends(entities) else np.unique(entities))
        rows, places = _rows(entities, found["v"])
        kept = [column.take(pa.array(rows)) for column in columns]
        kept += [pa.array(found[name][places], kind) for name, kind in kinds.items()]
        offsets = np.zeros(len(lists[0]) + 1, np.int64)
        offsets[1:] = len(rows)
        return pa.LargeListArray.from_arrays(offsets, pa.StructArray.from_arrays(kept, fields=list(fields)))

    return Bound((pa.list_(pa.int64()),) * asked.variables, pa.large_list(fields), run)


def _ascends(values: Positions) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _rows(entities: Positions, chosen: Positions) -> tuple[Positions, Positions]:
    """The rows of the chosen entities, and for each of them which of the chosen ones it is."""
    if not len(chosen):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(chosen)
    at = np.minimum(np.searchsorted(chosen[order], entities), len(chosen) - 1)
    rows = np.flatnonzero(chosen[order][at] == entities)
    return rows, order[at[rows]]


def _choose(scope: Scope, top: fn.Top | fn.FusedTop) -> Choose:
    if isinstance(top, fn.FusedTop):
        return _fused(scope, top)
    search = _search(scope, top.by, top.limit)
    sign = -1.0 if isinstance(top.by, fn.Bm25Score) else 1.0

    def choose(candidates: Positions | None) -> Ranked:
        found = search(candidates).best(top.limit)
        if not top.placed:
            return {"v": found.positions, "r": sign * found.values}
        _, ids = scope.table(top.by.table_key).order(scope.given)
        first = by_id(found.values, found.positions, ids, limit=top.limit)
        return {"v": found.positions[first], "r": sign * found.values[first], "p": np.arange(1, len(first) + 1)}

    return choose


def _search(scope: Scope, by: fn.Bm25Score | fn.Distance, limit: int | None) -> Search:
    """Everything that has a score, or the nearest; what is asked for is known when this returns, or refused."""
    assert by.query is not None
    if isinstance(by, fn.Bm25Score):
        texts = text_index(scope, by.table_key, by.column)
        query = terms(scope.values[by.query] or "")

        def scored(candidates: Positions | None) -> Found:
            if candidates is None:
                scores = texts.bm25(query)
                return Found(scores.hits, -scores.values[scores.hits])
            values = texts.bm25_at(query, candidates)
            hits = np.flatnonzero(values > 0)
            return Found(candidates[hits], -values[hits])

        return scored
    vectors = vector_index(scope, by.table_key, by.column)
    point, metric = query_point(scope, by, scope.values[by.query]), by.metric
    most = vectors.size if limit is None else limit

    def near(candidates: Positions | None) -> Found:
        if point is None:
            return Found(np.empty(0, np.int64), np.empty(0))
        if candidates is None and limit is not None:
            candidates = searching.probable(scope, by, point, limit)
        found = vectors.nearest(point, limit=most, metric=metric, candidates=candidates)  # type: ignore[arg-type]
        return Found(found.positions, found.distances)

    return near


def _fused(scope: Scope, top: fn.FusedTop) -> Choose:
    k = K if top.k is None else scope.values[top.k]
    k = K if k is None else k
    if k <= 0:
        raise BadRequest(f"k of rrf is {k}", hint="it must be above 0")
    arms = (top.first, top.second)
    searches = [_search(scope, arm, top.limit) for arm in arms]
    ids = scope.table(top.first.table_key).column("id").take
    # Distances list as many as the limit says, scores everything; beside such a short list the first scores will do,
    # and those of what that list has.
    short = [isinstance(arm, fn.Distance) for arm in arms]
    limits = [top.limit if any(short) else None for _ in arms]
    completed = [any(short) and not each for each in short]

    def choose(candidates: Positions | None) -> Ranked:
        found = [search(candidates) for search in searches]
        lists = [Arm.first(each.positions, each.values, ids, limit=most) for each, most in zip(found, limits, strict=True)]
        for number, other in ((0, 1), (1, 0)):
            if completed[number]:
                each = found[number]
                lists[number] = lists[number].with_ranks_of(lists[other].positions, each.positions, each.values, ids)
        fused = rrf(*lists, limit=top.limit, k=k)
        return {"v": fused.positions, "r": np.arange(1, len(fused.positions) + 1), "s": fused.scores}

    return choose
