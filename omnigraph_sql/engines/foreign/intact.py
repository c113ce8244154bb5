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
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph_compiler.diagnostics import listing
from omnigraph_sql.engines.foreign.locations import PACKED, CsvOptions

_AT_REST = 2_000_000_000
"""Nanoseconds after which a change of a file shows in its times, on any file system."""
_Stamp = tuple[int, int, int, int]
_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "null": (pa.types.is_null,),
    "integer": (pa.types.is_integer,),
    "float": (pa.types.is_floating,),
    "decimal": (pa.types.is_decimal,),
    "boolean": (pa.types.is_boolean,),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    "date": (pa.types.is_date,),
    "timestamp": (pa.types.is_timestamp,),
}


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
    """Every file is Parquet, each column is in one of them at least, and no column holds something else than it did."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._known: dict[Path, tuple[_Stamp, pa.Schema | None]] = {}

    def check(self, files: Sequence[Path]) -> None:
        """Read the ends of the files that changed since the last time."""
        found = {file: self._columns(file) for file in files}
        there: set[str] = set()
        for file, schema in found.items():
            if schema is None:
                return
            there |= set(schema.names)
            self._check_kinds(file, schema)
        missing = [name for name in self._schema.names if name not in there]
        if missing:
            where = f"{files[0]} has" if len(files) == 1 else f"{files[0]} and the other files have"
            raise Changed(f"{where} no column {listing(missing)} any more; there are {listing(sorted(there))}")

    def _check_kinds(self, file: Path, schema: pa.Schema) -> None:
        """DataFusion casts what it finds, and cuts off what does not fit; DuckDB shows what there is."""
        for field in schema:
            if field.name in self._schema.names:
                expected = self._schema.field(field.name).type
                if _kind(field.type) not in (_kind(expected), "null"):
                    raise Changed(f"the column `{field.name}` of {file} is {field.type}, and not {expected}")

    def _columns(self, file: Path) -> pa.Schema | None:
        """The columns of a file; None if only the engines know them."""
        now = time.time_ns()
        try:
            stamp = _stamp(file)
            known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known[1]
            schema = _parquet_schema(file)
        except (OSError, pa.ArrowInvalid) as error:
            raise Changed(f"{file} cannot be read: {str(error).strip().splitlines()[0]}") from error
        if now - max(stamp[2:]) > _AT_REST:  # else it may change once more and look the same
            self._known[file] = stamp, schema
        return schema


def _kind(kind: pa.DataType) -> str:
    """What values of a type are, whatever their width or form."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    return next((name for name, is_one in _KINDS.items() if any(each(kind) for each in is_one)), "other")


def _stamp(file: Path) -> _Stamp:
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _parquet_schema(file: Path) -> pa.Schema | None:
    try:
        return pq.read_schema(file)
    except pa.ArrowNotImplementedError:  # a type that Arrow for Python lacks
        return None
