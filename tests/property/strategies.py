"""Strategies: valid schemas in any layout, and valid queries against them.

Valid means that the compiler must accept it. What the language leaves open is not generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from hypothesis.vendor.pretty import RepresentationPrinter

from omnigraph_compiler import PropType
from tests.property.layout import Layout, layouts, tricky_text
from tests.property.model import LITERAL_WORDS, Columns, Note, Owner, Plain, Prop, Schema, Word, schema_tokens

T = TypeVar("T")

BASE_TYPES = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "Blob")
INTEGERS = ("I32", "I64", "U32", "U64")
NUMERIC = (*INTEGERS, "F32", "F64")
_LIST_ITEMS = BASE_TYPES[:-1]

TYPE_NAMES = (
    "Port", "Ship", "Lane", "HomedAt", "Match", "Node", "Not", "Contains", "As", "Query", "String", "Vector", "Date", "True",
    "Count", "A", "Z_9", "Enum", "Owns", "X1y2Z3", "Search", "Interface", "Asc", "Starts_with",
)  # fmt: skip
PROPERTY_NAMES = (
    "name", "title", "code", "depth", "tags", "kind", "opened", "v", "a", "b", "c", "_", "_row_id", "camelCase", "camelcase",
    "match", "order", "node", "enum", "count", "edge", "interface", "implements", "query", "return", "limit", "not", "now",
    "contains", "starts_with", "search", "nearest", "bm25", "rrf", "min", "date", "datetime", "as", "asc", "desc", "set",
    "where", "insert", "delete", "true", "false", "key", "unique", "index", "range", "check", "card", "embed", "string",
)  # fmt: skip
_NODE_ONLY_NAMES = ("src", "dst", "from", "to")
PATTERNS = (
    "^[a-z]+$", r"\d{4}-\d{2}", "", "a|b|", r"(?i)port\s+\S*", r"[^\x00-\x1f\"]+?", r"\pL\p{Greek}*", "(a(b))", r"\Qa.b\E",
)  # fmt: skip
_ENUM_VALUES = ("river", "sea", "-", "a-b", "1", "2nd", "_", "true", "enum", "A", "--x", "0_0")

texts = tricky_text.filter(str.strip) | st.sampled_from(["x", "a note", "two\nlines", "tab\there", 'say "so" \\ now'])

_SHAPES = (*["String"] * 4, *BASE_TYPES, *["enum"] * 3, *["list"] * 3, *["vector"] * 3)

# Choices: as Hypothesis' own, but without making and checking a new strategy for each --------------------------------

_below = [st.integers(0, size) for size in range(100)]
_coin = st.booleans()


def coin(draw: DrawFn) -> bool:
    return draw(_coin)


def upto(draw: DrawFn, most: int, *, least: int = 0) -> int:
    return least + draw(_below[most - least])


def pick(draw: DrawFn, values: Sequence[T]) -> T:
    return values[draw(_below[len(values) - 1])]


def some(draw: DrawFn, values: Iterable[T], most: int, *, least: int = 0) -> list[T]:
    """A few of the values, none of them twice."""
    rest = list(values)
    count = upto(draw, min(most, len(rest)), least=least)
    return [rest.pop(draw(_below[len(rest) - 1])) for _ in range(count)]


# Types and values ------------------------------------------------------------------------------------------------


def prop_type(draw: DrawFn, *, nullable: bool | None = None) -> PropType:
    mark = pick(draw, (False, False, True)) if nullable is None else nullable
    shape = pick(draw, _SHAPES)
    if shape == "enum":
        return PropType("String", mark, enum_values=tuple(sorted(some(draw, _ENUM_VALUES, 4, least=1))))
    if shape == "list":
        return PropType(pick(draw, _LIST_ITEMS), mark, is_list=True)
    if shape == "vector":
        return PropType("Vector", mark, dimension=pick(draw, [1, 2, 3, 384, 2**31 - 1]))
    return PropType(shape, mark)


dates = st.dates().map(lambda day: day.isoformat())
datetimes = st.builds(
    lambda moment, zone: moment.isoformat() + zone,
    # A zone may move an instant by a day; the ends of the calendar are left out.
    st.datetimes().filter(lambda moment: 1 < moment.year < 9999),
    st.sampled_from(["", "Z", "+00:00", "-11:30", "+14:00"]),
)
_INTEGER_BOUNDS = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63) + 1, 2**63 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**63 - 1),
}
floats = st.floats(-1e9, 1e9, width=32) | st.sampled_from([0.0, 0.1, 1e-9, 1e30])


def default_values(type_: PropType) -> SearchStrategy[Plain]:
    """Literals that a `@default` of this scalar type takes."""
    scalar = type_.scalar
    if type_.enum_values is not None:
        return st.sampled_from(type_.enum_values)
    return _DEFAULTS[scalar]


_DEFAULTS: dict[str, SearchStrategy[Plain]] = {
    **{name: st.integers(0, 9) | st.integers(*bounds) for name, bounds in _INTEGER_BOUNDS.items()},
    "String": tricky_text,
    "Bool": st.booleans(),
    "Date": dates,
    "DateTime": datetimes,
    "F32": floats | st.integers(-5, 5),
    "F64": floats | st.integers(-5, 5),
}


def takes_default(type_: PropType) -> bool:
    return not (type_.is_list or type_.is_vector or type_.is_blob)


# Properties ------------------------------------------------------------------------------------------------------

_keyword_values: SearchStrategy[Plain] = st.one_of(texts, st.integers(0, 99), st.booleans(), st.sampled_from([0.5, 12.25]))
notes = st.builds(
    lambda name, value, keywords: Note(name, value, () if value is None else tuple(keywords.items())),
    st.sampled_from(["pii", "node", "enum", "unit", "x_1", "matches", "edge"]),
    st.none() | _keyword_values | st.integers(-9, -1) | st.sampled_from([Word("metres"), Word("edge"), -1.5]),
    st.dictionaries(st.sampled_from(["by", "enum", "of"]), _keyword_values, max_size=2),
)
_HINTS = ("Old", "old_name", "two words")
_EXTRA_BITS = (0, 0, 0, 0, 16, 16, 1, 2, 4, 8, 17, 3, 24, 5, 31)


@dataclass(frozen=True)
class _Extras:
    """What a declaration carries beside its type. One draw says which of it there is."""

    description: str | None
    instruction: str | None
    rename_from: str | None
    notes: tuple[Note, ...]
    default: bool

    @staticmethod
    def of(draw: DrawFn) -> _Extras:
        bits = pick(draw, _EXTRA_BITS)
        return _Extras(
            draw(texts) if bits & 1 else None,
            draw(texts) if bits & 2 else None,
            pick(draw, _HINTS) if bits & 4 else None,
            (draw(notes),) if bits & 8 else (),
            bool(bits & 16),
        )


def _property(draw: DrawFn, name: str, *, defaults: bool) -> Prop:
    type_ = prop_type(draw)
    extras = _Extras.of(draw)
    return Prop(
        name,
        type_,
        default=draw(default_values(type_)) if defaults and takes_default(type_) and extras.default else None,
        metric=pick(draw, (None, "l2", "cosine", "dot")) if type_.is_vector else None,
        description=extras.description,
        rename_from=extras.rename_from,
        notes=extras.notes,
    )


def _properties(draw: DrawFn, names: Sequence[str], *, defaults: bool, most: int = 5) -> tuple[Prop, ...]:
    return tuple(_property(draw, name, defaults=defaults) for name in some(draw, names, most))


def _embedded(draw: DrawFn, props: tuple[Prop, ...], sources: list[str]) -> tuple[Prop, ...]:
    """Some of the vectors with a text to compute them from."""
    changed = []
    for prop in props:
        if prop.type.is_vector and sources and coin(draw):
            changed.append(replace(prop, embed=(pick(draw, sources), pick(draw, (None, "m-1")))))
        else:
            changed.append(prop)
    return tuple(changed)


def _plain_strings(props: dict[str, Prop]) -> list[str]:
    return [name for name, prop in props.items() if prop.type.is_string and prop.type.enum_values is None]


# Constraints -----------------------------------------------------------------------------------------------------


def _is_scalar(type_: PropType) -> bool:
    return not (type_.is_list or type_.is_vector or type_.is_blob)


def _column_sets(draw: DrawFn, names: list[str], own: set[str], most: int) -> tuple[Columns, ...]:
    """Sets of columns for `@unique` and `@index`; each is sorted, and none occurs twice."""
    # A name that reads as a literal cannot be an argument, so it stands alone and on its own property.
    composable = [name for name in names if name not in LITERAL_WORDS]
    single = [name for name in names if name in composable or name in own]
    sets: list[Columns] = []
    for _ in range(upto(draw, most) if single else 0):
        columns: Columns = (pick(draw, single),)
        if columns[0] in composable and coin(draw):
            columns = tuple(sorted({*columns, *some(draw, composable, 2)}))
        if columns not in sets:
            sets.append(columns)
    return tuple(sets)


_bounds: SearchStrategy[float] = st.integers(-1000, 1000) | st.sampled_from([-0.5, 1.25, 1e10, 2**53 + 1])


def _ranges(draw: DrawFn, names: list[str]) -> tuple[tuple[str, float | None, float | None], ...]:
    found: list[tuple[str, float | None, float | None]] = []
    for name in some(draw, names, 2):
        low, high = sorted((draw(_bounds), draw(_bounds)))
        shape = upto(draw, 2)
        found.append((name, None if shape == 1 else low, None if shape == 2 else high))
    return tuple(found)


# Types of nodes and edges ----------------------------------------------------------------------------------------


def _interface(draw: DrawFn, name: str, names: tuple[str, ...]) -> Owner:
    props = _properties(draw, names, defaults=False, most=3)
    by_name = {prop.name: prop for prop in props}
    props = _embedded(draw, props, _plain_strings(by_name))
    scalars = [prop.name for prop in props if _is_scalar(prop.type)]
    required = [each for each in scalars if not by_name[each].type.nullable]
    indexable = [prop.name for prop in props if not prop.type.is_blob and not prop.type.is_list]
    key = (pick(draw, required),) if required and coin(draw) else None
    unique = tuple((each,) for each in scalars if coin(draw))
    return Owner("interface", name, props, key, unique, tuple((each,) for each in indexable if coin(draw)))


def _implemented(draw: DrawFn, interfaces: tuple[Owner, ...]) -> tuple[tuple[str, ...], list[Prop], set[str]]:
    """Interfaces of a node (at most one of them with a key), properties declared again, and the injected names."""
    chosen: list[Owner] = []
    for interface in some(draw, interfaces, 2):
        if interface.key is None or all(each.key is None for each in chosen):
            chosen.append(interface)
    again: list[Prop] = []
    injected: set[str] = set()
    for prop in (prop for each in chosen for prop in each.props):
        if prop.embed is None and pick(draw, (False, False, True)):
            again.append(Prop(prop.name, prop.type))
        else:
            injected.add(prop.name)
    return tuple(each.name for each in chosen), again, injected


def _node(draw: DrawFn, name: str, names: tuple[str, ...], interfaces: tuple[Owner, ...]) -> Owner:
    implemented, again, injected = _implemented(draw, interfaces)
    own = (*_properties(draw, names, defaults=True), *again)
    bare = Owner("node", name, own, interfaces=implemented)
    found = Schema((*interfaces, bare)).properties(bare)
    own_names = {prop.name for prop in own}
    own = _embedded(draw, own, _plain_strings(found))
    scalars = [each for each in found if _is_scalar(found[each].type)]
    keyed = any(set(each.key or ()) & injected for each in interfaces if each.name in implemented)
    key = None if keyed else _key(draw, found, own_names)
    own = tuple(replace(prop, default=None) if key and prop.name in key else prop for prop in own)
    arguments = [each for each in found if each not in LITERAL_WORDS]
    strings = [each for each in _plain_strings(found) if each in arguments]
    checks = some(draw, [(each, pattern) for each in strings for pattern in PATTERNS], 2)
    indexable = [
        each for each, prop in found.items() if not prop.type.is_blob and (each in arguments or not prop.type.is_list)
    ]
    extras = _Extras.of(draw)
    return Owner(
        "node",
        name,
        own,
        key=key,
        unique=_column_sets(draw, scalars, own_names, 2),
        index=_column_sets(draw, indexable, own_names, 2),
        ranges=_ranges(draw, [each for each in arguments if found[each].type.is_numeric]),
        checks=tuple(checks),
        description=extras.description,
        instruction=extras.instruction,
        rename_from=extras.rename_from,
        notes=extras.notes,
        interfaces=implemented,
    )


def _key(draw: DrawFn, found: dict[str, Prop], own: set[str]) -> Columns | None:
    fitting = [name for name, prop in found.items() if _is_scalar(prop.type) and not prop.type.nullable]
    columns = _column_sets(draw, fitting, own, 1)
    return columns[0] if columns else None


def _edge(draw: DrawFn, name: str, names: Sequence[str], nodes: tuple[Owner, ...]) -> Owner:
    props = _properties(draw, names, defaults=True, most=3)
    own = {prop.name for prop in props}
    scalars = [prop.name for prop in props if _is_scalar(prop.type)]
    indexable = [p.name for p in props if not p.type.is_blob and not (p.type.is_list and p.name in LITERAL_WORDS)]
    low = upto(draw, 2)
    extras = _Extras.of(draw)
    return Owner(
        "edge",
        name,
        props,
        unique=_column_sets(draw, [*scalars, "src", "dst"], own, 2),
        index=_column_sets(draw, [*indexable, "src", "dst"], own, 2),
        description=extras.description,
        instruction=extras.instruction,
        rename_from=extras.rename_from,
        notes=extras.notes,
        source=pick(draw, nodes).name,
        target=pick(draw, nodes).name,
        card=pick(draw, (None, (low, None), (low, low), (low, 2**40))),
    )


spellings = st.integers(0, 2**16)

# Schemas ---------------------------------------------------------------------------------------------------------


@st.composite
def schemas(draw: DrawFn, *, min_nodes: int = 0) -> Schema:
    """A valid schema, as a value."""
    random = Random(draw(spellings))
    type_names, edge_names = _shuffled(random, TYPE_NAMES), _shuffled(random, TYPE_NAMES)
    # Interfaces have names of their own, so that what they inject never clashes with what a node declares.
    prop_names = _shuffled(random, PROPERTY_NAMES)
    interfaces = tuple(
        _interface(draw, type_names.pop(), (prop_names.pop(), prop_names.pop(), prop_names.pop()))
        for _ in range(upto(draw, 2))
    )
    own_names = (*prop_names, *_NODE_ONLY_NAMES)
    nodes = tuple(_node(draw, type_names.pop(), own_names, interfaces) for _ in range(upto(draw, 3, least=min_nodes)))
    count = upto(draw, 3) if nodes else 0
    edges = tuple(_edge(draw, edge_names.pop(), prop_names, nodes) for _ in range(count))
    return Schema(tuple(_shuffled(random, (*interfaces, *nodes, *edges))))


def _shuffled(random: Random, values: Iterable[T]) -> list[T]:
    listed = list(values)
    random.shuffle(listed)
    return listed


@dataclass(frozen=True)
class SchemaText:
    """A schema and one of the texts that say it."""

    schema: Schema
    spelling: int
    layout: Layout

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text("…" if cycle else f"<schema {self.text!r}>")

    @property
    def text(self) -> str:
        return self.layout.write(schema_tokens(self.schema, self.spelling))

    def again(self, spelling: int, layout: Layout) -> str:
        """Another text for the same schema: other order, other spelling, other layout."""
        return layout.write(schema_tokens(self.schema, spelling, shuffle=True))


@st.composite
def _schema_texts(draw: DrawFn) -> SchemaText:
    return SchemaText(draw(schemas()), draw(spellings), draw(layouts))


schema_texts = _schema_texts()
