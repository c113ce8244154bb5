"""The manifest dataset and the append-only logs beside it, as storage sees them: rows in, rows out.

What the rows mean is the business of `manifest/`. The one write that must be atomic against other writers is `merge_rows`:
an inline merge without retries on an annotated key, the only form in which Lance detects two writers landing on one row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import lance
import pyarrow as pa
from lance.fragment import write_fragments
from lance.optimize import Compaction

from omnigraph_sql.errors import NotFound, RowLevelCasContention, UnsupportedFormat
from omnigraph_sql.storage.columns import PRIMARY_KEY
from omnigraph_sql.storage.objects import ObjectStore, translate
from omnigraph_sql.storage.tables import STORAGE_VERSION, new_session

MANIFEST: Final = "__manifest"
STAMP: Final = b"omnigraph:internal_schema_version"
LANDED: Final = "_row_last_updated_at_version"
_CONTENTION: Final = "Too many concurrent writers"
_COMPACT_AT: Final = 32

ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)


@dataclass(frozen=True)
class ManifestVersion:
    """One opened version of the manifest. What is inside belongs to storage."""

    branch: str | None
    version: int
    _dataset: Any = field(repr=False, compare=False)

    @property
    def stamp(self) -> int:
        """The format of the manifest; a missing stamp means the first format."""
        return int((self._dataset.schema.metadata or {}).get(STAMP, b"1"))


@dataclass(frozen=True)
class Merged:
    """Where a merge of rows landed, and whether small fragments have piled up by now."""

    version: int
    crowded: bool


class ManifestTable:
    """Rows of `__manifest`, per graph branch and version. Counts its calls, so that tests can state what something costs."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._session = new_session()
        self.calls: Counter[str] = Counter()

    def exists(self) -> bool:
        return self._objects.exists(f"{MANIFEST}/_versions")

    def create(self, rows: list[dict[str, Any]], stamp: int) -> int:
        """The manifest of a new graph."""
        self.calls["create"] += 1
        schema = ROW_SCHEMA.with_metadata({STAMP: str(stamp).encode()})
        dataset = lance.write_dataset(  # inline-commit-ok: the manifest does not exist yet
            pa.Table.from_pylist(rows, schema=schema),
            str(self._objects.path(MANIFEST)),
            mode="create",
            enable_stable_row_ids=True,
            data_storage_version=STORAGE_VERSION,
            session=self._session,
        )
        return int(dataset.version)

    def newest(self, branch: str | None) -> ManifestVersion:
        """The newest version on a branch: the freshness probe."""
        self.calls["probe"] += 1
        return self._open(branch, None)

    def at(self, branch: str | None, version: int) -> ManifestVersion:
        self.calls["open"] += 1
        return self._open(branch, version)

    def read(self, opened: ManifestVersion, since: int | None = None) -> list[dict[str, Any]]:
        """The rows of a version; with `since`, only those that were added or replaced after that version.

        Each says under `LANDED` at which version it was written.
        """
        self.calls["read" if since is None else "refresh"] += 1
        changed = None if since is None else f"{LANDED} > {since}"
        columns = [*ROW_SCHEMA.names, LANDED]
        rows: list[dict[str, Any]] = opened._dataset.to_table(columns=columns, filter=changed).to_pylist()
        return rows

    def raise_stamp(self, branch: str | None, stamp: int) -> None:
        """Set the format of a branch of the manifest, unless it has this one or a later one already. Safe to race."""
        while (opened := self.newest(branch)).stamp < stamp:
            self.calls["annotate"] += 1
            try:
                # From the version just looked at: two stamps given at once conflict.
                opened._dataset.update_schema_metadata({STAMP.decode(): str(stamp)})  # inline-commit-ok: the stamp ladder
            except OSError as error:
                if self.newest(branch).version == opened.version:
                    raise translate(error, MANIFEST) from error

    def annotate(self, branch: str | None) -> None:
        """Make `object_id` the key, once: without it two writers landing one row are not noticed. Safe to race."""
        opened = self.newest(branch)
        keys = _keys(opened._dataset.schema)
        if keys not in ([], ["object_id"]):
            text = f"the manifest has the key {', '.join(keys)}, where object_id is expected"
            raise UnsupportedFormat(text, found=", ".join(keys), supported="object_id")
        if keys:
            return
        self.calls["annotate"] += 1
        metadata = {key.decode(): value.decode() for key, value in PRIMARY_KEY.items()}
        try:
            opened._dataset.update_field_metadata({"object_id": metadata})  # inline-commit-ok: the stamp ladder
        except OSError as error:
            if _keys(self.newest(branch)._dataset.schema) != ["object_id"]:
                raise translate(error, MANIFEST) from error

    def merge_rows(self, branch: str | None, rows: list[dict[str, Any]], base_version: int) -> Merged:
        """Upsert rows in one atomic step, from the version the caller looked at.

        `RowLevelCasContention` when another writer has landed one of them since.
        """
        dataset = self.at(branch, base_version)._dataset
        self.calls["merge"] += 1
        table = pa.Table.from_pylist(rows, schema=ROW_SCHEMA)
        builder = dataset.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        try:
            builder.conflict_retries(0).use_index(False).execute(table)  # inline-commit-ok: the publish itself
        except OSError as error:
            if _CONTENTION in str(error):
                raise RowLevelCasContention("another publish landed first") from error
            raise translate(error, MANIFEST) from error
        return Merged(int(dataset.version), _is_crowded(dataset))

    def compact(self, branch: str | None) -> None:
        """Fold small fragments into one. Content stays the same; a lost race is no matter."""
        if _compact(self.newest(branch)._dataset):
            self.calls["compact"] += 1

    # Branches

    def has_branch(self, name: str) -> bool:
        """Whether a branch exists. Costs the same however many there are."""
        return self._objects.exists(_reference(name))

    def incarnation(self, branch: str | None) -> str:
        """Tells two branches that had one name apart: what the branch's reference says. `NotFound` when there is none."""
        if branch is None:
            return ""
        try:
            return self._objects.read_text(_reference(branch))
        except NotFound:
            raise NotFound(f"there is no branch `{branch}`", what="branch", name=branch) from None

    def branches(self) -> dict[str, tuple[str | None, int]]:
        """Names with their parent branch and the version they were forked at."""
        self.calls["branches"] += 1
        found = self.newest(None)._dataset.branches.list()
        return {name: (entry["parent_branch"], int(entry["parent_version"])) for name, entry in found.items()}

    def create_branch(self, name: str, from_branch: str | None, from_version: int) -> None:
        self.calls["create_branch"] += 1
        source: Any = from_version if from_branch is None else (from_branch, from_version)
        if self._objects.exists(f"{MANIFEST}/tree/{name}"):
            # A tree without its reference is what an interrupted create leaves; nothing can use it.
            self._objects.delete_prefix(f"{MANIFEST}/tree/{name}")
        self.newest(None)._dataset.create_branch(name, source)

    def delete_branch(self, name: str) -> None:
        """Remove a branch and its files; an absent one is success."""
        self.calls["delete_branch"] += 1
        if self.has_branch(name):
            try:
                self.newest(None)._dataset.branches.delete(name)
            except (OSError, ValueError):
                if self.has_branch(name):  # otherwise somebody else has just removed it
                    raise
        self._objects.delete_prefix(f"{MANIFEST}/tree/{name}")

    def _open(self, branch: str | None, version: int | None) -> ManifestVersion:
        uri = str(self._objects.path(MANIFEST))
        place = uri if branch is None else f"{uri}/tree/{branch}"
        try:
            dataset = lance.dataset(place, version=version, session=self._session)
        except ValueError as error:
            what, name = ("branch", branch) if version is None and branch else ("version", str(version))
            raise NotFound(f"the {what} `{name}` does not exist", what=what, name=name or "") from error
        except OSError as error:
            raise translate(error, uri) from error
        return ManifestVersion(branch, int(dataset.version), dataset)


