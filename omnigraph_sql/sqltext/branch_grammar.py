"""The grammar of statements about branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.statement_cursor import StatementCursor
from omnigraph_sql.sqltext.write_statements import (
    CreateBranchStatement,
    DropBranchStatement,
    MergeBranchStatement,
    ScriptStatement,
    ShowStatement,
    UseBranchStatement,
)


def branch_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> ScriptStatement | None:
    """A statement about branches; None if it is none."""
    if cursor.accept("create", "branch"):
        exists = cursor.accept("if", "not", "exists")
        name = _branch(cursor)
        base = _branch(cursor) if cursor.accept("from") else None
        cursor.end()
        return CreateBranchStatement(**place, name=name, base=base, if_not_exists=exists)
    if cursor.accept("drop", "branch"):
        exists = cursor.accept("if", "exists")
        name = _branch(cursor)
        cursor.end()
        return DropBranchStatement(**place, name=name, if_exists=exists)
    if cursor.accept("merge", "branch"):
        source = _branch(cursor)
        target = _branch(cursor) if cursor.accept("into") else None
        cursor.end()
        return MergeBranchStatement(**place, source=source, target=target)
    if cursor.accept("use"):
        if not cursor.accept("branch"):
            cursor.fail("BRANCH", hint='write USE BRANCH "NAME"; schemas are named with the table, SCHEMA.TABLE')
        name = _branch(cursor)
        cursor.end()
        return UseBranchStatement(**place, name=name)
    for what in ("branches", "commits"):
        if cursor.has("show", what):
            cursor.accept("show", what)
            cursor.end()
            return ShowStatement(**place, what="branches" if what == "branches" else "commits")
    _refuse_tags(cursor)
    return None


def _branch(cursor: StatementCursor) -> str:
    return cursor.name("the name of a branch, in double quotes if it has special characters")


def _refuse_tags(cursor: StatementCursor) -> None:
    for first in ("create", "drop", "show"):
        if cursor.has(first, "tag") or cursor.has(first, "tags"):
            hint = "a commit id names a state for good: SHOW COMMITS lists them"
            raise BadRequest(f"{first.upper()} {cursor.word(1).upper()} is not supported by this release", hint=hint)
    if cursor.has("show", "conflicts"):
        raise BadRequest("SHOW CONFLICTS is not supported", hint="MERGE BRANCH names the conflicts when it fails")
