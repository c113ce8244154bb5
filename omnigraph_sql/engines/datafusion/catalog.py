"""A graph as a catalog of DataFusion. Schemas and tables are resolved when a statement names them."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion.catalog import CatalogProvider, SchemaProvider

from omnigraph_sql.engines.datafusion.foreign import provider_of
from omnigraph_sql.engines.datafusion.foreign_provider import as_provider
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.foreign.predicate_evaluation import ENGINE_FILTERS
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan
from omnigraph_sql.sql.errors import READS_ONLY
from omnigraph_sql.sql.information_schema import SCHEMA, InformationTables
from omnigraph_sql.sql.refs import SchemaRef
from omnigraph_sql.sql.resolver import NameResolver, ResolvedTable, has_blobs, unknown_name
from omnigraph_sql.storage.lazy_table import LazyTable

_ELSEWHERE = "make it one with Graph.register, or attach the graph to a session of your own"


class CatalogSession(Protocol):
    """A session in which statements run."""

    @property
    def alias(self) -> str:
        """The name of the graph's catalog."""

    @property
    def resolver(self) -> NameResolver:
        """The resolver of the statement that is being planned."""

    @property
    def collects_errors(self) -> bool:
        """True if the session reads `resolver.reason()` after planning; otherwise look-ups must raise their errors."""

    def view(self, place: SchemaRef, table: ResolvedTable) -> Any:
        """Return a view as a table provider."""


def dataset_of(rows: pa.Table) -> pads.Dataset:
    """Rows in memory as DataFusion reads them: in one part at least, because it cannot sort none."""
    return pads.dataset(rows) if rows.num_rows else _NoRows(rows.schema)


class _NoRows(LazyDataset):
    """Columns without rows."""

    def batches(self, _scan: LazyScan) -> Batches:
        """No rows."""
        return iter(())


class _Fixed(SchemaProvider):
    """A schema that a session cannot change."""

    def register_table(self, name: str, table: Any) -> None:  # noqa: ARG002
        # The hint is part of the message, because DataFusion drops the hint of an exception.
        raise BadRequest(f"`{name}` cannot be a table of a graph's session: {_ELSEWHERE}")

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: ARG002
        raise BadRequest(f"`{name}` cannot be taken out of a graph's session", hint=READS_ONLY)


class GraphCatalog(CatalogProvider):
    """The schemas of a graph."""

    def __init__(self, session: CatalogSession) -> None:
        self._session = session

    def schema_names(self) -> set[str]:
        return {*self._session.resolver.schema_names(), SCHEMA}

    def schema(self, name: str) -> Any:
        resolver = self._session.resolver
        if name == SCHEMA:
            return InformationSchema(resolver, InformationTables(self._session.alias, resolver))
        try:
            return GraphSchemaProvider(self._session, resolver.place(name))
        except OmnigraphError as error:
            resolver.fail(error)
            return None if self._session.collects_errors else _Missing(error)


class _Missing(_Fixed):
    """A schema that does not exist: a look-up of a table in it raises the error."""

    def __init__(self, error: OmnigraphError) -> None:
        self._error = error

    @property  # DataFusion reads an attribute, whatever its base class says
    def table_names(self) -> list[str]:  # type: ignore[override]
        return []

    def table_exist(self, name: str) -> bool:  # noqa: ARG002
        return False

    def table(self, name: str) -> Any:  # noqa: ARG002
        raise self._error


class InformationSchema(_Fixed):
    """The tables of `information_schema`."""

    def __init__(self, resolver: NameResolver, information: InformationTables) -> None:
        self._resolver = resolver
        self._information = information

    @property  # DataFusion reads an attribute, whatever its base class says
    def table_names(self) -> list[str]:  # type: ignore[override]
        return self._information.names

    def table_exist(self, name: str) -> bool:
        return name in self._information.names

    def table(self, name: str) -> Any:
        if not self.table_exist(name):
            self._resolver.fail(unknown_name("table", name, self._information.names))
            return None
        return dataset_of(self._information.table(name))


class GraphSchemaProvider(_Fixed):
    """The tables of one state of a graph: one per type, or those of a relational schema."""

    def __init__(self, session: CatalogSession, place: SchemaRef) -> None:
        self._session = session
        self._resolver = session.resolver
        self._place = place

    @property  # DataFusion reads an attribute, whatever its base class says
    def table_names(self) -> list[str]:  # type: ignore[override]
        return list(self._resolver.tables(self._place))

    def table_exist(self, name: str) -> bool:
        return self._resolved(name) is not None

    def table(self, name: str) -> Any:
        try:
            return self._provider(self._resolver.find(self._place, name))
        except OmnigraphError as error:
            self._resolver.fail(error)
            if not self._session.collects_errors:
                raise
            return None

    def _resolved(self, name: str) -> ResolvedTable | None:
        try:
            return self._resolver.find(self._place, name)
        except OmnigraphError as error:
            self._resolver.fail(error)
            return None

    def _provider(self, table: ResolvedTable) -> Any:
        if table.kind == "view":
            return self._session.view(self._place, table)
        if table.foreign is not None:
            return provider_of(table.foreign, self._resolver.reading)
        if table.staged is not None:
            return as_provider(table.staged, table.name)
        if table.entry is None:
            raise unknown_name("table", table.name, self._resolver.tables(self._place))
        opened, storage = self._resolver.opened(table.entry), self._resolver.source.storage
        if has_blobs(table) or table.is_addressed:
            return as_provider(LazyTable(self._resolver.columns(table), opened, ENGINE_FILTERS), table.name)
        return storage.provider(opened())
