"""Schemas as plain values, and how they are written down: the generator's own idea of a schema, not the compiler's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeVar

from hypothesis.vendor.pretty import RepresentationPrinter

from omnigraph_compiler import PropType
from tests.property.layout import literal_tokens, number_tokens, string_token

Plain = str | int | float | bool
Kind = Literal["interface", "node", "edge"]
Columns = tuple[str, ...]
LITERAL_WORDS = ("true", "false")
"""Names that read as literals where an argument stands."""


@dataclass(frozen=True)
class Word:
    """An argument written as a bare word."""

    text: str


@dataclass(frozen=True)
class Note:
    """An annotation that the language only keeps."""

    name: str
    value: Plain | Word | None = None
    keywords: tuple[tuple[str, Plain], ...] = ()


@dataclass(frozen=True)
class Prop:
    name: str
    type: PropType
    default: Plain | None = None
    embed: tuple[str, str | None] | None = None
    metric: str | None = None
    description: str | None = None
    rename_from: str | None = None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Owner:
    """An interface, a node type or an edge type."""

    kind: Kind
    name: str
    props: tuple[Prop, ...] = ()
    key: Columns | None = None
    unique: tuple[Columns, ...] = ()
    index: tuple[Columns, ...] = ()
    ranges: tuple[tuple[str, float | None, float | None], ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    description: str | None = None
    instruction: str | None = None
    rename_from: str | None = None
    notes: tuple[Note, ...] = ()
    interfaces: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    card: tuple[int, int | None] | None = None

    def prop(self, name: str) -> Prop:
        return next(prop for prop in self.props if prop.name == name)


@dataclass(frozen=True)
class Schema:
    owners: tuple[Owner, ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text("…" if cycle else f"<schema {' '.join(schema_tokens(self))!r}>")

    def of_kind(self, kind: Kind) -> tuple[Owner, ...]:
        return tuple(owner for owner in self.owners if owner.kind == kind)

    @property
    def interfaces(self) -> tuple[Owner, ...]:
        return self.of_kind("interface")

    @property
    def nodes(self) -> tuple[Owner, ...]:
        return self.of_kind("node")

    @property
    def edges(self) -> tuple[Owner, ...]:
        return self.of_kind("edge")

    def get(self, kind: Kind, name: str) -> Owner:
        return next(owner for owner in self.owners if (owner.kind, owner.name) == (kind, name))

    def properties(self, owner: Owner) -> dict[str, Prop]:
        """What an owner has, with what its interfaces bring."""
        found = {prop.name: prop for prop in owner.props}
        for name in owner.interfaces:
            for prop in self.get("interface", name).props:
                found.setdefault(prop.name, prop)
        return found

    def injected(self, owner: Owner) -> set[str]:
        return set(self.properties(owner)) - {prop.name for prop in owner.props}

    def key_of(self, node: Owner) -> Columns:
        """The members of a node's key, wherever it comes from."""
        if node.key is not None:
            return node.key
        brought = self.injected(node)
        keys = (self.get("interface", name).key or () for name in node.interfaces)
        return next((key for key in keys if key and set(key) <= brought), ())

    def change(self, kind: Kind, name: str, edit: Callable[[Owner], Owner]) -> Schema:
        return Schema(tuple(edit(each) if (each.kind, each.name) == (kind, name) else each for each in self.owners))


# Writing ---------------------------------------------------------------------------------------------------------

T = TypeVar("T")


def schema_tokens(schema: Schema, seed: int = 0, *, shuffle: bool = False) -> list[str]:
    """The tokens of a schema. The seed chooses among equal spellings; `shuffle` also changes the order of declarations."""
    return _Writer(Random(seed), varied=seed != 0, shuffle=shuffle).schema(schema)


def type_tokens(type_: PropType, values: Sequence[str] | None = None) -> list[str]:
    if type_.enum_values is not None:
        shown = list(values or type_.enum_values)
        tokens = ["enum", "(", *separated([value] for value in shown), ")"]
    elif type_.is_vector:
        tokens = ["Vector", "(", str(type_.dimension), ")"]
    else:
        tokens = ["[", type_.scalar, "]"] if type_.is_list else [type_.scalar]
    return [*tokens, "?"] if type_.nullable else tokens


def separated(parts: Iterable[Sequence[str]]) -> list[str]:
    """Parts with commas between them."""
    tokens: list[str] = []
    for part in parts:
        if tokens:
            tokens.append(",")
        tokens += part
    return tokens


