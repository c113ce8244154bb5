"""The change feed of a branch: its commits in first-parent order, each with its changes, and cursors between them.

The graph keeps nothing about consumers: a cursor says where one stands. It stands between two commits, so a consumer that
stops within a commit gets the whole of it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnigraph_compiler import Catalog
from omnigraph_sql.errors import BadRequest, ChangeFeedGap, NotFound, SchemaBoundary
from omnigraph_sql.history.change_pages import ChangePages, CommitStates
from omnigraph_sql.history.change_tokens import ChangePlace, FeedCursor, FeedPageToken, from_text, rejected, to_text
from omnigraph_sql.history.commit_changes import CommitChanges, block, gap, readable_page, state_of
from omnigraph_sql.history.diff import ChangeFilter, catalog_types
from omnigraph_sql.history.export import export_records
from omnigraph_sql.manifest.coordinator import ManifestCoordinator, lineage, public_name
from omnigraph_sql.manifest.journal import Commit, commit_of
from omnigraph_sql.manifest.refs import check_commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.tables import TableStorage

MOST_COMMITS: Final = 128
"""Commits that one page of the feed looks at."""
_AFTER: Final = "after:"


@dataclass(frozen=True, kw_only=True)
class ChangeFeedPage:
    """Commits of a branch with their changes, oldest first, and where to go on."""

    branch: str
    """The branch."""
    blocks: tuple[CommitChanges, ...]
    """Commits that have changes. Only the last one may be incomplete, if the page has a limit."""
    cursor: str
    """Stands after the last commit that is complete. Keep it when these commits are dealt with."""
    next_page_token: str | None
    """The token of the next page of this poll; None once it has come to the head that it began with."""
    head_commit_id: str
    """The head of the branch when the poll began."""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> sorted(graph.changes().to_dict())
            ['blocks', 'branch', 'cursor', 'head_commit_id', 'next_page_token']
        """
        return vars(self) | {"blocks": [commit.to_dict() for commit in self.blocks]}


@dataclass(frozen=True, kw_only=True)
class FeedRequest:
    """A request for a page of a feed."""

    branch: str
    wanted: ChangeFilter
    cursor: str | None = None
    page_token: str | None = None
    start: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class _Position:
    """Just after a commit; None before the first."""

    commit: str | None
    version: int


@dataclass(frozen=True)
class _Range:
    """The commits of a poll: those after its position, oldest first, and all that are recorded since."""

    commits: list[Commit]
    recorded: Mapping[str, Commit]


