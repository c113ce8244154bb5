"""Migration planning: the steps from an accepted schema to a desired one.

Types and properties are matched by identity. A declaration takes the identity of the accepted one of the same name, or of
the one that its `@rename_from` names; anything else is new. The plan contains the desired catalog with these identities,
with old columns first and key members in their fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from omnigraph_compiler.arguments import checked
from omnigraph_compiler.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    CheckConstraint,
    Columns,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    RangeConstraint,
    constraint_display,
)
from omnigraph_compiler.schema.resolve import Resolution, resolve
from omnigraph_compiler.schema.steps import (
    ADD_REQUIRED,
    TYPE_CHANGE,
    AddConstraint,
    AddProperty,
    AddType,
    DropProperty,
    DropType,
    ExtendEnum,
    Metadata,
    RenameProperty,
    RenameType,
    Step,
    TypeKind,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    is_metadata_only,
    step_dict,
    step_line,
)

AnyType: TypeAlias = InterfaceType | NodeType | EdgeType
_NOTES = ("description", "instruction")


@dataclass(frozen=True)
class MigrationPlan:
    """The steps from one schema to another. Make one with `plan_migration`."""

    steps: tuple[Step, ...]
    catalog: Catalog
    """The desired catalog with the identities of the accepted one."""

    @property
    def supported(self) -> bool:
        return not any(isinstance(step, UnsupportedChange) for step in self.steps)

    @property
    def metadata_only(self) -> bool:
        """True if no step changes a table, so that other branches do not block the plan."""
        return all(is_metadata_only(step) for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        return {"supported": self.supported, "steps": [step_dict(step) for step in self.steps]}

    def render(self) -> str:
        """Return the plan as text: one line per step with its code, then a verdict."""
        if not self.steps:
            return "nothing to do: the schemas mean the same"
        refused = sum(isinstance(step, UnsupportedChange) for step in self.steps)
        count = f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        if refused:
            verdict = f"{count}, {refused} not supported: this migration cannot be applied"
        else:
            verdict = f"{count}, metadata only: no table is touched" if self.metadata_only else f"{count}, supported"
        return "\n".join([*(step_line(step) for step in self.steps), "", verdict])


@checked(old=Catalog, new=Catalog)
def plan_migration(old: Catalog, new: Catalog) -> MigrationPlan:
    """Plan the migration between two catalogs. A bad `@rename_from` raises `CompileError` of class `catalog`.

    >>> from omnigraph_compiler import compile_schema
    >>> old = compile_schema("node Port { code: String @key }")
    >>> new = compile_schema("node Port { code: String @key  depth: F64? }")
    >>> print(plan_migration(old, new).render().splitlines()[0])
    + add property Port.depth: F64?
    """
    resolution = resolve(old, new)
    steps: list[Step] = []
    groups: tuple[tuple[TypeKind, Mapping[str, Any], Mapping[str, Any]], ...] = (
        ("interface", old.interfaces, resolution.catalog.interfaces),
        ("node", old.nodes, resolution.catalog.nodes),
        ("edge", old.edges, resolution.catalog.edges),
    )
    for kind, accepted, desired in groups:
        by_identity = {type_.identity: type_ for type_ in accepted.values()}
        for name in sorted(desired):
            before = by_identity.pop(desired[name].identity, None)
            if before is None:
                steps.append(AddType(kind, name))
            else:
                steps += _type_steps(kind, before, desired[name], resolution)
        steps += [_dropped(kind, name) for name in sorted(type_.name for type_ in by_identity.values())]
    return MigrationPlan(tuple(steps), resolution.catalog)


def _dropped(kind: TypeKind, name: str) -> Step:
    if kind == "interface":
        return UnsupportedChange(f"interface:{name}", f"interface `{name}` cannot be removed or renamed")
    return DropType(kind, name)


def _type_steps(kind: TypeKind, before: AnyType, after: AnyType, resolution: Resolution) -> Iterator[Step]:
    entity = f"{kind}:{after.name}"
    if before.name != after.name:
        yield RenameType(kind, before.name, after.name)
    yield from _structure(entity, before, after, resolution)
    yield from _type_metadata(kind, entity, before, after)
    renamed = _renames(before.properties, after.properties)
    accepted = {prop.identity: prop for prop in before.properties.values()}
    for name in sorted(after.properties):
        prop = after.properties[name]
        earlier = accepted.pop(prop.identity, None)
        if earlier is None:
            yield _added_property(kind, entity, after.name, prop)
        else:
            yield from _property_steps(kind, entity, after.name, earlier, prop, renamed)
    dropped = sorted(prop.name for prop in accepted.values())
    yield from (DropProperty(kind, after.name, name) for name in dropped)
    yield from _constraint_steps(kind, entity, before, after, renamed, set(dropped))


def _structure(entity: str, before: AnyType, after: AnyType, resolution: Resolution) -> Iterator[Step]:
    if isinstance(before, NodeType) and isinstance(after, NodeType) and set(before.interfaces) != set(after.interfaces):
        yield UnsupportedChange(entity, f"the interfaces of `{after.name}` cannot be changed")
    if isinstance(before, EdgeType) and isinstance(after, EdgeType):
        ends = tuple(resolution.node_names.get(name) for name in (before.source, before.target))
        if ends != (after.source, after.target):
            reason = (
                f"the endpoints of `{after.name}` cannot be changed "
                f"(`{before.source} -> {before.target}` to `{after.source} -> {after.target}`)"
            )
            yield UnsupportedChange(entity, reason)


def _renames(before: Mapping[str, Property], after: Mapping[str, Property]) -> dict[str, str]:
    """Map old property names to new ones, for the properties that remain."""
    names = {prop.identity: prop.name for prop in after.values()}
    return {prop.name: names[prop.identity] for prop in before.values() if prop.identity in names}


# Metadata --------------------------------------------------------------------------------------------------------


def _notes(annotations: Iterable[Annotation]) -> dict[str, Any]:
    return {annotation.name: annotation.value for annotation in annotations if annotation.name in _NOTES}


def _others(annotations: Iterable[Annotation]) -> list[Annotation]:
    return [annotation for annotation in annotations if annotation.name not in _NOTES]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Metadata:
    names = sorted(before.keys() | after.keys())
    return tuple((name, after.get(name)) for name in names if before.get(name) != after.get(name))


def _type_metadata(kind: TypeKind, entity: str, before: AnyType, after: AnyType) -> Iterator[Step]:
    changed = _changed(_notes(before.annotations), _notes(after.annotations))
    if changed:
        yield UpdateTypeMetadata(kind, after.name, changed)
    if _others(before.annotations) != _others(after.annotations):
        yield UnsupportedChange(entity, f"annotations of `{after.name}` other than @description and @instruction changed")


# Properties ------------------------------------------------------------------------------------------------------


def _added_property(kind: TypeKind, entity: str, type_name: str, prop: Property) -> Step:
    if not prop.type.nullable and prop.default is None:
        reason = (
            f"the required property `{prop.name}` cannot be added to `{type_name}`; make it nullable or give it a @default"
        )
        return UnsupportedChange(f"{entity}.{prop.name}", reason, ADD_REQUIRED)
    return AddProperty(kind, type_name, prop.name, prop.type.display, prop.default)


def _property_steps(
    kind: TypeKind, entity: str, type_name: str, before: Property, after: Property, renamed: Mapping[str, str]
) -> Iterator[Step]:
    place = f"{entity}.{after.name}"
    if before.name != after.name:
        yield RenameProperty(kind, type_name, before.name, after.name)
    if before.type != after.type:
        yield _type_change(kind, place, type_name, before, after)
    if _embed(before, renamed) != _embed(after, {}):
        yield UnsupportedChange(place, f"the @embed source or model of `{after.name}` cannot be changed")
    if (before.metric, _others(before.annotations)) != (after.metric, _others(after.annotations)):
        yield UnsupportedChange(place, f"annotations of `{after.name}` other than @description and @default changed")
    notes_before = _notes(before.annotations) | ({} if before.default is None else {"default": before.default})
    notes_after = _notes(after.annotations) | ({} if after.default is None else {"default": after.default})
    changed = _changed(notes_before, notes_after)
    if changed:
        yield UpdatePropertyMetadata(kind, type_name, after.name, changed)


def _type_change(kind: TypeKind, place: str, type_name: str, before: Property, after: Property) -> Step:
    old_values, new_values = before.type.enum_values, after.type.enum_values
    if old_values is not None and new_values is not None and before.type.nullable == after.type.nullable:
        added = sorted(set(new_values) - set(old_values))
        if set(old_values) < set(new_values):
            return ExtendEnum(kind, type_name, after.name, tuple(added))
    reason = f"the type of `{after.name}` cannot be changed from {before.type} to {after.type}"
    return UnsupportedChange(place, reason, TYPE_CHANGE)


def _embed(prop: Property, renamed: Mapping[str, str]) -> tuple[str, str | None] | None:
    if prop.embed is None:
        return None
    return renamed.get(prop.embed.source, prop.embed.source), prop.embed.model


# Constraints -----------------------------------------------------------------------------------------------------


def _constraint_steps(
    kind: TypeKind, entity: str, before: AnyType, after: AnyType, renamed: Mapping[str, str], dropped: set[str]
) -> Iterator[Step]:
    """Yield additions, sorted by text, then unsupported removals. A dropped property takes its constraints with it."""
    old = _constraints(before, renamed, dropped)
    new = _constraints(after, {}, set())
    for text in sorted(new.keys() - old.keys()):
        yield AddConstraint(kind, after.name, text, new[text])
    if isinstance(after, EdgeType) and isinstance(before, EdgeType) and before.cardinality != after.cardinality:
        if after.cardinality == Cardinality():
            yield _removed(entity, after.name, before.cardinality.display())
        else:
            yield AddConstraint(kind, after.name, after.cardinality.display(), True)
    if isinstance(after, NodeType | InterfaceType) and isinstance(before, NodeType | InterfaceType):
        old_key = None if before.key is None else sorted(renamed.get(name, name) for name in before.key)
        if old_key != (None if after.key is None else sorted(after.key)):
            yield UnsupportedChange(entity, f"the @key of `{after.name}` cannot be added, changed or removed")
    for text in sorted(old.keys() - new.keys()):
        yield _removed(entity, after.name, text)


def _removed(entity: str, type_name: str, constraint: str) -> Step:
    return UnsupportedChange(entity, f"{constraint} cannot be removed from `{type_name}`")


def _constraints(type_: AnyType, renamed: Mapping[str, str], dropped: set[str]) -> dict[str, bool]:
    """Map the text of each constraint, except key and cardinality, to True if adding it checks existing rows."""
    validates: dict[str, bool] = {}
    key = getattr(type_, "key", None)

    def current(columns: Columns) -> Columns:
        return tuple(renamed.get(name, name) for name in columns)

    for columns in type_.unique:
        if not dropped & set(columns):
            validates[constraint_display("unique", current(columns))] = True
    for columns in type_.index:
        implied = key is not None and set(columns) == set(key)
        if not implied and not dropped & set(columns):
            validates[constraint_display("index", current(columns))] = False
    if isinstance(type_, NodeType):
        rules: tuple[RangeConstraint | CheckConstraint, ...] = (*type_.ranges, *type_.checks)
        for rule in rules:
            if rule.property not in dropped:
                (name,) = current((rule.property,))
                validates[replace(rule, property=name).display()] = True
    return validates
