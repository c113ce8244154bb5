"""Three-way merges in plain Python."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tests.simulation.state import ENDS, MEMBERSHIPS, NODES, Branch, Clash, Refused

Side = Literal["ours", "theirs"]
Decision = tuple[str | tuple[str, str], Side]
"""About a type and an id, a type or relation, a kind of conflict, or `*`."""
Decisions = tuple[Decision, ...]
ABSENT: Final = object()
"""What a side has of a row or relation that is not there."""
KINDS: Final = ("table", "view")


@dataclass
class Judge:
    """Decisions about clashes, and which of them were about any."""

    decisions: Decisions
    used: set[object] = field(default_factory=set)

    def side(self, clash: Clash) -> Side | None:
        ranked = [(_rank(about, clash), side) for about, side in self.decisions]
        self.used |= {about for about, _ in self.decisions if _rank(about, clash) is not None}
        fitting = [(rank, side) for rank, side in ranked if rank is not None]
        return max(fitting, key=lambda entry: entry[0])[1] if fitting else None

    def has_strays(self) -> bool:
        """Whether a decision is about a row or relation that is in no conflict."""
        named = [about for about, _ in self.decisions if isinstance(about, tuple) or about.startswith("main.")]
        return any(about not in self.used for about in named)


def _rank(about: str | tuple[str, str], clash: Clash) -> int | None:
    if about == "*":
        return 0
    if about == clash.kind:
        return 1
    if about == clash.type:
        return 2
    if about == (clash.type, clash.id):
        return 4
    return 3 if about in clash.members else None


def merged(start: Branch, bases: list[Branch], ours: Branch, theirs: Branch, decisions: Decisions) -> Branch:
    """The merge of two states; `Refused` with the conflicts that nobody decided.

    A row is compared with the base that has changed it since `start`. If several did, each in its way, it counts as changed
    on both sides.
    """
    judge = Judge(decisions)
    result = copy.deepcopy(ours)
    decided: set[tuple[str, str]] = set()
    clashes = [*_merge_rows(judge, result, decided, start, bases, ours, theirs)]
    clashes += _merge_relations(judge, result, [branch["relations"] for branch in (start, *bases, ours, theirs)])
    while not clashes:
        broken = image_clashes(result, ours, theirs)
        settled = [clash for clash in broken if _settle(judge, clash, result, decided, ours, theirs)]
        if not settled:
            clashes = broken
            break
    if clashes:
        raise Refused("MergeConflicts", clashes=clashes)
    if judge.has_strays():
        raise Refused("BadRequest")
    return result


def _merge_rows(
    judge: Judge,
    result: Branch,
    decided: set[tuple[str, str]],
    start: Branch,
    bases: list[Branch],
    ours: Branch,
    theirs: Branch,
) -> list[Clash]:
    clashes = []
    for name in (*NODES, *ENDS):
        for key in sorted({*ours[name], *theirs[name]}):
            our_row, their_row = ours[name].get(key, ABSENT), theirs[name].get(key, ABSENT)
            base, is_contested = newest(*(branch[name].get(key, ABSENT) for branch in (start, *bases)))
            if our_row == their_row or (their_row == base and not is_contested):
                continue
            if is_contested or our_row != base:
                old = start[name].get(key, ABSENT) if is_contested else base
                clash = Clash(_kind(old, our_row, their_row), name, key, ((name, key),))
                side = judge.side(clash)
                if side is None:
                    clashes.append(clash)
                    continue
                decided.add((name, key))
                if side == "ours":
                    continue
            _put(result[name], key, their_row)
    return clashes


def newest(start: Any, *bases: Any) -> tuple[Any, bool]:
    """The value of several bases that counts, and whether they have changed it in different ways."""
    if len(bases) == 1:
        return bases[0], False
    changed = [base for base in bases if base != start]
    return (changed[0], any(base != changed[0] for base in changed)) if changed else (start, False)


def _kind(base: Any, ours: Any, theirs: Any) -> str:
    if ours is ABSENT or theirs is ABSENT:
        return "DeleteVsUpdate"
    return "DivergentInsert" if base is ABSENT else "DivergentUpdate"


def _put(rows: dict[str, Any], key: str, row: Any) -> None:
    if row is ABSENT:
        rows.pop(key, None)
    else:
        rows[key] = row


# Rules of the merged graph -------------------------------------------------------------------------------------------


def image_clashes(result: Branch, ours: Branch, theirs: Branch) -> list[Clash]:
    """The rules that a merged graph breaks, by table, id and kind."""
    clashes = []
    for name, ends in ENDS.items():
        for key, row in result[name].items():
            for node, end in zip(ends, row, strict=True):
                if end not in result[node]:
                    clashes.append(Clash("OrphanEdge", name, key, ((name, key), (node, end))))
    counts = Counter(start for start, _ in result["Member"].values())
    for start, count in sorted(counts.items()):
        if count > MEMBERSHIPS and start in result["Person"]:
            edges = {key for side in (ours, theirs) for key, row in side["Member"].items() if row[0] == start}
            clashes.append(Clash("CardinalityViolation", "Member", None, tuple(("Member", key) for key in sorted(edges))))
    return sorted(clashes, key=lambda clash: clash.order)


def _settle(judge: Judge, clash: Clash, result: Branch, decided: set[tuple[str, str]], ours: Branch, theirs: Branch) -> bool:
    """Give the rows of a clash to the side that a decision names; False if that changes nothing."""
    side = judge.side(clash)
    is_settled = False
    for name, key in clash.members if side is not None else ():
        our_row, their_row = ours[name].get(key, ABSENT), theirs[name].get(key, ABSENT)
        if (name, key) not in decided and our_row != their_row:
            decided.add((name, key))
            _put(result[name], key, our_row if side == "ours" else their_row)
            is_settled = True
    return is_settled


# Relations -----------------------------------------------------------------------------------------------------------


def _content(relations: dict[str, Any], kind: str, name: str) -> Any:
    """A table, or the view of that name; `ABSENT` if it is not there."""
    content = relations.get(name, ABSENT)
    return content if isinstance(content, tuple if kind == "table" else str) else ABSENT


def _merge_relations(judge: Judge, result: Branch, states: list[dict[str, Any]]) -> list[Clash]:
    start, *bases, ours, theirs = states
    clashes: list[Clash] = []
    taken: set[tuple[str, str]] = set()
    for kind, other in zip(KINDS, reversed(KINDS), strict=True):
        for name in sorted({name for state in states for name in state}):
            base, is_contested = newest(*(_content(state, kind, name) for state in (start, *bases)))
            our, their = _content(ours, kind, name), _content(theirs, kind, name)
            if our == their or (their == base and not is_contested):
                continue
            namesake, before = _content(ours, other, name), newest(*(_content(state, other, name) for state in states[:-2]))
            is_taken = their is not ABSENT and namesake is not ABSENT and (before[1] or namesake != before[0])
            if is_contested or our != base or is_taken:
                clash = Clash("DivergentTable", f"main.{name}", None)
                side = judge.side(clash)
                if side is None:
                    clashes.append(clash)
                if side != "theirs":
                    continue
            taken.add((kind, name))
            if their is not ABSENT and namesake is not ABSENT:
                taken.add((other, name))
    relations = {(kind, name): _content(ours, kind, name) for kind in KINDS for name in ours}
    relations |= {(kind, name): _content(theirs, kind, name) for kind, name in taken}
    there = {key: content for key, content in relations.items() if content is not ABSENT}
    assert len({name for _, name in there}) == len(there), "a table and a view have one name"
    result["relations"] = {name: content for (_, name), content in there.items()}
    return clashes
