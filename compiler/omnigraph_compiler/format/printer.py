"""The layout engine of the formatter.

A caller prints line-level elements in source order, each with its source range. Comments are placed by position: a comment
on the line of the preceding element stays there, a comment inside an element moves to the end of its line, any other gets
a line of its own. Single blank lines between elements are preserved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from omnigraph_compiler.lexer import comments

_LINE_END = re.compile(r"\r+\n")

WIDTH = 100
INDENT = "  "


class Element(NamedTuple):
    """Text to print, and the source range it replaces."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Printer:
    """Collects the lines of one formatted text."""

    source: str
    _: KW_ONLY
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    pending: list[tuple[int, int]] = field(init=False)
    """Comments not printed yet, the next one last."""
    reached: int = 0
    """End of the source printed so far."""
    block_start: bool = True
    separate: bool = False
    """True if a blank line precedes the next line."""
    sealed: bool = False
    """True if the last line ends in a `//` comment, so that nothing can be appended to it."""

    def __post_init__(self) -> None:
        self.pending = comments(self.source)[::-1]

    def line(self, text: str, start: int, end: int) -> None:
        """Print one element on a line of its own."""
        self._flush(start)
        self._emit(text, start)
        self._advance(end)

    def open(self, text: str, start: int, end: int) -> None:
        """Print a line that opens an indented block; `end` is the end of its bracket."""
        self._flush(start)
        self._emit(text, start)
        self.enter(end)

    def enter(self, end: int) -> None:
        """Indent the following lines; the last line already ends in an opening bracket."""
        self.depth += 1
        self.block_start = True
        self._advance(end)

    def extend(self, end: int) -> None:
        """Extend the source range of the line just printed to `end`."""
        self._advance(end)

    def close(self, text: str, start: int, end: int) -> None:
        """Print the line that closes a block."""
        self._flush(start)
        self.depth -= 1
        self.block_start, self.separate = True, False  # no blank line before a closing bracket
        self._emit(text, start)
        self._advance(end)

    def group(
        self,
        head: str,
        brackets: str,
        items: Sequence[Element],
        start: int,
        end: int,
        tail: str = "",
        *,
        last_comma: bool,
        inner: int = 0,
    ) -> None:
        """Print a bracketed list: on one line if it fits and contains no comment, else one item per line."""
        opening, closing = brackets[0], brackets[1]
        pad = " " if opening == "{" and items else ""
        inline = f"{head}{opening}{pad}{', '.join(item.text for item in items)}{pad}{closing}{tail}"
        if not items or (not self.has_comment(start, end) and self._fits(inline)):
            self._flush(start)
            self._emit(inline, start)
            self.depth += inner  # comments on a line of their own belong to the following block
            self._advance(end)
            self.depth -= inner
            return
        self.open(f"{head}{opening}", start, self._bracket_end(opening, start, items[0].start))
        for number, item in enumerate(items):
            comma = "," if last_comma or number < len(items) - 1 else ""
            self.line(item.text + comma, item.start, item.end)
        self.close(f"{closing}{tail}", end - 1, end)

    def has_comment(self, start: int, end: int) -> bool:
        """True if a comment that is not printed yet begins in a range."""
        for comment in reversed(self.pending):
            if comment[0] >= start:
                return comment[0] < end
        return False

    def blank(self) -> None:
        """Put a blank line before the next line, unless it is the first."""
        self.separate = bool(self.lines)

    def result(self) -> str:
        self._flush(len(self.source) + 1)
        return "\n".join(self.lines) + "\n" if self.lines else ""

    def _fits(self, text: str) -> bool:
        return len(INDENT) * self.depth + len(text.split("\n", 1)[0]) <= WIDTH

    def _bracket_end(self, opening: str, start: int, before: int) -> int:
        """Return the end of the opening bracket. Only spaces and comments separate it from the first item."""
        inside = [comment for comment in self.pending if start <= comment[0] < before]
        position = before
        while position > start:
            position -= 1
            comment = next(((first, last) for first, last in inside if first <= position < last), None)
            if comment is not None:
                position = comment[0]
            elif self.source[position] == opening:
                return position + 1
        return start

    def _emit(self, text: str, start: int) -> None:
        gap = self.source.count("\n", self.reached, start) > 1
        if self.separate or (gap and not self.block_start):
            self.lines.append("")
        self.separate = self.block_start = False
        self.lines.append(INDENT * self.depth + text)
        self.sealed = text.startswith("//")

    def _advance(self, end: int) -> None:
        """Mark the source as printed up to `end`; append the comments before it to the last line."""
        self.reached = max(self.reached, end)
        while self.pending and self.pending[-1][0] < end:
            text = self._comment(*self.pending.pop())
            if self.sealed:
                self.lines.append(INDENT * self.depth + text)
            else:
                self.lines[-1] += f" {text}"
            self.sealed = text.startswith("//")

    def _flush(self, before: int) -> None:
        """Print the comments before an offset."""
        while self.pending and self.pending[-1][0] < before:
            start, end = self.pending.pop()
            text = self._comment(start, end)
            if self.lines and not self.sealed and "\n" not in self.source[self.reached : start]:
                self.lines[-1] += f" {text}"
                self.sealed = text.startswith("//")
            elif self.separate and self._belongs_above(start, end, before):
                self.lines.append(INDENT * self.depth + text)
                self.sealed = text.startswith("//")
            else:
                self._emit(text, start)
            self.reached = max(self.reached, end)

    def _belongs_above(self, start: int, end: int, before: int) -> bool:
        """True if a comment directly follows the last line, and a blank line follows it and its adjacent comments."""
        if self.source.count("\n", self.reached, start) > 1:
            return False
        for next_start, next_end in reversed(self.pending):
            if next_start >= before or self.source.count("\n", end, next_start) > 1:
                break
            end = next_end
        following = next((first for first, _ in reversed(self.pending) if first >= end), before)
        return self.source.count("\n", end, min(following, before)) > 1

    def _comment(self, start: int, end: int) -> str:
        return _LINE_END.sub("\n", self.source[start:end]).rstrip()
