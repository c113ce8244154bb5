"""State references and schema references: the meaning of schema names in SQL."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_sql.errors import BadRequest

_DIGITS = 20
"""A version number has fewer digits."""


@dataclass(frozen=True)
class StateRef:
    """A reference to a state of a graph: the head of a branch, an earlier version of it, a commit or a tag."""

    branch: str = "main"
    version: int | None = None
    commit: str | None = None
    """The id of a commit, or the name of a tag."""

    def __str__(self) -> str:
        if self.commit is not None:
            return f"@{self.commit}"
        return self.branch if self.version is None else f"{self.branch}@{self.version}"


@dataclass(frozen=True)
class SchemaRef:
    """The schema of a table: a state of the graph, and a relational schema; without one, types are included."""

    ref: StateRef
    schema: str | None = None


CATALOG = "graph"
"""The name of the graph's catalog in the sessions that this package creates, unless they are pinned to another name."""


@dataclass(frozen=True, kw_only=True)
class CatalogPin:
    """A catalog of one state: its schemas are relational schemas, and no name of a schema means a branch."""

    database: str = "omnigraph"
    """The name of the catalog."""
    schema: str = "main"
    """The default schema."""


def parse_ref(text: str) -> StateRef:
    """Parse a state reference: `main`, `main@42`, `@COMMIT` or `@TAG`.

    >>> parse_ref("feature/x"), parse_ref("main@42"), parse_ref("@01J0")
    (StateRef(branch='feature/x', version=None, commit=None), StateRef(branch='main', version=42, commit=None), \
StateRef(branch='main', version=None, commit='01J0'))
    """
    branch, at, after = text.rpartition("@")
    if not at:
        return StateRef(text)
    if not branch:
        return StateRef(commit=after)
    if after.isascii() and after.isdigit() and len(after) < _DIGITS:
        return StateRef(branch, int(after))
    hint = "write BRANCH, BRANCH@VERSION, @COMMIT or @TAG"
    raise BadRequest(f"`{text[:200]}` names no state of the graph: `{after[:200]}` is no version", hint=hint)


def parse_schema_ref(text: str) -> SchemaRef:
    """Parse a schema name: `REF`, or `REF:SCHEMA`."""
    ref, colon, schema = text.partition(":")
    return SchemaRef(parse_ref(ref), schema if colon else None)


def check_type(name: str, value: object, kind: type, expected: str) -> None:
    """Raise if an argument of the caller has the wrong type."""
    if not isinstance(value, kind):
        raise BadRequest(f"{name} is {expected}, not {type(value).__name__}", hint=f"give {expected}")
