"""How tables come into being, and what they keep from their creation."""

import warnings
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.substrate.tables import (
    KEY,
    PRIMARY_KEY,
    UNMARKED,
    commit,
    contents,
    create,
    creating,
    head,
    overwriting,
    rows,
    session,
)


def key_mark(table: lance.LanceDataset) -> bytes | None:
    metadata = table.schema.field("id").metadata or {}
    mark: bytes | None = metadata.get(PRIMARY_KEY.encode())
    return mark


def test_stable_row_ids_are_off_unless_asked_for(tmp_path: Path) -> None:
    assert not lance.write_dataset(rows(a=1), str(tmp_path / "t")).has_stable_row_ids


def test_stable_row_ids_asked_for_at_creation_are_kept(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    assert head(table).has_stable_row_ids
    assert commit(table, overwriting(table, rows(b=1))).has_stable_row_ids


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_stable_row_ids_cannot_be_turned_on_later(tmp_path: Path, mode: str) -> None:
    lance.write_dataset(rows(a=1), str(tmp_path / "t"))

    later = lance.write_dataset(rows(b=1), str(tmp_path / "t"), mode=mode, enable_stable_row_ids=True)

    assert not later.has_stable_row_ids


def test_the_storage_version_asked_for_is_also_the_default(tmp_path: Path) -> None:
    assert create(tmp_path / "asked").data_storage_version == "2.2"
    assert lance.write_dataset(rows(a=1), str(tmp_path / "default")).data_storage_version == "2.2"


def test_automatic_cleanup_is_off_unless_asked_for(tmp_path: Path) -> None:
    assert create(tmp_path / "t").config() == {}


def test_an_empty_table_keeps_its_whole_schema(tmp_path: Path) -> None:
    schema = pa.schema([KEY, pa.field("n", pa.int64(), metadata={"unit": "metre"})], metadata={"stamp": "3"})

    table = head(create(tmp_path / "t", schema=schema))

    assert table.schema.equals(schema, check_metadata=True)
    assert table.get_fragments() == []
    assert table.count_rows() == 0


def test_creating_over_an_existing_table_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "t", rows(a=1))

    with pytest.raises(OSError, match="Dataset already exists"):
        create(tmp_path / "t")


def test_opening_a_missing_table_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(tmp_path / "t"))


def test_opening_a_missing_version_is_a_value_error(tmp_path: Path) -> None:
    create(tmp_path / "t")

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(tmp_path / "t"), version=9)


def test_checking_out_a_missing_version_is_an_os_error(tmp_path: Path) -> None:
    table = create(tmp_path / "t")

    with pytest.raises(OSError, match="was not found"):
        table.checkout_version(9)
    with pytest.raises(OSError, match="was not found"):
        table.read_transaction(9)


def test_a_staged_creation_cannot_be_opened_before_its_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    staged = creating(uri, rows(a=1))

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(uri)
    created = lance.LanceDataset.commit(uri, staged, enable_stable_row_ids=True)

    assert (created.version, contents(created)) == (1, {"a": 1})
    assert created.has_stable_row_ids


def test_committing_a_staged_creation_needs_the_row_id_flag_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    staged = creating(uri, rows(a=1))

    assert not lance.LanceDataset.commit(uri, staged).has_stable_row_ids


def test_of_two_staged_creations_the_second_silently_overwrites_the_first(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    first, second = creating(uri, rows(a=1)), creating(uri, rows(b=1))
    lance.LanceDataset.commit(uri, first, enable_stable_row_ids=True)

    landed = lance.LanceDataset.commit(uri, second, enable_stable_row_ids=True)

    assert (landed.version, contents(landed)) == (2, {"b": 1})


def test_of_two_staged_creations_the_second_is_refused_without_retries(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    first, second = creating(uri, rows(a=1)), creating(uri, rows(b=1))
    lance.LanceDataset.commit(uri, first, enable_stable_row_ids=True, max_retries=0)

    with pytest.raises(OSError, match=r"_versions/0\.manifest was not found"):
        lance.LanceDataset.commit(uri, second, enable_stable_row_ids=True, max_retries=0)
    assert contents(lance.dataset(uri)) == {"a": 1}


def test_a_primary_key_must_not_be_nullable(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"[Pp]rimary key"):
        create(tmp_path / "t", schema=pa.schema([KEY.with_nullable(True)]))


def test_a_primary_key_cannot_be_changed_once_set(tmp_path: Path) -> None:
    table = create(tmp_path / "t")

    for value in ("true", "false"):
        with pytest.raises((OSError, ValueError), match="cannot be changed once set"):
            table.update_field_metadata({"id": {PRIMARY_KEY: value}})


def test_a_primary_key_can_be_added_once_and_then_guards_merges(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(UNMARKED, a=1), schema=UNMARKED)
    table.update_field_metadata({"id": {PRIMARY_KEY: "true"}})
    base = head(table)
    first, second = (base.checkout_version(base.version) for _ in range(2))
    assert key_mark(base) == b"true"

    def insert(handle: lance.LanceDataset, value: int) -> None:
        merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).use_index(False).execute(rows(x=value))

    insert(first, 1)
    with pytest.raises(OSError, match=r"^Too many concurrent writers"):
        insert(second, 2)
    assert contents(head(base)) == {"a": 1, "x": 1}


def test_a_primary_key_is_not_enforced(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1), rows(a=2))

    assert table.count_rows() == 2


