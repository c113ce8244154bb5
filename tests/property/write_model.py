"""The rules of writes in plain Python: a graph is a dict of dicts, a write makes a new one or says what is wrong.

Nothing here is clever or fast. Where the language leaves open which of several faults is reported, all of them are named.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
node Port {
  code: String @key
  depth: I32?
  mail: String? @unique
  kind: enum(river, sea) @default("sea")
  @range(depth, 0..100)
}
node Ship { name: String  crew: I32? }
edge Lane: Port -> Port @card(0..2) { nm: I32?  @unique(src, nm) }
edge HomedAt: Ship -> Port @card(1..2)
"""

Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]

PROPERTIES: dict[str, dict[str, str]] = {
    "Port": {"code": "String", "depth": "I32", "mail": "String", "kind": "String"},
    "Ship": {"name": "String", "crew": "I32"},
    "Lane": {"nm": "I32"},
    "HomedAt": {},
}
REQUIRED = {"Port": ("code", "kind"), "Ship": ("name",), "Lane": (), "HomedAt": ()}
DEFAULTS = {"Port": {"kind": "sea"}}
UNIQUE: dict[str, list[tuple[str, ...]]] = {"Port": [("mail",)], "Lane": [("from", "nm")]}
ENDS = {"Lane": ("Port", "Port"), "HomedAt": ("Ship", "Port")}
CARDINALITY = {"Lane": (0, 2), "HomedAt": (1, 2)}
KINDS = ("river", "sea")
I32 = range(-(2**31), 2**31)


class Refused(Exception):
    """A write that fails, with every fault that may be the one reported: a kind, or `ValidationFailed:rule`."""

    def __init__(self, faults: Iterable[str]) -> None:
        super().__init__()
        self.faults = set(faults)


@dataclass(frozen=True)
class Insert:
    type: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Update:
    type: str
    values: Mapping[str, Any]
    where: tuple[str, str, Any]


@dataclass(frozen=True)
class Delete:
    type: str
    where: tuple[str, str, Any]


Statement = Insert | Update | Delete


@dataclass(frozen=True)
class Record:
    """A load record. `data` may hold what does not belong there."""

    type: str
    data: Mapping[str, Any]
    ends: tuple[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        if self.ends is None:
            return {"type": self.type, "data": dict(self.data)}
        return {"edge": self.type, "from": self.ends[0], "to": self.ends[1], "data": dict(self.data)}


@dataclass
class Change:
    """What a write does: rows that are new or changed, ids that go, types that are replaced as a whole."""

    rows: Tables = field(default_factory=lambda: {name: {} for name in PROPERTIES})
    removed: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in PROPERTIES})
    replaced: set[str] = field(default_factory=set)
    nodes: int = 0
    edges: int = 0

    @property
    def is_empty(self) -> bool:
        return not (any(self.rows.values()) or any(self.removed.values()) or self.replaced)


