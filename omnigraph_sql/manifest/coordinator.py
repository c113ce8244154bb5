"""Reading the manifest: fresh and past snapshots, branches, and the format stamp."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql import failpoints
from omnigraph_sql.errors import BadRequest, Conflict, NotFound, UnsupportedFormat
from omnigraph_sql.manifest.journal import CommitGraph
from omnigraph_sql.manifest.snapshot import Snapshot, advance, reconstruct
from omnigraph_sql.storage.catalogue import ManifestTable, ManifestVersion

MAIN = "main"
LOCK_BRANCH = "__schema_apply_lock__"
CURRENT_STAMP = 3
ANNOTATED_STAMP = 2
"""From this format on the key of the manifest is annotated, so that two writers landing one row are noticed."""
_SNAPSHOTS = 64


def lineage(branch: str) -> str | None:
    """The branch of the manifest dataset behind a graph branch; main is its own lineage."""
    return None if branch == MAIN else branch


class ManifestCoordinator:
    """Snapshots by branch, version and commit, kept by manifest version."""

    def __init__(self, table: ManifestTable, journal: CommitGraph) -> None:
        self.table = table
        self.journal = journal
        self._snapshots: OrderedDict[tuple[str, int, str], Snapshot] = OrderedDict()
        self._newest: dict[str, Snapshot] = {}
        """What branches showed when they were last asked for."""
        self._lock = threading.Lock()

    # Snapshots

    def fresh(self, branch: str) -> Snapshot:
        """The snapshot a branch shows now: one probe of the manifest, and a read of what changed only if it moved."""
        incarnation = self.incarnation(branch)
        known = self._newest.get(branch)
        if (
            known is not None
            and known.incarnation == incarnation
            and self.table.is_newest(lineage(branch), known.manifest_version)
        ):
            return known
        try:
            opened = self.table.newest(lineage(branch))
        except NotFound:
            raise self._no_branch(branch) from None
        found = self._kept(branch, opened.version, incarnation) or self._load(branch, opened, incarnation)
        self._newest[branch] = found
        return found

    def at_version(self, branch: str, version: int) -> Snapshot:
        incarnation = self.incarnation(branch)
        found = self._kept(branch, version, incarnation)
        if found is not None:
            return found
        try:
            opened = self.table.at(lineage(branch), version)
        except NotFound:
            text = f"branch `{branch}` has no version {version}"
            raise NotFound(text, what="version", name=str(version), hint="list the commits of the branch") from None
        return self._load(branch, opened, incarnation)

    def landed(self, base: Snapshot, version: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep what a publish made of the snapshot it started from, so that nobody has to read it back."""
        if version == base.manifest_version + 1:  # otherwise something else landed in between
            self._keep(advance(base, version, rows, stamp=base.stamp))

    def incarnation(self, branch: str) -> str:
        """A short text that tells a branch from an earlier or later one of its name."""
        try:
            text = self.table.incarnation(lineage(branch))
        except NotFound:
            raise self._no_branch(branch) from None
        return _short(text)

    def _no_branch(self, branch: str) -> NotFound:
        if branch != MAIN and self.table.has_branch(branch):
            text = f"the branch `{branch}` has lost its files"
            hint = "restore __manifest from a copy of the graph, or delete the branch's file in __manifest/_refs/branches"
            return NotFound(text, what="branch", name=branch, hint=hint)
        known = self.branches()
        hint = did_you_mean(branch, known) or f"there are {', '.join(known)}"
        return NotFound(f"there is no branch `{branch}`", what="branch", name=branch, hint=hint)

    def _load(self, branch: str, opened: ManifestVersion, incarnation: str) -> Snapshot:
        _known_stamp(opened.stamp)
        base = self._before(branch, opened.version, incarnation)
        if base is None:
            rows = self.table.read(opened)
            return self._keep(reconstruct(branch, opened.version, rows, stamp=opened.stamp, incarnation=incarnation))
        rows = self.table.read(opened, since=base.manifest_version)
        return self._keep(advance(base, opened.version, rows, stamp=opened.stamp))

    def _kept(self, branch: str, version: int, incarnation: str) -> Snapshot | None:
        key = (branch, version, incarnation)
        with self._lock:
            found = self._snapshots.get(key)
            if found is not None:
                self._snapshots.move_to_end(key)
            return found

    def _before(self, branch: str, version: int, incarnation: str) -> Snapshot | None:
        """The latest kept snapshot of a branch below a version."""
        with self._lock:
            earlier = [
                found
                for found in self._snapshots.values()
                if (found.branch, found.incarnation) == (branch, incarnation) and found.manifest_version < version
            ]
        return max(earlier, key=lambda found: found.manifest_version, default=None)

    def _keep(self, snapshot: Snapshot) -> Snapshot:
        with self._lock:
            self._snapshots[snapshot.branch, snapshot.manifest_version, snapshot.incarnation] = snapshot
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return snapshot

    def at_commit(self, commit_id: str) -> Snapshot:
        commit = self.journal.find(commit_id)
        if commit is None:
            raise NotFound(f"there is no commit `{commit_id}`", what="commit", name=commit_id)
        found = self.at_version(commit.manifest_branch or MAIN, commit.manifest_version)
        if found.head is not None and found.head.graph_commit_id != commit_id:
            # The manifest was restored from an older copy, and its versions were counted on from there.
            text = f"the commit `{commit_id}` was lost with its version of the manifest"
            raise NotFound(text, what="commit", name=commit_id, hint="list the commits of the branch")
        return found

    def forget(self, branch: str) -> None:
        """Drop what is kept about a branch that was deleted; its name may come back with other content."""
        with self._lock:
            self._newest.pop(branch, None)
            for key in [key for key in self._snapshots if key[0] == branch]:
                del self._snapshots[key]

    # Format

    def check_stamp(self) -> int:
        """The format of the graph; a newer one is refused, never guessed at."""
        return _known_stamp(self.table.newest(None).stamp)

    def migrate_stamp(self) -> None:
        """Bring an older format to the current one: every branch, and main last, so that its stamp speaks for all.

        Each step may be repeated, also after a crash in the middle, and by several processes at once.
        """
        if self.check_stamp() == CURRENT_STAMP:
            return
        self._remove_run_branches()
        for name in self.table.branches():
            with suppress(NotFound):  # deleted meanwhile
                self.migrate_lineage(name)
        self.migrate_lineage(None)

    def migrate_lineage(self, branch: str | None) -> None:
        """Bring one branch of the manifest to the current format; each has a stamp of its own."""
        stamp = _known_stamp(self.table.newest(branch).stamp)
        if stamp < ANNOTATED_STAMP:
            self.table.annotate(branch)
            failpoints.hit("stamp.after_annotation")
            self.table.raise_stamp(branch, ANNOTATED_STAMP)
        if stamp < CURRENT_STAMP:
            self._remove_run_branches()
            failpoints.hit("stamp.after_run_branches")
            self.table.raise_stamp(branch, CURRENT_STAMP)

    def _remove_run_branches(self) -> None:
        """Remove the branches that old releases made for their runs.

        From the current format on the name is an ordinary one; the branch's own stamp tells which it is.
        """
        for name in self.table.branches():
            if not name.startswith("__run__"):
                continue
            with suppress(NotFound):  # somebody else has just removed it
                if self.table.newest(name).stamp < CURRENT_STAMP:
                    self.table.delete_branch(name)

    # Branches

    def branches(self) -> list[str]:
        """Public branch names, sorted; main is among them."""
        return sorted([MAIN, *(name for name in self.table.branches() if name != LOCK_BRANCH)])

    def require(self, branch: str) -> str:
        """The name of a branch that exists and may be read and written."""
        name = public_name(branch)
        if name != MAIN and not self.table.has_branch(name):
            raise self._no_branch(name)
        return name

    def create_branch(self, name: str, base: Snapshot) -> None:
        """Fork the manifest; no table is copied."""
        name = check_branch_name(name, self.branches())
        self.table.create_branch(name, lineage(base.branch), base.manifest_version)
        failpoints.hit("branch_create.after_ref")

    def delete_branch(self, name: str) -> None:
        """Remove the authority over a branch. Its table branches are the caller's business."""
        for other, (parent, _) in self.table.branches().items():
            if parent == name:
                text = f"`{name}` cannot be deleted: `{other}` was created from it"
                raise Conflict(text, reason="descendants", hint=f"delete `{other}` first")
        self.table.delete_branch(name)
        self.forget(name)
        failpoints.hit("branch_delete.after_ref")


