"""Checks that files still have the columns that they had when their foreign table was registered.

Engines read CSV columns by position, and one of them returns nulls for a column that a Parquet file no longer has: without
a check, values would appear under wrong names, or be lost silently.
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
from omnigraph_sql.foreign.locations import PACKED, CsvOptions

_AT_REST = 2_000_000_000
"""The coarsest resolution of file times in nanoseconds: a later change of the file is visible in its times."""
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


class FilesChanged(Exception):
    """A file has changed in a way that its table does not allow; the message says how."""


class CsvHeaders:
    """Check that every file has a header with the same column names in the same order."""

    def __init__(self, options: CsvOptions, names: Sequence[str]) -> None:
        self._options = options
        self.names = list(names)

    def check(self, files: Sequence[Path]) -> None:
        """Read the first line of each file; raise `FilesChanged` if one differs."""
        for file in files if self._options.header else ():
            names = header(file, self._options)
            if names is not None and not _are_same(names, self.names):
                raise FilesChanged(f"the columns of {file} are {listing(names)}, and not {listing(self.names)}")


def header(file: Path, options: CsvOptions) -> list[str] | None:
    """Return the names in the first line of a file; None if it is empty."""
    opened = gzip.open if file.name.lower().endswith(PACKED) else open
    try:
        with opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
            return next((row for row in csv.reader(lines, delimiter=options.delimiter) if row), None)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise FilesChanged(f"{file} cannot be read: {error}") from error


def _are_same(names: Sequence[str], expected: Sequence[str]) -> bool:
    """True if names are equal, ignoring surrounding blanks and case unless that makes two of them equal."""
    if list(names) == list(expected):
        return True
    plain = [name.strip().casefold() for name in names]
    return len(set(plain)) == len(plain) and plain == [name.strip().casefold() for name in expected]


class ParquetFooters:
    """Check that all files are Parquet, that each column is in at least one of them, and that none has changed its kind."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._cache: dict[Path, tuple[_Stamp, pa.Schema | None]] = {}

    def check(self, files: Sequence[Path]) -> None:
        """Read the footers of the files that have changed since the last check; raise `FilesChanged` if they do not fit."""
        schemas = {file: self._columns(file) for file in files}
        present: set[str] = set()
        for file, schema in schemas.items():
            if schema is None:
                return
            present |= set(schema.names)
            self._check_kinds(file, schema)
        missing = [name for name in self._schema.names if name not in present]
        if missing:
            where = f"{files[0]} has" if len(files) == 1 else f"{files[0]} and the other files have"
            raise FilesChanged(f"{where} no column {listing(missing)} any more; there are {listing(sorted(present))}")

    def _check_kinds(self, file: Path, schema: pa.Schema) -> None:
        """Raise if a column has changed its kind: DataFusion would cast its values, with loss, and DuckDB would not."""
        for field in schema:
            if field.name in self._schema.names:
                expected = self._schema.field(field.name).type
                if _kind(field.type) not in (_kind(expected), "null"):
                    raise FilesChanged(f"the column `{field.name}` of {file} is {field.type}, and not {expected}")

    def _columns(self, file: Path) -> pa.Schema | None:
        """Return the columns of a file; None if Arrow for Python cannot read them."""
        now = time.time_ns()
        try:
            stamp = _stamp(file)
            cached = self._cache.get(file)
            if cached is not None and cached[0] == stamp:
                return cached[1]
            schema = _parquet_schema(file)
        except (OSError, pa.ArrowInvalid) as error:
            raise FilesChanged(f"{file} cannot be read: {str(error).strip().splitlines()[0]}") from error
        if now - max(stamp[2:]) > _AT_REST:  # otherwise a further change might leave the times as they are
            self._cache[file] = stamp, schema
        return schema


def _kind(kind: pa.DataType) -> str:
    """Return the kind of a type, regardless of its width and encoding."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    return next((name for name, predicates in _KINDS.items() if any(is_kind(kind) for is_kind in predicates)), "other")


def _stamp(file: Path) -> _Stamp:
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _parquet_schema(file: Path) -> pa.Schema | None:
    try:
        return pq.read_schema(file)
    except pa.ArrowNotImplementedError:  # a type that Arrow for Python lacks
        return None
