"""Tables of a graph in a database of DuckDB: a view for each, over a table that is opened when it is read."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from omnigraph_sql.engines.foreign.checking import ENGINE_FILTERS
from omnigraph_sql.engines.foreign.duckdb_files import detach_files
from omnigraph_sql.engines.sql.duck.naming import quoted, told_apart
from omnigraph_sql.engines.sql.duck.parsing import Parsed, parsed
from omnigraph_sql.engines.sql.information import Information
from omnigraph_sql.engines.sql.names import Place
from omnigraph_sql.engines.sql.pins import Pins, Shown, unknown
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.planner.statements import qualified_sql, translated_sql
from omnigraph_sql.storage.lazy import LazyTable

_OTHERS = ("temp", "system")
_THEIRS = ("pg_catalog",)
INFORMATION = "omnigraph information"
"""Where `information_schema` is: DuckDB lets nobody add to its own."""
_DEEPEST = 32


class Tables:
    """What a connection shows of a graph, in a database of its own. What is shown already is not shown again."""

    def __init__(self, duck: duckdb.DuckDBPyConnection, alias: str) -> None:
        self.alias = alias
        self._duck = duck
        self._schemas: set[str] = set()
        self._shown: dict[tuple[str, str], Hashable] = {}
        self._used: str | None = None
        self._has_files = False
        duck.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quoted(alias)}")

    def use(self, schema: str) -> None:
        """Let names without a schema be those of one."""
        if self._used != schema:
            self._make(schema)
            self._duck.execute(f"USE {quoted(self.alias, schema)}")
            self._used = schema

    def needed(self, pins: Pins, statement: Parsed) -> None:
        """Show all tables that a statement names."""
        for parts, is_local in statement.tables:
            try:
                self._resolve(pins, list(parts), 0)
            except NotFound:
                if not is_local:
                    raise
        if statement.lists_tables:
            self.everything(pins, [str(pins.own)])
        self.use(str(pins.own))

    def read_by(self, pins: Pins, statement: Parsed) -> Hashable | None:
        """What a statement reads, if that is all shown, and stored tables of its own state; else None."""
        own = str(pins.own)
        found: list[Hashable] = [pins.own]
        for parts, is_local in statement.tables:
            if parts[:-1] not in ((), (own,)):
                return None
            try:
                entry = pins.find(Place(pins.own), parts[-1]).entry
            except NotFound:
                if is_local:
                    continue
                return None
            if entry is None or self._shown.get((own, parts[-1].lower())) != entry:
                return None
            found.append(entry)
        return tuple(found)

    def columns(self, pins: Pins, statement: Parsed) -> list[str]:
        """The columns of the tables that a statement names; those of views are not known without looking."""
        found: list[str] = []
        for parts, _ in statement.tables:
            with suppress(NotFound):
                shown = pins.find(pins.place(parts[-2]) if len(parts) > 1 else Place(pins.own), parts[-1])
                found += pins.columns(shown).names if shown.kind != "view" else ()
        return found

    def release(self) -> None:
        """Let go of files of other databases, which a statement read."""
        if self._has_files:
            detach_files(self._duck)
            self._has_files = False

    def _inform(self, pins: Pins, name: str) -> None:
        information = Information(self.alias, pins)
        if name.lower() not in information.names:
            raise unknown("table", name, information.names)
        self._put(INFORMATION, name, object(), pads.dataset(information.table(name.lower())))

    def everything(self, pins: Pins, names: list[str]) -> None:
        """Show all tables of some schemas."""
        for name in names:
            place = pins.place(name)
            self._make(name)
            shown = pins.reachable(place)
            for alias, each in zip(told_apart(shown), shown.values(), strict=True):
                self._show(pins, name, alias, place, each, 0)

    def _resolve(self, pins: Pins, parts: list[str], depth: int) -> tuple[str, str] | None:
        """Show the table of a name; where it is shown, or None if it is not ours."""
        if len(parts) == 3:
            if parts[0] in _OTHERS:
                return None
            if parts[0].lower() != self.alias.lower():
                raise unknown("catalog", parts[0], [self.alias])
            parts = parts[1:]
        if len(parts) == 2 and parts[0] == INFORMATION:
            self._inform(pins, parts[1])
            return INFORMATION, parts[1]
        if len(parts) == 2 and parts[0].lower() in _THEIRS:
            return None
        schema = parts[0] if len(parts) == 2 else str(pins.own)
        place = pins.place(schema)
        shown = pins.find(place, parts[-1])
        self._show(pins, schema, parts[-1], place, shown, depth)
        return schema, parts[-1]

    def _show(self, pins: Pins, schema: str, name: str, place: Place, shown: Shown, depth: int) -> None:
        if shown.kind == "view":
            self._show_view(pins, schema, name, place, shown, depth)
            return
        if shown.foreign is not None:
            self.use(schema)
            shown.foreign.expose(self._duck, schema, name, pins.reading)
            self._has_files |= shown.foreign.kind == "duckdb"
            self._shown.pop((schema, name.lower()), None)
            return
        if shown.entry is None:
            raise unknown("table", shown.name, pins.tables(place))
        known = self._shown.get((schema, name.lower()))
        if known != shown.entry:
            table = LazyTable(pins.columns(shown), pins.opened(shown.entry), ENGINE_FILTERS)
            self._put(schema, name, shown.entry, table)

    def _put(self, schema: str, name: str, identity: Hashable, table: pads.Dataset) -> None:
        """Show a table, in place of what was shown under its name."""
        names = told_apart(table.schema.names)
        if names == table.schema.names:
            self._create_view(schema, name, table, "*")
        else:
            # Asked for by name, DuckDB would give one column for another.
            hidden = Renamed(table)
            pairs = zip(hidden.names, names, strict=True)
            self._create_view(schema, name, hidden, ", ".join(f"{each} AS {quoted(name)}" for each, name in pairs))
        self._shown[schema, name.lower()] = identity

    def _create_view(self, schema: str, name: str, table: pads.Dataset, columns: str) -> None:
        if hasattr(self._duck, "_create_view"):
            # What a relation does that is made a view, but for asking first which columns it has: that is half of the work.
            source = self._duck._register_source(table)
            self._make(schema)
            text = f"SELECT {columns} FROM {quoted(source.name)}"
            self._duck._create_view((self.alias, schema, name), text, replace=True)
            return
        self.use(schema)
        self._duck.from_arrow(table).project(columns).create_view(name, replace=True)

    def _show_view(self, pins: Pins, schema: str, name: str, place: Place, shown: Shown, depth: int) -> None:
        """Show a view, after what it reads: its names mean what they mean at the place where it is."""
        assert shown.relation is not None
        assert shown.relation.definition is not None
        if depth >= _DEEPEST:
            hint = "a view may not read itself, nor another that reads it"
            raise BadRequest(f"the view `{shown.name}` is {_DEEPEST} views deep", hint=hint)
        definition = shown.relation.definition
        inside = pins.at(place.ref)
        home = str(place.ref) if place.schema is None else f"{place.ref}:{place.schema}"

        def resolve(parts: list[str]) -> list[str]:
            wanted = parts if len(parts) > 1 else [home, *parts]
            found = self._resolve(inside, wanted, depth + 1)
            return parts if found is None else [self.alias, *found]

        text = translated_sql(definition["sql"], definition["dialect"], "duckdb")
        parsed(self._duck, inside, text)  # what a view may not do, whoever made it
        text = qualified_sql(text, resolve)
        self._make(schema)
        self._duck.execute(f"CREATE OR REPLACE VIEW {quoted(self.alias, schema, name)} AS {text}")

    def _make(self, schema: str) -> None:
        if schema not in self._schemas:
            self._duck.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.alias, schema)}")
            self._schemas.add(schema)


class Renamed(pads.Dataset):  # type: ignore[misc]
    """A table under other names, which differ by more than case."""

    def __init__(self, table: pads.Dataset) -> None:
        self._table = table
        self.names = [f"c{number}" for number in range(len(table.schema))]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([each.with_name(name) for each, name in zip(self._table.schema, self.names, strict=True)])

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Any:
        """Conditions are in the new names, so they are looked at here."""
        return _Scan(self, self.names if columns is None else columns, filter)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows, under the new names."""
        for batch in self._table.scanner().to_reader():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


class _Scan:
    def __init__(self, table: Renamed, columns: list[str], filter: Any) -> None:
        self._table, self._columns, self._filter = table, columns, filter

    def to_reader(self) -> pa.RecordBatchReader:
        schema = pa.schema([self._table.schema.field(name) for name in self._columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for rows in self._table.rows():
            kept = rows if self._filter is None else ENGINE_FILTERS.satisfying(rows, self._filter)
            yield kept.select(self._columns)
