"""How the files of search are shared out, made ahead, and made by several at once."""

import threading
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.search.fragment_groups import MOST, grouped, positions_of
from omnigraph_sql.search.search_columns import SearchCache
from omnigraph_sql.storage.fragments import FragmentInfo
from omnigraph_sql.storage.inline_commits import open_storage
from omnigraph_sql.storage.roots import resolve_root
from tests.unit.search.naive import SCHEMA, Model, check, derived


def fragment(number: int, rows: int, deleted: list[int] | None = None) -> FragmentInfo:
    gone = None if deleted is None else np.array(deleted, np.int64)
    return FragmentInfo(number, rows, 1, (f"file-{number}",), gone)


@given(st.lists(st.integers(1, 1000), max_size=60))
def test_groups_cover_all_fragments_in_order(sizes: list[int]) -> None:
    fragments = [fragment(number, rows) for number, rows in enumerate(sizes)]
    groups = grouped(fragments)
    assert len(groups) <= MOST
    assert [each for group in groups for each in group.fragments] == fragments


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60))
def test_an_append_changes_two_groups_at_most(sizes: list[int]) -> None:
    fragments = [fragment(number, rows) for number, rows in enumerate(sizes)]
    before = {group.fragments for group in grouped(fragments[:-1])}
    for group in grouped(fragments):
        known = {group.fragments, *(part.fragments for part in group.parts)}
        assert known & before or fragments[-1] in group.fragments


def test_positions_leave_out_deleted_rows() -> None:
    groups = grouped([fragment(0, 3, [1]), fragment(7, 2), fragment(8, 2, [0, 1]), fragment(9, 1)])
    assert [places.tolist() for places in positions_of(groups)] == [[0, -1, 1], [2, 3], [-1, -1], [4]]


class Owner:
    def __init__(self, entry: Entry) -> None:
        self.entry = entry


def searchable(root: Path) -> tuple[lance.LanceDataset, Callable[[], SearchCache], Callable[[], Entry]]:
    """A table of texts outside any graph, so that it can be compacted here."""
    column = pa.array([f"sea{number % 7} oak{number % 3}" for number in range(40)])
    table = pa.table({"id": [f"d{number:02}" for number in range(40)], "t": column})
    dataset = lance.write_dataset(
        table, root / "docs", enable_stable_row_ids=True, data_storage_version="2.2", max_rows_per_file=10
    )

    def cache() -> SearchCache:
        return SearchCache(open_storage(resolve_root(root))[0], saves=True)

    def entry() -> Entry:
        found = lance.dataset(root / "docs")
        return Entry(
            table_key="node:Doc",
            path="docs",
            version=found.version,
            branch=None,
            row_count=found.count_rows(),
            transaction_uuid="",
        )

    return dataset, cache, entry


def test_compaction_changes_no_score(tmp_path: Path) -> None:
    dataset, cache, entry = searchable(tmp_path)
    dataset.delete("id in ('d03', 'd17', 'd38')")
    before = cache().text(Owner(entry()), "t").bm25(["sea3", "oak1"]).values
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    assert len(lance.dataset(tmp_path / "docs").get_fragments()) == 1
    after = cache().text(Owner(entry()), "t").bm25(["sea3", "oak1"]).values
    assert len(after) == 37
    np.testing.assert_allclose(after, before, rtol=1e-15)


def test_what_is_made_ahead_is_not_read_again(tmp_path: Path) -> None:
    dataset, cache, entry = searchable(tmp_path)
    seen: list[tuple[int, int]] = []
    assert cache().prepare_text(entry(), "t", lambda ready, rows: seen.append((ready, rows))) == 40
    assert seen[-1] == (40, 40)
    assert [ready for ready, _ in seen] == sorted(ready for ready, _ in seen)
    assert cache().prepare_text(entry(), "t") == 0
    dataset.insert(pa.table({"id": ["e1", "e2"], "t": ["sea1", None]}))
    assert cache().prepare_text(entry(), "t") == 2
    lance.dataset(tmp_path / "docs").delete("id = 'd05'")
    assert cache().prepare_text(entry(), "t") == 0


def test_a_handle_that_may_not_write_makes_nothing_twice(tmp_path: Path) -> None:
    dataset, _, entry = searchable(tmp_path)
    cache = SearchCache(open_storage(resolve_root(tmp_path))[0], saves=False)
    owner = Owner(entry())
    index = cache.text(owner, "t")
    dataset.insert(pa.table({"id": ["e1"], "t": ["sea1"]}))
    assert cache.prepare_text(entry(), "t") == 1
    assert cache.text(owner, "t") is index
    assert not (tmp_path / "_derived").exists()


def test_two_builders_at_once(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    model = Model()
    model.put([{"k": f"d{n}", "t": f"sea{n % 4} oak{n % 3}", "v": [n, 1.0, 0.0], "n": n % 5} for n in range(50)])
    docs = list(model.docs.values())
    graph.load({"Doc": pa.Table.from_pylist(docs, _columns())}, mode="append")
    handles = [og.connect(graph.uri) for _ in range(3)]
    failures: list[BaseException] = []
    start = threading.Barrier(2 * len(handles))

    def run(handle: og.Graph) -> None:
        try:
            start.wait()
            check(handle, model)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(handle,)) for handle in handles for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [name for kind in ("text", "vector") for name in derived(graph, kind) if not name.endswith(".arrays")] == []
    check(og.connect(graph.uri, read_only=True), model)


def _columns() -> pa.Schema:
    vector = pa.list_(pa.float32(), 3)
    return pa.schema([("k", pa.string()), ("t", pa.string()), ("v", vector), ("n", pa.int32())])


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("points") / "g", SCHEMA)
    graph.load(['{"type": "Doc", "data": {"k": "a", "v": [0, 0, 1]}}'], mode="append")
    return graph


NEAREST = "query q($v: Vector(3)) { match { $d: Doc } return { $d } order { nearest($d.v, $v) } limit 1 }"
FILTERED = "query q($v: Vector(3)) { match { $d: Doc $d.n = 9 } return { nearest($d.v, $v) as s } }"


@pytest.mark.parametrize("query", [NEAREST, FILTERED])
@pytest.mark.parametrize("vector", [[], [1.0], [1.0] * 4])
def test_a_query_of_another_width_is_refused_before_it_runs(points: og.Graph, query: str, vector: list[float]) -> None:
    with pytest.raises(og.errors.BadRequest, match=f"'v': expected 3 dimensions .*, found {len(vector)}"):
        points.query(query, params={"v": vector})


def test_a_parameter_declared_with_another_width_does_not_compile(points: og.Graph) -> None:
    with pytest.raises(og.errors.Compile, match=r"dimension mismatch: `v` is Vector\(3\)\?, .* has 2 dimensions"):
        points.query(NEAREST.replace("Vector(3)", "Vector(2)"), params={"v": [0.0, 1.0]})


@pytest.mark.parametrize("query", [NEAREST, FILTERED])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300])
def test_a_query_that_is_not_finite_is_refused(points: og.Graph, query: str, number: float) -> None:
    with pytest.raises(og.errors.BadRequest, match="'v'"):
        points.query(query, params={"v": [0.0, number, 0.0]})
