"""Decisions about conflicts: which side wins, for all of them, by kind, by type or for single rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from omnigraph_compiler import Catalog
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.merge.conflicts import CONFLICT_KINDS, MergeConflict
from omnigraph_sql.writes.merge.row_states import OURS, THEIRS

if TYPE_CHECKING:
    import pyarrow as pa

Take: TypeAlias = Literal["ours", "theirs"]
SIDES: Final[Mapping[str, int]] = {"ours": OURS, "theirs": THEIRS}
_MEMBERS: Final = ("type", "kind", "id", "take", "values")
_RELATIONS: Final = ("table", "view", "schema")
_HINT: Final = (
    'pass "ours" or "theirs", a mapping such as {"Person": "theirs", ("Person", "ann"): "ours"}, or a table or list of '
    "decisions with the members type, kind, id, take and values"
)


@dataclass(frozen=True, kw_only=True)
class MergeDecision:
    """What a conflict, or all conflicts of a kind or type, are decided to be."""

    take: int
    """The side whose row is taken."""
    values: Mapping[str, Any] | None = None
    """Properties that get these values on top of it."""
    type_name: str | None = None
    """A type or relation, by its name or the key of its table."""
    kind: str | None = None
    id: str | None = None


@dataclass(kw_only=True)
class MergeResolution:
    """All decisions of a merge.

    The most precise one holds: about the row of the conflict, about another row that it is about, about the kind within a
    type, the type, the kind; of two that are equally precise the later one.
    """

    decisions: tuple[MergeDecision, ...] = ()
    used: set[int] = field(default_factory=set)

    def decide(self, conflict: MergeConflict) -> MergeDecision | None:
        """The decision about a conflict; None if there is none."""
        best: tuple[int, int] | None = None
        for place, decision in enumerate(self.decisions):
            rank = _rank(decision, conflict)
            if rank is not None and (best is None or rank >= best[0]):
                best = (rank, place)
        if best is None:
            return None
        self.used.add(best[1])
        for place, decision in enumerate(self.decisions):
            if _rank(decision, conflict) is not None:
                self.used.add(place)  # a broader one that was overruled is no mistake
        return self.decisions[best[1]]

    def check_used(self) -> None:
        """Raise for a decision about a row or relation that is in no conflict."""
        for place, decision in enumerate(self.decisions):
            if place not in self.used and (decision.id is not None or _is_relation(decision.type_name)):
                what = decision.type_name or "any type"
                what = what if decision.id is None else f"{what} `{decision.id}`"
                kind = f" of the kind {decision.kind}" if decision.kind else ""
                text = f"there is no conflict{kind} about {what}"
                raise BadRequest(text, hint="list the conflicts with `merge(..., dry_run=True)` and correct the decisions")


def _is_relation(name: str | None) -> bool:
    """True for the name of a table or view with its schema, and for the key of a table, view or schema."""
    return name is not None and ("." in name or TableKey(name).kind in _RELATIONS)


def _rank(decision: MergeDecision, conflict: MergeConflict) -> int | None:
    """How precisely a decision names a conflict; None if it is about others."""
    if decision.kind not in (None, conflict.kind):
        return None
    is_own = decision.type_name in (None, conflict.type_name, conflict.table_key) and decision.id in (None, conflict.id)
    if not is_own and not _is_member(decision, conflict):
        return None
    is_named = is_own and decision.id is not None
    weights = ((decision.kind, 1), (decision.type_name, 2), (decision.id, 4))
    return sum(weight for name, weight in weights if name is not None) + (8 if is_named else 0)


def _is_member(decision: MergeDecision, conflict: MergeConflict) -> bool:
    """True if a decision names one of the rows that a conflict is about."""
    return decision.id is not None and any(
        row_id == decision.id and decision.type_name in (None, TableKey(key).name, key) for key, row_id in conflict.members
    )


def read_resolution(value: Any, catalog: Catalog) -> MergeResolution:
    """Decisions in any form that a caller may give them. `BadRequest` for anything else."""
    if value is None:
        return MergeResolution()
    if isinstance(value, MergeResolution):
        return MergeResolution(decisions=value.decisions)
    if isinstance(value, str):
        return MergeResolution(decisions=(MergeDecision(take=_take(value)),))
    if isinstance(value, Mapping) and not {"take", "values"} & value.keys():
        return MergeResolution(decisions=tuple(_entry(key, side, catalog) for key, side in value.items()))
    rows = [value] if isinstance(value, Mapping) else _rows(value)
    return MergeResolution(decisions=tuple(_row(row, number, catalog) for number, row in enumerate(rows, 1)))


def _rows(value: Any) -> Iterable[Any]:
    """The rows of a table or list."""
    if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns"):
        return _frame_rows(value)
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        import pyarrow as pa

        return _table_rows(pa.table(value))
    if isinstance(value, (list, tuple)):
        return value
    raise BadRequest(f"`resolve` takes no {type(value).__name__}", hint=_HINT)


def _table_rows(table: pa.Table) -> list[Any]:
    """The rows of a table. In a structure a null could be a value or the absence of one, so it is refused."""
    rows: list[Any] = table.to_pylist()
    for number, row in enumerate(rows, 1):
        values = row.get("values")
        if isinstance(values, dict) and None in values.values():
            names = ", ".join(name for name, value in values.items() if value is None)
            text = f"`values` of decision {number} has nulls ({names}), and a structure cannot say whether they are given"
            raise BadRequest(text, hint='write the values as JSON texts, such as {"age": null}, or pass a list of decisions')
    return rows


def _frame_rows(frame: Any) -> list[Any]:
    """The rows of a data frame of pandas, with values as they are there: a table would give all of them one structure."""
    import pyarrow as pa

    named = frame.rename(columns=str)
    rows: list[Any] = pa.Table.from_pandas(named.drop(columns="values", errors="ignore"), preserve_index=False).to_pylist()
    if "values" in named.columns:
        column = named["values"]
        for row, value, is_absent in zip(rows, column.tolist(), column.isna().tolist(), strict=True):
            row["values"] = None if is_absent else value
    return rows


def _entry(key: Any, side: Any, catalog: Catalog) -> MergeDecision:
    """A decision of a mapping: its key is `*`, a type, a kind of conflict, or a type and an id."""
    if isinstance(key, tuple) and len(key) == 2 and all(isinstance(part, str) for part in key):
        type_name, row_id = _known_type(key[0], catalog), key[1]
        if isinstance(side, Mapping):
            return MergeDecision(take=OURS, values=_values(side), type_name=type_name, id=row_id)
        return MergeDecision(take=_take(side), type_name=type_name, id=row_id)
    if key == "*":
        return MergeDecision(take=_take(side))
    if isinstance(key, str):
        if key in CONFLICT_KINDS:
            return MergeDecision(take=_take(side), kind=key)
        return MergeDecision(take=_take(side), type_name=_known_type(key, catalog))
    raise BadRequest(f"a decision cannot be about {shown(key)}", hint=_HINT)


def _row(row: Any, number: int, catalog: Catalog) -> MergeDecision:
    """A decision of a table or list."""
    place = f"decision {number}"
    if not isinstance(row, Mapping):
        raise BadRequest(f"{place} is {type(row).__name__}, where a row with named members is expected", hint=_HINT)
    for name in row:
        if name not in _MEMBERS:
            hint = did_you_mean(str(name), _MEMBERS) or f"the members are {', '.join(_MEMBERS)}"
            raise BadRequest(f"{place} has the unknown member {shown(name)}", hint=hint)
    type_name, kind, row_id = (row.get(name) for name in ("type", "kind", "id"))
    for name, value in (("type", type_name), ("kind", kind), ("id", row_id)):
        if value is not None and not isinstance(value, str):
            raise BadRequest(f"`{name}` of {place} is {shown(value)}, where a text is expected", hint=_HINT)
    if kind is not None and kind not in CONFLICT_KINDS:
        hint = did_you_mean(kind, CONFLICT_KINDS) or f"the kinds are {', '.join(CONFLICT_KINDS)}"
        raise BadRequest(f"`kind` of {place} is `{kind}`", hint=hint)
    values = row.get("values")
    if values is not None and row_id is None:
        raise BadRequest(f"{place} gives values and names no id", hint="values are given to one row: name its type and id")
    take = row.get("take")
    if take is None and values is None:
        raise BadRequest(f"{place} says neither `take` nor `values`", hint=_HINT)
    return MergeDecision(
        take=OURS if take is None else _take(take),
        values=None if values is None else _values(values),
        type_name=None if type_name is None else _known_type(type_name, catalog),
        kind=kind,
        id=row_id,
    )


def _values(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise BadRequest("the values of a decision are no JSON object", hint=_HINT) from None
    if not isinstance(value, Mapping) or not value:
        raise BadRequest(f"the values of a decision are {shown(value)}, where properties are expected", hint=_HINT)
    return dict(value)


def _take(side: Any) -> int:
    if isinstance(side, str) and side in SIDES:
        return SIDES[side]
    raise BadRequest(f"a decision takes `ours` or `theirs`, not {shown(side)}", hint=_HINT)


def _known_type(name: str, catalog: Catalog) -> str:
    """A type of the schema, the name of a relational table or view with its schema, or a key such as `schema:S`."""
    names = [*catalog.nodes, *catalog.edges]
    keys = {*map(TableKey.of_node, catalog.nodes), *map(TableKey.of_edge, catalog.edges)}
    if name in names or name in keys or _is_relation(name):
        return name
    hint = (
        did_you_mean(name, [*names, *CONFLICT_KINDS])
        or f"the types are {', '.join(names)}; a table or view is named with its schema"
    )
    raise BadRequest(f"there is no type and no kind of conflict `{name}`", hint=hint)
