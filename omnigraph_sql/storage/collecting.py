"""Which files of a table its versions name, and which of them can go.

Files have names of their own, on whatever branch they lie, so whether one is needed is decided by its name: a file that any
remaining version of any branch of the table names stays. Lance can list the files of versions, but not those of blobs, nor
the indexes that a branch has from the one it was forked from; both are added here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import lance

from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.storage.faults import guarded
from omnigraph_sql.storage.names import fnv1a64_hex, table_name
from omnigraph_sql.storage.objects import StoredObject
from omnigraph_sql.storage.references import branches_of
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.wholeness import version_of

NOTES: Final = "_cleanup"
"""The directory of what a cleanup is about to remove."""
_SWEPT: Final = ("data", "_deletions", "_indices", "_transactions")
_FORK: Final = r".+?\.[0-9A-Z]{10}"
"""Table branches end in ten characters of the operation that forked them."""
_TREE: Final = re.compile(rf"tree/(?P<branch>{_FORK})/(?P<rest>.+)")
_VERSION: Final = re.compile(r"_versions/(?P<name>[0-9]{20}\.manifest)")
_VIEW: Final = re.compile(r"_versions/d(?P<version>[0-9]+)\.manifest")


@dataclass(frozen=True)
class Fork:
    """A table branch."""

    parent: tuple[str | None, int] | None
    """Where it was forked; None for files of a branch that has no reference."""
    created_at: float
    """Without a reference, when its newest file was written."""
    size: int
    """The bytes of its own files."""


@dataclass
class Lineage:
    """The files of a table branch, or of the table itself."""

    versions: dict[int, StoredObject] = field(default_factory=dict)
    views: dict[int, StoredObject] = field(default_factory=dict)
    """Versions that are nobody's head: a staged load that is being looked at."""
    files: dict[str, StoredObject] = field(default_factory=dict)
    """Files that versions may name, by their name within the branch."""


@dataclass(frozen=True)
class Survey:
    """Everything that there is of a table."""

    path: str
    lineages: Mapping[str | None, Lineage]
    pinned: Mapping[str | None, Set[int]]
    """Versions that tags name, or that a branch was forked at."""


@dataclass(frozen=True)
class Removal:
    """What is to go of a table."""

    path: str
    versions: tuple[tuple[str | None, int], ...]
    manifests: tuple[StoredObject, ...]
    """The files that are the versions, the oldest first."""
    files: tuple[StoredObject, ...]
    kept: frozenset[str]
    """The data files that stay, by their names within a branch."""
    is_noted: bool
    """Whether an earlier cleanup did not come to its end."""

    @property
    def is_empty(self) -> bool:
        return not self.manifests and not self.files

    @property
    def size(self) -> int:
        return sum(each.size for each in (*self.manifests, *self.files))


class _Names:
    """Names of files, those of indexes by the index."""

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
            return f"data/{parts[1]}.lance" in self.files  # blobs lie in a directory named after the file of their rows
        return name in self.files


def note_of(path: str) -> str:
    """Where a cleanup of a table writes down what it is about to remove."""
    return f"{NOTES}/{fnv1a64_hex(path)}.json"


def is_fork_name(name: str) -> bool:
    """Whether a table branch has a name that a write of ours gave it."""
    return re.fullmatch(_FORK, name) is not None


def forks_of(storage: TableStorage, path: str) -> dict[str, Fork]:
    """The branches of a table by name, also those that are only files."""
    known = branches_of_table(storage, path)
    sizes: dict[str, int] = {}
    newest: dict[str, float] = {}
    for each in storage.objects.walk(f"{path}/tree"):
        name, _ = _place(each.name.removeprefix(f"{path}/"), known)
        if name is not None:
            sizes[name] = sizes.get(name, 0) + each.size
            newest[name] = max(newest.get(name, 0.0), each.modified)
    found = {name: Fork(None, newest[name], sizes[name]) for name in sizes if name not in known}
    for name, entry in known.items():
        parent = entry["parent_branch"], int(entry["parent_version"])
        found[name] = Fork(parent, float(entry["create_at"]), sizes.get(name, 0))
    return found


def branches_of_table(storage: TableStorage, path: str) -> dict[str, Any]:
    """What Lance says about the branches of a table."""
    dataset = storage.open_head(path, None)._dataset
    with guarded(path):
        return branches_of(dataset)


def survey(storage: TableStorage, path: str) -> Survey:
    """Look at a table. References are read before files: a branch that appears in between shows as files of no branch."""
    known = branches_of_table(storage, path)
    pinned: dict[str | None, set[int]] = {}
    for entry in known.values():
        pinned.setdefault(entry["parent_branch"], set()).add(int(entry["parent_version"]))
    with guarded(path):
        tags = storage.open_head(path, None)._dataset.tags.list()
    for tag in tags.values():
        pinned.setdefault(tag.get("branch"), set()).add(int(tag["version"]))
    lineages: dict[str | None, Lineage] = {}
    for each in storage.objects.walk(path):
        branch, name = _place(each.name.removeprefix(f"{path}/"), known)
        if branch is None or branch in known:
            _sort(lineages.setdefault(branch, Lineage()), name, each)
    return Survey(path, lineages, pinned)


