"""Tables: ruled on a terminal, aligned text elsewhere."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from omnigraph_sql.cli import output

_GAP = "  "
_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A heading, and how the cells below it stand."""

    title: str
    right: bool = False
    whole: bool = False
    """Never broken, however narrow the terminal: something people copy."""


def write_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> None:
    """Write a table to standard output."""
    if output.wants_colour(sys.stdout):
        _write_ruled(columns, [[one_line(cell) for cell in row] for row in rows])
    else:
        LongTable(columns).write(rows)


class LongTable:
    """A table on standard output whose rows come in portions. Its columns are as wide as those so far need."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._columns = columns
        self._widths = [0 for _ in columns]
        self._begun = False

    def write(self, rows: Sequence[Sequence[str]]) -> None:
        """Write some rows, the first time below the headings."""
        from rich.cells import cell_len

        lines: list[Sequence[str]] = [[one_line(cell) for cell in row] for row in rows]
        heading = [] if self._begun else [[column.title for column in self._columns]]
        for at in range(len(self._columns)):
            self._widths[at] = max([self._widths[at], *(cell_len(line[at]) for line in (*heading, *lines))])
        self._begun = True
        output.write_styled([("bold", self._padded(line))] for line in heading)
        output.write("".join(f"{self._padded(line)}\n" for line in lines))

    def _padded(self, line: Sequence[str]) -> str:
        from rich.cells import cell_len

        pieces = []
        for cell, width, column in zip(line, self._widths, self._columns, strict=True):
            space = " " * (width - cell_len(cell))
            pieces.append(space + cell if column.right else cell + space)
        return _GAP.join(pieces).rstrip()


def one_line(text: str) -> str:
    """The text with everything that would move the cursor replaced by a space."""
    return "".join(character if character.isprintable() else " " for character in text)


def count(number: int, one: str, more: str | None = None) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def moment(microseconds: int) -> str:
    """A formatted time, in UTC."""
    time = datetime.datetime.fromtimestamp(microseconds // 1_000_000, datetime.UTC)
    return time.strftime("%Y-%m-%d %H:%M:%S")


def age(microseconds: int) -> str:
    """How long ago something was, in whole years, days, hours, minutes or seconds."""
    seconds = max(microseconds, 0) // 1_000_000
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return "now"


def _write_ruled(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        width = len(column.title)
        table.add_column(column.title, justify=justify, no_wrap=column.whole, overflow="fold", min_width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout, force_terminal=True, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    output.write(captured.get())
