"""The append-only logs beside the manifest: the commit journal, its actors, the recovery audit. Rows in, rows out."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from omnigraph_sql.storage.datasets import commit_new, compact, new_session, stage_new
from omnigraph_sql.storage.error_translation import LANCE_ERRORS, storage_error, translated_errors
from omnigraph_sql.storage.integrity import new_fragments
from omnigraph_sql.storage.objects import ObjectStore


class AppendLog:
    """One append-only dataset. Counts its calls, as the manifest does."""

    def __init__(self, objects: ObjectStore, name: str, schema: pa.Schema) -> None:
        self._objects = objects
        self._name = name
        self._schema = schema
        self._session = new_session()
        self._options = objects.root.storage_options
        self.calls: Counter[str] = Counter()

    def reset(self) -> None:
        """Forget what was read: the files were replaced by others of their names."""
        self._session = new_session()

    def exists(self) -> bool:
        return self._objects.has_version(self._name)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Append rows; the log is created when it does not exist yet."""
        table = pa.Table.from_pylist(rows, schema=self._schema)
        if not self.exists() and self._create(table):
            return
        self.calls["append"] += 1
        with self._guarded():
            opened = self._complete(self._newest())
            staged: Any = write_fragments(table, opened, mode="append", return_transaction=True)
            self._objects.files.require_whole(self._name, new_fragments(staged.operation))
            dataset = lance.LanceDataset.commit(  # inline-commit-ok: a log, reconciled from the manifest
                opened, staged, storage_options=self._options
            )
        if compact(self._objects, self._name, dataset):
            self.calls["compact"] += 1
        self._flush(dataset)

    def append_once(self, row: dict[str, Any], key: str) -> None:
        """Append a row unless one with its key is there, also when several processes do so at once.

        The key column is annotated: a merge that finds its row landed meanwhile runs again, and then it matches.
        """
        table = pa.Table.from_pylist([row], schema=self._schema)
        if not self.exists() and self._create(table):
            return
        self.calls["append"] += 1
        with self._guarded():
            dataset = self._open()
            builder = dataset.merge_insert(key).when_not_matched_insert_all()
            builder.use_index(False).execute(table)  # inline-commit-ok: a log
            self._objects.files.retract_torn(self._name, dataset)
        self._flush(dataset)

    def _complete(self, dataset: Any) -> Any:
        """A log of an earlier release with the columns that have come since, null in its rows."""
        missing = [field for field in self._schema if field.name not in dataset.schema.names]
        if not missing:
            return dataset
        self.calls["add_columns"] += 1
        try:
            dataset.add_columns(missing)  # inline-commit-ok: a log
        except LANCE_ERRORS:
            if any(field.name not in self._newest().schema.names for field in missing):
                raise
        return self._newest()

    def _create(self, table: pa.Table) -> bool:
        """Create the log with its first rows; False when another process was faster.

        Staged and committed without retries: a plain create lets several racing processes overwrite each other.
        """
        self.calls["create"] += 1
        try:
            dataset = commit_new(self._objects, self._name, stage_new(self._objects, self._name, table))
        except LANCE_ERRORS as error:
            if not self.exists():
                raise storage_error(error, self._objects.uri(self._name)) from error
            return False
        self._flush(dataset)
        return True

    def read(self, condition: str | None = None) -> list[dict[str, Any]]:
        """All rows, or those that satisfy a condition."""
        if not self.exists():
            return []
        with self._guarded():
            rows: list[dict[str, Any]] = self._open().to_table(filter=condition).to_pylist()
        return rows

    def read_after(self, count: int) -> list[dict[str, Any]] | None:
        """The rows after the first ones; None if there are fewer than these."""
        if not self.exists():
            return [] if count == 0 else None
        with self._guarded():
            dataset = self._open()
            total = int(dataset.count_rows())
            if total < count:
                return None
            rows: list[dict[str, Any]] = [] if total == count else dataset.to_table(offset=count or None).to_pylist()
        return rows

    def find(self, column: str, value: str) -> dict[str, Any] | None:
        """The first row with this value."""
        if not self.exists():
            return None
        quoted = value.replace("'", "''")
        with self._guarded():
            rows: list[dict[str, Any]] = self._open().to_table(filter=f"{column} = '{quoted}'", limit=1).to_pylist()
        return rows[0] if rows else None

    def _flush(self, dataset: Any) -> None:
        with self._guarded():
            self._objects.files.flush_version(self._name, dataset, self.calls)

    def _guarded(self) -> AbstractContextManager[None]:
        hint = f"restore {self._name} from a copy of the graph, or move it away: it is begun anew, without what it recorded"
        return translated_errors(self._objects.uri(self._name), hint)

    def _open(self) -> Any:
        """The newest version, for one scan of it."""
        self.calls["scan"] += 1
        return self._newest()

    def _newest(self) -> Any:
        return lance.dataset(self._objects.uri(self._name), session=self._session, storage_options=self._options)
