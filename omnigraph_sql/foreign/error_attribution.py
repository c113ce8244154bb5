"""Attribution of engine errors to foreign tables: an error about a file seldom names the table."""

from __future__ import annotations

import re

from omnigraph_sql.errors import SourceFailed
from omnigraph_sql.foreign.files import FileTable
from omnigraph_sql.foreign.model import ForeignRead
from omnigraph_sql.foreign.types import duckdb_type

_CSV = re.compile(
    r"CSV Error|Error while parsing value '.*' as type '(?P<kind>\w+)' for column (?P<at>\d+) at line"
    r"|Csv error(?:.* expected (?P<count>\d+) got)?",
    re.DOTALL,
)
_CONVERTED = re.compile(
    r"""Error when converting column "(.+?)"\. Could not convert string ".*?" to '([^'\n]+)'""", re.DOTALL
)
_FILE = re.compile(r"^\s*file = (.+)$|Failed to read file \"([^\"]+)\"", re.MULTILINE)
_PARQUET = re.compile(r"Parquet error|parquet|[Dd]ecompress|TProtocol|don't know what type|No magic bytes", re.IGNORECASE)
_HINT = "put the file right, or register the table again; of CSV, types= says what a column holds"


def attributed_error(text: str, reading: ForeignRead) -> SourceFailed | None:
    """Return the error for an engine's message about the files of a statement's foreign tables; None for other messages."""
    suspects = _suspects(text, [table for table in reading.files.values() if isinstance(table, FileTable)])
    if not suspects:
        return None
    names, reason = [table.name for table in suspects], _reason(text)
    if len(suspects) == 1:
        (table,) = suspects
        return table.error_for(
            f"the files of the foreign table `{table.name}` cannot be read: {table.shown}: {reason}", _HINT
        )
    listed = " or ".join(f"`{name}`" for name in names)
    shown = ", ".join(table.shown for table in suspects)
    message = f"the files of the foreign table {listed} cannot be read: {shown}: {reason}"
    return SourceFailed(message, name=", ".join(names), source=shown, hint=_HINT)


def _suspects(text: str, tables: list[FileTable]) -> list[FileTable]:
    """Return the tables that an error may be about."""
    named = _FILE.search(text)
    if named is not None:
        path = named[1] or named[2]
        owners = [table for table in tables if any(str(file) == path for file in table.location.files())]
        return [table for table in owners if not _is_cast(text, table)]
    csv = _CSV.search(text)
    if csv is not None:
        csv_tables = [table for table in tables if table.kind == "csv"]
        return [table for table in csv_tables if _fits(table, csv)] or csv_tables
    return [table for table in tables if table.kind == "parquet"] if _PARQUET.search(text) else []


def _is_cast(text: str, table: FileTable) -> bool:
    """True if a cast of the statement failed, not the read: DuckDB pushes casts into its CSV reader."""
    match = _CONVERTED.search(text)
    if match is None or match[1] not in table.schema.names:
        return False
    return duckdb_type(table.schema.field(match[1]).type).replace(" ", "") != match[2].replace(" ", "")


def _fits(table: FileTable, csv: re.Match[str]) -> bool:
    """True if the number of columns in an error message, or the type of one column, matches a table."""
    if csv["count"] is not None:
        return len(table.schema) == int(csv["count"])
    if csv["at"] is None:
        return True
    at = int(csv["at"])
    return at < len(table.schema) and str(table.schema.types[at]).startswith(csv["kind"].lower())


def _reason(text: str) -> str:
    """Return the first lines of a message: the position in the file, and the value there."""
    lines = [line.strip() for line in text.strip().splitlines()]
    head = lines[: lines.index("")] if "" in lines else lines
    first = [line for line in head if not line.startswith(("*", "Possible"))][:3]
    return "; ".join(first).removeprefix("DataFusion error: ")
