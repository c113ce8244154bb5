"""Strategies for valid queries against a generated schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from hypothesis.vendor.pretty import RepresentationPrinter

from omnigraph_compiler import PropType
from tests.property.layout import Layout, layouts, number_tokens, string_token, tricky_text
from tests.property.model import Owner, Prop, Schema, schema_tokens
from tests.property.query_model import Clause, Item, QueryCase, Statement, Table, Tokens, file_text
from tests.property.strategies import (
    BASE_TYPES,
    INTEGERS,
    NUMERIC,
    PROPERTY_NAMES,
    coin,
    dates,
    datetimes,
    pick,
    schemas,
    some,
    spellings,
    texts,
    upto,
)

T = TypeVar("T")
ValueKind = Literal["String", "Bool", "number", "Date", "DateTime"]
Rank = Literal["nearest", "bm25", "rrf"]

_VARIABLES = ("p", "q", "s", "w", "match", "count", "not", "_x", "true", "from")
_DECLARED = ("p", "q", "who", "limit", "order", "nearest")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_STRING, _BOOL, _I64, _F64 = PropType("String"), PropType("Bool"), PropType("I64"), PropType("F64")
_DATETIME = PropType("DateTime")
_MAX_VECTOR = 4
_query_names = st.sampled_from(("q", "find_ports", *PROPERTY_NAMES))
_aliases = st.sampled_from([name for name in PROPERTY_NAMES if name not in ("true", "false")])


def kind_of(type_: PropType) -> ValueKind | None:
    """What a scalar compares with; None for what is no scalar value."""
    if type_.is_list or type_.is_vector or type_.is_blob:
        return None
    if type_.scalar in NUMERIC:
        return "number"
    kinds: dict[str, ValueKind] = {"String": "String", "Bool": "Bool", "Date": "Date", "DateTime": "DateTime"}
    return kinds[type_.scalar]


# Values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Style:
    """How queries are made: what literals are drawn from (numbers are not negative, as the grammar wants it), how much."""

    texts: SearchStrategy[str]
    whole: SearchStrategy[int | float]
    broken: SearchStrategy[int | float]
    dates: SearchStrategy[str]
    datetimes: SearchStrategy[str]
    clauses: int = 5
    """How many clauses may follow the first one."""
    matches: tuple[int, ...] = (0, 1, 2)
    """How many properties a binding matches."""
    limit: int = 99
    """The largest limit."""
    embeds: bool = True
    """Whether `nearest` may be given a text."""


@dataclass
class _Builder:
    """Draws the parts of one query and remembers the names it has used."""

    draw: DrawFn
    schema: Schema
    style: Style
    nodes: dict[str, str] = field(default_factory=dict)
    """Node variables in scope and their types."""
    edges: dict[str, str] = field(default_factory=dict)
    params: dict[str, PropType] = field(default_factory=dict)
    reads: set[Table] = field(default_factory=set)
    local: bool = False

    def pick(self, values: Sequence[T]) -> T:
        return pick(self.draw, values)

    def maybe(self) -> bool:
        return coin(self.draw)

    # Names

    def declare_some(self) -> None:
        """Parameters declared up front; they may share their names with variables and may stay unused."""
        for name in some(self.draw, _DECLARED, 2):
            self.params[name] = self._param_type()

    def _param_type(self) -> PropType:
        shape = self.pick(["base", "base", "list", "vector"])
        if shape == "vector":
            return PropType("Vector", self.maybe(), dimension=self.pick([1, 3, 2**31 - 1]))
        return PropType(self.pick(BASE_TYPES), self.maybe(), is_list=shape == "list")

    def param(self, fits: Callable[[PropType], bool], make: Callable[[], PropType]) -> Tokens:
        """A declared parameter that fits, or a new one."""
        found = [name for name, type_ in self.params.items() if fits(type_)]
        if found and self.maybe():
            return (f"${self.pick(found)}",)
        name = f"a{len(self.params)}"
        self.params[name] = make()
        return (f"${name}",)

    def param_of(self, kind: ValueKind) -> Tokens:
        scalars = NUMERIC if kind == "number" else (kind,)
        return self.param(lambda type_: kind_of(type_) == kind, lambda: PropType(self.pick(scalars), self.maybe()))

    def fresh(self) -> str:
        pool = tuple(f"i_{name}" for name in _VARIABLES) if self.local else _VARIABLES
        free = [name for name in pool if name not in self.nodes and name not in self.edges]
        return self.pick(free)

    def owner(self, variable: str) -> Owner:
        if variable in self.nodes:
            return self.schema.get("node", self.nodes[variable])
        return self.schema.get("edge", self.edges[variable])

    def accesses(self, fits: Callable[[Prop], bool], *, edges: bool = True) -> list[tuple[str, Prop]]:
        """Properties within reach, as (variable, property)."""
        names = [*self.nodes, *(self.edges if edges else ())]
        found = ((name, prop) for name in names for prop in self.schema.properties(self.owner(name)).values())
        return [(name, prop) for name, prop in found if fits(prop)]

    # Scalars

    def literal(self, kind: ValueKind) -> Tokens:
        if kind == "String":
            return (string_token(self.draw(self.style.texts)),)
        if kind == "Bool":
            return (self.pick(["true", "false"]),)
        if kind == "number":
            return tuple(number_tokens(self.draw(self.pick([self.style.whole, self.style.broken]))))
        word, strategy = ("date", self.style.dates) if kind == "Date" else ("datetime", self.style.datetimes)
        return (word, "(", string_token(self.draw(strategy)), ")")

    def operand(self, kind: ValueKind) -> Tokens:
        options: list[Callable[[], Tokens]] = [lambda: self.literal(kind), lambda: self.param_of(kind)]
        found = self.accesses(lambda prop: kind_of(prop.type) == kind)
        if found:
            options += [lambda: _access(*self.pick(found))] * 3
        if kind == "DateTime":
            options.append(lambda: ("now", "(", ")"))
        if kind == "Bool" and self.text_fields():
            options.append(self.text_predicate)
        if kind == "number" and self.text_fields():
            options.append(self.bm25)
        if kind == "number" and self.vector_fields():
            options.append(self.nearest)
        return self.pick(options)()

    def list_literal(self, kind: ValueKind, size: int) -> Tokens:
        """A list of one type: whole and broken numbers are not mixed."""
        if kind == "number":
            strategy = self.pick([self.style.whole, self.style.broken])
            return ("[", *_separated([tuple(number_tokens(self.draw(strategy))) for _ in range(size)]), "]")
        return ("[", *_separated([self.literal(kind) for _ in range(size)]), "]")

    # Search

    def text_fields(self) -> list[tuple[str, Prop]]:
        return self.accesses(lambda prop: prop.type.is_string, edges=False)

    def vector_fields(self) -> list[tuple[str, Prop]]:
        return self.accesses(lambda prop: prop.type.is_vector, edges=False)

    def text_query(self) -> Tokens:
        found = self.accesses(lambda prop: prop.type.is_string)
        options: list[Callable[[], Tokens]] = [
            lambda: self.literal("String"),
            lambda: self.param_of("String"),
            lambda: _access(*self.pick(found)),
        ]
        return self.pick(options)()

    def whole_number(self) -> Tokens:
        if self.maybe():
            return (str(upto(self.draw, 99, least=1)),)
        return self.param(lambda type_: type_.is_integer, lambda: PropType(self.pick(INTEGERS), self.maybe()))

    def text_predicate(self) -> Tokens:
        function = self.pick(["search", "match_text", "fuzzy"])
        more = (",", *self.whole_number()) if function == "fuzzy" and self.maybe() else ()
        return (function, "(", *_access(*self.pick(self.text_fields())), ",", *self.text_query(), *more, ")")

    def bm25(self, variable: str | None = None) -> Tokens:
        fields = [each for each in self.text_fields() if variable in (None, each[0])]
        return ("bm25", "(", *_access(*self.pick(fields)), ",", *self.text_query(), ")")

    def nearest(self, variable: str | None = None) -> Tokens:
        name, prop = self.pick([each for each in self.vector_fields() if variable in (None, each[0])])
        size = prop.type.dimension or 0
        options: list[Callable[[], Tokens]] = [
            lambda: self.param(
                lambda type_: type_.is_vector and type_.dimension == size, lambda: replace(prop.type, nullable=self.maybe())
            ),
        ]
        if self.style.embeds:
            options += [lambda: self.param_of("String"), lambda: self.literal("String")]
        if size <= _MAX_VECTOR:
            options.append(lambda: self.list_literal("number", size))
        return ("nearest", "(", *_access(name, prop), ",", *self.pick(options)(), ")")

    def rrf(self) -> Tokens:
        variable = self.pick([*{name for name, _ in (*self.text_fields(), *self.vector_fields())}])
        arms = []
        for _ in range(2):
            options: list[Callable[[str], Tokens]] = []
            if any(name == variable for name, _ in self.text_fields()):
                options.append(self.bm25)
            if any(name == variable for name, _ in self.vector_fields()):
                options.append(self.nearest)
            arms.append(self.pick(options)(variable))
        more = (",", *self.whole_number()) if self.maybe() else ()
        return ("rrf", "(", *arms[0], ",", *arms[1], *more, ")")

    def ranks(self) -> list[Rank]:
        ranks: list[Rank] = []
        if self.text_fields():
            ranks += ["bm25", "rrf"]
        if self.vector_fields():
            ranks += ["nearest", "rrf"]
        return ranks

    def ranking(self, rank: Rank) -> Tokens:
        return {"nearest": self.nearest, "bm25": self.bm25, "rrf": self.rrf}[rank]()

    # Clauses

    def child(self) -> _Builder:
        return replace(self, nodes=dict(self.nodes), edges=dict(self.edges), local=True)

    def binding(self, variable: str | None = None) -> Clause:
        if variable is None:
            variable = self.pick([*[self.fresh()] * 4, *self.nodes, "_"])
        type_name = self.nodes.get(variable) or self.pick(self.schema.nodes).name
        if variable != "_":
            self.nodes[variable] = type_name
        self.reads.add(("node", type_name))
        node = self.schema.get("node", type_name)
        fitting = [prop for prop in self.schema.properties(node).values() if _can_match(prop.type)]
        most = min(self.pick(self.style.matches), len(fitting))
        chosen = some(self.draw, fitting, most, least=most)
        tokens: Tokens = (f"${variable}", ":", type_name)
        if chosen or self.maybe():
            inside = _separated([(prop.name, ":", *self.match_value(prop.type)) for prop in chosen])
            comma = (",",) if chosen and self.maybe() else ()
            tokens = (*tokens, "{", *inside, *comma, "}")
        return Clause("binding", tokens)

    def match_value(self, type_: PropType) -> Tokens:
        if type_.is_vector:
            return self.list_literal("number", type_.dimension or 0)
        kind = kind_of(type_.item if type_.is_list else type_)
        assert kind is not None
        if self.maybe():
            return self.param_of(kind)
        if type_.enum_values is not None:
            return (string_token(self.pick(type_.enum_values)),)
        if kind == "DateTime" and not type_.is_list and self.maybe():
            return ("now", "(", ")")
        return self.literal(kind)

    def traversal(self, through: str | None = None) -> Clause:
        """A traversal; `through` is a variable it must touch."""
        usable = [edge for edge in self.schema.edges if through is None or self.nodes[through] in (edge.source, edge.target)]
        edge = self.pick(usable)
        source, target = self._ends(edge, through)
        self.reads |= {("edge", edge.name), ("node", edge.source), ("node", edge.target)}
        word = self._edge_word(edge.name)
        name: Tokens = ("<", word, ">") if edge.source == edge.target and self.maybe() else (word,)
        shape = self.pick(["plain", "plain", "hops", "edge", "anonymous"])
        if shape == "hops":
            low, more = upto(self.draw, 3, least=1), upto(self.draw, 3)
            return Clause("traversal", (f"${source}", *name, "{", str(low), ",", str(low + more), "}", f"${target}"))
        if shape in ("edge", "anonymous"):
            variable = self.fresh() if shape == "edge" else "_"
            if shape == "edge":
                self.edges[variable] = edge.name
            return Clause("traversal", (f"${source}", f"${variable}", ":", *name, f"${target}"))
        return Clause("traversal", (f"${source}", *name, f"${target}"))

    def _edge_word(self, name: str) -> str:
        word = self.pick([name[0].lower() + name[1:], name.lower(), name[0].lower() + name[1:].upper()])
        return name[0].lower() + name[1:].upper() if word == "not" else word

    def _ends(self, edge: Owner, through: str | None) -> tuple[str, str]:
        """Source and target variable; a new one gets the type that the direction gives it."""
        touching = [name for name, type_ in self.nodes.items() if type_ in (edge.source, edge.target)]
        source = through if through is not None and self.maybe() else None
        if source is None and through is None:
            source = self.pick([None, *touching])
        if source is not None:
            forward = self.nodes[source] == edge.source
            return source, self._end(edge.target if forward else edge.source)
        target = through if through is not None else self.pick([None, *touching])
        if target is not None:
            forward = self.nodes[target] == edge.target
            return self._new_end(edge.source if forward else edge.target), target
        source = self._new_end(edge.source)
        return source, self._end(edge.target)

    def _end(self, type_name: str) -> str:
        found = [name for name, type_ in self.nodes.items() if type_ == type_name]
        return self.pick(found) if found and self.maybe() else self._new_end(type_name)

    def _new_end(self, type_name: str) -> str:
        if self.pick([False, False, True]):
            return "_"
        name = self.fresh()
        self.nodes[name] = type_name
        return name

    def filter(self, through: tuple[str, Prop] | None = None) -> Clause:
        lists = self.accesses(lambda prop: prop.type.is_list)
        if through is None and lists and self.maybe():
            return self._membership(*self.pick(lists))
        kind = kind_of(through[1].type) if through else self.pick(_KINDS)
        assert kind is not None
        left = _access(*through) if through else self.operand(kind)
        right = self.operand(kind)
        operators = [*_COMPARISONS]
        # Two bare variables around these words would be a traversal.
        if kind == "String" and not (len(left) == 1 and len(right) == 1 and left[0][0] == right[0][0] == "$"):
            operators += ["contains", "starts_with"]
        return Clause("filter", (*left, self.pick(operators), *right))

    def _membership(self, name: str, prop: Prop) -> Clause:
        kind = kind_of(prop.type.item)
        assert kind is not None
        left = self.pick([_access(name, prop), self.list_literal(kind, 2)])
        return Clause("filter", (*left, "contains", *self.operand(kind)))

    def negation(self, depth: int) -> Clause:
        inner = self.child()
        outer = self.pick([*self.nodes])
        options: list[Callable[[], Clause]] = [lambda: inner.binding(outer)]
        if any(self.nodes[outer] in (edge.source, edge.target) for edge in self.schema.edges):
            options += [lambda: inner.traversal(outer)] * 2
        comparable = self.accesses(lambda prop: kind_of(prop.type) is not None)
        if comparable:
            options.append(lambda: inner.filter(self.pick(comparable)))
        clauses = [self.pick(options)()]
        clauses += [inner.clause(depth + 1) for _ in range(upto(self.draw, 2))]
        return Clause("negation", ("not", "{", *(token for clause in clauses for token in clause.tokens), "}"))

    def clause(self, depth: int = 0) -> Clause:
        options: list[Callable[[], Clause]] = [self.binding]
        if self.schema.edges:
            options += [self.traversal] * 2
        if self.nodes:
            options += [self.filter] * 2
            if depth < 3:
                options.append(lambda: self.negation(depth))
            if self.text_fields():
                options.append(lambda: Clause("text", self.text_predicate()))
        return self.pick(options)()


_KINDS: tuple[ValueKind, ...] = ("String", "Bool", "number", "Date", "DateTime")
_whole_numbers: SearchStrategy[int | float] = st.integers(0, 20) | st.integers(0, 2**63 - 1)
_broken_numbers: SearchStrategy[int | float] = st.floats(0, 1e12, allow_nan=False)
ANY_STYLE = Style(tricky_text, _whole_numbers, _broken_numbers, dates, datetimes)


def _access(variable: str, prop: Prop) -> Tokens:
    return (f"${variable}", ".", prop.name)


def _separated(parts: Iterable[Tokens]) -> Tokens:
    tokens: list[str] = []
    for part in parts:
        tokens += [",", *part] if tokens else part
    return tuple(tokens)


def _number_type(token: str) -> str:
    return "F64" if "." in token else "I64"


def _can_match(type_: PropType) -> bool:
    return not type_.is_blob and (not type_.is_vector or (type_.dimension or 0) <= _MAX_VECTOR)


# Reads -----------------------------------------------------------------------------------------------------------


@dataclass
class _Returns:
    """Draws what a read returns and how it is sorted."""

    build: _Builder
    items: list[Item] = field(default_factory=list)

    def plain(self) -> None:
        for _ in range(upto(self.build.draw, 4, least=1)):
            self.add(self._plain_item())

    def grouped(self) -> None:
        for _ in range(upto(self.build.draw, 2)):
            self.add(self._grouping_item())
        for _ in range(upto(self.build.draw, 2, least=1)):
            self.add(self._aggregate())

    def add(self, item: Item) -> None:
        taken = {each.name for each in self.items}
        if item.default_name in taken or self.build.maybe():
            alias = self.build.draw(_aliases)
            while alias in taken:
                alias = f"{alias}_"
            item = replace(item, alias=alias)
        self.items.append(item)

    def _grouping_item(self) -> Item:
        build = self.build
        found = build.accesses(lambda prop: not prop.type.is_blob)
        options: list[Callable[[], Item]] = [lambda: self._access(*build.pick(found))] * 3 if found else []
        nodes = [name for name in build.nodes if name not in build.params]
        if nodes:
            options.append(lambda: self._node(build.pick(nodes)))
        params = [name for name, type_ in build.params.items() if not type_.is_blob]
        if params or not options:
            options.append(self._param)
        return replace(build.pick(options)(), grouping=True)

    def _access(self, name: str, prop: Prop) -> Item:
        sortable = not (prop.type.is_list or prop.type.is_vector)
        return Item(_access(name, prop), prop.type, f"{name}.{prop.name}", variable=name, sortable=sortable)

    def _node(self, name: str) -> Item:
        return Item((f"${name}",), _STRING, name, variable=name)

    def _param(self) -> Item:
        (token,) = self.build.param(lambda type_: not type_.is_blob, lambda: PropType("Date", True))
        type_ = self.build.params[token[1:]]
        sortable = not (type_.is_list or type_.is_vector)
        return Item((token,), type_, token[1:], variable=token[1:], sortable=sortable)

    def _plain_item(self) -> Item:
        build = self.build
        options: list[Callable[[], Item]] = [self._grouping_item] * 3 + [self._literal, self._list]
        options.append(lambda: Item(("now", "(", ")"), _DATETIME, "now"))
        if build.text_fields():
            options.append(self._predicate)
        options += [lambda: self._ranking(build.pick(build.ranks()))] if build.ranks() else []
        aliased = [item for item in self.items if item.alias is not None]
        if aliased:
            options.append(lambda: self._reference(build.pick(aliased)))
        return replace(build.pick(options)(), grouping=False)

    def _literal(self) -> Item:
        kind = self.build.pick(_KINDS)
        tokens = self.build.literal(kind)
        return Item(tokens, PropType(_number_type(tokens[0]) if kind == "number" else kind), "literal")

    def _list(self) -> Item:
        kind = self.build.pick(_KINDS)
        size = upto(self.build.draw, 2)
        tokens = self.build.list_literal(kind, size)
        scalar = "String" if size == 0 else _number_type(tokens[1]) if kind == "number" else kind
        return Item(tokens, PropType(scalar, is_list=True), "literal", sortable=False)

    def _predicate(self) -> Item:
        tokens = self.build.text_predicate()
        return Item(tokens, _BOOL, tokens[0])

    def _ranking(self, rank: Rank) -> Item:
        tokens = self.build.ranking(rank)
        return Item(tokens, _F64.as_nullable() if rank == "nearest" else _F64, rank, rank=rank)

    def _reference(self, item: Item) -> Item:
        name = item.name
        return Item((name,), item.type, name, sortable=item.sortable, rank=item.rank)

    def _aggregate(self) -> Item:
        build = self.build
        function = build.pick(["count", "count", "sum", "avg", "min", "max"])
        numeric = function in ("sum", "avg")
        if function == "count":
            argument = build.pick([self._grouping_item, self._literal])()
        else:
            found = build.accesses(lambda prop: prop.type.is_numeric or (prop.type.is_string and not numeric))
            if found and build.maybe():
                argument = self._access(*build.pick(found))
            else:
                (token,) = build.param_of("number")
                argument = Item((token,), build.params[token[1:]], "")
        type_ = _I64 if function == "count" else _F64 if numeric else argument.type
        return Item((function, "(", *argument.tokens, ")"), type_.as_nullable(), function)

    def order(self, grouped: bool) -> tuple[tuple[Tokens, ...], Rank | None]:
        """Sort keys, and the ranking function that comes first, if any."""
        build = self.build
        keys: list[Tokens] = []
        rank: Rank | None = None
        ranks = [] if grouped else build.ranks()
        if ranks and build.maybe():
            chosen: Rank = build.pick(ranks)
            keys.append((*build.ranking(chosen), *(() if chosen == "nearest" else self._direction())))
            rank = chosen
        elif not grouped and build.maybe():
            fused = [item for item in self.items if item.rank in ("bm25", "rrf") and item.alias is not None]
            if fused:
                item = build.pick(fused)
                keys.append((item.name, *self._direction()))
                return (*keys, *self._keys(grouped, item.rank)), item.rank
        return (*keys, *self._keys(grouped, rank)), rank

    def _keys(self, grouped: bool, rank: Rank | None) -> list[Tokens]:
        """Sort keys that are no ranking functions."""
        build = self.build
        options: list[Tokens] = []
        if grouped:
            options += [item.tokens for item in self.items if item.grouping and item.sortable and len(item.tokens) == 3]
        else:
            options += [_access(*each) for each in build.accesses(lambda prop: kind_of(prop.type) is not None)]
        if rank != "nearest":
            options += [(item.alias,) for item in self.items if item.alias and item.sortable and item.rank is None]
        count = upto(build.draw, 2) if options else 0
        return [(*build.pick(options), *self._direction()) for _ in range(count)]

    def _direction(self) -> Tokens:
        return self.build.pick([(), ("asc",), ("desc",)])


_meta = st.tuples(st.sampled_from(["description", "instruction"]), texts)
_metas = st.lists(_meta, max_size=2, unique_by=lambda each: each[0])


@st.composite
def reads(draw: DrawFn, schema: Schema, style: Style = ANY_STYLE) -> QueryCase:
    build = _Builder(draw, schema, style)
    build.declare_some()
    first = build.traversal if schema.edges and build.maybe() else build.binding
    clauses = [first(), *(build.clause() for _ in range(upto(draw, style.clauses)))]
    returns = _Returns(build)
    grouped = pick(draw, (False, False, True))
    returns.grouped() if grouped else returns.plain()
    keys, rank = returns.order(grouped)
    limit = upto(draw, style.limit) if rank in ("nearest", "rrf") or build.maybe() else None
    return QueryCase(
        draw(_query_names),
        tuple(build.params.items()),
        tuple(draw(_metas)),
        tuple(clauses),
        tuple(returns.items),
        keys,
        limit,
        reads=frozenset(build.reads),
        variables=tuple(build.nodes.items()),
    )


# Writes ----------------------------------------------------------------------------------------------------------


@dataclass
class _Writes:
    """Draws the statements of a mutation."""

    build: _Builder
    reads: set[Table] = field(default_factory=set)
    writes: set[Table] = field(default_factory=set)

    def value(self, type_: PropType) -> Tokens:
        build = self.build
        if type_.is_blob:
            return build.param(
                lambda other: other.scalar in ("Blob", "String") and not other.is_list,
                lambda: PropType(build.pick(["Blob", "String"]), build.maybe()),
            )
        if type_.is_vector or type_.is_list:
            return self._collection(type_)
        kind = kind_of(type_)
        assert kind is not None
        if build.maybe():
            return build.param_of(kind)
        if type_.enum_values is not None:
            return (string_token(build.pick(type_.enum_values)),)
        if kind == "DateTime" and build.maybe():
            return ("now", "(", ")")
        return build.literal(kind)

    def _collection(self, type_: PropType) -> Tokens:
        build = self.build
        kind = "number" if type_.is_vector else kind_of(type_.item)
        assert kind is not None
        short = not type_.is_vector or (type_.dimension or 0) <= _MAX_VECTOR
        if short and build.maybe():
            return build.list_literal(kind, type_.dimension or upto(build.draw, 2, least=1))
        return build.param(
            lambda other: replace(other, nullable=type_.nullable) == type_, lambda: replace(type_, nullable=build.maybe())
        )

    def assignments(self, props: Iterable[Prop]) -> tuple[Tokens, ...]:
        return tuple((prop.name, ":", *self.value(prop.type)) for prop in props)

    def insert(self, owner: Owner) -> Statement | None:
        found = self.build.schema.properties(owner)
        chosen = [prop for prop in found.values() if _is_required(prop) or self.build.maybe()]
        names = {prop.name for prop in chosen}
        # A vector that is computed from a text may be left out when the text is given.
        chosen = [prop for prop in chosen if prop.embed is None or prop.embed[0] not in names or self.build.maybe()]
        ends = [Prop(name, _STRING) for name in ("from", "to")] if owner.kind == "edge" else []
        chosen = some(self.build.draw, [*chosen, *ends], 99, least=len(chosen) + len(ends))
        if not chosen:
            return None
        self._note(owner)
        if owner.kind == "edge":
            self.reads |= {("node", owner.source), ("node", owner.target)}
        return Statement(("insert", owner.name), self.assignments(chosen))

    def update(self, owner: Owner) -> Statement | None:
        found = self.build.schema.properties(owner)
        key = self.build.schema.key_of(owner)
        free = [prop for prop in found.values() if prop.name not in key]
        predicate = self.predicate(owner)
        if not free or not predicate:
            return None
        chosen = some(self.build.draw, free, 3, least=1)
        self._note(owner)
        return Statement(("update", owner.name, "set"), self.assignments(chosen), ("where", *predicate))

    def delete(self, owner: Owner) -> Statement | None:
        predicate = self.predicate(owner)
        if not predicate:
            return None
        self._note(owner)
        if owner.kind == "node":
            incident: set[Table] = {
                ("edge", edge.name) for edge in self.build.schema.edges if owner.name in (edge.source, edge.target)
            }
            self.reads |= incident
            self.writes |= incident
        return Statement(("delete", owner.name), tail=("where", *predicate))

    def predicate(self, owner: Owner) -> Tokens:
        found = [prop for prop in self.build.schema.properties(owner).values() if kind_of(prop.type) is not None]
        if owner.kind == "edge":
            found += [Prop("from", _STRING), Prop("to", _STRING)]
        if not found:
            return ()
        prop = self.build.pick(found)
        # A predicate compares, so any text will do for an enum.
        return (prop.name, self.build.pick(_COMPARISONS), *self.value(replace(prop.type, enum_values=None)))

    def _note(self, owner: Owner) -> None:
        assert owner.kind != "interface"
        self.reads.add((owner.kind, owner.name))
        self.writes.add((owner.kind, owner.name))


def _is_required(prop: Prop) -> bool:
    return not prop.type.nullable and prop.default is None


@st.composite
def mutations(draw: DrawFn, schema: Schema) -> QueryCase | None:
    """A mutation, or None where the drawn statements cannot be written against the schema."""
    build = _Builder(draw, schema, ANY_STYLE)
    build.declare_some()
    writes = _Writes(build)
    node_names = {node.name for node in schema.nodes}
    # Where a node and an edge type share a name, a mutation means the node type.
    edges = [edge for edge in schema.edges if edge.name not in node_names]
    destructive = coin(draw)
    statements: list[Statement] = []
    for _ in range(upto(draw, 3, least=1)):
        owner = build.pick([*schema.nodes, *edges])
        if destructive:
            statement = writes.delete(owner)
        else:
            statement = writes.update(owner) if owner.kind == "node" and build.maybe() else writes.insert(owner)
        if statement is not None:
            statements.append(statement)
    if not statements:
        return None
    return QueryCase(
        draw(_query_names),
        tuple(build.params.items()),
        tuple(draw(_metas)),
        statements=tuple(statements),
        reads=frozenset(writes.reads),
        writes=frozenset(writes.writes),
    )


@dataclass(frozen=True)
class FileCase:
    """A schema, queries against it, and one way of writing them down."""

    schema: Schema
    queries: tuple[QueryCase, ...]
    spelling: int
    layout: Layout

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text("…" if cycle else f"<schema {self.schema_text!r} with queries {self.text!r}>")

    @property
    def schema_text(self) -> str:
        return Layout().write(schema_tokens(self.schema))

    @property
    def text(self) -> str:
        return file_text(self.queries, self.spelling, self.layout)


@st.composite
def files(draw: DrawFn, *, most: int = 2, only_reads: bool = False) -> FileCase:
    schema = draw(schemas(min_nodes=1))
    queries: list[QueryCase] = []
    for _ in range(upto(draw, most, least=1)):
        wanted = reads(schema) if only_reads or pick(draw, (True, True, False)) else mutations(schema)
        query = draw(wanted)
        if query is not None:
            queries.append(query)
    return FileCase(schema, tuple(queries), draw(spellings), draw(layouts))
