"""Registry of the foreign tables of a graph handle."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.arguments import path
from omnigraph_sql.arguments import shown as shown_value
from omnigraph_sql.errors import BadRequest, Conflict, NotFound
from omnigraph_sql.foreign.addresses import address, is_postgres
from omnigraph_sql.foreign.arrow_data import ArrowTable, is_arrow, open_arrow
from omnigraph_sql.foreign.files import SchemaInference, open_files
from omnigraph_sql.foreign.locations import CsvOptions, locate
from omnigraph_sql.foreign.model import ForeignSource, ForeignTable
from omnigraph_sql.foreign.table_names import parse_table
from omnigraph_sql.foreign.types import parse_types

SCHEMA = "foreign"
"""The schema of foreign tables in SQL."""
_FILE_OPTIONS = ("format",)
_CSV_OPTIONS = ("format", "delimiter", "header", "schema", "types")
_TABLE_OPTIONS = ("table",)


class ForeignTables:
    """Foreign tables by name. Names must differ by more than case, because some engines ignore it."""

    def __init__(self, infer: SchemaInference) -> None:
        self._infer = infer
        self._tables: dict[str, ForeignSource] = {}
        self._origins: dict[str, tuple[Any, dict[str, Any]]] = {}

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(table.name for table in self._tables.values())

    def get(self, name: str) -> ForeignSource | None:
        """Return a table by its name, ignoring case."""
        return self._tables.get(name.casefold())

    def add(self, name: str, source: Any, options: Mapping[str, Any], taken: Mapping[str, str]) -> ForeignTable:
        """Register a source. `taken` maps the names of other tables to their kinds."""
        _check_name(name, {**taken, **dict.fromkeys(self.names(), "foreign table")})
        table = _open(name, source, dict(options), self._infer)
        _check_columns(table)
        self._tables[name.casefold()] = table
        self._origins[name.casefold()] = (table.data if isinstance(table, ArrowTable) else source), dict(options)
        return foreign_table_of(table)

    def origins(self, text: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Yield name, source and options of each table whose name occurs in a text."""
        folded = text.casefold()
        for name in self.names():
            if name.casefold() in folded or name.replace('"', '""').casefold() in folded:
                yield name, *self._origins[name.casefold()]

    def remove(self, name: str) -> None:
        """Unregister a table; its source is not changed."""
        if self.get(name) is None:
            hint = did_you_mean(name, self.names()) or f"there are {listing(self.names()) or 'none'}"
            raise NotFound(f"there is no foreign table `{name}`", what="foreign table", name=name, hint=hint)
        del self._tables[name.casefold()], self._origins[name.casefold()]

    def all(self) -> list[ForeignTable]:
        """Return all tables in the order of their names."""
        return [foreign_table_of(self._tables[name.casefold()]) for name in self.names()]


def foreign_table_of(table: ForeignSource) -> ForeignTable:
    """Describe a table for `Graph.foreign`."""
    return ForeignTable(table.name, table.kind, table.shown, table.schema, table.last_sql)


def _check_name(name: object, taken: Mapping[str, str]) -> None:
    if not isinstance(name, str) or not name:
        raise BadRequest("a foreign table needs a name that is a text", hint='write register("NAME", SOURCE)')
    for other, kind in taken.items():
        if other.casefold() == name.casefold():
            text = f"`{name}` cannot be the name of a foreign table: there is a {kind} `{other}`"
            raise Conflict(text, reason="name_taken", hint="choose another name, or unregister the foreign table first")


def _check_columns(table: ForeignSource) -> None:
    repeated = {name for name in table.schema.names if table.schema.names.count(name) > 1}
    if repeated:
        text = f"the source of the foreign table `{table.name}` has several columns called {listing(sorted(repeated))}"
        raise BadRequest(text, hint="give each column a name of its own")


def _open(name: str, source: Any, options: dict[str, Any], infer: SchemaInference) -> ForeignSource:
    if is_postgres(source):
        from omnigraph_sql.foreign import postgres

        _check_options(address(source).shown, options, _TABLE_OPTIONS)
        schema, table = _table(options, postgres.DEFAULT_SCHEMA, address(source).shown)
        return postgres.open_postgres(name, source, schema, table)
    if isinstance(source, str | os.PathLike):
        return _open_path(name, os.fspath(path("source", source)), options, infer)
    if is_arrow(source):
        _check_options("Arrow data", options, ())
        return open_arrow(name, source)
    hint = "give a path, a pattern, a postgresql:// address, or Arrow data (a table, a reader or a data frame)"
    raise BadRequest(f"a {type(source).__name__} is no source of a foreign table", hint=hint)


def _open_path(name: str, source: str, options: dict[str, Any], infer: SchemaInference) -> ForeignSource:
    if "://" in source:
        hint = "give a path, a pattern, or an address that begins with postgresql://"
        raise BadRequest(f"the address `{address(source).shown}` cannot be read", hint=hint)
    from omnigraph_sql.foreign import duckdb_files

    if "format" not in options and duckdb_files.is_duckdb(Path(source).expanduser()):
        _check_options(source, options, _TABLE_OPTIONS)
        schema, table = _table(options, duckdb_files.DEFAULT_SCHEMA, source)
        return duckdb_files.open_duckdb(name, Path(source), schema, table)
    location = locate(source, options.get("format"))
    _check_options(source, options, _CSV_OPTIONS if location.format == "csv" else _FILE_OPTIONS)
    return open_files(name, location, _csv(location.suffix, options), infer)


def _csv(suffix: str, options: Mapping[str, Any]) -> CsvOptions:
    delimiter = options.get("delimiter", "\t" if suffix.lower().startswith(".tsv") else ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        raise BadRequest(
            f"`{shown_value(delimiter)}` cannot be the delimiter of a CSV file", hint="give one ASCII character"
        )
    header = options.get("header", True)
    if not isinstance(header, bool):
        raise BadRequest(f"`header` is {shown_value(header)}", hint="write true or false")
    schema = parse_types(options["schema"]) if "schema" in options else None
    return CsvOptions(
        delimiter, header, None if schema is None else pa.schema(schema), parse_types(options.get("types", {}))
    )


def _table(options: Mapping[str, Any], default_schema: str, source: str) -> tuple[str, str]:
    if "table" not in options:
        raise BadRequest(f"{source} has many tables", hint='say which with table="SCHEMA.TABLE"')
    return parse_table(options["table"], default_schema)


def _check_options(source: str, options: Iterable[str], allowed: tuple[str, ...]) -> None:
    for option in options:
        if option not in allowed:
            listed = listing(allowed)
            hint = did_you_mean(option, allowed) or (f"there are {listed}" if listed else "leave it out")
            raise BadRequest(f"`{option}` is no option of {source}", hint=hint)
