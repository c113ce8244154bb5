"""Which foreign table an engine failed at: of a file that it cannot read, it seldom says whose it is."""

from __future__ import annotations

import re

from omnigraph_sql.engines.foreign.files import Files
from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.engines.foreign.types import duckdb_type
from omnigraph_sql.errors import SourceFailed

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


def blamed(text: str, reading: Reading) -> SourceFailed | None:
    """The error for what an engine said, if it is about the files of a statement's foreign tables."""
    found = _suspects(text, [table for table in reading.files.values() if isinstance(table, Files)])
    if not found:
        return None
    names, reason = [table.name for table in found], _reason(text)
    if len(found) == 1:
        (table,) = found
        return table.failed(f"the files of the foreign table `{table.name}` cannot be read: {table.shown}: {reason}", _HINT)
    listed = " or ".join(f"`{name}`" for name in names)
    shown = ", ".join(table.shown for table in found)
    failed = f"the files of the foreign table {listed} cannot be read: {shown}: {reason}"
    return SourceFailed(failed, name=", ".join(names), source=shown, hint=_HINT)


def _suspects(text: str, tables: list[Files]) -> list[Files]:
    """The tables that an error may be about."""
    named = _FILE.search(text)
    if named is not None:
        path = named[1] or named[2]
        found = [table for table in tables if any(str(file) == path for file in table.location.files())]
        return [table for table in found if not _is_cast(text, table)]
    csv = _CSV.search(text)
    if csv is not None:
        written = [table for table in tables if table.kind == "csv"]
        return [table for table in written if _fits(table, csv)] or written
    return [table for table in tables if table.kind == "parquet"] if _PARQUET.search(text) else []


def _is_cast(text: str, table: Files) -> bool:
    """Whether a value is no value of a type that the statement wants: DuckDB lets the reader of CSV do its casts."""
    found = _CONVERTED.search(text)
    if found is None or found[1] not in table.schema.names:
        return False
    return duckdb_type(table.schema.field(found[1]).type).replace(" ", "") != found[2].replace(" ", "")


def _fits(table: Files, csv: re.Match[str]) -> bool:
    """Whether a table has as many columns as an error says, or a column of a type at a place."""
    if csv["count"] is not None:
        return len(table.schema) == int(csv["count"])
    if csv["at"] is None:
        return True
    at = int(csv["at"])
    return at < len(table.schema) and str(table.schema.types[at]).startswith(csv["kind"].lower())


def _reason(text: str) -> str:
    """The first lines of what was said: where in a file, and what is there."""
    lines = [line.strip() for line in text.strip().splitlines()]
    head = lines[: lines.index("")] if "" in lines else lines
    said = [line for line in head if not line.startswith(("*", "Possible"))][:3]
    return "; ".join(said).removeprefix("DataFusion error: ")
