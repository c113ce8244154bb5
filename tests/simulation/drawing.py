"""Operations at random: few names, so that they meet; mostly sound, sometimes not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from omnigraph_sql.choices import LoadMode
from tests.simulation.merging import Decisions, Side
from tests.simulation.model import (
    AppendRows,
    Change,
    CreateBranch,
    CreateTable,
    DefineView,
    DeleteBranch,
    DeleteRows,
    Drop,
    Insert,
    Load,
    Merge,
    Model,
    Operation,
    Pick,
    Record,
    Remove,
    Rename,
    Restore,
    Revert,
    SetAge,
)
from tests.simulation.state import ENDS, Clash, Refused

PEOPLE = [f"p{number}" for number in range(6)]
TEAMS = ["red", "blue", "green"]
BRANCHES = ["draft", "test", "team/a"]
TABLES = ["orders", "items"]
MODES: tuple[LoadMode, ...] = ("append", "merge", "merge", "overwrite")


def draw(random: Random, model: Model) -> Operation:
    kinds: list[tuple[int, Callable[[Random, Model], Operation]]] = [
        (30, _load),
        (12, _insert),
        (10, _set_age),
        (8, _remove),
        (8 if len(model.branches) > 2 else 24, _branch_off),
        (3, lambda random, _: DeleteBranch(random.choice(BRANCHES))),
        (27, _relational),
        (30 if len(model.branches) > 1 else 1, _merge),
        (12, _replay),
    ]
    (chosen,) = random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    return chosen(random, model)


def _branch_off(random: Random, model: Model) -> CreateBranch:
    free = [name for name in BRANCHES if name not in model.branches]
    names = free if free and random.random() < 0.8 else BRANCHES
    return CreateBranch(random.choice(names), random.choice(sorted(model.branches)))


def _branch(random: Random, model: Model) -> str:
    return random.choice(["main", *sorted(model.branches)])


def _insert(random: Random, model: Model) -> Insert:
    return Insert(_branch(random, model), random.choice(PEOPLE), random.choice([None, 1, 2]))


def _set_age(random: Random, model: Model) -> SetAge:
    return SetAge(_branch(random, model), random.choice(PEOPLE), random.randrange(100))


def _remove(random: Random, model: Model) -> Remove:
    return Remove(_branch(random, model), random.choice(PEOPLE))


def _load(random: Random, model: Model) -> Load:
    branch = _branch(random, model)
    here = model.branches[branch]
    mode = random.choice(MODES)
    new = [name for name in PEOPLE if name not in here["Person"]] if mode == "append" else PEOPLE
    people = random.sample(new, min(len(new), random.randrange(3)))
    records = [Record("Person", name, random.choice([None, 7])) for name in people]
    if random.random() < 0.4:
        records += [Record("Team", slug) for slug in random.sample(TEAMS, random.randrange(1, 3))]
    for edge, chance in (("Knows", 0.4), ("Member", 0.3)):
        if random.random() < chance:
            records += _edges(random, edge, [*sorted(here["Person"]), *people])
    return Load(branch, mode, tuple(records or [Record("Person", random.choice(PEOPLE), 9)]))


def edit(random: Random, model: Model, branch: str) -> Change:
    """A sound change of one branch, which publishes a commit."""
    alone = replace(model, branches={"main": model.branches[branch]})
    kinds: list[Callable[[Random, Model], Change]] = [_load, _insert, _set_age, _remove, _relational]
    while True:
        (kind,) = random.choices(kinds, [40, 10, 20, 12, 18])
        change = replace(kind(random, alone), branch=branch)
        with suppress(Refused):
            if model.after(change).commits != model.commits:
                return change


def merge(random: Random, model: Model, source: str, target: str) -> Merge:
    """A merge with decisions about some of its conflicts."""
    operation = Merge(source, target)
    return replace(operation, decisions=_decisions(random, model, operation))


def _merge(random: Random, model: Model) -> Merge:
    source, target = random.choice(sorted(model.branches)), random.choice(sorted(model.branches))
    if source == target and random.random() < 0.95:
        target = random.choice([name for name in sorted(model.branches) if name != source] or ["main"])
    merge = Merge(source, target, delete=random.random() < 0.08)
    return replace(merge, decisions=_decisions(random, model, merge))


def _replay(random: Random, model: Model) -> Revert | Pick | Restore:
    source, target = (random.choice(sorted(model.branches)) for _ in range(2))
    kind = random.choice(["revert", "pick", "restore"])
    of = target if kind == "revert" else source
    back = min(int(random.expovariate(0.5)), len(model.chain(of)) - 1)
    if kind == "restore":
        return Restore(source, back, target)
    replay = Revert(target, back) if kind == "revert" else Pick(source, back, target)
    return replace(replay, decisions=_decisions(random, model, replay))


def _decisions(random: Random, model: Model, operation: Merge | Revert | Pick) -> Decisions:
    """Decisions about the conflicts that there are: of all, of some, or none; seldom about one that there is not."""
    clashes: tuple[Clash, ...] = ()
    try:
        model.after(operation)
    except Refused as refused:
        clashes = refused.clashes
    about: dict[str | tuple[str, str], Side] = {}
    if random.random() < 0.7:
        for clash in clashes:
            names: list[str | tuple[str, str]] = [clash.type, clash.kind]
            if not clash.type.startswith("main."):
                names += clash.members
            if clash.id is not None:
                names += [(clash.type, clash.id)] * 3
            about[random.choice(names)] = _side(random)
    if random.random() < 0.3:
        about["*"] = _side(random)
    if random.random() < 0.03:
        strays: list[str | tuple[str, str]] = [("Person", random.choice(PEOPLE)), f"main.{random.choice(TABLES)}"]
        about[random.choice(strays)] = _side(random)
    return tuple(about.items())


def _side(random: Random) -> Side:
    return random.choice(["ours", "theirs"])


def _edges(random: Random, edge: str, people: list[str]) -> list[Record]:
    ends = ENDS[edge]
    keys = random.sample(range(6), random.randrange(1, 3))
    places = {"Person": people or PEOPLE, "Team": TEAMS}
    start, end = (places[kind] for kind in ends)
    return [Record(edge, f"{edge[0]}{key}", ends=(random.choice(start), random.choice(end))) for key in keys]


def _relational(random: Random, model: Model) -> Change:
    branch, name = _branch(random, model), random.choice(TABLES)
    numbers = tuple(random.sample(range(10), random.randrange(1, 4)))
    possible: list[Change] = [
        CreateTable(branch, name, numbers, replace=random.random() < 0.5),
        CreateTable(branch, name, numbers, replace=False),
        AppendRows(branch, name, numbers),
        AppendRows(branch, name, numbers),
        DeleteRows(branch, name, random.randrange(10)),
        DefineView(branch, name, f"select {numbers[0]} as n"),
        Rename(branch, name, random.choice(TABLES)),
        Drop(branch, name),
    ]
    return random.choice(possible)
