"""The statements of a script: those that only read, and each kind that changes something.

Expressions and queries in them are parts of the text, in the dialect of the engine that computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

QualifiedName: TypeAlias = tuple[str, ...]
"""A name with its catalog and schema, as far as they were written."""
RelationKind: TypeAlias = Literal["table", "view"]


@dataclass(frozen=True, kw_only=True)
class ScriptStatement:
    """A statement with its place in the script, counted from 1."""

    text: str
    number: int
    line: int
    column: int

    @property
    def place(self) -> str:
        """The place, for errors."""
        return f"statement {self.number} (line {self.line}, column {self.column})"


@dataclass(frozen=True, kw_only=True)
class ReadStatement(ScriptStatement):
    """A statement that the engine runs as it is."""


@dataclass(frozen=True, kw_only=True)
class TransactionMark(ScriptStatement):
    """`begin`, `commit` or `rollback`."""

    word: Literal["begin", "commit", "rollback"]


# Rows ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetClause:
    """A column and its new value."""

    column: str
    value: str | None
    """An expression; None for the default of the column."""


@dataclass(frozen=True)
class ConflictClause:
    """`on conflict` of an insert: what becomes of rows whose key exists."""

    columns: tuple[str, ...]
    sets: tuple[SetClause, ...]
    """The new values of the row that exists; none to leave it as it is."""
    condition: str | None = None


@dataclass(frozen=True, kw_only=True)
class RowStatement(ScriptStatement):
    """A statement that changes rows of a table."""

    table: QualifiedName
    alias: str
    prefix: str = ""
    """The text of `with`, which belongs before every query."""


@dataclass(frozen=True, kw_only=True)
class InsertStatement(RowStatement):
    """`insert into`."""

    columns: tuple[str, ...] = ()
    query: str | None = None
    """None for `default values`."""
    by_name: bool = False
    tuples: tuple[tuple[str | None, ...], ...] = ()
    """The expressions of `values`; None stands for `default`."""
    conflict: ConflictClause | None = None


@dataclass(frozen=True, kw_only=True)
class UpdateStatement(RowStatement):
    """`update`."""

    sets: tuple[SetClause, ...]
    sources: str | None = None
    """The text after `from`."""
    condition: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeleteStatement(RowStatement):
    """`delete from`."""

    sources: str | None = None
    """The text after `using`."""
    condition: str | None = None


@dataclass(frozen=True, kw_only=True)
class MergeClause:
    """A `when` of a merge."""

    matches: Literal["both", "source", "target"]
    """The rows it is for: pairs of both, or rows that only the source or only the target has."""
    action: Literal["update", "insert", "delete", "nothing"]
    condition: str | None = None
    sets: tuple[SetClause, ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()
    is_whole: bool = False
    """True for `update set *` and `insert *`: all columns of the source, by name."""


@dataclass(frozen=True, kw_only=True)
class MergeIntoStatement(RowStatement):
    """`merge into`."""

    source: str
    source_alias: str
    condition: str
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True, kw_only=True)
class TruncateStatement(RowStatement):
    """`truncate`."""


# Definitions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ConstraintClause:
    """A constraint of a table."""

    kind: Literal["primary key", "unique", "check", "foreign key"]
    name: str | None = None
    columns: tuple[str, ...] = ()
    expression: str | None = None
    references: QualifiedName = ()
    referenced_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnClause:
    """A column of a table that is created."""

    name: str
    type_text: str
    is_required: bool = False
    default: str | None = None
    constraints: tuple[ConstraintClause, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateTableStatement(ScriptStatement):
    """`create table`, with columns or as a query."""

    name: QualifiedName
    columns: tuple[ColumnClause, ...] = ()
    names: tuple[str, ...] = ()
    """The names of the columns of the query, where the statement gives them."""
    constraints: tuple[ConstraintClause, ...] = ()
    query: str | None = None
    replace: bool = False
    if_not_exists: bool = False
    with_data: bool = True
    is_temporary: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateViewStatement(ScriptStatement):
    """`create view`."""

    name: QualifiedName
    query: str
    names: tuple[str, ...] = ()
    replace: bool = False
    if_not_exists: bool = False
    is_temporary: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateSchemaStatement(ScriptStatement):
    """`create schema`."""

    name: QualifiedName
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropSchemaStatement(ScriptStatement):
    """`drop schema`."""

    name: QualifiedName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, kw_only=True)
class DropStatement(ScriptStatement):
    """`drop table` or `drop view`."""

    kind: RelationKind
    names: tuple[QualifiedName, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameAction:
    """Rename the table, or a column of it."""

    name: str
    column: str | None = None


@dataclass(frozen=True)
class AddColumnAction:
    """Add a column."""

    column: ColumnClause
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumnAction:
    """Drop a column."""

    column: str
    if_exists: bool = False


@dataclass(frozen=True)
class ColumnTypeAction:
    """Give a column another type."""

    column: str
    type_text: str
    using: str | None = None


@dataclass(frozen=True)
class ColumnRuleAction:
    """Set or drop `not null` or the default of a column."""

    column: str
    rule: Literal["not null", "default"]
    value: str | None = None
    """The default; None if it is dropped."""
    is_set: bool = True


@dataclass(frozen=True)
class AddConstraintAction:
    """Add a constraint."""

    constraint: ConstraintClause


@dataclass(frozen=True)
class DropConstraintAction:
    """Drop a constraint by its name."""

    name: str
    if_exists: bool = False


AlterAction: TypeAlias = (
    RenameAction
    | AddColumnAction
    | DropColumnAction
    | ColumnTypeAction
    | ColumnRuleAction
    | AddConstraintAction
    | DropConstraintAction
)


@dataclass(frozen=True, kw_only=True)
class AlterStatement(ScriptStatement):
    """`alter table` or `alter view`."""

    kind: RelationKind
    name: QualifiedName
    actions: tuple[AlterAction, ...]
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CommentStatement(ScriptStatement):
    """`comment on`."""

    kind: Literal["table", "view", "column", "schema"]
    name: QualifiedName
    comment: str | None


# Branches ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CreateBranchStatement(ScriptStatement):
    """`create branch`."""

    name: str
    base: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropBranchStatement(ScriptStatement):
    """`drop branch`."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class MergeBranchStatement(ScriptStatement):
    """`merge branch`."""

    source: str
    target: str | None = None


@dataclass(frozen=True, kw_only=True)
class UseBranchStatement(ScriptStatement):
    """`use branch`."""

    name: str


@dataclass(frozen=True, kw_only=True)
class CreateTagStatement(ScriptStatement):
    """`create tag`."""

    name: str
    base: str | None = None


@dataclass(frozen=True, kw_only=True)
class DropTagStatement(ScriptStatement):
    """`drop tag`."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class ShowStatement(ScriptStatement):
    """`show branches`, `show tags`, `show commits` or `show conflicts`."""

    what: Literal["branches", "tags", "commits", "conflicts"]
    source: str | None = None
    """The branch whose conflicts are shown."""
    target: str | None = None


BranchStatement: TypeAlias = (
    CreateBranchStatement
    | DropBranchStatement
    | MergeBranchStatement
    | UseBranchStatement
    | CreateTagStatement
    | DropTagStatement
)
"""Statements that no transaction holds."""
LASTING = (DropBranchStatement, MergeBranchStatement, DropTagStatement)
"""Those whose effect cannot be undone."""
