"""A place in the tokens of a statement, and how a grammar reads on from it.

Expressions and queries are taken as parts of the text up to a word that ends them outside all brackets and `case`, so that
the engine gets them as they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from omnigraph_compiler.diagnostics import clip
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.duckdb_tokens import SqlToken

T = TypeVar("T")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())


class StatementCursor:
    """Reads the tokens of one statement."""

    def __init__(self, script: str, tokens: Sequence[SqlToken]) -> None:
        self._script = script
        self._tokens = tokens
        self.at = 0

    @property
    def is_done(self) -> bool:
        """True after the last token."""
        return self.at >= len(self._tokens)

    def word(self, ahead: int = 0) -> str:
        """The unquoted word or the sign at a place, in lower case; empty after the end and for other tokens."""
        place = self.at + ahead
        if not 0 <= place < len(self._tokens):
            return ""
        token = self._tokens[place]
        return token.text.lower() if token.kind in ("word", "sign") else ""

    def has(self, *words: str) -> bool:
        """True if these words are next."""
        return all(self.word(ahead) == word for ahead, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Pass these words, if they are next."""
        if not self.has(*words):
            return False
        self.at += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        """Pass one of these words, if it is next, and return it."""
        word = self.word()
        if not word or word not in words:
            return None
        self.at += 1
        return word

    def expect(self, *words: str) -> None:
        """Pass these words, or raise."""
        for word in words:
            if not self.accept(word):
                self.fail(f"`{word.upper()}`")

    def fail(self, expected: str, hint: str | None = None) -> NoReturn:
        """Raise the error for a token that should be another one."""
        if self.is_done:
            raise BadRequest(f"the statement ends where {expected} is expected", hint=hint or "complete it")
        token = self._tokens[self.at]
        line, column = position(self._script, token.start)
        text = f"expected {expected}, found `{clip(token.text)}` at line {line}, column {column}"
        raise BadRequest(text, hint=hint or "names that are keywords or have special characters need double quotes")

    def end(self) -> None:
        """Raise unless the statement ends here."""
        if not self.is_done:
            self.fail("the end of the statement")

    def name(self, what: str = "a name") -> str:
        """A name, quoted or not."""
        token = None if self.is_done else self._tokens[self.at]
        if token is None or token.name is None or not token.name:
            self.fail(what)
        self.at += 1
        return token.name

    def qualified_name(self, what: str = "the name of a table") -> tuple[str, ...]:
        """A name with what stands before it, separated by dots."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        if len(parts) > 3:
            raise BadRequest(f"`{'.'.join(parts)}` has more than three parts", hint="write SCHEMA.TABLE")
        return tuple(parts)

    def names(self, what: str = "the name of a column") -> tuple[str, ...]:
        """Names in parentheses."""
        return self.list_of(lambda: self.name(what))

    def list_of(self, member: Callable[[], T]) -> tuple[T, ...]:
        """Members in parentheses, separated by commas."""
        self.expect("(")
        members = [member()]
        while self.accept(","):
            members.append(member())
        self.expect(")")
        return tuple(members)

    def text_value(self) -> str | None:
        """A string, or null."""
        if self.accept("null"):
            return None
        token = None if self.is_done else self._tokens[self.at]
        if token is None or token.kind != "text":
            self.fail("a text in single quotes")
        self.at += 1
        if token.text.startswith("'"):
            return token.text[1:-1].replace("''", "'")
        if token.text.startswith("$"):
            tag = token.text[: token.text.index("$", 1) + 1]
            return token.text[len(tag) : -len(tag)]
        raise BadRequest("a text with escapes cannot be a comment", hint="write it in plain single quotes")

    def part(self, what: str, *stops: str) -> str:
        """The text up to one of some words or signs outside brackets and `case`, or up to the end."""
        start = self.at
        self._skip(frozenset(stops))
        if self.at == start:
            self.fail(what)
        return self.between(start, self.at)

    def between(self, start: int, end: int) -> str:
        """The text of some tokens."""
        return self._script[self._tokens[start].start : self._tokens[end - 1].end]

    def skip_to(self, words: tuple[str, str], *others: str) -> None:
        """Pass everything up to two words, or one of others, outside all brackets, or up to the end."""
        while True:
            self._skip(frozenset((words[0], *others)))
            if self.is_done or self.has(*words) or self.word() in others:
                return
            self.at += 1

    def skip_to_any(self, *words: str) -> None:
        """Pass everything up to one of some words outside all brackets, or up to the end."""
        self._skip(frozenset(words))

    def skip_to_end_of_query(self) -> None:
        """Pass a query, up to `with data` or `with no data`, or up to the end."""
        self.at += 1
        while True:
            self._skip(frozenset(("with",)))
            if self.is_done or self.has("with", "data") or self.has("with", "no", "data"):
                return
            self.at += 1

    def brackets(self) -> str:
        """The text in parentheses, without them."""
        self.expect("(")
        inner = self.part("an expression", ")")
        self.expect(")")
        return inner

    def _skip(self, stops: frozenset[str]) -> None:
        closing: list[str] = []
        while not self.is_done:
            word = self.word()
            if not closing and word in stops and not self._is_inside(word):
                return
            if word in _OPENING:
                closing.append(_OPENING[word])
            elif word == "case":
                closing.append("end")
            elif closing and word == closing[-1]:
                closing.pop()
            elif word in _CLOSING:
                self.fail("another bracket" if closing else "the end of the expression")
            self.at += 1
        if closing:
            self.fail(f"`{closing[-1].upper()}`")

    def _is_inside(self, word: str) -> bool:
        """True for a word that is part of an operator: `is distinct from`; `set` and others are names after a dot."""
        return (word == "from" and self.word(-1) == "distinct") or (self.at > 0 and self.word(-1) == "." and word.isalpha())


def position(text: str, at: int) -> tuple[int, int]:
    r"""Line and column of a place, counted from 1.

    >>> position("select 1;\n  select 2", 12)
    (2, 3)
    """
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
