"""Selection of the records of a file to embed or clean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph_compiler import Catalog, NodeType
from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_sql.embeddings.fill import computed_properties
from omnigraph_sql.errors import BadRequest, NotFound

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Select:
    """Selects the records of a type whose property has a value, written as text."""

    type: str
    property: str
    value: str

    def fits(self, data: Mapping[str, Any]) -> bool:
        """Return True if the property of a record has the value: an equal text or number, or `true` or `false`."""
        actual = data.get(self.property)
        if isinstance(actual, bool):
            return self.value == ("true" if actual else "false")
        if isinstance(actual, int | float):
            return _NUMBER.fullmatch(self.value) is not None and actual == _number(self.value)
        return isinstance(actual, str) and actual == self.value


@dataclass(frozen=True)
class Choice:
    """The types whose records are chosen; for types with selects, only the records that fit one of them."""

    types: Mapping[str, NodeType]
    selects: Sequence[Select] = ()

    def type_of(self, name: object, data: Mapping[str, Any]) -> NodeType | None:
        """Return the type of a chosen record, None for any other."""
        type_ = self.types.get(name) if isinstance(name, str) else None
        selects = [select for select in self.selects if select.type == name]
        return type_ if not selects or any(select.fits(data) for select in selects) else None


def choose(catalog: Catalog, types: Sequence[str] = (), selects: Sequence[Select] = ()) -> Choice:
    """Choose the named types, or all with a vector computed from a text. Raises `NotFound` or `BadRequest`."""
    embeddable = {name: type_ for name, type_ in catalog.nodes.items() if computed_properties(type_)}
    named = dict.fromkeys([*types, *(select.type for select in selects)])
    for name in named:
        if name not in embeddable:
            _refuse_type(name, catalog, embeddable)
    for select in selects:
        properties = embeddable[select.type].properties
        if select.property not in properties and select.property != "id":
            text = f"`{select.type}` has no property `{clip(select.property)}`"
            raise BadRequest(text, hint=did_you_mean(select.property, properties))
    return Choice({name: embeddable[name] for name in named} if named else embeddable, tuple(selects))


def _refuse_type(name: str, catalog: Catalog, embeddable: Mapping[str, NodeType]) -> None:
    if name in catalog.nodes or name in catalog.edges:
        text = f"`{name}` has no vector that is computed from a text"
        raise BadRequest(text, hint="write @embed(source) at a Vector property")
    hint = did_you_mean(name, embeddable)
    raise NotFound(f"there is no type `{clip(name)}`", what="type", name=name, hint=hint)


def _number(text: str) -> int | float:
    return float(text) if not text.lstrip("-").isdigit() or len(text) > 1000 else int(text)
