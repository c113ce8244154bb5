"""Limits of SQL texts, checked before anything parses them.

Parsers and planners recurse over what they read, and copy it: a text of a few thousand characters can overflow a stack, or
become a plan of millions of nodes. So a scan over the tokens of a text bounds how deep and how large its plan can get. The
scan takes the larger reading wherever a text can be read in two ways.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from omnigraph_compiler.deadline import check_deadline
from omnigraph_sql.errors import BadRequest, ResourceLimit
from omnigraph_sql.sqltext.duckdb_tokens import SqlToken, tokens_of

MOST_BYTES: Final = 2 << 20
MOST_TOKENS: Final = 250_000
MOST_NESTED: Final = 64
"""The largest nesting depth of brackets."""
MOST_CHAINED: Final = 1000
"""The most operators in one chain, those of enclosing brackets included."""
MOST_JOINED: Final = 128
"""The most relations in one join, subqueries and common table expressions included."""
MOST_RELATIONS: Final = 2000
"""The most relations of a plan, with every use of a common table expression inlined."""
MOST_WINDOWS: Final = 256
MOST_CUBED: Final = 10
"""The most columns of a CUBE: it groups by all their combinations."""
MOST_VIEWS: Final = 500
"""The most views that one statement reads; a view counts once per use."""
MOST_GROWN: Final = 1 << 20
"""The largest factor by which nested subqueries may lengthen a value by concatenating it with itself."""

_HARMLESS: Final = 160
"""A shorter text without brackets and common table expressions is within every limit."""
_WRITTEN_OUT: Final = re.compile("with|cube", re.IGNORECASE)
_STRIDE: Final = 1 << 12
"""The number of tokens between two checks of the time limit."""
_KEPT_TEXT: Final = 1 << 14
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_LOGICAL: Final = frozenset(("and", "or"))
_OPERATORS: Final = frozenset(
    ("not", "is", "in", "like", "ilike", "similar", "between", "glob", "regexp", "rlike", "div", "xor", "collate", "at")
)
_PAIRS: Final = frozenset(("||", "::", "<>", "<=", ">=", "!=", "->", "=>", "==", "&&", "**"))
_BRANCHES: Final = frozenset(("when", "then", "else"))
_JOINING: Final = frozenset(
    ("concat", "concat_ws", "array_concat", "array_cat", "list_concat", "list_cat", "make_array", "list_value")
)
_QUERIES: Final = frozenset(("select", "with", "from", "values", "table"))
_SET_OPERATIONS: Final = frozenset(("union", "except", "intersect", "minus"))
_AFTER_FROM: Final = frozenset(
    ("where", "group", "having", "order", "limit", "offset", "window", "qualify", "fetch", "select", "sample")
) | {"with", "values"}
_NO_OPERATOR: Final = frozenset(",;.$?")
_TYPED: Final = frozenset(("arrow_cast", "arrow_try_cast", "try_arrow_cast"))
"""Functions that parse a type name from a string."""
_BRACKETS: Final = re.compile(r"[()\[\]{}]")
_BACKTICKS: Final = re.compile(r"`[^`]*`")
_MANY: Final = 10**12
_SHORTEN: Final = "shorten it, split it into several, or pass lists as parameters"


def check_sql(text: str, what: str = "the statement") -> None:
    """Raise if a text is too large or too deeply nested for an engine."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(f"{what} is no valid UTF-8", hint="it has a lone surrogate; write plain text") from None
    if len(text) <= _HARMLESS and not _WRITTEN_OUT.search(text) and text.count("(") + text.count("[") < MOST_NESTED:
        return
    problem = _kept_problem(text) if len(text) <= _KEPT_TEXT else _problem(text)
    if problem is not None:
        raise _error(what, problem)


def too_deep(what: str) -> ResourceLimit:
    """Return the error for a text that is too deeply nested for a parser."""
    text = f"{what} is nested too deeply"
    return ResourceLimit(text, resource="statement nesting", limit=MOST_NESTED, actual=MOST_NESTED + 1, hint=_SHORTEN)


def too_many_views(actual: int) -> ResourceLimit:
    """Return the error for a statement that expands to too many views."""
    text = f"the statement reads more than {MOST_VIEWS} views, each counted as often as it is named"
    hint = "read fewer, or keep the rows of a view as a table"
    return ResourceLimit(text, resource="views", limit=MOST_VIEWS, actual=actual, hint=hint)


@dataclass(frozen=True)
class _Problem:
    resource: str
    limit: int
    actual: int


