"""Random changes to a schema, each with the migration steps it must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis.strategies import DrawFn

from omnigraph_compiler import Catalog, EdgeType, NodeType, PropType, compile_schema
from tests.property.layout import Layout
from tests.property.model import (
    LITERAL_WORDS,
    Columns,
    Kind,
    Note,
    Owner,
    Plain,
    Prop,
    Schema,
    rename_columns,
    schema_tokens,
)
from tests.property.strategies import coin, default_values, pick, prop_type, some, takes_default, upto

Step = dict[str, Any]
Entity = tuple[Kind, str]
"""A type, by the name it had before the edits."""
_KINDS: tuple[Kind, ...] = ("interface", "node", "edge")
_I32 = PropType("I32")


def compiled(schema: Schema) -> Catalog:
    return compile_schema(Layout().write(schema_tokens(schema)))


@dataclass(frozen=True)
class _Expected:
    """A step and where it belongs: among the steps of its type, or among the dropped types of its kind."""

    entity: Entity
    place: tuple[int, str, int]
    step: Step
    dropped: bool = False


@dataclass
class Editor:
    """Applies random edits to one schema. No two of them touch the same property or constraint."""

    draw: DrawFn
    schema: Schema
    steps: list[_Expected] = field(default_factory=list)
    names: dict[Entity, str] = field(default_factory=dict)
    """Types of the schema before the edits, as they are called now."""
    renamed: dict[Entity, dict[str, str]] = field(default_factory=dict)
    """Renamed properties, old name to new."""
    busy: set[tuple[Entity, str]] = field(default_factory=set)
    round: int = 0
    """Makes names and numbers that no earlier round of edits has used."""

    def __post_init__(self) -> None:
        self.before = compiled(self.schema)
        self.names = {(owner.kind, owner.name): owner.name for owner in self.schema.owners}

    # Bookkeeping

    def fresh(self) -> str:
        return f"new{self.number()}"

    def number(self) -> int:
        return 1000 * (self.round + 1) + len(self.steps)

    def owner(self, entity: Entity) -> Owner:
        return self.schema.get(entity[0], self.names[entity])

    def change(self, entity: Entity, edit: Callable[[Owner], Owner]) -> None:
        self.schema = self.schema.change(entity[0], self.names[entity], edit)

    def change_prop(self, entity: Entity, name: str, edit: Callable[[Prop], Prop]) -> None:
        self.change(
            entity,
            lambda owner: replace(owner, props=tuple(edit(prop) if prop.name == name else prop for prop in owner.props)),
        )

    def expect(self, entity: Entity, place: tuple[int, str, int], **step: Any) -> None:
        self.steps.append(_Expected(entity, place, {"type_kind": entity[0], **step}))

    def claim(self, entity: Entity, what: str) -> bool:
        """Take a part of a type for one edit; False when another edit has it."""
        if (entity, what) in self.busy or (entity, "*") in self.busy:
            return False
        self.busy.add((entity, what))
        return True

    def own_props(self, entity: Entity, fits: Callable[[Prop], bool]) -> list[Prop]:
        """Properties that are the type's alone and that no other edit has touched."""
        owner = self.owner(entity)
        shared = {prop.name for name in owner.interfaces for prop in self.schema.get("interface", name).props}
        free = (prop for prop in owner.props if prop.name not in shared and (entity, prop.name) not in self.busy)
        return [prop for prop in free if fits(prop)]

    def expected(self) -> list[Step]:
        """The steps in the order of the plan: kinds, types by their new names, then the dropped types."""

        def order(each: _Expected) -> tuple[Any, ...]:
            name = each.entity[1] if each.dropped else self.names[each.entity]
            return (_KINDS.index(each.entity[0]), each.dropped, name, *each.place)

        steps = []
        for each in sorted(self.steps, key=order):
            step = dict(each.step)
            if "type_name" in step:
                step["type_name"] = self.names[each.entity]
            elif step["kind"] == "update_type_metadata":
                step["name"] = self.names[each.entity]
            steps.append(step)
        return steps

    # Edits

    def edit(self) -> None:
        """One random edit; it may find nothing to do."""
        entity = pick(self.draw, [*self.names]) if self.names else None
        if entity is None or entity[0] == "interface" or (entity, "*") in self.busy:
            self.add_type()
            return
        edits: list[Callable[[Entity], None]] = [
            self.add_property,
            self.drop_property,
            self.rename_property,
            self.extend_enum,
            self.describe_property,
            self.change_default,
            self.add_columns,
            self.add_check,
            self.describe_type,
            self.change_card,
            self.rename_type,
            self.drop_type,
        ]
        pick(self.draw, edits)(entity)

    def add_type(self) -> None:
        kind = pick(self.draw, _KINDS)
        if kind == "edge" and not self.schema.nodes:
            return
        name = self.fresh().capitalize()
        props = tuple(Prop(f"p{number}", prop_type(self.draw)) for number in range(upto(self.draw, 2)))
        owner = Owner(kind, name, props)
        if kind == "edge":
            owner = replace(
                owner, source=pick(self.draw, self.schema.nodes).name, target=pick(self.draw, self.schema.nodes).name
            )
            self.busy |= {((end, name), "*") for end in ("node",) for name in (owner.source, owner.target)}
        self.schema = Schema((*self.schema.owners, owner))
        self.names[kind, name] = name
        self.busy.add(((kind, name), "*"))
        self.steps.append(_Expected((kind, name), (0, "", 0), {"kind": "add_type", "type_kind": kind, "name": name}))

    def add_property(self, entity: Entity) -> None:
        name = self.fresh()
        required = coin(self.draw)
        type_ = prop_type(self.draw, nullable=not required)
        default: Plain | None = None
        if required:
            if not takes_default(type_):
                return
            default = self.draw(default_values(type_))
        self.change(entity, lambda owner: replace(owner, props=(*owner.props, Prop(name, type_, default=default))))
        self.claim(entity, name)
        more = {} if default is None else {"default": default}
        self.expect(
            entity,
            (3, name, 0),
            kind="add_property",
            type_name="",
            property_name=name,
            property_type=type_.display,
            **more,
        )

    def drop_property(self, entity: Entity) -> None:
        owner = self.owner(entity)
        used = {name for columns in (owner.key or (), *owner.unique, *owner.index) for name in columns}
        used |= {name for name, _, _ in owner.ranges} | {name for name, _ in owner.checks}
        used |= {prop.embed[0] for prop in owner.props if prop.embed is not None}
        found = self.own_props(entity, lambda prop: prop.name not in used)
        if not found:
            return
        name = pick(self.draw, found).name
        self.claim(entity, name)
        self.change(entity, lambda each: replace(each, props=tuple(prop for prop in each.props if prop.name != name)))
        self.expect(entity, (4, name, 0), kind="drop_property", type_name="", property_name=name, mode="soft")

    def rename_property(self, entity: Entity) -> None:
        found = self.own_props(entity, lambda _: True)
        if not found:
            return
        old, new = pick(self.draw, found).name, self.fresh()
        self.claim(entity, old)
        self.claim(entity, new)
        self.change(entity, lambda owner: rename_columns(owner, old, new))
        self.change_prop(entity, new, lambda prop: replace(prop, rename_from=old))
        self.renamed.setdefault(entity, {})[old] = new
        self.expect(entity, (3, new, 0), kind="rename_property", type_name="", **{"from": old, "to": new})
        values = self.owner(entity).prop(new).type.enum_values
        if values is not None and coin(self.draw):
            self._extend(entity, new, values)

    def extend_enum(self, entity: Entity) -> None:
        found = self.own_props(entity, lambda prop: prop.type.enum_values is not None)
        if found:
            prop = pick(self.draw, found)
            self.claim(entity, prop.name)
            self._extend(entity, prop.name, prop.type.enum_values or ())

    def _extend(self, entity: Entity, name: str, values: tuple[str, ...]) -> None:
        added = some(self.draw, ("0new", "Zed", "more-of-it"), 3, least=1)
        wider = tuple(sorted({*values, *added}))
        self.change_prop(entity, name, lambda prop: replace(prop, type=replace(prop.type, enum_values=wider)))
        more = sorted(set(wider) - set(values))
        if more:
            self.expect(entity, (3, name, 1), kind="extend_enum", type_name="", property_name=name, added_values=more)

    def describe_property(self, entity: Entity) -> None:
        found = self.own_props(entity, lambda _: True)
        if not found:
            return
        prop = pick(self.draw, found)
        text = None if prop.description is not None and coin(self.draw) else f"about {self.fresh()}"
        self.claim(entity, prop.name)
        self.change_prop(entity, prop.name, lambda each: replace(each, description=text))
        self._metadata(entity, prop.name, {"description": text})

    def change_default(self, entity: Entity) -> None:
        key = self.schema.key_of(self.owner(entity)) if entity[0] == "node" else ()
        found = self.own_props(entity, lambda prop: takes_default(prop.type) and prop.name not in key)
        if not found:
            return
        prop = pick(self.draw, found)
        value = None if prop.default is not None and coin(self.draw) else self.draw(default_values(prop.type))
        self.claim(entity, prop.name)
        self.change_prop(entity, prop.name, lambda each: replace(each, default=value))
        if value != prop.default:
            self._metadata(entity, prop.name, {"default": value})

    def _metadata(self, entity: Entity, name: str, changed: dict[str, Any]) -> None:
        kind = "update_property_metadata"
        self.expect(entity, (3, name, 2), kind=kind, type_name="", property_name=name, annotations=changed)

    def describe_type(self, entity: Entity) -> None:
        word = pick(self.draw, ("description", "instruction"))
        if not self.claim(entity, f"@{word}") or not self.claim(entity, "@"):
            return
        owner = self.owner(entity)
        text = None if getattr(owner, word) is not None and coin(self.draw) else f"on {self.fresh()}"
        changed: dict[str, Any] = {word: text}
        self.change(entity, lambda each: replace(each, **changed))
        self.expect(entity, (2, "", 0), kind="update_type_metadata", name="", annotations=changed)

    def add_columns(self, entity: Entity) -> None:
        """Another `@unique` or `@index`."""
        kind = pick(self.draw, ("unique", "index"))
        before = self._type_before(entity)
        names = [
            name
            for name, prop in self.schema.properties(self.owner(entity)).items()
            if takes_default(prop.type) and name not in LITERAL_WORDS and (entity, name) not in self.busy
        ]
        if entity[0] == "edge":
            names += ["src", "dst"]
        columns: Columns = tuple(sorted(some(self.draw, names, 2))) if names else ()
        if not columns or before is None or not self.claim(entity, f"@{kind}{columns}"):
            return
        present = set(before.unique if kind == "unique" else before.index)
        if columns in present or columns == tuple(sorted(getattr(before, "key", None) or ())):
            return
        for name in columns:
            self.busy.add((entity, name))
        added: dict[str, Any] = {kind: (*getattr(self.owner(entity), kind), columns)}
        self.change(entity, lambda owner: replace(owner, **added))
        self._constraint(entity, f"@{kind}({', '.join(columns)})", kind == "unique")

    def _type_before(self, entity: Entity) -> NodeType | EdgeType | None:
        return self.before.nodes.get(entity[1]) if entity[0] == "node" else self.before.edges.get(entity[1])

    def add_check(self, entity: Entity) -> None:
        """Another `@range` or `@check`."""
        properties = self.schema.properties(self.owner(entity)).values()
        fitting = [
            prop
            for prop in properties
            if (prop.type.is_numeric or (prop.type.is_string and prop.type.enum_values is None))
            and prop.name not in LITERAL_WORDS
            and (entity, prop.name) not in self.busy
        ]
        if entity[0] != "node" or not fitting:
            return
        prop = pick(self.draw, fitting)
        self.claim(entity, prop.name)
        if prop.type.is_numeric:
            low = -self.number() - 0.5
            self.change(entity, lambda owner: replace(owner, ranges=(*owner.ranges, (prop.name, low, None))))
            self._constraint(entity, f"@range({prop.name}, {low}..)", True)
        else:
            check = (prop.name, f'"\\d{self.number()}')
            self.change(entity, lambda owner: replace(owner, checks=(*owner.checks, check)))
            self._constraint(entity, f'@check({prop.name}, "\\"\\\\d{self.number()}")', True)

    def change_card(self, entity: Entity) -> None:
        if entity[0] == "edge" and self.claim(entity, "@card"):
            low, high = upto(self.draw, 2), self.number()
            self.change(entity, lambda owner: replace(owner, card=(low, high)))
            self._constraint(entity, f"@card({low}..{high})", True)

    def _constraint(self, entity: Entity, text: str, validates: bool) -> None:
        self.expect(entity, (5, text, 0), kind="add_constraint", type_name="", constraint=text, validates=validates)

    def rename_type(self, entity: Entity) -> None:
        if not self.claim(entity, "name"):
            return
        kind, old = entity
        new = self.fresh().capitalize()
        self.change(entity, lambda owner: replace(owner, name=new, rename_from=old))
        self.names[entity] = new
        if kind == "node":
            self.schema = Schema(tuple(_with_end(owner, old, new) for owner in self.schema.owners))
        step = {"kind": "rename_type", "type_kind": kind, "from": old, "to": new}
        self.steps.append(_Expected(entity, (0, "", 0), step))

    def drop_type(self, entity: Entity) -> None:
        """Drop a type that nothing else needs and that no other edit has touched."""
        touched = any(each == entity for each, _ in self.busy)
        ends = {end for edge in self.schema.edges for end in (edge.source, edge.target)}
        if touched or (entity[0] == "node" and entity[1] in ends) or not self.claim(entity, "*"):
            return
        kind, name = entity
        self.schema = Schema(tuple(owner for owner in self.schema.owners if (owner.kind, owner.name) != entity))
        del self.names[entity]
        step = {"kind": "drop_type", "type_kind": kind, "name": name, "mode": "soft"}
        self.steps.append(_Expected(entity, (0, "", 0), step, dropped=True))


