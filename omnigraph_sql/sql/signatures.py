"""Signatures of the SQL functions of a graph, and checks of their arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from omnigraph_compiler import CompileError
from omnigraph_compiler.plain import plain_value
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sql.refs import StateRef, parse_ref
from omnigraph_sql.sqltext.user_sql import parameter_names

_DIRECTIONS = ("out", "in", "both")


def statement_params(text: str, params: Mapping[str, Any], *, ignore_unknown: bool = False) -> dict[str, Any]:
    """Return the parameters that a statement mentions; raise for others unless they are ignored."""
    if not params:
        return {}
    from omnigraph_compiler.query.params import check_name

    names = parameter_names(text)
    if not ignore_unknown:
        for name in params:
            try:
                check_name(name, sorted(names), "the statement")
            except CompileError as error:
                raise BadRequest(error.message, hint=error.hint) from None
    return {name: value for name, value in params.items() if name in names}


class Required:
    """Marker of a parameter without a default."""


REQUIRED: Final = Required()


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of a function: its name, the kind of its values, and its default."""

    name: str
    kind: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Signature:
    """The parameters of a function."""

    function: str
    parameters: tuple[FunctionParameter, ...]

    def __str__(self) -> str:
        required = [parameter.name for parameter in self.parameters if parameter.default is REQUIRED]
        optional = [parameter.name for parameter in self.parameters if parameter.default is not REQUIRED]
        bracketed = "".join(f" [, {name}" if required or at else f"[{name}" for at, name in enumerate(optional))
        return f"{self.function}({', '.join(required)}{bracketed}{']' * len(optional)})"

    def bind(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments by name; null means the default."""
        self.check_count(len(values))
        arguments = {}
        for number, parameter in enumerate(self.parameters):
            value = values[number] if number < len(values) else None
            if value is None and parameter.default is REQUIRED:
                raise BadRequest(f"{self.function} needs `{parameter.name}`", hint=f"write {self}")
            arguments[parameter.name] = parameter.default if value is None else self._checked(parameter, value)
        return arguments

    def check_count(self, count: int) -> None:
        """Raise if there are too many or too few arguments."""
        if count > len(self.parameters):
            raise BadRequest(f"{self.function} takes {len(self.parameters)} arguments, not {count}", hint=f"write {self}")
        for parameter in self.parameters[count:]:
            if parameter.default is REQUIRED:
                raise BadRequest(f"{self.function} needs `{parameter.name}`", hint=f"write {self}")

    def _checked(self, parameter: FunctionParameter, value: Any) -> Any:
        expected, accept = _KINDS[parameter.kind]
        converted = accept(value)
        if converted is None:
            shown = repr(value)[:60]
            text = f"`{parameter.name}` of {self.function} is {shown}, not {expected}"
            raise BadRequest(text, hint=f"write {self}")
        return converted


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value > 0 else None


def _ids(value: Any) -> list[str] | None:
    value = plain_value(value)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(item, str) for item in listed):
        return None
    return list(listed)


def _vector(value: Any) -> list[float] | str | None:
    """Return a list of numbers, or a text to embed."""
    value = plain_value(value)
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(_is_number(number) for number in value):
        return None
    return [float(number) for number in value]


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or hasattr(value, "as_integer_ratio")


def _json(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _direction(value: Any) -> str | None:
    return value if value in _DIRECTIONS else None


def _ref(value: Any) -> StateRef | None:
    return parse_ref(value) if isinstance(value, str) and value else None


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "text": ("a text", _text),
    "count": ("a whole number above 0", _count),
    "ids": ("an id or a list of ids", _ids),
    "vector": ("a list of numbers, or a text to embed", _vector),
    "params": ("a JSON object", _json),
    "direction": ("'out', 'in' or 'both'", _direction),
    "ref": ("a branch, a version such as 'main@3', or '@' and a commit or tag", _ref),
}
