"""A graph as a catalog of DataFusion: schemas and tables are looked up when a statement names them."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow.dataset as pads
from datafusion.catalog import CatalogProvider, SchemaProvider

from omnigraph_sql.engines.foreign.checking import ENGINE_FILTERS
from omnigraph_sql.engines.foreign.providing import provided
from omnigraph_sql.engines.sql.information import SCHEMA, Information
from omnigraph_sql.engines.sql.names import Place
from omnigraph_sql.engines.sql.pins import Pins, Shown, has_blobs, unknown
from omnigraph_sql.engines.sql.refusals import READS_ONLY
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.storage.lazy import LazyTable

_ELSEWHERE = "make it one with Graph.register, or attach the graph to a session of your own"


class Session(Protocol):
    """Whoever runs statements."""

    @property
    def alias(self) -> str:
        """What the graph is called."""

    @property
    def pins(self) -> Pins:
        """The states that the statement reads which is being planned."""

    @property
    def is_heard(self) -> bool:
        """Whether it asks why a name was not found. If it does not, what raises must say so itself."""

    def view(self, place: Place, shown: Shown) -> Any:
        """A view of a place as a table."""


class _Fixed(SchemaProvider):
    """A schema whose tables come from the graph alone."""

    def register_table(self, name: str, table: Any) -> None:  # noqa: ARG002
        # In the sentence: of what is raised here, DataFusion shows nothing else.
        raise BadRequest(f"`{name}` cannot be a table of a graph's session: {_ELSEWHERE}")

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: ARG002
        raise BadRequest(f"`{name}` cannot be taken out of a graph's session", hint=READS_ONLY)


class GraphCatalog(CatalogProvider):
    """The schemas of a graph."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def schema_names(self) -> set[str]:
        return {*self._session.pins.schema_names(), SCHEMA}

    def schema(self, name: str) -> Any:
        pins = self._session.pins
        if name == SCHEMA:
            return InformationSchema(pins, Information(self._session.alias, pins))
        try:
            return PlaceSchema(self._session, pins.place(name))
        except OmnigraphError as error:
            pins.fail(error)
            return None if self._session.is_heard else _Missing(error)


class _Missing(_Fixed):
    """A schema that is not there, for those who ask it for a table."""

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
    """What there is, for whoever asks in SQL."""

    def __init__(self, pins: Pins, information: Information) -> None:
        self._pins = pins
        self._information = information

    @property  # DataFusion reads an attribute, whatever its base class says
    def table_names(self) -> list[str]:  # type: ignore[override]
        return self._information.names

    def table_exist(self, name: str) -> bool:
        return name in self._information.names

    def table(self, name: str) -> Any:
        if not self.table_exist(name):
            self._pins.fail(unknown("table", name, self._information.names))
            return None
        return pads.dataset(self._information.table(name))


class PlaceSchema(_Fixed):
    """The tables of one state of a graph: one for each type, and those of a relational schema."""

    def __init__(self, session: Session, place: Place) -> None:
        self._session = session
        self._pins = session.pins
        self._place = place

    @property  # DataFusion reads an attribute, whatever its base class says
    def table_names(self) -> list[str]:  # type: ignore[override]
        return list(self._pins.tables(self._place))

    def table_exist(self, name: str) -> bool:
        return self._found(name) is not None

    def table(self, name: str) -> Any:
        try:
            return self._provided(self._pins.find(self._place, name))
        except OmnigraphError as error:
            self._pins.fail(error)
            if not self._session.is_heard:
                raise
            return None

    def _found(self, name: str) -> Shown | None:
        try:
            return self._pins.find(self._place, name)
        except OmnigraphError as error:
            self._pins.fail(error)
            return None

    def _provided(self, shown: Shown) -> Any:
        if shown.kind == "view":
            return self._session.view(self._place, shown)
        if shown.foreign is not None:
            return shown.foreign.provider(self._pins.reading)
        if shown.entry is None:
            raise unknown("table", shown.name, self._pins.tables(self._place))
        opened, storage = self._pins.opened(shown.entry), self._pins.source.storage
        if has_blobs(shown):
            return provided(LazyTable(self._pins.columns(shown), opened, ENGINE_FILTERS), shown.name)
        return storage.provider(opened())