class Model:
    """One branch of a graph."""

    def __init__(self) -> None:
        self.tables: Tables = {name: {} for name in PROPERTIES}
        self._fresh = 0

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def mutate(self, statements: list[Statement]) -> Change:
        deletes = [statement for statement in statements if isinstance(statement, Delete)]
        if deletes and len(deletes) < len(statements):
            raise Refused({"D2"})
        change = Change()
        for statement in statements:
            match statement:
                case Insert():
                    self._insert(statement, change)
                case Update():
                    self._update(statement, change)
                case Delete():
                    self._delete(statement, change)
        self._accept(change)
        return change

    def load(self, records: list[Record], mode: str) -> Change:
        change = Change()
        rows, faults = [], set()
        for record in records:
            try:
                rows.append((record.type, *self._read(record)))
            except Refused as refused:
                faults |= refused.faults
        values = {fault for type_, row, _ in rows for fault in _value_faults(type_, row)}
        # A value of an early record may be noticed before a later record is read.
        _refuse(faults | values if faults else ())
        for type_, row, _ in rows:
            change.rows[type_][row["id"]] = row
        if mode == "overwrite":
            change.replaced = {type_ for type_, _, _ in rows}
            for type_ in change.replaced:
                change.removed[type_] = set(self.tables[type_]) - set(change.rows[type_])
        self._accept(change, self._input_faults(rows, mode) | values)
        return change

    def name_generated(self, type_: str, names: Mapping[str, str]) -> None:
        """Give entities whose ids were left open the ids that they got."""
        self.tables[type_] = {
            names.get(key, key): row | {"id": names.get(key, key)} for key, row in self.tables[type_].items()
        }

    def _new_id(self) -> str:
        self._fresh += 1
        return f"?{self._fresh}"

    # Statements

    def _insert(self, statement: Insert, change: Change) -> None:
        type_, values = statement.type, statement.values
        _refuse(_misfits(type_, values))
        row = {name: values.get(name, DEFAULTS.get(type_, {}).get(name)) for name in PROPERTIES[type_]}
        if type_ in ENDS:
            _refuse("ValidationFailed:required" for end in ("from", "to") if values[end] is None)
            row |= {"from": values["from"], "to": values["to"]}
            change.edges += 1
        else:
            change.nodes += 1
        if type_ == "Port":
            _refuse("ValidationFailed:key" for _ in (1,) if row["code"] is None)
            row["id"] = row["code"]
        else:
            row["id"] = self._new_id()
        change.rows[type_][row["id"]] = row

    def _update(self, statement: Update, change: Change) -> None:
        _refuse(_misfits(statement.type, statement.values))
        current = self.tables[statement.type] | change.rows[statement.type]
        for key, row in current.items():
            if _holds(row, statement.where):
                change.nodes += 1
                change.rows[statement.type][key] = row | dict(statement.values)

    def _delete(self, statement: Delete, change: Change) -> None:
        hits = {key for key, row in self.tables[statement.type].items() if _holds(row, statement.where)}
        new = hits - change.removed[statement.type]
        change.removed[statement.type] |= hits
        if statement.type in ENDS:
            change.edges += len(new)
            return
        change.nodes += len(new)
        for edge, ends in ENDS.items():
            for end, node in zip(("from", "to"), ends, strict=True):
                if node == statement.type:
                    along = {key for key, row in self.tables[edge].items() if row[end] in hits}
                    change.edges += len(along - change.removed[edge])
                    change.removed[edge] |= along

    # Records

    def _read(self, record: Record) -> tuple[Row, bool]:
        """The row of a record, and whether the record chose its id."""
        type_, data = record.type, record.data
        faults = {"BadRequest" for name in data if name not in PROPERTIES[type_] and name != "id"}
        faults |= {"BadRequest" for _ in (1,) if "id" in data and not isinstance(data["id"], str)}
        row = {name: data.get(name, DEFAULTS.get(type_, {}).get(name)) for name in PROPERTIES[type_]}
        for name, scalar in PROPERTIES[type_].items():
            value = row[name]
            if value is None:
                faults |= {"ValidationFailed:required"} if name in REQUIRED[type_] else set()
            elif not (isinstance(value, str) if scalar == "String" else _is_i32(value)):
                faults.add("ValidationFailed:type")
        _refuse(faults)
        if type_ == "Port":
            _refuse("BadRequest" for _ in (1,) if data.get("id", row["code"]) != row["code"])
            return row | {"id": row["code"]}, False
        if record.ends is not None:
            row |= {"from": record.ends[0], "to": record.ends[1]}
        return row | {"id": data["id"] if "id" in data else self._new_id()}, "id" in data

    def _input_faults(self, rows: list[tuple[str, Row, bool]], mode: str) -> set[str]:
        """Faults of the records among themselves, and of appended ids."""
        faults = set()
        for type_ in PROPERTIES:
            mine = [(row, chosen) for each, row, chosen in rows if each == type_]
            rules = [*UNIQUE.get(type_, []), *([("code",)] if type_ == "Port" else [])]
            if any(_repeated([row for row, _ in mine], rule) for rule in rules):
                faults.add("ValidationFailed:unique")
            chosen_ids = Counter(row["id"] for row, chosen in mine if chosen)
            if mode != "merge" and any(count > 1 for count in chosen_ids.values()):
                faults.add("KeyConflict")
            if mode == "append" and any(row["id"] in self.tables[type_] for row, _ in mine):
                faults.add("KeyConflict")
        return faults

    # Integrity

    def _accept(self, change: Change, faults: set[str] | None = None) -> None:
        after = {
            name: {key: row for key, row in rows.items() if key not in change.removed[name]} | change.rows[name]
            for name, rows in self.tables.items()
        }
        values = {fault for name in PROPERTIES for row in change.rows[name].values() for fault in _value_faults(name, row)}
        # What is wrong among the records may be noticed before or after their values.
        _refuse((faults or set()) | values)
        _refuse("ValidationFailed:unique" for name in UNIQUE if _shares(after[name], change.rows[name], UNIQUE[name]))
        _refuse("ValidationFailed:endpoint" for name in ENDS if _dangles(name, after))
        _refuse("ValidationFailed:cardinality" for name in ENDS if self._miscounted(name, change, after))
        self.tables = after

    def _miscounted(self, edge: str, change: Change, after: Tables) -> bool:
        before = self.tables[edge]
        touched = set(change.rows[edge]) | change.removed[edge]
        sources = {row["from"] for row in change.rows[edge].values()}
        sources |= {before[key]["from"] for key in touched if key in before}
        counts = Counter(row["from"] for row in after[edge].values())
        low, high = CARDINALITY[edge]
        return any(not low <= counts[source] <= high for source in sources if source in after[ENDS[edge][0]])


