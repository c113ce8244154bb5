"""Rules of relational tables: constraints, defaults and comments.

They are kept in the metadata of the table's own schema, so that a branch, an old version and a merge show them as they show
the rows. That a column is required is part of the schema itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal, TypeAlias

import pyarrow as pa

RULES_KEY: Final = b"omnigraph.rules"
ConstraintKind: TypeAlias = Literal["primary key", "unique", "check", "foreign key"]


@dataclass(frozen=True)
class SqlText:
    """An expression, and the engine whose dialect it is in."""

    sql: str
    dialect: str


@dataclass(frozen=True, kw_only=True)
class TableConstraint:
    """A constraint of a table. Foreign keys are shown and not enforced."""

    kind: ConstraintKind
    name: str
    columns: tuple[str, ...] = ()
    """The columns of a key; those that a check reads."""
    check: SqlText | None = None
    references: tuple[str, ...] = ()
    """The table that a foreign key refers to."""
    referenced_columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableRules:
    """Everything about a table besides its columns and rows."""

    constraints: tuple[TableConstraint, ...] = ()
    defaults: Mapping[str, SqlText] = field(default_factory=dict)
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: pa.Schema) -> TableRules:
        """The rules in the metadata of a schema."""
        text = (schema.metadata or {}).get(RULES_KEY)
        if text is None:
            return cls()
        entry = json.loads(text)
        return cls(
            constraints=tuple(_constraint(member) for member in entry.get("constraints", ())),
            defaults={name: SqlText(**value) for name, value in entry.get("defaults", {}).items()},
            comment=entry.get("comment"),
            column_comments=entry.get("column_comments", {}),
        )

    def applied(self, fields: Iterable[pa.Field]) -> pa.Schema:
        """A schema with these rules; columns of a primary key are required."""
        required = {
            name for constraint in self.constraints if constraint.kind == "primary key" for name in constraint.columns
        }
        columns = [column.with_nullable(column.nullable and column.name not in required) for column in fields]
        if self == TableRules():
            return pa.schema(columns)
        entry = {name: value for name, value in asdict(self).items() if value}
        return pa.schema(columns, metadata={RULES_KEY: json.dumps(entry, sort_keys=True)})

    def unique_keys(self) -> Iterator[TableConstraint]:
        """The primary key and the unique constraints."""
        return (constraint for constraint in self.constraints if constraint.kind in ("primary key", "unique"))

    @property
    def are_enforced(self) -> bool:
        """True if rows have to be checked beyond their columns."""
        return any(constraint.kind != "foreign key" for constraint in self.constraints)

    def checks(self) -> Iterator[TableConstraint]:
        """The check constraints."""
        return (constraint for constraint in self.constraints if constraint.kind == "check")

    def using(self, column: str) -> TableConstraint | None:
        """A constraint that uses a column."""
        return next((constraint for constraint in self.constraints if column in constraint.columns), None)

    def renamed(self, column: str, name: str) -> TableRules:
        """The rules after a column that no check uses got another name."""

        def new(old: str) -> str:
            return name if old == column else old

        return replace(
            self,
            constraints=tuple(
                replace(constraint, columns=tuple(map(new, constraint.columns))) for constraint in self.constraints
            ),
            defaults={new(old): value for old, value in self.defaults.items()},
            column_comments={new(old): value for old, value in self.column_comments.items()},
        )

    def without(self, column: str) -> TableRules:
        """The rules without the default and the comment of a column."""
        return replace(
            self,
            defaults={name: value for name, value in self.defaults.items() if name != column},
            column_comments={name: value for name, value in self.column_comments.items() if name != column},
        )


def rules_metadata(schema: pa.Schema) -> dict[bytes, bytes] | None:
    """The metadata of a schema without what others have put into it."""
    text = (schema.metadata or {}).get(RULES_KEY)
    return None if text is None else {RULES_KEY: text}


def is_same_table(one: pa.Schema, other: pa.Schema) -> bool:
    """True if two schemas have the same columns and rules."""
    return bool(one.equals(other)) and rules_metadata(one) == rules_metadata(other)


def _constraint(entry: Mapping[str, object]) -> TableConstraint:
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    check = entry.get("check")
    return TableConstraint(**{**entry, **lists, "check": SqlText(**check) if isinstance(check, dict) else None})  # type: ignore[arg-type]
