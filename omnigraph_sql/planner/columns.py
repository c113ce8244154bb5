"""Functions of a plan over the columns of one table: values, dictionary codes and conditions by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from omnigraph_compiler import PropType
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.table_keys import TableKey


@dataclass(frozen=True)
class Get:
    """Position to the value of a column. Comparable values are alike if they are equal: there is one zero only."""

    table_key: str
    column: str
    type: PropType | None
    """None for the id."""
    comparable: bool = False

    @property
    def wish(self) -> str:
        return f"{TableKey(self.table_key).name}_{self.column}{'_key' if self.comparable else ''}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"`{self.column}` of {self.table_key}"


@dataclass(frozen=True)
class IdRank:
    """Position to what sorts like its id: its place in the order of ids, or the id."""

    table_key: str

    @property
    def wish(self) -> str:
        return f"{TableKey(self.table_key).name}_rank"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"the place of the id among those of {self.table_key}"


Place: TypeAlias = tuple[str, str]
"""The key of a table, and a column of it."""


@dataclass(frozen=True)
class Number:
    """Positions to the numbers of their texts among the different texts of a column, in their order; null for none.

    The numbers of several columns are one number.
    """

    places: tuple[Place, ...]

    @property
    def wish(self) -> str:
        return f"{_wish(self.places)}_number"

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for key, _ in self.places))

    def __str__(self) -> str:
        return f"the number of {_shown(self.places)}"


@dataclass(frozen=True)
class Numbered:
    """The number of a text, or of several, to one of them."""

    places: tuple[Place, ...]
    which: int

    @property
    def wish(self) -> str:
        return f"{_wish((self.places[self.which],))}_numbered"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.places[self.which][0],)

    def __str__(self) -> str:
        key, column = self.places[self.which]
        return f"the `{column}` of {key} with a number"


def _wish(places: tuple[Place, ...]) -> str:
    return "_".join(f"{TableKey(key).name}_{column}" for key, column in places)


def _shown(places: tuple[Place, ...]) -> str:
    return " and ".join(f"`{column}` of {key}" for key, column in places)


@dataclass(frozen=True)
class Holds:
    """Position to whether its row satisfies conditions; null where a value is missing."""

    table_key: str
    conditions: tuple[Simple, ...]

    @property
    def wish(self) -> str:
        properties = dict.fromkeys(condition.property for condition in self.conditions)
        return f"{TableKey(self.table_key).name}_with_{'_'.join(properties)}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"whether {self.table_key} has {' and '.join(map(str, self.conditions))}"