def _error(what: str, problem: _Problem) -> ResourceLimit:
    text = f"{what} has {problem.actual} {_SHOWN[problem.resource]}, more than {problem.limit}"
    return ResourceLimit(text, resource=problem.resource, limit=problem.limit, actual=problem.actual, hint=_SHORTEN)


_SHOWN: Final = {
    "statement bytes": "bytes",
    "statement tokens": "words and signs",
    "statement nesting": "brackets inside of each other",
    "statement operators": "operators one after the other",
    "statement windows": "windows",
    "statement cubes": "columns in a CUBE",
    "statement joins": "relations joined to each other",
    "statement growth": "times the length of its parts in one value, at worst",
    "statement relations": "relations, with common table expressions written out",
}


def _problem(text: str) -> _Problem | None:
    size = len(text.encode("utf-8"))
    if size > MOST_BYTES:
        return _Problem("statement bytes", MOST_BYTES, size)
    readings = [text]
    if "\\'" in text:
        readings.append(text.replace("\\'", "\\ "))  # a quote escaped by a backslash does not end the string
    if "`" in text:
        # One engine quotes identifiers with backticks; a quotation mark inside is an ordinary character.
        readings.append(_BACKTICKS.sub(lambda match: f'"{"_" * (len(match[0]) - 2)}"', text))
    return next((problem for problem in map(_problem_of, readings) if problem is not None), None)


_kept_problem = lru_cache(maxsize=512)(_problem)


def _problem_of(text: str) -> _Problem | None:
    tokens = tokens_of(text, MOST_TOKENS + 1)
    if len(tokens) > MOST_TOKENS:
        return _Problem("statement tokens", MOST_TOKENS, len(tokens))
    scan = _scanned(tokens)
    measured = (
        ("statement nesting", MOST_NESTED, scan.deepest),
        ("statement operators", MOST_CHAINED, scan.longest),
        ("statement windows", MOST_WINDOWS, scan.windows),
        ("statement cubes", MOST_CUBED, scan.most_cubed),
    )
    for resource, limit, actual in measured:
        if actual > limit:
            return _Problem(resource, limit, actual)
    relations, joined, grown = _expanded(scan)
    if grown > MOST_GROWN:
        return _Problem("statement growth", MOST_GROWN, grown)
    if joined > MOST_JOINED:
        return _Problem("statement joins", MOST_JOINED, joined)
    return _Problem("statement relations", MOST_RELATIONS, relations) if relations > MOST_RELATIONS else None


@lru_cache(maxsize=512)
def growth_of(text: str) -> tuple[int, bool]:
    """How many times longer than its parts a value of a statement may get, at worst, and whether it reads relations.

    >>> growth_of("select a || a as b from (select 'x' as a)")
    (2, True)
    """
    scan = _scanned(tokens_of(text, MOST_TOKENS))
    return _expanded(scan)[2], bool(scan.uses)


def _scanned(tokens: Sequence[SqlToken]) -> _Scan:
    scan = _Scan()
    for place, token in enumerate(tokens):
        if not place % _STRIDE:
            check_deadline()
        scan.take(tokens, place, token)
    return scan


@dataclass(kw_only=True)
class _Level:
    """The counts of one bracket."""

    logical: int = 0
    operators: int = 0
    set_operations: int = 0
    distinct: int = 0
    relations: int = 0
    subqueries: int = 0
    in_from: bool = False
    wants_relation: bool = False
    is_case: bool = False
    joins_values: bool = False
    """True if its comma-separated elements form one value."""
    values: int = 0
    """The number of concatenations in the current expression."""
    most_values: int = 0
    cubed: int = 0
    """The number of columns, if it is a CUBE."""
    cte: _Cte | None = None
    grown: int = 1
    """The growth factor of values outside of it."""

    @property
    def chained(self) -> int:
        return self.logical + self.operators + self.set_operations

    @property
    def joined(self) -> int:
        return self.relations + self.subqueries + self.distinct

    def next_part(self) -> None:
        """Start a new expression."""
        self.logical = self.operators = 0
        self.most_values = self.joined_values
        if not self.joins_values:
            self.values = 0

    @property
    def joined_values(self) -> int:
        return max(self.values, self.most_values)