@dataclass
class _Writer:
    random: Random
    varied: bool
    shuffle: bool

    def schema(self, schema: Schema) -> list[str]:
        tokens: list[str] = []
        for owner in self.reordered(schema.owners):
            tokens += self.owner(owner)
        return tokens

    def chance(self, probability: float) -> bool:
        return self.varied and self.random.random() < probability

    def reordered(self, values: Iterable[T], always: bool = False) -> list[T]:
        """The values, in another order if that makes no difference (`always`) or if a new order is asked for."""
        listed = list(values)
        if self.shuffle or (always and self.varied):
            self.random.shuffle(listed)
        return listed

    def owner(self, owner: Owner) -> list[str]:
        tokens: list[str] = [owner.kind, owner.name]
        if owner.kind == "edge":
            tokens += [":", owner.source, "->", owner.target, *self.card(owner.card)]
        for part in self.reordered(self.header(owner), always=True):
            tokens += part
        if owner.interfaces:
            tokens += ["implements", *separated([name] for name in self.reordered(owner.interfaces))]
        body = self.body(owner)
        if owner.kind == "edge" and not body and self.chance(0.5):
            return tokens
        return [*tokens, "{", *body, "}"]

    def card(self, card: tuple[int, int | None] | None) -> list[str]:
        if card is None:
            return ["@card", "(", "0", "..", ")"] if self.chance(0.2) else []
        low, high = card
        return ["@card", "(", str(low), "..", *([] if high is None else [str(high)]), ")"]

    def header(self, owner: Owner) -> list[list[str]]:
        parts = [self.note(note) for note in owner.notes]
        for name in ("description", "instruction", "rename_from"):
            value = getattr(owner, name)
            if value is not None:
                parts.append(self.note(Note(name, value)))
        return parts

    def body(self, owner: Owner) -> list[str]:
        marks: dict[str, list[str]] = {prop.name: [] for prop in owner.props}
        constraints = [self.decoration("range", [[name], self.bounds(low, high)]) for name, low, high in owner.ranges]
        constraints += [self.decoration("check", [[name], [self.string(pattern)]]) for name, pattern in owner.checks]
        groups = [("key", () if owner.key is None else (owner.key,)), ("unique", owner.unique), ("index", owner.index)]
        for kind, all_columns in groups:
            for columns in all_columns:
                if self.place_mark(owner, kind, columns, marks):
                    continue
                constraints.append(self.columns(kind, columns))
        members = [self.prop(prop, marks[prop.name]) for prop in self.reordered(owner.props)]
        for constraint in self.reordered(constraints, always=True):
            # A constraint may stand before, between and after properties.
            place = self.random.randint(0, len(members)) if self.varied else len(members)
            members.insert(place, constraint)
        return [token for member in members for token in member]

    def place_mark(self, owner: Owner, kind: str, columns: Columns, marks: dict[str, list[str]]) -> bool:
        """Write a constraint of one column after its property, where that is possible; says whether that is all."""
        if len(columns) != 1 or columns[0] not in marks:
            return False
        name = columns[0]
        if kind == "index" and owner.prop(name).type.is_list:
            return False
        must = owner.kind == "interface" or name in LITERAL_WORDS
        if not must and self.chance(0.5):
            return False
        marks[name].append(kind)
        return must or kind == "key" or not self.chance(0.2)

    def prop(self, prop: Prop, marks: list[str]) -> list[str]:
        values = self.reordered(prop.type.enum_values or (), always=True)
        parts = [["@", mark] for mark in marks] + [self.note(note) for note in prop.notes]
        for name in ("default", "metric", "description", "rename_from"):
            value = getattr(prop, name)
            if value is not None:
                parts.append(self.note(Note(name, value)))
        if prop.embed is not None:
            source, model = prop.embed
            word = source not in LITERAL_WORDS and self.chance(0.5)
            keywords = () if model is None else (("model", model),)
            parts.append(self.note(Note("embed", Word(source) if word else source, keywords)))
        tokens = [prop.name, ":", *type_tokens(prop.type, values)]
        for part in self.reordered(parts, always=True):
            tokens += part
        return tokens

    def note(self, note: Note) -> list[str]:
        if note.value is None:
            return ["@", note.name]
        value = [note.value.text] if isinstance(note.value, Word) else self.literal(note.value)
        keywords = [[name, "=", *self.literal(literal)] for name, literal in self.reordered(note.keywords, always=True)]
        return self.decoration(note.name, [value, *keywords])

    def decoration(self, name: str, arguments: Iterable[Sequence[str]]) -> list[str]:
        return ["@", name, "(", *separated(arguments), ")"]

    def columns(self, kind: str, columns: Columns) -> list[str]:
        listed = self.reordered(columns, always=True)
        if self.chance(0.1):
            listed.append(listed[0])
        return self.decoration(kind, [[name] for name in listed])

    def bounds(self, low: float | None, high: float | None) -> list[str]:
        return [*([] if low is None else number_tokens(low)), "..", *([] if high is None else number_tokens(high))]

    def literal(self, value: Plain) -> list[str]:
        return literal_tokens(value, self.random if self.varied else None)

    def string(self, value: str) -> str:
        return string_token(value, self.random if self.varied else None)


def rename_columns(owner: Owner, old: str, new: str) -> Owner:
    """The owner with one property renamed wherever its constraints and embeds mention it."""

    def current(columns: Columns) -> Columns:
        return tuple(new if name == old else name for name in columns)

    def embed(prop: Prop) -> Prop:
        if prop.embed is None or prop.embed[0] != old:
            return prop
        return replace(prop, embed=(new, prop.embed[1]))

    return replace(
        owner,
        props=tuple(embed(replace(prop, name=new) if prop.name == old else prop) for prop in owner.props),
        key=None if owner.key is None else current(owner.key),
        unique=tuple(current(columns) for columns in owner.unique),
        index=tuple(current(columns) for columns in owner.index),
        ranges=tuple((new if name == old else name, low, high) for name, low, high in owner.ranges),
        checks=tuple((new if name == old else name, pattern) for name, pattern in owner.checks),
    )
