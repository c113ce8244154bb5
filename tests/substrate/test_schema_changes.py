"""Columns added, dropped and renamed in two steps."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceOperation, Transaction
from lance.schema import LanceSchema

from tests.substrate.tables import KEY, column, commit, create, head, validate, widening

SCHEMA = pa.schema([KEY, ("n", pa.int64()), ("m", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    """Columns id, n, m; n holds 1 and 2, m holds 10 and 20; version 2."""
    return create(tmp_path / "t", pa.table([["a", "b"], [1, 2], [10, 20]], schema=SCHEMA), schema=SCHEMA)


def keeping(table: lance.LanceDataset, schema: LanceSchema) -> Transaction:
    return Transaction(table.version, LanceOperation.Project(schema))


def field_ids(schema: LanceSchema) -> dict[str, int]:
    return {field.name(): field.id() for field in schema.fields()}


def without(table: lance.LanceDataset, name: str) -> LanceSchema:
    """The table's schema without a column, its field ids unchanged, taken from a branch made for the purpose."""
    scratch = table.create_branch("scratch")
    scratch.drop_columns([name])
    schema = scratch.lance_schema
    head(table).branches.delete("scratch")
    return schema


def test_a_schema_made_from_an_arrow_schema_numbers_its_fields_by_position(table: lance.LanceDataset) -> None:
    assert field_ids(table.lance_schema) == {"id": 0, "n": 1, "m": 2}

    renumbered = LanceSchema.from_pyarrow(pa.schema([SCHEMA.field("id"), SCHEMA.field("m")]))

    assert field_ids(renumbered) == {"id": 0, "m": 1}


def test_dropping_a_column_by_a_renumbered_schema_returns_the_values_of_another(table: lance.LanceDataset) -> None:
    renumbered = LanceSchema.from_pyarrow(pa.schema([SCHEMA.field("id"), SCHEMA.field("m")]))

    table = commit(table, keeping(table, renumbered))

    assert table.schema.names == ["id", "m"]
    assert column(table, "m") == {"a": 1, "b": 2}


def test_dropping_a_column_by_the_tables_own_field_ids_is_right(table: lance.LanceDataset) -> None:
    schema = without(table, "n")
    assert field_ids(schema) == {"id": 0, "m": 2}
    staged = keeping(table, schema)
    assert head(table).version == table.version

    dropped = commit(table, staged)

    assert (dropped.version, dropped.schema.names) == (table.version + 1, ["id", "m"])
    assert column(dropped, "m") == {"a": 10, "b": 20}
    assert dropped.schema.field("id").metadata == SCHEMA.field("id").metadata
    validate(dropped)


def test_renaming_a_column_with_all_columns_present_is_right(table: lance.LanceDataset) -> None:
    renamed = pa.schema([SCHEMA.field("id"), SCHEMA.field("n").with_name("count"), SCHEMA.field("m")])

    table = commit(table, keeping(table, LanceSchema.from_pyarrow(renamed)))

    assert column(table, "count") == {"a": 1, "b": 2}
    assert column(table, "m") == {"a": 10, "b": 20}


def test_a_renamed_column_keeps_its_index(table: lance.LanceDataset) -> None:
    table.create_scalar_index("n", "BTREE", name="by_n")
    table = head(table)
    renamed = pa.schema([SCHEMA.field("id"), SCHEMA.field("n").with_name("count"), SCHEMA.field("m")])

    table = commit(table, keeping(table, LanceSchema.from_pyarrow(renamed)))

    assert [index.field_names for index in table.describe_indices()] == [["count"]]
    assert table.to_table(filter="count = 2")["id"].to_pylist() == ["b"]


def test_a_column_is_added_in_two_steps(tmp_path: Path) -> None:
    narrow = pa.schema([KEY, ("n", pa.int64())])
    parts = [pa.table([["a"], [1]], schema=narrow), pa.table([["b"], [2]], schema=narrow)]
    table = create(tmp_path / "t", *parts, schema=narrow)

    staged = widening(table)
    assert (head(table).version, head(table).schema.names) == (3, ["id", "n"])
    wide = commit(table, staged)

    assert (wide.version, wide.schema.names) == (4, ["id", "n", "m"])
    assert column(wide, "m") == {"a": 2, "b": 3}
    assert column(wide, "_rowid") == column(table, "_rowid")
    assert column(wide, "_row_created_at_version") == column(table, "_row_created_at_version")
    validate(wide)


def test_a_column_added_after_a_drop_never_shows_the_dropped_values(table: lance.LanceDataset) -> None:
    table = commit(table, keeping(table, without(table, "n")))
    merged = [fragment.merge_columns({"n": "m + 1"}) for fragment in table.get_fragments()]

    operation = LanceOperation.Merge([fragment for fragment, _ in merged], merged[0][1])
    table = commit(table, Transaction(table.version, operation))

    assert column(table, "n") == {"a": 11, "b": 21}
    assert field_ids(table.lance_schema)["n"] not in {0, 1, 2}


@pytest.mark.parametrize("change", ["add", "drop", "rename"])
def test_the_convenient_schema_methods_commit_at_once(table: lance.LanceDataset, change: str) -> None:
    version = table.version
    if change == "add":
        table.add_columns({"x": "n + m"})
    elif change == "drop":
        table.drop_columns(["n"])
    else:
        renaming: Any = {"path": "n", "name": "count"}
        table.alter_columns(renaming)

    assert head(table).version == version + 1


def test_settings_and_schema_metadata_are_changed_in_two_steps(table: lance.LanceDataset) -> None:
    operation = LanceOperation.UpdateConfig(
        config_updates=LanceOperation.UpdateMap({"setting": "1"}),
        schema_metadata_updates=LanceOperation.UpdateMap({"stamp": "3"}),
    )

    changed = commit(table, Transaction(table.version, operation))

    assert changed.version == table.version + 1
    assert changed.config() == {"setting": "1"}
    assert changed.schema.metadata == {b"stamp": b"3"}
    assert column(changed, "m") == {"a": 10, "b": 20}
