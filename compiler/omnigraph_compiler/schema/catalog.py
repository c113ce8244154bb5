"""The catalog: a checked schema as frozen values, with canonical JSON and a stable hash.

Every type and property has an *identity*, a number that survives renames and is never reused after a drop. Column order
and the member order of composite keys are fixed when a type is created. None of these three is part of the schema hash: it
covers only the meaning of a schema, so comments, order, spelling and history do not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from omnigraph_compiler.canonical import canonical_json, stable_hash
from omnigraph_compiler.types import PropType

if TYPE_CHECKING:
    from omnigraph_compiler.schema.ast import LiteralValue

FORMAT_VERSION = 1
Columns: TypeAlias = tuple[str, ...]
Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation that is stored as metadata."""

    name: str
    value: LiteralValue | None = None
    keywords: tuple[tuple[str, LiteralValue], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "keywords": dict(self.keywords)}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Annotation:
        return cls(entry["name"], entry["value"], tuple(sorted(entry["keywords"].items())))


@dataclass(frozen=True, slots=True)
class Embed:
    """The text property from which a vector is computed."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class RangeConstraint:
    property: str
    low: Number | None
    high: Number | None

    def display(self) -> str:
        low = "" if self.low is None else number_text(self.low)
        high = "" if self.high is None else number_text(self.high)
        return f"@range({self.property}, {low}..{high})"


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    property: str
    pattern: str

    def display(self) -> str:
        from omnigraph_compiler.lexer import quote

        return f"@check({self.property}, {quote(self.pattern)})"


@dataclass(frozen=True, slots=True)
class Cardinality:
    low: int = 0
    high: int | None = None

    def display(self) -> str:
        return f"@card({self.low}..{'' if self.high is None else self.high})"


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a type, with its annotations."""

    name: str
    type: PropType
    _: KW_ONLY
    identity: int = 0
    embed: Embed | None = None
    metric: str | None = None
    default: LiteralValue | None = None
    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"identity": self.identity, "name": self.name, "type": self.type.to_dict()}
        if self.embed is not None:
            entry["embed"] = {"source": self.embed.source, "model": self.embed.model}
        if self.metric is not None:
            entry["metric"] = self.metric
        if self.default is not None:
            entry["default"] = self.default
        if self.annotations:
            entry["annotations"] = [annotation.to_dict() for annotation in self.annotations]
        return entry

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Property:
        embed = entry.get("embed")
        return cls(
            entry["name"],
            PropType.from_dict(entry["type"]),
            identity=entry["identity"],
            embed=Embed(embed["source"], embed["model"]) if embed else None,
            metric=entry.get("metric"),
            default=entry.get("default"),
            annotations=tuple(Annotation.from_dict(annotation) for annotation in entry.get("annotations", ())),
        )