@dataclass
class _Cte:
    """A common table expression: its name, and the tokens between its brackets."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class _Use:
    """A relation: its position, its name, and the number of relations joined there."""

    place: int
    name: str
    joined: int
    grown: int
    """The factor by which its values can grow in the enclosing queries."""


@dataclass(kw_only=True)
class _Scan:
    """Counts along the tokens of a text."""

    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    chained: int = 0
    """Operators in the enclosing brackets."""
    joined: int = 0
    most_joined: int = 0
    grown: int = 1
    windows: int = 0
    most_cubed: int = 0
    deepest: int = 0
    longest: int = 0
    casts: bool = False
    """True if the next string may be a type name."""
    suffixes: int = 0
    """Consecutive brackets, up to the last ones."""
    is_first: bool = False
    """True if the last token may be the first character of a two-character operator."""
    ctes: list[_Cte] = field(default_factory=list)
    uses: list[_Use] = field(default_factory=list)

    def take(self, tokens: Sequence[SqlToken], place: int, token: SqlToken) -> None:
        """Count one token."""
        level = self.levels[-1]
        if token.kind == "sign":
            self._take_sign(tokens, place, level)
        elif token.kind == "word":
            self._take_word(tokens, place, token, level)
        elif token.kind == "name" and level.wants_relation:
            self._relation(tokens, place, token, level)
        elif token.kind == "text" and self.casts:
            self.deepest = max(self.deepest, _nested(token.text))
        level = self.levels[-1]
        self.longest = max(self.longest, self.chained + level.chained)
        self.most_joined = max(self.most_joined, self.joined + level.joined)

    def _take_sign(self, tokens: Sequence[SqlToken], place: int, level: _Level) -> None:
        sign = tokens[place].text
        is_second, self.is_first = self.is_first and tokens[place - 1].text + sign in _PAIRS, False
        if sign in _OPENING:
            self._open(tokens, place, level)
        elif sign in _CLOSING:
            self._close(place)
        elif sign == ",":
            level.values += level.joins_values
            level.next_part()
            level.wants_relation = level.in_from
            level.cubed += bool(level.cubed)
            self.most_cubed = max(self.most_cubed, level.cubed)
        elif sign == ";":
            self.levels, self.chained, self.joined = [_Level()], 0, 0
        elif is_second:
            level.values += sign == "|"
        elif sign not in _NO_OPERATOR:
            level.operators += 1
            self.is_first = place + 1 < len(tokens) and tokens[place + 1].start == tokens[place].end

    def _take_word(self, tokens: Sequence[SqlToken], place: int, token: SqlToken, level: _Level) -> None:
        word = token.text.lower()
        self.casts |= word in _TYPED
        if word in _OPERATORS:
            level.operators += 1
        elif word in _LOGICAL:
            level.logical, level.operators = level.logical + 1, 0
        elif word in _BRANCHES:
            level.next_part()
        elif word == "case":
            self._enter(level, _Level(is_case=True))
        elif word == "end" and level.is_case:
            self._leave(place)
        elif word in _SET_OPERATIONS:
            self._combine(tokens, place, level)
        elif word in ("from", "join") and not (place and tokens[place - 1].text.lower() == "distinct"):
            level.next_part()
            level.in_from = level.wants_relation = True
        elif word in _AFTER_FROM:
            level.next_part()
            level.in_from = level.wants_relation = False
        elif level.wants_relation and word not in ("lateral", "only"):
            self._relation(tokens, place, token, level)

    def _open(self, tokens: Sequence[SqlToken], place: int, level: _Level) -> None:
        inner = _Level()
        self._take_suffix(tokens, place)
        name = _cte_name(tokens, place)
        before = tokens[place - 1].text.lower() if place else ""
        inner.joins_values = before in _JOINING
        inner.cubed = int(before == "cube")
        self.windows += before == "over"
        after = tokens[place + 1].text.lower() if place + 1 < len(tokens) else ""
        if name is not None:
            inner.cte = _Cte(name, place, len(tokens))
            self.ctes.append(inner.cte)
        elif level.wants_relation:
            self._relation(tokens, place, None, level)
            # Brackets around a join list relations from the first name on.
            inner.in_from = inner.wants_relation = True
        elif after in _QUERIES:
            level.subqueries += 1
        self._enter(level, inner)

    def _take_suffix(self, tokens: Sequence[SqlToken], place: int) -> None:
        """Count brackets right after brackets as nested: the type of a nested list, or repeated subscripts."""
        follows = place and tokens[place].text == "[" and tokens[place - 1].text == "]"
        self.suffixes = self.suffixes + 1 if follows else 0
        self.deepest = max(self.deepest, self.suffixes)

    def _enter(self, level: _Level, inner: _Level) -> None:
        self.chained += level.chained + 1
        self.joined += level.joined
        inner.grown = self.grown
        if level.in_from and not inner.is_case:
            self.grown = min(self.grown * (1 + level.joined_values), _MANY)
        self.levels.append(inner)
        self.deepest = max(self.deepest, len(self.levels) - 1)

    def _close(self, place: int) -> None:
        while self.levels[-1].is_case:
            self._leave(place)
        self._leave(place)

    def _leave(self, place: int) -> None:
        if len(self.levels) == 1:
            return
        closed = self.levels.pop()
        if closed.cte is not None:
            closed.cte.end = place
        outer = self.levels[-1]
        self.grown = closed.grown
        if not outer.in_from:
            outer.values += closed.joined_values
        self.chained -= outer.chained + 1
        self.joined -= outer.joined

    def _combine(self, tokens: Sequence[SqlToken], place: int, level: _Level) -> None:
        is_all = place + 1 < len(tokens) and tokens[place + 1].text.lower() == "all"
        level.set_operations += 1
        level.distinct += not is_all or tokens[place].text.lower() != "union"
        level.in_from = level.wants_relation = False
        level.next_part()
        level.relations = level.subqueries = 0

    def _relation(self, tokens: Sequence[SqlToken], place: int, token: SqlToken | None, level: _Level) -> None:
        level.relations += 1
        level.wants_relation = False
        while place + 2 < len(tokens) and tokens[place + 1].text == "." and token is not None:
            place, token = place + 2, tokens[place + 2]
        name = "" if token is None or token.name is None else token.name.lower()
        self.uses.append(_Use(place, name, self.joined + level.joined, min(self.grown * (1 + level.joined_values), _MANY)))


def _nested(text: str) -> int:
    """Return the largest nesting depth of brackets in a text."""
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(text):
        depth += 1 if bracket[0] in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest


def _cte_name(tokens: Sequence[SqlToken], place: int) -> str | None:
    """Return the name of the common table expression whose bracket opens here; None for other brackets."""
    if tokens[place].text != "(":
        return None
    at = place - 1
    while at > 0 and tokens[at].kind == "word" and tokens[at].text.lower() in ("materialized", "not"):
        at -= 1
    if at < 1 or tokens[at].text.lower() != "as":
        return None
    at -= 1
    if tokens[at].text == ")":  # its column names
        while at > 0 and tokens[at].text != "(":
            at -= 1
        at -= 1
    return None if at < 0 or (name := tokens[at].name) is None else name.lower()


def _expanded(scan: _Scan) -> tuple[int, int, int]:
    """Return the number of relations, the largest join and the growth of values, with every table expression inlined."""
    if max(len(scan.uses), len(scan.ctes)) > MOST_RELATIONS:
        return max(len(scan.uses), len(scan.ctes)), 0, 1
    weights: dict[str, int] = {}
    depths: dict[str, int] = {}
    growths: dict[str, int] = {}

    def weight(use: _Use) -> int:
        return max(1, weights.get(use.name, 1))

    def depth(use: _Use) -> int:
        return use.joined + depths.get(use.name, 0)

    def growth(use: _Use) -> int:
        return min(use.grown * growths.get(use.name, 1), _MANY)

    # In the order in which they end, so that inner ones come before outer ones; a name that is defined twice has the
    # larger values of both.
    uses = sorted(scan.uses, key=lambda use: use.place)
    for cte in sorted(scan.ctes, key=lambda cte: cte.end):
        inside = list(_between(uses, cte.start, cte.end))
        if not inside:
            continue
        total, deep = sum(map(weight, inside)), max(map(depth, inside))
        weights[cte.name] = max(weights.get(cte.name, 1), total)
        depths[cte.name] = max(depths.get(cte.name, 0), deep)
        growths[cte.name] = max(growths.get(cte.name, 1), *map(growth, inside))
    outer = [use for use in uses if not any(cte.start < use.place < cte.end for cte in scan.ctes)] if scan.ctes else uses
    total = sum(map(weight, outer)) + max(weights.values(), default=0)
    grown = max([1, *map(growth, outer), *growths.values()])
    return min(total, _MANY), max([scan.most_joined, *map(depth, outer), *depths.values()]), grown


def _between(uses: Sequence[_Use], start: int, end: int) -> Iterable[_Use]:
    first = bisect_left(uses, start, key=lambda use: use.place)
    for use in uses[first:]:
        if use.place > end:
            break
        yield use
