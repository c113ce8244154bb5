"""Tags: names that users give to states of the graph. They are rows of the manifest of the main branch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph_sql.manifest.texts import readable_object, readable_text

TAG: Final = "tag"
"""The type of the rows."""


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A name for a state of the graph. It never moves: the name may be used again once the tag is deleted."""

    name: str
    """The name."""
    graph_commit_id: str
    """The commit whose state it names."""
    branch: str
    """The branch that the commit was published on."""
    manifest_version: int
    """The version of that branch."""
    actor_id: str | None
    """Who made the tag."""
    message: str | None
    """The note of its author."""
    created_at: int
    """When it was made, in microseconds since 1970."""
    lineage: str | None = field(default=None, repr=False)
    """The lineage of the branch in the manifest; None for `main`."""
    operation_id: str = field(default="", repr=False)
    """The id of the operation that made it: no two tags have the same."""

    def to_dict(self) -> dict[str, Any]:
        """Name, state, author, note and time as JSON values.

        Example:
            >>> graph.tag("v1", message="first release").to_dict()["message"]
            'first release'
        """
        return {name: value for name, value in vars(self).items() if name not in ("lineage", "operation_id")}


def tag_metadata(tag: Tag) -> str:
    """The metadata of the row of a tag. That of a deleted one is null."""
    members = {
        "graph_commit_id": tag.graph_commit_id,
        "branch": tag.branch,
        "manifest_version": tag.manifest_version,
        "actor": tag.actor_id,
        "message": tag.message,
        "created_at": tag.created_at,
        "lineage": tag.lineage,
        "operation_id": tag.operation_id,
    }
    return json.dumps(members, sort_keys=True)


def object_id(name: str) -> str:
    """The key of the row of a tag.

    >>> object_id("v1"), name_of(object_id("v1"))
    ('tag$v1', 'v1')
    """
    return f"{TAG}${name}"


def name_of(key: str) -> str:
    """The tag that a row is about."""
    return key.removeprefix(f"{TAG}$")


def read_tag(key: str, metadata: str) -> Tag | None:
    """The tag in a row; None if the row is not one that this release can read."""
    entry = readable_object(metadata)
    commit, branch, version = (entry.get(name) for name in ("graph_commit_id", "branch", "manifest_version"))
    if not isinstance(commit, str) or not isinstance(branch, str) or type(version) is not int or version < 1:
        return None
    created = entry.get("created_at")
    actor, message, lineage = (entry.get(name) for name in ("actor", "message", "lineage"))
    return Tag(
        name=readable_text(name_of(key)),
        graph_commit_id=readable_text(commit),
        branch=readable_text(branch),
        manifest_version=version,
        actor_id=None if actor is None else readable_text(actor),
        message=None if message is None else readable_text(message),
        created_at=created if type(created) is int and 0 <= created < 1 << 63 else 0,
        lineage=lineage if isinstance(lineage, str) else None,
        operation_id=readable_text(entry.get("operation_id") or ""),
    )
