"""Which files a copy of a dataset consists of: of all its versions up to some, or of a single one.

Only files that a version names are copied; what a running writer has staged, or a dead one left behind, stays where it is.
A cleanup removes versions before the files that they name. So files that are missing while their version is there are lost;
a version that has gone since it was listed is the work of a cleanup, and its files may be listed in part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from omnigraph_sql.errors import Storage
from omnigraph_sql.storage.branch_refs import reference_name
from omnigraph_sql.storage.error_translation import RESTORE, translated_errors
from omnigraph_sql.storage.garbage import FileNames, Lineage, branches_of_table, index_uuids, open_fresh, survey
from omnigraph_sql.storage.handles import reclaimed
from omnigraph_sql.storage.integrity import version_name
from omnigraph_sql.storage.objects import StoredObject
from omnigraph_sql.storage.relocation import flattened_file, relocated_file, transaction_name
from omnigraph_sql.storage.tables import TableStorage

_MANIFEST: Final = "_versions/"


@dataclass(frozen=True, kw_only=True)
class CopiedFile:
    """A file of a copy."""

    name: str
    """Its name below the root of the copy."""
    source: str
    """Its name below the root of the original."""
    size: int
    """The bytes of the original."""
    is_unique: bool = True
    """True if nothing else ever has its name: one of the same size is the same file."""
    content: bytes | None = field(default=None, repr=False)
    """The bytes, if they are known."""
    rewrite: Callable[[bytes], bytes] | None = field(default=None, repr=False)
    """Makes the bytes of the copy of those of the original, where they differ. ValueError for a file that is damaged."""


def files_of_dataset(storage: TableStorage, path: str, newest: Mapping[str | None, int], place: str) -> list[CopiedFile]:
    """The files of the versions of a dataset up to some, by branch. `VersionReclaimed` if one has just been removed.

    The versions that these branches were forked at are copied as well, with all before them. The copy is meant for the root
    `place`: its versions name files there.
    """
    rewrite = partial(relocated_file, root=place, name=path)
    table = survey(storage, path)
    limits = _with_parents(storage, path, newest)
    names = FileNames()
    manifests = []
    for branch, limit in limits.items():
        lineage = table.lineages.get(branch, Lineage())
        tracked = _add_named_files(storage, path, branch, limit, names)
        for version, stored in sorted(lineage.versions.items()):
            if version > limit:
                continue
            if version not in tracked:
                raise reclaimed(path, branch, version)
            if branch is not None:
                names.indexes.update(index_uuids(open_fresh(storage, path, branch, version), path))
            manifests.append(
                CopiedFile(name=stored.name, source=stored.name, size=stored.size, is_unique=False, rewrite=rewrite)
            )
        if limit not in lineage.versions:
            raise reclaimed(path, branch, limit)
    lineages = [table.lineages[branch] for branch in limits]
    _require_all(path, lineages, names)
    files = [stored for lineage in lineages for name, stored in sorted(lineage.files.items()) if name in names]
    references = [_reference(storage, path, branch) for branch in limits if branch is not None]
    return [*(_unchanged(stored, stored.name) for stored in files), *references, *manifests]


def files_of_version(storage: TableStorage, path: str, branch: str | None, version: int, place: str) -> list[CopiedFile]:
    """The files of one version of a table, as a table without branches below the root `place`."""
    table = survey(storage, path)
    manifest = table.lineages.get(branch, Lineage()).versions.get(version)
    if manifest is None:
        raise reclaimed(path, branch, version)
    dataset = open_fresh(storage, path, branch, version)
    names = FileNames()
    names.files.update(_named_files(dataset, path))
    names.indexes.update(index_uuids(dataset, path))
    lineages = list(table.lineages.values())
    _require_all(path, lineages, names)
    files = {name: stored for lineage in lineages for name, stored in lineage.files.items() if name in names}
    copied = [_unchanged(stored, f"{path}/{name}") for name, stored in sorted(files.items())]
    rewrite = partial(flattened_file, root=place, name=path)
    name = f"{path}/{version_name(version)}"
    return [*copied, CopiedFile(name=name, source=manifest.name, size=manifest.size, is_unique=False, rewrite=rewrite)]


def _with_parents(storage: TableStorage, path: str, newest: Mapping[str | None, int]) -> dict[str | None, int]:
    """The newest versions to copy, with those that the branches were forked at."""
    references = branches_of_table(storage, path)
    limits = dict(newest)
    waiting = list(newest)
    while waiting:
        branch = waiting.pop()
        if branch is None:
            continue
        if branch not in references:
            raise _lost(path, f"the reference of the branch `{branch}`")
        origin = references[branch]
        if origin.parent_branch not in limits:
            waiting.append(origin.parent_branch)
        limits[origin.parent_branch] = max(origin.parent_version, limits.get(origin.parent_branch, 0))
    return limits


def _add_named_files(storage: TableStorage, path: str, branch: str | None, limit: int, names: FileNames) -> set[int]:
    """Add the files that the versions of a branch name, and return the versions."""
    dataset = open_fresh(storage, path, branch, None)
    tracked: set[int] = set()
    with translated_errors(path):
        for batch in dataset.tracked_files():
            versions, paths = batch.column("version").to_pylist(), batch.column("path").to_pylist()
            for version, name in zip(versions, paths, strict=True):
                if version <= limit:
                    tracked.add(int(version))
                    if not name.startswith(_MANIFEST):
                        names.add(name)
    return tracked


def _named_files(dataset: Any, path: str) -> Iterator[str]:
    """The data files, lists of deleted rows and transaction that a version names."""
    with translated_errors(path):
        for fragment in dataset.get_fragments():
            yield from (f"data/{file.path}" for file in fragment.metadata.files)
            gone = fragment.metadata.deletion_file
            if gone is not None:
                yield str(gone.path(fragment.fragment_id))
        transaction = transaction_name(dataset)
    if transaction:
        yield f"_transactions/{transaction}"


def _unchanged(stored: StoredObject, name: str) -> CopiedFile:
    return CopiedFile(name=name, source=stored.name, size=stored.size)


def _require_all(path: str, lineages: Iterable[Lineage], names: FileNames) -> None:
    """Raise unless all named files are there."""
    stored = {name for lineage in lineages for name in lineage.files}
    missing = min(names.files - stored, default=None)
    if missing is not None:
        raise _lost(path, missing)
    indexes = {name.split("/")[1] for name in stored if name.startswith("_indices/")}
    lost = min(names.indexes - indexes, default=None)
    if lost is not None:
        raise _lost(path, f"_indices/{lost}")


def _lost(path: str, name: str) -> Storage:
    text = f"{path} lacks {name}, which one of its versions names"
    return Storage(text, storage_class="not_found", hint=f"the graph is damaged: {RESTORE}")


def _reference(storage: TableStorage, path: str, branch: str) -> CopiedFile:
    name = reference_name(path, branch)
    content = storage.objects.read_bytes(name)
    return CopiedFile(name=name, source=name, size=len(content), is_unique=False, content=content)
