"""Binding of parameters: from JSON or plain Python values to typed values."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any, NoReturn

from omnigraph_compiler import ir
from omnigraph_compiler.arguments import checked
from omnigraph_compiler.diagnostics import CompileError, Diagnostic, clip, did_you_mean, listing
from omnigraph_compiler.plain import plain_value
from omnigraph_compiler.query.compile import Query
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS, PropType
from omnigraph_compiler.values import parse_date, parse_datetime, to_f32

_DECIMAL = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
_SHOWN_BITS = 256
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class _NoText(ValueError):
    """A string that cannot be encoded as UTF-8."""


@checked(query=Query, ignore_unknown=bool)
def bind_params(query: Query, params: Mapping[str, Any] | None, *, ignore_unknown: bool = False) -> dict[str, Any]:
    """Check the parameters of a call against the declared ones and convert them.

    Dates become `datetime.date`, instants `datetime.datetime` in UTC. Arrays of NumPy, PyArrow and the like count as lists.
    A name that the query does not declare is an error, unless `ignore_unknown` is True. Raises `CompileError` of
    class `input`.
    """
    params = {} if params is None else params
    if not isinstance(params, dict | Mapping):  # `dict` first: the check of Mapping is slow
        _fail(f"parameters are given as an object of names and values, found {type(params).__name__}")
    if type(params) is not dict:
        try:
            params = dict(params)
        except Exception as error:  # a class of the caller may raise anything
            _fail(f"the parameters cannot be read ({type(error).__name__})", "give a plain dict")
    if not ignore_unknown:
        for name in params:
            if name not in query.params:
                required = (declared for declared, type_ in query.params.items() if not type_.nullable)
                missing = next((declared for declared in required if declared not in params), None)
                lead = "" if missing is None else f"{_not_provided(missing, query.params[missing])}; "
                check_name(name, query.params, f"query `{query.name}`", lead)
    bound = {name: _bind(name, type_, params) for name, type_ in query.params.items()}
    _check_limit(query.plan, bound)
    return bound


def _check_limit(plan: ir.Plan, bound: Mapping[str, Any]) -> None:
    if not isinstance(plan, ir.ReadPlan) or plan.limit is None or not isinstance(plan.limit.count, ir.ParamRef):
        return
    name = plan.limit.count.name
    if bound[name] is None:
        _fail(
            f"param '{name}': the query has it for its limit, which cannot be null",
            "give a number; a large one for all rows",
        )
    if bound[name] < 0:
        _fail(f"param '{name}': a limit cannot be negative, found {bound[name]}", "give 0 or more")


def check_name(name: Any, declared: Collection[str], owner: str, lead: str = "") -> None:
    """Raise if `owner`, a query or statement, has no parameter of this name; the message begins with `lead`."""
    if name in declared:
        return
    if not isinstance(name, str):
        _fail(f"the name of a parameter is a text, found {_shown(name)}")
    bare = name.removeprefix("$")
    if bare in declared:
        help_text: str | None = f"leave out the `$`: names of parameters are given as `{bare}`"
    else:
        names = f"its parameters are {listing(declared)}" if len(declared) > 1 else f"its parameter is {listing(declared)}"
        help_text = did_you_mean(name, declared) or (names if declared else "it takes no parameters")
    _fail(f"{lead}`{clip(name)}` is not a parameter of {owner}", help_text)


def _fail(text: str, help: str | None = None) -> NoReturn:
    raise CompileError(Diagnostic("input", text, help=help))


def _not_provided(name: str, type_: PropType) -> str:
    return f"parameter '{name}' not provided; it is declared {type_}"


def _bind(name: str, type_: PropType, params: Mapping[str, Any]) -> Any:
    if name not in params:
        if type_.nullable:
            return None
        _fail(_not_provided(name, type_))
    try:
        value = _read(params[name])
    except Exception as error:  # a class of the caller may raise anything
        _fail(f"param '{name}': the value cannot be read ({type(error).__name__})", "give a plain value")
    if value is None:
        if type_.nullable:
            return None
        _fail(f"param '{name}': null is not accepted, it is declared {type_}")
    try:
        return _convert(type_, value)
    except _NoText as error:
        _fail(f"param '{name}': {error}", "decode it with another encoding, or replace what is no character")
    except (ValueError, OverflowError) as error:
        _fail(f"param '{name}': {error}")


def _read(value: Any) -> Any:
    plain = plain_value(value)
    return [plain_value(element) for element in plain] if isinstance(plain, list) else plain


def _convert(type_: PropType, value: Any) -> Any:
    if type_.is_vector:
        return _vector(type_, value)
    if type_.is_list:
        if not isinstance(value, list):
            raise ValueError(f"expected an array for {type_}, found {_shown(value)}")
        return [_scalar(type_.item, plain_value(element), f" in {type_}") for element in value]
    return _scalar(type_, value, "")


def _vector(type_: PropType, value: Any) -> list[float]:
    if not isinstance(value, list):
        raise ValueError(f"expected an array of {type_.dimension} numbers for {type_}, found {_shown(value)}")
    if len(value) != type_.dimension:
        raise ValueError(f"expected {type_.dimension} dimensions for {type_}, found {len(value)}")
    return [to_f32(_number(plain_value(element), " in a vector")) for element in value]


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
    return _encodable(value, where)


def _encodable(value: str, where: str) -> str:
    """Return a string that can be encoded as UTF-8, as every string of a table must be."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        place = f"its character {error.start + 1} is half of a surrogate pair"
        raise _NoText(f"expected a string{where} of valid Unicode, found {_shown(value)}: {place}") from None
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
        raise ValueError(f"{_shown(number)} exceeds {scalar} ({low} to {high})")
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
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:  # Python refuses to print huge integers
        return f"an integer of {value.bit_length()} bits"
    return clip(repr(value)) if isinstance(value, str | int | float) else f"a value of type {type(value).__name__}"
