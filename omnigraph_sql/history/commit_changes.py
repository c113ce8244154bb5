"""The changes of one commit: what it did to the state of its first parent, with the values before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from omnigraph_compiler import Catalog
from omnigraph_sql.errors import ChangeFeedGap, CommitHasNoParent, NotFound, VersionReclaimed
from omnigraph_sql.history.change_pages import ChangePage, ChangePages, CommitStates
from omnigraph_sql.history.change_tokens import ChangePlace, CommitPageToken, from_text, rejected, to_text
from omnigraph_sql.history.diff import ChangeFilter, EntityChange
from omnigraph_sql.manifest.coordinator import MAIN, ManifestCoordinator
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot

MOST_CHANGES: Final = 8192
"""The largest page."""


@dataclass(frozen=True, kw_only=True)
class CommitChanges:
    """What a commit changed in nodes and edges: nodes before edges, by type and id; or a page of that."""

    commit_id: str
    """The commit."""
    parents: tuple[str, ...]
    """The commits that it stands on. The changes are those since the first of them."""
    branch: str
    """The branch that it was published on."""
    actor: str | None
    """Who made it."""
    authored_at: int
    """Microseconds since 1970."""
    message: str | None
    """The note of its author."""
    changes: tuple[EntityChange, ...]
    """One entry per entity, with `after` for an insert, `before` for a delete, and both for an update."""
    is_complete: bool
    """False if there are more changes than the page has room for."""
    next_page_token: str | None = None
    """The token of the next page, for `Graph.commit_changes`; in a feed the page of the feed has it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> graph.commit_changes(graph.commits()[0].graph_commit_id).to_dict()["message"]
            'first ports'
        """
        return vars(self) | {"parents": list(self.parents), "changes": [change.to_dict() for change in self.changes]}


def commit_changes(
    coordinator: ManifestCoordinator,
    pages: ChangePages,
    catalog: Catalog,
    commit_id: str,
    wanted: ChangeFilter,
    page_token: str | None,
    limit: int | None,
) -> CommitChanges:
    """Return the changes of a commit from the place of a page token on, at most `limit`."""
    wanted.check(catalog)
    commit = coordinator.commit(commit_id)
    graph_id = coordinator.table.identity.graph_id or ""
    place = None if page_token is None else _place(page_token, graph_id, commit_id, wanted)
    if commit.parent_commit_id is None:
        text = f"`{commit_id}` is the first commit of the graph and has no parent to compare it with"
        raise CommitHasNoParent(text, commit_id=commit_id, hint="export the state of the commit instead")
    after = coordinator.at_recorded(commit)
    before = state_of(coordinator, commit, coordinator.find_commit(commit.parent_commit_id))
    page = readable_page(pages, catalog, CommitStates(commit_id, before, after), wanted, place, limit)
    token = None
    if page.next_place is not None:
        place = page.next_place
        token = CommitPageToken(
            graph=graph_id, commit=commit_id, filter=wanted.digest, table_key=place.table_key, row=place.row
        )
    return block(commit, page, None if token is None else to_text(token))


def block(commit: Commit, page: ChangePage, next_page_token: str | None = None) -> CommitChanges:
    """A page of the changes of a commit, with what is known about the commit."""
    return CommitChanges(
        commit_id=commit.graph_commit_id,
        parents=commit.parents,
        branch=commit.manifest_branch or MAIN,
        actor=commit.actor_id,
        authored_at=commit.created_at,
        message=commit.message,
        changes=page.changes,
        is_complete=page.next_place is None,
        next_page_token=next_page_token,
    )


def state_of(coordinator: ManifestCoordinator, commit: Commit, of: Commit | None) -> Snapshot:
    """The state that a commit or its parent made; `ChangeFeedGap` if it is not recorded or not in the manifest any more."""
    if of is None:
        raise gap(commit.graph_commit_id)
    try:
        return coordinator.at_recorded(of)
    except NotFound as error:
        if error.what == "graph":
            raise
        raise gap(commit.graph_commit_id) from error


def readable_page(
    pages: ChangePages,
    catalog: Catalog,
    states: CommitStates,
    wanted: ChangeFilter,
    place: ChangePlace | None,
    limit: int | None,
) -> ChangePage:
    """A page of the changes of a commit; `ChangeFeedGap` if a cleanup removed rows that it needs."""
    try:
        return pages.read(catalog, states, wanted, place, limit)
    except VersionReclaimed as error:
        raise gap(states.commit_id) from error


def gap(commit_id: str, cursor: str | None = None) -> ChangeFeedGap:
    """The error for a commit whose changes cannot be read any more."""
    text = f"the changes of the commit `{commit_id}` cannot be read any more: a cleanup removed rows of it or of its parent"
    hint = "take a baseline of the branch, and go on from its cursor"
    return ChangeFeedGap(text, first_unreadable_commit_id=commit_id, cursor=cursor, hint=hint)


def _place(page_token: str, graph_id: str, commit_id: str, wanted: ChangeFilter) -> ChangePlace:
    token = from_text(CommitPageToken, page_token)
    if token.graph != graph_id:
        raise rejected("the page token is of another graph", "graph")
    if token.commit != commit_id:
        raise rejected(f"the page token is of the commit `{token.commit}`", "commit")
    if token.filter != wanted.digest:
        raise rejected("the page token is of a request with another filter", "filter")
    return ChangePlace(token.table_key, token.row)
