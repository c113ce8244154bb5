"""Garbage collection: the files that the versions of a table name, and those that can be removed.

File names are unique across branches, so the name decides whether a file is needed: a file that any
remaining version of any branch of the table names stays. Lance can list the files of versions, but not those of blobs, nor
the indexes that a branch has from the one it was forked from; both are added here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.storage.branch_refs import Reference, branch_of_file, damaged, read_references
from omnigraph_sql.storage.datasets import open_dataset
from omnigraph_sql.storage.error_translation import translated_errors
from omnigraph_sql.storage.handles import TableEntry, reclaimed
from omnigraph_sql.storage.integrity import version_name, version_of
from omnigraph_sql.storage.objects import StoredObject
from omnigraph_sql.storage.table_names import fnv1a64_hex, table_name
from omnigraph_sql.storage.tables import TableStorage

NOTES: Final = "_cleanup"
"""The directory of the lists of files that a cleanup is about to remove."""
_SWEPT: Final = ("data", "_deletions", "_indices", "_transactions")
_FORK: Final = re.compile(r".+\.[0-9A-Z]{10}")
"""The names of table branches end in ten characters of the id of the operation that forked them."""
_TREE: Final = "tree/"
_VERSION: Final = re.compile(r"_versions/(?P<name>[0-9]{20}\.manifest)")
_VIEW: Final = re.compile(r"_versions/d(?P<version>[0-9]+)\.manifest")


@dataclass(frozen=True)
class TableFork:
    """A table branch."""

    parent: tuple[str | None, int] | None
    """The version it was forked from; None for files of a branch that has no reference."""
    created_at: float
    """The time of its newest file, for a branch without a reference."""
    size: int
    """The bytes of the files that the branch added."""


@dataclass
class Lineage:
    """The files of a table branch, or of the table itself."""

    versions: dict[int, StoredObject] = field(default_factory=dict)
    views: dict[int, StoredObject] = field(default_factory=dict)
    """Versions that are never a head: previews of staged loads."""
    files: dict[str, StoredObject] = field(default_factory=dict)
    """The files that versions may name, by their names within the branch."""


@dataclass(frozen=True)
class Survey:
    """All files and branches of a table."""

    path: str
    lineages: Mapping[str | None, Lineage]
    pinned: Mapping[str | None, Set[int]]
    """The versions that tags name, or that a branch was forked from."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    """The files and versions that a cleanup removes from a table."""

    path: str
    versions: tuple[tuple[str | None, int], ...]
    manifests: tuple[StoredObject, ...]
    """The manifest files of the versions, oldest first."""
    files: tuple[StoredObject, ...]
    kept: frozenset[str]
    """The data files that stay, by their names within a branch."""
    is_noted: bool
    """True if an earlier cleanup was interrupted."""

    @property
    def is_empty(self) -> bool:
        return not self.manifests and not self.files

    @property
    def size(self) -> int:
        return sum(stored.size for stored in (*self.manifests, *self.files))


class FileNames:
    """Names of files within a branch of a table, those of indexes by the index."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.indexes: set[str] = set()

    def add(self, name: str) -> None:
        if name.startswith("_indices/"):
            self.indexes.add(name.split("/")[1])
        else:
            self.files.add(name)

    def __contains__(self, name: str) -> bool:
        parts = name.split("/")
        if parts[0] == "_indices":
            return parts[1] in self.indexes
        if parts[0] == "data" and len(parts) > 2:
            return f"data/{parts[1]}.lance" in self.files  # blobs are in a directory named after the file of their rows
        return name in self.files


def note_of(path: str) -> str:
    """The name of the object in which a cleanup lists the files of a table that it is about to remove."""
    return f"{NOTES}/{fnv1a64_hex(path)}.json"


def is_fork_name(name: str) -> bool:
    """True if this package made a table branch, by its name."""
    return _FORK.fullmatch(name) is not None


