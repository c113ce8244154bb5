"""Parameters at run time: from JSON (or plain Python values) to typed values."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NoReturn

from omnigraph_compiler.diagnostics import CompileError, Diagnostic, clip
from omnigraph_compiler.query.compile import Query
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS, PropType
from omnigraph_compiler.values import parse_date, parse_datetime, to_f32

_DECIMAL = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def bind_params(query: Query, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check the given parameters against the declared ones.

    Dates become `datetime.date`, instants `datetime.datetime` in UTC; extra parameters are ignored. Raises `CompileError`
    of class `input`.
    """
    given = {} if given is None else given
    if not isinstance(given, dict | Mapping):  # to ask for the first takes no time
        _fail(f"parameters are given as an object of names and values, found {type(given).__name__}")
    return {name: _bind(name, type_, given) for name, type_ in query.params.items()}


def _fail(text: str) -> NoReturn:
    raise CompileError(Diagnostic("input", text))


def _bind(name: str, type_: PropType, given: Mapping[str, Any]) -> Any:
    if name not in given:
        if type_.nullable:
            return None
        _fail(f"parameter '{name}' not provided; it is declared {type_}")
    value = given[name]
    if value is None:
        if type_.nullable:
            return None
        _fail(f"param '{name}': null is not accepted, it is declared {type_}")
    try:
        return _convert(type_, value)
    except ValueError as error:
        _fail(f"param '{name}': {error}")


def _convert(type_: PropType, value: Any) -> Any:
    if type_.is_vector:
        return _vector(type_, value)
    if type_.is_list:
        if not isinstance(value, list | tuple):
            raise ValueError(f"expected an array for {type_}, found {_shown(value)}")
        return [_scalar(type_.item, element, f" in {type_}") for element in value]
    return _scalar(type_, value, "")


def _vector(type_: PropType, value: Any) -> list[float]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected an array of {type_.dimension} numbers for {type_}, found {_shown(value)}")
    if len(value) != type_.dimension:
        raise ValueError(f"expected {type_.dimension} dimensions for {type_}, found {len(value)}")
    return [to_f32(_number(element, " in a vector")) for element in value]


def _scalar(type_: PropType, value: Any, where: str) -> Any:
    scalar = type_.scalar
    if scalar in INTEGERS:
        return _integer(scalar, value, where)
    if scalar in FLOATS:
        number = _number(value, where)
        return to_f32(number) if scalar == "F32" else number
    if scalar == "Bool":
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false{where}, found {_shown(value)}")
        return value
    if scalar == "Date":
        return _date(value)
    if scalar == "DateTime":
        return _datetime(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a string{where}, found {_shown(value)}")
    return value


def _integer(scalar: str, value: Any, where: str) -> int:
    if (
        (isinstance(value, str) and _DECIMAL.fullmatch(value))
        or (isinstance(value, Integral) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ):
        number = int(value)
    else:
        raise ValueError(f"expected an integer for {scalar}{where}, found {_shown(value)}")
    low, high = INTEGER_RANGES[scalar]
    if not low <= number <= high:
        raise ValueError(f"{clip(str(number))} exceeds {scalar} ({low} to {high})")
    return number


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"expected a number{where}, found {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"the number{where} is outside the Float64 range") from None
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number{where}, found {number}")
    return number


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected a date written YYYY-MM-DD, found {_shown(value)}")
    try:
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=parse_date(value))
    except ValueError as error:
        raise ValueError(f"{error}, found {_shown(value)}") from None


def _datetime(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        moment = moment.astimezone(datetime.UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if not isinstance(value, str):
        raise ValueError(f"expected an RFC 3339 instant, found {_shown(value)}")
    try:
        return _EPOCH + datetime.timedelta(milliseconds=parse_datetime(value))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{error}, found {_shown(value)}") from None


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return clip(repr(value)) if isinstance(value, str | int | float) else f"a value of type {type(value).__name__}"
