"""Diagnostics: what went wrong, where, and what to do about it.

Every rejection of the compiler is one `CompileError` carrying one `Diagnostic`. Callers match on `code` and
`error_class`; the prose is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NoReturn

from omnigraph_compiler.source import Position, SourceText, Span

ErrorClass = Literal["parse", "catalog", "type", "plan", "input"]

_PREFIX: dict[str, str] = {
    "parse": "parse error: ",
    "catalog": "catalog error: ",
    "type": "type error: ",
    "plan": "plan error: ",
    "input": "",
}
_MAX_SOURCE_COLUMNS = 160

Style = Literal["error", "bold", "gutter", "source", "caret", "help"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding of the compiler, complete enough to be shown without the source text."""

    error_class: ErrorClass
    text: str
    _: KW_ONLY
    code: str | None = None
    help: str | None = None
    span: Span | None = None
    position: Position | None = None
    source_line: str | None = None
    width: int = 1
    """The number of characters of `source_line` that the caret underlines."""

    @property
    def message(self) -> str:
        """The full message: error class, code, position (of a parse error) and text."""
        code = f"{self.code}: " if self.code else ""
        place = ""
        if self.error_class == "parse" and self.position is not None:
            place = f"line {self.position.line}, column {self.position.column}: "
        return f"{_PREFIX[self.error_class]}{code}{place}{self.text}"

    def to_dict(self) -> dict[str, object]:
        entry: dict[str, object] = {"class": self.error_class, "message": self.message}
        if self.code is not None:
            entry["code"] = self.code
        if self.span is not None:
            entry["span"] = self.span.to_dict()
        if self.position is not None:
            entry["line"] = self.position.line
            entry["column"] = self.position.column
        if self.source_line is not None:
            entry["source_line"] = self.source_line
        if self.help is not None:
            entry["help"] = self.help
        return entry

    def segments(self, path: str | None = None) -> Iterator[list[tuple[Style, str]]]:
        """Yield the rendering as lines of (style, text) pairs, so that a terminal can colour them."""
        code = f"[{self.code}]" if self.code else ""
        label = {"input": "error"}.get(self.error_class, f"{self.error_class} error")
        yield [("error", f"{label}{code}"), ("bold", f": {self.text}")]
        if self.position is not None:
            yield from self._excerpt(path, self.position)
        if self.help is not None:
            margin = " " * (len(str(self.position.line)) if self.position else 1)
            for number, line in enumerate(self.help.splitlines()):
                lead = "= help: " if number == 0 else "        "
                yield [("gutter", f"{margin} {lead}"), ("help", line)]

    def _excerpt(self, path: str | None, position: Position) -> Iterator[list[tuple[Style, str]]]:
        number = str(position.line)
        margin = " " * len(number)
        where = f"{path}:{position.line}:{position.column}" if path else f"line {position.line}, column {position.column}"
        yield [("gutter", f"{margin}--> "), ("source", where)]
        if self.source_line is None:
            return
        line, column = _window(self.source_line, position.column - 1)
        width = max(1, min(self.width, len(line) - column))
        yield [("gutter", f"{margin} |")]
        yield [("gutter", f"{number} | "), ("source", _printable(line))]
        yield [("gutter", f"{margin} | "), ("caret", " " * column + "^" * width)]

    def render(self, path: str | None = None) -> str:
        """Return the rendering as plain text."""
        return "\n".join("".join(text for _, text in line) for line in self.segments(path))


class CompileError(Exception):
    """A schema, query, parameter set or migration was rejected; `diagnostic` says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return self.diagnostic.message

    @property
    def code(self) -> str | None:
        return self.diagnostic.code

    @property
    def error_class(self) -> ErrorClass:
        return self.diagnostic.error_class

    @property
    def message(self) -> str:
        return self.diagnostic.message

    @property
    def span(self) -> Span | None:
        return self.diagnostic.span

    @property
    def hint(self) -> str | None:
        return self.diagnostic.help


@dataclass(frozen=True, slots=True)
class Reporter:
    """Raises diagnostics that point into one source text. Offsets are character offsets."""

    source: SourceText

    def fail(
        self,
        error_class: ErrorClass,
        text: str,
        at: tuple[int, int],
        *,
        code: str | None = None,
        help: str | None = None,
    ) -> NoReturn:
        raise CompileError(self.diagnostic(error_class, text, at, code=code, help=help))

    def diagnostic(
        self,
        error_class: ErrorClass,
        text: str,
        at: tuple[int, int],
        *,
        code: str | None = None,
        help: str | None = None,
    ) -> Diagnostic:
        start, end = at
        position = self.source.position(start)
        first_line = self.source.text[start:end].split("\n", 1)[0]
        return Diagnostic(
            error_class,
            text,
            code=code,
            help=help,
            span=self.source.byte_span(start, end),
            position=position,
            source_line=self.source.line_text(position.line),
            width=max(1, len(first_line)),
        )


def did_you_mean(name: str, candidates: Iterable[str], prefix: str = "") -> str | None:
    """Return a help text with the closest candidates, each written with `prefix`, or None if none is close."""
    from difflib import get_close_matches

    pool = sorted(set(candidates))
    folded: dict[str, str] = {}
    for candidate in pool:
        folded.setdefault(candidate.lower(), candidate)
    close = get_close_matches(name.lower()[:80], folded, n=2, cutoff=0.6)
    if not close:
        return None
    return "did you mean " + " or ".join(f"`{prefix}{folded[match]}`" for match in close) + "?"


def listing(names: Iterable[str], *, limit: int = 8) -> str:
    """Return a list such as "`a`, `b` and `c`", cut after `limit` names."""
    shown = [f"`{name}`" for name in names]
    if len(shown) > limit:
        shown = [*shown[:limit], f"{len(shown) - limit} more"]
    if len(shown) < 2:
        return "".join(shown)
    return ", ".join(shown[:-1]) + " and " + shown[-1]


def clip(text: str, limit: int = 40) -> str:
    """Shorten a text for a message and replace its control characters."""
    return _printable(text if len(text) <= limit else text[: limit - 1] + "…")


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else (" " if char == "\t" else "\ufffd") for char in text)


def _window(line: str, column: int) -> tuple[str, int]:
    """Return the part of a very long line around the column, and the column within that part."""
    if len(line) <= _MAX_SOURCE_COLUMNS:
        return line, column
    start = max(0, column - _MAX_SOURCE_COLUMNS // 2)
    return line[start : start + _MAX_SOURCE_COLUMNS], column - start
