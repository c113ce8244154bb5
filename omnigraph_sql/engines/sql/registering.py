"""The functions of a graph in a session of DataFusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SessionContext, udf, udtf
from datafusion.expr import Placeholder

from omnigraph_sql.engines.apart import apart
from omnigraph_sql.engines.sql.catalog import Session
from omnigraph_sql.engines.sql.duck.naming import quoted
from omnigraph_sql.engines.sql.functions import FUNCTIONS, SCALARS, ScalarFunction, TableFunction
from omnigraph_sql.engines.sql.pins import Pins
from omnigraph_sql.errors import BadRequest, OmnigraphError


def register_functions(context: SessionContext, session: Session, prefix: str = "") -> None:
    """Make the functions of a graph known, in small letters and in capitals, for names keep their case."""
    for function in FUNCTIONS.values():
        run = _table_of(session, function)
        # DataFusion looks these up by what is written, quotes and all.
        names = _spelled(f"{prefix}{function.name}")
        for name in (*names, *map(quoted, names)):
            context.register_udtf(udtf(run, name))
    for scalar in SCALARS.values():
        compute = _values_of(session, scalar)
        for name in _spelled(f"{prefix}{scalar.name}"):
            kinds = [pa.string()] * len(scalar.parameters)
            context.register_udf(udf(compute, kinds, scalar.result, "stable", name))


def _spelled(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((name, name.lower(), name.upper())))


def _table_of(session: Session, function: TableFunction) -> Callable[..., Any]:
    def run(*given: Any) -> Any:
        pins = session.pins
        try:
            values = [_value(pins, function, number, each) for number, each in enumerate(given, 1)]
            return pads.dataset(apart(lambda: function.rows(pins, values)))
        except OmnigraphError as error:
            pins.fail(error)
            raise

    return run


def _values_of(session: Session, function: ScalarFunction) -> Callable[..., pa.Array]:
    def run(*given: pa.Array) -> pa.Array:
        pins = session.pins
        try:
            return function.run(pins, *given)
        except OmnigraphError as error:
            pins.fail(error)
            raise

    return run


def _value(pins: Pins, function: TableFunction, number: int, given: Any) -> Any:
    """An argument, which is a value or a parameter of the statement: the engine asks before anything else is known."""
    variant = given.to_variant()
    if isinstance(variant, Placeholder):
        name = variant.id().lstrip("$")
        if name not in pins.params:
            raise BadRequest(f"there is no value for the parameter `${name}`", hint="give one for every $name")
        return pins.params[name]
    try:
        return given.python_value().as_py()
    except (TypeError, ValueError):
        hint = f"give values or parameters such as $name: {function.signature}"
        raise BadRequest(f"argument {number} of {function.name} depends on a row", hint=hint) from None
