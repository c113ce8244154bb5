"""DataFusion on a graph: sessions of our own, and graphs in the sessions of others."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions

from omnigraph_sql.engines.apart import apart
from omnigraph_sql.engines.foreign.explaining import inner_plan
from omnigraph_sql.engines.foreign.limits import scan_limits
from omnigraph_sql.engines.foreign.readers import SUBDIRECTORIES, forget_files
from omnigraph_sql.engines.sql.catalog import GraphCatalog
from omnigraph_sql.engines.sql.names import Place, Ref
from omnigraph_sql.engines.sql.pins import Pins, Shown, Source, unknown
from omnigraph_sql.engines.sql.refusals import refused
from omnigraph_sql.engines.sql.registering import register_functions
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner.statements import is_sampled, state_written, translated_sql

CATALOG = "graph"
_CATALOG = re.compile(r"table '([^.']+)\.[^']*\.[^']*' not found")
_DEEPEST = 32
_READS = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


class Attached:
    """A graph in a session. What a name shows is looked up when it is first used, and stays until the next `renew`."""

    def __init__(
        self,
        context: SessionContext,
        source: Source,
        alias: str,
        own: Ref,
        prefixes: tuple[str, ...] = ("",),
        *,
        is_heard: bool = False,
    ) -> None:
        self.alias = alias
        self.is_heard = is_heard
        self.pins = Pins(source, own)
        self.pins.reading.is_ours = is_heard
        self._depth = 0
        self._inner: dict[Place, tuple[SessionContext, _Seen]] = {}
        for name in dict.fromkeys((alias, alias.lower())):  # DataFusion makes names small that are not quoted
            context.register_catalog_provider(name, GraphCatalog(self))
        for prefix in prefixes:
            register_functions(context, self, prefix)

    def renew(self, params: Mapping[str, Any] | None = None, known: dict[Ref, Snapshot] | None = None) -> Pins:
        """Look at everything anew but what is known, for a statement with these parameters."""
        self.pins = Pins(self.pins.source, self.pins.own, params, known)
        self.pins.reading.is_ours = self.is_heard
        return self.pins

    def view(self, place: Place, shown: Shown) -> Any:
        """A view as a table: its names mean what they mean at the place where it is."""
        assert shown.relation is not None
        assert shown.relation.definition is not None
        definition = shown.relation.definition
        if self._depth >= _DEEPEST:
            hint = "a view may not read itself, nor another that reads it"
            raise BadRequest(f"the view `{shown.name}` is {_DEEPEST} views deep", hint=hint)
        text = translated_sql(definition["sql"], definition["dialect"], "datafusion")
        inner, seen = self._inside(place)
        self._depth += 1
        try:
            return apart(lambda: inner.sql_with_options(text, _READS)).into_view()
        except Exception as error:
            reason = seen.pins.reason()
            if reason is not None:
                raise reason from None
            raise refused(f"the view `{shown.name}`: {error}", text) from error
        finally:
            self._depth -= 1

    def _inside(self, place: Place) -> tuple[SessionContext, _Seen]:
        """The session of the views at a place. It stays: tables that it made known live as long as it does."""
        if place not in self._inner:
            schema = str(place.ref) if place.schema is None else f"{place.ref}:{place.schema}"
            made = SessionContext(_config(schema, self.alias))
            self._inner[place] = made, _Seen(self)
            made.register_catalog_provider(self.alias, GraphCatalog(self._inner[place][1]))
            register_functions(made, self._inner[place][1])
        inner, seen = self._inner[place]
        seen.pins = self.pins.at(place.ref)
        return inner, seen


class _Seen:
    """A session as a view sees it."""

    def __init__(self, session: Attached) -> None:
        self.alias = session.alias
        self.is_heard = True
        self.pins = session.pins
        self.view = session.view


class GraphContext(SessionContext):
    """A DataFusion session on a graph. Each statement reads one state of every branch it names, and changes nothing."""

    def __init__(self, source: Source, own: Ref, memory: int) -> None:
        runtime = RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory)
        super().__init__(_config(str(own), CATALOG), runtime)
        forget_files(self)
        self.graph = Attached(self, source, CATALOG, own, is_heard=True)
        self._planning = threading.RLock()

    def sql(
        self,
        query: str,
        options: SQLOptions | None = None,
        param_values: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> DataFrame:
        """Plan a statement, with `$name` for parameters that are bound and never become part of its text."""
        if options is not None or named:
            hint = "give parameters as param_values={'name': value}"
            raise BadRequest("a graph's session takes no options and no named values", hint=hint)
        return self.read(query, param_values or {})

    def sql_with_options(
        self,
        query: str,
        options: SQLOptions,  # noqa: ARG002 (there are none to choose from)
        param_values: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> DataFrame:
        """As `sql`: no options allow a statement to change anything."""
        return self.sql(query, None, param_values, **named)

    def read(self, text: str, params: Mapping[str, Any], known: dict[Ref, Snapshot] | None = None) -> DataFrame:
        """Plan a statement that only reads, where some states are known."""
        values = {name: value if isinstance(value, pa.Scalar) else scalar(name, value) for name, value in params.items()}
        if is_sampled(text):
            hint = "order by random() and take a few with LIMIT, or run it on DuckDB"
            raise BadRequest("DataFusion takes no samples: it would read all rows in spite of TABLESAMPLE", hint=hint)
        with self._planning:
            plain = {name: value.as_py() for name, value in values.items()}
            pins = self.graph.renew(plain, known)
            try:
                frame = super().sql(text, options=_READS, param_values=values)
                if pins.reading.is_remote:
                    pins.reading.limits = scan_limits(inner_plan(self, frame), pins.source.foreign)
                return frame
            except Exception as error:
                if isinstance(error, OmnigraphError):
                    raise
                reason = pins.reason()
                if reason is not None and _is_told(str(error)):
                    raise reason from None
                catalog = _CATALOG.search(str(error))
                if catalog is not None and catalog[1] not in self.catalog_names():
                    raise unknown("catalog", catalog[1], self.catalog_names()) from None
                state = state_written(text)
                if state is not None:
                    pins.find(Place(pins.own), state)  # raises, with what to write
                raise refused(str(error), text) from error


def _is_told(text: str) -> bool:
    """Whether the reason is ours: a name that we did not find, or a function of ours."""
    return ("not found" in text or "PyErr" in text) and "table function" not in text


def scalar(name: str, value: Any) -> pa.Scalar:
    """A parameter as a value of Arrow."""
    try:
        return pa.scalar(value)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError) as error:
        hint = "give a plain value, or one of pyarrow.scalar"
        raise BadRequest(f"the parameter `{name}` cannot be bound: {error}", hint=hint) from None


def _config(schema: str, catalog: str) -> SessionConfig:
    config = SessionConfig().with_default_catalog_and_schema(catalog, schema).with_create_default_catalog_and_schema(False)
    # Names keep their case, as types and properties do.
    config = config.set("datafusion.sql_parser.enable_ident_normalization", "false")
    config = config.set(*SUBDIRECTORIES)
    return config.set("datafusion.execution.time_zone", "UTC").with_information_schema(False)
