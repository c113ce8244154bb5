"""Whether files are still what they were when a foreign table was registered.

Engines read columns of CSV by their position, and one of them takes a column that Parquet no longer has for nulls: values
would come under wrong names, or be missing, without a word.
"""

from __future__ import annotations

import csv
import gzip
import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph_compiler.diagnostics import listing
from omnigraph_sql.engines.foreign.locations import PACKED, CsvOptions

_AT_REST = 2_000_000_000
"""Nanoseconds after which a change of a file shows in its times, on any file system."""
_Stamp = tuple[int, int, int, int]


class Changed(Exception):
    """A file is not what it was: the sentence says how."""


class CsvHeaders:
    """Every file begins with the names of the same columns in the same order."""

    def __init__(self, options: CsvOptions, names: Sequence[str]) -> None:
        self._options = options
        self.names = list(names)

    def check(self, files: Sequence[Path]) -> None:
        """Read the first line of each file."""
        for file in files if self._options.header else ():
            found = header(file, self._options)
            if found is not None and not _are_same(found, self.names):
                raise Changed(f"the columns of {file} are {listing(found)}, and not {listing(self.names)}")


def header(file: Path, options: CsvOptions) -> list[str] | None:
    """The names in the first line of a file; None if it is empty."""
    opened = gzip.open if file.name.lower().endswith(PACKED) else open
    try:
        with opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
            return next((row for row in csv.reader(lines, delimiter=options.delimiter) if row), None)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise Changed(f"{file} cannot be read: {error}") from error


def _are_same(found: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether names are the same, but for blanks and case where that does not confuse two of them."""
    if list(found) == list(expected):
        return True
    plain = [name.strip().casefold() for name in found]
    return len(set(plain)) == len(plain) and plain == [name.strip().casefold() for name in expected]


class ParquetFooters:
    """Every file is Parquet, and each column is in one of them at least."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._known: dict[Path, tuple[_Stamp, frozenset[str] | None]] = {}

    def check(self, files: Sequence[Path]) -> None:
        """Read the ends of the files that changed since the last time."""
        found = [self._columns(file) for file in files]
        if None in found:
            return
        there = frozenset[str]().union(*(names for names in found if names is not None))
        missing = [name for name in self._names if name not in there]
        if missing:
            where = f"{files[0]} has" if len(files) == 1 else f"{files[0]} and the other files have"
            raise Changed(f"{where} no column {listing(missing)} any more; there are {listing(sorted(there))}")

    def _columns(self, file: Path) -> frozenset[str] | None:
        """The names of columns; None if only the engines know them."""
        now = time.time_ns()
        try:
            stamp = _stamp(file)
            known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known[1]
            names = _parquet_names(file)
        except (OSError, pa.ArrowInvalid) as error:
            raise Changed(f"{file} cannot be read: {str(error).strip().splitlines()[0]}") from error
        if now - max(stamp[2:]) > _AT_REST:  # else it may change once more and look the same
            self._known[file] = stamp, names
        return names


def _stamp(file: Path) -> _Stamp:
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _parquet_names(file: Path) -> frozenset[str] | None:
    try:
        return frozenset(pq.read_schema(file).names)
    except pa.ArrowNotImplementedError:  # a type that Arrow for Python lacks
        return None
