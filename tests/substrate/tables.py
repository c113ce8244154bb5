"""Small Lance tables and staged writes for the tests of this directory, made with lance directly."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments

PRIMARY_KEY = "lance-schema:unenforced-primary-key"
KEY = pa.field("id", pa.string(), nullable=False, metadata={PRIMARY_KEY: "true"})
SCHEMA = pa.schema([KEY, pa.field("n", pa.int64())])
UNMARKED = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])

Stage = Callable[[lance.LanceDataset], Transaction]


def rows(schema: pa.Schema = SCHEMA, /, **values: int | None) -> pa.Table:
    """One row per argument: `rows(a=1)` holds the key "a" with the value 1."""
    return pa.table({"id": list(values), "n": list(values.values())}, schema=schema)


def create(uri: Path, *parts: pa.Table, schema: pa.Schema = SCHEMA) -> lance.LanceDataset:
    """A table as the store makes them, empty at version 1, with one further version and fragment per part."""
    table = lance.write_dataset(
        schema.empty_table(), str(uri), mode="create", enable_stable_row_ids=True, data_storage_version="2.2"
    )
    for part in parts:
        table = lance.write_dataset(part, str(uri), mode="append")
    return table


def head(table: lance.LanceDataset) -> lance.LanceDataset:
    """The newest version of the table's main lineage."""
    return lance.dataset(table.uri)


def branch(table: lance.LanceDataset, name: str, version: int | None = None) -> lance.LanceDataset:
    return lance.dataset(table.uri).checkout_version((name, version))


def keys(table: lance.LanceDataset) -> list[str]:
    """The keys in order, duplicates included."""
    found: list[str] = sorted(table.to_table(columns=["id"])["id"].to_pylist())
    return found


def contents(table: lance.LanceDataset) -> dict[str, int | None]:
    """Key to value; the keys must be unique."""
    pairs = [(row["id"], row["n"]) for row in table.to_table(columns=["id", "n"]).to_pylist()]
    assert len(dict(pairs)) == len(pairs), f"duplicate keys in {pairs}"
    return dict(pairs)


def column(table: lance.LanceDataset, name: str) -> dict[str, Any]:
    """Key to the value of one column, system columns included."""
    return {row["id"]: row[name] for row in table.to_table(columns=["id", name]).to_pylist()}


def creating(uri: str, new: pa.Table) -> Transaction:
    return write_fragments(
        new, uri, mode="create", return_transaction=True, enable_stable_row_ids=True, data_storage_version="2.2"
    )


def appending(table: lance.LanceDataset, new: pa.Table) -> Transaction:
    return write_fragments(new, table, mode="append", return_transaction=True)


def overwriting(table: lance.LanceDataset, new: pa.Table) -> Transaction:
    return write_fragments(new, table, mode="overwrite", return_transaction=True)


def merging(table: lance.LanceDataset, new: pa.Table) -> Transaction:
    """Matched rows are replaced, others inserted."""
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute_uncommitted(new)[0]


def shrunk_fragments(table: lance.LanceDataset, predicate: str) -> tuple[list[FragmentMetadata], list[int]]:
    """What remains of the fragments that lose rows, and the ids of those that lose every row."""
    updated, gone = [], []
    for fragment in table.get_fragments():
        before, after = fragment.metadata, fragment.delete(predicate)
        if after is None:
            gone.append(fragment.fragment_id)
        elif after != before:
            updated.append(after)
    return updated, gone


def deleting(table: lance.LanceDataset, predicate: str) -> Transaction:
    return Transaction(table.version, LanceOperation.Delete(*shrunk_fragments(table, predicate), predicate))


def indexing(table: lance.LanceDataset, name: str = "n_index") -> Transaction:
    """A BTREE index on the column n."""
    index = table.create_index_uncommitted("n", "BTREE", name=name, fragment_ids=fragment_ids(table))
    return Transaction(table.version, LanceOperation.CreateIndex([index], []))


def projecting(table: lance.LanceDataset) -> Transaction:
    """Every column is kept: a schema change as such."""
    return Transaction(table.version, LanceOperation.Project(table.lance_schema))


def widening(table: lance.LanceDataset) -> Transaction:
    """A new column m, filled with n + 1."""
    merged = [fragment.merge_columns({"m": "n + 1"}) for fragment in table.get_fragments()]
    return Transaction(table.version, LanceOperation.Merge([fragment for fragment, _ in merged], merged[0][1]))


def configuring(table: lance.LanceDataset, **settings: str) -> Transaction:
    return Transaction(table.version, LanceOperation.UpdateConfig(config_updates=LanceOperation.UpdateMap(dict(settings))))


def restoring(table: lance.LanceDataset, version: int) -> Transaction:
    return Transaction(table.version, LanceOperation.Restore(version))


def commit(table: lance.LanceDataset, transaction: Transaction, retries: int = 0) -> lance.LanceDataset:
    return lance.LanceDataset.commit(table, transaction, max_retries=retries)


def commit_both(base: lance.LanceDataset, first: Transaction, second: Transaction) -> lance.LanceDataset:
    """Commit two transactions staged on one version; the second does not know of the first."""
    commit(base, first)
    return commit(base, second)


def restore(table: Any) -> None:
    """Make the version the handle stands on the newest one."""
    table.restore()


def validate(table: Any) -> None:
    """Fails unless files, row counts and row ids of the table fit each other."""
    table.validate()


def session() -> Any:
    """Caches that several handles share."""
    package: Any = lance
    return package.Session()


def fragment_ids(table: lance.LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in table.get_fragments()]


def operation(table: lance.LanceDataset, version: int | None = None) -> LanceOperation.BaseOperation:
    """The operation that made a version; the handle's own unless told otherwise."""
    return transaction(table, version).operation


def transaction(table: lance.LanceDataset, version: int | None = None) -> Transaction:
    found = table.read_transaction(table.version if version is None else version)
    assert found is not None
    return found