def _reference(branch: str) -> str:
    """Where Lance keeps the reference of a branch: one small file each, so one look says whether a branch exists."""
    return f"{MANIFEST}/_refs/branches/{quote(branch, safe='')}.json"


class AppendLog:
    """An append-only dataset: the commit journal, its actors, the recovery audit. Counts its calls, as the manifest does."""

    def __init__(self, objects: ObjectStore, name: str, schema: pa.Schema) -> None:
        self._objects = objects
        self._name = name
        self._schema = schema
        self._session = new_session()
        self.calls: Counter[str] = Counter()

    def exists(self) -> bool:
        return self._objects.exists(f"{self._name}/_versions")

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Append rows; the log is created when it does not exist yet."""
        table = pa.Table.from_pylist(rows, schema=self._schema)
        uri = str(self._objects.path(self._name))
        if not self.exists() and self._create(uri, table):
            return
        self.calls["append"] += 1
        try:
            dataset = lance.write_dataset(  # inline-commit-ok: a log, reconciled from the manifest
                table, uri, mode="append", session=self._session
            )
        except OSError as error:
            raise translate(error, uri) from error
        if _compact(dataset):
            self.calls["compact"] += 1

    def append_once(self, row: dict[str, Any], key: str) -> None:
        """Append a row unless one with its key is there, also when several processes do so at once.

        The key column is annotated: a merge that finds its row landed meanwhile runs again, and then it matches.
        """
        table = pa.Table.from_pylist([row], schema=self._schema)
        if not self.exists() and self._create(str(self._objects.path(self._name)), table):
            return
        self.calls["append"] += 1
        builder = self._open().merge_insert(key).when_not_matched_insert_all()
        try:
            builder.use_index(False).execute(table)  # inline-commit-ok: a log
        except OSError as error:
            raise translate(error, self._name) from error

    def _create(self, uri: str, table: pa.Table) -> bool:
        """Create the log with its first rows; False when somebody else was faster.

        Staged and committed without retries: a plain create lets several racing processes overwrite each other.
        """
        self.calls["create"] += 1
        created = write_fragments(
            table,
            uri,
            mode="create",
            return_transaction=True,
            enable_stable_row_ids=True,
            data_storage_version=STORAGE_VERSION,
        )
        try:
            lance.LanceDataset.commit(uri, created, enable_stable_row_ids=True, max_retries=0)
        except OSError as error:
            if not self.exists():
                raise translate(error, uri) from error
            return False
        return True

    def read(self) -> list[dict[str, Any]]:
        if not self.exists():
            return []
        rows: list[dict[str, Any]] = self._open().to_table().to_pylist()
        return rows

    def find(self, column: str, value: str) -> dict[str, Any] | None:
        """The first row with this value."""
        if not self.exists():
            return None
        quoted = value.replace("'", "''")
        rows: list[dict[str, Any]] = self._open().to_table(filter=f"{column} = '{quoted}'", limit=1).to_pylist()
        return rows[0] if rows else None

    def _open(self) -> Any:
        """The newest version, for one scan of it."""
        self.calls["scan"] += 1
        return lance.dataset(str(self._objects.path(self._name)), session=self._session)


def _keys(schema: pa.Schema) -> list[str]:
    """Columns that are annotated as the key."""
    return [field.name for field in schema if field.metadata and next(iter(PRIMARY_KEY)) in field.metadata]


def _is_crowded(dataset: Any) -> bool:
    return len(dataset.get_fragments()) > _COMPACT_AT


def _compact(dataset: Any) -> bool:
    """Fold the fragments of a dataset when they are many; whether that was done."""
    if not _is_crowded(dataset):
        return False
    plan = Compaction.plan(dataset, {})
    if not plan.num_tasks():
        return False
    try:
        Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])  # inline-commit-ok: upkeep
    except OSError:
        return False  # somebody else wrote meanwhile; the next writer tries again
    return True