class ChangeFeed:
    """The change feed of the branches of a graph."""

    def __init__(
        self, coordinator: ManifestCoordinator, storage: TableStorage, pages: ChangePages, catalog: Catalog
    ) -> None:
        self._coordinator = coordinator
        self._storage = storage
        self._pages = pages
        self._catalog = catalog

    def page(self, request: FeedRequest) -> ChangeFeedPage:
        """The commits after a cursor or a starting point, or the next page of a poll."""
        if [request.cursor, request.page_token, request.start].count(None) < 2:
            hint = "give one of cursor, page_token and start"
            raise BadRequest("a poll has one place to go on from", hint=hint)
        request.wanted.check(self._catalog)
        if request.page_token is not None:
            token = from_text(FeedPageToken, request.page_token)
            snapshot = self._bound_snapshot(request, token)
            place = None if token.table_key is None else ChangePlace(token.table_key, token.row)
            return self._read(request, snapshot, _Position(token.commit, token.version), token.head, place)
        if request.cursor is not None:
            cursor = from_text(FeedCursor, request.cursor)
            snapshot = self._bound_snapshot(request, cursor)
            return self._read(request, snapshot, _Position(cursor.commit, cursor.version), None, None)
        snapshot = self._coordinator.fresh(public_name(request.branch))
        return self._read(request, snapshot, self._start(request, snapshot), None, None)

    def baseline(self, branch: str, wanted: ChangeFilter) -> Iterator[str]:
        """The records of a branch as it is now, and a last record with the cursor from which its changes go on."""
        wanted.check(self._catalog)
        snapshot = self._coordinator.fresh(public_name(branch))
        types = [type_.name for kind, type_ in catalog_types(self._catalog) if wanted.allows(kind, type_)]
        cursor = self._cursor(snapshot, wanted, _head_position(snapshot))
        return self._records(snapshot, types, {"snapshot_commit_id": snapshot.commit_id, "resume_cursor": cursor})

    def _records(self, snapshot: Snapshot, types: list[str], last: Mapping[str, str]) -> Iterator[str]:
        yield from export_records(self._storage, self._catalog, snapshot, types)
        yield json.dumps({"baseline": last}, separators=(",", ":"))

    # Positions

    @property
    def _graph_id(self) -> str:
        return self._coordinator.table.identity.graph_id or ""

    def _bound_snapshot(self, request: FeedRequest, token: FeedCursor | FeedPageToken) -> Snapshot:
        """The present state of the branch of a token, which must be the one that it was made for."""
        what, branch = token.kind, public_name(request.branch)
        if token.graph != self._graph_id:
            raise rejected(f"the {what} is of another graph", "graph")
        if token.branch != branch:
            raise rejected(f"the {what} is of the branch `{token.branch}`, not of `{branch}`", "branch")
        if token.filter != request.wanted.digest:
            raise rejected(f"the {what} is of a request with another filter", "filter")
        try:
            snapshot = self._coordinator.fresh(branch)
        except NotFound as error:
            if error.what != "branch":
                raise
            raise rejected(f"the branch `{branch}` of the {what} was deleted", "branch") from error
        if token.incarnation != snapshot.incarnation:
            raise rejected(f"the branch `{branch}` was deleted and created again since the {what} was made", "branch")
        return snapshot

    def _start(self, request: FeedRequest, snapshot: Snapshot) -> _Position:
        start = "now" if request.start is None else request.start
        if start == "now":
            return _head_position(snapshot)
        if start == "beginning":
            return _Position(None, 0)
        if not start.startswith(_AFTER):
            raise BadRequest(f"`{start[:60]}` is no start of a feed", hint="use now, beginning or after:COMMIT")
        commit = self._coordinator.commit(check_commit(start.removeprefix(_AFTER)))
        position = _Position(commit.graph_commit_id, commit.manifest_version)
        if self._range(snapshot, position, None) is None:
            text = f"`{position.commit}` is not in the history of the branch `{snapshot.branch}` along first parents"
            raise BadRequest(text, hint="use a commit that was published on the branch, or on the one it came from")
        return position

    def _range(self, snapshot: Snapshot, position: _Position, head: str | None) -> _Range | None:
        """The commits after a position up to a head, None for that of the snapshot; None if they do not lead there."""
        end = head or (None if snapshot.head is None else snapshot.head.graph_commit_id)
        if position.commit == end:
            return _Range([], {})
        if snapshot.head is None:
            return None
        newest = commit_of(lineage(snapshot.branch), snapshot.head_version, snapshot.head)
        floor = 0 if position.commit is None else position.version
        # The head may not be recorded yet. What is recorded says on which branch it was made.
        recorded = {newest.graph_commit_id: newest} | self._coordinator.journal.since(floor)
        commits: list[Commit] = []
        next_id = end
        while next_id is not None and next_id != position.commit:
            commit = recorded.get(next_id)
            if commit is None:
                break
            commits.append(commit)
            next_id = commit.parent_commit_id
        commits.reverse()
        if position.commit is None:
            return _Range(commits, recorded)
        return _Range(commits, recorded) if next_id == position.commit else None

    def _cursor(self, snapshot: Snapshot, wanted: ChangeFilter, position: _Position) -> str:
        cursor = FeedCursor(
            graph=self._graph_id,
            branch=snapshot.branch,
            incarnation=snapshot.incarnation,
            filter=wanted.digest,
            commit=position.commit,
            version=position.version,
        )
        return to_text(cursor)

    # Pages

    def _read(
        self, request: FeedRequest, snapshot: Snapshot, position: _Position, head: str | None, place: ChangePlace | None
    ) -> ChangeFeedPage:
        ahead = self._range(snapshot, position, head)
        if ahead is None:
            raise rejected(f"the history of the branch `{snapshot.branch}` does not lead there any more", "history")
        head = head or snapshot.commit_id
        blocks: list[CommitChanges] = []
        room, before, start = request.limit, None, position
        for commit in ahead.commits[:MOST_COMMITS]:
            try:
                states = self._states(commit, ahead.recorded, before)
                page = readable_page(self._pages, self._catalog, states, request.wanted, place, room)
            except (ChangeFeedGap, SchemaBoundary) as error:
                if position != start:
                    break  # what is before it is delivered, and the next page meets it again
                if isinstance(error, ChangeFeedGap):
                    raise gap(commit.graph_commit_id, self._cursor(snapshot, request.wanted, position)) from error
                raise
            if page.changes:
                blocks.append(block(commit, page))
            place, before = page.next_place, states.after
            if place is not None:
                break
            position = _Position(commit.graph_commit_id, commit.manifest_version)
            room = None if room is None else room - len(page.changes)
            if room == 0:
                break
        is_done = not ahead.commits or position.commit == ahead.commits[-1].graph_commit_id
        return ChangeFeedPage(
            branch=snapshot.branch,
            blocks=tuple(blocks),
            cursor=self._cursor(snapshot, request.wanted, position),
            next_page_token=None if is_done else self._page_token(snapshot, request.wanted, position, head, place),
            head_commit_id=head,
        )

    def _states(self, commit: Commit, recorded: Mapping[str, Commit], before: Snapshot | None) -> CommitStates:
        """The states before and after a commit. What was there before the first commit is nothing."""
        after = state_of(self._coordinator, commit, commit)
        if before is None and commit.parent_commit_id is not None:
            before = state_of(self._coordinator, commit, recorded.get(commit.parent_commit_id))
        return CommitStates(commit.graph_commit_id, before, after)

    def _page_token(
        self, snapshot: Snapshot, wanted: ChangeFilter, position: _Position, head: str, place: ChangePlace | None
    ) -> str:
        token = FeedPageToken(
            graph=self._graph_id,
            branch=snapshot.branch,
            incarnation=snapshot.incarnation,
            filter=wanted.digest,
            commit=position.commit,
            version=position.version,
            head=head,
            table_key=None if place is None else place.table_key,
            row=0 if place is None else place.row,
        )
        return to_text(token)


def _head_position(snapshot: Snapshot) -> _Position:
    return _Position(None, 0) if snapshot.head is None else _Position(snapshot.commit_id, snapshot.head_version)
