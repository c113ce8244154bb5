"""Indices built in two steps, what they cover, and how results stay complete."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.dataset import Index, LanceOperation, Transaction
from lance.query import MatchQuery

from tests.substrate.tables import KEY, appending, commit, create, fragment_ids, head, transaction

SCHEMA = pa.schema([KEY, ("n", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 2))])


def documents(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    vectors = [[float(number), 1.0] for number in numbers]
    texts = [f"word{number} shared" for number in numbers]
    return pa.table([[f"k{n}" for n in numbers], list(numbers), texts, vectors], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """Two fragments, eight rows each; version 3."""
    return create(tmp_path / "t", documents(0, 8), documents(8, 8), schema=SCHEMA)


def build(
    table: lance.LanceDataset,
    kind: str,
    *,
    name: str | None = None,
    fragments: list[int] | None = None,
    replace: bool = False,
) -> Index:
    """An index segment that is not yet part of the table."""
    columns = {"BTREE": "n", "INVERTED": "text", "IVF_FLAT": "vector"}
    settings: dict[str, Any] = {"num_partitions": 1, "metric": "l2"} if kind == "IVF_FLAT" else {}
    covered = fragment_ids(table) if fragments is None else fragments
    segment = table.create_index_uncommitted(
        columns[kind], kind, name=name or kind.lower(), fragment_ids=covered, replace=replace, **settings
    )
    return table.merge_existing_index_segments([segment]) if kind == "INVERTED" else segment


def adding(table: lance.LanceDataset, *new: Index, instead_of: tuple[Index, ...] = ()) -> Transaction:
    return Transaction(table.version, LanceOperation.CreateIndex(list(new), list(instead_of)))


def names(table: lance.LanceDataset) -> set[str]:
    return {index.name for index in table.describe_indices()}


def uncovered(table: lance.LanceDataset, name: str) -> int:
    rows: int = table.stats.index_stats(name)["num_unindexed_rows"]
    return rows


def search(table: lance.LanceDataset, kind: str, number: int) -> list[str]:
    """The keys found for the document of a number, by the kind of query an index serves."""
    if kind == "BTREE":
        found = table.to_table(filter=f"n = {number}")
    elif kind == "INVERTED":
        found = table.to_table(full_text_query=MatchQuery(f"word{number}", "text"))
    else:
        nearest = {"column": "vector", "q": [float(number), 1.0], "k": 1, "metric": "l2"}
        found = table.to_table(nearest=nearest)
    result: list[str] = found["id"].to_pylist()
    return result


KINDS = ["BTREE", "INVERTED", "IVF_FLAT"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_is_built_first_and_committed_later(table: lance.LanceDataset, kind: str) -> None:
    segment = build(table, kind)
    assert (head(table).version, names(head(table))) == (3, set())

    table = commit(table, adding(table, segment))

    assert (table.version, names(table)) == (4, {kind.lower()})
    assert uncovered(table, kind.lower()) == 0
    assert search(table, kind, 11) == ["k11"]


def test_an_equality_filter_uses_the_committed_index(table: lance.LanceDataset) -> None:
    table = commit(table, adding(table, build(table, "BTREE")))

    assert "ScalarIndexQuery" in table.scanner(filter="n = 11").explain_plan()


def test_several_indices_are_committed_in_one_version(table: lance.LanceDataset) -> None:
    table = commit(table, adding(table, *(build(table, kind) for kind in KINDS)))

    assert table.version == 4
    assert names(table) == {"btree", "inverted", "ivf_flat"}
    for kind in KINDS:
        assert search(table, kind, 11) == ["k11"]


def test_two_indices_of_different_kinds_share_a_column(table: lance.LanceDataset) -> None:
    equality = table.create_index_uncommitted("text", "BTREE", name="equal", fragment_ids=fragment_ids(table))

    table = commit(table, adding(table, equality, build(table, "INVERTED")))

    assert table.version == 4
    assert table.to_table(filter="text = 'word11 shared'")["id"].to_pylist() == ["k11"]
    assert search(table, "INVERTED", 11) == ["k11"]


def test_a_text_index_committed_before_its_segments_are_merged_breaks_every_search(table: lance.LanceDataset) -> None:
    raw = table.create_index_uncommitted("text", "INVERTED", name="inverted", fragment_ids=fragment_ids(table))

    table = commit(table, adding(table, raw))

    with pytest.raises((OSError, ValueError), match=r"tokens\.lance"):
        search(table, "INVERTED", 11)


def test_a_segment_over_new_fragments_extends_an_index(table: lance.LanceDataset) -> None:
    for kind in KINDS:
        table = commit(table, adding(table, build(table, kind)))
    old = fragment_ids(table)
    table = commit(table, appending(table, documents(16, 8)))
    new = [number for number in fragment_ids(table) if number not in old]

    deltas = [build(table, kind, fragments=new, replace=True) for kind in KINDS]
    extended = commit(table, adding(table, *deltas))

    assert extended.version == table.version + 1
    for kind in KINDS:
        assert uncovered(extended, kind.lower()) == 0
        assert [search(extended, kind, number) for number in (3, 20)] == [["k3"], ["k20"]]
    assert {index.name: len(index.segments) for index in extended.describe_indices()} == {kind.lower(): 2 for kind in KINDS}


def test_an_index_is_replaced_in_one_version(table: lance.LanceDataset) -> None:
    old = build(table, "BTREE")
    table = commit(table, adding(table, old))
    table = commit(table, appending(table, documents(16, 8)))
    assert uncovered(table, "btree") == 8

    new = build(table, "BTREE", replace=True)
    replaced = commit(table, adding(table, new, instead_of=(old,)))

    assert replaced.version == table.version + 1
    assert uncovered(replaced, "btree") == 0
    assert [len(index.segments) for index in replaced.describe_indices()] == [1]
    assert [search(replaced, "BTREE", number) for number in (3, 20)] == [["k3"], ["k20"]]


def test_building_an_index_under_a_taken_name_must_be_asked_for(table: lance.LanceDataset) -> None:
    table = commit(table, adding(table, build(table, "BTREE")))

    with pytest.raises(RuntimeError, match="already exists"):
        build(table, "BTREE")


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_on_an_empty_table_is_filled_later(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", schema=SCHEMA)
    table = commit(table, adding(table, build(table, kind)))
    assert names(table) == {kind.lower()}
    table = commit(table, appending(table, documents(0, 8)))
    assert search(table, kind, 5) == ["k5"]

    table.optimize.optimize_indices()

    filled = head(table)
    assert filled.version == 4
    assert uncovered(filled, kind.lower()) == 0
    assert search(filled, kind, 5) == ["k5"]


@pytest.mark.parametrize("kind", KINDS)
def test_results_stay_complete_while_an_index_covers_a_part(table: lance.LanceDataset, kind: str) -> None:
    table = commit(table, adding(table, build(table, kind)))

    table = commit(table, appending(table, documents(16, 8)))

    assert uncovered(table, kind.lower()) == 8
    assert [search(table, kind, number) for number in (3, 20)] == [["k3"], ["k20"]]


def test_bringing_indices_up_to_date_costs_one_version_for_all(table: lance.LanceDataset) -> None:
    table = commit(table, adding(table, *(build(table, kind) for kind in KINDS)))
    table = commit(table, appending(table, documents(16, 8)))
    version = table.version

    table.optimize.optimize_indices()

    fresh = head(table)
    assert fresh.version == version + 1
    assert {name: uncovered(fresh, name) for name in names(fresh)} == {"btree": 0, "inverted": 0, "ivf_flat": 0}
    assert isinstance(transaction(fresh).operation, LanceOperation.CreateIndex)
    assert transaction(fresh).transaction_properties == {}


def test_an_index_built_on_a_fork_belongs_to_the_fork(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev")

    fork = commit(fork, adding(fork, build(fork, "BTREE")))

    assert search(fork, "BTREE", 11) == ["k11"]
    assert (names(fork), names(head(table))) == ({"btree"}, set())