def forks_of(storage: TableStorage, path: str) -> dict[str, TableFork]:
    """The branches of a table by name, those without a reference included."""
    branches = branches_of_table(storage, path)
    sizes: dict[str, int] = {}
    newest: dict[str, float] = {}
    for stored in storage.objects.walk(f"{path}/tree"):
        name, _ = _place(stored.name.removeprefix(f"{path}/"), branches)
        if name is not None:
            sizes[name] = sizes.get(name, 0) + stored.size
            newest[name] = max(newest.get(name, 0.0), stored.modified)
    forks = {name: TableFork(None, newest[name], sizes[name]) for name in sizes if name not in branches}
    for name, entry in branches.items():
        parent = entry.parent_branch, entry.parent_version
        forks[name] = TableFork(parent, entry.created_at, sizes.get(name, 0))
    return forks


def branches_of_table(storage: TableStorage, path: str) -> dict[str, Reference]:
    """The branches of a table. The files that a damaged branch needs are unknown, so it raises and nothing is removed."""
    references = read_references(storage.objects, path)
    unreadable = damaged(path, [name for name, entry in references.items() if entry is None])
    if unreadable is not None:
        raise unreadable
    return {name: entry for name, entry in references.items() if entry is not None}


def named_files(storage: TableStorage, path: str) -> set[str]:
    """The files that versions of a table name, on any branch, by their names within a branch."""
    names: set[str] = set()
    for branch in [None, *branches_of_table(storage, path)]:
        dataset = open_fresh(storage, path, branch, None)
        with translated_errors(path):
            for batch in dataset.tracked_files():
                names.update(batch.column("path").to_pylist())
    return names


def require_versions(storage: TableStorage, entries: Iterable[TableEntry]) -> None:
    """Raise `VersionReclaimed` unless versions are there, and no cleanup has written down that it removes them.

    Whoever has just made a tag or a branch that needs them looks here. A cleanup looks for tags and branches after it has
    written down what goes, and before it removes anything; so one of the two sees the other.
    """
    for entry in entries:
        path, branch, version = entry.path, entry.branch, entry.version
        if (branch, version) in _noted_versions(storage, path):
            raise reclaimed(path, branch, version)
        if not storage.objects.exists(f"{table_name(path, branch)}/{version_name(version)}"):
            raise reclaimed(path, branch, version)


def _noted_versions(storage: TableStorage, path: str) -> set[tuple[str | None, int]]:
    """The versions that a cleanup is about to remove, or was when it was interrupted."""
    try:
        entry = json.loads(storage.objects.read_text(note_of(path)))
        return {(branch, version) for branch, version in entry.get("versions", [])} if entry["path"] == path else set()
    except NotFound:
        return set()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()  # cut short: nothing was removed yet


def survey(storage: TableStorage, path: str) -> Survey:
    """List a table. References are read before files: a branch that appears in between has no reference in the list."""
    branches = branches_of_table(storage, path)
    pinned: dict[str | None, set[int]] = {}
    for entry in branches.values():
        pinned.setdefault(entry.parent_branch, set()).add(entry.parent_version)
    with translated_errors(path):
        tags = storage.open_head(path, None)._dataset.tags.list()
    for tag in tags.values():
        pinned.setdefault(tag.get("branch"), set()).add(int(tag["version"]))
    lineages: dict[str | None, Lineage] = {}
    for stored in storage.objects.walk(path):
        branch, name = _place(stored.name.removeprefix(f"{path}/"), branches)
        if branch is None or branch in branches:
            _sort(lineages.setdefault(branch, Lineage()), name, stored)
    return Survey(path, lineages, pinned)


