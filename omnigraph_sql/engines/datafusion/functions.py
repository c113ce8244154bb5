"""The functions of a graph in a session of DataFusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from datafusion import SessionContext, udf, udtf
from datafusion.expr import Placeholder

from omnigraph_sql.engines.datafusion.bounded_functions import register_bounded
from omnigraph_sql.engines.datafusion.catalog import CatalogSession, dataset_of
from omnigraph_sql.engines.datafusion.off_thread import run_off_thread
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.sql.functions import FUNCTIONS, SCALARS, ScalarFunction, TableFunction
from omnigraph_sql.sql.resolver import NameResolver
from omnigraph_sql.sqltext.identifiers import quoted


def register_functions(context: SessionContext, session: CatalogSession, prefix: str = "") -> None:
    """Register the functions of a graph in lower and upper case: the sessions do not normalise identifiers."""
    if session.collects_errors:  # only in our own sessions: a caller's session keeps DataFusion's functions
        register_bounded(context, session)
    for function in FUNCTIONS.values():
        run = _table_call(session, function)
        # DataFusion looks table functions up by the text of the call, including its quotes.
        names = _case_variants(f"{prefix}{function.name}")
        for name in (*names, *map(quoted, names)):
            context.register_udtf(udtf(run, name))
    for scalar in SCALARS.values():
        compute = _scalar_call(session, scalar)
        for name in _case_variants(f"{prefix}{scalar.name}"):
            kinds = [pa.string()] * len(scalar.parameters)
            context.register_udf(udf(compute, kinds, scalar.result, "stable", name))


def _case_variants(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((name, name.lower(), name.upper())))


def _table_call(session: CatalogSession, function: TableFunction) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        resolver = session.resolver
        try:
            resolver.confirm()
            values = [_value(resolver, function, number, argument) for number, argument in enumerate(arguments, 1)]
            rows = run_off_thread(lambda: function.rows(resolver, values))
            return dataset_of(rows) if isinstance(rows, pa.Table) else rows
        except OmnigraphError as error:
            resolver.fail(error)
            raise

    return run


def _scalar_call(session: CatalogSession, function: ScalarFunction) -> Callable[..., pa.Array]:
    def run(*arguments: pa.Array) -> pa.Array:
        resolver = session.resolver
        try:
            return function.run(resolver, *arguments)
        except OmnigraphError as error:
            resolver.fail(error)
            raise

    return run


def _value(resolver: NameResolver, function: TableFunction, number: int, argument: Any) -> Any:
    """Return the value of an argument: a literal, or a parameter of the statement, which is not bound yet at this point."""
    variant = argument.to_variant()
    if isinstance(variant, Placeholder):
        name = variant.id().lstrip("$")
        if name not in resolver.params:
            raise BadRequest(f"there is no value for the parameter `${name}`", hint="give one for every $name")
        return resolver.params[name]
    try:
        return argument.python_value().as_py()
    except (TypeError, ValueError):
        hint = f"give values or parameters such as $name: {function.signature}"
        raise BadRequest(f"argument {number} of {function.name} depends on a row", hint=hint) from None
