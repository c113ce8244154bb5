"""From syntax tree to catalog, with the checks of single declarations and of the schema as a whole.

Violations inside one declaration are parse errors and are raised first. Conflicts between declarations are catalog errors:
they are collected, and the first in source order is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph_compiler.arguments import checked
from omnigraph_compiler.diagnostics import CompileError, Diagnostic, Reporter, did_you_mean, listing
from omnigraph_compiler.schema import ast
from omnigraph_compiler.schema.annotations import Decorations, check_header, check_property
from omnigraph_compiler.schema.catalog import (
    Cardinality,
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    RangeConstraint,
    by_name,
)
from omnigraph_compiler.schema.constraints import CONSTRAINTS, ConstraintSet
from omnigraph_compiler.schema.parse import parse_schema
from omnigraph_compiler.source import SourceText
from omnigraph_compiler.types import FLOATS, INTEGERS, PropType

_T = TypeVar("_T", InterfaceType, NodeType, EdgeType)

RESERVED = (
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
    "_distance",
    "_score",
    "_tombstone",
    "id",
)
RESERVED_ON_EDGES = ("src", "dst", "from", "to")


@checked(text=str)
def compile_schema(text: str) -> Catalog:
    """Compile a `.pg` schema. Raises `CompileError` with class `parse` or `catalog`.

    >>> catalog = compile_schema("node Port { code: String @key } edge Lane: Port -> Port")
    >>> list(catalog.nodes), catalog.nodes["Port"].key, catalog.edges["Lane"].target
    (['Port'], ('code',), 'Port')
    """
    return _Build(Reporter(SourceText(text))).run(parse_schema(text))


@dataclass(frozen=True, slots=True)
class _Member:
    """A property with the decorations written after it."""

    prop: ast.Property
    decorations: Decorations


@dataclass(slots=True)
class _Build:
    report: Reporter
    deferred: list[tuple[ast.At, Diagnostic]] = field(default_factory=list)

    def run(self, schema: ast.Schema) -> Catalog:
        declared_interfaces = [declared for declared in schema.declarations if isinstance(declared, ast.Interface)]
        interfaces: dict[str, InterfaceType] = {}
        for interface in declared_interfaces:
            interfaces.setdefault(interface.name.text, self._interface(interface))
        nodes: dict[str, NodeType] = {}
        edges: dict[str, EdgeType] = {}
        for declaration in schema.declarations:
            if isinstance(declaration, ast.Node):
                nodes.setdefault(declaration.name.text, self._node(declaration, interfaces))
            elif isinstance(declaration, ast.Edge):
                edges.setdefault(declaration.name.text, self._edge(declaration))
        self._check_names(schema)
        self._check_endpoints(schema, nodes)
        if self.deferred:
            raise CompileError(min(self.deferred, key=lambda entry: entry[0])[1])
        return assign_identities(Catalog(by_name(interfaces.values()), by_name(nodes.values()), by_name(edges.values())))

    def _defer(self, text: str, at: ast.At, help: str | None = None) -> None:
        self.deferred.append((at, self.report.diagnostic("catalog", text, at, help=help)))

    # Declarations

    def _interface(self, declaration: ast.Interface) -> InterfaceType:
        name = declaration.name.text
        members, constraints = self._members("interface", name, declaration.body)
        for constraint in constraints:
            self.report.fail(
                "parse",
                f"interfaces hold properties only, found @{constraint.name}(...) in interface `{name}`",
                constraint.span,
                help=f"mark a property instead: `name: String @{constraint.name}`",
            )
        properties = self._properties(name, members)
        constraint_set = ConstraintSet(self.report, "interface", name, _types(properties))
        _apply_marks(constraint_set, members)
        self._check_embeds(members, properties)
        self._check_defaults(members, constraint_set.key)
        return InterfaceType(
            name,
            properties,
            key=constraint_set.key,
            unique=constraint_set.sorted_unique(),
            index=tuple(sorted(constraint_set.index)),
        )

    def _node(self, declaration: ast.Node, interfaces: Mapping[str, InterfaceType]) -> NodeType:
        name = declaration.name.text
        header = check_header(self.report, "node", name, declaration.decorations)
        members, constraints = self._members("node", name, declaration.body)
        own = self._properties(name, members)
        injected, marks = self._inject(declaration, own, interfaces)
        properties = by_name([*own.values(), *injected.values()])
        constraint_set = ConstraintSet(self.report, "node", name, _types(properties))
        _apply_marks(constraint_set, members)
        for kind, column, at in marks:
            constraint_set.add_mark(kind, column, at)
        for constraint in constraints:
            constraint_set.add_body(constraint)
        self._check_embeds(members, properties)
        self._check_defaults(members, constraint_set.key)
        self._check_injected_defaults(declaration, injected, constraint_set)
        return NodeType(
            name,
            properties,
            unique=constraint_set.sorted_unique(),
            index=constraint_set.sorted_index(),
            annotations=header.annotations,
            rename_from=header.rename_from,
            interfaces=tuple(sorted(interface.text for interface in declaration.implements)),
            key=constraint_set.key,
            ranges=tuple(_plain_range(range_) for range_ in constraint_set.sorted_ranges()),
            checks=constraint_set.sorted_checks(),
        )

    def _edge(self, declaration: ast.Edge) -> EdgeType:
        name = declaration.name.text
        decorations, cardinality = self._cardinality(declaration)
        header = check_header(self.report, "edge", name, decorations)
        body = declaration.body or ast.Body((), declaration.name.span)
        members, constraints = self._members("edge", name, body)
        properties = self._properties(name, members)
        constraint_set = ConstraintSet(self.report, "edge", name, _types(properties))
        _apply_marks(constraint_set, members)
        for constraint in constraints:
            constraint_set.add_body(constraint)
        return EdgeType(
            name,
            properties,
            unique=constraint_set.sorted_unique(),
            index=constraint_set.sorted_index(),
            annotations=header.annotations,
            rename_from=header.rename_from,
            source=declaration.source.text,
            target=declaration.target.text,
            cardinality=cardinality,
        )

    def _cardinality(self, declaration: ast.Edge) -> tuple[tuple[ast.Decoration, ...], Cardinality]:
        rest = declaration.decorations
        if not rest or rest[0].name != "card":
            first = next((decoration for decoration in rest if decoration.name == "card"), None)
            if first is not None:
                self.report.fail("parse", "@card stands directly after the endpoints, before other annotations", first.span)
            return rest, Cardinality()
        card, *others = rest
        for other in others:
            if other.name == "card":
                self.report.fail("parse", f"@card is given multiple times on edge `{declaration.name.text}`", other.span)
        bounds = card.arguments[0] if card.arguments and len(card.arguments) == 1 else None
        low = bounds.low if isinstance(bounds, ast.Range) else None
        high = bounds.high if isinstance(bounds, ast.Range) else None
        if low is None or not _is_count(low) or not (high is None or _is_count(high)):
            self.report.fail(
                "parse", "@card takes a range of whole numbers", card.span, help="write @card(0..1) or @card(1..)"
            )
        least, most = int(low.value), None if high is None else int(high.value)
        if most is not None and least > most:
            self.report.fail("parse", f"the minimum {least} of @card is above its maximum {most}", card.span)
        return tuple(others), Cardinality(least, most)

    # Members

    def _members(self, owner: str, name: str, body: ast.Body) -> tuple[list[_Member], list[ast.Decoration]]:
        properties: list[tuple[ast.Property, list[ast.Decoration]]] = []
        constraints: list[ast.Decoration] = []
        open_property = False
        for member in body.members:
            if isinstance(member, ast.Property):
                self._check_reserved(owner, member)
                properties.append((member, []))
                open_property = True
            elif member.name in CONSTRAINTS and member.arguments is not None:
                constraints.append(member)
                open_property = False
            elif member.name in ("range", "check"):
                self.report.fail("parse", f"@{member.name} takes two arguments, the first a property name", member.span)
            elif open_property:
                properties[-1][1].append(member)
            else:
                self.report.fail(
                    "parse",
                    f"@{member.name} does not follow a property",
                    member.span,
                    help=f"annotations of `{name}` itself stand before its `{{`, those of a property right after its type",
                )
        members = [
            _Member(prop, check_property(self.report, owner, prop, tuple(decorations))) for prop, decorations in properties
        ]
        return members, constraints

    def _check_reserved(self, owner: str, prop: ast.Property) -> None:
        name = prop.name.text
        if name in RESERVED or (owner == "edge" and name in RESERVED_ON_EDGES):
            self.report.fail("parse", f"the property name `{name}` is reserved", prop.name.span, help="choose another name")

    def _properties(self, owner: str, members: Iterable[_Member]) -> Mapping[str, Property]:
        properties: dict[str, Property] = {}
        for member in members:
            name = member.prop.name.text
            if name in properties:
                self._defer(f"duplicate property `{name}` in `{owner}`", member.prop.name.span)
                continue
            type_, decorations = member.prop.type.type, member.decorations
            properties[name] = Property(
                name,
                type_,
                embed=decorations.embed[0] if decorations.embed else None,
                metric=decorations.metric,
                default=_plain_default(decorations.default[0], type_) if decorations.default else None,
                annotations=decorations.annotations,
                rename_from=decorations.rename_from,
            )
        return by_name(properties.values())

    def _inject(
        self, declaration: ast.Node, own: Mapping[str, Property], interfaces: Mapping[str, InterfaceType]
    ) -> tuple[dict[str, Property], list[tuple[str, str, ast.At]]]:
        """Return the properties that a node inherits from its interfaces, and their constraints as marks."""
        injected: dict[str, Property] = {}
        origin: dict[str, tuple[InterfaceType, frozenset[str]]] = {}
        marks: list[tuple[str, str, ast.At]] = []
        seen: set[str] = set()
        for word in declaration.implements:
            interface = interfaces.get(word.text)
            if interface is None:
                self.report.fail(
                    "parse", f"unknown interface `{word.text}`", word.span, help=did_you_mean(word.text, interfaces)
                )
            if word.text in seen:
                self.report.fail("parse", f"`{declaration.name.text}` implements `{word.text}` more than once", word.span)
            seen.add(word.text)
            for name, prop in interface.properties.items():
                kinds = _marks_of(interface, name)
                if name in own:
                    self._check_same_type(declaration, own[name], prop, interface)
                elif name in injected:
                    other, other_kinds = origin[name]
                    if replace(injected[name], identity=0) != prop or kinds != other_kinds:
                        self._defer(
                            f"node `{declaration.name.text}` gets incompatible definitions of `{name}` from "
                            f"{listing((other.name, interface.name))}",
                            word.span,
                            f"declare `{name}` in `{declaration.name.text}` itself, or make the interfaces agree",
                        )
                else:
                    injected[name] = prop
                    origin[name] = (interface, kinds)
                    marks.extend((kind, name, word.span) for kind in sorted(kinds))
        return injected, marks

    def _check_same_type(self, declaration: ast.Node, own: Property, prop: Property, interface: InterfaceType) -> None:
        if own.type == prop.type:
            return
        at = next(
            member.type.span
            for member in declaration.body.members
            if isinstance(member, ast.Property) and member.name.text == own.name
        )
        self.report.fail(
            "parse",
            f"property `{own.name}` of node `{declaration.name.text}` is {own.type}, "
            f"but interface `{interface.name}` declares it {prop.type}",
            at,
            help=f"use the interface's type or leave the property out; `{interface.name}` then supplies it",
        )

    def _check_embeds(self, members: Iterable[_Member], properties: Mapping[str, Property]) -> None:
        for member in members:
            if member.decorations.embed is None:
                continue
            embed, at = member.decorations.embed
            source = properties.get(embed.source)
            if source is None:
                text = f"@embed on `{member.prop.name.text}` names the unknown source property `{embed.source}`"
                self.report.fail("parse", text, at, help=did_you_mean(embed.source, properties))
            if not source.type.is_string or source.type.enum_values is not None:
                self.report.fail(
                    "parse", f"the source `{embed.source}` of @embed must be String, it is {source.type.display}", at
                )

    def _check_defaults(self, members: Iterable[_Member], key: tuple[str, ...] | None) -> None:
        for member in members:
            if member.decorations.default is not None and member.prop.name.text in (key or ()):
                text = f"`{member.prop.name.text}` is part of the @key and takes no @default"
                self.report.fail("parse", text, member.decorations.default[1])

    def _check_injected_defaults(
        self, declaration: ast.Node, injected: Mapping[str, Property], constraint_set: ConstraintSet
    ) -> None:
        for name in constraint_set.key or ():
            if name in injected and injected[name].default is not None:
                text = f"`{name}` is part of the @key of `{declaration.name.text}` and takes no @default"
                self.report.fail("parse", text, declaration.name.span)

    # The schema as a whole

    def _check_names(self, schema: ast.Schema) -> None:
        seen: dict[tuple[type, str], None] = {}
        folded: dict[str, str] = {}
        words = {ast.Interface: "interface", ast.Node: "node", ast.Edge: "edge"}
        for declaration in schema.declarations:
            kind, name = type(declaration), declaration.name.text
            if (kind, name) in seen:
                self._defer(f"duplicate {words[kind]} type `{name}`", declaration.name.span)
                continue
            seen[kind, name] = None
            if kind is ast.Edge and folded.setdefault(name.lower(), name) != name:
                other = folded[name.lower()]
                self._defer(
                    f"the edge types `{other}` and `{name}` are the same after case folding",
                    declaration.name.span,
                    "queries name edges ignoring case; rename one of them",
                )

    def _check_endpoints(self, schema: ast.Schema, nodes: Mapping[str, NodeType]) -> None:
        for declaration in schema.declarations:
            if not isinstance(declaration, ast.Edge):
                continue
            for endpoint in (declaration.source, declaration.target):
                if endpoint.text not in nodes:
                    text = f"edge `{declaration.name.text}` refers to `{endpoint.text}`, which is not a node type"
                    self._defer(text, endpoint.span, did_you_mean(endpoint.text, nodes))


def assign_identities(catalog: Catalog) -> Catalog:
    """Number the types and properties of a new schema, in an order that does not depend on the source."""
    counter = iter(range(catalog.next_identity, 2**62))

    def number(types: Mapping[str, _T]) -> Mapping[str, _T]:
        numbered = {}
        for name in sorted(types):
            identity = next(counter)
            numbers = {prop: next(counter) for prop in sorted(types[name].properties)}
            properties = by_name(replace(prop, identity=numbers[prop.name]) for prop in types[name].properties.values())
            numbered[name] = replace(types[name], identity=identity, properties=properties)
        return by_name(numbered[name] for name in types)

    interfaces, nodes, edges = number(catalog.interfaces), number(catalog.nodes), number(catalog.edges)
    return Catalog(interfaces, nodes, edges, next(counter))


def _apply_marks(constraint_set: ConstraintSet, members: Iterable[_Member]) -> None:
    for member in members:
        for kind, at in member.decorations.marks:
            constraint_set.add_mark(kind, member.prop.name.text, at)


def _types(properties: Mapping[str, Property]) -> dict[str, PropType]:
    return {name: prop.type for name, prop in properties.items()}


def _marks_of(interface: InterfaceType, name: str) -> frozenset[str]:
    kinds = {"key"} if interface.key == (name,) else set()
    kinds |= {"unique"} if (name,) in interface.unique else set()
    return frozenset(kinds | ({"index"} if (name,) in interface.index else set()))


def _is_count(literal: ast.Literal) -> bool:
    return isinstance(literal.value, int) and not isinstance(literal.value, bool) and literal.value >= 0


def _plain_range(constraint: RangeConstraint) -> RangeConstraint:
    return RangeConstraint(constraint.property, _plain_number(constraint.low), _plain_number(constraint.high))


def _plain_number(value: int | float | None) -> int | float | None:
    """Return a whole float as an integer, so that `5.0` and `5` are the same bound."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _plain_default(value: ast.LiteralValue, type_: PropType) -> ast.LiteralValue:
    if type_.scalar in INTEGERS:
        return int(value)
    return float(value) if type_.scalar in FLOATS else value
