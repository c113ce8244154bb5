"""omnigraph-sql: a versioned, typed property graph on Lance tables.

>>> import omnigraph_sql as og
>>> og.errors.NotFound.kind
'NotFound'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph_sql import _compat, errors
from omnigraph_sql._version import __version__
from omnigraph_sql.choices import EngineName, ExtraColumns, LoadMode, MergeGranularity, PipelineEngineName

if TYPE_CHECKING:
    from omnigraph_sql import pipeline, spark
    from omnigraph_sql.embeddings import Embedder
    from omnigraph_sql.explanation import Explanation, Step
    from omnigraph_sql.foreign.model import ForeignTable
    from omnigraph_sql.graph import Graph, connect, init
    from omnigraph_sql.graph.execute_result import ExecuteResult
    from omnigraph_sql.graph.pinned_sessions import PinnedSession
    from omnigraph_sql.graph.sql import Preview
    from omnigraph_sql.graph.transactions import Transaction
    from omnigraph_sql.history.branch_changes import ChangeFeedPage
    from omnigraph_sql.history.branches import BranchInfo
    from omnigraph_sql.history.commit_changes import CommitChanges
    from omnigraph_sql.history.diff import ChangeSet, ChangeStats, EntityChange
    from omnigraph_sql.maintenance.cleanup import CleanupStat
    from omnigraph_sql.maintenance.copies.copies import CopyResult
    from omnigraph_sql.maintenance.indexes import PendingIndex
    from omnigraph_sql.manifest.journal import Commit
    from omnigraph_sql.manifest.snapshot import Snapshot
    from omnigraph_sql.manifest.tags import Tag
    from omnigraph_sql.project import ProjectSettings
    from omnigraph_sql.result import Result
    from omnigraph_sql.writes.load.loads import LoadResult
    from omnigraph_sql.writes.load.staged_load import StagedLoad
    from omnigraph_sql.writes.merge.conflicts import MergeConflict
    from omnigraph_sql.writes.merge.merges import MergeResult
    from omnigraph_sql.writes.merge.plan import TypeChanges
    from omnigraph_sql.writes.mutation import MutationResult
    from omnigraph_sql.writes.relational import RelationalWriter

__all__ = [
    "BranchInfo",
    "ChangeFeedPage",
    "ChangeSet",
    "ChangeStats",
    "CleanupStat",
    "Commit",
    "CommitChanges",
    "CopyResult",
    "Embedder",
    "EngineName",
    "EntityChange",
    "ExecuteResult",
    "Explanation",
    "ExtraColumns",
    "ForeignTable",
    "Graph",
    "LoadMode",
    "LoadResult",
    "MergeConflict",
    "MergeGranularity",
    "MergeResult",
    "MutationResult",
    "PendingIndex",
    "PinnedSession",
    "PipelineEngineName",
    "Preview",
    "ProjectSettings",
    "RelationalWriter",
    "Result",
    "Snapshot",
    "StagedLoad",
    "Step",
    "Tag",
    "Transaction",
    "TypeChanges",
    "__version__",
    "connect",
    "errors",
    "init",
    "pipeline",
    "spark",
]

_compat.check_versions()

# The graph imports Arrow and Lance, which are slow to import; the version and the errors do not.
_LAZY = {
    "BranchInfo": "history.branches",
    "ChangeFeedPage": "history.branch_changes",
    "ChangeSet": "history.diff",
    "ChangeStats": "history.diff",
    "CleanupStat": "maintenance.cleanup",
    "Commit": "manifest.journal",
    "CopyResult": "maintenance.copies.copies",
    "CommitChanges": "history.commit_changes",
    "Embedder": "embeddings",
    "EntityChange": "history.diff",
    "ExecuteResult": "graph.execute_result",
    "Explanation": "explanation",
    "ForeignTable": "foreign.model",
    "Graph": "graph",
    "LoadResult": "writes.load.loads",
    "MergeConflict": "writes.merge.conflicts",
    "MergeResult": "writes.merge.merges",
    "MutationResult": "writes.mutation",
    "PendingIndex": "maintenance.indexes",
    "PinnedSession": "graph.pinned_sessions",
    "Preview": "graph.sql",
    "ProjectSettings": "project",
    "RelationalWriter": "writes.relational",
    "Result": "result",
    "Snapshot": "manifest.snapshot",
    "StagedLoad": "writes.load.staged_load",
    "Step": "explanation",
    "Tag": "manifest.tags",
    "Transaction": "graph.transactions",
    "TypeChanges": "writes.merge.plan",
    "connect": "graph",
    "init": "graph",
}
_PACKAGES = ("pipeline", "spark")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
