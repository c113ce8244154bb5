"""Parquet and CSV files, read by the engines' own readers."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from datafusion import CsvReadOptions, SessionConfig, SessionContext

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.engines.foreign.lazy import Batches, LazyDataset
from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.engines.foreign.providing import provided
from omnigraph_sql.engines.foreign.types import duckdb_type
from omnigraph_sql.engines.foreign.views import create_object_view, create_view
from omnigraph_sql.errors import BadRequest, NotFound, OmnigraphError, SourceFailed
from omnigraph_sql.planner.remote import quoted, text_literal

Format = Literal["parquet", "csv"]
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
_PACKED = ".gz"
_WILD = frozenset("*?[")
_TABLE = "files"
_UNREADABLE: dict[Format, str] = {
    "parquet": "is it Parquet? format= says what it is",
    "csv": "delimiter= and header= say how it is written; with schema= nothing is guessed",
}
SUBDIRECTORIES = ("datafusion.execution.listing_table_ignore_subdirectory", "false")
"""A setting of the sessions that read files: those further down in a directory belong to the table, too."""


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written."""

    delimiter: str = ","
    header: bool = True
    schema: pa.Schema | None = None
    """All columns; None to guess them from the first rows."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Those of some columns, where guessing would go wrong."""


@dataclass(frozen=True)
class Location:
    """Files: one, those below a directory, or those of a pattern."""

    path: str
    """Absolute."""
    is_pattern: bool
    format: Format
    suffix: str
    """What the names end with."""

    @property
    def is_directory(self) -> bool:
        return not self.is_pattern and Path(self.path).is_dir()

    def exists(self) -> bool:
        """Whether there is at least one file."""
        if self.is_pattern:
            return next(glob.iglob(self.path, recursive=True), None) is not None
        return next(_below(self.path, self.suffix), None) is not None if self.is_directory else Path(self.path).is_file()

    def for_datafusion(self) -> str:
        """As DataFusion wants it; the form of an address keeps signs in names from being taken for a pattern."""
        if self.is_pattern:
            return self.path
        return Path(self.path).as_uri() + ("/" if self.is_directory else "")

    def for_duckdb(self) -> str:
        if self.is_pattern:
            return self.path
        escaped = "".join(f"[{char}]" if char in _WILD else char for char in self.path)
        return f"{escaped}/**/*{self.suffix}" if self.is_directory else escaped


def locate(source: str, given: str | None) -> Location:
    """Where the files of a source are, and what they are."""
    path = str(Path(source).expanduser().absolute())
    is_pattern = not Path(path).exists() and any(char in _WILD for char in path)
    suffix = _suffix(path)
    if Path(path).is_dir() and _format(suffix) is None:
        suffix = _suffix_below(path, given)
    form = _format(suffix) if given is None else _given(given)
    if not is_pattern and not Path(path).exists():
        hint = "give the path of a file or a directory, or a pattern as *.parquet"
        raise NotFound(f"there is no file `{path}`", what="file", name=path, hint=hint)
    if form is None:
        raise BadRequest(f"`{source}` does not say what it holds", hint='add format="parquet" or format="csv"')
    location = Location(path, is_pattern, form, suffix)
    if not location.exists():
        hint = f"names must end with `{suffix}`" if location.is_directory else "look at the pattern and the directory"
        raise NotFound(f"there are no files in `{path}`", what="file", name=path, hint=hint)
    return location


def _suffix(path: str) -> str:
    name = Path(path).name
    packed = _PACKED if name.lower().endswith(_PACKED) else ""
    return Path(name[: len(name) - len(packed)]).suffix + packed


def _format(suffix: str) -> Format | None:
    return _SUFFIXES.get(suffix.lower().removesuffix(_PACKED))


def _given(form: str) -> Format:
    if form not in ("parquet", "csv"):
        raise BadRequest(f"`{form}` is no format of files", hint="write parquet or csv")
    return form  # type: ignore[return-value]


