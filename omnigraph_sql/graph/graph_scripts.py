"""SQL that writes to a graph: scripts, transactions, and what becomes of open transactions when the graph is closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakSet

from omnigraph_sql.choices import EngineName
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.graph.execute_result import ExecuteResult
from omnigraph_sql.graph.queries import GraphQueries
from omnigraph_sql.graph.scripts import BranchWriter, ScriptRun
from omnigraph_sql.graph.sql import GraphSql
from omnigraph_sql.graph.transactions import Transaction
from omnigraph_sql.manifest.coordinator import public_name
from omnigraph_sql.sql.refs import CatalogPin
from omnigraph_sql.storage.source_files import refuse_path
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.kept_transactions import resume_transaction
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.protocol import Review, find_replay
from omnigraph_sql.writes.transactions import WriteTransaction

Notes: TypeAlias = Mapping[str, str | None]
"""Message, actor and idempotency key of a commit."""


@dataclass(kw_only=True)
class GraphScripts:
    """Runs scripts and begins transactions. `pin` is the catalog of a pinned session."""

    graph: BranchWriter
    store: GraphStore
    queries: GraphQueries
    sql: GraphSql
    embeddings: Embeddings | None
    provenance: Callable[..., Provenance]
    """Makes the provenance of a commit of its notes; raises if the graph is read-only."""
    review: Callable[[Any], Review]
    """Makes the review of a commit of the checks of a call."""
    _open: WeakSet[Transaction] = field(default_factory=WeakSet)

    def run_script(
        self,
        script: str,
        params: Mapping[str, Any] | None,
        branch: str,
        engine: EngineName,
        pin: CatalogPin | None,
        **notes: Any,
    ) -> ExecuteResult:
        """Run a script that reads or writes."""
        refuse_path(script, ".sql", "a statement")
        replayed = find_replay(self.store, public_name(branch), self.provenance(**notes))
        if replayed is not None:
            return ExecuteResult(0, replayed)
        run = ScriptRun(
            store=self.store,
            graph=self.graph,
            begin=lambda name: self.begin(name, engine, pin, checks=None, **notes),
            notes=notes,
            params=params,
            is_pinned=pin is not None,
        )
        return run.run(script, branch)

    def begin(self, branch: str, engine: EngineName, pin: CatalogPin | None, *, checks: Any, **notes: Any) -> Transaction:
        """Begin a transaction on the head of a branch."""
        provenance = self.provenance(**notes)
        review = self.review(checks)
        return self._opened(WriteTransaction(self.store, public_name(branch), provenance), engine, pin, review, None)

    def resume(
        self,
        branch: str,
        engine: EngineName,
        pin: CatalogPin | None,
        *,
        checks: Any,
        delete_branch: bool,
        **notes: Any,
    ) -> Transaction:
        """Go on from a branch that a transaction was kept as."""
        provenance = self.provenance(**notes)
        review = self.review(checks)
        writes = resume_transaction(self.store, public_name(branch), provenance)
        return self._opened(writes, engine, pin, review, branch if delete_branch else None)

    def _opened(
        self,
        writes: WriteTransaction,
        engine: EngineName,
        pin: CatalogPin | None,
        review: Review,
        resumed_branch: str | None,
    ) -> Transaction:
        transaction = Transaction(
            self.store,
            self.queries,
            writes,
            engine=engine,
            embeddings=self.embeddings,
            graph_sessions=lambda: self.sql.sessions,
            review=review,
            pin=pin,
            resumed_branch=resumed_branch,
        )
        self._open.add(transaction)
        return transaction

    def close(self) -> None:
        """Roll back what is open: a transaction does not outlive its graph."""
        for transaction in list(self._open):
            transaction.rollback()
