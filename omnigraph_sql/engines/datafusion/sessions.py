"""DataFusion sessions on a graph, and graphs attached to sessions of the caller."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions

from omnigraph_sql.engines.datafusion.bounded_functions import bounded_sql, growth
from omnigraph_sql.engines.datafusion.catalog import GraphCatalog
from omnigraph_sql.engines.datafusion.foreign_files import SUBDIRECTORIES, forget_files
from omnigraph_sql.engines.datafusion.foreign_plans import inner_plan, scan_limits
from omnigraph_sql.engines.datafusion.functions import register_functions
from omnigraph_sql.engines.datafusion.off_thread import run_off_thread
from omnigraph_sql.engines.datafusion.pushed_limits import may_limit, pushes_limit, spread_rows
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.runtime.execution import Execution, RunClock, RunSettings
from omnigraph_sql.runtime.limits import RunLimits
from omnigraph_sql.sql.errors import statement_error
from omnigraph_sql.sql.refs import SchemaRef, StateRef
from omnigraph_sql.sql.resolver import NameResolver, ResolvedTable, SqlSource, resolver_of, unknown_name
from omnigraph_sql.sql.signatures import statement_params
from omnigraph_sql.sql.statement import parameter_scalar
from omnigraph_sql.sqltext.datafusion_text import datafusion_text
from omnigraph_sql.sqltext.parameter_limits import check_parameters
from omnigraph_sql.sqltext.text_limits import MOST_VIEWS, check_sql, too_many_views
from omnigraph_sql.sqltext.user_sql import is_sampled, state_written, translated_sql

_CATALOG = re.compile(r"table '([^.']+)\.[^']*\.[^']*' not found")
_DEEPEST = 32
_READS = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


class AttachedGraph:
    """A graph in a session. A name is resolved when it is first used, and keeps its meaning until the next `renew`."""

    def __init__(
        self,
        context: SessionContext,
        source: SqlSource,
        alias: str,
        default_state: StateRef,
        prefixes: tuple[str, ...] = ("",),
        *,
        collects_errors: bool = False,
    ) -> None:
        self.alias = alias
        self.collects_errors = collects_errors
        self.resolver = resolver_of(source, default_state)
        self.resolver.reading.is_own_session = collects_errors
        self._depth = 0
        self._views = 0
        self.may_limit = False
        """True if a view of the statement may have a limit."""
        self._inner: dict[tuple[SchemaRef, str | None], tuple[SessionContext, _ViewSession]] = {}
        # DataFusion compares the names of catalogs with their case, so it gets the usual spellings.
        for name in dict.fromkeys((alias, alias.lower(), alias.upper(), alias.capitalize())):
            context.register_catalog_provider(name, GraphCatalog(self))
        for prefix in prefixes:
            register_functions(context, self, prefix)

    def read_from(self, source: SqlSource) -> None:
        """Show what another source of the same graph shows from now on."""
        self.resolver = resolver_of(source, self.resolver.default_state)

    def renew(self, params: Mapping[str, Any] | None = None, states: dict[StateRef, Snapshot] | None = None) -> NameResolver:
        """Start a new statement: forget all resolved names; `states` has snapshots to use."""
        self._views, self.may_limit = 0, False
        self.resolver = resolver_of(self.resolver.source, self.resolver.default_state, params, states)
        self.resolver.reading.is_own_session = self.collects_errors
        return self.resolver

    def forget_views(self) -> None:
        """Count the views anew: the statement is planned once more."""
        self._views = 0

    def view(self, place: SchemaRef, table: ResolvedTable) -> Any:
        """Return a view as a table provider; the names in it are resolved relative to its own schema."""
        assert table.relation is not None
        assert table.relation.definition is not None
        definition = table.relation.definition
        if self._depth >= _DEEPEST:
            hint = "a view may not read itself, nor another that reads it"
            raise BadRequest(f"the view `{table.name}` is {_DEEPEST} views deep", hint=hint)
        self._views += 1
        if self._views > MOST_VIEWS and self.collects_errors:
            raise too_many_views(self._views)
        check_sql(definition["sql"], f"the view `{table.name}`")
        text = bounded_sql(datafusion_text(translated_sql(definition["sql"], definition["dialect"], "datafusion")))
        self.may_limit |= may_limit(text)
        inner, view_session = self._inside(place, definition)
        resolver = view_session.resolver
        resolver.growth = growth(text)
        self._depth += 1
        try:
            return run_off_thread(lambda: inner.sql_with_options(text, _READS)).into_view()
        except Exception as error:
            reason = resolver.reason()
            if reason is not None:
                raise reason from None
            raise statement_error(f"the view `{table.name}`: {error}", text) from error
        finally:
            self._depth -= 1

    def _inside(self, place: SchemaRef, definition: Mapping[str, Any]) -> tuple[SessionContext, _ViewSession]:
        """Return the session of the views of a schema. It is kept: its tables live as long as it does."""
        resolver = self.resolver.inside(place, definition)
        key = place, definition.get("catalog")
        if key not in self._inner:
            alias = self.alias if key[1] is None and self.resolver.source.pin is None else resolver.database
            context = SessionContext(_config(resolver.schema_text(place), alias))
            self._inner[key] = context, _ViewSession(self, alias)
            context.register_catalog_provider(alias, GraphCatalog(self._inner[key][1]))
            register_functions(context, self._inner[key][1])
        inner, view_session = self._inner[key]
        view_session.resolver = resolver
        return inner, view_session


class _ViewSession:
    """The catalog session in which the text of a view is planned."""

    def __init__(self, session: AttachedGraph, alias: str) -> None:
        self.alias = alias
        self.collects_errors = True
        self.resolver = session.resolver
        self.view = session.view


class GraphContext(SessionContext):
    """A DataFusion session on a graph. Each statement reads one state of every branch it names, and changes nothing.

    It is a `datafusion.SessionContext`, made by `Graph.datafusion`.
    """

    def __init__(self, source: SqlSource, default_state: StateRef, memory: int) -> None:
        runtime = RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory)
        resolver = resolver_of(source, default_state)
        super().__init__(_config(resolver.default_schema, resolver.database), runtime)
        forget_files(self)
        self._memory = memory
        self.graph = AttachedGraph(self, source, resolver.database, default_state, collects_errors=True)
        self._planning = threading.RLock()
        self._spreads = True

    def sql(
        self,
        query: str,
        options: SQLOptions | None = None,
        param_values: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> DataFrame:
        """Plan a statement that reads.

        Args:
            query: the statement, with `$name` for parameters.
            options: not supported.
            param_values: values for the parameters; they are bound and never become part of the text.
            **named: not supported.

        Returns:
            A lazy data frame of DataFusion.

        Raises:
            BadRequest: the statement is not valid, or would change something.
            NotFound: it names a branch, version or commit that does not exist.

        Example:
            >>> session = graph.datafusion()
            >>> session.sql("select code from Port where depth > $least", param_values={"least": 20}).to_pydict()
            {'code': ['NLRTM']}
        """
        if options is not None or named:
            hint = "give parameters as param_values={'name': value}"
            raise BadRequest("a graph's session takes no options and no named values", hint=hint)
        return self.read(query, statement_params(query, param_values or {}))

    def sql_with_options(
        self,
        query: str,
        options: SQLOptions,  # noqa: ARG002 (no option is supported)
        param_values: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> DataFrame:
        """As `sql`: no options allow a statement to change anything.

        Args:
            query: the statement.
            options: ignored.
            param_values: values for the parameters.
            **named: not supported.

        Returns:
            A lazy data frame of DataFusion.

        Raises:
            BadRequest: the statement is not valid, or would change something.

        Example:
            >>> from datafusion import SQLOptions
            >>> graph.datafusion().sql_with_options("select count(*) as n from Port", SQLOptions()).to_pydict()
            {'n': [2]}
        """
        return self.sql(query, None, param_values, **named)

    def read(
        self,
        text: str,
        params: Mapping[str, Any],
        states: dict[StateRef, Snapshot] | None = None,
        execution: Execution | None = None,
    ) -> DataFrame:
        """Plan a statement that reads, as part of a run.

        Args:
            text: the statement.
            params: values for its parameters.
            states: snapshots of states that the run has resolved already.
            execution: the run, with its limits; None for the limits of the session.

        Returns:
            A lazy data frame of DataFusion.

        Raises:
            BadRequest: the statement is not valid, or would change something.
            NotFound: it names a branch, version or commit that does not exist.

        Example:
            >>> graph.datafusion().read("select count(*) as n from Port", {}).to_pydict()
            {'n': [2]}
        """
        check_sql(text)
        check_parameters(params)
        values = {
            name: value if isinstance(value, pa.Scalar) else parameter_scalar(name, value) for name, value in params.items()
        }
        if is_sampled(text):
            hint = "order by random() and take a few with LIMIT, or run it on DuckDB"
            raise BadRequest("DataFusion takes no samples: it would read all rows in spite of TABLESAMPLE", hint=hint)
        with self._planning:
            plain = {name: value.as_py() for name, value in values.items()}
            resolver = self.graph.renew(plain, states)
            resolver.execution = execution or Execution(RunSettings(limits=RunLimits(None, self._memory)), RunClock(None))
            if execution is not None:
                resolver.reading.follow(execution)
            resolver.growth = growth(text)
            try:
                frame = self._framed(bounded_sql(datafusion_text(text)), values)
                if resolver.reading.is_remote:
                    resolver.reading.limits = scan_limits(inner_plan(self, frame), resolver.source.foreign)
                return frame
            except Exception as error:
                if isinstance(error, OmnigraphError):
                    raise
                reason = resolver.reason()
                if reason is not None and _comes_from_resolver(str(error)):
                    raise reason from None
                catalog = _CATALOG.search(str(error))
                if catalog is not None and catalog[1] not in self.catalog_names():
                    names = {name.lower(): name for name in sorted(self.catalog_names())}
                    raise unknown_name("catalog", catalog[1], list(names.values())) from None
                state = state_written(text)
                if state is not None:
                    resolver.find(resolver.default_place, state)  # raises an error that says what to write
                raise statement_error(str(error), text, resolver) from error

    def _framed(self, text: str, values: dict[str, Any]) -> DataFrame:
        """Plan a text; once more without spreading rows over threads if a limit reaches a scan."""
        if not self._spreads:
            spread_rows(self, on=True)
            self._spreads = True
        frame = super().sql(text, options=_READS, param_values=dict(values))
        if (self.graph.may_limit or may_limit(text)) and pushes_limit(frame):
            spread_rows(self, on=False)
            self._spreads = False
            self.graph.forget_views()
            frame = super().sql(text, options=_READS, param_values=dict(values))
        return frame


def _comes_from_resolver(text: str) -> bool:
    """True if an error of DataFusion was caused by a failed look-up of the resolver, or by a function of the graph."""
    return ("not found" in text or "PyErr" in text) and "table function" not in text


def _config(schema: str, catalog: str) -> SessionConfig:
    config = SessionConfig().with_default_catalog_and_schema(catalog, schema).with_create_default_catalog_and_schema(False)
    # Types and properties are case-sensitive.
    config = config.set("datafusion.sql_parser.enable_ident_normalization", "false")
    config = config.set(*SUBDIRECTORIES)
    return config.set("datafusion.execution.time_zone", "UTC").with_information_schema(False)
