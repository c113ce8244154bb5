"""A graph with branches in plain Python: operations as values, and what each of them makes of the graph.

A branch is a dict from type or `relations` to what is there. Nothing here knows the engine.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from omnigraph_sql.choices import LoadMode

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { slug: String @key }
edge Knows: Person -> Person
edge Member: Person -> Team @card(0..2)
"""
NODES = ("Person", "Team")
ENDS = {"Knows": ("Person", "Person"), "Member": ("Person", "Team")}
MEMBERSHIPS = 2

Branch = dict[str, dict[str, Any]]


class Refused(Exception):
    """An operation that must fail, with the kinds of errors it may fail with."""

    def __init__(self, *kinds: str) -> None:
        super().__init__(*kinds)
        self.kinds = set(kinds)


@dataclass(frozen=True)
class Record:
    """A node with its age, or an edge with its ends."""

    type: str
    id: str
    age: int | None = None
    ends: tuple[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        if self.ends is not None:
            return {"edge": self.type, "from": self.ends[0], "to": self.ends[1], "data": {"id": self.id}}
        data = {"slug": self.id} if self.type == "Team" else {"name": self.id, "age": self.age}
        return {"type": self.type, "data": data}


@dataclass(frozen=True)
class Load:
    branch: str
    mode: LoadMode
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Insert:
    branch: str
    name: str
    age: int | None


@dataclass(frozen=True)
class SetAge:
    branch: str
    name: str
    age: int


@dataclass(frozen=True)
class Remove:
    """Deletes a person with all edges."""

    branch: str
    name: str


@dataclass(frozen=True)
class CreateBranch:
    name: str
    base: str


@dataclass(frozen=True)
class DeleteBranch:
    name: str


@dataclass(frozen=True)
class CreateTable:
    branch: str
    name: str
    rows: tuple[int, ...]
    replace: bool


@dataclass(frozen=True)
class AppendRows:
    branch: str
    name: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class DeleteRows:
    """Removes the rows with a number."""

    branch: str
    name: str
    number: int


@dataclass(frozen=True)
class DefineView:
    branch: str
    name: str
    sql: str


@dataclass(frozen=True)
class Rename:
    branch: str
    name: str
    new_name: str


@dataclass(frozen=True)
class Drop:
    branch: str
    name: str


Operation = (
    Load
    | Insert
    | SetAge
    | Remove
    | CreateBranch
    | DeleteBranch
    | CreateTable
    | AppendRows
    | DeleteRows
    | DefineView
    | Rename
    | Drop
)


def empty() -> Branch:
    return {name: {} for name in (*NODES, *ENDS, "relations")}


@dataclass
class Model:
    """What every branch shows, and which branch it was made from."""

    branches: dict[str, Branch] = field(default_factory=lambda: {"main": empty()})
    parents: dict[str, str] = field(default_factory=dict)

    def after(self, operation: Operation) -> Model:
        """The model once the operation is done; `Refused` when it must fail."""
        new = Model(copy.deepcopy(self.branches), dict(self.parents))
        match operation:
            case CreateBranch():
                new._create_branch(operation)
            case DeleteBranch():
                new._delete_branch(operation)
            case _:
                branch = new.branches.get(operation.branch)
                if branch is None:
                    raise Refused("NotFound")
                _change(branch, operation)
        return new

    def tables_of(self, operation: Operation) -> int:
        """How many tables an operation moves."""
        match operation:
            case Load():
                return len({record.type for record in operation.records})
            case Remove():
                branch = self.branches[operation.branch]
                along = [name for name in ENDS if any(operation.name in ends for ends in branch[name].values())]
                return 1 + len(along) if operation.name in branch["Person"] else 0
            case Insert() | SetAge() | CreateTable() | AppendRows() | DeleteRows():
                return 1
            case Rename():
                return int(isinstance(self.branches[operation.branch]["relations"].get(operation.name), tuple))
            case _:
                return 0

    def _create_branch(self, operation: CreateBranch) -> None:
        if operation.name in self.branches:
            raise Refused("Conflict")
        if operation.base not in self.branches:
            raise Refused("NotFound")
        self.branches[operation.name] = copy.deepcopy(self.branches[operation.base])
        self.parents[operation.name] = operation.base

    def _delete_branch(self, operation: DeleteBranch) -> None:
        if operation.name not in self.branches:
            raise Refused("NotFound")
        if operation.name in self.parents.values():
            raise Refused("Conflict")
        del self.branches[operation.name], self.parents[operation.name]


def _change(branch: Branch, operation: Operation) -> None:
    people = branch["Person"]
    match operation:
        case Load():
            _load(branch, operation)
        case Insert():
            people[operation.name] = operation.age
        case SetAge():
            people.update({name: operation.age for name in people if name == operation.name})
        case Remove():
            people.pop(operation.name, None)
            for name in ENDS:
                branch[name] = {key: ends for key, ends in branch[name].items() if operation.name not in _people(name, ends)}
        case _:
            _change_relations(branch["relations"], operation)


def _people(edge: str, ends: tuple[str, str]) -> tuple[str, ...]:
    return ends if edge == "Knows" else ends[:1]


def _load(branch: Branch, load: Load) -> None:
    faults = set()
    if load.mode == "append" and any(record.id in branch[record.type] for record in load.records):
        faults.add("KeyConflict")
    if load.mode == "overwrite":
        branch.update({record.type: {} for record in load.records})
    for record in load.records:
        branch[record.type][record.id] = record.ends if record.type in ENDS else record.age
    for name, (source, target) in ENDS.items():
        if any(start not in branch[source] or end not in branch[target] for start, end in branch[name].values()):
            faults.add("ValidationFailed")
    touched = {record.ends[0] for record in load.records if record.ends is not None and record.type == "Member"}
    starts = [start for start, _ in branch["Member"].values()]
    if any(starts.count(start) > MEMBERSHIPS for start in touched):
        faults.add("ValidationFailed")
    if faults:
        raise Refused(*faults)


def _change_relations(relations: dict[str, Any], operation: Operation) -> None:
    """A table is a sorted tuple of numbers, a view its text."""
    match operation:
        case CreateTable():
            if operation.name in relations and not operation.replace:
                raise Refused("Conflict")
            relations[operation.name] = tuple(sorted(operation.rows))
        case AppendRows():
            relations[operation.name] = tuple(sorted([*_table(relations, operation.name), *operation.rows]))
        case DeleteRows():
            rows = _table(relations, operation.name)
            relations[operation.name] = tuple(row for row in rows if row != operation.number)
        case DefineView():
            relations[operation.name] = operation.sql
        case Rename():
            if operation.name not in relations:
                raise Refused("NotFound")
            if operation.new_name in relations:
                raise Refused("Conflict")
            relations[operation.new_name] = relations.pop(operation.name)
        case Drop():
            relations.pop(operation.name, None)


def _table(relations: dict[str, Any], name: str) -> tuple[int, ...]:
    if name not in relations:
        raise Refused("NotFound")
    if isinstance(relations[name], str):
        raise Refused("BadRequest")
    found: tuple[int, ...] = relations[name]
    return found
