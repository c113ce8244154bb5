"""Tables of DataFusion over files. They are made for a statement, with the files that there are then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from datafusion import CsvReadOptions, DataFrame, SessionConfig, SessionContext

from omnigraph_sql.engines.foreign.locations import PACKED, CsvOptions, Location

SUBDIRECTORIES = ("datafusion.execution.listing_table_ignore_subdirectory", "false")
"""A setting of the sessions that read files: those further down in a directory belong to the table, too."""
_CACHES = ("list_files_cache_limit", "metadata_cache_limit", "file_statistics_cache_limit")
_numbers = count(1)


def forget_files(context: SessionContext) -> None:
    """Let a session remember nothing of files: those that are new or changed would not be seen."""
    for cache in _CACHES:
        SessionContext.sql(context, f"SET datafusion.runtime.{cache} = '0K'")


class Reader:
    """Makes the tables of one location."""

    def __init__(self, location: Location, csv: CsvOptions) -> None:
        self._location = location
        self._csv = csv
        self._context = SessionContext(SessionConfig().set(*SUBDIRECTORIES))
        forget_files(self._context)

    def schema(self, files: Sequence[Path]) -> pa.Schema:
        """The columns of files, guessed if they do not say."""
        location = self._location
        if location.is_directory or location.is_flat(list(files)):
            return self._table([location.for_datafusion()], None).schema
        return pa.unify_schemas([self._table([file.as_uri()], None).schema for file in files], promote_options="permissive")

    def table(self, files: Sequence[Path], schema: pa.Schema, *, is_ours: bool) -> Any:
        """A table over files. A session that is not ours may look for those of a directory in another way than we do."""
        location, addresses = self._location, [file.as_uri() for file in files]
        if location.format == "csv" or len(files) == 1:
            return self._table(addresses, schema)
        if (location.is_directory and is_ours) or location.is_flat(list(files)):
            return self._table([location.for_datafusion()], schema)
        return _union([self._context.read_table(self._table([address], schema)) for address in addresses]).into_view()

    def _table(self, addresses: list[str], schema: pa.Schema | None) -> Any:
        """A table with a name of its own: sessions remember lists of files by the name of the table that asked for them."""
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
            newlines_in_values=True,  # else a large file is cut into pieces at any end of a line
            file_extension=self._extension,
            file_compression_type="gzip" if self._location.suffix.lower().endswith(PACKED) else "",
        )

    @property
    def _extension(self) -> str:
        """What names must end with; a pattern may leave that open."""
        return "" if "*" in self._location.suffix else self._location.suffix


def _union(frames: list[DataFrame]) -> DataFrame:
    """All rows of many tables, as a tree that is not deep."""
    while len(frames) > 1:
        pairs = [frames[at : at + 2] for at in range(0, len(frames), 2)]
        frames = [pair[0].union(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return frames[0]
