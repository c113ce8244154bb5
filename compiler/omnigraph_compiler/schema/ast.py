"""Syntax trees of schemas. `span` is a half-open range of character offsets into the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from omnigraph_compiler.types import PropType

At: TypeAlias = tuple[int, int]
LiteralValue: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: At


@dataclass(frozen=True, slots=True)
class Word:
    """An argument that is a bare name."""

    text: str
    span: At


@dataclass(frozen=True, slots=True)
class Literal:
    value: LiteralValue
    span: At


@dataclass(frozen=True, slots=True)
class Keyword:
    """An argument `name=literal`."""

    name: str
    value: Literal
    span: At


@dataclass(frozen=True, slots=True)
class Range:
    """An argument `lo..hi`; either side may be open."""

    low: Literal | None
    high: Literal | None
    span: At


Argument: TypeAlias = Word | Literal | Keyword | Range


@dataclass(frozen=True, slots=True)
class Decoration:
    """Anything written `@name` or `@name(...)`: a constraint or an annotation."""

    name: str
    arguments: tuple[Argument, ...] | None
    """None if there are no parentheses."""
    span: At


@dataclass(frozen=True, slots=True)
class TypeRef:
    type: PropType
    span: At
    enum_source: tuple[str, ...] | None = None
    """The enum values in source order."""


@dataclass(frozen=True, slots=True)
class Property:
    name: Name
    type: TypeRef
    span: At


Member: TypeAlias = Property | Decoration


@dataclass(frozen=True, slots=True)
class Body:
    members: tuple[Member, ...]
    span: At
    """From the opening to the closing brace."""


@dataclass(frozen=True, slots=True)
class Interface:
    name: Name
    body: Body
    span: At


@dataclass(frozen=True, slots=True)
class Node:
    name: Name
    decorations: tuple[Decoration, ...]
    implements: tuple[Name, ...]
    body: Body
    span: At


@dataclass(frozen=True, slots=True)
class Edge:
    name: Name
    source: Name
    target: Name
    decorations: tuple[Decoration, ...]
    body: Body | None
    span: At


Declaration: TypeAlias = Interface | Node | Edge


@dataclass(frozen=True, slots=True)
class Schema:
    declarations: tuple[Declaration, ...]
