"""Identities across schema versions: matches desired declarations with accepted ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from omnigraph_compiler.diagnostics import CompileError, Diagnostic
from omnigraph_compiler.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property, by_name

_T = TypeVar("_T", InterfaceType, NodeType, EdgeType)
_KINDS = ("interface", "node", "edge")


@dataclass(frozen=True, slots=True)
class Resolution:
    """The desired catalog with identities, and the new names of the accepted node types."""

    catalog: Catalog
    node_names: Mapping[str, str]
    """Accepted node type name to desired name, for the types that remain."""


def resolve(old: Catalog, new: Catalog) -> Resolution:
    """Assign an identity to every declaration of the desired catalog. Raises `CompileError` for invalid rename hints."""
    counter = iter(range(old.next_identity, 2**62))
    interfaces = _resolve_group("interface", old, old.interfaces, new.interfaces, new, counter)
    nodes = _resolve_group("node", old, old.nodes, new.nodes, new, counter)
    edges = _resolve_group("edge", old, old.edges, new.edges, new, counter)
    catalog = Catalog(interfaces, nodes, edges, next(counter))
    names = {node.identity: node.name for node in nodes.values()}
    return Resolution(catalog, {node.name: names[node.identity] for node in old.nodes.values() if node.identity in names})


def _fail(text: str, help: str | None = None) -> NoReturn:
    raise CompileError(Diagnostic("catalog", text, help=help))


def _resolve_group(
    kind: str, old: Catalog, accepted: Mapping[str, _T], desired: Mapping[str, _T], new: Catalog, counter: Iterator[int]
) -> Mapping[str, _T]:
    origins = {name: _type_origin(kind, old, accepted, desired[name]) for name in desired}
    _check_claims(f"{kind} types", origins)
    resolved: dict[str, _T] = {}
    for name in sorted(desired):
        origin = origins[name]
        before = None if origin is None else accepted[origin]
        resolved[name] = _resolve_type(kind, old, new, before, desired[name], counter)
    return by_name(resolved[name] for name in desired)


def _type_origin(kind: str, old: Catalog, accepted: Mapping[str, _T], type_: _T) -> str | None:
    hint = type_.rename_from
    if type_.name in accepted or hint is None:
        return type_.name if type_.name in accepted else None
    if hint in accepted:
        return hint
    groups = dict(zip(_KINDS, (old.interfaces, old.nodes, old.edges), strict=True))
    others = [other for other in _KINDS if hint in groups[other]]
    if others:
        _fail(f'@rename_from("{hint}") on {kind} `{type_.name}`: `{hint}` is a type of another kind ({others[0]})')
    _fail(f'@rename_from("{hint}") on {kind} `{type_.name}`: the accepted schema has no {kind} `{hint}`')


def _check_claims(subject: str, origins: Mapping[str, str | None]) -> None:
    claimed: dict[str, str] = {}
    for name in sorted(origins):
        origin = origins[name]
        if origin is None:
            continue
        if origin in claimed:
            _fail(f"two {subject} claim the identity of `{origin}`: `{claimed[origin]}` and `{name}`")
        claimed[origin] = name


def _resolve_type(kind: str, old: Catalog, new: Catalog, before: _T | None, after: _T, counter: Iterator[int]) -> _T:
    accepted = {} if before is None else before.properties
    origins = {name: _property_origin(kind, old, new, before, after, prop) for name, prop in after.properties.items()}
    _check_claims(f"properties of `{after.name}`", origins)
    identity = next(counter) if before is None else before.identity
    numbered: dict[str, Property] = {}
    for name in sorted(after.properties):
        origin = origins[name]
        number = next(counter) if origin is None else accepted[origin].identity
        numbered[name] = replace(after.properties[name], identity=number)
    ordered = _column_order(accepted, after.properties, numbered)
    resolved = replace(after, identity=identity, properties=by_name(ordered))
    if isinstance(before, NodeType) and isinstance(resolved, NodeType):
        return replace(resolved, key=_key_order(before, resolved))
    return resolved


def _property_origin(kind: str, old: Catalog, new: Catalog, before: _T | None, after: _T, prop: Property) -> str | None:
    accepted = {} if before is None else before.properties
    hint = prop.rename_from
    if prop.name in accepted or hint is None:
        return prop.name if prop.name in accepted else None
    if hint in accepted:
        return hint
    if _is_injected(new, after, prop):
        return None  # the hint belongs to the interface; this node has no property of that name to rename
    place = f"{kind} `{after.name}`, property `{prop.name}`"
    if before is None:
        _fail(f'@rename_from("{hint}") on {place}: `{after.name}` is new, so there is nothing to rename')
    for other in (*old.interfaces.values(), *old.nodes.values(), *old.edges.values()):
        if hint in other.properties:
            _fail(f'@rename_from("{hint}") on {place}: `{hint}` belongs to another owner, `{other.name}`')
    _fail(f'@rename_from("{hint}") on {place}: the accepted `{before.name}` has no property `{hint}`')


def _is_injected(new: Catalog, after: InterfaceType | NodeType | EdgeType, prop: Property) -> bool:
    if not isinstance(after, NodeType):
        return False
    declared = (new.interfaces[name].properties.get(prop.name) for name in after.interfaces)
    return any(other is not None and other.rename_from == prop.rename_from for other in declared)


def _column_order(
    accepted: Mapping[str, Property], declared: Mapping[str, Property], numbered: Mapping[str, Property]
) -> list[Property]:
    """Return existing columns in their order, then new ones as declared."""
    by_identity = {prop.identity: prop for prop in numbered.values()}
    existing = [by_identity[prop.identity] for prop in accepted.values() if prop.identity in by_identity]
    names = {prop.name for prop in existing}
    return existing + [numbered[name] for name in declared if name not in names]


def _key_order(before: NodeType, after: NodeType) -> tuple[str, ...] | None:
    """Return the key members in the order fixed when the type was created, with their current names."""
    if before.key is None or after.key is None:
        return after.key
    names = {prop.identity: prop.name for prop in after.properties.values()}
    fixed = tuple(names.get(before.properties[name].identity, "") for name in before.key)
    return fixed if set(fixed) == set(after.key) else after.key
