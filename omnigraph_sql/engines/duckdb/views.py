"""Tables of a graph in DuckDB: a view for each, over a dataset that is opened when it is read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from omnigraph_sql.engines.duckdb.foreign_views import detach_files, expose
from omnigraph_sql.engines.duckdb.functions import CurrentResolver
from omnigraph_sql.engines.duckdb.statement_parser import ParsedStatement, parse_statement
from omnigraph_sql.errors import BadRequest, NotFound, OmnigraphError
from omnigraph_sql.foreign.predicate_evaluation import ENGINE_FILTERS
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan
from omnigraph_sql.sql.information_schema import InformationTables
from omnigraph_sql.sql.refs import SchemaRef
from omnigraph_sql.sql.resolver import NameResolver, ResolvedTable, unknown_name
from omnigraph_sql.sqltext.identifiers import case_safe_names, quoted
from omnigraph_sql.sqltext.text_limits import MOST_VIEWS, check_sql, too_many_views
from omnigraph_sql.sqltext.user_sql import qualified_sql, translated_sql
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.lazy_table import LazyTable

_OTHERS = ("temp", "system")
_THEIRS = ("pg_catalog",)
INFORMATION = "omnigraph information"
"""The schema that holds `information_schema`: nothing can be added to DuckDB's own."""
_DEEPEST = 32


