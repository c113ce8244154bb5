"""Findings: rows that break a rule, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import KeyConflict, OmnigraphError, ValidationFailed
from omnigraph_sql.writes.readers.model import RecordPlaces

AT: Final = "__at"
"""The column of places: the line or row of the input that a row came from, or its number in a mutation."""
_SHOWN: Final = 60
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class CheckFinding:
    """Rows that break one rule."""

    table_key: str
    rule: str
    rows: pa.Table
    """The place of each row (`AT`; null for a row that is not among the incoming ones), `id`, and what the text needs."""
    text: Callable[[Row], str]
    property: str | None = None
    hint: str | None = None
    is_conflict: bool = False
    """True if the rule is about ids that exist already."""

    def first(self) -> Row:
        """The row that came first; one of the incoming rows if there is one."""
        at = self.rows.column(AT)
        place = pc.index(at, pc.min(at)).as_py() if at.null_count < len(at) else 0
        row: Row = self.rows.slice(place, 1).to_pylist()[0]
        return row

    def error(self, row: Row, places: RecordPlaces | None) -> OmnigraphError:
        """The error of one of the rows; `places` gives its place in the input."""
        place = f"{places.at(row[AT])}: " if places is not None and row[AT] is not None else ""
        message = place + self.text(row)
        if self.is_conflict:
            return KeyConflict(message, table_key=self.table_key, id=row["id"], hint=self.hint)
        return ValidationFailed(message, table_key=self.table_key, rule=self.rule, id=row["id"], hint=self.hint)


def shown(value: object) -> str:
    """A value in a message: not longer than a line."""
    text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def raise_first(findings: Iterable[CheckFinding], places: RecordPlaces | None = None) -> None:
    """Raise the error of the row that came first."""
    best: tuple[float, CheckFinding, Row] | None = None
    for finding in findings:
        row = finding.first()
        place = float("inf") if row[AT] is None else row[AT]
        if best is None or place < best[0]:
            best = (place, finding, row)
    if best is not None:
        raise best[1].error(best[2], places)