@lru_cache(_SNAPSHOTS)
def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def public_name(branch: str) -> str:
    """The name of a branch as it is kept; the reserved one is refused."""
    name = branch.strip()
    if name == LOCK_BRANCH:
        raise BadRequest(f"`{name}` is reserved", hint="choose another branch")
    return name


def check_known(snapshot: Snapshot) -> None:
    """Refuse to write where a newer release has written; what it meant is never guessed at."""
    _known_stamp(snapshot.stamp)
    if snapshot.unknown_types:
        kinds = ", ".join(sorted(snapshot.unknown_types))
        text = f"the manifest holds entries this release does not know ({kinds}): upgrade first"
        raise UnsupportedFormat(text, found=kinds, supported="")


def _known_stamp(stamp: int) -> int:
    if stamp > CURRENT_STAMP:
        text = f"the graph has format {stamp}, this release understands up to {CURRENT_STAMP}: upgrade first"
        raise UnsupportedFormat(text, found=str(stamp), supported=str(CURRENT_STAMP))
    return stamp


def check_branch_name(name: str, existing: list[str]) -> str:
    """A name for a new branch: well-formed, free, and no path prefix of another."""
    name = name.strip()
    segments = name.split("/")
    if name in (MAIN, LOCK_BRANCH):
        raise BadRequest(f"the branch name `{name}` is reserved", hint="choose another name")
    if not all(re.fullmatch(r"[\w.\-]+", segment) for segment in segments) or ".." in name or name.endswith(".lock"):
        text = f"`{name}` is not a branch name"
        hint = "use letters, digits, `.`, `_`, `-` and `/` between segments; not `..`, not ending in `.lock`"
        raise BadRequest(text, hint=hint)
    if name in existing:
        raise Conflict(f"the branch `{name}` exists already", reason="exists", hint="delete it first or choose another name")
    for other in existing:
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise Conflict(f"`{name}` and `{other}` cannot both exist: one is a path prefix of the other", reason="prefix")
    return name
