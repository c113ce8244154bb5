"""A copy of a whole graph, file by file: all branches with all that is left of their history.

The copy is the same graph at another place, with the same id, as one that was made with `cp` while nobody wrote. It shows
the heads that the branches had when they were looked at. What the manifest of a branch names up to its head is copied, and
nothing above, so what a writer is about to publish is not there. The journal, which all branches share, is written anew up
to these heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from omnigraph_sql.errors import Conflict
from omnigraph_sql.maintenance.copies.destination import CopyDestination
from omnigraph_sql.maintenance.copies.verification import verify_tables
from omnigraph_sql.manifest.coordinator import MAIN, lineage
from omnigraph_sql.manifest.journal import ACTORS, COMMITS, Commit, commit_of, reachable
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.copied_files import CopiedFile, files_of_dataset
from omnigraph_sql.storage.identity import STATE
from omnigraph_sql.storage.transfers import TransferStats
from omnigraph_sql.store.graph_store import AUDIT, GraphStore, assemble_store
from omnigraph_sql.store.lifecycle import IR, SOURCE

_MOST_READS: Final = 20


def copy_everything(store: GraphStore, target: CopyDestination) -> TransferStats:
    """Copy all branches, tables, logs and the schema."""
    heads = _heads(store)
    state = store.objects.read_text(STATE)
    stats = target.write(store.objects, list(_files(store, heads, str(target.objects.root))))
    store.coordinator.require_same_graph()
    for name in (SOURCE, IR):
        target.objects.write_bytes(name, store.objects.read_bytes(name))
    identity = store.coordinator.table.identity
    made = assemble_store(target.objects.root, store.catalog, identity)
    for log in (COMMITS, ACTORS):
        target.objects.delete_prefix(identity.log(log))
    made.coordinator.journal.begin(_journal(store, heads))
    verify_tables(made, [made.coordinator.fresh(head.branch) for head in heads])
    target.complete(state)
    return stats


def _heads(store: GraphStore) -> list[Snapshot]:
    """What the branches show. All are read again if one was created, deleted or replaced meanwhile.

    So a branch that is among them was created before its base was looked at.
    """
    coordinator = store.coordinator
    for _ in range(_MOST_READS):
        heads = [coordinator.fresh(branch) for branch in coordinator.branches()]
        incarnations = {head.branch: head.incarnation for head in heads}
        if {branch: coordinator.incarnation(branch) for branch in coordinator.branches()} == incarnations:
            return heads
    text = "branches are created and deleted too fast to read what they show"
    raise Conflict(text, reason="contention", hint="copy again")


def _files(store: GraphStore, heads: Sequence[Snapshot], place: str) -> Iterator[CopiedFile]:
    storage, table = store.storage, store.coordinator.table
    lineages = _lineages(heads)
    yield from files_of_dataset(storage, table.name, lineages, place)
    for head in heads:
        if head.branch != MAIN:
            yield _record(store, head)
    for path, newest in _published(store, lineages).items():
        yield from files_of_dataset(storage, path, newest, place)
    audit = table.identity.log(AUDIT)
    if storage.table_exists(audit):
        yield from files_of_dataset(storage, audit, {None: storage.open_head(audit, None).version}, place)


def _lineages(heads: Iterable[Snapshot]) -> dict[str | None, int]:
    """The newest versions of the lineages of the manifest: of all branches, and of deleted ones that a tag names."""
    newest: dict[str | None, int] = {head.lineage: head.manifest_version for head in heads}
    of_branches = set(newest)
    tags = [tag for head in heads if head.branch == MAIN for tag in head.tags.values()]
    for tag in tags:
        if tag.lineage not in of_branches:
            newest[tag.lineage] = max(newest.get(tag.lineage, 0), tag.manifest_version)
    return newest


def _journal(store: GraphStore, heads: Sequence[Snapshot]) -> list[Commit]:
    """The commits of the journal, without those that were published on top of the heads since these were looked at."""
    commits = store.coordinator.journal.commits()
    newest: dict[str | None, int] = {}
    for head in heads:
        branch = lineage(head.branch)
        newest[branch] = head.manifest_version
        if head.head is not None:  # its writer may have yet to record it
            commits.setdefault(head.commit_id, commit_of(branch, head.head_version, head.head))
    kept = reachable(commits, [head.commit_id for head in heads])

    def is_later(commit: Commit) -> bool:
        return commit.manifest_version > newest.get(commit.manifest_branch, commit.manifest_version)

    return [commit for commit_id, commit in commits.items() if commit_id in kept or not is_later(commit)]


def _record(store: GraphStore, head: Snapshot) -> CopiedFile:
    records = store.coordinator.table.records
    name, text = records.object_name(head.branch), records.read(head.branch).text.encode()
    return CopiedFile(name=name, source=name, size=len(text), is_unique=False, content=text)


def _published(store: GraphStore, lineages: Mapping[str | None, int]) -> dict[str, dict[str | None, int]]:
    """The newest version of each table branch that the lineages ever showed, by the path of the table."""
    newest: dict[str, dict[str | None, int]] = {}
    table = store.coordinator.table
    for lineage_name, version in lineages.items():
        rows = table.read(table.at(lineage_name, version))
        paths = {row["table_key"]: row["location"] for row in rows if row["object_type"] == "table"}
        for row in rows:
            if row["object_type"] == "table_version":
                branches = newest.setdefault(paths[row["table_key"]], {})
                branch = row["table_branch"]
                branches[branch] = max(branches.get(branch, 0), row["table_version"])
    return newest