def _with_end(owner: Owner, old: str, new: str) -> Owner:
    if owner.kind != "edge":
        return owner
    ends = {old: new}
    return replace(owner, source=ends.get(owner.source, owner.source), target=ends.get(owner.target, owner.target))


# Refusals --------------------------------------------------------------------------------------------------------


def refusals(schema: Schema) -> list[tuple[Schema, str, str | None]]:
    """Changes that a plan must refuse: the changed schema, what is refused, and the code."""
    found: list[tuple[Schema, str, str | None]] = []
    for owner in schema.owners:
        if owner.kind != "interface":
            found += _refused_changes(schema, owner)
    unused = [each for each in schema.interfaces if not any(each.name in node.interfaces for node in schema.nodes)]
    for interface in unused:
        found.append(
            (Schema(tuple(each for each in schema.owners if each != interface)), f"interface:{interface.name}", None)
        )
    return found


def _refused_changes(schema: Schema, owner: Owner) -> list[tuple[Schema, str, str | None]]:
    entity = f"{owner.kind}:{owner.name}"
    found: list[tuple[Schema, str, str | None]] = []

    def refuse(changed: Owner, where: str = entity, code: str | None = None) -> None:
        found.append((schema.change(owner.kind, owner.name, lambda _: changed), where, code))

    required = Prop("required", replace(_I32, nullable=False))
    refuse(replace(owner, props=(*owner.props, required)), f"{entity}.required", "OG-MF-103")
    refuse(replace(owner, notes=(*owner.notes, Note("changed"))))
    # What an interface brings would still be there.
    for columns in owner.unique if not owner.interfaces else ():
        refuse(replace(owner, unique=tuple(each for each in owner.unique if each != columns)))
    for constraint in owner.ranges:
        refuse(replace(owner, ranges=tuple(each for each in owner.ranges if each != constraint)))
    if owner.kind == "edge" and owner.card not in (None, (0, None)):
        refuse(replace(owner, card=None))
    if owner.kind == "edge":
        for node in schema.nodes:
            if node.name != owner.target:
                refuse(replace(owner, target=node.name))
    for prop in owner.props:
        for changed, code in _refused_props(schema, owner, prop):
            props = tuple(changed if each == prop else each for each in owner.props)
            refuse(replace(owner, props=props), f"{entity}.{prop.name}", code)
    return found


