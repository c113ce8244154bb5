"""Reading the manifest: fresh and past snapshots, branches, and the format stamp."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql import failpoints
from omnigraph_sql.caches import LruCache
from omnigraph_sql.errors import BadRequest, Conflict, NotFound, Storage, UnsupportedFormat, VersionReclaimed
from omnigraph_sql.manifest.journal import Commit, CommitGraph, commit_of
from omnigraph_sql.manifest.refs import check_branch, check_commit, check_new_branch, check_version, is_commit_id
from omnigraph_sql.manifest.snapshot import Snapshot, advance, reconstruct
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.manifest.timelines import TableTimeline
from omnigraph_sql.storage.branch_records import BranchRecord
from omnigraph_sql.storage.identity import derived_identity
from omnigraph_sql.storage.manifest_table import ManifestPlace, ManifestTable, ManifestVersion, Merged, new_branch_record

MAIN = "main"
LOCK_BRANCH = "__schema_apply_lock__"
CURRENT_STAMP = 4
ANNOTATED_STAMP = 2
"""From this format on the key of the manifest is annotated, so that two writers landing one row are noticed."""
RUNS_GONE_STAMP = 3
"""From this format on a branch named as old releases named those of their runs is an ordinary branch."""
_SNAPSHOTS = 64


def lineage(branch: str) -> str | None:
    """The name of a graph branch in commits; None for main."""
    return None if branch == MAIN else branch


class ManifestCoordinator:
    """Snapshots by branch, version and commit, kept by manifest version."""

    def __init__(self, table: ManifestTable, journal: CommitGraph) -> None:
        self.table = table
        self.journal = journal
        self.on_reset: list[Callable[[], None]] = []
        """Callbacks that clear other caches when the files of the graph were replaced."""
        self._snapshots: LruCache[tuple[str, int, str, str], Snapshot] = LruCache(_SNAPSHOTS)
        self._newest: dict[str, Snapshot] = {}
        """The last snapshot of each branch."""

    # Snapshots

    def fresh(self, branch: str) -> Snapshot:
        """The snapshot a branch shows now: one probe of the manifest, and a read of what changed only if it moved."""
        place = self._place(branch)
        newest = self._newest.get(branch)
        if newest is not None and newest.incarnation == place.incarnation:
            if self.table.is_newest(place.lineage, newest.manifest_version, newest.mark):
                return newest
        else:
            newest = None
        try:
            opened = self._open(branch, place, None)
            if newest is not None and _is_rewritten(newest, opened):
                self._reset()
            snapshot = self._kept(branch, opened, place) or self._load(branch, opened, place)
        except (NotFound, Storage):
            if self._place(branch).incarnation == place.incarnation:
                raise
            return self.fresh(branch)  # deleted while it was read, with its files, and made again
        self._newest[branch] = snapshot
        return snapshot

    def at_version(self, branch: str, version: int) -> Snapshot:
        return self._at(branch, check_version(version), self._place(branch))

    def _at(self, branch: str, version: int, place: ManifestPlace) -> Snapshot:
        for snapshot in self._kept_versions(branch, version, place):
            if self.table.is_unchanged(place.lineage, version, snapshot.mark):
                return replace(snapshot, is_past=True)
        opened = self._open(branch, place, version)
        return replace(self._kept(branch, opened, place) or self._load(branch, opened, place), is_past=True)

    def landed(self, base: Snapshot, merged: Merged, rows: Iterable[Mapping[str, Any]]) -> None:
        """Cache the snapshot that a publish made of the one it started from, so that no reader loads it."""
        if merged.version == base.manifest_version + 1:  # otherwise something else landed in between
            self._keep(advance(base, merged.version, rows, stamp=base.stamp, mark=merged.mark))

    def incarnation(self, branch: str) -> str:
        """A short text that distinguishes a branch from an earlier or later one of its name."""
        return self._place(branch).incarnation

    def confirm(self, snapshot: Snapshot) -> None:
        """Raise unless the lineage of a snapshot is still that of its branch, in the same graph.

        Looked at after a publish, it proves that the publish landed where readers look: a lineage that is no branch any
        more never becomes one again.
        """
        if snapshot.branch == MAIN:
            self.require_same_graph()
        elif self.incarnation(snapshot.branch) != snapshot.incarnation:
            raise branch_replaced(snapshot.branch)

    def _place(self, branch: str) -> ManifestPlace:
        try:
            return self.table.place(lineage(check_branch(branch)))
        except NotFound:
            raise self._no_branch(branch) from None

    def _open(self, branch: str, place: ManifestPlace, version: int | None) -> ManifestVersion:
        try:
            return self.table.newest(place.lineage) if version is None else self.table.at(place.lineage, version)
        except (NotFound, Storage) as error:
            self.require_same_graph()
            if isinstance(error, Storage):
                raise
            if version is None:
                raise self._lost(branch) from None
            text = f"branch `{branch}` has no version {version}"
            raise NotFound(text, what="version", name=str(version), hint="list the commits of the branch") from None

    def _lost(self, branch: str) -> NotFound:
        record = self.table.records.object_name(branch)
        text = f"the branch `{branch}` has lost its files"
        hint = (
            f"restore {self.table.name} from a copy of the graph ({record} says where the branch is), or delete the branch"
        )
        return NotFound(text, what="branch", name=branch, hint=hint)

    def _no_branch(self, branch: str) -> NotFound:
        branches = self.branches()
        if branch != MAIN and branch in self.tags():
            hint = f"`{branch}` is a tag: write `@{branch}` where a state is read, or make a branch from it"
        else:
            hint = did_you_mean(branch, branches) or f"there are {', '.join(branches)}"
        return NotFound(f"there is no branch `{branch}`", what="branch", name=branch, hint=hint)

    def _load(self, branch: str, opened: ManifestVersion, place: ManifestPlace) -> Snapshot:
        _known_stamp(opened.stamp)
        base = self._before(branch, opened.version, place)
        if base is not None:
            rows = self.table.read(opened, since=base.manifest_version)
            snapshot = advance(base, opened.version, rows, stamp=opened.stamp, mark=opened.mark)
            if self._continues(base, snapshot):
                return self._keep(snapshot)
            self._reset()
        rows = self.table.read(opened)
        return self._keep(reconstruct(branch, opened.version, rows, stamp=opened.stamp, place=place, mark=opened.mark))

    def _continues(self, base: Snapshot, snapshot: Snapshot) -> bool:
        """True if a version came of one that was read before; since then the files may have been replaced by a copy's."""
        if base.head is not None and snapshot.head is not None:
            before = base.head.graph_commit_id
            if before in (snapshot.head.graph_commit_id, snapshot.head.parent_commit_id):
                return True
        if self.table.is_unchanged(base.lineage, base.manifest_version, base.mark):
            return True
        try:
            return self.table.at(base.lineage, base.manifest_version).mark.transaction == base.mark.transaction
        except (NotFound, Storage):
            return False

    def require_same_graph(self) -> None:
        """Raise if another graph, or none, is where this one was."""
        if self.table.is_replaced():
            self._forget_everything()
            text = "the graph was removed or replaced by another one since it was opened"
            raise NotFound(text, what="graph", name=str(self.table.root), hint="open it again")

    def _reset(self) -> None:
        """Handle replaced files: those of a copy of the graph, or of another graph."""
        self.require_same_graph()
        self._forget_everything()

    def _forget_everything(self) -> None:
        self._snapshots.clear()
        self._newest.clear()
        for forget in (self.table.reset, *self.on_reset):
            forget()

    def _kept(self, branch: str, opened: ManifestVersion, place: ManifestPlace) -> Snapshot | None:
        return self._snapshots.peek((branch, opened.version, place.incarnation, opened.mark.transaction))

    def _kept_versions(self, branch: str, version: int, place: ManifestPlace) -> list[Snapshot]:
        return [snapshot for key, snapshot in self._snapshots.items() if key[:3] == (branch, version, place.incarnation)]

    def _before(self, branch: str, version: int, place: ManifestPlace) -> Snapshot | None:
        """The latest kept snapshot of a branch below a version."""
        earlier = [
            snapshot
            for _, snapshot in self._snapshots.items()
            if (snapshot.branch, snapshot.incarnation) == (branch, place.incarnation) and snapshot.manifest_version < version
        ]
        return max(earlier, key=lambda snapshot: snapshot.manifest_version, default=None)

    def _keep(self, snapshot: Snapshot) -> Snapshot:
        key = (snapshot.branch, snapshot.manifest_version, snapshot.incarnation, snapshot.mark.transaction)
        return self._snapshots.put(key, snapshot)

    def find_commit(self, commit_id: str) -> Commit | None:
        """A commit by its id. A head is one as soon as it is visible, also while its writer has yet to record it."""
        recorded = self.journal.find(check_commit(commit_id))
        if recorded is not None:
            return recorded
        for _, snapshot in self._snapshots.items():
            if snapshot.head is not None and snapshot.head.graph_commit_id == commit_id:
                return commit_of(lineage(snapshot.branch), snapshot.head_version, snapshot.head)
        return None

    def commit(self, commit_id: str) -> Commit:
        """A commit that exists."""
        commit = self.find_commit(commit_id)
        if commit is None:
            tag = self.tags().get(commit_id)
            hint = "list the commits of the branch" if tag is None else f"it is a tag of the commit `{tag.graph_commit_id}`"
            raise NotFound(f"there is no commit `{commit_id}`", what="commit", name=commit_id, hint=hint)
        return commit

    def at_commit(self, commit_id: str) -> Snapshot:
        return self.at_recorded(self.commit(commit_id))

    def at_recorded(self, commit: Commit) -> Snapshot:
        """The snapshot that a commit made, without looking the commit up."""
        commit_id = commit.graph_commit_id
        snapshot = self.at_version(commit.manifest_branch or MAIN, commit.manifest_version)
        if snapshot.head is not None and snapshot.head.graph_commit_id != commit_id:
            # The manifest was restored from an older copy, and its versions were counted on from there.
            text = f"the commit `{commit_id}` was lost with its version of the manifest"
            raise NotFound(text, what="commit", name=commit_id, hint="list the commits of the branch")
        return snapshot

    def timeline(self, snapshot: Snapshot, table_key: str) -> TableTimeline:
        """The versions of a table that the lineage of a snapshot has shown up to it, from one read of the manifest."""
        place = ManifestPlace(snapshot.lineage, snapshot.incarnation)
        opened = self._open(snapshot.branch, place, snapshot.manifest_version)
        return TableTimeline(table_key, self.table.read(opened, key=table_key))

    def tags(self) -> Mapping[str, Tag]:
        """The tags of the graph by name."""
        return self.fresh(MAIN).tags

    def tag(self, name: str) -> Tag:
        """A tag that exists."""
        tags = self.tags()
        if name not in tags:
            raise NotFound(f"there is no tag `{name}`", what="tag", name=name, hint=_tag_hint(name, tags))
        return tags[name]

    def at_tag(self, tag: Tag) -> Snapshot:
        """The state that a tag names."""
        snapshot = self._at(tag.branch, tag.manifest_version, self._tag_place(tag))
        if snapshot.commit_id != tag.graph_commit_id:
            text = f"the state of the tag `{tag.name}` was lost: its version of the manifest has another commit"
            raise NotFound(text, what="commit", name=tag.graph_commit_id, hint=f"delete the tag `{tag.name}`")
        return snapshot

    def _tag_place(self, tag: Tag) -> ManifestPlace:
        """The lineage of a tag. It is there also if the branch was deleted while the tag was made."""
        try:
            place = self._place(tag.branch)
        except NotFound:
            if tag.lineage is None:
                raise
            return ManifestPlace(tag.lineage, tag.lineage)
        return place if tag.lineage in (None, place.lineage) else ManifestPlace(tag.lineage, tag.lineage or "")

    def at_name(self, name: str) -> Snapshot:
        """The state that a tag names or a commit made. What has the form of the id of a commit is no tag."""
        name = check_commit(name)
        if is_commit_id(name):
            return self.at_commit(name)
        tags = self.tags()
        if name in tags:
            return self.at_tag(tags[name])
        if self.find_commit(name) is not None:
            return self.at_commit(name)
        hint = did_you_mean(name, tags) or "list the commits of the branch, or the tags"
        raise NotFound(f"there is no commit or tag `{name}`", what="commit", name=name, hint=hint)

    def forget(self, branch: str) -> None:
        """Drop the cached snapshots of a deleted branch; its name may come back with other content."""
        self._newest.pop(branch, None)
        self._snapshots.remove(lambda key: key[0] == branch)

    # Format

    def check_stamp(self) -> int:
        """The format of the graph; a newer one is refused, never guessed at."""
        return _known_stamp(self.table.newest(None).stamp)

    def migrate_stamp(self) -> None:
        """Bring an older format to the current one: every branch, and main last, so that its stamp speaks for all.

        Each step may be repeated, also after a crash in the middle, and by several processes at once.
        """
        stamp = self.check_stamp()
        if stamp == CURRENT_STAMP and self.table.identity.graph_id is not None:
            return
        if stamp < RUNS_GONE_STAMP:
            self._remove_run_branches()
            failpoints.hit("stamp.after_run_branches")
        if stamp < CURRENT_STAMP:
            for name in self.table.legacy_branches(CURRENT_STAMP):
                self.table.record_legacy_branch(name)
            failpoints.hit("stamp.after_records")
        self._adopt_identity()
        failpoints.hit("stamp.after_identity")
        for name in self.table.branch_names():
            try:
                place = self.table.place(name)
                self.table.newest(place.lineage)
            except (NotFound, Storage):
                continue  # deleted meanwhile, or damaged: its next publish migrates it
            self.migrate_lineage(place.lineage)
        self.migrate_lineage(None)

    def _adopt_identity(self) -> None:
        if self.table.identity.graph_id is not None:
            return
        # The first version of each table is never removed from the manifest, so everybody derives the same id.
        first: dict[str, tuple[int, str]] = {}
        for row in self.table.read(self.table.newest(None)):
            if row["object_type"] == "table_version":
                version = (row["table_version"], row["metadata"] or "")
                first[row["table_key"]] = min(version, first.get(row["table_key"], version))
        evidence = "\n".join(f"{key} {metadata}" for key, (_, metadata) in sorted(first.items()))
        self.table.adopt(derived_identity(evidence))

    def migrate_lineage(self, name: str | None) -> None:
        """Bring one lineage of the manifest to the current format; each has a stamp of its own."""
        stamp = _known_stamp(self.table.newest(name).stamp)
        if stamp < ANNOTATED_STAMP:
            self.table.annotate(name)
            failpoints.hit("stamp.after_annotation")
            self.table.raise_stamp(name, ANNOTATED_STAMP)
        if stamp < CURRENT_STAMP:
            self.table.raise_stamp(name, CURRENT_STAMP)

    def _remove_run_branches(self) -> None:
        """Remove the branches that old releases made for their runs.

        From a later format on the name is an ordinary one; the branch's own stamp tells which it is.
        """
        for name in self.table.legacy_branches(RUNS_GONE_STAMP):
            if name.startswith("__run__"):
                self.table.delete_lineage(name)

    # Branches

    def branches(self) -> list[str]:
        """Public branch names, sorted; main is among them."""
        names = self.table.branch_names()
        if not names:
            self.require_same_graph()
        return sorted([MAIN, *(name for name in names if name != LOCK_BRANCH)])

    def damaged_branches(self) -> dict[str, str]:
        """The branches that cannot be read, with the reason. Every other branch works."""
        reasons = {}
        for name in self.branches():
            try:
                self.fresh(name)
            except (NotFound, Storage, UnsupportedFormat) as error:
                if isinstance(error, NotFound) and error.what == "graph":
                    raise
                if name in self.branches():  # otherwise it was deleted in between
                    reasons[name] = error.message
        return reasons

    def require(self, branch: str) -> str:
        """The name of a branch that exists and may be read and written."""
        name = public_name(branch)
        if name != MAIN and not self.table.has_branch(name) and name not in self.branches():  # a record may be a directory
            raise self._no_branch(name)
        return name

    def create_branch(
        self,
        name: str,
        base: Snapshot,
        actor: str | None = None,
        confirm: Callable[[], None] = lambda: None,
        *,
        reads: Iterable[str] = (),
    ) -> None:
        """Fork the manifest; no table is copied. `confirm` raises if the state of the base has gone meanwhile.

        `reads` are the tables that a transaction which becomes the branch has read.
        """
        name = check_branch_name(name, self.branches())
        is_main = base.branch == MAIN and not base.is_past
        _check_untagged(name, base.tags if is_main else self.tags())
        record = new_branch_record(name, base.branch, base.manifest_version, time.time(), base.commit_id, actor, reads)
        if not self.table.create_branch(record, base.lineage):
            raise _exists(name)
        failpoints.hit("branch_create.after_ref")
        try:
            self.confirm(base)  # a deletion of the base may have looked for its branches too early
            confirm()
        except (NotFound, Conflict, VersionReclaimed):
            self.table.delete_branch(name, record)
            self.table.delete_lineage(record.lineage)
            raise

    def tags_on(self, branch: str) -> list[str]:
        """The tags that name states of a branch."""
        return [tag.name for tag in self.tags().values() if tag.branch == branch]

    def delete_branch(self, name: str, record: BranchRecord | None) -> None:
        """Delete the record of a branch. The caller removes its files."""
        children = self.table.children(name)
        if children:
            text = f"`{name}` cannot be deleted: `{children[0]}` was created from it"
            raise Conflict(text, reason="descendants", hint=f"delete `{children[0]}` first")
        tagged = self.tags_on(name)
        if tagged:
            text = f"`{name}` cannot be deleted: the tag `{tagged[0]}` names a state of it"
            raise Conflict(text, reason="tagged", hint=f"delete the tag `{tagged[0]}` first")
        failpoints.hit("branch_delete.before_record")
        self.table.delete_branch(name, record)
        self.forget(name)