@dataclass(frozen=True)
class _Type:
    """The common fields of interfaces, node types and edge types."""

    name: str
    properties: Mapping[str, Property]
    """In column order."""
    _: KW_ONLY
    identity: int = 0
    unique: tuple[Columns, ...] = ()
    index: tuple[Columns, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None

    def _common(self) -> dict[str, Any]:
        return {
            "identity": self.identity,
            "name": self.name,
            "properties": [prop.to_dict() for prop in self.properties.values()],
            "unique": [list(columns) for columns in self.unique],
            "index": [list(columns) for columns in self.index],
            "annotations": [annotation.to_dict() for annotation in self.annotations],
        }


@dataclass(frozen=True, kw_only=True)
class InterfaceType(_Type):
    """An interface: properties that node types inherit."""

    key: Columns | None = None

    def to_dict(self) -> dict[str, Any]:
        return self._common() | {"key": _optional_list(self.key)}


@dataclass(frozen=True, kw_only=True)
class NodeType(_Type):
    """A node type: its own properties first, then those inherited from its interfaces."""

    interfaces: tuple[str, ...] = ()
    key: Columns | None = None
    """The members of the key, in the order of a composite id."""
    ranges: tuple[RangeConstraint, ...] = ()
    checks: tuple[CheckConstraint, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return self._common() | {
            "interfaces": list(self.interfaces),
            "key": _optional_list(self.key),
            "ranges": [{"property": range_.property, "low": range_.low, "high": range_.high} for range_ in self.ranges],
            "checks": [{"property": check.property, "pattern": check.pattern} for check in self.checks],
        }


@dataclass(frozen=True, kw_only=True)
class EdgeType(_Type):
    """An edge type, from one node type to another."""

    source: str = ""
    target: str = ""
    cardinality: Cardinality = Cardinality()

    def to_dict(self) -> dict[str, Any]:
        return self._common() | {
            "from": self.source,
            "to": self.target,
            "card": {"low": self.cardinality.low, "high": self.cardinality.high},
        }


@dataclass(frozen=True)
class Catalog:
    """A checked schema. Make one with `compile_schema`."""

    interfaces: Mapping[str, InterfaceType]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    next_identity: int = 1

    @cached_property
    def edges_by_word(self) -> Mapping[str, EdgeType]:
        """Edge types by lower-case name, for the case-insensitive look-up of traversals."""
        return MappingProxyType({name.lower(): edge for name, edge in self.edges.items()})

    def edge_by_word(self, word: str) -> EdgeType | None:
        return self.edges_by_word.get(word.lower())

    @cached_property
    def schema_hash(self) -> str:
        """A hash of the schema's meaning, 64 hex digits. Comments, order, spelling, renames and identities do not count."""
        return stable_hash(_meaning(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "next_identity": self.next_identity,
            "interfaces": [self.interfaces[name].to_dict() for name in sorted(self.interfaces)],
            "nodes": [self.nodes[name].to_dict() for name in sorted(self.nodes)],
            "edges": [self.edges[name].to_dict() for name in sorted(self.edges)],
        }

    def to_json(self) -> str:
        """Canonical JSON; `Catalog.from_json` reads it back."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Catalog:
        import json

        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Catalog:
        if entry.get("format_version") != FORMAT_VERSION:
            raise ValueError(
                f"catalog format {entry.get('format_version')!r} is not {FORMAT_VERSION}; use a matching release"
            )
        return cls(
            by_name(_read_interface(interface) for interface in entry["interfaces"]),
            by_name(_read_node(node) for node in entry["nodes"]),
            by_name(_read_edge(edge) for edge in entry["edges"]),
            entry["next_identity"],
        )


Named = TypeVar("Named", Property, InterfaceType, NodeType, EdgeType)


def by_name(values: Iterable[Named]) -> Mapping[str, Named]:
    return MappingProxyType({value.name: value for value in values})


def constraint_display(kind: str, columns: Columns) -> str:
    return f"@{kind}({', '.join(sorted(columns))})"


def number_text(value: Number) -> str:
    return repr(value) if isinstance(value, int) else format_float(value)


def format_float(value: float) -> str:
    """Format a float in the syntax of the grammar: digits on both sides of the point, no exponent."""
    from decimal import Decimal

    text = format(Decimal(repr(value)), "f")
    return text if "." in text else text + ".0"


def _optional_list(columns: Columns | None) -> list[str] | None:
    return None if columns is None else list(columns)


def _read_common(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": entry["name"],
        "identity": entry["identity"],
        "properties": by_name(Property.from_dict(prop) for prop in entry["properties"]),
        "unique": tuple(tuple(columns) for columns in entry["unique"]),
        "index": tuple(tuple(columns) for columns in entry["index"]),
        "annotations": tuple(Annotation.from_dict(annotation) for annotation in entry["annotations"]),
    }


def _read_interface(entry: dict[str, Any]) -> InterfaceType:
    return InterfaceType(**_read_common(entry), key=_read_key(entry))


def _read_key(entry: dict[str, Any]) -> Columns | None:
    return None if entry["key"] is None else tuple(entry["key"])


def _read_node(entry: dict[str, Any]) -> NodeType:
    return NodeType(
        **_read_common(entry),
        interfaces=tuple(entry["interfaces"]),
        key=_read_key(entry),
        ranges=tuple(RangeConstraint(**range_) for range_ in entry["ranges"]),
        checks=tuple(CheckConstraint(**check) for check in entry["checks"]),
    )


def _read_edge(entry: dict[str, Any]) -> EdgeType:
    return EdgeType(
        **_read_common(entry), source=entry["from"], target=entry["to"], cardinality=Cardinality(**entry["card"])
    )


def _meaning(value: Any) -> Any:
    """Return the JSON of a catalog without identities, and with unordered lists sorted."""
    if isinstance(value, dict):
        skipped = ("identity", "next_identity", "format_version")
        entry = {name: _meaning(member) for name, member in value.items() if name not in skipped}
        if isinstance(entry.get("key"), list):
            entry["key"] = sorted(entry["key"])
        for name in ("properties", "interfaces", "nodes", "edges", "annotations"):
            if name in entry:
                entry[name] = sorted(entry[name], key=_order)
        return entry
    return [_meaning(member) for member in value] if isinstance(value, list) else value


_order: Callable[[Any], str] = canonical_json
