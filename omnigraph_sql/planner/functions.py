"""What SQL has no word for: the functions and relations that a plan calls by name.

A plan says what each of them means; an engine binds them to the data of one snapshot. In SQL a node or edge variable is its
position in its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from omnigraph_compiler import PropType

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True)
class Nodes:
    """The relation of all positions of a node table, in one column `v`."""

    type: str


@dataclass(frozen=True)
class Lookup:
    """The relation of the positions whose key has the values that are bound, in one column `v`."""

    type: str
    values: tuple[str, ...]
    """Names of the inputs, one for each property of the key."""


@dataclass(frozen=True)
class Get:
    """Position to the value of a column. Comparable values are alike if they are equal: there is one zero only."""

    table_key: str
    column: str
    type: PropType | None
    """None for the id."""
    comparable: bool = False


@dataclass(frozen=True)
class IdRank:
    """Position to what sorts like its id: its place in the order of ids, or the id."""

    table_key: str


@dataclass(frozen=True)
class Hop:
    """Position to the list of its neighbours; with edges, to pairs of neighbour `d` and edge `e`, one per stored edge."""

    edge: str
    direction: Direction
    with_edges: bool


@dataclass(frozen=True)
class Reach:
    """Position to the list of what is within some hops."""

    edge: str
    direction: Direction
    minimum: int
    maximum: int
    reversed: bool


@dataclass(frozen=True)
class HasAny:
    """Position to whether it has a neighbour."""

    edge: str
    direction: Direction


@dataclass(frozen=True)
class Text:
    """Position to whether its text matches a query: an input, or a second argument."""

    function: str
    table_key: str
    column: str
    query: str | None
    edits: str | None


@dataclass(frozen=True)
class Bm25Score:
    """Position to the score of its text for a query: an input, or a second argument."""

    table_key: str
    column: str
    query: str | None


@dataclass(frozen=True)
class Distance:
    """Position to the distance of its vector from a query (an input, or a second argument); null without a vector."""

    table_key: str
    column: str
    metric: str
    query: str | None


@dataclass(frozen=True)
class Exact:
    """Compares a whole number with a floating one by mathematical value."""

    op: str
    left: PropType
    right: PropType


Relation: TypeAlias = Nodes | Lookup
Function: TypeAlias = Get | IdRank | Hop | Reach | HasAny | Text | Bm25Score | Distance | Exact


def describe(meaning: Relation | Function) -> str:
    """What a name of a plan stands for, in a few words."""
    match meaning:
        case Nodes():
            return f"all {meaning.type} nodes"
        case Lookup():
            return f"the {meaning.type} node with a key, by look-up"
        case Get():
            return f"`{meaning.column}` of {meaning.table_key}"
        case IdRank():
            return f"the place of the id among those of {meaning.table_key}"
        case Hop():
            return f"neighbours along {meaning.edge} ({meaning.direction}{', with edges' if meaning.with_edges else ''})"
        case Reach():
            return f"within {meaning.minimum} to {meaning.maximum} hops along {meaning.edge} ({meaning.direction})"
        case HasAny():
            return f"whether there is a neighbour along {meaning.edge} ({meaning.direction})"
        case Text():
            return f"{meaning.function} in `{meaning.column}` of {meaning.table_key}"
        case Bm25Score():
            return f"bm25 of `{meaning.column}` of {meaning.table_key}"
        case Distance():
            return f"{meaning.metric} distance of `{meaning.column}` of {meaning.table_key}"
        case Exact():
            return f"{meaning.left.scalar} {meaning.op} {meaning.right.scalar} by mathematical value"
