"""Names in DuckDB, which takes those that differ only in case for the same."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(*parts: str) -> str:
    """A name as it is written in SQL.

    >>> quoted("feature/x", 'a"b')
    '"feature/x"."a""b"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def parts_of(name: str) -> list[str]:
    """The parts of a name as DuckDB writes it, without the alias that may follow.

    >>> parts_of('"feature/x".Person AS p'), parts_of('"a""b"."c.d"')
    (['feature/x', 'Person'], ['a"b', 'c.d'])
    """
    parts, at = [""], 0
    while at < len(name):
        char = name[at]
        if char == '"':
            end = at + 1
            while end < len(name) and (name[end] != '"' or name[end + 1 : end + 2] == '"'):
                end += 2 if name[end] == '"' else 1
            parts[-1] += name[at + 1 : end].replace('""', '"')
            at = end
        elif char == ".":
            parts.append("")
        elif char == " ":
            break
        else:
            parts[-1] += char
        at += 1
    return parts


def told_apart(names: Iterable[str]) -> list[str]:
    """The same names, with a number where one differs from an earlier one only in case.

    >>> told_apart(["repoName", "reponame", "id"])
    ['repoName', 'reponame_1', 'id']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        wished, number = name, 1
        while wished.lower() in taken:
            wished, number = f"{name}_{number}", number + 1
        taken.add(wished.lower())
        found.append(wished)
    return found
