"""Damaging texts: what a slip of the hand, a bad merge or a cut transfer makes of a valid text."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.property.strategies import pick, upto

# Words and signs of both languages, and some of neither.
TOKENS = (
    "node", "edge", "interface", "implements", "enum", "query", "match", "return", "order", "limit", "not", "set",
    "delete", "where", "contains", "starts_with", "search", "fuzzy", "nearest", "bm25", "rrf", "count", "sum", "min",
    "now", "date", "datetime", "as", "asc", "desc", "true", "null", "String", "I32", "Vector", "Blob", "Port", "x", "$x",
    "$_", "$p", "{", "}", "(", ")", "[", "]", "<", ">", "=", "!=", "<=", ":", ",", ".", "..", "->", "-", "?", "@", "@key",
    "@card", "@unique", "@embed", "@default", "0", "1", "99999999999999999999", "1.5", '"', '""', '"x"', '"\\q"', "//", "/*",
    "insert", "update", "*/", "#", "'", "*", "\\", "\x00", "é", "\ufeff", "\u2028", "\ud800", "$", "$1", "1a", "\r", "+",
    "é\u0301", "🚢", "\t\t",
)  # fmt: skip


@st.composite
def damaged_tokens(draw: DrawFn, tokens: list[str]) -> list[str]:
    """Tokens with a few of them deleted, doubled, swapped, replaced or added."""
    result = list(tokens)
    for _ in range(upto(draw, 3, least=1)):
        at = draw(st.integers(0, max(0, len(result) - 1)))
        kind = pick(draw, ["delete", "double", "swap", "replace", "insert", "take"])
        if not result or kind == "insert":
            result.insert(at, pick(draw, TOKENS))
        elif kind == "delete":
            del result[at : at + upto(draw, 3, least=1)]
        elif kind == "double":
            result.insert(at, result[at])
        elif kind == "replace":
            result[at] = pick(draw, TOKENS)
        else:
            other = draw(st.integers(0, len(result) - 1))
            result[at], result[other] = result[other], result[at] if kind == "swap" else result[other]
    return result


@st.composite
def damaged_text(draw: DrawFn, text: str) -> str:
    """Text with pieces cut out, doubled, moved, or with characters put in that do not belong there."""
    result = text
    for _ in range(upto(draw, 3, least=1)):
        start = draw(st.integers(0, len(result)))
        end = min(len(result), start + upto(draw, 12))
        kind = pick(draw, ["delete", "double", "insert", "truncate", "behead", "replace"])
        if kind == "delete":
            result = result[:start] + result[end:]
        elif kind == "double":
            result = result[:end] + result[start:]
        elif kind == "insert":
            result = result[:start] + pick(draw, TOKENS) + result[start:]
        elif kind == "truncate":
            result = result[:start]
        elif kind == "behead":
            result = result[start:]
        else:
            result = result[:start] + pick(draw, TOKENS) + result[end:]
    return result
