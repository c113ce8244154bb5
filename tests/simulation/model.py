"""A graph with branches in plain Python: operations as values, and what each of them makes of the graph.

A branch is a dict from type or `relations` to what is there. Nothing here knows the engine.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph_sql.choices import LoadMode
from tests.simulation.merging import Decisions, merged
from tests.simulation.state import ENDS, MEMBERSHIPS, Branch, Refused, empty


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


@dataclass(frozen=True)
class Merge:
    """Merges a branch, with decisions: by a type and an id, by a kind of conflict, by a type, or `*` for all."""

    source: str
    branch: str
    decisions: Decisions = ()
    delete: bool = False


@dataclass(frozen=True)
class Revert:
    """Takes back a commit: the one so many steps below the head of a branch."""

    branch: str
    back: int
    decisions: Decisions = ()


@dataclass(frozen=True)
class Pick:
    """Applies the commit so many steps below the head of another branch."""

    source: str
    back: int
    branch: str
    decisions: Decisions = ()


@dataclass(frozen=True)
class Restore:
    """Gives a branch the rows that another one had after the commit so many steps below its head."""

    source: str
    back: int
    branch: str


Change = Load | Insert | SetAge | Remove | CreateTable | AppendRows | DeleteRows | DefineView | Rename | Drop
"""A change of the rows or relations of one branch."""
Operation = Change | CreateBranch | DeleteBranch | Merge | Revert | Pick | Restore


@dataclass(frozen=True)
class Published:
    """A commit: the state that it made, the commits that it stands on, and its branch."""

    state: Branch
    parents: tuple[int, ...]
    on: int | None
    """The incarnation of its branch; None for main."""


@dataclass
class Model:
    """What every branch shows, which branch it was made from, and the commits behind it."""

    branches: dict[str, Branch] = field(default_factory=lambda: {"main": empty()})
    parents: dict[str, str] = field(default_factory=dict)
    commits: tuple[Published, ...] = (Published(empty(), (), None),)
    """All commits; a later one has a higher number."""
    heads: dict[str, int] = field(default_factory=lambda: {"main": 0})
    births: dict[str, int] = field(default_factory=dict)
    """Which incarnation each branch is."""
    born: int = 0

    def after(self, operation: Operation) -> Model:
        """The model once the operation is done; `Refused` when it must fail."""
        new = replace(
            self,
            branches=copy.deepcopy(self.branches),
            parents=dict(self.parents),
            heads=dict(self.heads),
            births=dict(self.births),
        )
        match operation:
            case CreateBranch():
                new._create_branch(operation)
            case DeleteBranch():
                new._delete_branch(operation)
            case Merge():
                new._merge(operation)
            case Revert() | Pick() | Restore():
                new._replay(operation)
            case _:
                branch = new.branches.get(operation.branch)
                if branch is None:
                    raise Refused("NotFound")
                if _change(branch, operation):
                    new._publish(operation.branch)
        return new

    def restated(self, branch: str) -> Model:
        """The model with a commit that changes nothing, such as the undo of a crashed write."""
        new = replace(self, heads=dict(self.heads))
        new._publish(branch)
        return new

    def chain(self, branch: str) -> list[int]:
        """The commits of a branch from its head down, over first parents."""
        numbers = [self.heads[branch]]
        while self.commits[numbers[-1]].parents:
            numbers.append(self.commits[numbers[-1]].parents[0])
        return numbers

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

    def _publish(self, branch: str, *merged: int) -> None:
        commit = Published(copy.deepcopy(self.branches[branch]), (self.heads[branch], *merged), self.births.get(branch))
        self.heads[branch] = len(self.commits)
        self.commits = (*self.commits, commit)

    def _create_branch(self, operation: CreateBranch) -> None:
        if operation.name in self.branches:
            raise Refused("Conflict")
        if operation.base not in self.branches:
            raise Refused("NotFound")
        self.branches[operation.name] = copy.deepcopy(self.branches[operation.base])
        self.parents[operation.name] = operation.base
        self.heads[operation.name] = self.heads[operation.base]
        self.born += 1
        self.births[operation.name] = self.born

    def _delete_branch(self, operation: DeleteBranch) -> None:
        if operation.name not in self.branches:
            raise Refused("NotFound")
        if operation.name in self.parents.values():
            raise Refused("Conflict")
        for part in (self.branches, self.parents, self.heads, self.births):
            del part[operation.name]

    # Merges

    def _merge(self, operation: Merge) -> None:
        if not {operation.source, operation.branch} <= self.branches.keys():
            raise Refused("NotFound")
        if operation.source == operation.branch or (operation.delete and operation.source == "main"):
            raise Refused("BadRequest")
        ours, theirs = self.heads[operation.branch], self.heads[operation.source]
        bases = self._latest(self._ancestors(ours) & self._ancestors(theirs))
        if bases != {theirs}:
            states = [self._readable(base) for base in sorted(bases)]
            start = states[0]
            if len(states) > 1:
                common = set.intersection(*(self._ancestors(base) for base in bases))
                start = self._readable(max(self._latest(common)))
            sides = self.commits[ours].state, self.commits[theirs].state
            self.branches[operation.branch] = merged(start, states, *sides, operation.decisions)
            self._publish(operation.branch, theirs)
        if operation.delete and operation.source not in self.parents.values():
            self._delete_branch(DeleteBranch(operation.source))

    def _replay(self, operation: Revert | Pick | Restore) -> None:
        source = operation.branch if isinstance(operation, Revert) else operation.source
        if not {source, operation.branch} <= self.branches.keys():
            raise Refused("NotFound")
        number = self.chain(source)[operation.back]
        commit, ours = self.commits[number], self.branches[operation.branch]
        after = self._alive(number)
        if isinstance(operation, Restore):
            self.branches[operation.branch] = copy.deepcopy(after)
        elif not commit.parents:
            raise Refused("BadRequest")
        else:
            before = self._alive(commit.parents[0])
            base, theirs = (after, before) if isinstance(operation, Revert) else (before, after)
            self.branches[operation.branch] = merged(base, [base], ours, theirs, operation.decisions)
        if self.branches[operation.branch] != ours:
            self._publish(operation.branch)

    def _alive(self, number: int) -> Branch:
        """The state of a commit, whose branch must still be there."""
        commit = self.commits[number]
        if commit.on is not None and commit.on not in self.births.values():
            raise Refused("NotFound")
        return commit.state

    def _readable(self, base: int) -> Branch:
        """The state of a base of a merge: that of a fast-forward to it is the same."""
        for number, commit in enumerate(self.commits):
            is_forward = commit.parents[1:] == (base,) and commit.parents[0] in self._ancestors(base)
            if number == base or is_forward:
                try:
                    return self._alive(number)
                except Refused:
                    continue
        if base in self.heads.values():
            return self.commits[base].state
        raise Refused("VersionReclaimed")

    def _ancestors(self, number: int) -> set[int]:
        reached, waiting = set[int](), [number]
        while waiting:
            number = waiting.pop()
            if number not in reached:
                reached.add(number)
                waiting += self.commits[number].parents
        return reached

    def _latest(self, numbers: set[int]) -> set[int]:
        """Of some commits, those that none of the others descends from."""
        return numbers - {older for number in numbers for older in self._ancestors(number) - {number}}


def _change(branch: Branch, operation: Operation) -> bool:
    """Change a branch; False if there was nothing to do, so that nothing is published."""
    people = branch["Person"]
    match operation:
        case Load():
            _load(branch, operation)
        case Insert():
            people[operation.name] = operation.age
        case SetAge():
            if operation.name not in people:
                return False
            people[operation.name] = operation.age
        case Remove():
            if operation.name not in people:
                return False
            del people[operation.name]
            for name in ENDS:
                branch[name] = {key: ends for key, ends in branch[name].items() if operation.name not in _people(name, ends)}
        case _:
            before = dict(branch["relations"])
            _change_relations(branch["relations"], operation)
            return branch["relations"] != before or isinstance(operation, CreateTable | AppendRows)
    return True


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
