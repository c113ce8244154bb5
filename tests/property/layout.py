"""Writing tokens as text: with any whitespace and comments that the language allows between two tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from hypothesis import strategies as st

Tokens = Sequence[str]

_GAPS = ("", "", " ", " ", "  ", "\n", "\n  ", "\n\n\n", "\t", " \n ")
_NESTED = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_]")


@dataclass(frozen=True)
class Layout:
    """One way of writing tokens down. Seed 0 means one blank between any two of them."""

    seed: int = 0
    comments: tuple[tuple[int, str], ...] = ()
    """Where a comment stands (modulo the number of places) and its text, including `//` or `/*`."""
    crlf: bool = False
    bom: bool = False

    def write(self, tokens: Tokens) -> str:
        random = Random(self.seed)
        places: dict[int, list[str]] = {}
        for place, comment in self.comments:
            places.setdefault(place % (len(tokens) + 1), []).append(comment)
        parts = ["\ufeff"] if self.bom else []
        for place in range(len(tokens) + 1):
            before = tokens[place - 1] if place else ""
            after = tokens[place] if place < len(tokens) else ""
            parts.append(self._gap(random, before, after, places.get(place, [])))
            parts.append(after)
        return "".join(parts)

    def _gap(self, random: Random, before: str, after: str, comments: list[str]) -> str:
        inner = bool(before and after)
        if not comments:
            gap = self._space(random, inner)
            return gap or (" " if inner and needs_gap(before, after) else "")
        pieces = [self._space(random, inner)]
        for comment in comments:
            pieces.append(comment)
            if comment.startswith("//"):
                pieces.append(self._newline())
            pieces.append(self._space(random, inner))
        return "".join(pieces)

    def _space(self, random: Random, inner: bool) -> str:
        if self.seed == 0:
            return " " if inner else ""
        return random.choice(_GAPS).replace("\n", self._newline())

    def _newline(self) -> str:
        return "\r\n" if self.crlf else "\n"


def needs_gap(before: str, after: str) -> bool:
    """Whether two tokens would run together without anything in between."""
    return bool(_WORD.match(before[-1]) and _WORD.match(after[0]))


def comments_of(text: str) -> list[str]:
    """The comments of a text, sorted, without trailing whitespace; found without the help of the compiler."""
    found = (match.group() for match in _NESTED.finditer(text))
    return sorted("\n".join(line.rstrip() for line in each.split("\n")) for each in found if each[0] == "/")


# Text that trips over careless code: quotes, escapes, comment signs, characters that some functions take for line ends.
_TRICKY = "ab Z09_-+*/\\\"'`#@$%{}[]()<>=!?.,:;|~^&\t\r\x00\x07\x0b\x0c\x1c\x85\xa0\u2028\ufeffäß港🚢\u0301\u202e"
_any_characters = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
tricky_text = st.text(_TRICKY, max_size=12) | st.text(_any_characters, max_size=8)
multiline_text = st.lists(tricky_text, min_size=1, max_size=3).map("\n".join)


def _block(text: str) -> str:
    """A comment with this text; one that would end it too early is changed."""
    safe = text.replace("*/", "* /")
    return f"/*{safe} */" if safe.endswith("*") else f"/*{safe}*/"


comments = st.one_of(tricky_text.map("//{}".format), multiline_text.map(_block))
layouts = st.builds(
    Layout,
    seed=st.integers(0, 2**16),
    comments=st.lists(st.tuples(st.integers(0, 400), comments), max_size=6).map(tuple),
    crlf=st.booleans(),
    bom=st.sampled_from([False, False, False, True]),
)


def string_token(value: str, random: Random | None = None) -> str:
    """A string literal; newlines, returns and tabs are written raw or escaped."""
    out = value.replace("\\", "\\\\").replace('"', '\\"')
    for raw, escaped in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        if random is None or random.random() < 0.5:
            out = out.replace(raw, escaped)
    return f'"{out}"'


def number_tokens(value: int | float) -> list[str]:
    """A number as the grammars write it: a sign of its own, no exponent, digits on both sides of the point."""
    text = str(abs(value)) if isinstance(value, int) else format(Decimal(repr(abs(value))), "f")
    if isinstance(value, float) and "." not in text:
        text += ".0"
    negative = value < 0 or (value == 0 and str(value).startswith("-"))
    return ["-", text] if negative else [text]


def literal_tokens(value: str | int | float | bool, random: Random | None = None) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [string_token(value, random)] if isinstance(value, str) else number_tokens(value)
