"""Changes of entities as lines of text, and as a table of Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from omnigraph_sql.cli.output import StyledLine
from omnigraph_sql.cli.tables import count, moment, one_line

if TYPE_CHECKING:
    from omnigraph_sql.history.commit_changes import CommitChanges
    from omnigraph_sql.history.diff import ChangeStats, EntityChange

_SIGNS = {"insert": ("+", "good"), "update": ("~", "warning"), "delete": ("-", "error")}
_WIDEST = 60
"""Characters of a value."""


def change_lines(changes: Iterable[EntityChange]) -> Iterator[StyledLine]:
    """A line for each change; below that of an update, one for each property that it changed."""
    for change in changes:
        sign, style = _SIGNS[change.op]
        ends = "" if change.endpoints is None else f"  {change.endpoints.src} -> {change.endpoints.dst}"
        yield [(style, f"{sign} {change.type_name} {one_line(change.id)}"), ("source", one_line(ends))]
        for name in change.changed_properties:
            old, new = _sides(change, name)
            yield [("source", f"    {name}: "), ("error", old), ("source", " -> "), ("good", new)]


def commit_line(commit: CommitChanges) -> StyledLine:
    """What is known about a commit, on one line."""
    about = [commit.branch, moment(commit.authored_at), commit.actor or "", commit.message or ""]
    return [("bold", f"commit {commit.commit_id}"), ("source", "".join(f"  {one_line(text)}" for text in about if text))]


def summary(stats: ChangeStats) -> str:
    """The numbers of changes, in words."""
    numbers = [count(stats.inserts, "insert"), count(stats.updates, "update"), count(stats.deletes, "delete")]
    return f"{', '.join(numbers)} in {count(stats.types_affected, 'type')}"


def markdown_rows(changes: Iterable[EntityChange]) -> Iterator[str]:
    """Rows of a table: a change, or one of the properties that an update changed."""
    yield "| | Type | Id | Property | Before | After |"
    yield "|---|---|---|---|---|---|"
    for change in changes:
        cells = [_SIGNS[change.op][0], change.type_name, _code(change.id)]
        if change.endpoints is not None:
            cells[2] += f" ({_code(change.endpoints.src)} to {_code(change.endpoints.dst)})"
        rows = [[name, *map(_code, _sides(change, name))] for name in change.changed_properties]
        for row in rows or [["", "", ""]]:
            yield f"| {' | '.join([*cells, *row])} |"


def _sides(change: EntityChange, name: str) -> tuple[str, str]:
    return _value(change.before, name), _value(change.after, name)


def _value(record: dict[str, Any] | None, name: str) -> str:
    record = record or {}
    value = record[name] if name in ("from", "to") and name in record else record.get("data", {}).get(name)
    text = one_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _code(text: str) -> str:
    """A text as code in a cell of a table."""
    shown = one_line(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, "".join(char if char == "`" else " " for char in shown).split()), default=0))
    return f"{fence} {shown} {fence}" if len(fence) > 1 else f"`{shown}`"
