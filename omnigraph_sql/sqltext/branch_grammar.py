"""The grammar of statements about branches and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph_sql.sqltext.statement_cursor import StatementCursor
from omnigraph_sql.sqltext.write_statements import (
    CreateBranchStatement,
    CreateTagStatement,
    DropBranchStatement,
    DropTagStatement,
    MergeBranchStatement,
    ScriptStatement,
    ShowStatement,
    UseBranchStatement,
)


def branch_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> ScriptStatement | None:
    """A statement about branches or tags; None if it is none."""
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
    return _tag_statement(cursor, place) or _show_statement(cursor, place)


def _tag_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> ScriptStatement | None:
    if cursor.accept("create", "tag"):
        name = _tag(cursor)
        base = _branch(cursor) if cursor.accept("from") else None
        cursor.end()
        return CreateTagStatement(**place, name=name, base=base)
    if cursor.accept("drop", "tag"):
        exists = cursor.accept("if", "exists")
        name = _tag(cursor)
        cursor.end()
        return DropTagStatement(**place, name=name, if_exists=exists)
    return None


def _show_statement(cursor: StatementCursor, place: Mapping[str, Any]) -> ScriptStatement | None:
    if not (cursor.has("show") and cursor.word(1) in ("branches", "tags", "commits", "conflicts")):
        return None
    cursor.expect("show")
    if cursor.accept("conflicts"):
        cursor.expect("of", "branch")
        source = _branch(cursor)
        target = _branch(cursor) if cursor.accept("into") else None
        cursor.end()
        return ShowStatement(**place, what="conflicts", source=source, target=target)
    what: Any = cursor.accept_any("branches", "tags", "commits")
    cursor.end()
    return ShowStatement(**place, what=what)


def _branch(cursor: StatementCursor) -> str:
    return cursor.name("the name of a branch, in double quotes if it has special characters")


def _tag(cursor: StatementCursor) -> str:
    return cursor.name("the name of a tag, in double quotes if it has special characters")
