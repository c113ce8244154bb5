"""The functions and relations of a plan that SQL does not have: traversals, path aggregates, search.

A plan maps names in its SQL to them; binding ties them to the data of one snapshot. In SQL a node or edge variable is a
position in its table. Each has a `wish`, its preferred name in the SQL, the `tables` it reads, and a text for `explain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from omnigraph_compiler import PropType, ir
from omnigraph_sql.comparison import COMPARATORS
from omnigraph_sql.planner.columns import Get, Holds, IdRank, Number, Numbered
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.planner.logical import Branch, Direction, Link, Tree
from omnigraph_sql.planner.traversals import Common, HopFunction, JoinedPath, Reach, Single, both

__all__ = [
    "Among",
    "Bm25Score",
    "Common",
    "CommonWeight",
    "Distance",
    "EdgeGroups",
    "Edges",
    "Exact",
    "Function",
    "FusedTop",
    "Get",
    "Holds",
    "HopFunction",
    "IdRank",
    "JoinedPath",
    "Lookup",
    "Messages",
    "Nodes",
    "Number",
    "Numbered",
    "Reach",
    "ReachWeight",
    "Relation",
    "Search",
    "Single",
    "Support",
    "Text",
    "Top",
    "Traversal",
    "Weight",
    "WeightedCount",
    "WeightedSum",
]

# Relations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nodes:
    """The relation of the positions of a node table whose rows satisfy conditions, in one column `v`."""

    type: str
    conditions: tuple[Simple, ...] = ()

    @property
    def wish(self) -> str:
        return f"nodes_{self.type}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"node:{self.type}",)

    def __str__(self) -> str:
        return f"{self.type} nodes{_with(self.conditions)}" if self.conditions else f"all {self.type} nodes"


@dataclass(frozen=True)
class Lookup:
    """The relation of the positions whose key has the values that are bound, in one column `v`."""

    type: str
    values: tuple[str, ...]
    """Names of the inputs, one for each property of the key."""

    @property
    def wish(self) -> str:
        return f"find_{self.type}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"node:{self.type}",)

    def __str__(self) -> str:
        return f"the {self.type} node with a key, by look-up"


@dataclass(frozen=True)
class Support:
    """Like `Nodes`, for the positions on which all branches can be matched."""

    type: str
    branches: tuple[Branch, ...]
    conditions: tuple[Simple, ...] = ()
    top_k: int | None = None
    """The number of nodes that suffice: those with the most matches, and all that tie with the last."""

    @property
    def wish(self) -> str:
        return f"weighed_{self.type}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"node:{self.type}", *_tables(self.branches))

    def __str__(self) -> str:
        most = "" if self.top_k is None else f"the {self.top_k} "
        often = "" if self.top_k is None else " in most ways"
        return f"{most}{self.type} nodes{_with(self.conditions)} that {_hanging(self.branches)} can be matched on{often}"


@dataclass(frozen=True)
class Edges:
    """The relation of the edges that satisfy conditions: position `e` and positions of the two ends, `s` and `d`."""

    edge: str
    conditions: tuple[Simple, ...] = ()

    @property
    def wish(self) -> str:
        return f"edges_{self.edge}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"edge:{self.edge}",)

    def __str__(self) -> str:
        return f"{'' if self.conditions else 'all '}{self.edge} edges{_with(self.conditions)}, and their ends"


@dataclass(frozen=True)
class EdgeGroups:
    """The relation of edges with some of its columns, and results of functions as further ones.

    The functions are called once for all rows, and not by the engine for each of its batches.
    """

    of: Edges
    places: tuple[str, ...]
    columns: tuple[tuple[str, Get | Number, tuple[str, ...]], ...]
    """The name of each further column, its function, and the columns that are the arguments."""

    @property
    def wish(self) -> str:
        return self.of.wish

    @property
    def tables(self) -> tuple[str, ...]:
        of_functions = (table for _, function, _ in self.columns for table in function.tables)
        return tuple(dict.fromkeys((*self.of.tables, *of_functions)))

    def __str__(self) -> str:
        return f"{self.of}, with {', '.join(str(function) for _, function, _ in self.columns)}"


# Weights ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weight:
    """Position to the number of matches of all branches."""

    type: str
    branches: tuple[Branch, ...]

    @property
    def wish(self) -> str:
        return f"weight_{self.type}"

    @property
    def tables(self) -> tuple[str, ...]:
        return _tables(self.branches)

    def __str__(self) -> str:
        return f"in how many ways {_hanging(self.branches)} can be matched on {self.type}"


@dataclass(frozen=True)
class WeightedSum:
    """Position to the sum of a property over these matches; null where it is null in all of them."""

    type: str
    branches: tuple[Branch, ...]
    of: ir.PropertyRef

    @property
    def wish(self) -> str:
        return f"sum_{self.of.property}_{self.type}"

    @property
    def tables(self) -> tuple[str, ...]:
        return _tables(self.branches)

    def __str__(self) -> str:
        return f"the sum of `{self.of.property}` over the matches of {_hanging(self.branches)} on {self.type}"


@dataclass(frozen=True)
class WeightedCount:
    """Position to the number of these matches in which a property is not null."""

    type: str
    branches: tuple[Branch, ...]
    of: ir.PropertyRef

    @property
    def wish(self) -> str:
        return f"count_{self.of.property}_{self.type}"

    @property
    def tables(self) -> tuple[str, ...]:
        return _tables(self.branches)

    def __str__(self) -> str:
        return f"the matches of {_hanging(self.branches)} on {self.type} that have `{self.of.property}`"


@dataclass(frozen=True)
class CommonWeight:
    """Two positions to the number of matches at their common neighbours."""

    edges: tuple[str, str]
    directions: tuple[Direction, Direction]
    tree: Tree

    @property
    def wish(self) -> str:
        return f"common_weight_{self.edges[0]}_{self.edges[1]}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (*(f"edge:{edge}" for edge in self.edges), *_tables(self.tree.branches))

    def __str__(self) -> str:
        return f"how many common neighbours there are along {both(self.edges, self.directions)}"


@dataclass(frozen=True)
class ReachWeight:
    """Position to the number of matches at the nodes within some hops."""

    link: Link
    turned: bool
    """True if the position is the far end of the clause."""
    tree: Tree

    @property
    def direction(self) -> Direction:
        return self.link.seen_from(self.link.target if self.turned else self.link.source)

    @property
    def wish(self) -> str:
        return f"count_{self.link.edge}_{self.direction}_{self.link.minimum}_{self.link.maximum}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"edge:{self.link.edge}", *_tables(self.tree.branches))

    def __str__(self) -> str:
        hops = f"{self.link.minimum} to {self.link.maximum} hops"
        return f"how many nodes there are within {hops} along {self.link.edge} ({self.direction})"


# Search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Position to whether its text matches a query: an input, or a second argument."""

    function: str
    table_key: str
    column: str
    query: str | None
    edits: str | None

    @property
    def wish(self) -> str:
        return f"{self.function}_{self.column}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"{self.function} in `{self.column}` of {self.table_key}"


