"""The tokenizer of both languages.

A word is read whole and then looked up among the grammar's keywords, so `queryfoo` is never `query foo`. The lexer depends
on context only in an `enum(...)` list, whose values may begin with digits and contain dashes; the parser's state says when
one is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from lark.lexer import Lexer, PatternStr, Token

from omnigraph_compiler.deadline import check_deadline
from omnigraph_compiler.diagnostics import Reporter
from omnigraph_compiler.query.foreign_syntax import foreign_syntax_help
from omnigraph_compiler.source import BOM, SourceText

MAX_NESTING = 100
"""The maximum nesting of brackets. Real files stay below ten; the limit lets later passes recurse safely."""

MAX_CHARACTERS = 4 << 20
MAX_TOKENS = 250_000
"""The maximum number of tokens and comments of a text; so many are parsed within seconds."""
_STRIDE = 1024
"""The number of tokens between two calls of `check_deadline`."""

# Possessive quantifiers: an unterminated string must fail in linear time.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]++)
  | (?P<comment>//[^\n]*+ | /\*(?:[^*]++|\*(?!/))*+\*/)
  | (?P<word>[a-z_][A-Za-z0-9_]*+)
  | (?P<VARIABLE>\$[a-z_][A-Za-z0-9_]*+)
  | (?P<open>[{(\[])
  | (?P<close>[})\]])
  | (?P<TYPENAME>[A-Z][A-Za-z0-9_]*+)
  | (?P<STRING>"(?:[^"\\]++|\\.)*+")
  | (?P<FLOAT>[0-9]++\.[0-9]++)
  | (?P<INTEGER>[0-9]++)
  | (?P<symbol>->|>=|<=|!=|\.\.|[:,.<>=@?-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]++")
_BAD_ESCAPE = re.compile(r'\\[^"\\nrt]', re.DOTALL)
_GOOD_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


class LanguageLexer(Lexer):
    """Feeds lark's LALR parser. Keyword and symbol names come from the grammar itself."""

    __future_interface__ = 2

    def __init__(self, lexer_conf: Any) -> None:
        fixed = {t.pattern.value: t.name for t in lexer_conf.terminals if isinstance(t.pattern, PatternStr)}
        self._fixed: dict[str, str] = fixed
        self._has_enums = "enum" in fixed

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:  # noqa: PLR0912 (the inner loop of every parse)
        text: str = lexer_state.text.text
        states = parser_state.parse_conf.parse_table.states
        fixed, has_enums = self._fixed, self._has_enums
        match = _TOKEN.match
        position, size, depth, count = (1 if text.startswith(BOM) else 0), len(text), 0, 0
        while position < size:
            lexeme = match(text, position)
            if lexeme is None:
                _reject(text, position, is_query=not has_enums)
            end = lexeme.end()
            count += 1
            if not count % _STRIDE:
                check_deadline()
            kind = lexeme.lastgroup
            if kind in ("space", "comment"):
                position = end
                continue
            value = lexeme.group()
            if kind == "word":
                name = fixed.get(value, "IDENT")
            elif kind == "open":
                depth += 1
                if depth > MAX_NESTING:
                    Reporter(SourceText(text)).fail(
                        "parse",
                        f"brackets are nested more than {MAX_NESTING} levels deep",
                        (position, end),
                        help="split the query or flatten the nesting",
                    )
                name = fixed[value]
            elif kind == "close":
                depth -= 1
                name = fixed[value]
            elif kind == "symbol":
                name = fixed.get(value, "SYMBOL")
            else:
                name = kind or ""
                if name == "STRING" and "\\" in value:
                    _check_escapes(text, position, value)
            if has_enums and "ENUMVALUE" in states[parser_state.position]:
                enum_value = _ENUM_VALUE.match(text, position)
                if enum_value is not None:
                    name, value, end = "ENUMVALUE", enum_value.group(), enum_value.end()
            token = Token(name, value, position, end_pos=end)
            lexer_state.last_token = token
            yield token
            position = end


def check_text(text: str) -> None:
    """Raise if a text cannot be encoded as UTF-8 or is too long to be parsed."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        # The replacement character takes as many bytes as a surrogate would, so all positions stay the same.
        report = Reporter(SourceText(_SURROGATE.sub("\ufffd", text)))
        message = f"U+{ord(text[error.start]):04X} is half of a surrogate pair, which is no character"
        report.fail("parse", message, (error.start, error.start + 1), help="write the whole character")
    _check_length(text)


def _check_length(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        message = f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are possible"
        Reporter(SourceText(text)).fail(
            "parse", message, (MAX_CHARACTERS, MAX_CHARACTERS + 1), help="divide it into several"
        )
    if len(text) <= MAX_TOKENS:
        return
    position, count = 0, 0
    while (lexeme := _TOKEN.match(text, position)) is not None:  # the parser rejects text that is no token
        position = lexeme.end()
        count += lexeme.lastgroup != "space"
        if count > MAX_TOKENS:
            message = f"the text has more than {MAX_TOKENS} tokens"
            Reporter(SourceText(text)).fail("parse", message, lexeme.span(), help="divide it into several")


def comments(text: str) -> list[tuple[int, int]]:
    """Return the character ranges of all comments of a text that has been tokenized without error."""
    ranges = []
    position, size = (1 if text.startswith(BOM) else 0), len(text)
    while position < size:
        token = _TOKEN.match(text, position)
        if token is None:
            _reject(text, position)
        if token.lastgroup == "comment":
            ranges.append(token.span())
        position = token.end()
    return ranges


def unquote(token: str) -> str:
    """Return the value of a string token."""
    body = token[1:-1]
    return _GOOD_ESCAPE.sub(lambda m: _ESCAPES[m.group(1)], body) if "\\" in body else body


def quote(value: str) -> str:
    """Return a string token with this value."""
    out = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + out.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def _check_escapes(text: str, position: int, value: str) -> None:
    if not _BAD_ESCAPE.search(value):
        return
    for escape in _GOOD_ESCAPE.finditer(value, 1):
        if escape.group(1) not in _ESCAPES:
            Reporter(SourceText(text)).fail(
                "parse",
                f"unsupported escape sequence `\\{escape.group(1)}` in a string".replace("\n", "⏎"),
                (position + escape.start(), position + escape.end()),
                help='the escapes are \\" \\\\ \\n \\r \\t; write other characters as they are',
            )


def _reject(text: str, position: int, *, is_query: bool = False) -> NoReturn:
    report = Reporter(SourceText(text))
    char = text[position]
    if char == '"':
        report.fail("parse", "this string never ends", (position, position + 1), help='close it with `"`')
    if text.startswith("/*", position):
        report.fail("parse", "this comment never ends", (position, position + 2), help="close it with `*/`")
    hints = {
        "#": "comments are written `// like this` or `/* like this */`",
        "'": 'strings are written in double quotes: "like this"',
        "$": "a variable is `$` directly followed by a lower-case letter or `_`",
        "*": "there is no `*`; an open upper bound is written by leaving it out, as in `@card(1..)`",
        "\0": "the file contains a NUL byte; is it a text file?",
        "!": "the comparison is written `!=`",
        BOM: "remove the byte order mark; it is allowed only at the very beginning",
    }
    foreign_help = foreign_syntax_help(text, position) if is_query else None
    shown = f"`{char}`" if char.isprintable() else f"character U+{ord(char):04X}"
    report.fail("parse", f"unexpected {shown}", (position, position + 1), help=foreign_help or hints.get(char))
