"""Validation of the branches, versions and commits that callers name."""

from __future__ import annotations

import operator
import re
from typing import Any, Final
from urllib.parse import quote

from omnigraph_compiler.plain import plain_text
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.ulid import is_ulid

NAME_BYTES: Final = 200
"""The maximum length of a new branch's name as Lance writes it: escaped, and the escapes escaped again.

The name of a file has at most 255 bytes. Lance adds `.json` and, while it writes, 39 more, and a fork of a table adds 11.
"""
_LINEAGE_BYTES: Final = NAME_BYTES + 39
"""The same for a table branch or a lineage of the manifest, which add the end of an id."""
_REFERENCE_BYTES: Final = 255 - len(".json")
"""The maximum length of any branch's name, escaped: longer ones cannot name a file."""
_COMMIT_BYTES: Final = 400
_MOST_VERSIONS: Final = 2**63 - 1
_BRANCH_HINT: Final = "list the branches of the graph"
_COMMIT_HINT: Final = "list the commits of the branch"
_TAG_HINT: Final = "list the tags of the graph"
_UNREADABLE_COMMIT: Final = re.compile(r"unreadable-[0-9a-f]{16}")
"""The id of a commit whose row in the manifest cannot be read."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_NAME_HINT: Final = (
    "use letters, digits, `.`, `_`, `-` and `/` between segments; no segment `.`, not `..`, not ending in `.lock`"
)


def check_branch(branch: Any) -> str:
    """The name of a branch that may exist."""
    name = _text(branch, "branch", _BRANCH_HINT)
    if len(_escaped(name)) > _REFERENCE_BYTES:
        raise BadRequest(f"{_short(name)} is too long for the name of a branch", hint=_BRANCH_HINT)
    return name


def check_new_branch(branch: Any) -> str:
    """Check that a name is valid for a new branch; it may be taken."""
    name = _text(branch, "branch", _NAME_HINT).strip()
    if not is_branch_name(name):
        raise BadRequest(f"{_short(name)} is not a branch name", hint=_NAME_HINT)
    if len(_escaped(_escaped(name))) > NAME_BYTES:
        hint = f"use at most {NAME_BYTES} characters; `/` counts as 5, a letter that English does not have as 10 or 15"
        raise BadRequest(f"the branch name {_short(name)} is too long", hint=hint)
    return name


def check_new_tag(tag: Any) -> str:
    """A name that a new tag may have; whether it is free, others say."""
    name = _text(tag, "tag", _NAME_HINT).strip()
    if not is_branch_name(name) or len(_escaped(_escaped(name))) > NAME_BYTES:
        raise BadRequest(f"{_short(name)} is not a name for a tag", hint=f"{_NAME_HINT}; at most {NAME_BYTES} characters")
    if is_commit_id(name):
        raise BadRequest(f"the tag {_short(name)} would look like the id of a commit", hint="choose another name")
    return name


def check_tag(tag: Any) -> str:
    """The name of a tag that may exist."""
    name = _text(tag, "tag", _TAG_HINT).strip()
    if len(_escaped(name)) > _REFERENCE_BYTES:
        raise BadRequest(f"{_short(name)} is too long for the name of a tag", hint=_TAG_HINT)
    return name


def is_commit_id(text: str) -> bool:
    """True if a text has the form of the id of a commit, which no tag has."""
    return is_ulid(text.upper()) or _UNREADABLE_COMMIT.fullmatch(text) is not None


def is_branch_name(name: str) -> bool:
    """True if a text is well-formed as the name of a branch, of the graph or of a table: it becomes part of a path."""
    if not name.isprintable() or len(_escaped(_escaped(name))) > _LINEAGE_BYTES:
        return False
    is_formed = all(re.fullmatch(r"[\w.\-]+", segment) and segment != "." for segment in name.split("/"))
    return is_formed and ".." not in name and not name.endswith(".lock")


def check_version(version: Any) -> int:
    """The number of a version that may exist."""
    hint = "versions are numbered from 1 on; list the commits of the branch"
    try:
        if isinstance(version, bool):
            raise TypeError
        number = operator.index(version)
    except TypeError:
        raise BadRequest(f"a version is a whole number, not {type(version).__name__}", hint=hint) from None
    if not 1 <= number <= _MOST_VERSIONS:
        shown = str(number) if abs(number) <= _MOST_VERSIONS else "of more than 63 bits"
        raise NotFound(f"there is no version {shown}", what="version", name=shown, hint=hint)
    return number


def check_commit(commit: Any) -> str:
    """The id of a commit that may exist."""
    commit_id = _text(commit, "commit", _COMMIT_HINT)
    if len(commit_id.encode()) > _COMMIT_BYTES:
        raise BadRequest(f"{_short(commit_id)} is too long for the id of a commit", hint=_COMMIT_HINT)
    return commit_id


def _text(value: Any, what: str, hint: str) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"a {what} is named by a text, not by {type(value).__name__}", hint=hint)
    name = plain_text(value)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{_short(name)} names no {what}: it is not valid Unicode", hint=hint) from None
    if _CONTROL.search(name.strip(" \t\n")):
        raise BadRequest(f"{_short(name)} names no {what}: it holds a control character", hint=hint)
    return name


def _escaped(name: str) -> str:
    return quote(name, safe="")


def _short(text: str) -> str:
    shown = text if len(text) <= 60 else f"{text[:60]}…"
    return f"`{shown}`" if shown.isprintable() else ascii(shown)
