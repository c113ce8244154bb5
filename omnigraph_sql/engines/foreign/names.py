"""Names of tables in other databases."""

from __future__ import annotations

import re
from typing import Any

from omnigraph_sql.errors import BadRequest

_PART = r'"(?:[^"]|"")+"|[^".]+'
_TABLE = re.compile(rf"(?:({_PART})\.)?({_PART})", re.DOTALL)


def parse_table(given: Any, default_schema: str) -> tuple[str, str]:
    """Schema and name of a table: a text, with double quotes around a part that has a dot or a quote, or a pair.

    >>> parse_table("sales.orders", "public"), parse_table('"a.b"."c""d"', "public"), parse_table("orders", "public")
    (('sales', 'orders'), ('a.b', 'c"d'), ('public', 'orders'))
    """
    if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(part, str) and part for part in given):
        return given[0], given[1]
    found = _TABLE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        hint = 'write SCHEMA.TABLE, with double quotes around a part that has a dot, or give ("SCHEMA", "TABLE")'
        raise BadRequest(f"`{given}` does not name a table", hint=hint)
    return _plain(found[1]) if found[1] else default_schema, _plain(found[2])


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
