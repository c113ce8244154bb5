"""What a worker of Spark is told about a query: the state of the graph, and what the functions in the SQL are.

Functions are bound to arrays of the process that binds them, so none is sent. A worker is told what they mean, opens the
same versions of the same tables, and binds them itself.
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
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.engines.resources import Resources
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.engines.searching import query_point
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import Input, python_value
from omnigraph_sql.topology.modes import Settings


@dataclass(frozen=True)
class Parcel:
    """One run of a plan."""

    run: str
    """Tells it from others."""
    root: str
    saves: bool
    """Whether what is derived from tables may be kept beside them."""
    order: Order
    given: Settings
    functions: Mapping[str, fn.Function]
    inputs: Mapping[str, Input]
    batch_rows: int
    wide: int

    def to_bytes(self) -> bytes:
        """The parcel as it is sent."""
        out = io.BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**dispatch_table, MappingProxyType: _plain}
        pickler.dump(self)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, sent: bytes) -> Parcel:
        """The parcel that was sent."""
        found: Parcel = pickle.loads(sent)
        return found


def parcel(run: str, resources: Resources, order: Order, scope: Scope, plan: SqlPlan, batch_rows: int, wide: int) -> Parcel:
    """What workers are told about a run."""
    bare = replace(order, snapshot=_bare(order.snapshot))
    used = resources.root, resources.saves
    return Parcel(run, *used, bare, scope.given, plan.functions, plan.inputs, batch_rows, wide)


def _bare(snapshot: Snapshot) -> Snapshot:
    """A snapshot with nothing but the tables that can be read."""
    nothing: Mapping[str, Any] = MappingProxyType({})
    return replace(snapshot, locations=nothing, tombstones=nothing, definitions=nothing, dropped=nothing)


def settled(plan: SqlPlan, scope: Scope) -> SqlPlan:
    """The same plan, whose functions give the same everywhere.

    Ids are sorted by themselves: whether there are places to sort by depends on what a process has at hand. A text that
    vectors are compared with is turned into one here, once.
    """
    inputs = dict(plan.inputs)

    def near(by: fn.Bm25Score | fn.Distance) -> Any:
        if isinstance(by, fn.Bm25Score) or by.query is None:
            return by
        text = python_value(plan.inputs[by.query], scope.params)
        if not isinstance(text, str):
            return by
        name = f"{by.query} as {by.table_key}.{by.column}"
        if name not in inputs:
            point = query_point(scope, by, text)
            assert point is not None
            kind = scope.catalog.nodes[by.table_key.removeprefix("node:")].properties[by.column].type
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