def _place(name: str, known: Mapping[str, Any]) -> tuple[str | None, str]:
    """The branch that a file of a table lies on, and its name there."""
    found = _TREE.fullmatch(name)
    if found is not None:
        return found["branch"], found["rest"]
    for branch in known:  # one that was not made by a write of ours
        if name.startswith(f"tree/{branch}/"):
            return branch, name.removeprefix(f"tree/{branch}/")
    return None, name


def _sort(lineage: Lineage, name: str, each: StoredObject) -> None:
    version, view = _VERSION.fullmatch(name), _VIEW.fullmatch(name)
    if version is not None:
        lineage.versions[version_of(version["name"])] = each
    elif view is not None:
        lineage.views[int(view["version"])] = each
    elif name.split("/", maxsplit=1)[0] in _SWEPT:
        lineage.files[name] = each


def made_at(storage: TableStorage, path: str, branch: str | None) -> dict[int, datetime]:
    """When the versions of a table branch were made."""
    dataset = storage.open_head(path, branch)._dataset
    with guarded(path):
        return {int(each["version"]): each["timestamp"].astimezone() for each in dataset.versions()}


def plan_removal(
    storage: TableStorage,
    found: Survey,
    going: Mapping[str | None, Set[int]],
    *,
    before: float,
    protected: Set[str],
) -> Removal:
    """What goes with versions that are not to stay: themselves, and the files that no other version names.

    So does what no version names at all and is older than `before`, unless its name is protected: a younger file may be that
    of a writer who has not come to the commit yet.
    """
    kept, loose, manifests = _Names(), _Names(), []
    for branch in found.lineages:
        _mark(storage, found, branch, going.get(branch, frozenset()), kept, loose)
    doomed: list[StoredObject] = []
    for branch, lineage in found.lineages.items():
        manifests += [(version, branch, lineage.versions[version]) for version in going.get(branch, ())]
        for number, view in lineage.views.items():
            if view.modified < before:
                doomed.append(view)
            else:
                _mark_view(storage, found.path, branch, number, kept)
    noted = _noted(storage, found.path)
    for lineage in found.lineages.values():
        for name, each in lineage.files.items():
            is_left = each.modified < before and each.name not in protected
            if name not in kept and (name in loose or each.name in (noted or ()) or is_left):
                doomed.append(each)
    manifests.sort(key=lambda each: (each[0], each[1] or ""))
    return Removal(
        found.path,
        tuple((branch, version) for version, branch, _ in manifests),
        tuple(each for _, _, each in manifests),
        tuple(doomed),
        frozenset(name.removeprefix("data/") for name in kept.files if name.startswith("data/")),
        noted is not None,
    )


def _noted(storage: TableStorage, path: str) -> frozenset[str] | None:
    """What a cleanup that died was about to remove."""
    try:
        entry = json.loads(storage.objects.read_text(note_of(path)))
        return frozenset(entry["files"]) if entry["path"] == path else None
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError):
        return frozenset()  # cut short: nothing was removed yet


def _mark(storage: TableStorage, found: Survey, branch: str | None, going: Set[int], kept: _Names, loose: _Names) -> None:
    """Note the files that the versions of a branch name: those of versions that are not known to go are kept."""
    if not found.lineages[branch].versions:
        return
    dataset = _fresh(storage, found.path, branch, None)
    with guarded(found.path):
        for batch in dataset.tracked_files():
            versions, names = batch.column("version").to_pylist(), batch.column("path").to_pylist()
            for version, name in zip(versions, names, strict=True):
                (loose if version in going else kept).add(name)
    if branch is None:
        return
    for version in found.lineages[branch].versions.keys() - going:
        kept.indexes.update(_indexes(_fresh(storage, found.path, branch, version), found.path))


def _mark_view(storage: TableStorage, path: str, branch: str | None, number: int, kept: _Names) -> None:
    try:
        dataset = _fresh(storage, path, branch, number)
    except Storage as error:
        if error.storage_class == "not_found":
            return  # whoever looked at it has just finished
        raise
    with guarded(path):
        for fragment in dataset.get_fragments():
            kept.files.update(f"data/{file.path}" for file in fragment.metadata.files)
            gone = fragment.metadata.deletion_file
            if gone is not None:
                kept.files.add(gone.path(fragment.fragment_id))
        transaction = dataset.read_transaction(number)
        kept.files.add(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    kept.indexes.update(_indexes(dataset, path))


def _indexes(dataset: Any, path: str) -> Iterator[str]:
    with guarded(path):
        for index in dataset.describe_indices():
            yield from (str(segment.uuid) for segment in index.segments)


def _fresh(storage: TableStorage, path: str, branch: str | None, version: int | None) -> Any:
    """A dataset without anything that was remembered about it: what is there decides what goes."""
    uri = storage.objects.uri(table_name(path, branch))
    storage.calls["open"] += 1
    with guarded(path):
        return lance.dataset(uri, version=version, storage_options=storage.objects.root.storage_options)
