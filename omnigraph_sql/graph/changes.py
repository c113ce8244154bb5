"""Changes of commits and branches as `Graph` offers them."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_sql.history.branch_changes import ChangeFeed, ChangeFeedPage, FeedRequest
from omnigraph_sql.history.change_pages import ChangePages
from omnigraph_sql.history.commit_changes import CommitChanges, commit_changes
from omnigraph_sql.history.diff import ChangeFilter
from omnigraph_sql.manifest.refs import check_commit
from omnigraph_sql.store.graph_store import GraphStore


class GraphChanges:
    """The changes of an open graph. It keeps the ids of a large commit whose pages are being read."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._pages = ChangePages(store.storage)

    def of_commit(self, commit_id: str, wanted: ChangeFilter, page_token: str | None, limit: int | None) -> CommitChanges:
        store = self._store
        store.coordinator.require_same_graph()
        commit = check_commit(commit_id)
        return commit_changes(store.coordinator, self._pages, store.catalog, commit, wanted, page_token, limit)

    def of_branch(self, request: FeedRequest) -> ChangeFeedPage:
        return self._feed.page(request)

    def baseline(self, branch: str, wanted: ChangeFilter) -> Iterator[str]:
        return self._feed.baseline(branch, wanted)

    @property
    def _feed(self) -> ChangeFeed:
        store = self._store
        return ChangeFeed(store.coordinator, store.storage, self._pages, store.catalog)
