"""Names of tables in other databases."""

from __future__ import annotations

import re
from typing import Any

from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import BadRequest

_PART = r'"(?:[^"]|"")+"|[^".]+'
_TABLE = re.compile(rf"(?:({_PART})\.)?({_PART})", re.DOTALL)


def parse_table(name: Any, default_schema: str) -> tuple[str, str]:
    """Parse a table name into schema and table: a text with quotes around parts with a dot or quote, or a pair.

    >>> parse_table("sales.orders", "public"), parse_table('"a.b"."c""d"', "public"), parse_table("orders", "public")
    (('sales', 'orders'), ('a.b', 'c"d'), ('public', 'orders'))
    """
    if isinstance(name, tuple | list) and len(name) == 2 and all(isinstance(part, str) and part for part in name):
        return name[0], name[1]
    match = _TABLE.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        hint = 'write SCHEMA.TABLE, with double quotes around a part that has a dot, or give ("SCHEMA", "TABLE")'
        raise BadRequest(f"`{shown(name)}` does not name a table", hint=hint)
    return _plain(match[1]) if match[1] else default_schema, _plain(match[2])


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
