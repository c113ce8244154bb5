"""The commit journal: a convergent record of every publish, for history and time travel.

The head row of a manifest decides; the journal follows it. Every publish first makes sure that the commit before it is
recorded, so a publisher that died between the two leaves no hole.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.storage.identity import Identity
from omnigraph_sql.storage.logs import AppendLog
from omnigraph_sql.storage.objects import ObjectStore

COMMITS = "_graph_commits.lance"
ACTORS = "_graph_commit_actors.lance"

_COMMIT_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("actor_id", pa.string()),
        pa.field("created_at", pa.int64(), nullable=False),
        pa.field("message", pa.string()),
        pa.field("idempotency_key", pa.string()),
        pa.field("origin_commit_id", pa.string()),
    ]
)
_ACTOR_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One published change of the graph."""

    graph_commit_id: str
    """The id, a ULID."""
    manifest_branch: str | None
    """The branch that it was published on; None for `main`."""
    manifest_version: int
    """The version of the manifest that it made."""
    parent_commit_id: str | None
    """The commit before it; None for the first."""
    merged_parent_commit_id: str | None
    """The head of the branch that was merged, if it is a merge."""
    actor_id: str | None
    """Who made the change."""
    created_at: int
    """Microseconds since 1970."""
    message: str | None
    """The note of its author."""
    idempotency_key: str | None
    """The key by which a repetition of the write is recognised."""
    origin_commit_id: str | None = None
    """The commit that this one reverts, restores or picks; of a copy's first commit, that of the original which it shows."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values.

        Example:
            >>> graph.commits()[0].to_dict()["message"]
            'first ports'
        """
        return dict(vars(self))

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of the commits that it stands on.

        Example:
            >>> last, first = graph.commits()
            >>> last.parents == (first.graph_commit_id,)
            True
        """
        return tuple(parent for parent in (self.parent_commit_id, self.merged_parent_commit_id) if parent)


class CommitGraph:
    """All recorded commits of a graph."""

    def __init__(self, objects: ObjectStore, identity: Identity) -> None:
        self._log = AppendLog(objects, identity.log(COMMITS), _COMMIT_SCHEMA)
        self._actors = AppendLog(objects, identity.log(ACTORS), _ACTOR_SCHEMA)
        self._known: dict[str, Commit] = {}
        self._read: dict[str, Commit] = {}
        self._read_rows = 0
        """The first rows of the log, which only grows, are in `_read`."""
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Drop the caches: the files were replaced by others with the same names."""
        with self._lock:
            self._known.clear()
            self._read, self._read_rows = {}, 0
        self._log.reset()
        self._actors.reset()

    @property
    def calls(self) -> dict[str, Counter[str]]:
        """The number of times each dataset of the journal was used, for tests that state what an operation costs."""
        return {"commits": self._log.calls, "actors": self._actors.calls}

    def exists(self) -> bool:
        return self._log.exists()

    def record(self, branch: str | None, manifest_version: int, intent: Intent) -> Commit:
        """Append a commit unless it is recorded already."""
        recorded = self.find(intent.graph_commit_id)
        return recorded if recorded is not None else self.append(branch, manifest_version, intent)

    def append(self, branch: str | None, manifest_version: int, intent: Intent) -> Commit:
        """Append a new commit. After a race it may be stored twice; readers see it once."""
        commit = commit_of(branch, manifest_version, intent)
        # The actor first: a commit that is not recorded yet is recorded by the next writer, with its actor, whereas nobody
        # would look for the actor of one that is.
        if commit.actor_id is not None:
            self._actors.append([_actor_row(commit)])
        self._log.append([commit.to_dict()])
        with self._lock:
            self._known[commit.graph_commit_id] = commit
        return commit

    def complete_actors(self) -> None:
        """Rebuild a missing list of actors from the commits, which have their actors."""
        if self._actors.exists():
            return
        commits = {row["graph_commit_id"]: Commit(**row) for row in self._log.read("actor_id IS NOT NULL")}
        if commits:
            self._actors.append([_actor_row(commit) for commit in commits.values()])

    def begin(self, commits: Sequence[Commit]) -> None:
        """Write the journal of a graph that has none: that of a copy, with the commits of its original."""
        actors = [_actor_row(commit) for commit in commits if commit.actor_id is not None]
        if actors:
            self._actors.append(actors)
        if commits:
            self._log.append([commit.to_dict() for commit in commits])

    def find(self, commit_id: str) -> Commit | None:
        with self._lock:
            recorded = self._known.get(commit_id)
        if recorded is not None:
            return recorded
        row = self._log.find("graph_commit_id", commit_id)
        if row is None:
            return None
        commit = Commit(**row)
        with self._lock:
            self._known[commit_id] = commit
        return commit

    def find_undo(self, operation_id: str) -> Commit | None:
        """The commit that took an operation back."""
        row = self._log.find("message", undo_message(operation_id))
        return None if row is None else Commit(**row)

    def find_key(self, idempotency_key: str, head: str | None) -> Commit | None:
        """The commit of a branch's history that carries an idempotency key."""
        row = self._log.find("idempotency_key", idempotency_key)
        if row is None or head is None:
            return None
        return next((commit for commit in self.history(head) if commit.idempotency_key == idempotency_key), None)

    def commits(self) -> dict[str, Commit]:
        """All recorded commits by their ids. Those that were read before are not read again."""
        with self._lock:
            read, count = self._read, self._read_rows
        rows = self._log.read_after(count)
        if rows is None:  # the log was replaced by a shorter one
            read, count = {}, 0
            rows = self._log.read_after(0) or []
        commits = read | {row["graph_commit_id"]: Commit(**row) for row in rows}
        with self._lock:
            self._read, self._read_rows = commits, count + len(rows)
        return dict(commits)

    def since(self, manifest_version: int) -> dict[str, Commit]:
        """The recorded commits, of all branches, with this manifest version or a later one, by their ids."""
        rows = self._log.read(f"manifest_version >= {manifest_version}")
        return {row["graph_commit_id"]: Commit(**row) for row in rows}

    def history(self, head: str, unrecorded: Commit | None = None) -> list[Commit]:
        """Everything reachable from a commit, newest first; a commit never stands before its children.

        `unrecorded` is the head's own commit, for a reader that must not complete the journal of a writer that died.
        """
        commits = {} if unrecorded is None else {unrecorded.graph_commit_id: unrecorded}
        commits |= self.commits()
        reached = reachable(commits, [head])
        children = dict.fromkeys(reached, 0)
        for commit_id in reached:
            for parent in commits[commit_id].parents:
                if parent in children:
                    children[parent] += 1
        ready = [(_order(commits[commit_id]), commit_id) for commit_id in reached if children[commit_id] == 0]
        heapq.heapify(ready)
        ordered: list[Commit] = []
        while ready:
            _, commit_id = heapq.heappop(ready)
            ordered.append(commits[commit_id])
            for parent in commits[commit_id].parents:
                if parent in children:
                    children[parent] -= 1
                    if children[parent] == 0:
                        heapq.heappush(ready, (_order(commits[parent]), parent))
        return ordered


