"""Functions of a plan, bound to the data of one snapshot: arrays of positions in, arrays out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import Catalog, NodeType, entity_id
from omnigraph_sql.embeddings import Embeddings, embed_for
from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.search.columns import SearchCache, terms, words
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.cache import RuntimeCache
from omnigraph_sql.topology.tables import TableData
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, has_any
from omnigraph_udfs.reach import reach
from omnigraph_udfs.text import TextIndex
from omnigraph_udfs.vector import distances

Array: TypeAlias = pa.Array
POSITIONS = pa.large_list(pa.int64())
PAIRS = pa.large_list(pa.struct([("d", pa.int64()), ("e", pa.int64())]))
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Bound:
    """A function an engine can register: types of its arguments and of its result, and what it does with arrays."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    run: Callable[..., Array]


class Binder:
    """Binds the names of one plan."""

    def __init__(
        self,
        catalog: Catalog,
        snapshot: Snapshot,
        cache: RuntimeCache,
        search: SearchCache,
        embeddings: Embeddings,
        values: Mapping[str, Any],
    ) -> None:
        self._catalog = catalog
        self._snapshot = snapshot
        self._cache = cache
        self._search = search
        self._embeddings = embeddings
        self._values = values

    def relation(self, relation: fn.Relation) -> npt.NDArray[np.int64]:
        """The positions of a relation."""
        table = self._table(f"node:{relation.type}")
        if isinstance(relation, fn.Nodes):
            return np.arange(table.size)
        return self._look_up(self._catalog.nodes[relation.type], table, [self._values[name] for name in relation.values])

    def _look_up(self, node: NodeType, table: TableData, values: list[Any]) -> npt.NDArray[np.int64]:
        assert node.key is not None
        if any(value is None for value in values):
            return np.empty(0, np.int64)
        try:
            found = entity_id(node, dict(zip(node.key, values, strict=True)))
        except (ValueError, TypeError):
            return np.arange(table.size)  # of another type than the key: the comparison decides
        position = -1 if found is None else table.ids.position(found)
        return np.array([position] if position >= 0 else [], np.int64)

    def function(self, function: fn.Function) -> Bound:
        """What a function does."""
        match function:
            case fn.Get():
                table = self._table(function.table_key)
                column = table.comparable(function.column) if function.comparable else table.column(function.column)
                return Bound((pa.int64(),), column.type, column.take)
            case fn.IdRank():
                rank = pa.array(self._table(function.table_key).rank)
                return Bound((pa.int64(),), pa.int64(), rank.take)
            case fn.Hop():
                return self._hop(function)
            case fn.Reach():
                return self._reach(function)
            case fn.HasAny():
                csr = self._index(function.edge).neighbours(function.direction)
                return Bound((pa.int64(),), pa.bool_(), lambda v: pa.array(has_any(csr, _numbers(v))))
            case fn.Text():
                return self._text(function)
            case fn.Bm25Score():
                return self._score(function)
            case fn.Distance():
                return self._distance(function)
            case fn.Exact():
                return _exact(function)

    def _table(self, table_key: str) -> TableData:
        return self._cache.table(self._snapshot, table_key)

    def _index(self, edge: str) -> GraphIndex:
        return self._cache.index(self._snapshot, self._catalog.edges[edge])

    def _hop(self, hop: fn.Hop) -> Bound:
        index = self._index(hop.edge)
        if not hop.with_edges:
            csr = index.neighbours(hop.direction)
            return Bound((pa.int64(),), POSITIONS, lambda v: expand(csr, _numbers(v)).to_list())
        whole = index.edges(hop.direction)

        def pairs(v: Array) -> Array:
            found = expand(whole, _numbers(v))
            fields = [pa.array(found.targets), pa.array(found.edges)]
            return pa.LargeListArray.from_arrays(found.offsets, pa.StructArray.from_arrays(fields, ["d", "e"]))

        return Bound((pa.int64(),), PAIRS, pairs)

    def _reach(self, bounds: fn.Reach) -> Bound:
        index = self._index(bounds.edge)
        low, high = bounds.minimum, bounds.maximum
        csr = index.neighbours(bounds.direction)
        if not index.is_one_type:
            run: Callable[[Array], Array] = _nothing if low > 1 else lambda v: expand(csr, _numbers(v)).to_list()
        elif bounds.reversed and low > 1:
            run = _reached_by(index.without_loops(bounds.direction), csr, low, high)
        else:
            run = lambda v: reach(csr, _numbers(v), least=low, most=high).to_list()  # noqa: E731
        return Bound((pa.int64(),), POSITIONS, run)

    def _text_index(self, table_key: str, column: str) -> TextIndex:
        table = self._table(table_key)
        return self._search.text(table, column, lambda: table.column(column))

    def _text(self, text: fn.Text) -> Bound:
        index = self._text_index(text.table_key, text.column)
        edits = 2 if text.edits is None else self._values[text.edits]
        if edits is not None and edits < 0:
            raise BadRequest(f"fuzzy: the distance {edits} is negative", hint="use 0 or more")

        def mask(query: str | None) -> npt.NDArray[np.bool_]:
            if query is None or edits is None:
                return np.zeros(index.size, np.bool_)
            return index.fuzzy(words(query), edits) if text.function == "fuzzy" else index.search(terms(query))

        if text.query is not None:
            return Bound((pa.int64(),), pa.bool_(), pa.array(mask(self._values[text.query])).take)
        run = _per_query(lambda query, at: mask(query)[at], np.bool_)
        return Bound((pa.int64(), pa.string()), pa.bool_(), lambda v, q: pa.array(run(v, q)))

    def _score(self, score: fn.Bm25Score) -> Bound:
        index = self._text_index(score.table_key, score.column)
        if score.query is not None:
            query = terms(self._values[score.query] or "")
            return Bound((pa.int64(),), pa.float64(), lambda v: pa.array(index.bm25_at(query, _numbers(v))))
        run = _per_query(lambda query, at: index.bm25_at(terms(query or ""), at), np.float64)
        return Bound((pa.int64(), pa.string()), pa.float64(), lambda v, q: pa.array(run(v, q)))

    def _distance(self, distance: fn.Distance) -> Bound:
        table = self._table(distance.table_key)
        vectors = self._search.vectors(table, distance.column, lambda: table.column(distance.column))

        def measure(query: Any, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
            if query is None:
                return np.full(len(at), np.nan)
            found, known = distances(vectors, np.asarray(query, np.float32), at, metric=distance.metric)  # type: ignore[arg-type]
            return np.where(known, found, np.nan)

        if distance.query is not None:
            query = self._values[distance.query]
            if isinstance(query, str):
                query = self._embedded(distance, query)
            return Bound((pa.int64(),), pa.float64(), lambda v: pa.array(measure(query, _numbers(v)), from_pandas=True))
        run = _per_query(measure, np.float64)
        kind = pa.list_(pa.field("item", pa.float32()), vectors.matrix.shape[1])
        return Bound((pa.int64(), kind), pa.float64(), lambda v, q: pa.array(run(v, q), from_pandas=True))

    def _embedded(self, distance: fn.Distance, text: str) -> Any:
        name = distance.table_key.removeprefix("node:")
        if not self._embeddings.is_on(None):
            raise Configuration(
                f"`{name}.{distance.column}` cannot be compared with a text: no embedding provider is configured",
                what="embedding provider",
                hint="configure one, or give a vector",
            )
        prop = self._catalog.nodes[name].properties[distance.column]
        return embed_for(name, prop, [text], self._embeddings, "query")[0]


def _numbers(v: Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = v.to_numpy(zero_copy_only=False)
    return numbers


def _per_query(
    answer: Callable[[Any, npt.NDArray[np.int64]], npt.NDArray[Any]], kind: Any
) -> Callable[..., npt.NDArray[Any]]:
    """For rows that bring their own query: each different query is answered once for its rows."""

    def run(v: Array, queries: Array) -> npt.NDArray[Any]:
        numbers = _numbers(v)
        rows: dict[Any, list[int]] = {}
        for row, query in enumerate(queries.to_pylist()):
            rows.setdefault(tuple(query) if isinstance(query, list) else query, []).append(row)
        out = np.empty(len(numbers), kind)
        for query, places in rows.items():
            out[places] = answer(query, numbers[places])
        return out

    return run


def _nothing(v: Array) -> Array:
    return pa.LargeListArray.from_arrays(np.zeros(len(v) + 1, np.int64), pa.array([], pa.int64()))


def _reached_by(plain: Csr, whole: Csr, low: int, high: int) -> Callable[[Array], Array]:
    """From where a vertex is within some hops: a loop on it counts one hop more, loops on the way count for nothing."""
    rows = np.repeat(np.arange(whole.sources), whole.degrees())
    has_loop = np.zeros(whole.sources, np.bool_)
    has_loop[rows[rows == whole.targets]] = True

    def run(v: Array) -> Array:
        numbers = _numbers(v)
        near = reach(plain, numbers, least=low, most=high)
        looped = np.where(has_loop[numbers], numbers, -1)
        return _union(len(numbers), [near, reach(plain, looped, least=low - 1, most=high - 1)])

    return run


def _union(count: int, expansions: list[Expansion]) -> Array:
    rows = np.concatenate([each.rows() for each in expansions])
    targets = np.concatenate([each.targets for each in expansions])
    pairs = np.unique(np.stack([rows, targets]), axis=1)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs[0], minlength=count), out=offsets[1:])
    return pa.LargeListArray.from_arrays(offsets, pa.array(pairs[1]))


def _exact(exact: fn.Exact) -> Bound:
    compare = _COMPARE[exact.op]

    def run(left: Array, right: Array) -> Array:
        # Python compares whole and floating numbers by their mathematical value.
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else compare(a, b) for a, b in pairs], pa.bool_())

    return Bound((arrow_type(exact.left), arrow_type(exact.right)), pa.bool_(), run)
