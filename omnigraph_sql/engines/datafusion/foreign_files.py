"""Tables of DataFusion over files. Each statement gets new ones, over the files that exist at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from datafusion import CsvReadOptions, DataFrame, SessionConfig, SessionContext

from omnigraph_sql.foreign.locations import PACKED, CsvOptions, Location

SUBDIRECTORIES = ("datafusion.execution.listing_table_ignore_subdirectory", "false")
"""Setting of the sessions that read files: a directory includes the files in its subdirectories."""
_CACHES = ("list_files_cache_limit", "metadata_cache_limit", "file_statistics_cache_limit")
_numbers = count(1)


def forget_files(context: SessionContext) -> None:
    """Disable a session's caches of files, which would hide new and changed ones."""
    for cache in _CACHES:
        SessionContext.sql(context, f"SET datafusion.runtime.{cache} = '0K'")


class FileTableFactory:
    """Creates the tables of one location."""

    def __init__(self, location: Location, csv: CsvOptions) -> None:
        self._location = location
        self._csv = csv
        self._context = SessionContext(SessionConfig().set(*SUBDIRECTORIES))
        forget_files(self._context)

    def schema(self, files: Sequence[Path]) -> pa.Schema:
        """Infer the columns of files."""
        location = self._location
        if location.is_directory or location.is_flat(list(files)):
            return self._table([location.for_datafusion()], None).schema
        return pa.unify_schemas([self._table([file.as_uri()], None).schema for file in files], promote_options="permissive")

    def table(self, files: Sequence[Path], schema: pa.Schema, *, is_own_session: bool) -> Any:
        """Return a table over files. A session of the caller may list a directory differently from our own sessions."""
        location, addresses = self._location, [file.as_uri() for file in files]
        if location.format == "csv" or len(files) == 1:
            return self._table(addresses, schema)
        if (location.is_directory and is_own_session) or location.is_flat(list(files)):
            return self._table([location.for_datafusion()], schema)
        return _union([self._context.read_table(self._table([address], schema)) for address in addresses]).into_view()

    def _table(self, addresses: list[str], schema: pa.Schema | None) -> Any:
        """Return a table with a unique name: sessions cache lists of files by table name."""
        name = f"files_{next(_numbers)}"
        if self._location.format == "parquet":
            (address,) = addresses
            self._context.register_parquet(name, address, file_extension=self._extension, schema=schema)
        else:
            self._context.register_csv(name, list(addresses), options=self._csv_options(schema))
        table = self._context.table_provider(name)
        self._context.deregister_table(name)
        return table

    def _csv_options(self, schema: pa.Schema | None) -> CsvReadOptions:
        return CsvReadOptions(
            schema=schema,
            has_header=self._csv.header,
            delimiter=self._csv.delimiter,
            newlines_in_values=True,  # otherwise a large file is split at line ends inside of quoted values
            file_extension=self._extension,
            file_compression_type="gzip" if self._location.suffix.lower().endswith(PACKED) else "",
        )

    @property
    def _extension(self) -> str:
        """The required suffix of file names; empty for a pattern without a fixed one."""
        return "" if "*" in self._location.suffix else self._location.suffix


def _union(frames: list[DataFrame]) -> DataFrame:
    """Combine tables with UNION ALL as a balanced tree."""
    while len(frames) > 1:
        pairs = [frames[at : at + 2] for at in range(0, len(frames), 2)]
        frames = [pair[0].union(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return frames[0]
