"""The task payload of a query on Spark: the state of the graph, and the symbolic functions of the plan.

A bound function refers to arrays of one process, so it cannot be sent. A worker gets the symbolic functions instead, opens
the same table versions, and binds them itself.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from copyreg import dispatch_table
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from omnigraph_compiler import ir
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.binding.search import query_point
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import Input, python_value
from omnigraph_sql.runtime.request import ReadRequest
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.topology.cost_model import TraversalSettings


@dataclass(frozen=True, kw_only=True)
class TaskPayload:
    """The part of a run that its workers need."""

    run: str
    """The unique name of the run."""
    root: str
    saves: bool
    """True if structures derived from tables may be written beside them."""
    request: ReadRequest
    traversal: TraversalSettings
    functions: Mapping[str, fn.Function]
    inputs: Mapping[str, Input]
    batch_rows: int
    max_destinations: int

    def to_bytes(self) -> bytes:
        """Serialize the payload."""
        out = io.BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**dispatch_table, MappingProxyType: _plain}
        pickler.dump(self)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> TaskPayload:
        """Deserialize a payload."""
        payload: TaskPayload = pickle.loads(data)
        return payload


def bare_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with nothing but its readable tables, to keep the payload small."""
    nothing: Mapping[str, Any] = MappingProxyType({})
    return replace(snapshot, locations=nothing, tombstones=nothing, definitions=nothing, dropped=nothing)


def deterministic_plan(plan: SqlPlan, context: BindContext) -> SqlPlan:
    """Replace the functions of a plan whose results depend on the process.

    Ids are sorted by value, because ranks depend on the caches of a process. A text to compare vectors with is embedded
    here, once.
    """
    inputs = dict(plan.inputs)

    def near(by: fn.Bm25Score | fn.Distance) -> Any:
        if isinstance(by, fn.Bm25Score) or by.query is None:
            return by
        text = python_value(plan.inputs[by.query], context.params)
        if not isinstance(text, str):
            return by
        name = f"{by.query} as {by.table_key}.{by.column}"
        if name not in inputs:
            point = query_point(context, by, text)
            assert point is not None
            kind = context.catalog.nodes[TableKey(by.table_key).name].properties[by.column].type
            inputs[name] = ir.Constant(tuple(point.tolist()), kind)
        return replace(by, query=name)

    def best(top: Any) -> Any:
        if isinstance(top, fn.Top):
            return replace(top, by=near(top.by))
        return replace(top, first=near(top.first), second=near(top.second)) if isinstance(top, fn.FusedTop) else top

    def function(meaning: fn.Function) -> fn.Function:
        match meaning:
            case fn.IdRank():
                return fn.Get(meaning.table_key, "id", None)
            case fn.Distance():
                return near(meaning)  # type: ignore[no-any-return]
            case fn.Among():
                return replace(meaning, top=best(meaning.top))
            case _:
                return meaning

    functions = {name: function(meaning) for name, meaning in plan.functions.items()}
    relations = {name: best(meaning) for name, meaning in plan.relations.items()}
    return replace(plan, functions=functions, relations=relations, inputs=inputs)


def _plain(proxy: MappingProxyType[Any, Any]) -> tuple[Any, tuple[Any, ...]]:
    return _proxy, (dict(proxy),)


def _proxy(content: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(content)
