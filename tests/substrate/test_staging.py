"""Writes in two steps: files first with the newest version untouched, the commit later."""

import pickle
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments

from tests.substrate.tables import (
    SCHEMA,
    Stage,
    appending,
    column,
    commit,
    contents,
    create,
    deleting,
    fragment_ids,
    head,
    indexing,
    keys,
    merging,
    overwriting,
    rows,
    shrunk_fragments,
    transaction,
    validate,
)

STAGED: dict[str, tuple[Stage, dict[str, int]]] = {
    "append": (lambda table: appending(table, rows(x=1)), {"a": 1, "b": 2, "c": 3, "x": 1}),
    "merge": (lambda table: merging(table, rows(a=9, x=1)), {"a": 9, "b": 2, "c": 3, "x": 1}),
    "delete": (lambda table: deleting(table, "id in ('a', 'c')"), {"b": 2}),
    "overwrite": (lambda table: overwriting(table, rows(x=1)), {"x": 1}),
    "index": (indexing, {"a": 1, "b": 2, "c": 3}),
}


def staged_rows(
    table: lance.LanceDataset, changed: pa.Table, row_ids: list[int], inserted: pa.Table, doomed: str
) -> Transaction:
    """One operation that replaces rows in place, inserts others and deletes what the predicate matches."""
    updated, gone = shrunk_fragments(table, doomed)
    replacements = write_fragments(changed, table, mode="append")
    position = 0
    for fragment in replacements:
        count = fragment.num_rows
        fragment.row_id_meta = RowIdSequence(row_ids[position : position + count]).to_inline_metadata()
        position += count
    operation = LanceOperation.Update(
        removed_fragment_ids=gone,
        updated_fragments=updated,
        new_fragments=[*replacements, *write_fragments(inserted, table, mode="append")],
        fields_modified=[],
        update_mode="rewrite_rows",
    )
    return Transaction(table.version, operation)


@pytest.mark.parametrize("kind", STAGED)
def test_staging_leaves_the_newest_version_alone_and_committing_adds_one(tmp_path: Path, kind: str) -> None:
    stage, expected = STAGED[kind]
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))

    staged = stage(table)

    assert (head(table).version, contents(head(table))) == (3, {"a": 1, "b": 2, "c": 3})
    committed = commit(table, staged)
    assert (committed.version, contents(committed)) == (4, expected)
    assert (table.version, contents(table)) == (3, {"a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize("kind", STAGED)
def test_the_uuid_and_properties_of_a_transaction_survive_its_commit(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))
    staged, uuid = STAGED[kind][0](table), str(uuid4())
    assert staged.read_version == table.version
    owned = Transaction(staged.read_version, staged.operation, uuid, {"omnigraph.operation_id": "01J"})

    version = commit(table, owned).version

    found = transaction(head(table), version)
    assert found.uuid == uuid
    assert found.transaction_properties == {"omnigraph.operation_id": "01J"}
    assert found.read_version == table.version
    assert type(found.operation) is type(staged.operation)


def test_the_uuid_a_transaction_was_staged_with_can_be_replaced_in_place(tmp_path: Path) -> None:
    table, uuid = create(tmp_path / "t", rows(a=1)), str(uuid4())
    staged = merging(table, rows(a=2))
    staged.uuid, staged.transaction_properties = uuid, {"omnigraph.operation_id": "01J"}

    found = transaction(commit(table, staged))

    assert (found.uuid, found.transaction_properties) == (uuid, {"omnigraph.operation_id": "01J"})


def test_transactions_of_older_versions_stay_readable(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    staged = appending(table, rows(b=1))
    version = commit(table, staged).version
    lance.write_dataset(rows(c=1), table.uri, mode="append")

    assert transaction(head(table), version).uuid == staged.uuid


@pytest.mark.parametrize("kind", STAGED)
def test_a_staged_transaction_can_be_pickled(tmp_path: Path, kind: str) -> None:
    stage, expected = STAGED[kind]
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))

    staged = pickle.loads(pickle.dumps(stage(table)))

    assert contents(commit(table, staged)) == expected


def test_committing_an_append_twice_duplicates_its_rows(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    staged = appending(table, rows(x=1))

    commit(table, staged)

    assert keys(commit(table, staged)) == ["a", "x", "x"]


@pytest.mark.parametrize("kind", ["merge", "delete", "index"])
def test_committing_a_merge_delete_or_index_build_twice_is_refused(tmp_path: Path, kind: str) -> None:
    stage, expected = STAGED[kind]
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))
    staged = stage(table)
    commit(table, staged)

    with pytest.raises(CommitConflictError):
        commit(table, staged)
    assert contents(head(table)) == expected