def _below(directory: str, suffix: str) -> Iterator[Path]:
    return (path for path in Path(directory).rglob(f"*{suffix}") if path.is_file())


def _suffix_below(directory: str, given: str | None) -> str:
    """What the names of the data files in a directory end with: all of them the same."""
    found = {_suffix(str(path)) for path in _below(directory, "")}
    found = {suffix for suffix in found if (_format(suffix) if given is None else _format(suffix) == given)}
    if len(found) > 1:
        listed = ", ".join(sorted(found))
        hint = 'say which with format="parquet" or format="csv", or give a pattern'
        raise BadRequest(f"`{directory}` holds files of several kinds: {listed}", hint=hint)
    return found.pop() if found else f".{given or 'parquet'}"


@dataclass(frozen=True)
class Files:
    """A foreign table made of files."""

    name: str
    location: Location
    schema: pa.Schema
    csv: CsvOptions
    table: Any
    """DataFusion's own table. It looks for the files anew whenever it is read."""

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
        # DataFusion takes files that are gone for a table without rows.
        return self.table if self.location.exists() else provided(LazyDataset(_Missing(self, reading)), self.name)

    def expose(self, connection: Any, schema: str, name: str, reading: Reading) -> None:
        if not self.location.exists():
            create_object_view(connection, schema, name, LazyDataset(_Missing(self, reading)))
            return
        create_view(connection, schema, name, self.schema, f"SELECT {_selected(self.schema)} FROM {self._reader()}")

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


class _Missing:
    """Stands for files that are gone: whoever reads them is told."""

    def __init__(self, files: Files, reading: Reading) -> None:
        self._files = files
        self._reading = reading
        self.schema = files.schema

    def planned(self, columns: Any, expression: Any) -> None:
        """Nothing is asked of anybody."""

    def batches(self, columns: Any, expression: Any) -> Batches:  # noqa: ARG002 (there are none)
        error = SourceFailed(
            f"the files of the foreign table `{self._files.name}` are gone: {self._files.shown}",
            name=self._files.name,
            source=self._files.shown,
            hint="put them back, or register the table again",
        )
        self._reading.failed(error)
        raise error


def open_files(name: str, location: Location, csv: CsvOptions) -> Files:
    """A table of files, with the columns they have now."""
    context = SessionContext(SessionConfig().set(*SUBDIRECTORIES))
    try:
        _OPENERS[location.format](context, location, csv)
    except OmnigraphError:
        raise
    except Exception as error:
        raise _unreadable(name, location, error) from error
    table = context.table_provider(_TABLE)
    return Files(name, location, table.schema, csv, table)


def _open_parquet(context: SessionContext, location: Location, _csv: CsvOptions) -> None:
    context.register_parquet(_TABLE, location.for_datafusion(), file_extension=location.suffix)


def _open_csv(context: SessionContext, location: Location, csv: CsvOptions) -> None:
    def register(schema: pa.Schema | None) -> None:
        options = CsvReadOptions(
            schema=schema,
            has_header=csv.header,
            delimiter=csv.delimiter,
            newlines_in_values=True,  # else a large file is cut into pieces at any end of a line
            file_extension=location.suffix,
            file_compression_type="gzip" if location.suffix.lower().endswith(_PACKED) else "",
        )
        context.register_csv(_TABLE, location.for_datafusion(), options=options)

    register(csv.schema)
    if csv.schema is None and csv.types:
        guessed = context.table_provider(_TABLE).schema
        context.deregister_table(_TABLE)
        register(_retyped(guessed, csv.types, location))


_OPENERS: dict[Format, Callable[[SessionContext, Location, CsvOptions], None]] = {
    "parquet": _open_parquet,
    "csv": _open_csv,
}


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
    return SourceFailed(text, name=name, source=location.path, hint=_UNREADABLE[location.format])
