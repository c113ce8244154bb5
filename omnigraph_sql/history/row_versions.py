"""The versions of rows: what each row of a type was, from when to when, and which commit made it so.

Commits are gone through from the oldest one on. A version knows the one before it, so the history of a row at a commit is
its last version there, and a merge that carries a row takes over the last version that it has on the merged side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.history.row_changes import RowChanges
from omnigraph_sql.history.table_history import TableChange, TableHistory
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Entry

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
OPERATIONS: Final = ("insert", "update", "delete", "baseline")
_INSERT, _UPDATE, _DELETE, _BASELINE = range(4)
_NONE: Final = -1


@dataclass(frozen=True, kw_only=True)
class RowVersions:
    """Versions of rows, by id and time. Each refers to the table version that has its values."""

    ids: pa.Array
    commits: tuple[Commit, ...]
    commit: Numbers
    """The number of the commit that made it, in `commits`."""
    operation: npt.NDArray[np.int8]
    """Its number in `OPERATIONS`."""
    is_exact: Mask
    """Whether the commit is known to have made it."""
    valid_from: Numbers
    """Microseconds since 1970."""
    valid_to: Numbers
    is_current: Mask
    """Versions without an end."""
    entries: tuple[Entry, ...]
    entry: Numbers
    """The number of the table version, in `entries`."""
    position: Numbers
    """The position of the row in that version."""

    def __len__(self) -> int:
        return len(self.ids)


def row_versions(history: TableHistory, head: str) -> RowVersions:
    """The versions of all rows that the history of a table is about, up to a commit."""
    return _Ledger(history).closed(head)


class _Ledger:
    """All versions, in columns."""

    def __init__(self, history: TableHistory) -> None:
        self._history = history
        self._order = [commit_id for commit_id in reversed(list(history.commits)) if commit_id in history.visited]
        changes = [history.changed[commit_id] for commit_id in self._order if commit_id in history.changed]
        every = pa.chunked_array([change.rows.ids for change in changes], pa.string()).combine_chunks()
        encoded = every.dictionary_encode()
        self._ids = encoded.dictionary
        self._codes = encoded.indices.to_numpy().astype(np.int64)
        self._commits = tuple(history.commits.values())
        self._numbers = {commit.graph_commit_id: number for number, commit in enumerate(self._commits)}
        self._nothing = np.full(len(self._ids), _NONE, np.int64)
        self._nearest: dict[str, str | None] = {}
        """For each commit the last one up to it that changed the table."""
        for commit_id in self._order:
            parent = history.commits[commit_id].parent_commit_id or ""
            self._nearest[commit_id] = commit_id if commit_id in history.changed else self._nearest.get(parent)
        self._entries: dict[Entry, int] = {}
        most = len(self._codes)
        self._count = 0
        self._previous, self._code, self._commit, self._since, self._entry, self._position = (
            np.empty(most, np.int64) for _ in range(6)
        )
        self._operation, self._exact = np.empty(most, np.int8), np.empty(most, np.bool_)

    # Going through the commits ---------------------------------------------------------------------------------------

    def closed(self, head: str) -> RowVersions:
        """Go through all commits, and return the versions of the rows at the last one."""
        return self._collected(self._last_versions(head))

    def _last_versions(self, head: str) -> Numbers:
        """The last version of each row at a commit; none for rows that it never had."""
        changed = self._history.changed
        needed = Counter(base for commit_id in changed for base in self._bases(changed[commit_id]) if base is not None)
        needed[self._nearest.get(head) or ""] += 1
        last: dict[str, Numbers] = {}
        start = 0
        for commit_id in self._order:
            if commit_id not in changed:
                continue
            change = changed[commit_id]
            codes = self._codes[start : start + len(change.rows)]
            start += len(change.rows)
            bases = self._bases(change)
            base, merged = (self._nothing if one is None else last[one] for one in bases)
            versions = base.copy()
            versions[codes] = self._added(change, codes, base[codes], merged[codes])
            last[commit_id] = versions
            needed.subtract(one for one in bases if one is not None)
            for one in bases:
                if one is not None and not needed[one]:
                    last.pop(one, None)
        return last.get(self._nearest.get(head) or "", self._nothing)

    def _bases(self, change: TableChange) -> tuple[str | None, str | None]:
        """The commits whose rows a commit continues: the last ones that changed the table on either side."""
        if change.is_baseline:
            return None, None
        merged = None if change.unlike_merged is None else change.commit.merged_parent_commit_id
        return self._nearest.get(change.commit.parent_commit_id or ""), self._nearest.get(merged or "")

    # One commit ------------------------------------------------------------------------------------------------------

    def _added(self, change: TableChange, codes: Numbers, own: Numbers, merged: Numbers) -> Numbers:
        """The versions of the rows that a commit changed. `own` are those before it, `merged` those of the merged side."""
        commit = np.full(len(codes), self._numbers[change.commit.graph_commit_id], np.int64)
        since = np.full(len(codes), change.commit.created_at, np.int64)
        exact = np.full(len(codes), not change.is_baseline, np.bool_)
        carried = np.zeros(len(codes), np.bool_)
        if change.unlike_merged is not None:
            alike = ~pc.is_in(change.rows.ids, value_set=change.unlike_merged).to_numpy(zero_copy_only=False)
            carried = alike & (merged != _NONE) & self._is_before(own, merged)
            # Both sides changed the row since they parted, and the merge took that of the other side.
            taken = np.flatnonzero(alike & ~carried & ~self._is_before(merged, own))
            credit = merged[taken]
            is_known = self._exact[credit]
            commit[taken[is_known]] = self._commit[credit[is_known]]
            exact[taken] = is_known
        elif change.commit.merged_parent_commit_id is not None and not change.is_baseline:
            exact[:] = False
            self._credit_lost_side(change.commit, commit, since, own)
        out = merged.copy()
        made = np.flatnonzero(~carried)
        out[made] = self._append(change, codes, own, made, commit, since, exact)
        return out

    def _credit_lost_side(self, merge: Commit, commit: Numbers, since: Numbers, own: Numbers) -> None:
        """Credit the rows of a merge whose merged side cannot be read: to the one commit that it brought, if it is one."""
        commits = self._history.commits
        theirs = _ancestors(commits, merge.merged_parent_commit_id)
        brought = theirs - _ancestors(commits, merge.parent_commit_id)
        if len(brought) != 1:
            return
        (only,) = brought
        commit[:] = self._numbers[only]
        is_theirs = np.array([one.graph_commit_id in theirs for one in self._commits], np.bool_)
        has_own = own != _NONE
        is_older = ~has_own
        is_older[has_own] = is_theirs[self._commit[own[has_own]]]
        since[is_older] = commits[only].created_at

    def _append(
        self,
        change: TableChange,
        codes: Numbers,
        own: Numbers,
        made: Numbers,
        commit: Numbers,
        since: Numbers,
        exact: Mask,
    ) -> Numbers:
        """Add versions that a commit made, and return their numbers."""
        numbers = np.arange(self._count, self._count + len(made))
        self._count += len(made)
        rows = change.rows
        is_deleted = rows.deleted[made]
        self._previous[numbers] = own[made]
        self._code[numbers] = codes[made]
        self._commit[numbers] = commit[made]
        self._since[numbers] = since[made]
        self._exact[numbers] = exact[made]
        self._operation[numbers] = _operations(rows, is_baseline=change.is_baseline)[made]
        self._entry[numbers] = np.where(is_deleted, self._entry_number(change.before), self._entry_number(change.after))
        self._position[numbers] = np.where(is_deleted, rows.old[made], rows.new[made])
        return numbers

    def _entry_number(self, entry: Entry | None) -> int:
        return _NONE if entry is None else self._entries.setdefault(entry, len(self._entries))

    def _is_before(self, versions: Numbers, others: Numbers) -> Mask:
        """Which versions are among those that led to others, or are the same. No version is before any."""
        at = others.copy()
        open_ = np.flatnonzero(at > versions)
        while len(open_):
            at[open_] = self._previous[at[open_]]
            open_ = open_[at[open_] > versions[open_]]
        return np.asarray(at == versions)

    # The result ------------------------------------------------------------------------------------------------------

    def _collected(self, last: Numbers) -> RowVersions:
        """The last versions and all that led to them, by id and age."""
        at = last[last != _NONE]
        until = np.zeros(len(at), np.int64)
        is_current = np.ones(len(at), np.bool_)
        chosen, ends, currents = [], [], []
        while len(at):
            is_deleted = self._operation[at] == _DELETE
            chosen.append(at)
            ends.append(np.where(is_deleted, self._since[at], until))
            currents.append(is_current & ~is_deleted)
            has_previous = self._previous[at] != _NONE
            until = self._since[at][has_previous]
            is_current = np.zeros(len(until), np.bool_)
            at = self._previous[at][has_previous]
        nothing = np.empty(0, np.int64)
        versions = np.concatenate([nothing, *chosen])
        ranks = np.empty(len(self._ids), np.int64)
        ranks[pc.sort_indices(self._ids).to_numpy()] = np.arange(len(self._ids))
        order = np.lexsort((versions, ranks[self._code[versions]]))
        versions = versions[order]
        return RowVersions(
            ids=self._ids.take(pa.array(self._code[versions])),
            commits=self._commits,
            commit=self._commit[versions],
            operation=self._operation[versions],
            is_exact=self._exact[versions],
            valid_from=self._since[versions],
            valid_to=np.concatenate([nothing, *ends])[order],
            is_current=np.concatenate([np.empty(0, np.bool_), *currents])[order],
            entries=tuple(self._entries),
            entry=self._entry[versions],
            position=self._position[versions],
        )


def _operations(rows: RowChanges, *, is_baseline: bool) -> npt.NDArray[np.int8]:
    if is_baseline:
        return np.full(len(rows), _BASELINE, np.int8)
    return np.select([rows.inserted, rows.deleted], [_INSERT, _DELETE], _UPDATE).astype(np.int8)


def _ancestors(commits: Mapping[str, Commit], head: str | None) -> set[str]:
    """A commit and all that it descends from."""
    reached: set[str] = set()
    waiting = [] if head is None else [head]
    while waiting:
        commit = commits.get(waiting.pop())
        if commit is not None and commit.graph_commit_id not in reached:
            reached.add(commit.graph_commit_id)
            waiting += commit.parents
    return reached
