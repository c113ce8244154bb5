"""The parser driver of both languages: loads lark's tables once and translates its errors into diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, UnexpectedToken

from omnigraph_compiler.diagnostics import CompileError, Diagnostic, Reporter, clip, did_you_mean
from omnigraph_compiler.lexer import check_text
from omnigraph_compiler.source import SourceText
from omnigraph_compiler.tables import load_parser
from omnigraph_compiler.types import BASE_TYPES, foreign_type_help

_MAX_INTEGER = 2**63 - 1

_DESCRIPTIONS = {
    "IDENT": "a name",
    "TYPENAME": "a type name",
    "VARIABLE": "a variable",
    "STRING": "a string",
    "FLOAT": "a number",
    "INTEGER": "a number",
    "ENUMVALUE": "an enum value",
    "$END": "the end of the file",
}
_FUNCTIONS = (
    "search", "match_text", "fuzzy", "nearest", "bm25", "rrf", "count", "sum", "avg", "min", "max", "now",
    "date", "datetime",
)  # fmt: skip


class Rejection(Exception):
    """An error that a grammar callback raises for text which the grammar itself accepts; the parser adds the source."""

    def __init__(self, text: str, at: tuple[int, int], help: str | None = None) -> None:
        super().__init__(text)
        self.text, self.at, self.help = text, at, help


class SyntaxBuilder(Transformer[Token, Any]):
    """Base class of the two transformers. It has no state: one instance serves every parse of the process."""

    @staticmethod
    def integer_value(token: Token) -> int:
        # Checked by length first: int() of a very long digit string is quadratic, and Python refuses it.
        digits = token.lstrip("0") or "0"
        if len(digits) > 19 or int(digits) > _MAX_INTEGER:
            raise Rejection(
                f"the integer {clip(str(token))} does not fit in 64 bits",
                span(token),
                f"the largest integer literal is {_MAX_INTEGER}",
            )
        return int(digits)

    @staticmethod
    def float_value(token: Token) -> float:
        value = float(token)
        if value == float("inf"):
            raise Rejection(f"the number {clip(str(token))} is too large for a 64-bit float", span(token))
        return value


def span(token: Token) -> tuple[int, int]:
    return token.start_pos, token.end_pos  # type: ignore[return-value]


class LanguageParser:
    """The parser of one language; its tables are loaded on first use."""

    def __init__(
        self, grammar: str, builder: type[SyntaxBuilder], help: Callable[[str, int], str | None] = lambda *_: None
    ) -> None:
        self._grammar = grammar
        self._help = help
        self._builder_type = builder

    @cached_property
    def _lark(self) -> Lark:
        return load_parser(self._grammar, self._builder_type())

    def parse(self, text: str) -> Any:
        check_text(text)
        try:
            return self._lark.parse(text)
        except Rejection as rejection:
            diagnostic = Reporter(SourceText(text)).diagnostic("parse", rejection.text, rejection.at, help=rejection.help)
        except UnexpectedToken as error:
            diagnostic = _explain(error, text, self._help)
        raise CompileError(diagnostic)


def _explain(error: UnexpectedToken, text: str, help: Callable[[str, int], str | None]) -> Diagnostic:
    report = Reporter(SourceText(text))
    token = error.token
    expected = _accepted(error)
    if token.type == "$END":
        at = len(text.rstrip())
        message = f"the file ends too early: expected {_describe(expected)}"
        return report.diagnostic("parse", message, (max(at - 1, 0), max(at, 1)))
    before = _before(text, token)
    foreign_help = help(text, token.start_pos or 0)
    if foreign_help is None and token.type == "LPAR" and before.text and before.text[0].islower():
        message = f"there is no function `{clip(before.text)}`"
        help_text = help(text, before.span[0]) or did_you_mean(before.text, _FUNCTIONS)
        return report.diagnostic("parse", message, before.span, help=help_text)
    actual = f"`{clip(str(token))}`" if token.type != "STRING" else f"the string {clip(str(token))}"
    help_text = foreign_help or _hint(token, expected)
    if foreign_help is None and token.type == "LBRACE" and before.text in ("return", "order", "match", "not"):
        help_text = f"is the block before `{before.text}` closed with `}}`?"
    return report.diagnostic("parse", f"expected {_describe(expected)}, found {actual}", span(token), help=help_text)


def _accepted(error: UnexpectedToken) -> set[str]:
    """Return exactly the tokens that the parser could accept here (LALR tables alone report too many)."""
    parser = error.interactive_parser
    if parser is None:
        return set(error.expected)
    state = parser.parser_state
    states = state.parse_conf.states
    return {name for name in error.expected if _can_shift(states, list(state.state_stack), name)}


def _can_shift(states: Any, stack: list[Any], name: str) -> bool:
    """True if the parser could shift the token, after simulated reductions of the state stack."""
    while True:
        action = states[stack[-1]].get(name)
        if action is None:
            return False
        kind, target = action
        if kind.name == "Shift":
            return True
        size = len(target.expansion)
        if size:
            del stack[-size:]
        if target.origin.name.startswith("$root"):
            return True
        stack.append(states[stack[-1]][target.origin.name][1])


class _Word(NamedTuple):
    text: str
    span: tuple[int, int]


def _before(text: str, token: Token) -> _Word:
    """Return the word right before a token; empty if the preceding character ends no word."""
    head = text[: token.start_pos].rstrip()
    start = len(head)
    while start and (head[start - 1].isalnum() or head[start - 1] == "_"):
        start -= 1
    if head[start - 1 : start] in ("$", "@"):
        start = len(head)
    return _Word(head[start:], (start, len(head)))


def _describe(expected: set[str]) -> str:
    names = set(expected)
    shown: list[str] = []
    if "IDENT" in names:
        # Wherever a name is accepted, contextual keywords are too; a list of them all would be noise.
        names = {name for name in names if not _is_word(name)}
    for name in sorted(names, key=_display_order):
        text = _DESCRIPTIONS.get(name) or _literal_text(name)
        if text not in shown:
            shown.append(text)
    if len(shown) > 6:
        shown = [*shown[:6], "something else that may stand here"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1] if shown else "nothing more"


_SYMBOLS = {
    "LPAR": "(", "RPAR": ")", "LBRACE": "{", "RBRACE": "}", "LSQB": "[", "RSQB": "]", "COLON": ":", "COMMA": ",", "DOT": ".",
    "DOTDOT": "..", "LESSTHAN": "<", "MORETHAN": ">", "EQUAL": "=", "GE": ">=", "LE": "<=", "NE": "!=", "AT": "@",
    "ARROW": "->", "MINUS": "-", "QMARK": "?",
}  # fmt: skip


def _is_word(name: str) -> bool:
    return name not in _SYMBOLS and name not in _DESCRIPTIONS


def _literal_text(name: str) -> str:
    return f"`{_SYMBOLS.get(name, name.lower())}`"


def _display_order(name: str) -> tuple[int, str]:
    return (0 if name in _DESCRIPTIONS else 1 if _is_word(name) else 2, name)


def _hint(token: Token, expected: set[str]) -> str | None:
    """Return help for the most likely mistake, or None."""
    text = str(token)
    if token.type == "MINUS" or (token.type == "SYMBOL" and text == "-"):
        return "literals have no sign; pass a negative number as a parameter"
    if text == "null":
        return "there is no null literal; null comes from nullable parameters and from stored data"
    if text in ("contains", "starts_with") and "GE" in expected:
        return "update and delete take one comparison: = != < <= > >="
    if text == "," and "AT" in expected and "RBRACE" in expected:
        return "properties are not separated by commas"
    if text == "<" and "QMARK" in expected:
        return "a list is written `[String]`, a vector `Vector(3)`"
    if "TYPENAME" in expected and (token.type == "IDENT" or text in ("date", "datetime")):
        return foreign_type_help(text) or did_you_mean(text, BASE_TYPES) or "type names begin with a capital letter"
    if "STRING" in expected and "DOTDOT" in expected and token.type == "TYPENAME":
        return f'write it in quotes: "{clip(text)}"'
    if "IDENT" in expected and token.type == "TYPENAME":
        written = text.lower() if text.isupper() else f"{text[0].lower()}{text[1:]}"
        return f"names begin with a lower-case letter: `{clip(written)}`"
    if "VARIABLE" in expected and token.type == "IDENT" and "IDENT" not in expected:
        keywords = did_you_mean(text, (name.lower() for name in expected if _is_word(name)))
        return keywords or f"variables begin with `$`: `${clip(text)}`"
    if token.type in ("IDENT", "TYPENAME"):
        return did_you_mean(text, (name.lower() for name in expected if _is_word(name)))
    return None