class GraphViews:
    """The views of a graph in a connection, in a database of their own. Views that exist already are not created again."""

    def __init__(self, duck: duckdb.DuckDBPyConnection, alias: str, current: CurrentResolver) -> None:
        self.alias = alias
        self._current = current
        self._duck = duck
        self._schemas: set[str] = set()
        self._created: dict[tuple[str, str], Hashable] = {}
        self._default_schema: str | None = None
        self._has_files = False
        self._view_count = 0
        duck.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quoted(alias)}")

    def use(self, schema: str) -> None:
        """Make a schema the default."""
        if self._default_schema != schema:
            self._create_schema(schema)
            self._duck.execute(f"USE {quoted(self.alias, schema)}")
            self._default_schema = schema

    def create_for(self, resolver: NameResolver, statement: ParsedStatement) -> None:
        """Create the views of all tables that a statement names."""
        self._view_count = 0
        for parts, is_local in statement.tables:
            try:
                self._resolve(resolver, list(parts), 0)
            except NotFound:
                if not is_local:
                    raise
        if statement.lists_tables:
            self.create_all(resolver, [resolver.default_schema])
        self.use(resolver.default_schema)

    def versions_read(self, resolver: NameResolver, statement: ParsedStatement) -> Hashable | None:
        """Return the table versions that a statement reads.

        None unless all of them are stored tables of its default state that have views already.
        """
        own = resolver.default_schema
        versions: list[Hashable] = [resolver.default_state]
        for parts, is_local in statement.tables:
            if parts[:-1] not in ((), (own,)):
                return None
            try:
                entry = resolver.find(resolver.default_place, parts[-1]).entry
            except NotFound:
                if is_local:
                    continue
                return None
            if entry is None or self._created.get((own, parts[-1].lower())) != entry:
                return None
            versions.append(entry)
        return tuple(versions)

    def columns(self, resolver: NameResolver, statement: ParsedStatement) -> list[str]:
        """Return the columns of the tables that a statement names, except those of views."""
        columns: list[str] = []
        for parts, _ in statement.tables:
            with suppress(NotFound):
                table = resolver.find(resolver.place(parts[-2]) if len(parts) > 1 else resolver.default_place, parts[-1])
                columns += resolver.columns(table).names if table.kind != "view" else ()
        return columns

    def release(self) -> None:
        """Detach the DuckDB files that a statement has read."""
        if self._has_files:
            detach_files(self._duck)
            self._has_files = False

    def _create_information_view(self, resolver: NameResolver, name: str) -> None:
        information = InformationTables(self.alias, resolver)
        if name.lower() not in information.names:
            raise unknown_name("table", name, information.names)
        self._create_dataset_view(INFORMATION, name, object(), pads.dataset(information.table(name.lower())))

    def create_all(self, resolver: NameResolver, names: list[str]) -> None:
        """Create the views of all tables of some schemas."""
        self._view_count = 0
        for name in names:
            place = resolver.place(name)
            self._create_schema(name)
            tables = resolver.reachable(place)
            for alias, table in zip(case_safe_names(tables), tables.values(), strict=True):
                self._create(resolver, name, alias, place, table, 0)

    def _resolve(self, resolver: NameResolver, parts: list[str], depth: int) -> tuple[str, str] | None:
        """Create the view of a name; return its schema and name, or None if the table does not belong to the graph."""
        if len(parts) == 3:
            if parts[0] in _OTHERS:
                return None
            database = resolver.database if resolver.source.pin is not None or resolver.namespace else self.alias
            if parts[0].lower() != database.lower():
                raise unknown_name("catalog", parts[0], [database])
            parts = parts[1:]
        if len(parts) == 2 and parts[0] == INFORMATION:
            self._create_information_view(resolver, parts[1])
            return INFORMATION, parts[1]
        if len(parts) == 2 and parts[0].lower() in _THEIRS:
            return None
        place = resolver.place(parts[0]) if len(parts) == 2 else resolver.default_place
        schema = resolver.namespace + (parts[0] if len(parts) == 2 else resolver.default_schema)
        table = resolver.find(place, parts[-1])
        resolver.require(place, table)
        self._create(resolver, schema, parts[-1], place, table, depth)
        return schema, parts[-1]

    def _create(
        self, resolver: NameResolver, schema: str, name: str, place: SchemaRef, table: ResolvedTable, depth: int
    ) -> None:
        if table.kind == "view":
            self._create_sql_view(resolver, schema, name, place, table, depth)
            return
        if table.foreign is not None:
            self.use(schema)
            expose(table.foreign, self._duck, schema, name, resolver.reading)
            self._has_files |= table.foreign.kind == "duckdb"
            self._created.pop((schema, name.lower()), None)
            return
        if table.staged is not None:
            self._create_dataset_view(schema, name, object(), table.staged)
            return
        if table.entry is None:
            raise unknown_name("table", table.name, resolver.tables(place))
        if self._created.get((schema, name.lower())) != table.entry:
            dataset = LazyTable(
                resolver.columns(table), _opened(self._current, resolver.opened(table.entry)), ENGINE_FILTERS
            )
            self._create_dataset_view(schema, name, table.entry, dataset)

    def _create_dataset_view(self, schema: str, name: str, identity: Hashable, table: pads.Dataset) -> None:
        """Create or replace a view over a dataset."""
        names = case_safe_names(table.schema.names)
        if names == table.schema.names:
            self._create_view(schema, name, table, "*")
        else:
            # DuckDB ignores the case of names, and would confuse columns that differ only in case.
            renamed = RenamedDataset(table)
            pairs = zip(renamed.names, names, strict=True)
            self._create_view(schema, name, renamed, ", ".join(f"{column} AS {quoted(alias)}" for column, alias in pairs))
        self._created[schema, name.lower()] = identity

    def _create_view(self, schema: str, name: str, table: pads.Dataset, columns: str) -> None:
        if hasattr(self._duck, "_create_view"):
            # The same as `create_view` of a relation without binding its columns first, which is half of the work.
            source = self._duck._register_source(table)
            self._create_schema(schema)
            text = f"SELECT {columns} FROM {quoted(source.name)}"
            self._duck._create_view((self.alias, schema, name), text, replace=True)
            return
        self.use(schema)
        self._duck.from_arrow(table).project(columns).create_view(name, replace=True)

    def _create_sql_view(
        self, resolver: NameResolver, schema: str, name: str, place: SchemaRef, table: ResolvedTable, depth: int
    ) -> None:
        """Create a view of the graph after the tables that it reads; its names are resolved relative to its own schema."""
        assert table.relation is not None
        assert table.relation.definition is not None
        if depth >= _DEEPEST:
            hint = "a view may not read itself, nor another that reads it"
            raise BadRequest(f"the view `{table.name}` is {_DEEPEST} views deep", hint=hint)
        definition = table.relation.definition
        inside = resolver.inside(place, definition)
        home = inside.schema_text(place)

        def resolve(parts: list[str]) -> list[str]:
            qualified = parts if len(parts) > 1 else [home, *parts]
            view = self._resolve(inside, qualified, depth + 1)
            return parts if view is None else [self.alias, *view]

        self._view_count += 1
        if self._view_count > MOST_VIEWS:
            raise too_many_views(self._view_count)
        check_sql(definition["sql"], f"the view `{table.name}`")
        text = translated_sql(definition["sql"], definition["dialect"], "duckdb")
        parse_statement(self._duck, inside, text)  # raises if the view does anything but read
        text = qualified_sql(text, resolve)
        self._create_schema(schema)
        self._duck.execute(f"CREATE OR REPLACE VIEW {quoted(self.alias, schema, name)} AS {text}")

    def _create_schema(self, schema: str) -> None:
        if schema not in self._schemas:
            self._duck.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.alias, schema)}")
            self._schemas.add(schema)


def _opened(current: CurrentResolver, open_table: Callable[[], SnapshotHandle]) -> Callable[[], SnapshotHandle]:
    """Wrap an opening function so that it reports errors to the resolver: DuckDB passes on only their text."""

    def run() -> SnapshotHandle:
        try:
            return open_table()
        except OmnigraphError as error:
            current.resolver.fail(error)
            raise

    return run


class RenamedDataset(LazyDataset):
    """A dataset with renamed columns, whose names differ by more than case."""

    def __init__(self, table: pads.Dataset) -> None:
        self.names = [f"c{number}" for number in range(len(table.schema))]
        super().__init__(pa.schema([field.with_name(name) for field, name in zip(table.schema, self.names, strict=True)]))
        self._table = table

    def batches(self, scan: LazyScan) -> Batches:
        """Read the rows under the new names; the filter uses these, so it is evaluated here."""
        for batch in self._table.scanner().to_reader():
            rows = pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
            satisfying = rows if scan.filter is None else ENGINE_FILTERS.satisfying(rows, scan.filter)
            yield satisfying.select(scan.columns)
