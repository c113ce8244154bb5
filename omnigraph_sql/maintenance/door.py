"""What a graph offers to those who look after it: indexes, and the removal of what nobody needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraph_sql.maintenance.cleanup import CleanupStat, cleanup
from omnigraph_sql.maintenance.indexes import PendingIndex, ensure_indices
from omnigraph_sql.maintenance.retention import read_policy
from omnigraph_sql.manifest.coordinator import MAIN, public_name
from omnigraph_sql.writes.engine import Engine

if TYPE_CHECKING:
    from omnigraph_sql.engines.choosing import Engines


class MaintenanceDoor(ABC):
    """The part of a graph that looks after it."""

    _engine: Engine
    _readers: Engines | None

    @abstractmethod
    def _engines(self) -> Engines: ...

    @abstractmethod
    def _require_writable(self) -> None: ...

    @abstractmethod
    def _actor_for(self, actor: str | None) -> str | None: ...

    def ensure_indices(
        self, branch: str = MAIN, *, lance_text: bool = False, actor: str | None = None
    ) -> list[PendingIndex]:
        """Build every index that the schema declares and a table with rows lacks: one commit, or none.

        What searches in declared texts and vectors need is made beside the tables. Answers do not depend on any of it, save
        that `nearest` over a whole type of more than a million nodes asks an index of vectors for candidates. Indexes that
        cannot be built yet are returned. `lance_text` adds Lance's own text indexes, for other readers of the tables.
        """
        self._require_writable()
        pending = ensure_indices(self._engine, branch, self._actor_for(actor), lance_text=lance_text)
        self._engines().resources.prepare(self._engine.catalog, self._engine.coordinator.fresh(public_name(branch)))
        return pending

    def cleanup(
        self, keep: int | None = None, older_than: timedelta | str | None = None, *, dry_run: bool = False
    ) -> list[CleanupStat]:
        """Remove old versions of the tables, and what interrupted writers left behind, for good.

        Of each table the newest `keep` versions stay, and those that are not `older_than` (a `timedelta`, or a text like
        `7d`); with both, a version goes only if neither keeps it. What a branch shows always stays, with everything later.
        Reading a version that is gone raises `VersionReclaimed`. Files that nothing refers to go when they are older than
        OMNIGRAPH_STAGING_GRACE (7 days): younger ones may belong to a write that is under way.

        Returns what was removed, table by table; `dry_run` removes nothing and says what would be.
        """
        policy = read_policy(keep, older_than)
        if not dry_run:
            self._require_writable()
        found = cleanup(self._engine, policy, dry_run=dry_run)
        if not dry_run and self._readers is not None:
            self._readers.resources.clear()
        return found
