"""Merges as `Graph` offers them: arguments checked, decisions read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigraph_sql.choices import MergeGranularity
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.refs import check_commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.merge.merges import MergeRequest, MergeResult, merge, merge_request, preview_merge
from omnigraph_sql.writes.merge.reverts import Replay, replay_commit, restore_state
from omnigraph_sql.writes.protocol import Review


class GraphMerges:
    """The merges of an open graph."""

    def __init__(
        self, store: GraphStore, actor: str | None, review: Callable[[Any], Review], embeddings: Embeddings | None
    ) -> None:
        self._store = store
        self._actor = actor
        self._review = review
        self._embeddings = embeddings

    def run(self, source: str, target: str, resolve: Any, checks: Any, *, is_dry: bool, **settings: Any) -> MergeResult:
        request = self._request(source, target, resolve, checks, is_dry=is_dry, **settings)
        return preview_merge(self._store, request) if is_dry else merge(self._store, request)

    def replay(
        self, kind: Replay, commit: str, branch: str, resolve: Any, checks: Any, *, is_dry: bool, **settings: Any
    ) -> MergeResult:
        request = self._request(check_commit(commit), branch, resolve, checks, is_dry=is_dry, **settings)
        return replay_commit(self._store, request, kind, is_dry=is_dry)

    def return_to(
        self, ref: str, state: Snapshot, branch: str, checks: Any, *, is_dry: bool, **settings: Any
    ) -> MergeResult:
        request = self._request(ref, branch, None, checks, is_dry=is_dry, **settings)
        return restore_state(self._store, request, state, is_dry=is_dry)

    def _request(
        self,
        source: str,
        target: str,
        resolve: Any,
        checks: Any,
        *,
        is_dry: bool,
        granularity: MergeGranularity = "row",
        **settings: Any,
    ) -> MergeRequest:
        if granularity not in ("row", "column"):
            raise BadRequest(f"`{granularity}` is no granularity of a merge", hint="use row or column")
        settings["actor"] = settings.get("actor") or self._actor
        settings["review"] = self._review(checks)
        settings["embeddings"] = None if is_dry else self._embeddings
        return merge_request(self._store, source, target, resolve, granularity=granularity, **settings)
