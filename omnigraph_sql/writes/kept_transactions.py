"""Transactions that become a branch instead of a commit of their target, and go on from it later."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_sql.errors import BadRequest, Conflict, NotFound
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.branches import create_branch_at, delete_branch
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.merge.frame import MergeFrame
from omnigraph_sql.writes.merge.plan import plan_transfer, plan_writes
from omnigraph_sql.writes.operation import PreparedWrite, Provenance
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.transactions import WriteTransaction


def keep_transaction(transaction: WriteTransaction, name: str, provenance: Provenance) -> Commit:
    """Make what a transaction has written a branch with one commit, and close the transaction.

    The branch begins at the state on which the transaction began.
    """
    store = transaction.store
    with transaction.closing("kept"):
        theirs = transaction.snapshot(temporary=False)
        base = _state(store, transaction.base)
        name = create_branch_at(store, name, base, provenance.actor, reads=transaction.reads)
        try:
            return _publish(store, name, theirs, provenance)
        except BaseException:
            delete_branch(store, name)
            raise


def _state(store: GraphStore, base: Snapshot) -> Snapshot:
    """The base of a transaction as a state that a branch can begin at: other writers may have published since."""
    return store.coordinator.at_version(base.branch, base.manifest_version)


def _publish(store: GraphStore, name: str, theirs: Snapshot, provenance: Provenance) -> Commit:
    with Workspace() as workspace:

        def prepare(ours: Snapshot) -> PreparedWrite[None]:
            plan = plan_transfer(MergeFrame(store=store, base=ours, ours=ours, theirs=theirs, adopts=False))
            writes, changes = plan_writes(plan, workspace)
            return PreparedWrite(writes=tuple(writes), reads=plan.reads, result=None, changes=tuple(changes), is_commit=True)

        commit = execute(store, name, prepare, provenance).commit
    assert commit is not None
    return commit


def resume_transaction(store: GraphStore, name: str, provenance: Provenance) -> WriteTransaction:
    """Begin a transaction on the state at which a branch was made, with everything that the branch has changed since."""
    name = store.coordinator.require(name)
    record = None if name == MAIN else store.coordinator.table.record(name)
    if record is None or record.base is None:
        hint = "give a branch that Transaction.keep or Graph.create_branch has made"
        raise BadRequest(f"`{name}` has no branch that it was made from", hint=hint)
    if record.base not in (MAIN, *store.coordinator.branches()):
        text = f"`{name}` was made from `{record.base}`, which is deleted"
        raise NotFound(text, what="branch", name=record.base, hint=f"merge `{name}` into another branch")
    base = replace(store.coordinator.at_version(record.base, record.manifest_version), is_past=False)
    if record.graph_commit_id is not None and base.commit_id != record.graph_commit_id:
        text = f"`{record.base}` was deleted and created again since `{name}` was made from it"
        raise Conflict(text, reason="branch replaced", hint=f"merge `{name}` into another branch")
    theirs = store.coordinator.fresh(name)
    transaction = WriteTransaction(store, record.base, provenance, base)
    try:
        with Workspace() as workspace:

            def prepare(ours: Snapshot) -> PreparedWrite[None]:
                plan = plan_transfer(MergeFrame(store=store, base=ours, ours=ours, theirs=theirs, adopts=False))
                writes, changes = plan_writes(plan, workspace)
                reads = plan.reads | frozenset(record.reads)
                return PreparedWrite(writes=tuple(writes), reads=reads, result=None, changes=tuple(changes))

            transaction.apply(prepare)
    except BaseException:
        transaction.rollback()
        raise
    return transaction
