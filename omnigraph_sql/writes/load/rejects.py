"""Records that a load leaves out, and the reports about them.

The target of a report is checked before the load. What fails after that never hides what became of the load: the report is
kept somewhere else, and a warning says where.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import islice
from typing import IO, Any, Final

import pyarrow as pa

from omnigraph_compiler.diagnostics import clip
from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import BadRequest, OmnigraphError, ValidationFailed
from omnigraph_sql.storage.output_files import Destination, OutputFile, check_destination
from omnigraph_sql.storage.source_files import is_path
from omnigraph_sql.writes.checks.findings import AT, CheckFinding
from omnigraph_sql.writes.readers import Reject
from omnigraph_sql.writes.readers.model import RecordPlaces

RejectTarget = str | os.PathLike[str] | Callable[[Mapping[str, Any]], None]
"""A file that gets one JSON object per rejected record, or a function that is called with each."""


RejectLimit = int | str
"""The number of records may be left out: a number, or a share of those that were read, as `0.5%`."""
_COLUMNS = pa.schema(
    [
        ("line", pa.int64()),
        *((name, pa.string()) for name in ("source", "type", "table_key", "id", "rule", "property", "value", "message")),
    ]
)
_ROWS = 65_536
_LABEL: Final = "the rejected records cannot be written to {path}"
_PERCENTAGE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*%", re.ASCII)


class Rejects:
    """The rejected records of one load. They are kept on disk, so there may be many."""

    def __init__(
        self,
        target: RejectTarget | None,
        limit: RejectLimit | None,
        setting: str = "max_rejects",
        *,
        inputs: Iterable[Any] = (),
    ) -> None:
        """Raises `BadRequest` if the target cannot be written. None of the `inputs`, files that are read, may be it."""
        self._setting = setting
        """The name of the limit's option."""
        self._limit = checked_limit(limit)
        self.count = 0
        self.read = 0
        """Records that were read, also those that were rejected."""
        self.by_table: Counter[str | None] = Counter()
        """The number per table; None for unreadable records."""
        self.place: str | None = None
        """The place of the report: the target, or another file if the target failed. Set by `deliver`."""
        self.problem: str | None = None
        """Why the report is not at its target."""
        self._function = target if callable(target) else None
        self._destination = check_target(target, inputs=inputs)
        self._is_parquet = isinstance(target, str | os.PathLike) and os.fspath(target).endswith(".parquet")
        with self._collecting():
            self._file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", prefix="omnigraph-")  # noqa: SIM115
        try:
            self._output = None if self._destination is None else _opened(self._destination)
        except BadRequest:
            self._file.close()
            raise
        self._mark: tuple[int, int, Counter[str | None]] = (0, 0, Counter())

    @property
    def limit(self) -> int:
        """The number of records may be left out, of those that were read so far."""
        return self._limit if isinstance(self._limit, int) else math.floor(self.read * self._limit)

    def add_unread(self, reject: Reject) -> None:
        """Note a record that never became a row."""
        self.read += 1
        self.add(reject)

    def add(self, reject: Reject) -> None:
        """Note one record."""
        self.add_noted([reject.to_dict()])

    def add_finding(self, finding: CheckFinding, places: RecordPlaces, source: Callable[[int], str | None]) -> None:
        """Note all rows of a finding; `source` names the origin of a record where its place does not."""
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
            line = json.dumps({name: _storable(value) for name, value in entry.items()}, ensure_ascii=False)
            with self._collecting():
                self._file.write(line + "\n")
            self.count += 1
            self.by_table[entry["table_key"]] += 1

    def mark(self) -> None:
        """Keep the records noted so far; `rewind` drops later ones."""
        self._mark = (self._file.tell(), self.count, self.by_table.copy())

    def rewind(self) -> None:
        """Take back what was noted since the mark."""
        place, self.count, by_table = self._mark
        self.by_table = by_table.copy()
        with self._collecting():
            self._file.seek(place)
            self._file.truncate()

    def check(self) -> None:
        """Raise if more records were rejected than allowed."""
        if self.count > self.limit:
            first = next(self._read())
            self._file.seek(0, os.SEEK_END)
            noun = "record is" if self.count == 1 else "records are"
            where = "" if self._destination is None else f"; all are in {self._destination.path}"
            raise ValidationFailed(
                f"{self.count} {noun} rejected, {self.limit} allowed; the first: {first['message']}",
                table_key=first["table_key"] or "",
                rule="rejects",
                id=first["id"],
                hint=f"correct them, or allow as many with {self._setting}{where}",
            )

    def deliver(self) -> None:
        """Hand the rejected records to the target; a file is written even if there are none.

        Raises no error: `problem` says what went wrong, and `place` where the records are then. Happens once.
        """
        if self._file.closed:
            return
        try:
            self._hand_over()
        except BaseException as error:
            self._rescue(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self.discard()

    def require_delivered(self) -> None:
        """Raise if the records could not be handed over, for work that is not published yet."""
        if self.problem is not None:
            raise BadRequest(self.problem, hint="give the rejected records a place that takes them")

    @contextmanager
    def delivered(self) -> Iterator[None]:
        """Write the report when the block ends. If the block raised and writing fails too, its error says so."""
        try:
            yield
        except BaseException as error:
            self.deliver()
            if self.problem is not None and isinstance(error, OmnigraphError):
                error.hint = self.problem
            raise
        self.deliver()

    def discard(self) -> None:
        """Forget what was noted and not handed over."""
        with suppress(OSError):
            self._file.close()
        if self._output is not None:
            self._output.discard()

    def entries(self) -> Iterator[dict[str, Any]]:
        """The noted records, as reports show them."""
        yield from self._read()
        self._file.seek(0, os.SEEK_END)

    def _hand_over(self) -> None:
        if self._function is not None:
            for entry in self._read():
                self._function(entry)
        elif self._output is not None and self._destination is not None:
            if self._is_parquet:
                self._to_parquet(self._output.file)
            else:
                self._copy(self._output.file)
            self._output.put()
            self.place = self._destination.path

    def _rescue(self, error: BaseException) -> None:
        """Keep the records that could not be handed over, as JSON lines."""
        cause = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        if self._destination is None:
            reason = f"the function that takes the rejected records raised {cause}"
        else:
            reason = f"{_LABEL.replace('{path}', self._destination.path)}: {cause}"
        try:
            with tempfile.NamedTemporaryFile(prefix="omnigraph-rejects-", suffix=".jsonl", delete=False) as kept:
                self._copy(kept)
        except OSError as other:
            self.problem = f"{reason}; they are lost, since no other file can be written either: {other.strerror}"
            return
        self.place = kept.name
        self.problem = f"{reason}; they are in {self.place}"

    def _copy(self, target: IO[bytes]) -> None:
        self._file.flush()
        self._file.seek(0)
        collected: Any = self._file.buffer
        shutil.copyfileobj(collected, target)

    def _to_parquet(self, target: IO[bytes]) -> None:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(target, _COLUMNS) as writer:
            rows = self._read()
            while some := list(islice(rows, _ROWS)):
                writer.write_table(pa.Table.from_pylist(some, _COLUMNS))

    def _read(self) -> Iterator[dict[str, Any]]:
        with self._collecting():
            self._file.flush()
            self._file.seek(0)
        for line in self._file:
            yield json.loads(line)

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"the rejected records cannot be collected: {error.strerror or error}"
            raise BadRequest(text, hint="make room, or set TMPDIR to a directory that has some") from error


def check_target(target: object, *, inputs: Iterable[Any] = (), makes_parents: bool = False) -> Destination | None:
    """The file for rejected records, if the target is one. Raises `BadRequest` if the target is unfit; creates nothing."""
    if target is None or callable(target):
        return None
    if isinstance(target, str) and target == "-":
        text = f"{_LABEL.replace('{path}', '-')}: nothing is called `-`"
        raise BadRequest(text, hint="name /dev/stdout for the standard output, or ./- for a file of this name")
    return check_destination(target, _LABEL, inputs=inputs, makes_parents=makes_parents)


def files_of(data: Any) -> list[Any]:
    """The files that a load reads, as far as its data names them."""
    sources = data.values() if isinstance(data, Mapping) else [data]
    return [source for source in sources if isinstance(source, os.PathLike) or (isinstance(source, str) and is_path(source))]


def _storable(value: Any) -> Any:
    """Return a value of a report. In names of files that are not UTF-8, the bytes that are no character are escaped."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def _opened(destination: Destination) -> OutputFile:
    try:
        return OutputFile(destination)
    except OSError as error:
        text = f"{_LABEL.replace('{path}', destination.path)}: {error.strerror or error}"
        raise BadRequest(text, hint="name a file that can be written") from None


def checked_limit(limit: object) -> int | Fraction:
    """A number of records, or a share of them."""
    if limit is None:
        return 0
    if isinstance(limit, str):
        percentage = _PERCENTAGE.fullmatch(limit.strip())
        share = None if percentage is None else Fraction(percentage[1]) / 100
        if share is not None and share <= 1:
            return share
    elif isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        return limit
    text = f"max_rejects is {clip(shown(limit))}"
    raise BadRequest(text, hint="give the number of records that may be left out, or a share as 0.5%")
