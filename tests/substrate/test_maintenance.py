"""Compaction and the removal of old versions."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceOperation, Transaction
from lance.optimize import Compaction

from tests.substrate.tables import (
    appending,
    branch,
    column,
    commit,
    contents,
    create,
    deleting,
    head,
    indexing,
    merging,
    operation,
    rows,
    transaction,
    validate,
)

NOW = timedelta(0)


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """Three fragments of one row; version 4."""
    return create(tmp_path / "t", rows(a=1), rows(b=2), rows(c=3))


def rewriting(table: lance.LanceDataset) -> Transaction:
    plan = Compaction.plan(table, {"target_rows_per_fragment": 100})
    results: list[Any] = [task.execute(table) for task in plan.tasks]
    groups = [LanceOperation.RewriteGroup(result.original_fragments, result.new_fragments) for result in results]
    return Transaction(table.version, LanceOperation.Rewrite(groups, []))


def test_a_compaction_makes_two_versions_that_carry_nothing_of_ours(table: lance.LanceDataset) -> None:
    table.optimize.compact_files()

    compacted = head(table)
    assert (compacted.version, len(compacted.get_fragments())) == (6, 1)
    assert contents(compacted) == {"a": 1, "b": 2, "c": 3}
    assert isinstance(operation(compacted, 6), LanceOperation.Rewrite)
    for version in (5, 6):
        found = compacted.read_transaction(version)
        assert found is not None
        assert found.transaction_properties == {}


def test_the_first_version_of_a_compaction_reads_as_an_operation_without_a_kind(table: lance.LanceDataset) -> None:
    table.optimize.compact_files()

    assert type(operation(head(table), 5)) is LanceOperation.BaseOperation


def test_the_transaction_of_a_compaction_that_moved_an_index_cannot_be_read(table: lance.LanceDataset) -> None:
    commit(table, indexing(table))
    newest = head(table)
    newest.optimize.compact_files()

    compacted = head(table)
    assert compacted.version == 7
    with pytest.raises(TypeError, match="RewrittenIndex"):
        compacted.read_transaction(7)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        compacted.get_transactions(1)
    assert compacted.to_table(filter="n = 2")["id"].to_pylist() == ["b"]


def test_a_compaction_with_nothing_to_do_makes_no_version(table: lance.LanceDataset) -> None:
    table.optimize.compact_files()
    version = head(table).version

    head(table).optimize.compact_files()

    assert head(table).version == version


def test_a_compaction_planned_and_run_leaves_the_newest_version_alone(table: lance.LanceDataset) -> None:
    rewriting(table)

    assert head(table).version == table.version


def test_a_compaction_committed_as_one_rewrite_makes_one_version(table: lance.LanceDataset) -> None:
    table = commit(table, deleting(table, "id = 'a'"))
    before = [column(table, name) for name in ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")]

    compacted = commit(table, rewriting(table))

    assert (compacted.version, len(compacted.get_fragments())) == (table.version + 1, 1)
    after = [column(compacted, name) for name in ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")]
    assert after == before
    validate(compacted)


def test_a_compaction_committed_as_one_rewrite_leaves_indices_uncovered_and_results_complete(
    table: lance.LanceDataset,
) -> None:
    table = commit(table, indexing(table))

    compacted = commit(table, rewriting(table))

    assert compacted.stats.index_stats("n_index")["num_unindexed_rows"] == 3
    assert compacted.to_table(filter="n = 2")["id"].to_pylist() == ["b"]


def test_a_compaction_committed_as_one_rewrite_carries_uuid_and_properties(table: lance.LanceDataset) -> None:
    table = commit(table, indexing(table))
    staged = rewriting(table)
    staged.transaction_properties = {"omnigraph.operation_id": "01J"}

    found = transaction(commit(table, staged))

    assert (found.uuid, found.transaction_properties) == (staged.uuid, {"omnigraph.operation_id": "01J"})
    assert isinstance(found.operation, LanceOperation.Rewrite)


def test_a_compaction_keeps_indices_in_use(table: lance.LanceDataset) -> None:
    commit(table, indexing(table))
    head(table).optimize.compact_files()

    compacted = head(table)
    assert compacted.stats.index_stats("n_index")["num_unindexed_rows"] == 0
    assert compacted.to_table(filter="n = 2")["id"].to_pylist() == ["b"]


def test_a_compaction_is_rebased_over_an_append(table: lance.LanceDataset) -> None:
    plan = Compaction.plan(table, {"target_rows_per_fragment": 100})
    results = [task.execute(table) for task in plan.tasks]
    commit(table, appending(table, rows(x=1)))

    Compaction.commit(table, results)

    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3, "x": 1}
    assert len(head(table).get_fragments()) == 2


def test_a_compaction_that_meets_an_update_fails_and_has_made_a_version(table: lance.LanceDataset) -> None:
    plan = Compaction.plan(table, {"target_rows_per_fragment": 100})
    results = [task.execute(table) for task in plan.tasks]
    updated = commit(table, merging(table, rows(a=9)))

    with pytest.raises(OSError, match=r"^Retryable commit conflict"):
        Compaction.commit(table, results)
    assert head(table).version == updated.version + 1
    assert contents(head(table)) == {"a": 9, "b": 2, "c": 3}


def test_a_staged_update_is_refused_behind_a_compaction(table: lance.LanceDataset) -> None:
    staged = merging(table, rows(a=9))
    head(table).optimize.compact_files()

    with pytest.raises(OSError, match="onflict"):
        commit(table, staged)
    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3}


def test_removing_old_versions_keeps_the_newest(table: lance.LanceDataset) -> None:
    table.cleanup_old_versions(older_than=NOW)

    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(table.uri, version=2)


def test_removing_old_versions_keeps_the_one_a_branch_began_at(table: lance.LanceDataset) -> None:
    fork = table.create_branch("dev", 2)
    commit(fork, appending(fork, rows(x=1)))
    head(table).optimize.compact_files()

    head(table).cleanup_old_versions(older_than=NOW, delete_unverified=True)

    assert contents(branch(table, "dev")) == {"a": 1, "x": 1}
    assert contents(lance.dataset(table.uri, version=2)) == {"a": 1}
    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3}


def test_removing_old_versions_stops_at_a_tag_unless_told_to_pass_over_it(table: lance.LanceDataset) -> None:
    table.tags.create("kept", 2)

    with pytest.raises(OSError, match="tagged"):
        table.cleanup_old_versions(older_than=NOW)
    table.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)

    assert contents(lance.dataset(table.uri, version="kept")) == {"a": 1}
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(table.uri, version=3)


def test_removing_old_versions_spares_young_files_of_a_writer_that_has_not_committed(
    table: lance.LanceDataset,
) -> None:
    staged = appending(table, rows(x=1))

    table.cleanup_old_versions(older_than=NOW)

    assert contents(commit(head(table), staged)) == {"a": 1, "b": 2, "c": 3, "x": 1}


def test_removing_unverified_files_breaks_a_writer_that_has_not_committed(table: lance.LanceDataset) -> None:
    staged = appending(table, rows(x=1))

    table.cleanup_old_versions(older_than=NOW, delete_unverified=True)

    landed = commit(head(table), staged)
    with pytest.raises((OSError, ValueError), match=r"[Nn]ot found"):
        landed.to_table()


def test_removing_old_versions_takes_uncommitted_files_after_seven_days(table: lance.LanceDataset) -> None:
    data = Path(table.uri) / "data"
    before = set(data.iterdir())
    appending(table, rows(x=1))
    (stray,) = set(data.iterdir()) - before
    long_ago = stray.stat().st_mtime - timedelta(days=8).total_seconds()
    os.utime(stray, (long_ago, long_ago))

    table.cleanup_old_versions(older_than=NOW)

    assert not stray.exists()
    assert contents(head(table)) == {"a": 1, "b": 2, "c": 3}


def test_a_listing_of_the_files_of_versions_lacks_what_is_beside_rows_and_before_a_fork(tmp_path: Path) -> None:
    """What the store adds to the list, or else would remove: files of blobs, and indexes from before a fork."""
    schema = pa.schema([*create(tmp_path / "plain").schema, lance.blob_field("doc")])
    large = pa.table([pa.array(["a"]), pa.array([1]), lance.blob_array([os.urandom(200_000)])], schema=schema)
    table = create(tmp_path / "t", large, schema=schema)
    table = commit(table, indexing(table))
    fork = table.create_branch("dev")
    fork = commit(fork, appending(fork, large.slice(0, 0)))
    (index,) = [each.name for each in (tmp_path / "t" / "_indices").iterdir()]

    listed = [row["path"] for row in head(table).tracked_files().read_all().to_pylist()]
    on_fork = [row["path"] for row in fork.tracked_files().read_all().to_pylist()]

    assert list((tmp_path / "t" / "data").rglob("*.blob"))
    assert not any(name.endswith(".blob") for name in (*listed, *on_fork))
    assert any(name.startswith(f"_indices/{index}/") for name in listed)
    assert not any(name.startswith("_indices/") for name in on_fork)
    assert [str(segment.uuid) for each in fork.describe_indices() for segment in each.segments] == [index]


def test_a_listing_of_the_files_of_versions_names_each_version_with_its_files(table: lance.LanceDataset) -> None:
    commit(table, deleting(table, "id = 'a'"))
    found: dict[int, set[str]] = {}
    for row in head(table).tracked_files().read_all().to_pylist():
        found.setdefault(row["version"], set()).add(row["type"])

    assert set(found) == {1, 2, 3, 4, 5}
    assert found[2] == {"manifest", "transaction file", "data file"}
    assert found[5] >= {"manifest", "transaction file", "data file"}


def test_a_version_without_its_file_is_not_found_and_others_stay(table: lance.LanceDataset) -> None:
    place = Path(table.uri) / "_versions"
    (place / f"{(1 << 64) - 1 - 2:020}.manifest").unlink()

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(table.uri, version=2)
    assert [each["version"] for each in head(table).version_refs()] == [1, 3, 4]
    assert contents(commit(head(table), appending(head(table), rows(x=1)))) == {"a": 1, "b": 2, "c": 3, "x": 1}
