"""Records that a load leaves out, and the reports about them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from omnigraph_sql.errors import BadRequest, ValidationFailed
from omnigraph_sql.writes.findings import AT, Finding
from omnigraph_sql.writes.reading import Reject

RejectTarget = str | os.PathLike[str] | Callable[[Mapping[str, Any]], None]
"""A file that gets one JSON object per rejected record, or a function that is called with each."""


class Rejects:
    """The rejected records of one load. They are kept on disk, so there may be many."""

    def __init__(self, target: RejectTarget | None, limit: int | None) -> None:
        if limit is not None and limit < 0:
            raise BadRequest(f"max_rejects is {limit}", hint="give the number of records that may be left out")
        self.limit = limit or 0
        self.count = 0
        self._target = target
        self._path = Path(target) if isinstance(target, str | os.PathLike) else None
        self._file = _beside(self._path)
        self._mark = (0, 0)

    def add(self, reject: Reject) -> None:
        """Note one record."""
        self._file.write(json.dumps(reject.to_dict(), ensure_ascii=False) + "\n")
        self.count += 1

    def add_finding(self, finding: Finding, unit: str, source: Callable[[int], str | None]) -> None:
        """Note all rows of a finding; `source` tells what the record at a place came from."""
        for row in finding.rows.to_pylist():
            value = next(
                (row[name] for name in ("value", "end", finding.property or "", "id") if row.get(name) is not None), None
            )
            self.add(
                Reject(
                    line=row[AT],
                    source=source(row[AT]),
                    table_key=finding.table_key,
                    id=row["id"],
                    rule=finding.rule,
                    property=finding.property,
                    value=None if value is None else str(value),
                    message=f"{unit} {row[AT]}: {finding.text(row)}",
                )
            )

    def add_noted(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Note records that others rejected, as they reported them."""
        for entry in entries:
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self.count += 1

    def mark(self) -> None:
        """What was noted so far stands; what follows may be taken back."""
        self._mark = (self._file.tell(), self.count)

    def rewind(self) -> None:
        """Take back what was noted since the mark."""
        place, self.count = self._mark
        self._file.seek(place)
        self._file.truncate()

    def check(self) -> None:
        """Raise if more records were rejected than allowed."""
        if self.count > self.limit:
            first = next(self._read())
            self._file.seek(0, os.SEEK_END)
            noun = "record is" if self.count == 1 else "records are"
            where = "" if self._path is None else f"; all are in {self._path}"
            raise ValidationFailed(
                f"{self.count} {noun} rejected, {self.limit} allowed; the first: {first['message']}",
                table_key=first["table_key"] or "",
                rule="rejects",
                id=first["id"],
                hint=f"correct them, or allow as many with max_rejects{where}",
            )

    def deliver(self) -> None:
        """Hand the rejected records to the target; a file is written even if there are none."""
        with self._file:
            if callable(self._target):
                for entry in self._read():
                    self._target(entry)
            elif self._path is not None:
                self._file.flush()
                os.chmod(self._file.name, 0o666 & ~_umask())
                os.replace(self._file.name, self._path)

    def entries(self) -> Iterator[dict[str, Any]]:
        """What was noted, as reports tell it."""
        yield from self._read()
        self._file.seek(0, os.SEEK_END)

    def _read(self) -> Iterator[dict[str, Any]]:
        self._file.flush()
        self._file.seek(0)
        for line in self._file:
            yield json.loads(line)


def _beside(path: Path | None) -> Any:
    """A file to collect in: next to the report, so that one that cannot be written is known before the load."""
    if path is None:
        return tempfile.TemporaryFile("w+", encoding="utf-8", prefix="omnigraph-")
    try:
        return tempfile.NamedTemporaryFile("w+", encoding="utf-8", dir=path.parent, prefix=".rejects-", delete=False)
    except OSError as error:
        text = f"the rejected records cannot be written to {path}: {error.strerror}"
        raise BadRequest(text, hint="name a file that can be written") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
