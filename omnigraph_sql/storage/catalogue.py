"""The manifest dataset as storage sees it: rows in, rows out.

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

from omnigraph_sql.errors import NotFound, OmnigraphError, RowLevelCasContention, Storage, UnsupportedFormat
from omnigraph_sql.storage.columns import PRIMARY_KEY
from omnigraph_sql.storage.datasets import commit_new, compact, is_crowded, new_session, stage_new
from omnigraph_sql.storage.faults import LANCE_ERRORS, fault, guarded, is_absence
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.references import branches_of

MANIFEST: Final = "__manifest"
STAMP: Final = b"omnigraph:internal_schema_version"
LANDED: Final = "_row_last_updated_at_version"
_CONTENTION: Final = "Too many concurrent writers"
_REFERENCE_HINT: Final = "restore the file from a copy of the graph, or delete it: the branch is then gone"
_MANIFEST_HINT: Final = f"restore the directory {MANIFEST} from a copy of the graph"

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
    unflushed: OmnigraphError | None = None
    """Why the merge, which has landed, could not be flushed to disk as was asked for."""


class ManifestTable:
    """Rows of `__manifest`, per graph branch and version. Counts its calls, so that tests can state what something costs."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._session = new_session()
        self._options = objects.root.storage_options
        self.calls: Counter[str] = Counter()

    def exists(self) -> bool:
        return self._objects.has_version(MANIFEST)

    def create(self, rows: list[dict[str, Any]], stamp: int) -> int:
        """The manifest of a new graph."""
        self.calls["create"] += 1
        schema = ROW_SCHEMA.with_metadata({STAMP: str(stamp).encode()})
        with guarded(MANIFEST):
            staged = stage_new(self._objects, MANIFEST, pa.Table.from_pylist(rows, schema=schema))
            dataset = commit_new(self._objects, MANIFEST, staged)
        self._flush(None, dataset)
        return int(dataset.version)

    def _flush(self, branch: str | None, dataset: Any) -> None:
        """The files of the newest version on disk, if that is asked for."""
        with guarded(MANIFEST):
            self._objects.files.flush_version(_name(branch), dataset, self.calls)

    def newest(self, branch: str | None) -> ManifestVersion:
        """The newest version on a branch: the freshness probe."""
        self.calls["probe"] += 1
        return self._open(branch, None)

    def is_newest(self, branch: str | None, version: int) -> bool:
        """The freshness probe at a glance: whether a version is seen to be the newest; False if that takes a request."""
        found = self._objects.files.is_newest(_name(branch), version)
        self.calls["probe"] += found
        return found

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
        with guarded(MANIFEST, _MANIFEST_HINT):
            rows: list[dict[str, Any]] = opened._dataset.to_table(columns=columns, filter=changed).to_pylist()
        return rows

    def raise_stamp(self, branch: str | None, stamp: int) -> None:
        """Set the format of a branch of the manifest, unless it has this one or a later one already. Safe to race."""
        while (opened := self.newest(branch)).stamp < stamp:
            self.calls["annotate"] += 1
            try:
                # From the version just looked at: two stamps given at once conflict.
                opened._dataset.update_schema_metadata({STAMP.decode(): str(stamp)})  # inline-commit-ok: the stamp ladder
            except LANCE_ERRORS as error:
                if self.newest(branch).version == opened.version:
                    raise fault(error, MANIFEST, _MANIFEST_HINT) from error

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
        except LANCE_ERRORS as error:
            if _keys(self.newest(branch)._dataset.schema) != ["object_id"]:
                raise fault(error, MANIFEST, _MANIFEST_HINT) from error

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
        except LANCE_ERRORS as error:
            if _CONTENTION in str(error):
                raise RowLevelCasContention("another publish landed first") from error
            raise fault(error, MANIFEST, _MANIFEST_HINT) from error
        with guarded(MANIFEST):
            self._objects.files.retract_torn(_name(branch), dataset)
        try:
            self._flush(branch, dataset)
        except OmnigraphError as error:
            return Merged(int(dataset.version), is_crowded(dataset), error)
        return Merged(int(dataset.version), is_crowded(dataset))

    def compact(self, branch: str | None) -> None:
        """Fold small fragments into one. Content stays the same; a lost race is no matter."""
        dataset = self.newest(branch)._dataset
        if compact(self._objects, _name(branch), dataset):
            self.calls["compact"] += 1
            self._flush(branch, dataset)

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
        except UnicodeDecodeError:
            text = f"{_reference(branch)}, the reference of the branch `{branch}`, is damaged"
            raise Storage(text, storage_class="permanent", hint=_REFERENCE_HINT) from None

    def branches(self) -> dict[str, tuple[str | None, int]]:
        """Names with their parent branch and the version they were forked at."""
        self.calls["branches"] += 1
        dataset = self.newest(None)._dataset
        with guarded(MANIFEST, _REFERENCE_HINT):
            found = branches_of(dataset)
        return {name: (entry["parent_branch"], int(entry["parent_version"])) for name, entry in found.items()}

    def created_at(self) -> dict[str, int]:
        """Names of branches with the second in which each was created."""
        self.calls["branches"] += 1
        dataset = self.newest(None)._dataset
        with guarded(MANIFEST, _REFERENCE_HINT):
            return {name: int(entry["create_at"]) for name, entry in branches_of(dataset).items()}

    def create_branch(self, name: str, from_branch: str | None, from_version: int) -> None:
        self.calls["create_branch"] += 1
        source: Any = from_version if from_branch is None else (from_branch, from_version)
        if self._objects.has_prefix(f"{MANIFEST}/tree/{name}"):
            # A tree without its reference is what an interrupted create leaves; nothing can use it.
            self._objects.delete_prefix(f"{MANIFEST}/tree/{name}")
        dataset = self.newest(None)._dataset
        with guarded(MANIFEST):
            made = dataset.create_branch(name, source)
        self._flush(name, made)
        self._objects.files.flush_objects([_reference(name)], self.calls)

    def delete_branch(self, name: str) -> None:
        """Remove a branch and its files; an absent one is success."""
        self.calls["delete_branch"] += 1
        if self.has_branch(name):
            dataset = self.newest(None)._dataset
            try:
                dataset.branches.delete(name)
            except LANCE_ERRORS as error:
                if self.has_branch(name):  # otherwise somebody else has just removed it
                    raise fault(error, MANIFEST) from error
        self._objects.delete_prefix(f"{MANIFEST}/tree/{name}")

    def _open(self, branch: str | None, version: int | None) -> ManifestVersion:
        uri = self._objects.uri(_name(branch))
        try:
            dataset = lance.dataset(uri, version=version, session=self._session, storage_options=self._options)
        except LANCE_ERRORS as error:
            if not is_absence(error) or (branch is None and version is None):
                raise fault(error, self._objects.uri(MANIFEST), _MANIFEST_HINT) from error
            what, name = ("branch", branch) if version is None and branch else ("version", str(version))
            raise NotFound(f"the {what} `{name}` does not exist", what=what, name=name or "") from error
        return ManifestVersion(branch, int(dataset.version), dataset)


def _name(branch: str | None) -> str:
    return MANIFEST if branch is None else f"{MANIFEST}/tree/{branch}"


def _reference(branch: str) -> str:
    """Where Lance keeps the reference of a branch: one small file each, so one look says whether a branch exists."""
    return f"{MANIFEST}/_refs/branches/{quote(branch, safe='')}.json"


def _keys(schema: pa.Schema) -> list[str]:
    """Columns that are annotated as the key."""
    return [field.name for field in schema if field.metadata and next(iter(PRIMARY_KEY)) in field.metadata]