def branch_replaced(branch: str) -> Conflict:
    """The error for a branch that was deleted and made again."""
    text = f"the branch `{branch}` was deleted and created again since the write was prepared"
    return Conflict(text, reason="branch replaced", hint="read again and repeat the write")


def _is_rewritten(seen: Snapshot, opened: ManifestVersion) -> bool:
    """True if the history of a branch is another one than that of which a snapshot was read before."""
    if opened.version == seen.manifest_version:
        return opened.mark.transaction != seen.mark.transaction
    return opened.version < seen.manifest_version


def _exists(name: str) -> Conflict:
    return Conflict(f"the branch `{name}` exists already", reason="exists", hint="delete it first or choose another name")


def _check_untagged(name: str, tags: Mapping[str, Tag]) -> None:
    """Refuse the name of a tag for a new branch, and that of a branch whose states are tagged."""
    if name in tags:
        text = f"`{name}` is a tag, and a branch of that name could not be told from it"
        raise Conflict(text, reason="name_taken", hint="choose another name, or delete the tag first")
    former = next((tag.name for tag in tags.values() if tag.branch == name), None)
    if former is not None:
        text = f"the tag `{former}` names a state of an earlier branch `{name}`"
        raise Conflict(text, reason="tagged", hint=f"choose another name, or delete the tag `{former}` first")