def _refused_props(schema: Schema, owner: Owner, prop: Prop) -> list[tuple[Prop, str | None]]:
    changes: list[tuple[Prop, str | None]] = [(replace(prop, notes=(*prop.notes, Note("changed"))), None)]
    shared = {each.name for name in owner.interfaces for each in schema.get("interface", name).props}
    used = {name for columns in (owner.key or (), *owner.unique, *owner.index) for name in columns}
    used |= {name for name, _, _ in owner.ranges} | {name for name, _ in owner.checks}
    used |= {each.embed[0] for each in owner.props if each.embed is not None}
    if prop.name not in shared | used:
        nullable = replace(prop.type, nullable=not prop.type.nullable)
        changes.append((replace(prop, type=nullable), "OG-MF-106"))
        other = replace(_I32 if prop.type.scalar != "I32" else replace(_I32, scalar="I64"), nullable=prop.type.nullable)
        changes.append((Prop(prop.name, other, description=prop.description, notes=prop.notes), "OG-MF-106"))
        values = prop.type.enum_values or ()
        if len(values) > 1 and prop.default != values[0]:
            changes.append((replace(prop, type=replace(prop.type, enum_values=values[1:])), "OG-MF-106"))
    if prop.type.is_vector:
        changes.append((replace(prop, metric="dot" if prop.metric != "dot" else "l2"), None))
    return changes
