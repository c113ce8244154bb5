"""Property and expression types, and the relations between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

INTEGERS: Final = ("I32", "I64", "U32", "U64")
FLOATS: Final = ("F32", "F64")
NUMERIC: Final = frozenset(INTEGERS + FLOATS)
BASE_TYPES: Final = ("String", "Blob", "Bool", *INTEGERS, *FLOATS, "DateTime", "Date")
FOREIGN_TYPES: Final = {
    **dict.fromkeys(("int", "integer", "int32", "short", "number", "numeric"), ("I32", "I64")),
    **dict.fromkeys(("bigint", "int64", "long", "serial"), ("I64",)),
    **dict.fromkeys(("float", "double", "real", "decimal", "float64"), ("F64",)),
    "float32": ("F32",),
    **dict.fromkeys(("text", "str", "string", "varchar", "char", "uuid", "json"), ("String",)),
    **dict.fromkeys(("bool", "boolean"), ("Bool",)),
    **dict.fromkeys(("timestamp", "datetime", "timestamptz", "instant", "time"), ("DateTime",)),
    "date": ("Date",),
    **dict.fromkeys(("bytes", "bytea", "binary", "blob"), ("Blob",)),
}
"""Type names of other languages, in lower case, and the types that correspond to them."""
MAX_VECTOR_DIMENSION: Final = 2**31 - 1
INTEGER_RANGES: Final = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**64 - 1),
}

_KINDS: Final = {
    "String": "string",
    "Blob": "blob",
    "Bool": "bool",
    "I32": "int",
    "U32": "int",
    "I64": "bigint",
    "U64": "bigint",
    "F32": "float",
    "F64": "float",
    "Date": "date",
    "DateTime": "datetime",
    "Vector": "vector",
}


@dataclass(frozen=True, slots=True)
class PropType:
    """A type as declared: `String`, `I32?`, `[String]`, `Vector(3)`, `enum(river, sea)`."""

    scalar: str
    nullable: bool = False
    is_list: bool = False
    dimension: int | None = None
    enum_values: tuple[str, ...] | None = None
    """Sorted; the order in the source carries no meaning."""

    def __str__(self) -> str:
        return self.display

    @property
    def display(self) -> str:
        if self.enum_values is not None:
            shown = f"enum({', '.join(self.enum_values)})"
        elif self.scalar == "Vector":
            shown = f"Vector({self.dimension})"
        else:
            shown = f"[{self.scalar}]" if self.is_list else self.scalar
        return shown + ("?" if self.nullable else "")

    @property
    def is_vector(self) -> bool:
        return self.scalar == "Vector"

    @property
    def is_blob(self) -> bool:
        return self.scalar == "Blob"

    @property
    def is_numeric(self) -> bool:
        return self.scalar in NUMERIC and not self.is_list

    @property
    def is_string(self) -> bool:
        """A single string; an enum counts."""
        return self.scalar == "String" and not self.is_list

    @property
    def is_integer(self) -> bool:
        return self.scalar in INTEGERS and not self.is_list

    @property
    def item(self) -> PropType:
        """The element type of a list."""
        return replace(self, is_list=False, nullable=False)

    @property
    def kind(self) -> str:
        """Kind name used in operation descriptors."""
        return "list" if self.is_list else _KINDS[self.scalar]

    def as_nullable(self, nullable: bool = True) -> PropType:
        return replace(self, nullable=nullable)

    def to_json(self) -> str:
        return self.display

    def to_dict(self) -> dict[str, object]:
        entry: dict[str, object] = {"scalar": self.scalar, "nullable": self.nullable}
        if self.is_list:
            entry["list"] = True
        if self.dimension is not None:
            entry["dimension"] = self.dimension
        if self.enum_values is not None:
            entry["enum"] = list(self.enum_values)
        return entry

    @classmethod
    def from_dict(cls, entry: dict[str, object]) -> PropType:
        enum, dimension = entry.get("enum"), entry.get("dimension")
        return cls(
            str(entry["scalar"]),
            bool(entry["nullable"]),
            bool(entry.get("list", False)),
            dimension if isinstance(dimension, int) else None,
            tuple(str(value) for value in enum) if isinstance(enum, list) else None,
        )


STRING: Final = PropType("String")
BOOL: Final = PropType("Bool")
I64: Final = PropType("I64")
F64: Final = PropType("F64")
DATE: Final = PropType("Date")
DATETIME: Final = PropType("DateTime")


def compatible(left: PropType, right: PropType) -> bool:
    """True if values of the two types may be compared or assigned. Nullability is ignored, an enum counts as String."""
    if left.is_list != right.is_list:
        return False
    if left.scalar in NUMERIC and right.scalar in NUMERIC:
        return True
    return left.scalar == right.scalar and left.dimension == right.dimension


def foreign_type_help(name: str) -> str | None:
    """Return a help text for a type name of another language, or None if it is not one."""
    types = FOREIGN_TYPES.get(name.lower())
    return None if types is None else "did you mean " + " or ".join(f"`{type_}`" for type_ in types) + "?"
