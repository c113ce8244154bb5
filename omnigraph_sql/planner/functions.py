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
    """Position to the place of its id in the order of ids."""

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
class Top:
    """The best entities of a type: as many as a limit says and all that tie with the last, or all that have a rank.

    As a relation it has the columns `v`, and `r` for the score or distance.
    """

    by: Bm25Score | Distance
    limit: int | None


@dataclass(frozen=True)
class FusedTop:
    """The best entities of a type by the sum of reciprocal ranks.

    As a relation it has the columns `v`, `r` for the place among them, and `s` for the sum.
    """

    first: Bm25Score | Distance
    second: Bm25Score | Distance
    k: str | None
    limit: int


@dataclass(frozen=True)
class Among:
    """Rows as lists, one for each variable, to the list of the rows whose entity is among the best of these rows.

    The first variable is the one that is ranked. The result has a field for each variable, in order (`v0`, `v1`…), and the
    columns of the ranking.
    """

    top: Top | FusedTop
    variables: int


@dataclass(frozen=True)
class Exact:
    """Compares a whole number with a floating one by mathematical value."""

    op: str
    left: PropType
    right: PropType


Relation: TypeAlias = Nodes | Lookup | Top | FusedTop
Function: TypeAlias = Get | IdRank | Hop | Reach | HasAny | Text | Bm25Score | Distance | Among | Exact


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
        case Top() | FusedTop() | Among():
            return _best(meaning)
        case Exact():
            return f"{meaning.left.scalar} {meaning.op} {meaning.right.scalar} by mathematical value"


def _best(meaning: Top | FusedTop | Among) -> str:
    if isinstance(meaning, Among):
        return f"{_best(meaning.top)}, among the rows so far"
    if isinstance(meaning, FusedTop):
        return f"the best {meaning.limit} by reciprocal ranks of {describe(meaning.first)} and {describe(meaning.second)}"
    return f"{'all' if meaning.limit is None else f'the best {meaning.limit}'} by {describe(meaning.by)}"
