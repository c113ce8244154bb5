"""Positions: the number of a row in table order, which scans, takes and filters agree on."""

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc

from tests.substrate.tables import create, head, rows


def scattered(uri: Path) -> lance.LanceDataset:
    """Three fragments, with deleted rows in two, and a changed row that moved to the end."""
    table = create(uri, rows(a=0, b=1, c=2), rows(d=3, e=4), rows(f=5))
    table.delete("id IN ('b', 'd')")
    table.update({"n": "100"}, where="id = 'a'")
    return head(table)


def test_row_offsets_count_live_rows_in_table_order(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")

    found = table.to_table(columns=["id", "_rowoffset"])

    assert found.column("_rowoffset").to_pylist() == list(range(table.count_rows()))
    assert found.column("id").to_pylist() == ["c", "e", "f", "a"]


def test_a_filter_keeps_the_row_offsets(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")
    for _ in range(2):
        found = table.scanner(columns=["id", "_rowoffset"], filter=pc.field("id").isin(pa.array(["a", "c", "b"]))).to_table()
        assert dict(zip(*found.to_pydict().values(), strict=True)) == {"a": 3, "c": 0}
        table.create_scalar_index("id", "BTREE")
        table = head(table)


def test_take_is_by_row_offset(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")

    assert table.take([0, 2, 3], ["id"]).column(0).to_pylist() == ["c", "f", "a"]


def test_a_scan_can_begin_at_a_row_offset(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")

    assert table.scanner(columns=["id"], offset=2).to_table().column(0).to_pylist() == ["f", "a"]


def test_an_append_leaves_the_fragments_as_they_are(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")
    before = [each.metadata.to_json() for each in table.get_fragments()]
    lance.write_dataset(rows(z=9), table.uri, mode="append")

    after = [each.metadata.to_json() for each in head(table).get_fragments()]

    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


def test_a_deletion_names_itself_in_the_fragment(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")
    before = [each.metadata.to_json()["deletion_file"] for each in table.get_fragments()]
    table.delete("id = 'c'")

    after = [each.metadata.to_json()["deletion_file"] for each in head(table).get_fragments()]

    assert before[0]["id"] not in [each["id"] for each in after if each]


def test_an_index_says_which_fragments_it_knows(tmp_path: Path) -> None:
    table = create(tmp_path / "t", rows(a=1), rows(b=2))
    table.create_scalar_index("id", "BTREE")
    lance.write_dataset(rows(c=3), table.uri, mode="append")

    (index,) = head(table).describe_indices()

    assert (index.field_names, index.type_url.rsplit("/", 1)[-1].split(".")[-1]) == (["id"], "BTreeIndexDetails")
    assert {number for segment in index.segments for number in segment.fragment_ids} == {0, 1}


def test_an_expression_cannot_be_handed_over_beside_a_list_of_unsigned_numbers(tmp_path: Path) -> None:
    """If this passes one day, `storage/filters.py` has a part less to do."""
    schema = pa.schema([pa.field("id", pa.string()), pa.field("sizes", pa.list_(pa.uint32()))])
    table = lance.write_dataset(schema.empty_table(), str(tmp_path / "t"))

    refused = False
    try:
        table.scanner(filter=pc.field("id") == "a").to_table()
    except ValueError as error:
        refused = "Substrait" in str(error)

    assert refused
