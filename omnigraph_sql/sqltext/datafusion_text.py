"""Parts of SQL that DataFusion plans wrongly or not at all, written in another way that means the same.

- `timestamp` and `time` have microseconds, as tables and DuckDB have them: DataFusion's have nanoseconds, which end in 2262.
- The names after a recursive `with` go to its first query: DataFusion forgets them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph_sql.sqltext.duckdb_tokens import SqlToken, tokens_of
from omnigraph_sql.sqltext.identifiers import quoted

_Edit = tuple[int, int, str]
_TIMESTAMPS = ("timestamp", "timestamptz")
_CASTS = ("cast", "try_cast")
_TIME = "'Time64(Microsecond)'"


def datafusion_text(text: str) -> str:
    """A statement as DataFusion can plan it.

    >>> datafusion_text("select timestamp '9999-12-31', a::timestamp, cast(b as timestamp)")
    "select timestamp(6) '9999-12-31', a::timestamp(6), cast(b as timestamp(6))"
    >>> datafusion_text("with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) select n from t")
    'with recursive t as (SELECT * FROM (select 1) AS t("n") union all select n + 1 from t where n < 3) select n from t'
    """
    folded = text.lower()
    if "time" not in folded and "recursive" not in folded:
        return text
    tokens = tokens_of(text)
    edits = [*_microseconds(tokens), *_recursive_names(text, tokens)]
    for start, end, new in sorted(edits, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text


def _word(tokens: Sequence[SqlToken], place: int) -> str:
    """The unquoted word or sign at a place, in lower case; empty for other tokens."""
    if not 0 <= place < len(tokens):
        return ""
    token = tokens[place]
    return token.text.lower() if token.kind in ("word", "sign") else ""


def _microseconds(tokens: Sequence[SqlToken]) -> Iterator[_Edit]:
    """The types of times without a precision."""
    casts: list[int | None] = []
    for place, token in enumerate(tokens):
        word, before = _word(tokens, place), _word(tokens, place - 1)
        if word == "(":
            casts.append(place - 1 if before in _CASTS else None)
        elif word == ")" and casts:
            casts.pop()
        elif word in (*_TIMESTAMPS, "time") and before != "." and _word(tokens, place + 1) != "(":
            cast = casts[-1] if casts and before == "as" else None
            if word == "time":
                yield from _time(tokens, place, cast)
            elif cast is not None or before == ":" or _precedes_text(tokens, place + 1):
                yield token.end, token.end, "(6)"


def _time(tokens: Sequence[SqlToken], place: int, cast: int | None) -> Iterator[_Edit]:
    """A time of the day: DataFusion has no word for one with microseconds, and compares no others to it."""
    if place + 1 < len(tokens) and tokens[place + 1].kind == "text":
        text = tokens[place + 1]
        yield tokens[place].start, text.end, f"arrow_cast({text.text}, {_TIME})"
    elif cast is not None and _word(tokens, cast) == "cast" and _word(tokens, place + 1) == ")":
        yield tokens[cast].start, tokens[cast].end, "arrow_cast"
        yield tokens[place - 1].start, tokens[place].end, f", {_TIME}"


def _precedes_text(tokens: Sequence[SqlToken], place: int) -> bool:
    if _word(tokens, place) in ("with", "without") and _word(tokens, place + 1) == "time":
        place += 3
    return place < len(tokens) and tokens[place].kind == "text"


def _recursive_names(text: str, tokens: Sequence[SqlToken]) -> Iterator[_Edit]:
    """The lists of names of recursive queries, and where they go."""
    for start in range(len(tokens)):
        if _word(tokens, start) != "with" or _word(tokens, start + 1) != "recursive":
            continue
        place = start + 2
        while place < len(tokens) and tokens[place].name is not None:
            name, names = place, None
            place += 1
            if _word(tokens, place) == "(":
                names = (place, _closing(tokens, place))
                place = names[1] + 1
            while place < len(tokens) and _word(tokens, place) != "(":
                place += 1
            last = _closing(tokens, place)
            if names is not None:
                yield from _moved_names(text, tokens, name, names, (place, last))
            place = last + 2
            if _word(tokens, last + 1) != ",":
                break


def _moved_names(
    text: str, tokens: Sequence[SqlToken], name: int, names: tuple[int, int], body: tuple[int, int]
) -> Iterator[_Edit]:
    depth, union = 0, None
    for place in range(body[0] + 1, min(body[1], len(tokens))):
        word = _word(tokens, place)
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "union" and depth == 0:
            union = place
    if union is None or union == body[0] + 1 or names[1] >= len(tokens):
        return
    columns = ", ".join(quoted(token.name) for token in tokens[names[0] + 1 : names[1]] if token.name is not None)
    first, last = tokens[body[0] + 1].start, tokens[union - 1].end
    yield tokens[names[0]].start, tokens[names[1]].end, ""
    yield first, last, f"SELECT * FROM ({text[first:last]}) AS {tokens[name].text}({columns})"


def _closing(tokens: Sequence[SqlToken], opening: int) -> int:
    """The place of the bracket that closes another one; the end if none does."""
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(_word(tokens, place), 0)
        if depth == 0:
            return place
    return len(tokens)
