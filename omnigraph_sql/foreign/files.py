"""Parquet and CSV files, read by the engines' own readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.errors import BadRequest, OmnigraphError, SourceFailed
from omnigraph_sql.foreign.file_drift import CsvHeaders, FilesChanged, ParquetFooters, header
from omnigraph_sql.foreign.locations import CsvOptions, Format, Location
from omnigraph_sql.foreign.model import ForeignRead
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan

SchemaInference: TypeAlias = Callable[[Location, CsvOptions, Sequence[Path]], pa.Schema]
"""Infers the columns of files with the readers of an engine."""

_UNREADABLE: dict[Format, str] = {
    "parquet": "is it Parquet? format= says what it is",
    "csv": "delimiter= and header= say how it is written; with schema= nothing is guessed",
}
_UNLIKE = "all files must have the same columns in the same order; others can be a table of their own"


@dataclass(frozen=True, eq=False)
class FileTable:
    """A foreign table made of files."""

    name: str
    location: Location
    schema: pa.Schema
    csv: CsvOptions
    drift_check: CsvHeaders | ParquetFooters

    @property
    def kind(self) -> str:
        return self.location.format

    @property
    def shown(self) -> str:
        return self.location.path

    @property
    def last_sql(self) -> str | None:
        return None

    def unreadable(self, error: SourceFailed, reading: ForeignRead) -> LazyDataset:
        """Return a dataset whose scan raises the error."""
        return _Unreadable(self.schema, error, reading)

    def check(self) -> LazyDataset:
        """Return a dataset without rows whose scan raises if the files cannot be read any more."""
        return _Check(self)

    def error_for_files(self, files: Sequence[Path]) -> SourceFailed | None:
        """Return the error if files are missing or have changed; None if they can be read."""
        if not files:
            # DataFusion would read missing files as a table without rows.
            text = f"the files of the foreign table `{self.name}` are gone: {self.shown}"
            return self.error_for(text, "put them back, or register the table again")
        try:
            self.drift_check.check(files)
        except FilesChanged as changed:
            text = f"the files of the foreign table `{self.name}` are not what they were: {changed}"
            return self.error_for(text, "put them right, or register the table again")
        return None

    def error_for(self, text: str, hint: str) -> SourceFailed:
        """Return an error about these files."""
        return SourceFailed(text, name=self.name, source=self.shown, hint=hint)


class _Unreadable(LazyDataset):
    """A dataset that raises an error when it is read."""

    def __init__(self, schema: pa.Schema, error: SourceFailed, reading: ForeignRead) -> None:
        super().__init__(schema)
        self._error = error
        self._reading = reading

    def batches(self, _scan: LazyScan) -> Batches:
        self._reading.report_error(self._error)
        raise self._error.with_traceback(None)


class _Check(LazyDataset):
    """A dataset without rows that raises when it is read if the files cannot be read any more."""

    def __init__(self, files: FileTable) -> None:
        # Null columns do not change the types of a union with the files.
        super().__init__(pa.schema([pa.field(name, pa.null()) for name in files.schema.names]))
        self._files = files

    def batches(self, _scan: LazyScan) -> Batches:
        error = self._files.error_for_files(self._files.location.files())
        if error is not None:
            raise error
        return iter(())


def open_files(name: str, location: Location, csv: CsvOptions, infer: SchemaInference) -> FileTable:
    """Open a table over files with their current columns."""
    files = location.files()
    try:
        schema, drift_check = _schema_and_check(infer, location, csv, files)
        drift_check.check(files)
    except OmnigraphError:
        raise
    except Exception as error:
        raise _error_for_open(name, location, error) from error
    return FileTable(name, location, schema, csv, drift_check)


def _schema_and_check(
    infer: SchemaInference, location: Location, csv: CsvOptions, files: list[Path]
) -> tuple[pa.Schema, CsvHeaders | ParquetFooters]:
    if location.format == "csv":
        return _csv_schema_and_check(infer, location, csv, files)
    schema = infer(location, csv, files)
    return schema, ParquetFooters(schema)


def _csv_schema_and_check(
    infer: SchemaInference, location: Location, csv: CsvOptions, files: list[Path]
) -> tuple[pa.Schema, CsvHeaders]:
    named = next((names for file in files if (names := header(file, csv)) is not None), None) if csv.header else None
    if csv.schema is not None:
        if named is not None and named != csv.schema.names and sorted(named) == sorted(csv.schema.names):
            text = f"the columns of `{location.path}` are {listing(named)} in this order, and not as schema= has them"
            raise BadRequest(text, hint="write schema= in the order of the file")
        return csv.schema, CsvHeaders(csv, named or csv.schema.names)
    if named is not None:
        CsvHeaders(csv, named).check(files)  # before types are inferred from columns that do not match
    schema = _retyped(infer(location, csv, files), csv.types, location)
    return schema, CsvHeaders(csv, named or schema.names)


def _retyped(schema: pa.Schema, types: Mapping[str, pa.DataType], location: Location) -> pa.Schema:
    for name in types:
        if name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"there are {listing(schema.names)}"
            raise BadRequest(f"`{location.path}` has no column `{name}`", hint=hint)
    return pa.schema([column.with_type(types.get(column.name, column.type)) for column in schema])


def _error_for_open(name: str, location: Location, error: Exception) -> SourceFailed:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and line.strip() != "caused by"]
    reason = "; ".join(lines[:3]).removeprefix("DataFusion error: ")
    text = f"the foreign table `{name}` cannot be read from {location.path}: {reason}"
    hint = _UNLIKE if isinstance(error, FilesChanged) else _UNREADABLE[location.format]
    return SourceFailed(text, name=name, source=location.path, hint=hint)