def _refuse(faults: Iterable[str]) -> None:
    found = set(faults)
    if found:
        raise Refused(found)


def _misfits(type_: str, values: Mapping[str, Any]) -> set[str]:
    return {
        "BadRequest"
        for name, value in values.items()
        if value is not None and PROPERTIES[type_].get(name) == "I32" and not _is_i32(value)
    }


def _is_i32(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in I32


def _value_faults(type_: str, row: Row) -> set[str]:
    faults = {"ValidationFailed:required" for name in REQUIRED[type_] if row[name] is None}
    if type_ == "Port":
        faults |= {"ValidationFailed:enum" for _ in (1,) if row["kind"] is not None and row["kind"] not in KINDS}
        faults |= {"ValidationFailed:range" for _ in (1,) if row["depth"] is not None and not 0 <= row["depth"] <= 100}
    return faults


def _tuple(row: Row, rule: tuple[str, ...]) -> tuple[Any, ...] | None:
    values = tuple(row[name] for name in rule)
    return None if None in values else values


def _repeated(rows: Iterable[Row], rule: tuple[str, ...]) -> bool:
    counts = Counter(_tuple(row, rule) for row in rows)
    return any(count > 1 for key, count in counts.items() if key is not None)


def _shares(after: Mapping[str, Row], changed: Mapping[str, Row], rules: list[tuple[str, ...]]) -> bool:
    return any(
        _tuple(row, rule) is not None
        and any(key != other and _tuple(row, rule) == _tuple(after[other], rule) for other in after)
        for rule in rules
        for key, row in changed.items()
    )


def _dangles(edge: str, after: Tables) -> bool:
    source, target = ENDS[edge]
    return any(row["from"] not in after[source] or row["to"] not in after[target] for row in after[edge].values())


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
OPERATORS = tuple(_OPERATORS)


def _holds(row: Row, where: tuple[str, str, Any]) -> bool:
    """Null on either side never matches."""
    name, operator, value = where
    return row[name] is not None and value is not None and _OPERATORS[operator](row[name], value)
