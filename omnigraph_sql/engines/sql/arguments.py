"""What is given to the functions of a graph, checked before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from omnigraph_sql.engines.sql.names import Ref, parse_ref
from omnigraph_sql.errors import BadRequest

_DIRECTIONS = ("out", "in", "both")


class Required:
    """Stands for no default."""


REQUIRED: Final = Required()


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function: its name, what it takes, and what it is without an argument."""

    name: str
    kind: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Signature:
    """The parameters of a function."""

    function: str
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        least = [each.name for each in self.parameters if each.default is REQUIRED]
        rest = [each.name for each in self.parameters if each.default is not REQUIRED]
        optional = "".join(f" [, {name}" if least or at else f"[{name}" for at, name in enumerate(rest))
        return f"{self.function}({', '.join(least)}{optional}{']' * len(rest)})"

    def bound(self, given: Sequence[Any]) -> dict[str, Any]:
        """The arguments by name; null stands for one that is left out."""
        self.check_count(len(given))
        found = {}
        for number, parameter in enumerate(self.parameters):
            value = given[number] if number < len(given) else None
            if value is None and parameter.default is REQUIRED:
                raise BadRequest(f"{self.function} needs `{parameter.name}`", hint=f"write {self}")
            found[parameter.name] = parameter.default if value is None else self._checked(parameter, value)
        return found

    def check_count(self, given: int) -> None:
        """Raise if there are too many arguments, or too few."""
        if given > len(self.parameters):
            raise BadRequest(f"{self.function} takes {len(self.parameters)} arguments, not {given}", hint=f"write {self}")
        for parameter in self.parameters[given:]:
            if parameter.default is REQUIRED:
                raise BadRequest(f"{self.function} needs `{parameter.name}`", hint=f"write {self}")

    def _checked(self, parameter: Parameter, value: Any) -> Any:
        wanted, accept = _KINDS[parameter.kind]
        found = accept(value)
        if found is None:
            shown = repr(value)[:60]
            text = f"`{parameter.name}` of {self.function} is {shown}, not {wanted}"
            raise BadRequest(text, hint=f"write {self}")
        return found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value > 0 else None


def _ids(value: Any) -> list[str] | None:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in listed):
        return None
    return list(listed)


def _vector(value: Any) -> list[float] | str | None:
    """Numbers, or a text for an embedder."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(_is_number(each) for each in value):
        return None
    return [float(each) for each in value]


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or hasattr(value, "as_integer_ratio")


def _json(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def _direction(value: Any) -> str | None:
    return value if value in _DIRECTIONS else None


def _ref(value: Any) -> Ref | None:
    return parse_ref(value) if isinstance(value, str) and value else None


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "text": ("a text", _text),
    "count": ("a whole number above 0", _count),
    "ids": ("an id or a list of ids", _ids),
    "vector": ("a list of numbers, or a text to embed", _vector),
    "params": ("a JSON object", _json),
    "direction": ("'out', 'in' or 'both'", _direction),
    "ref": ("a branch, a version such as 'main@3', or '@' and a commit", _ref),
}