def _tag_hint(name: str, tags: Mapping[str, Tag]) -> str:
    return did_you_mean(name, tags) or (f"there are {', '.join(tags)}" if tags else "there are no tags")


def public_name(branch: str) -> str:
    """The name of a branch as it is kept; the reserved one is refused."""
    name = check_branch(branch).strip()
    if name == LOCK_BRANCH:
        raise BadRequest(f"`{name}` is reserved", hint="choose another branch")
    return name


def check_known(snapshot: Snapshot) -> None:
    """Refuse to write where a newer release has written; what it meant is never guessed at."""
    _known_stamp(snapshot.stamp)
    if snapshot.unknown_types:
        kinds = ", ".join(sorted(snapshot.unknown_types))
        text = f"the manifest holds entries this release does not know ({kinds}): upgrade first"
        raise UnsupportedFormat(text, actual=kinds, supported="")


def _known_stamp(stamp: int) -> int:
    if stamp > CURRENT_STAMP:
        text = f"the graph has format {stamp}, this release understands up to {CURRENT_STAMP}: upgrade first"
        raise UnsupportedFormat(text, actual=str(stamp), supported=str(CURRENT_STAMP))
    return stamp


def check_branch_name(name: str, existing: list[str]) -> str:
    """A name for a new branch: well-formed, free, and no path prefix of another."""
    name = check_new_branch(name)
    if name in (MAIN, LOCK_BRANCH):
        raise BadRequest(f"the branch name `{name}` is reserved", hint="choose another name")
    if name in existing:
        raise _exists(name)
    for other in existing:
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise Conflict(f"`{name}` and `{other}` cannot both exist: one is a path prefix of the other", reason="prefix")
    return name
