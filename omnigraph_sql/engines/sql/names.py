"""What the names in SQL mean: a schema is a branch, a version or commit, or a relational schema of one of these."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_sql.errors import BadRequest


@dataclass(frozen=True)
class Ref:
    """A state of a graph: the newest of a branch, an earlier version of it, or a commit."""

    branch: str = "main"
    version: int | None = None
    commit: str | None = None

    def __str__(self) -> str:
        if self.commit is not None:
            return f"@{self.commit}"
        return self.branch if self.version is None else f"{self.branch}@{self.version}"


@dataclass(frozen=True)
class Place:
    """Where a table is: a state of the graph, and a relational schema there; without one, the types are meant, too."""

    ref: Ref
    schema: str | None = None


def parse_ref(text: str) -> Ref:
    """A state of a graph as SQL names it: `main`, `main@42` or `@COMMIT`.

    >>> parse_ref("feature/x"), parse_ref("main@42"), parse_ref("@01J0")
    (Ref(branch='feature/x', version=None, commit=None), Ref(branch='main', version=42, commit=None), \
Ref(branch='main', version=None, commit='01J0'))
    """
    branch, at, after = text.rpartition("@")
    if not at:
        return Ref(text)
    if not branch:
        return Ref(commit=after)
    if after.isascii() and after.isdigit():
        return Ref(branch, int(after))
    hint = "write BRANCH, BRANCH@VERSION or @COMMIT"
    raise BadRequest(f"`{text}` names no state of the graph: `{after}` is no version", hint=hint)


def parse_place(text: str) -> Place:
    """The meaning of a schema name: `REF`, or `REF:SCHEMA`."""
    ref, colon, schema = text.partition(":")
    return Place(parse_ref(ref), schema if colon else None)


def check_given(name: str, value: object, kind: type, wanted: str) -> None:
    """Raise if what the caller gave is of another kind: what comes of it would not say so."""
    if not isinstance(value, kind):
        raise BadRequest(f"{name} is {wanted}, not {type(value).__name__}", hint=f"give {wanted}")