def _place(name: str, branches: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the branch of a file of a table, and the name within it."""
    branch = branch_of_file(name.removeprefix(_TREE), branches) if name.startswith(_TREE) else None
    return branch, name if branch is None else name.removeprefix(f"{_TREE}{branch}/")


def _sort(lineage: Lineage, name: str, stored: StoredObject) -> None:
    version, view = _VERSION.fullmatch(name), _VIEW.fullmatch(name)
    if version is not None:
        lineage.versions[version_of(version["name"])] = stored
    elif view is not None:
        lineage.views[int(view["version"])] = stored
    elif name.split("/", maxsplit=1)[0] in _SWEPT:
        lineage.files[name] = stored


def made_at(storage: TableStorage, path: str, branch: str | None) -> dict[int, datetime]:
    """The creation times of the versions of a table branch."""
    dataset = storage.open_head(path, branch)._dataset
    with translated_errors(path):
        return {int(version["version"]): version["timestamp"].astimezone() for version in dataset.versions()}


def plan_removal(
    storage: TableStorage,
    survey: Survey,
    going: Mapping[str | None, Set[int]],
    *,
    before: float,
    protected: Set[str],
) -> Removal:
    """The removal of versions: their manifests, and the files that no other version names.

    So does what no version names at all and is older than `before`, unless its name is protected: a younger file may be that
    of a writer who has not come to the commit yet.
    """
    kept, loose, manifests = FileNames(), FileNames(), []
    for branch in survey.lineages:
        _mark(storage, survey, branch, going.get(branch, frozenset()), kept, loose)
    doomed: list[StoredObject] = []
    for branch, lineage in survey.lineages.items():
        manifests += [(version, branch, lineage.versions[version]) for version in going.get(branch, ())]
        for number, view in lineage.views.items():
            if view.modified < before:
                doomed.append(view)
            else:
                _mark_view(storage, survey.path, branch, number, kept)
    noted = _noted(storage, survey.path)
    for lineage in survey.lineages.values():
        for name, stored in lineage.files.items():
            is_left = stored.modified < before and stored.name not in protected
            if name not in kept and (name in loose or stored.name in (noted or ()) or is_left):
                doomed.append(stored)
    manifests.sort(key=lambda stored: (stored[0], stored[1] or ""))
    return Removal(
        path=survey.path,
        versions=tuple((branch, version) for version, branch, _ in manifests),
        manifests=tuple(stored for _, _, stored in manifests),
        files=tuple(doomed),
        kept=frozenset(name.removeprefix("data/") for name in kept.files if name.startswith("data/")),
        is_noted=noted is not None,
    )


def _noted(storage: TableStorage, path: str) -> frozenset[str] | None:
    """The files that an interrupted cleanup was about to remove."""
    try:
        entry = json.loads(storage.objects.read_text(note_of(path)))
        return frozenset(entry["files"]) if entry["path"] == path else None
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()  # truncated: nothing was removed yet


def _mark(
    storage: TableStorage, survey: Survey, branch: str | None, going: Set[int], kept: FileNames, loose: FileNames
) -> None:
    """Note the files that the versions of a branch name: those of versions that are not known to go are kept."""
    if not survey.lineages[branch].versions:
        return
    dataset = open_fresh(storage, survey.path, branch, None)
    with translated_errors(survey.path):
        for batch in dataset.tracked_files():
            versions, names = batch.column("version").to_pylist(), batch.column("path").to_pylist()
            for version, name in zip(versions, names, strict=True):
                (loose if version in going else kept).add(name)
    if branch is None:
        return
    for version in survey.lineages[branch].versions.keys() - going:
        kept.indexes.update(index_uuids(open_fresh(storage, survey.path, branch, version), survey.path))


def _mark_view(storage: TableStorage, path: str, branch: str | None, number: int, kept: FileNames) -> None:
    try:
        dataset = open_fresh(storage, path, branch, number)
    except Storage as error:
        if error.storage_class == "not_found":
            return  # the preview was dropped in between
        raise
    with translated_errors(path):
        for fragment in dataset.get_fragments():
            kept.files.update(f"data/{file.path}" for file in fragment.metadata.files)
            gone = fragment.metadata.deletion_file
            if gone is not None:
                kept.files.add(gone.path(fragment.fragment_id))
        transaction = dataset.read_transaction(number)
        kept.files.add(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    kept.indexes.update(index_uuids(dataset, path))


def index_uuids(dataset: Any, path: str) -> Iterator[str]:
    with translated_errors(path):
        for index in dataset.describe_indices():
            yield from (str(segment.uuid) for segment in index.segments)


def open_fresh(storage: TableStorage, path: str, branch: str | None, version: int | None) -> Any:
    """A dataset without anything that was remembered about it: what is there decides what goes."""
    storage.calls["open"] += 1
    with translated_errors(path):
        return open_dataset(storage.objects, path, branch, version)
