"""The Lance dataset of the manifest, as rows; `manifest/` interprets them.

The one write that must be atomic against other writers is `merge_rows`: an inline merge without retries on an annotated key,
the only form in which Lance detects that two writers changed the same row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from omnigraph_sql import failpoints
from omnigraph_sql.errors import NotFound, OmnigraphError, RowLevelCasContention, Storage, UnsupportedFormat
from omnigraph_sql.storage.branch_records import BranchRecord, BranchRecords, branch_of_lineage, is_lineage, new_lineage
from omnigraph_sql.storage.branch_refs import (
    Reference,
    branch_names,
    branch_of_file,
    delete_branch,
    dependants_of,
    read_references,
    reference_name,
)
from omnigraph_sql.storage.columns import PRIMARY_KEY
from omnigraph_sql.storage.datasets import commit_new, compact, needs_compaction, new_session, open_dataset, stage_new
from omnigraph_sql.storage.error_translation import LANCE_ERRORS, is_absence, is_damage, storage_error, translated_errors
from omnigraph_sql.storage.files import FileMark
from omnigraph_sql.storage.identity import MANIFEST, Identity, read_identity, write_identity
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.relocation import transaction_name
from omnigraph_sql.storage.roots import Root
from omnigraph_sql.storage.table_names import table_name

STAMP: Final = b"omnigraph:internal_schema_version"
LANDED: Final = "_row_last_updated_at_version"
_CONTENTION: Final = "Too many concurrent writers"
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
class ManifestPlace:
    """The place of a branch in the manifest: its lineage and its incarnation."""

    lineage: str | None
    incarnation: str


@dataclass(frozen=True)
class VersionMark:
    """Identifies a version of the manifest: after a restore another version can have the same number."""

    transaction: str
    file: FileMark | None = None
    """Identifies the file of the version, on stores where reading it is cheap."""


@dataclass(frozen=True)
class ManifestVersion:
    """One opened version of the manifest, opaque outside of storage."""

    lineage: str | None
    version: int
    mark: VersionMark
    _dataset: Any = field(repr=False, compare=False)

    @property
    def stamp(self) -> int:
        """The format of the manifest; without a stamp it is the first format."""
        return int((self._dataset.schema.metadata or {}).get(STAMP, b"1"))


@dataclass(frozen=True)
class Merged:
    """The version that a merge of rows committed, and whether the manifest has many small fragments."""

    version: int
    mark: VersionMark
    crowded: bool
    unflushed: OmnigraphError | None = None
    """The reason why the committed merge could not be flushed to disk."""


class ManifestTable:
    """Rows of the manifest, per lineage and version. Calls are counted, for tests of costs."""

    def __init__(self, objects: ObjectStore, identity: Identity) -> None:
        self._objects = objects
        self._session = new_session()
        self.identity = identity
        self.records = BranchRecords(objects, identity.manifest)
        self.calls: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The dataset, below the root."""
        return self.identity.manifest

    @property
    def root(self) -> Root:
        return self._objects.root

    def reset(self) -> None:
        """Drop the caches: the files were replaced by others with the same names."""
        self._session = new_session()

    def create(self, rows: list[dict[str, Any]], stamp: int) -> int:
        """The manifest of a new graph."""
        self.calls["create"] += 1
        schema = ROW_SCHEMA.with_metadata({STAMP: str(stamp).encode()})
        with translated_errors(self.name):
            staged = stage_new(self._objects, self.name, pa.Table.from_pylist(rows, schema=schema))
            dataset = commit_new(self._objects, self.name, staged)
        self._flush(None, dataset)
        return int(dataset.version)

    def _flush(self, lineage: str | None, dataset: Any) -> None:
        """Flush the files of the newest version, if `OMNIGRAPH_FSYNC` is set."""
        with translated_errors(self.name):
            self._objects.files.flush_version(table_name(self.name, lineage), dataset, self.calls)

    # Identity

    def is_replaced(self) -> bool:
        """True if the graph was removed or replaced by another one since it was opened."""
        stored = read_identity(self._objects)
        if stored is None:
            return not self._objects.has_version(self.name)
        return self.identity.graph_id not in (None, stored.graph_id)

    def adopt(self, identity: Identity) -> None:
        """Add the missing id to a graph of an early release."""
        write_identity(self._objects, identity)
        self.identity = identity

    # Versions

    def newest(self, lineage: str | None) -> ManifestVersion:
        """The newest version of a lineage: the freshness probe."""
        self.calls["probe"] += 1
        return self._open(lineage, None)

    def is_newest(self, lineage: str | None, version: int, mark: VersionMark) -> bool:
        """The freshness probe without a request: True if a version is certainly the newest; False if that is unknown."""
        if mark.file is None or not self._objects.files.is_newest(table_name(self.name, lineage), version, mark.file):
            return False
        self.calls["probe"] += 1
        return True

    def is_unchanged(self, lineage: str | None, version: int, mark: VersionMark) -> bool:
        """True if a version is certainly unchanged; False if finding out needs a request."""
        place = table_name(self.name, lineage)
        return mark.file is not None and self._objects.files.mark_of(place, version) == mark.file

    def at(self, lineage: str | None, version: int) -> ManifestVersion:
        self.calls["open"] += 1
        return self._open(lineage, version)

    def read(self, opened: ManifestVersion, since: int | None = None, key: str | None = None) -> list[dict[str, Any]]:
        """The rows of a version; with `since`, only those that were added or replaced after that version.

        With `key`, the rows of that table alone. Each says under `LANDED` at which version it was written.
        """
        self.calls["read" if since is None else "refresh"] += 1
        changed = None if since is None else f"{LANDED} > {since}"
        if key is not None:
            changed = "table_key = '{}'".format(key.replace("'", "''"))
        columns = [*ROW_SCHEMA.names, LANDED]
        place = table_name(self.name, opened.lineage)
        with translated_errors(place, _hint(place, opened.lineage)):
            rows: list[dict[str, Any]] = opened._dataset.to_table(columns=columns, filter=changed).to_pylist()
        return rows

    def raise_stamp(self, lineage: str | None, stamp: int) -> None:
        """Set the format of a lineage of the manifest, unless it has this one or a later one already. Safe to race."""
        while (opened := self.newest(lineage)).stamp < stamp:
            self.calls["annotate"] += 1
            try:
                # Based on the version just read: two concurrent stamps conflict.
                opened._dataset.update_schema_metadata({STAMP.decode(): str(stamp)})  # inline-commit-ok: the stamp ladder
            except LANCE_ERRORS as error:
                if self.newest(lineage).version == opened.version:
                    raise storage_error(error, self.name, _MANIFEST_HINT) from error

    def annotate(self, lineage: str | None) -> None:
        """Make `object_id` the key, once: without it two writers landing one row are not noticed. Safe to race."""
        opened = self.newest(lineage)
        keys = _keys(opened._dataset.schema)
        if keys not in ([], ["object_id"]):
            text = f"the manifest has the key {', '.join(keys)}, where object_id is expected"
            raise UnsupportedFormat(text, actual=", ".join(keys), supported="object_id")
        if keys:
            return
        self.calls["annotate"] += 1
        metadata = {key.decode(): value.decode() for key, value in PRIMARY_KEY.items()}
        try:
            opened._dataset.update_field_metadata({"object_id": metadata})  # inline-commit-ok: the stamp ladder
        except LANCE_ERRORS as error:
            if _keys(self.newest(lineage)._dataset.schema) != ["object_id"]:
                raise storage_error(error, self.name, _MANIFEST_HINT) from error

    def merge_rows(self, lineage: str | None, rows: list[dict[str, Any]], base_version: int) -> Merged:
        """Upsert rows in one atomic step, based on the version that the caller has read.

        `RowLevelCasContention` when another writer has landed one of them since.
        """
        dataset = self.at(lineage, base_version)._dataset
        self.calls["merge"] += 1
        table = pa.Table.from_pylist(rows, schema=ROW_SCHEMA)
        builder = dataset.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        try:
            builder.conflict_retries(0).use_index(False).execute(table)  # inline-commit-ok: the publish itself
        except LANCE_ERRORS as error:
            if _CONTENTION in str(error):
                raise RowLevelCasContention("another publish landed first") from error
            raise storage_error(error, self.name, _MANIFEST_HINT) from error
        with translated_errors(self.name):
            self._objects.files.retract_torn(table_name(self.name, lineage), dataset)
        unflushed: OmnigraphError | None = None
        try:
            self._flush(lineage, dataset)
        except OmnigraphError as error:
            unflushed = error
        return Merged(int(dataset.version), self._mark(lineage, dataset), needs_compaction(dataset), unflushed)

    def compact(self, lineage: str | None) -> None:
        """Fold small fragments into one. The content stays the same; a lost race is ignored."""
        dataset = self.newest(lineage)._dataset
        if compact(self._objects, table_name(self.name, lineage), dataset):
            self.calls["compact"] += 1
            self._flush(lineage, dataset)

    def _open(self, lineage: str | None, version: int | None) -> ManifestVersion:
        try:
            dataset = open_dataset(self._objects, self.name, lineage, version, session=self._session)
        except LANCE_ERRORS as error:
            if not is_absence(error) or (lineage is None and version is None):
                place = table_name(self.name, lineage)
                raise storage_error(error, self._objects.uri(place), _hint(place, lineage)) from error
            what, name = ("branch", lineage) if version is None and lineage else ("version", str(version))
            raise NotFound(f"the {what} `{name}` does not exist", what=what, name=name or "") from error
        return ManifestVersion(lineage, int(dataset.version), self._mark(lineage, dataset), dataset)

    def _mark(self, lineage: str | None, dataset: Any) -> VersionMark:
        place = table_name(self.name, lineage)
        with translated_errors(place, _hint(place, lineage)):
            transaction = transaction_name(dataset)
        return VersionMark(transaction, self._objects.files.mark_of(place, int(dataset.version), containing=transaction))

    # Branches

    @property
    def _is_legacy(self) -> bool:
        """True if branches are the branches of the dataset: the graph was not opened for writing by this release yet."""
        return self.identity.graph_id is None and not self.records.names()

    def has_branch(self, name: str) -> bool:
        """True if a branch exists. Costs the same with any number of branches."""
        if self.records.exists(name):
            return True
        return self._is_legacy and self._objects.exists(reference_name(self.name, name))

    def place(self, branch: str | None) -> ManifestPlace:
        """The place of a branch. `NotFound` when there is none, `Storage` when its record is damaged."""
        if branch is None:
            return ManifestPlace(None, self.identity.graph_id or "")
        try:
            record = self.records.read(branch)
        except NotFound:
            if self._is_legacy and self._objects.exists(reference_name(self.name, branch)):
                return ManifestPlace(branch, "")
            raise NotFound(f"there is no branch `{branch}`", what="branch", name=branch) from None
        return ManifestPlace(record.lineage, record.incarnation)

    def branch_names(self) -> list[str]:
        """The branches besides main, damaged ones included."""
        self.calls["branches"] += 1
        return branch_names(self._objects, self.name) if self._is_legacy else self.records.names()

    def children(self, branch: str) -> list[str]:
        """The branches that were created from a branch."""
        children, damaged = [], []
        for name in self.branch_names():
            try:
                base = self.records.read(name).base
            except NotFound:
                continue
            except OmnigraphError:
                damaged.append(name)
                continue
            if base == branch:
                children.append(name)
        if damaged:
            # The reference of the lineage names the parent of a branch whose record is damaged.
            for lineage, reference in read_references(self._objects, self.name).items():
                parent = None if reference is None else reference.parent_branch
                if branch_of_lineage(lineage) in damaged and parent is not None and branch_of_lineage(parent) == branch:
                    children.append(branch_of_lineage(lineage))
        return sorted(set(children))

    def created_at(self) -> dict[str, int]:
        """Names of branches with the second in which each was created."""
        self.calls["branches"] += 1
        return {record.name: int(record.created_at) for record in self._records()}

    def _records(self) -> Iterator[BranchRecord]:
        for name in self.records.names():
            with suppress(NotFound):  # deleted since it was listed
                yield self.records.read(name)

    def create_branch(self, record: BranchRecord, from_lineage: str | None) -> bool:
        """Create a branch at a version of a lineage; return False if the name is taken."""
        self.calls["create_branch"] += 1
        self._flush(record.lineage, self._create_lineage(record, from_lineage))
        self._objects.files.flush_objects([reference_name(self.name, record.lineage)], self.calls)
        failpoints.hit("branch_create.before_record")
        if self.records.create(record):
            return True
        self.delete_lineage(record.lineage)
        return False

    def _create_lineage(self, record: BranchRecord, from_lineage: str | None) -> Any:
        source: Any = record.manifest_version if from_lineage is None else (from_lineage, record.manifest_version)
        dataset = self.newest(None)._dataset
        try:
            return dataset.create_branch(record.lineage, source)
        except LANCE_ERRORS as error:
            # The name is unique: if the lineage exists, the answer to its creation was lost.
            if read_references(self._objects, self.name).get(record.lineage) is None:
                raise storage_error(error, self.name, _MANIFEST_HINT) from error
        return self.newest(record.lineage)._dataset

    def record(self, branch: str) -> BranchRecord | None:
        """The record of a branch; None when it is damaged, `NotFound` when there is none."""
        try:
            return self.records.read(branch)
        except Storage as error:
            if error.storage_class != "permanent":
                raise
            return None

    def delete_branch(self, name: str, record: BranchRecord | None) -> None:
        """Delete the branch of a record, or any branch of its name without one. Its lineage stays."""
        self.calls["delete_branch"] += 1
        self.records.delete(name, record)

    def delete_lineage(self, lineage: str) -> bool:
        """Remove a lineage and its files, if it exists; return False, and keep it, if others were forked from it."""
        references = read_references(self._objects, self.name)
        unreadable = any(entry is None for name, entry in references.items() if name != lineage)
        if unreadable or dependants_of(references, lineage):
            return False
        delete_branch(self._objects, self.name, lineage)
        return True

    def unused_lineages(self) -> dict[str, float]:
        """The lineages that are no branch, each with the time of its creation, or of its last change without a reference."""
        references = read_references(self._objects, self.name)
        used = {record.lineage for record in self._records()}
        times: dict[str, float] = {}
        for entry in self._objects.walk(f"{self.name}/tree"):
            lineage = branch_of_file(entry.name.removeprefix(f"{self.name}/tree/"), references.keys() | used)
            if lineage is not None:
                times[lineage] = max(times.get(lineage, 0.0), entry.modified)
        times |= {name: reference.created_at for name, reference in references.items() if reference is not None}
        return {name: time for name, time in sorted(times.items()) if name not in used and references.get(name, True)}

    # Graphs of early releases

    def legacy_branches(self, below: int) -> list[str]:
        """Branches of the dataset that an early release made: those without a record whose format is below this one.

        The name classifies those that cannot be read: early releases made branches, this one makes lineages of branches.
        """
        recorded = self.records.names()
        names = [name for name in branch_names(self._objects, self.name) if name not in recorded]
        return [name for name in names if self._is_below(name, below)]

    def _is_below(self, lineage: str, stamp: int) -> bool:
        try:
            return self.newest(lineage).stamp < stamp
        except (NotFound, Storage) as error:
            if not is_damage(error):
                raise
            return not is_lineage(lineage)

    def record_legacy_branch(self, name: str) -> None:
        """Write the missing record of a branch of an early release."""
        references = read_references(self._objects, self.name)
        if name not in references:
            return  # deleted since it was listed
        # One whose reference is damaged stays a branch of the greatest age, so that cleanup removes none of its files.
        reference = references[name] or Reference(None, 0, 0.0)
        base = reference.parent_branch or "main"
        self.records.create(
            BranchRecord(
                name=name,
                lineage=name,
                base=base,
                manifest_version=reference.parent_version,
                created_at=reference.created_at,
            )
        )


def new_branch_record(
    name: str,
    base: str,
    manifest_version: int,
    created_at: float,
    graph_commit_id: str,
    actor: str | None,
    reads: Iterable[str] = (),
) -> BranchRecord:
    """Return the record for a new branch."""
    return BranchRecord(
        name=name,
        lineage=new_lineage(name),
        base=base,
        manifest_version=manifest_version,
        created_at=created_at,
        graph_commit_id=graph_commit_id,
        actor=actor,
        reads=tuple(sorted(reads)),
    )


def _hint(place: str, lineage: str | None) -> str:
    """Return the hint for lost files of the manifest."""
    if lineage is None:
        return _MANIFEST_HINT
    return f"restore the directory {place} from a copy of the graph, or delete the branch `{branch_of_lineage(lineage)}`"


def _keys(schema: pa.Schema) -> list[str]:
    """Return the columns that are annotated as the key."""
    return [field.name for field in schema if field.metadata and next(iter(PRIMARY_KEY)) in field.metadata]
