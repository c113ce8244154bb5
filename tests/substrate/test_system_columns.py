"""Row ids and the versions that created and changed a row."""

from pathlib import Path

import lance
import pytest

from tests.substrate.tables import column, commit, create, deleting, head, merging, overwriting, restore, rows

CREATED = "_row_created_at_version"
CHANGED = "_row_last_updated_at_version"


def test_the_versions_that_created_and_changed_a_row_can_be_read(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1), rows(b=1))

    table = commit(table, merging(table, rows(a=2, c=1)))

    assert column(table, CREATED) == {"a": 2, "b": 3, "c": 4}
    assert column(table, CHANGED) == {"a": 4, "b": 3, "c": 4}


def test_system_columns_can_be_filtered(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1), rows(b=1))
    row_id = column(table, "_rowid")["b"]

    for condition in (f"{CHANGED} > 2", f"{CREATED} = 3", f"_rowid = {row_id}"):
        assert table.to_table(filter=condition)["id"].to_pylist() == ["b"], condition


def test_a_row_keeps_its_id_through_update_merge_and_compaction(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=1), rows(c=1))
    before = column(table, "_rowid")

    table.update({"n": "5"}, where="id = 'a'")
    table = commit(head(table), merging(head(table), rows(b=5)))
    table.optimize.compact_files()

    assert column(head(table), "_rowid") == before
    assert len(head(table).get_fragments()) == 1
    assert column(head(table), CREATED) == {"a": 2, "b": 2, "c": 3}
    assert column(head(table), CHANGED) == {"a": 4, "b": 5, "c": 3}


def test_row_ids_find_their_rows_after_a_compaction(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=1), rows(c=1))
    ids = column(table, "_rowid")
    table = commit(table, deleting(table, "id = 'a'"))

    table.optimize.compact_files()

    assert head(table)._take_rows([ids["c"], ids["b"]])["id"].to_pylist() == ["c", "b"]


def test_the_row_ids_of_an_overwritten_table_are_not_used_again(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1, b=1))
    before = set(column(table, "_rowid").values())

    table = commit(table, overwriting(table, rows(a=1, c=1)))

    assert before.isdisjoint(column(table, "_rowid").values())
    assert column(table, CREATED) == {"a": 3, "c": 3}


def test_a_restored_version_keeps_row_ids_and_versions(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1), rows(b=1))
    before = [column(table, name) for name in ("_rowid", CREATED, CHANGED)]
    commit(table, merging(table, rows(a=2)))

    restore(table)

    assert [column(head(table), name) for name in ("_rowid", CREATED, CHANGED)] == before


def test_a_row_id_given_after_a_restore_is_not_one_the_undone_rows_had(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    undone = column(lance.write_dataset(rows(x=1), table.uri, mode="append"), "_rowid")["x"]

    restore(table)
    again = lance.write_dataset(rows(y=1), table.uri, mode="append")

    assert column(again, "_rowid")["y"] != undone


def test_without_stable_row_ids_the_creating_version_means_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(a=1), uri)
    table = lance.write_dataset(rows(b=1), uri, mode="append")

    assert column(table, CREATED) == {"a": 1, "b": 1}


def test_sql_on_a_table_does_not_see_the_version_columns(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    for name in (CREATED, CHANGED):
        with pytest.raises((OSError, ValueError), match=name):
            table.sql(f"select {name} from dataset").build().to_batch_records()


@pytest.mark.parametrize("between", ["metadata", "compaction", "merge"])
def test_a_row_that_lands_later_than_it_was_written_carries_the_version_where_it_landed(
    tmp_path: Path, between: str
) -> None:
    """Whoever knows a version can catch up with the rows above it, also when a merge was moved over other commits."""
    table = create(tmp_path / "t", rows(a=1), rows(b=1), rows(c=1))
    stale = head(table)
    known = stale.version
    if between == "metadata":
        head(table).update_schema_metadata({"k": "v"})
    elif between == "compaction":
        head(table).optimize.compact_files()
    else:
        head(table).merge_insert("id").when_matched_update_all().execute(rows(a=2))
    known = head(table).version
    assert known > stale.version

    builder = stale.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).use_index(False).execute(rows(z=1))

    later = head(table)
    assert later.version > known
    assert later.to_table(filter=f"{CHANGED} > {known}")["id"].to_pylist() == ["z"]
    assert column(later, CHANGED)["z"] == later.version