@dataclass(frozen=True)
class Bm25Score:
    """Position to the score of its text for a query: an input, or a second argument."""

    table_key: str
    column: str
    query: str | None

    @property
    def wish(self) -> str:
        return f"bm25_{self.column}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"bm25 of `{self.column}` of {self.table_key}"


@dataclass(frozen=True)
class Distance:
    """Position to the distance of its vector from a query (an input, or a second argument); null without a vector."""

    table_key: str
    column: str
    metric: str
    query: str | None

    @property
    def wish(self) -> str:
        return f"distance_{self.column}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"{self.metric} distance of `{self.column}` of {self.table_key}"


@dataclass(frozen=True)
class Top:
    """The best entities of a type: as many as a limit says and all that tie with the last, or all that have a rank.

    As a relation it has the columns `v`, and `r` for the score or distance.
    """

    by: Bm25Score | Distance
    limit: int | None
    of: Nodes | None = None
    """The entities to rank; None for all, or if they are arguments."""
    is_ordered: bool = False
    """True if ties go by id, so that there are not more than the limit says; `p` is then the place of each."""

    @property
    def wish(self) -> str:
        return f"best_{self.by.wish}"

    @property
    def tables(self) -> tuple[str, ...]:
        return self.by.tables

    def __str__(self) -> str:
        text = f"{'all' if self.limit is None else f'the best {self.limit}'} by {self.by}"
        return text if self.of is None else f"{text}, of {self.of}"


@dataclass(frozen=True)
class FusedTop:
    """The best entities of a type by the sum of reciprocal ranks.

    As a relation it has the columns `v`, `r` for the place among them, and `s` for the sum.
    """

    first: Bm25Score | Distance
    second: Bm25Score | Distance
    k: str | None
    limit: int
    of: Nodes | None = None
    """As for `Top`."""

    @property
    def wish(self) -> str:
        return "best_rrf"

    @property
    def tables(self) -> tuple[str, ...]:
        return (*self.first.tables, *self.second.tables)

    def __str__(self) -> str:
        text = f"the best {self.limit} by reciprocal ranks of {self.first} and {self.second}"
        return text if self.of is None else f"{text}, of {self.of}"


@dataclass(frozen=True)
class Among:
    """Rows as lists, one for each variable, to the list of the rows whose entity is among the best of these rows.

    The first variable is the one that is ranked. The result has a field for each variable, in order (`v0`, `v1`…), and the
    columns of the ranking.
    """

    top: Top | FusedTop
    variables: int

    @property
    def wish(self) -> str:
        return f"{self.top.wish}_among"

    @property
    def tables(self) -> tuple[str, ...]:
        return self.top.tables

    def __str__(self) -> str:
        return f"{self.top}, among the rows so far"


# Values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exact:
    """Compares a whole number with a floating one by mathematical value."""

    op: str
    left: PropType
    right: PropType

    @property
    def wish(self) -> str:
        return f"exact_{COMPARATORS[self.op].word}"

    @property
    def tables(self) -> tuple[str, ...]:
        return ()

    def __str__(self) -> str:
        return f"{self.left.scalar} {self.op} {self.right.scalar} by mathematical value"


Relation: TypeAlias = Nodes | Lookup | Support | Edges | EdgeGroups | Top | FusedTop
Messages: TypeAlias = Weight | WeightedSum | WeightedCount | CommonWeight | ReachWeight
Traversal: TypeAlias = HopFunction | Reach | Single | Common | JoinedPath
Search: TypeAlias = Text | Bm25Score | Distance | Among
Function: TypeAlias = Get | IdRank | Number | Numbered | Holds | Traversal | Messages | Search | Exact


def _with(conditions: tuple[Simple, ...]) -> str:
    return f" with {' and '.join(map(str, conditions))}" if conditions else ""


def _hanging(branches: tuple[Branch, ...]) -> str:
    return " and ".join(f"{branch.edge} ({branch.direction}){_with(branch.conditions)}" for branch in branches)


def _tables(branches: tuple[Branch, ...]) -> tuple[str, ...]:
    return tuple(table for branch in branches for table in (f"edge:{branch.edge}", *_tables(branch.tree.branches)))
