"""Retention: the policy of a cleanup, and the versions that branches show, which no policy removes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from omnigraph_sql.arguments import refuse
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.runtime.limits import parse_duration

GRACE_VARIABLE: Final = "OMNIGRAPH_STAGING_GRACE"
GRACE: Final = timedelta(days=7)
"""Unreferenced files stay for this time: a writer may be about to commit them."""
WARN_BELOW: Final = 3
RECOMMENDED: Final = 10
_LONGEST: Final = timedelta(days=36_500)
"""The longest age: a later one could leave the range of dates."""


@dataclass(frozen=True)
class RetentionPolicy:
    """Retains the newest `keep` versions of a table, and those that are not older than `older_than`."""

    keep: int | None
    older_than: timedelta | None

    def outdated(self, versions: Set[int], now: datetime, made_at: Callable[[], Mapping[int, datetime]]) -> set[int]:
        """Return the versions of a table that the policy does not retain."""
        outdated = set(versions)
        if self.keep is not None:
            outdated -= set(sorted(versions)[-self.keep :])
        if self.older_than is not None and outdated:
            times = made_at()
            limit = now - self.older_than
            # A version without a time was created a moment ago.
            outdated = {version for version in outdated if version in times and times[version] < limit}
        return outdated


def age(name: str, value: Any) -> timedelta:
    """Return an age from a `timedelta` or a text like `7d`; more than a century counts as one."""
    if isinstance(value, str):
        return timedelta(seconds=min(parse_duration(value), _LONGEST.total_seconds()))
    if not isinstance(value, timedelta):
        refuse(name, value, "an age", "give a timedelta, or a text like 7d")
    return min(value, _LONGEST)


def read_policy(keep: int | None, older_than: timedelta | str | None) -> RetentionPolicy:
    """Return a checked policy; warn about one that retains almost nothing."""
    if keep is None and older_than is None:
        hint = f"give keep, at least {RECOMMENDED} for a graph in use, or older_than, for example 7d"
        raise BadRequest("a cleanup needs to know what to keep", hint=hint)
    if keep is not None and keep < 1:
        hint = "keep at least 1: the newest version always stays"
        raise BadRequest(f"keep={keep} is not a number of versions", hint=hint)
    span = None if older_than is None else age("older_than", older_than)
    if span is not None and span < timedelta(0):
        raise BadRequest(f"older_than={older_than} lies in the future", hint="give an age, for example 7d")
    if keep is not None and keep < WARN_BELOW:
        text = f"keep={keep} leaves almost nothing of the history; keep at least {RECOMMENDED} versions of a graph in use"
        warnings.warn(text, UserWarning, stacklevel=4)
    return RetentionPolicy(keep, span)


def staging_grace() -> timedelta:
    """Return the age from which an unreferenced file counts as a leftover."""
    setting = os.environ.get(GRACE_VARIABLE)
    if setting is None:
        return GRACE
    try:
        grace = age(GRACE_VARIABLE, setting)
    except BadRequest:
        grace = timedelta(0)
    if grace > timedelta(0):
        return grace
    text = f"{GRACE_VARIABLE}={setting} is not a duration like 7d; {GRACE.days}d is used"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    return GRACE


@dataclass(frozen=True)
class LiveVersions:
    """The table versions that branches show, that tags name, and that merges between branches start from."""

    snapshots: tuple[Snapshot, ...]
    tagged: Mapping[Tag, Snapshot] = field(default_factory=dict)
    """The states of the tags."""
    bases: tuple[Snapshot, ...] = ()
    """States that merges between branches will compare both sides with."""

    @property
    def keys(self) -> dict[str, str]:
        """The keys of tables by their paths."""
        return {path: key for snapshot in self._all for key, path in snapshot.locations.items()}

    @property
    def entries(self) -> list[Entry]:
        return [entry for snapshot in self._all for entry in snapshot.entries.values()]

    @property
    def _all(self) -> tuple[Snapshot, ...]:
        return (*self.snapshots, *self.tagged.values())

    def tag_pins(self, path: str) -> dict[str | None, dict[int, str]]:
        """Return the versions of a table that tags name, by table branch, each with the tag."""
        pins: dict[str | None, dict[int, str]] = {}
        for tag, snapshot in self.tagged.items():
            for entry in snapshot.entries.values():
                if entry.path == path:
                    pins.setdefault(entry.branch, {})[entry.version] = tag.name
        return pins

    def pins(self, path: str) -> dict[str | None, set[int]]:
        """Return the shown versions of a table by table branch. The set of a branch that dropped the table may be empty."""
        pins: dict[str | None, set[int]] = {}
        for snapshot in self.snapshots:
            for entry in snapshot.entries.values():
                if entry.path == path:
                    pins.setdefault(entry.branch, set()).add(entry.version)
            for entry in snapshot.dropped.values():
                if entry.path == path:
                    pins.setdefault(entry.branch, set())
        return pins

    def merge_bases(self, path: str) -> dict[str | None, set[int]]:
        """Return the versions of a table that merges start from, by table branch. They may be gone."""
        versions: dict[str | None, set[int]] = {}
        for snapshot in self.bases:
            for entry in snapshot.entries.values():
                if entry.path == path:
                    versions.setdefault(entry.branch, set()).add(entry.version)
        return versions
