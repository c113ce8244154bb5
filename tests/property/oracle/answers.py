"""Answers, and whether two of them agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph_compiler import Column
from tests.property.oracle.values import to_json

ANYTHING: Any = object()
"""Agrees with every value."""


@dataclass(frozen=True)
class Answer:
    """Columns and rows; `is_ordered` says whether the order of the rows means something."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[Any, ...]]
    is_ordered: bool

    def to_json(self, *, javascript_safe: bool = False) -> list[dict[str, Any]]:
        """The rows as results show them."""
        return [
            {
                column.name: to_json(column.type, value, javascript_safe=javascript_safe)
                for column, value in zip(self.columns, row, strict=True)
            }
            for row in self.rows
        ]


def disagreement(expected: Sequence[Any], found: Sequence[Any], *, in_order: bool) -> str | None:
    """How two lists of rows in JSON differ, or None. Floats may differ in their last digits."""
    if len(expected) != len(found):
        return f"{len(expected)} rows expected, {len(found)} found: {list(found)}"
    if in_order:
        for number, (wanted, row) in enumerate(zip(expected, found, strict=True), 1):
            if not agree(wanted, row):
                return f"row {number}: {wanted} expected, {row} found in {list(found)}"
        return None
    rest = list(found)
    for wanted in expected:
        match = next((row for row in rest if agree(wanted, row)), None)
        if match is None:
            return f"{wanted} expected, not among {rest}"
        rest.remove(match)
    return None


def agree(expected: Any, found: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0."""
    if expected is ANYTHING:
        return True
    if isinstance(expected, dict) and isinstance(found, dict):
        return list(expected) == list(found) and all(agree(expected[name], found[name]) for name in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(agree, expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-12)
    return bool(expected == found)