def test_an_overwrite_without_the_primary_key_silently_drops_it(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    assert key_mark(table) == b"true"

    lance.write_dataset(rows(UNMARKED, b=1), table.uri, mode="overwrite")

    assert key_mark(head(table)) is None


def test_a_staged_overwrite_with_the_full_schema_keeps_the_primary_key(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))

    table = commit(table, overwriting(table, rows(b=1)))

    assert key_mark(table) == b"true"


def test_schema_metadata_takes_a_stamp_and_costs_one_version(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1))
    version = table.version

    table.update_schema_metadata({"omnigraph:internal_schema_version": "3"})

    stamped = head(table)
    assert stamped.version == version + 1
    assert stamped.schema.metadata == {b"omnigraph:internal_schema_version": b"3"}
    assert key_mark(stamped) == b"true"
    assert contents(stamped) == {"a": 1}


def test_two_stamps_given_at_once_conflict_even_under_different_names(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    first, second = lance.dataset(table.uri), lance.dataset(table.uri)
    first.update_schema_metadata({"one": "1"})

    with pytest.raises(OSError, match=r"^Incompatible transaction"):
        second.update_schema_metadata({"two": "2"})


def test_two_primary_keys_added_at_once_conflict(tmp_path: Path) -> None:
    table = create(tmp_path / "t", schema=UNMARKED)
    first, second = lance.dataset(table.uri), lance.dataset(table.uri)
    first.update_field_metadata({"id": {PRIMARY_KEY: "true"}})

    with pytest.raises(OSError, match=r"^Incompatible transaction"):
        second.update_field_metadata({"id": {PRIMARY_KEY: "true"}})
    assert key_mark(head(table)) == b"true"


def test_the_column_types_in_use_come_back_as_they_were(tmp_path: Path) -> None:
    instant = datetime(1969, 12, 31, 23, 59, 59, 123000, tzinfo=UTC)
    values = pa.table(
        {
            "flag": pa.array([True, None]),
            "small": pa.array([1, None], pa.int32()),
            "large": pa.array([2**64 - 1, None], pa.uint64()),
            "half": pa.array([1.5, None], pa.float32()),
            "day": pa.array([-1, None], pa.int32()).cast(pa.date32()),
            "instant": pa.array([instant, None], pa.timestamp("ms", "UTC")),
            "price": pa.array([None, None], pa.decimal128(12, 2)),
            "bytes": pa.array([b"\x00", None], pa.binary()),
            "names": pa.array([["a", None], None], pa.list_(pa.string())),
            "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
            "pair": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
            "lookup": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "shade": pa.array(["red", None]).dictionary_encode(),
            "nothing": pa.nulls(2),
        }
    )

    table = lance.write_dataset(values, str(tmp_path / "t"), enable_stable_row_ids=True, data_storage_version="2.2")

    assert head(table).schema.equals(values.schema)
    assert head(table).to_table().to_pylist() == values.to_pylist()


def test_a_string_view_comes_back_as_a_string(tmp_path: Path) -> None:
    table = lance.write_dataset(pa.table({"v": pa.array(["a"], pa.string_view())}), str(tmp_path / "t"))

    assert table.schema.field("v").type == pa.string()


def test_an_instant_with_a_zone_can_be_filtered(tmp_path: Path) -> None:
    instants = pa.array([0, 1500], pa.timestamp("ms", "UTC"))
    table = lance.write_dataset(pa.table({"t": instants}), str(tmp_path / "t"))

    assert table.count_rows("t > timestamp '1970-01-01T00:00:01Z'") == 1


def test_a_shared_session_sees_versions_committed_by_others(tmp_path: Path) -> None:
    shared = session()
    table = create(tmp_path / "t", rows(a=1))
    pinned = lance.dataset(table.uri, session=shared)
    assert contents(pinned) == {"a": 1}

    lance.write_dataset(rows(b=2), table.uri, mode="append")

    assert contents(lance.dataset(table.uri, session=shared)) == {"a": 1, "b": 2}
    assert contents(lance.dataset(table.uri, version=pinned.version, session=shared)) == {"a": 1}
    assert contents(pinned) == {"a": 1}


def test_a_shared_session_never_mixes_up_two_tables_made_at_one_place(tmp_path: Path) -> None:
    shared = session()
    table = create(tmp_path / "t", rows(a=1))
    assert contents(lance.dataset(table.uri, version=2, session=shared)) == {"a": 1}
    (tmp_path / "t").rename(tmp_path / "old")

    create(tmp_path / "t", rows(b=2))

    assert contents(lance.dataset(table.uri, version=2, session=shared)) == {"b": 2}


def test_listing_indices_the_old_way_is_deprecated(tmp_path: Path) -> None:
    table = create(tmp_path / "t")

    with pytest.warns(DeprecationWarning, match="describe_indices"):
        table.list_indices()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.describe_indices() == []
