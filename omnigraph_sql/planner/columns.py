"""Functions of a plan that are about the columns of one table: values by position, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_compiler import PropType
from omnigraph_sql.planner.conditions import Simple


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
        return f"{_type(self.table_key)}_{self.column}{'_key' if self.comparable else ''}"

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
        return f"{_type(self.table_key)}_rank"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"the place of the id among those of {self.table_key}"


@dataclass(frozen=True)
class Number:
    """Position to the number of its text among the different texts of a column, in their order; null for none."""

    table_key: str
    column: str

    @property
    def wish(self) -> str:
        return f"{_type(self.table_key)}_{self.column}_number"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"the number of `{self.column}` of {self.table_key}"


@dataclass(frozen=True)
class Numbered:
    """The number of a text to the text."""

    table_key: str
    column: str

    @property
    def wish(self) -> str:
        return f"{_type(self.table_key)}_{self.column}_numbered"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"the `{self.column}` of {self.table_key} with a number"


@dataclass(frozen=True)
class Holds:
    """Position to whether its row satisfies conditions; null where a value is missing."""

    table_key: str
    conditions: tuple[Simple, ...]

    @property
    def wish(self) -> str:
        return f"{_type(self.table_key)}_with_{'_'.join(dict.fromkeys(each.property for each in self.conditions))}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table_key,)

    def __str__(self) -> str:
        return f"whether {self.table_key} has {' and '.join(map(str, self.conditions))}"


def _type(table_key: str) -> str:
    return table_key.partition(":")[2]
