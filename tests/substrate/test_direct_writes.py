"""Writes that commit at once: what they accept, and what they do in silence."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.substrate.tables import KEY, contents, create, head, keys, rows


def test_an_empty_append_makes_a_version(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    assert lance.write_dataset(rows(), table.uri, mode="append").version == table.version + 1


def test_an_empty_merge_makes_a_version(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    version = table.version

    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows())

    assert head(table).version == version + 1


def test_a_delete_that_matches_nothing_makes_a_version(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    version = table.version

    table.delete("id = 'absent'")

    assert head(table).version == version + 1
    assert contents(head(table)) == {"a": 1}


def test_duplicate_new_keys_in_one_merge_are_both_inserted(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    source = pa.concat_tables([rows(x=1), rows(x=2)])
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)

    assert keys(head(table)) == ["a", "x", "x"]


def test_duplicate_existing_keys_in_one_merge_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    source = pa.concat_tables([rows(a=2), rows(a=3)])
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()

    with pytest.raises(OSError, match="Ambiguous merge inserts"):
        merge.execute(source)
    assert contents(head(table)) == {"a": 1}


def test_an_append_fills_a_missing_nullable_column_with_nulls(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    table = lance.write_dataset(rows(b=1).select(["id"]), table.uri, mode="append")

    assert contents(table) == {"a": 1, "b": None}


def test_an_append_with_an_unknown_column_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    with pytest.raises(OSError, match="different schema"):
        lance.write_dataset(rows(b=1).append_column("m", pa.array([1])), table.uri, mode="append")


def test_an_append_with_a_null_in_a_required_column_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    loose = pa.table({"id": pa.array([None], pa.string()), "n": pa.array([1], pa.int64())})

    with pytest.raises(OSError, match="null"):
        lance.write_dataset(loose, table.uri, mode="append")
    assert contents(head(table)) == {"a": 1}


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([KEY, pa.field("n", pa.int32())]),
        pa.schema([KEY.with_type(pa.large_string()), pa.field("n", pa.int64())]),
    ],
    ids=["narrower-integer", "large-string"],
)
def test_a_merge_does_not_cast_its_source(tmp_path: Path, schema: pa.Schema) -> None:
    table = create(tmp_path / "t", rows(a=1))

    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()

    with pytest.raises(OSError, match="different schema"):
        merge.execute(rows(b=1).cast(schema))


def test_a_merge_takes_its_columns_in_any_order(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    source = rows(a=2, b=3).select(["n", "id"])
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)

    assert contents(head(table)) == {"a": 2, "b": 3}


def test_a_write_leaves_other_handles_on_their_version(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    reader = lance.dataset(table.uri)

    lance.write_dataset(rows(b=1), table.uri, mode="append")

    assert contents(reader) == {"a": 1}
    assert reader.latest_version == reader.version + 1
