"""The branches of a Lance dataset, read from their references one by one, so that a damaged one hides no other.

Lance keeps one small file for each branch and gives up on all of them when it cannot read one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.storage.objects import ObjectStore

_DIRECTORY: Final = "_refs/branches"
_SUFFIX: Final = ".json"
_UNIQUE: Final = re.compile(r"(?P<branch>.+\.[0-9A-Z]{10})/.+")
"""A file on a branch that a write of ours made: its name ends in ten characters of an id. Names of branches may have such
parts further ahead, so the last one counts."""
_LATEST: Final = 1e12
"""The latest valid time of a creation."""


@dataclass(frozen=True)
class Reference:
    """The version that a branch starts from."""

    parent_branch: str | None
    parent_version: int
    created_at: float
    """Seconds since 1970."""


def reference_name(dataset: str, branch: str) -> str:
    """Return the name of the object with the reference of a branch."""
    return f"{dataset}/{_DIRECTORY}/{quote(branch, safe='')}{_SUFFIX}"


def branch_names(objects: ObjectStore, dataset: str) -> list[str]:
    """The branches of a dataset by name, damaged ones included."""
    names = objects.list_dir(f"{dataset}/{_DIRECTORY}")
    return sorted(unquote(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX))


def read_references(objects: ObjectStore, dataset: str) -> dict[str, Reference | None]:
    """The branches of a dataset by name; None for one whose reference is damaged."""
    references: dict[str, Reference | None] = {}
    for name in branch_names(objects, dataset):
        try:
            references[name] = _parse(objects.read_text(reference_name(dataset, name)))
        except NotFound:
            continue  # deleted since it was listed
        except UnicodeDecodeError:
            references[name] = None
        except Storage as error:
            if error.storage_class != "permanent":
                raise
            references[name] = None  # something else is in its place
    return references


def delete_branch(objects: ObjectStore, dataset: str, branch: str) -> None:
    """Remove a branch and its files; an absent one is success. The caller knows that nothing was forked from it."""
    objects.delete(reference_name(dataset, branch))
    objects.delete_prefix(f"{dataset}/tree/{branch}")


def dependants_of(references: Mapping[str, Reference | None], branch: str) -> list[str]:
    """The branches that were forked from a branch, or whose files lie below its own."""
    forks = {name for name, entry in references.items() if entry is not None and entry.parent_branch == branch}
    return sorted(forks | {name for name in references if name.startswith(f"{branch}/")})


def branch_of_file(name: str, branches: Container[str]) -> str | None:
    """The branch that a file lies on, by its name below the directory of all branches.

    It is one of those that are known, or has the form of a name that a write of ours makes.
    """
    match = _UNIQUE.fullmatch(name)
    shortest = 0 if match is None else len(match["branch"])
    end = name.rfind("/")
    while end > shortest:
        if name[:end] in branches:
            return name[:end]
        end = name.rfind("/", 0, end)
    return None if match is None else match["branch"]


def damaged(dataset: str, names: Iterable[str]) -> Storage | None:
    """Return the error for references that cannot be read; None if all can be read."""
    first = min(names, default=None)
    if first is None:
        return None
    text = f"{reference_name(dataset, first)}, the reference of the table branch `{first}`, is damaged"
    return Storage(text, storage_class="permanent", hint="restore the file from a copy of the graph")


def _parse(text: str) -> Reference | None:
    try:
        entry = json.loads(text)
        parent, version, created = entry["parentBranch"], entry["parentVersion"], entry["createAt"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_typed = isinstance(parent, str | None) and isinstance(version, int) and is_time(created)
    return Reference(parent, version, float(created)) if is_typed else None


def is_time(value: object) -> bool:
    """True if a value is a time in seconds since 1970."""
    return isinstance(value, int | float) and 0 <= value < _LATEST
