"""Identifiers of SQL: quoting, and names that an engine without case could not tell apart."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(*parts: str) -> str:
    """A name as it is written in SQL.

    >>> quoted("feature/x", 'a"b')
    '"feature/x"."a""b"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def case_safe_names(names: Iterable[str]) -> list[str]:
    """The same names, with a number where one differs from an earlier one only in case.

    >>> case_safe_names(["repoName", "reponame", "id"])
    ['repoName', 'reponame_1', 'id']
    """
    taken: set[str] = set()
    safe_names = []
    for name in names:
        wished, number = name, 1
        while wished.lower() in taken:
            wished, number = f"{name}_{number}", number + 1
        taken.add(wished.lower())
        safe_names.append(wished)
    return safe_names
