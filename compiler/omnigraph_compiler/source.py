"""Source text and positions: conversion of character offsets to bytes, lines and columns."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of byte offsets into the UTF-8 source."""

    start: int
    end: int

    def to_dict(self) -> dict[str, int]:
        return {"start": self.start, "end": self.end}


@dataclass(frozen=True, slots=True)
class Position:
    """1-based line and column; columns count characters, not bytes."""

    line: int
    column: int


class SourceText:
    """A text with lazily computed line starts. Parsers work in character offsets; callers see bytes, lines and columns."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        column = offset - self._line_starts[line - 1] + 1
        if line == 1 and self.text.startswith(BOM) and column > 1:
            column -= 1
        return Position(line, column)

    def byte_span(self, start: int, end: int) -> Span:
        """Return the byte range of a character range; an empty range is widened by one byte."""
        first = _byte_length(self.text[:start])
        last = first + _byte_length(self.text[start:end])
        return Span(first, max(last, first + 1))

    def line_text(self, line: int) -> str:
        starts = self._line_starts
        start = starts[line - 1]
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[start:end].removesuffix("\r").removeprefix(BOM)


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