def test_committing_an_overwrite_twice_without_retries_gives_the_version_of_the_first_time(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    staged = overwriting(table, rows(z=1))
    first = commit(table, staged)
    commit(first, appending(first, rows(x=1)))

    again = commit(table, staged)

    assert (again.version, contents(again)) == (first.version, {"z": 1})
    assert contents(head(table)) == {"z": 1, "x": 1}


def test_committing_an_overwrite_twice_with_retries_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    staged = overwriting(table, rows(z=1))
    commit(table, staged)

    with pytest.raises(CommitConflictError):
        commit(table, staged, retries=20)


def test_a_conflict_is_an_os_error() -> None:
    assert issubclass(CommitConflictError, OSError)


def test_deleting_within_a_fragment_writes_a_deletion_file_and_commits_nothing(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))
    first, second = table.get_fragments()

    shrunk = first.delete("id = 'a'")

    assert shrunk is not None
    assert shrunk.deletion_file is not None
    assert shrunk.id == first.fragment_id
    assert first.delete("id in ('a', 'b')") is None
    untouched = second.delete("id = 'a'")
    assert untouched == second.metadata
    assert head(table).version == table.version


def test_a_staged_merge_can_delete_by_key(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))

    staged, _ = table.merge_insert("id").when_matched_delete().execute_uncommitted(rows(a=None, c=None).select(["id"]))

    assert head(table).version == table.version
    assert contents(commit(table, staged)) == {"b": 2}


def test_one_update_carries_changed_inserted_and_deleted_rows(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3, d=4), rows(e=5))
    ids = column(table, "_rowid")
    doomed = "id in ('a', 'd', 'b', 'e')"

    staged = staged_rows(table, rows(d=40, a=10), [ids["d"], ids["a"]], rows(x=1, y=2), doomed)
    assert head(table).version == 4
    table = commit(table, staged)

    assert table.version == 5
    assert contents(table) == {"a": 10, "c": 3, "d": 40, "x": 1, "y": 2}
    new_ids = column(table, "_rowid")
    assert {key: new_ids[key] for key in "acd"} == {key: ids[key] for key in "acd"}
    assert set(ids.values()).isdisjoint({new_ids["x"], new_ids["y"]})
    assert column(table, "_row_created_at_version") == {"a": 2, "c": 3, "d": 3, "x": 5, "y": 5}
    assert column(table, "_row_last_updated_at_version") == {"a": 5, "c": 3, "d": 5, "x": 5, "y": 5}
    validate(table)


def test_rows_changed_by_one_update_are_found_by_key_and_by_row_id_afterwards(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2), rows(c=3))
    table.create_scalar_index("id", "BTREE", name="by_id")
    table = head(table)
    ids = column(table, "_rowid")

    table = commit(table, staged_rows(table, rows(a=10), [ids["a"]], rows(x=1), "id in ('a', 'c')"))

    assert table.to_table(filter="id = 'a'").to_pylist() == [{"id": "a", "n": 10}]
    assert table.to_table(filter="id = 'x'").to_pylist() == [{"id": "x", "n": 1}]
    assert table.to_table(filter="id = 'c'").num_rows == 0
    assert table._take_rows([ids["a"]]).to_pylist() == [{"id": "a", "n": 10}]


def test_an_empty_overwrite_is_accepted(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    emptied = commit(table, overwriting(table, rows()))

    assert (emptied.version, contents(emptied)) == (3, {})
    assert emptied.schema.equals(SCHEMA, check_metadata=True)
    assert emptied.has_stable_row_ids
    refilled = commit(emptied, appending(emptied, rows(b=1)))
    assert contents(refilled) == {"b": 1}


def test_an_overwrite_may_change_the_schema(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    table = commit(table, overwriting(table, pa.table({"other": [1.5]})))

    assert table.to_table().to_pylist() == [{"other": 1.5}]
    assert table.has_stable_row_ids


def test_an_overwrite_drops_all_indices(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    table = commit(table, indexing(table))
    assert [index.name for index in table.describe_indices()] == ["n_index"]

    table = commit(table, overwriting(table, rows(a=1)))

    assert table.describe_indices() == []


def test_a_delete_changes_a_table_without_changing_its_fragment_ids(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2))

    smaller = commit(table, deleting(table, "id = 'a'"))

    assert fragment_ids(smaller) == fragment_ids(table)
    assert contents(smaller) != contents(table)


def test_an_index_build_changes_a_table_without_changing_its_fragment_ids(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=2))

    indexed = commit(table, indexing(table))

    assert fragment_ids(indexed) == fragment_ids(table)
    assert len(indexed.describe_indices()) == 1


def test_a_staged_write_left_uncommitted_only_leaves_files(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    files = set((tmp_path / "t").rglob("*"))

    appending(table, rows(x=1))
    merging(table, rows(a=2))
    deleting(table, "id = 'none'")

    fresh = {path.relative_to(tmp_path / "t").parts[0] for path in set((tmp_path / "t").rglob("*")) - files}
    assert fresh <= {"data", "_deletions"}
    assert (head(table).version, contents(head(table))) == (2, {"a": 1})
