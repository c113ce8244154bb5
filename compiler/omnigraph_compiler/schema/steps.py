"""Steps of a migration plan, with their JSON and text forms."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from omnigraph_compiler.schema.ast import LiteralValue

TypeKind = Literal["interface", "node", "edge"]
Mode = Literal["soft", "hard"]
Metadata: TypeAlias = tuple[tuple[str, LiteralValue | None], ...]
"""Changed annotations by name; None for a removed one."""

ADD_REQUIRED = "OG-MF-103"
TYPE_CHANGE = "OG-MF-106"
VALIDATED_CONSTRAINT = "OG-MF-107"
DROP_NODE = "OG-DS-102"
DROP_EDGE = "OG-DS-103"
DROP_PROPERTY = "OG-DS-104"


@dataclass(frozen=True, slots=True)
class AddType:
    type_kind: TypeKind
    name: str

    def describe(self) -> tuple[str, str | None]:
        return f"+ add {self.type_kind} {self.name}", None


@dataclass(frozen=True, slots=True)
class RenameType:
    type_kind: TypeKind
    from_: str
    to: str

    def describe(self) -> tuple[str, str | None]:
        return f"~ rename {self.type_kind} {self.from_} to {self.to}", None


@dataclass(frozen=True, slots=True)
class AddProperty:
    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: str
    default: LiteralValue | None = None

    def describe(self) -> tuple[str, str | None]:
        filled = "" if self.default is None else f", existing rows get {json.dumps(self.default, ensure_ascii=False)}"
        return f"+ add property {self.type_name}.{self.property_name}: {self.property_type}{filled}", None


@dataclass(frozen=True, slots=True)
class RenameProperty:
    type_kind: TypeKind
    type_name: str
    from_: str
    to: str

    def describe(self) -> tuple[str, str | None]:
        return f"~ rename property {self.type_name}.{self.from_} to {self.to}", None


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]

    def describe(self) -> tuple[str, str | None]:
        return f"~ extend enum {self.type_name}.{self.property_name} by {', '.join(self.added_values)}", None


@dataclass(frozen=True, slots=True)
class AddConstraint:
    type_kind: TypeKind
    type_name: str
    constraint: str
    validates: bool

    def describe(self) -> tuple[str, str | None]:
        checked = ", existing rows are checked" if self.validates else ""
        return f"+ add {self.constraint} to {self.type_name}{checked}", VALIDATED_CONSTRAINT if self.validates else None


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    type_kind: TypeKind
    name: str
    annotations: Metadata

    def describe(self) -> tuple[str, str | None]:
        return f"~ update {_names(self.annotations)} of {self.type_kind} {self.name}", None


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: Metadata

    def describe(self) -> tuple[str, str | None]:
        return f"~ update {_names(self.annotations)} of {self.type_name}.{self.property_name}", None


@dataclass(frozen=True, slots=True)
class DropType:
    type_kind: TypeKind
    name: str
    mode: Mode = "soft"

    def describe(self) -> tuple[str, str | None]:
        code = DROP_EDGE if self.type_kind == "edge" else DROP_NODE
        return f"- drop {self.type_kind} {self.name} ({self.mode})", code


@dataclass(frozen=True, slots=True)
class DropProperty:
    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: Mode = "soft"

    def describe(self) -> tuple[str, str | None]:
        return f"- drop property {self.type_name}.{self.property_name} ({self.mode})", DROP_PROPERTY


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    entity: str
    reason: str
    code: str | None = None

    def describe(self) -> tuple[str, str | None]:
        return f"! {self.entity}: {self.reason}", self.code


Step: TypeAlias = (
    AddType
    | RenameType
    | AddProperty
    | RenameProperty
    | ExtendEnum
    | AddConstraint
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | DropType
    | DropProperty
    | UnsupportedChange
)


def step_dict(step: Step) -> dict[str, Any]:
    """Return the JSON form, tagged by `kind`; absent optional members are omitted."""
    entry: dict[str, Any] = {"kind": _snake(type(step).__name__)}
    for field in dataclasses.fields(step):
        value = getattr(step, field.name)
        if value is None and field.name in ("default", "code"):
            continue
        if field.name == "annotations":
            value = dict(value)
        entry[field.name.rstrip("_")] = list(value) if isinstance(value, tuple) else value
    return entry


def step_line(step: Step) -> str:
    """Return one line of text, with the code of the step if it has one."""
    text, code = step.describe()
    return f"{text}  [{code}]" if code else text


def is_metadata_only(step: Step) -> bool:
    """True if a step changes no table."""
    if isinstance(step, AddConstraint):
        return not step.validates
    return isinstance(step, ExtendEnum | UpdateTypeMetadata | UpdatePropertyMetadata)


def _names(annotations: Metadata) -> str:
    return ", ".join(f"@{name}" for name, _ in annotations)


def _snake(name: str) -> str:
    return "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")
