"""Parquet and CSV files, read by the engines' own readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.engines.apart import apart
from omnigraph_sql.engines.foreign.intact import Changed, CsvHeaders, ParquetFooters, header
from omnigraph_sql.engines.foreign.lazy import Batches, LazyDataset
from omnigraph_sql.engines.foreign.locations import CsvOptions, Format, Location
from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.engines.foreign.providing import provided
from omnigraph_sql.engines.foreign.readers import Reader
from omnigraph_sql.engines.foreign.types import duckdb_type
from omnigraph_sql.engines.foreign.views import create_object, create_object_view, create_view
from omnigraph_sql.errors import BadRequest, OmnigraphError, SourceFailed
from omnigraph_sql.planner.remote import quoted, text_literal

_UNREADABLE: dict[Format, str] = {
    "parquet": "is it Parquet? format= says what it is",
    "csv": "delimiter= and header= say how it is written; with schema= nothing is guessed",
}
_UNLIKE = "all files must have the same columns in the same order; others can be a table of their own"


@dataclass(frozen=True)
class Files:
    """A foreign table made of files."""

    name: str
    location: Location
    schema: pa.Schema
    csv: CsvOptions
    reader: Reader
    intact: CsvHeaders | ParquetFooters

    @property
    def kind(self) -> str:
        return self.location.format

    @property
    def shown(self) -> str:
        return self.location.path

    @property
    def last_sql(self) -> str | None:
        return None

    def provider(self, reading: Reading) -> Any:
        reading.files[self.name] = self
        files = self.location.files()
        fault = self.fault(files)
        if fault is not None:
            return provided(LazyDataset(_Broken(self.schema, fault, reading)), self.name)
        return apart(lambda: self.reader.table(files, self.schema, is_ours=reading.is_ours))

    def expose(self, connection: Any, schema: str, name: str, reading: Reading) -> None:
        reading.files[self.name] = self
        fault = self.fault(self.location.files())
        if fault is not None:
            create_object_view(connection, schema, name, LazyDataset(_Broken(self.schema, fault, reading)))
            return
        rows = f"SELECT {_selected(self.schema)} FROM {self._reader()}"
        if reading.lasts:
            # Files may change between statements: each of them looks first, at a table that is empty or raises.
            checked = create_object(connection, schema, name, LazyDataset(_Checked(self)))
            rows = f"SELECT {_selected(self.schema)} FROM {checked} UNION ALL {rows}"
        create_view(connection, schema, name, self.schema, rows)

    def fault(self, files: Sequence[Path]) -> SourceFailed | None:
        """Why files cannot be read, or not as what they were; None if they can."""
        if not files:
            # DataFusion takes files that are gone for a table without rows.
            text = f"the files of the foreign table `{self.name}` are gone: {self.shown}"
            return self.failed(text, "put them back, or register the table again")
        try:
            self.intact.check(files)
        except Changed as changed:
            text = f"the files of the foreign table `{self.name}` are not what they were: {changed}"
            return self.failed(text, "put them right, or register the table again")
        return None

    def failed(self, text: str, hint: str) -> SourceFailed:
        """An error about these files."""
        return SourceFailed(text, name=self.name, source=self.shown, hint=hint)

    def _reader(self) -> str:
        path = text_literal(self.location.for_duckdb())
        if self.location.format == "parquet":
            return f"read_parquet({path}, union_by_name := true)"
        columns = ", ".join(
            f"{text_literal(column.name)}: {text_literal(duckdb_type(column.type))}" for column in self.schema
        )
        header = "true" if self.csv.header else "false"
        return (
            f"read_csv({path}, auto_detect := false, columns := {{{columns}}}, header := {header}, "
            f"delim := {text_literal(self.csv.delimiter)}, quote := '\"', escape := '\"', nullstr := '')"
        )


def _selected(schema: pa.Schema) -> str:
    return ", ".join(quoted(name) for name in schema.names)


@dataclass(frozen=True)
class _Broken:
    """Stands for files that cannot be read: whoever reads them is told."""

    schema: pa.Schema
    fault: SourceFailed
    reading: Reading

    def planned(self, columns: Any, expression: Any) -> None:
        """Nothing is asked of anybody."""

    def batches(self, columns: Any, expression: Any) -> Batches:  # noqa: ARG002 (there are none)
        self.reading.failed(self.fault)
        raise self.fault.with_traceback(None)


class _Checked:
    """Has no rows, but tells whoever reads it if files cannot be read any more."""

    def __init__(self, files: Files) -> None:
        self._files = files
        # Beside the files in a union, these types do not change those of their columns.
        self.schema = pa.schema([pa.field(name, pa.null()) for name in files.schema.names])

    def planned(self, columns: Any, expression: Any) -> None:
        """Nothing is asked of anybody."""

    def batches(self, columns: Any, expression: Any) -> Batches:  # noqa: ARG002 (there are none)
        fault = self._files.fault(self._files.location.files())
        if fault is not None:
            raise fault
        return iter(())


def open_files(name: str, location: Location, csv: CsvOptions) -> Files:
    """A table of files, with the columns they have now."""
    reader, files = Reader(location, csv), location.files()
    try:
        schema, intact = _opened(reader, location, csv, files)
        intact.check(files)
    except OmnigraphError:
        raise
    except Exception as error:
        raise _unreadable(name, location, error) from error
    return Files(name, location, schema, csv, reader, intact)


def _opened(
    reader: Reader, location: Location, csv: CsvOptions, files: list[Path]
) -> tuple[pa.Schema, CsvHeaders | ParquetFooters]:
    return _opened_csv(reader, location, csv, files) if location.format == "csv" else _opened_parquet(reader, files)


def _opened_parquet(reader: Reader, files: list[Path]) -> tuple[pa.Schema, ParquetFooters]:
    schema = reader.schema(files)
    return schema, ParquetFooters(schema)


def _opened_csv(reader: Reader, location: Location, csv: CsvOptions, files: list[Path]) -> tuple[pa.Schema, CsvHeaders]:
    named = next((found for file in files if (found := header(file, csv)) is not None), None) if csv.header else None
    if csv.schema is not None:
        if named is not None and named != csv.schema.names and sorted(named) == sorted(csv.schema.names):
            text = f"the columns of `{location.path}` are {listing(named)} in this order, and not as schema= has them"
            raise BadRequest(text, hint="write schema= in the order of the file")
        return csv.schema, CsvHeaders(csv, named or csv.schema.names)
    if named is not None:
        CsvHeaders(csv, named).check(files)  # before types are guessed of columns that do not go together
    schema = _retyped(reader.schema(files), csv.types, location)
    return schema, CsvHeaders(csv, named or schema.names)


def _retyped(schema: pa.Schema, types: Mapping[str, pa.DataType], location: Location) -> pa.Schema:
    for name in types:
        if name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"there are {listing(schema.names)}"
            raise BadRequest(f"`{location.path}` has no column `{name}`", hint=hint)
    return pa.schema([column.with_type(types.get(column.name, column.type)) for column in schema])


def _unreadable(name: str, location: Location, error: Exception) -> SourceFailed:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and line.strip() != "caused by"]
    reason = "; ".join(lines[:3]).removeprefix("DataFusion error: ")
    text = f"the foreign table `{name}` cannot be read from {location.path}: {reason}"
    hint = _UNLIKE if isinstance(error, Changed) else _UNREADABLE[location.format]
    return SourceFailed(text, name=name, source=location.path, hint=hint)