def undo_message(operation_id: str) -> str:
    """The message of the commit that takes an operation back; by it the commit is found."""
    return f"undo of {operation_id}"


def _actor_row(commit: Commit) -> dict[str, Any]:
    return {"graph_commit_id": commit.graph_commit_id, "actor_id": commit.actor_id, "created_at": commit.created_at}


def commit_of(branch: str | None, manifest_version: int, intent: Intent) -> Commit:
    """The commit that an intent, published at a version of a branch, describes."""
    return Commit(
        graph_commit_id=intent.graph_commit_id,
        manifest_branch=branch,
        manifest_version=manifest_version,
        parent_commit_id=intent.parent_commit_id,
        merged_parent_commit_id=intent.merged_parent_commit_id,
        actor_id=intent.actor_id,
        created_at=intent.created_at,
        message=intent.message,
        idempotency_key=intent.idempotency_key,
        origin_commit_id=intent.origin_commit_id,
    )


def reachable(commits: Mapping[str, Commit], starts: Iterable[str], without: Set[str] = frozenset()) -> set[str]:
    """The commits that some descend from, themselves included, as far as they are not in `without`."""
    reached: set[str] = set()
    waiting = list(starts)
    while waiting:
        commit_id = waiting.pop()
        if commit_id in commits and commit_id not in reached and commit_id not in without:
            reached.add(commit_id)
            waiting.extend(commits[commit_id].parents)
    return reached


def _order(commit: Commit) -> tuple[int, int, Iterable[int]]:
    """Newest first in a min-heap."""
    return (-commit.manifest_version, -commit.created_at, tuple(-ord(char) for char in commit.graph_commit_id))
