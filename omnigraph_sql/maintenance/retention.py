"""What a cleanup keeps: the policy, and the versions that branches show whatever the policy says."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from omnigraph_sql.engines.limits import parse_duration
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.snapshot import Entry, Snapshot

GRACE_VARIABLE: Final = "OMNIGRAPH_STAGING_GRACE"
GRACE: Final = timedelta(days=7)
"""What nothing refers to stays so long: it may belong to a writer that has not come to its commit yet."""
WARN_BELOW: Final = 3
RECOMMENDED: Final = 10


@dataclass(frozen=True)
class Policy:
    """Which versions may go: those that are not among the newest so many, and are older than so much."""

    keep: int | None
    older_than: timedelta | None

    def outdated(self, versions: Set[int], now: datetime, made_at: Callable[[], Mapping[int, datetime]]) -> set[int]:
        """The versions of a table that are outside of everything that is to be kept."""
        found = set(versions)
        if self.keep is not None:
            found -= set(sorted(versions)[-self.keep :])
        if self.older_than is not None and found:
            times = made_at()
            limit = now - self.older_than
            # A version whose time is not known was made a moment ago.
            found = {version for version in found if version in times and times[version] < limit}
        return found


def read_policy(keep: int | None, older_than: timedelta | str | None) -> Policy:
    """A policy as it is given; one that keeps hardly anything is warned of."""
    if keep is None and older_than is None:
        hint = f"give keep, at least {RECOMMENDED} for a graph in use, or older_than, for example 7d"
        raise BadRequest("a cleanup needs to know what to keep", hint=hint)
    if keep is not None and keep < 1:
        hint = "keep at least 1: the newest version always stays"
        raise BadRequest(f"keep={keep} is not a number of versions", hint=hint)
    age = timedelta(seconds=parse_duration(older_than)) if isinstance(older_than, str) else older_than
    if age is not None and age < timedelta(0):
        raise BadRequest(f"older_than={older_than} lies in the future", hint="give an age, for example 7d")
    if keep is not None and keep < WARN_BELOW:
        text = f"keep={keep} leaves almost nothing of the history; keep at least {RECOMMENDED} versions of a graph in use"
        warnings.warn(text, UserWarning, stacklevel=3)
    return Policy(keep, age)


def staging_grace() -> timedelta:
    """How old something must be that nothing refers to before it is taken for left over."""
    given = os.environ.get(GRACE_VARIABLE)
    if given is None:
        return GRACE
    try:
        found = timedelta(seconds=parse_duration(given))
    except BadRequest:
        found = timedelta(0)
    if found > timedelta(0):
        return found
    text = f"{GRACE_VARIABLE}={given} is not a duration like 7d; {GRACE.days}d is used"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    return GRACE


@dataclass(frozen=True)
class Live:
    """What the branches of a graph show."""

    snapshots: tuple[Snapshot, ...]

    @property
    def keys(self) -> dict[str, str]:
        """The keys of tables by their paths."""
        return {path: key for each in self.snapshots for key, path in each.locations.items()}

    @property
    def entries(self) -> list[Entry]:
        return [entry for each in self.snapshots for entry in each.entries.values()]

    def pins(self, path: str) -> dict[str | None, set[int]]:
        """The versions of a table that branches show, by table branch. Where a table was dropped, there may be none."""
        found: dict[str | None, set[int]] = {}
        for snapshot in self.snapshots:
            for entry in snapshot.entries.values():
                if entry.path == path:
                    found.setdefault(entry.branch, set()).add(entry.version)
            for entry in snapshot.dropped.values():
                if entry.path == path:
                    found.setdefault(entry.branch, set())
        return found
