"""Conflicts of a merge: what both sides did to one row, and what the merged graph would break."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from omnigraph_sql.table_keys import TableKey

ConflictKind: TypeAlias = Literal[
    "CardinalityViolation",
    "DeleteVsUpdate",
    "DivergentInsert",
    "DivergentTable",
    "DivergentUpdate",
    "OrphanEdge",
    "UniqueViolation",
    "ValueConstraintViolation",
]
"""What is wrong: rows that both sides changed (`Divergent…`, `DeleteVsUpdate`), or a rule that the merged graph breaks."""
CONFLICT_KINDS: Final[tuple[str, ...]] = get_args(ConflictKind)
Member: TypeAlias = tuple[str, str]
"""A row by the key of its table and its id."""


@dataclass(frozen=True, kw_only=True)
class MergeConflict:
    """One conflict of a merge. `ours` is the target of the merge, `theirs` the source."""

    table_key: str
    """The table, as `node:TYPE`, `edge:TYPE`, `table:SCHEMA.NAME` or `view:SCHEMA.NAME`."""
    kind: ConflictKind
    """What is wrong."""
    id: str | None
    """The row; None for a relational table, a view, or a source with too many or too few edges."""
    message: str
    """The conflict in words."""
    properties: tuple[str, ...] = ()
    """Properties that both sides changed, or that break a rule."""
    base: dict[str, Any] | None = None
    """The row in the base of the merge; None if it was not there. Images are there in the result of a dry run."""
    ours: dict[str, Any] | None = None
    """The row in the target; None if it is not there."""
    theirs: dict[str, Any] | None = None
    """The row in the source; None if it is not there."""
    members: tuple[Member, ...] = ()
    """The rows that a decision about the conflict is about."""

    @property
    def entity_kind(self) -> str:
        """`node`, `edge`, `table`, `view` or `schema`.

        Example:
            >>> graph.create_branch("draft")
            'draft'
            >>> graph.merge("draft", dry_run=True).conflicts
            ()
        """
        return TableKey(self.table_key).kind

    @property
    def type_name(self) -> str:
        """The type of the row, or the name of the table or view with its schema.

        Example:
            >>> graph.create_branch("sketch")
            'sketch'
            >>> [conflict.type_name for conflict in graph.merge("sketch", dry_run=True).conflicts]
            []
        """
        return TableKey(self.table_key).name

    def to_dict(self) -> dict[str, Any]:
        """Everything as values of Python.

        Example:
            >>> graph.create_branch("plan")
            'plan'
            >>> [conflict.to_dict() for conflict in graph.merge("plan", dry_run=True).conflicts]
            []
        """
        return {
            "table_key": self.table_key,
            "entity_kind": self.entity_kind,
            "type_name": self.type_name,
            "id": self.id,
            "kind": self.kind,
            "properties": list(self.properties),
            "message": self.message,
            "base": self.base,
            "ours": self.ours,
            "theirs": self.theirs,
        }


def ordered(conflicts: Iterable[MergeConflict]) -> tuple[MergeConflict, ...]:
    """Conflicts by table, id and kind."""
    return tuple(sorted(conflicts, key=lambda conflict: (conflict.table_key, conflict.id or "", conflict.kind)))
