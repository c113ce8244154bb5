"""What a branch of the model shows, and how an operation fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

    def __init__(self, *kinds: str, clashes: Sequence[Clash] = ()) -> None:
        super().__init__(*kinds)
        self.kinds = set(kinds)
        self.clashes = tuple(clashes)
        """The conflicts of a merge."""


@dataclass(frozen=True)
class Clash:
    """A conflict of a merge: its kind, the type or relation, the id, and the rows that a decision about it is about."""

    kind: str
    type: str
    id: str | None
    members: tuple[tuple[str, str], ...] = ()

    @property
    def order(self) -> tuple[str, str, str]:
        room = "node" if self.type in NODES else "edge"
        return f"{room}:{self.type}", self.id or "", self.kind


def empty() -> Branch:
    return {name: {} for name in (*NODES, *ENDS, "relations")}
