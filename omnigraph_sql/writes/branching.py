"""Branches of the whole graph: created by one reference, deleted by removing it."""

from __future__ import annotations

import datetime
import json
from urllib.parse import quote

from omnigraph_sql import failpoints
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.manifest.coordinator import LOCK_BRANCH, MAIN
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.staging import owner_of

RECORDS = "_refs/branches"


def create_branch(engine: Engine, name: str, base: str = MAIN, actor: str | None = None) -> str:
    """A branch that starts where another one is. Costs one reference, whatever the size of the graph."""
    name = name.strip()
    with engine.locks.hold([f"__branch__\0{name}"]):
        snapshot = engine.coordinator.fresh(engine.coordinator.require(base))
        # The new branch shares the head: recorded now, it is recorded as a commit of the branch that made it.
        engine.publisher.reconcile(snapshot)
        engine.coordinator.create_branch(name, snapshot)
        record = {
            "name": name,
            "from": base,
            "manifest_version": snapshot.manifest_version,
            "graph_commit_id": snapshot.commit_id,
            "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
            "actor": actor,
        }
        engine.objects.write_text(_record(name), json.dumps(record, indent=1))
    return name


def delete_branch(engine: Engine, name: str) -> None:
    """Remove a branch with the table branches that only it used."""
    name = name.strip()
    if name in (MAIN, LOCK_BRANCH):
        raise BadRequest(f"the branch `{name}` cannot be deleted", hint="delete another branch")
    with engine.locks.hold([f"__branch__\0{name}"]):
        snapshot = engine.coordinator.fresh(engine.coordinator.require(name))
        engine.coordinator.delete_branch(name)
        failpoints.hit("branch_delete.before_table_cleanup")
        owned = [entry for entry in snapshot.entries.values() if owner_of(entry.branch) == name]
        for entry in owned:
            _reclaim(engine, entry.path, entry.branch or "")
        engine.objects.delete(_record(name))


def _reclaim(engine: Engine, path: str, branch: str) -> None:
    """Best effort: the branch is gone already, and cleanup finds what is left."""
    try:
        engine.storage.force_delete_branch(path, branch)
    except (OmnigraphError, OSError):
        return


def _record(name: str) -> str:
    return f"{RECORDS}/{quote(name, safe='')}.json"
