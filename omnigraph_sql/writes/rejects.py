"""Records that a load leaves out, and the reports about them."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, ValidationFailed
from omnigraph_sql.writes.findings import AT, Finding
from omnigraph_sql.writes.reading import Reject
from omnigraph_sql.writes.reading.model import Places

RejectTarget = str | os.PathLike[str] | Callable[[Mapping[str, Any]], None]
"""A file that gets one JSON object per rejected record, or a function that is called with each."""


RejectLimit = int | str
"""How many records may be left out: a number, or a share of those that were read, as `0.5%`."""
_COLUMNS = pa.schema(
    [
        ("line", pa.int64()),
        *((name, pa.string()) for name in ("source", "type", "table_key", "id", "rule", "property", "value", "message")),
    ]
)
_ROWS = 65_536
_PERCENTAGE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*%", re.ASCII)


class Rejects:
    """The rejected records of one load. They are kept on disk, so there may be many."""

    def __init__(self, target: RejectTarget | None, limit: RejectLimit | None, setting: str = "max_rejects") -> None:
        self._setting = setting
        """What the limit is called where it is set."""
        self._limit = checked_limit(limit)
        self.count = 0
        self.read = 0
        """Records that were read, also those that were rejected."""
        self.by_table: Counter[str | None] = Counter()
        """How many of each table; None for records that could not be read at all."""
        self._target = target
        self._path = Path(target) if isinstance(target, str | os.PathLike) else None
        self._file = _beside(self._path)
        self._mark: tuple[int, int, Counter[str | None]] = (0, 0, Counter())

    @property
    def limit(self) -> int:
        """How many records may be left out, of those that were read so far."""
        return self._limit if isinstance(self._limit, int) else math.floor(self.read * self._limit)

    def add_unread(self, reject: Reject) -> None:
        """Note a record that never became a row."""
        self.read += 1
        self.add(reject)

    def add(self, reject: Reject) -> None:
        """Note one record."""
        self._file.write(json.dumps(reject.to_dict(), ensure_ascii=False) + "\n")
        self.count += 1
        self.by_table[reject.table_key] += 1

    def add_finding(self, finding: Finding, places: Places, source: Callable[[int], str | None]) -> None:
        """Note all rows of a finding; `source` tells what a record came from where its place does not."""
        for row in finding.rows.to_pylist():
            place = places.at(row[AT])
            value = next(
                (row[name] for name in ("value", "end", finding.property or "", "id") if row.get(name) is not None), None
            )
            self.add(
                Reject(
                    line=place.number,
                    source=place.source or source(row[AT]),
                    table_key=finding.table_key,
                    id=row["id"],
                    rule=finding.rule,
                    property=finding.property,
                    value=None if value is None else str(value),
                    message=f"{place}: {finding.text(row)}",
                )
            )

    def add_noted(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Note records that others rejected, as they reported them."""
        for entry in entries:
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self.count += 1
            self.by_table[entry["table_key"]] += 1

    def mark(self) -> None:
        """What was noted so far stands; what follows may be taken back."""
        self._mark = (self._file.tell(), self.count, self.by_table.copy())

    def rewind(self) -> None:
        """Take back what was noted since the mark."""
        place, self.count, by_table = self._mark
        self.by_table = by_table.copy()
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
                hint=f"correct them, or allow as many with {self._setting}{where}",
            )

    def deliver(self) -> None:
        """Hand the rejected records to the target; a file is written even if there are none."""
        with self._file:
            if callable(self._target):
                for entry in self._read():
                    self._target(entry)
            elif self._path is not None:
                if self._path.suffix == ".parquet":
                    self._to_parquet()
                self._file.flush()
                os.chmod(self._file.name, 0o666 & ~_umask())
                os.replace(self._file.name, self._path)

    def entries(self) -> Iterator[dict[str, Any]]:
        """What was noted, as reports tell it."""
        yield from self._read()
        self._file.seek(0, os.SEEK_END)

    def _to_parquet(self) -> None:
        import pyarrow.parquet as pq

        with tempfile.NamedTemporaryFile(dir=os.path.dirname(self._file.name), prefix=".rejects-") as file:
            with pq.ParquetWriter(file, _COLUMNS) as writer:
                rows = self._read()
                while some := list(islice(rows, _ROWS)):
                    writer.write_table(pa.Table.from_pylist(some, _COLUMNS))
            file.flush()
            shutil.copyfile(file.name, self._file.name)

    def _read(self) -> Iterator[dict[str, Any]]:
        self._file.flush()
        self._file.seek(0)
        for line in self._file:
            yield json.loads(line)


def checked_limit(limit: RejectLimit | None) -> int | Fraction:
    """A number of records, or a share of them."""
    if limit is None:
        return 0
    if isinstance(limit, str):
        found = _PERCENTAGE.fullmatch(limit.strip())
        share = None if found is None else Fraction(found[1]) / 100
        if share is not None and share <= 1:
            return share
    elif limit >= 0:
        return limit
    raise BadRequest(f"max_rejects is {limit}", hint="give the number of records that may be left out, or a share as 0.5%")


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
