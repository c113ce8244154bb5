"""Which records of a file are to be embedded, cleaned or left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph_compiler import Catalog, NodeType
from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_sql.embeddings.filling import computed_properties
from omnigraph_sql.errors import BadRequest, NotFound

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Select:
    """Records of a type whose property has a value, given as text."""

    type: str
    property: str
    value: str

    def fits(self, data: Mapping[str, Any]) -> bool:
        """Whether the property of a record has the value: equal texts, equal numbers, or `true` and `false`."""
        found = data.get(self.property)
        if isinstance(found, bool):
            return self.value == ("true" if found else "false")
        if isinstance(found, int | float):
            return _NUMBER.fullmatch(self.value) is not None and found == _number(self.value)
        return isinstance(found, str) and found == self.value


@dataclass(frozen=True)
class Choice:
    """The types whose records are chosen; where there are selects of a type, only records that fit one of them."""

    types: Mapping[str, NodeType]
    selects: Sequence[Select] = ()

    def type_of(self, name: object, data: Mapping[str, Any]) -> NodeType | None:
        """The type of a chosen record, None for any other."""
        type_ = self.types.get(name) if isinstance(name, str) else None
        selects = [each for each in self.selects if each.type == name]
        return type_ if not selects or any(each.fits(data) for each in selects) else None


def choose(catalog: Catalog, types: Sequence[str] = (), selects: Sequence[Select] = ()) -> Choice:
    """The chosen types: those named, or all that have a vector computed from a text. Raises `NotFound` or `BadRequest`."""
    able = {name: type_ for name, type_ in catalog.nodes.items() if computed_properties(type_)}
    named = dict.fromkeys([*types, *(select.type for select in selects)])
    for name in named:
        if name not in able:
            _refuse_type(name, catalog, able)
    for select in selects:
        properties = able[select.type].properties
        if select.property not in properties and select.property != "id":
            text = f"`{select.type}` has no property `{clip(select.property)}`"
            raise BadRequest(text, hint=did_you_mean(select.property, properties))
    return Choice({name: able[name] for name in named} if named else able, tuple(selects))


def _refuse_type(name: str, catalog: Catalog, able: Mapping[str, NodeType]) -> None:
    if name in catalog.nodes or name in catalog.edges:
        text = f"`{name}` has no vector that is computed from a text"
        raise BadRequest(text, hint="write @embed(source) at a Vector property")
    hint = did_you_mean(name, able)
    raise NotFound(f"there is no type `{clip(name)}`", what="type", name=name, hint=hint)


def _number(text: str) -> int | float:
    return float(text) if not text.lstrip("-").isdigit() or len(text) > 1000 else int(text)
