"""Help for constructs of Cypher, GQL and SQL: their form in `.gq`, or the fact that there is none.

A help text is looked up by the position of a syntax error: by the word or sign at the position, else by the word before it.
Code in a help text compiles where it is inserted; a test applies each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from omnigraph_compiler.query.help_texts import (
    ALIAS,
    AND,
    ARITHMETIC,
    COMMENT,
    COUNT,
    DELETE,
    DISTINCT,
    FUNCTIONS,
    GROUPS,
    HELP_OF_WRITES,
    INSERT,
    INSERTED,
    NEVER_NULL,
    NO_COMMAS,
    NULL_HELP,
    OFFSET,
    ONE_COMPARISON,
    QUERY,
    REPLACED,
    SQL,
    STATEMENTS,
    UPDATE,
    WHERE,
)
from omnigraph_compiler.query.proposals import Place, disjunction, is_in_binding, last_access, membership, sort_keys, type_of
from omnigraph_compiler.types import FOREIGN_TYPES

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LAST_WORD = re.compile(r"(?<![$@.A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)\s*\Z")
_PREDICATE = re.compile(r"\b(?:update|delete)\s+\w+\s*(?:set\s*\{[^{}]*\}\s*)?where\b[^{}]*\Z", re.IGNORECASE)
_JOINED = re.compile(r"(?:and|or|in|is|not|like|ilike|between|matches)\b|[&|~]", re.IGNORECASE)
_JOINED_BEFORE = re.compile(r"\b(?:and|or|in|is|not|like|ilike|between|matches)\s*\Z", re.IGNORECASE)
_CLAUSES = (
    "query",
    "match",
    "return",
    "order",
    "limit",
    "insert",
    "update",
    "delete",
    "set",
    "as",
    "contains",
    "true",
    "false",
)
_CALLED = ("count", "sum", "avg", "min", "max", "nearest", "search", "fuzzy", "date", "datetime", "now", "desc", "asc")
_KEYWORDS = frozenset((*_CLAUSES, *_CALLED))
_WRITES = ("insert", "create", "update", "set", "delete", "detach", "remove", "merge", "upsert", "drop", "truncate")
_HOPS = re.compile(r"\$\w+(\s+\$\w+\s*:\s*|\s+(?=[a-z_<]))(<?[a-z_]\w*>?)\s*(\{[0-9,.\s]*)?\Z")
"""A traversal up to its edge or its hops: an optional edge variable, the edge, the opened braces."""
_WRITTEN = re.compile(r"\b(?:insert|update|delete)\s+[A-Z]\w*\b[^@]*\Z")
_READ_BEFORE = re.compile(r"\bmatch\s*\{[^@]*\}\s*\Z")
_HEAD = 4_000
"""The number of characters before and after the position that are examined."""


def foreign_syntax_help(text: str, at: int) -> str | None:
    """Return help for syntax of another language at an offset of a query, or None if there is none."""
    place = text[max(0, at - _HEAD) : at], text[at : at + _HEAD]
    if _PREDICATE.search(place[0]) and (_JOINED.match(place[1]) or _JOINED_BEFORE.search(place[0])):
        return ONE_COMPARISON
    for sign, help_ in _SIGNS:
        if sign.match(place[1]) and (help_text := help_(place)):
            return help_text
    if help_text := _by_word(place):
        return help_text
    return word_help("case") if re.search(r"\bcase\s+when\b[^}]*\Z", place[0], re.IGNORECASE) else None


def _by_word(place: Place) -> str | None:
    head, rest = place
    here, before = _WORD.match(rest), _LAST_WORD.search(head)
    if here is not None and (help_ := _by_frame(here[0].lower(), head, rest[here.end() :])):
        return help_
    if here is not None and (help_ := word_help(here[0], head, rest[here.end() :])):
        return help_
    if here is not None and here[0].isupper() and here[0].lower() in _KEYWORDS:
        return f"keywords are written in lower case: `{here[0].lower()}`"
    if before is not None:
        return word_help(before[1], head[: before.start()], rest)
    return None


def _by_frame(word: str, head: str, rest: str) -> str | None:
    """Return help for a word in the wrong context: outside any query, in a write, or before a parenthesis."""
    query = head[max(head.rfind("query"), 0) :]
    if word in _WRITES and query.count("{") == query.count("}"):
        return f"a mutation is written `query name() {{ {STATEMENTS.get(word, INSERTED)} }}`"
    if word in ("order", "limit", "return", "skip", "offset") and _WRITTEN.search(query):
        return "a mutation has neither `order` nor `limit`, and returns nothing but row counts"
    if word in ("insert", "update", "delete") and _READ_BEFORE.search(query):
        return f"a query either reads or writes; {HELP_OF_WRITES[word]}"
    if rest.lstrip().startswith("(") and word in FUNCTIONS:
        return FUNCTIONS[word]
    if re.search(r":\s*\Z", head) and _WRITTEN.search(query) and re.match(r"\s*[+*/%-]", rest):
        return ARITHMETIC
    typed = re.search(r"[(,]\s*(\$[a-z_]\w*)\s*\Z", query)
    if typed is not None and "{" not in query:
        return f"a type follows a colon: `{typed[1]}: {FOREIGN_TYPES.get(word, 'String')[0]}`"
    if word not in _WORDS and word[0].isalpha() and re.search(r"\bmatch\s*\{\s*\Z", head) and re.match(r"\s*\}", rest):
        return "a node is written `$a: Type`"
    return None


def word_help(word: str, head: str = "", rest: str = "") -> str | None:
    """Return help for a word between two pieces of text, or None if it is no keyword of another language."""
    help_ = _WORDS.get(word.lower())
    return help_ if help_ is None or isinstance(help_, str) else help_((head, rest))


def _membership(place: Place) -> str:
    return f"membership is written the other way round: `{membership(place)}`"


def _disjunction(place: Place) -> str:
    if re.search(r"\breturn\s*\{[^{}]*\Z", place[0], re.IGNORECASE):
        return ARITHMETIC
    place = place[0].rstrip().rstrip("|)"), place[1].lstrip("|")
    condition, field = disjunction(place)
    variable = field.partition(".")[0]
    listed = ", with a list parameter `$values`" if condition.startswith("$values") else ""
    return (
        f"there is no `or`; one of several values is `{condition}`{listed}, and one of several conditions is "
        f"`not {{ {variable}: {type_of(variable, place[0])} not {{ FIRST }} not {{ SECOND }} }}`"
    )


def _conjunction(place: Place) -> str:
    return "the pairs of a binding are separated by commas" if is_in_binding(place) else AND


def _null(place: Place) -> str:
    field = last_access(place)
    return (
        "there is no test for null, but null equals nothing: "
        f"`not {{ {field} = {field} }}` keeps the rows where it is null, `{field} = {field}` the others"
    )


def _null_literal(place: Place) -> str:
    if re.search(r"\$[a-z_]\w*\s+is\s+(?:not\s+)?\Z", place[0], re.IGNORECASE):
        return NEVER_NULL
    compared = re.search(r"(\$[a-z_]\w*\.[a-z_]\w*)\s*(?:!?=|<>)\s*\Z", place[0])
    if compared is not None:
        return _null((compared[1], ""))
    return NULL_HELP if place == ("", "") else f"there is no null literal; {NULL_HELP}"


def _text_pattern(place: Place) -> str:
    field = last_access(place)
    return f'there are no patterns of text; write `{field} starts_with "text"` or `{field} contains "text"`'


def _ends(place: Place) -> str:
    return f'there is no `ends_with`; the nearest is `{last_access(place)} contains "text"`'


def _starts(place: Place) -> str:
    return f'it is one word: `{last_access(place)} starts_with "text"`'


def _order(place: Place) -> str | None:
    keys = sort_keys(place)
    if keys is None:
        return "sort keys stand in braces, an aggregate by its alias: `order { $x.name desc }`"
    return f"sort keys stand in braces: `order {{ {keys} }}`"


def _by(place: Place) -> str | None:
    if re.search(r"order\s*\Z", place[0], re.IGNORECASE):
        return _order(place)
    return GROUPS if re.search(r"group\s*\Z", place[0], re.IGNORECASE) else None


def _negated(place: Place) -> str | None:
    if re.search(r"\$[a-z_]\w*\s+is\s*\Z", place[0], re.IGNORECASE) and re.match(r"\s*null\b", place[1], re.IGNORECASE):
        return NEVER_NULL
    if keyword := re.match(r"\s*in\b", place[1], re.IGNORECASE):
        condition = membership((place[0], place[1][keyword.end() :]))
        return f"membership is written the other way round: `not {{ {condition} }}`"
    if re.match(r"\s*(?:i?like|contains|starts|matches|similar|regexp)", place[1], re.IGNORECASE):
        field = last_access(place)
        return f'a negation stands in braces: `not {{ {field} starts_with "text" }}`, `not {{ {field} contains "text" }}`'
    return 'a negation stands in braces: `not { $x.name = "a" }`'


def _is(place: Place) -> str | None:
    return _null(place) if re.match(r"\s*(not\s+)?null\b", place[1], re.IGNORECASE) else "equality is written `=`"


def _edge(_: Place) -> str:
    return "an edge is written by its name in lower case: `$a knows $b`, with hops `$a knows{1,3} $b`"


def _pattern(_: Place) -> str:
    return "a node is written `$a: Type`, an edge by its name in lower case: `$a knows $b`"


def _star(place: Place) -> str | None:
    head = place[0].rstrip()
    hops = _HOPS.search(head)
    if hops is not None:
        return _hops(hops[2], has_variable="$" in hops[1])
    if re.search(r"count\s*\(\Z", head, re.IGNORECASE):
        return COUNT
    if re.search(r"return\s*\{?\Z", head, re.IGNORECASE) or head.endswith("."):
        return "there is no `*`; name what to return: `return { $x, $x.name }`"
    return ARITHMETIC


def _hops(word: str, *, has_variable: bool = False) -> str:
    note = ", without an edge variable" if has_variable else ""
    return f"hops have a minimum and a maximum{note}: `{word}{{1,3}}`"


def _hops_here(place: Place) -> str | None:
    """Return help if the position is in the braces of hops."""
    hops = _HOPS.search(place[0].rstrip())
    return None if hops is None or not hops[3] else _hops(hops[2], has_variable="$" in hops[1])


def _variable(place: Place) -> str | None:
    head = place[0].rstrip()
    operand = re.match(r"\$[a-z_]\w*(?:\.[a-z_]\w*)?", place[1])
    if operand is None:
        return None
    if re.search(r"\breturn\Z", head):
        return f"the items of `return` stand in braces: `return {{ {operand[0]} }}`"
    return _order(place) if re.search(r"\border\Z", head) else _hops_here(place)


def _colon(place: Place) -> str | None:
    variable = re.search(r"(\$[a-z_]\w*)\s*\Z", place[0])
    typed = re.match(r":\s*([A-Z]\w*)", place[1])
    if variable is not None and typed is not None:
        return f"the type of a node is a clause of its own: `{variable[1]}: {typed[1]}`"
    word = _LAST_WORD.search(place[0])
    if word is not None and typed is not None:
        return f"variables begin with `$`: `${word[1].lower()}: {typed[1]}`"
    in_return = re.search(r"\breturn\s*\{[^{}]*\Z", place[0])
    return f"an alias follows its expression: `$x.name as {word[1]}`" if word is not None and in_return else None


def _comma(place: Place) -> str | None:
    if re.search(r"\blimit\s+[0-9]+\s*\Z", place[0]):
        return OFFSET
    if re.search(r"\b(?:return|order)\s*\{[^{}]*\Z|,\s*\Z|\)\s*\Z", place[0]) or is_in_binding(place):
        return _open_hop(place)
    return _open_hop(place) or (NO_COMMAS if re.search(r"\bmatch\s*\{", place[0]) else None)


def _quoted(place: Place) -> str | None:
    return ALIAS if re.search(r"\bas\s*\Z", place[0], re.IGNORECASE) else None


def _brace(place: Place) -> str | None:
    if query := re.search(r"\bquery\s+([a-z_]\w*)\s*\Z", place[0]):
        return f"parentheses follow the name, also without parameters: `{query[1]}()`"
    return UPDATE if re.search(r"\bupdate\s+\w+\s*\Z", place[0]) else None


def _end(place: Place) -> str | None:
    if re.search(r"\b(?:update\s+\w+\s+set\s*\{[^{}]*\}|delete\s+[A-Z]\w*)\s*\Z", place[0]):
        return 'a condition is required: `where name = "a"`'
    return _hop(place)


def _equals(place: Place) -> str | None:
    if re.search(r"\bquery\s+\w+\s*\([^){]*\Z", place[0]):
        return "parameters have no defaults; a nullable one may be left out: `$x: I32?`"
    return _double_equals(place) or _assigned(place)


def _minus(place: Place) -> str:
    if re.search(r"\blimit\s*\Z", place[0]):
        return "a limit is a whole number that is not negative: `limit 10`"
    if re.match(r"<?-+\s*(?:[\[>-]|[A-Za-z_]\w*\s*-)", place[1]):
        return COMMENT if re.match(r"--(?![>(\[-])", place[1]) else _edge(place)
    if re.match(r"-\s*[0-9.]", place[1]) and not re.search(r"[\w)\]]\s*\Z", place[0]):
        return "literals have no sign; pass a negative number as a parameter"
    if re.search(r"(=|<|>|contains|starts_with|:|,|\()\s*\Z", place[0]):
        return "literals have no sign; pass a negative number as a parameter"
    return ARITHMETIC


def _parenthesis(place: Place) -> str | None:
    head = place[0].rstrip()
    if re.search(r"\bnot\Z", head, re.IGNORECASE):
        return _negated(place)
    if re.search(r"\bquery\Z", head):
        return f"a query has a name: {QUERY}"
    if write := re.search(r"\b(insert|update|delete)(?:\s+[A-Z]\w*)?\Z", head):
        return HELP_OF_WRITES[write[1]]
    if re.search(r"\$[a-z_]\w*\s+<?[a-z_]\w*>?(?:\{[^{}]*\})?\Z", head):
        return _pattern(place)
    if joined := re.match(r"\(+([^(){}]*?)\)?\s+(or|and)\s", place[1], re.IGNORECASE):
        return word_help(joined[2], head + joined[1], place[1][joined.end() :])
    if re.match(r"\(\s*[^(){}]*[=<>]", place[1]) and re.search(r"[{}\w\"]\Z", head):
        return "conditions stand without parentheses, one after the other"
    if re.search(r"\bmatch\s*\{?\Z", head, re.IGNORECASE) or re.match(
        r"\(\s*\w*\s*(:\s*\w+)?\s*(\{[^}]*\}\s*)?\)", place[1]
    ):
        return _pattern(place)
    if re.search(r"\b(and|or)\Z", head, re.IGNORECASE):
        return word_help(_LAST_WORD.findall(head)[-1], head[: head.rstrip().rfind(" ")])
    return None


def _double_equals(place: Place) -> str | None:
    return "equality is written `=`" if place[0].endswith("=") else None


def _dot(place: Place) -> str | None:
    word = _LAST_WORD.search(place[0])
    after = re.match(r"\.([a-z_]\w*)", place[1])
    return None if word is None or after is None else f"variables begin with `$`: `${word[1].lower()}.{after[1]}`"


def _hop(place: Place) -> str | None:
    count = re.search(r"[a-z_]\w*>?\s*\{\s*([0-9]+)\s*\Z", place[0])
    return None if count is None else f"hops have a minimum and a maximum: `{{{count[1]},{count[1]}}}`"


def _open_hop(place: Place) -> str | None:
    maximum = re.match(r",\s*([0-9]+)\s*\}", place[1])
    if maximum is None or not re.search(r"[a-z_]\w*>?\s*\{\s*\Z", place[0]):
        return None
    return f"hops have a minimum and a maximum: `{{1,{maximum[1]}}}`"


def _assigned(place: Place) -> str | None:
    name = re.search(r"[{,]\s*([a-z_]\w*)\s*\Z", place[0])
    return None if name is None else f"a value follows a colon: `{name[1]}: VALUE`"


def _unsupported(word: str, alternative: str) -> str:
    return f"there is no `{word}`; {alternative}"


def _where(place: Place) -> str | None:
    is_written = re.search(r"\b(update|delete|insert)\b[^{}]*(\{[^{}]*\}\s*)?\Z", place[0], re.IGNORECASE)
    return ONE_COMPARISON if is_written else WHERE


def _match(place: Place) -> str | None:
    if re.search(r"\bquery\s+\w+\s*\([^(){}]*\)\s*\{\s*\Z", place[0]) and re.match(r"\s*\{", place[1]):
        return None  # nothing is wrong but its capital letters
    return word_help("optional") if re.search(r"\boptional\s*\Z", place[0], re.IGNORECASE) else QUERY


def _ordered(place: Place) -> str | None:
    if re.search(r"\blimit\s*\S+\s*\Z", place[0], re.IGNORECASE):
        return "`order` stands before `limit`"
    by = re.match(r"\s*by\b", place[1], re.IGNORECASE)
    return None if by is None else _order((place[0], place[1][by.end() :]))


def _delete(place: Place) -> str | None:
    return DELETE if re.match(r"\s*(from\b|\()", place[1], re.IGNORECASE) else None


def _from(place: Place) -> str | None:
    if re.search(r"\bdelete\s*(from\s*)?\Z", place[0], re.IGNORECASE):
        return DELETE
    return SQL if re.search(r"\bselect\b", place[0], re.IGNORECASE) else None


_WORDS: Mapping[str, str | Callable[[Place], str | None]] = {
    "or": _disjunction,
    "xor": _disjunction,
    "and": _conjunction,
    "not": _negated,
    "in": _membership,
    "is": _is,
    "isnull": _null,
    "like": _text_pattern,
    "ilike": _text_pattern,
    "matches": _text_pattern,
    "regexp": _text_pattern,
    "similar": _text_pattern,
    "ends_with": _ends,
    "endswith": _ends,
    "ends": _ends,
    "startswith": _starts,
    "starts": _starts,
    "between": 'there is no `between`; write both ends: `$x.name >= "a" $x.name <= "b"`',
    "distinct": DISTINCT,
    "offset": OFFSET,
    "skip": OFFSET,
    "fetch": "limit the number of rows with `limit 10`",
    "top": "limit the number of rows with `limit 10`",
    "having": _unsupported("having", "filter the groups in your program, or in SQL over `gq(…)`"),
    "group": GROUPS,
    "by": _by,
    "orderby": _order,
    "sort": lambda place: _order((place[0], re.sub(r"^\s*by\b", "", place[1], flags=re.IGNORECASE))),
    "nulls": "null is the smallest value: first unless `desc` follows the key, then last",
    "on": lambda place: REPLACED if re.match(r"\s*(?:conflict|duplicate)", place[1], re.IGNORECASE) else None,
    "optional": _unsupported("optional", "run a second query for nodes without such an edge: `not { $x knows $_ }`"),
    "exists": "a required edge is a clause of its own: `$x knows $_`",
    "where": _where,
    "filter": WHERE,
    "with": lambda place: (
        SQL
        if re.match(r"\s+\w+\s+as\s*\(", place[1], re.IGNORECASE)
        else _unsupported("with", "a query has one `match` and one `return`")
    ),
    "unwind": _unsupported("unwind", 'a value of a list is found with `["a", "b"] contains $x.name`'),
    "union": _unsupported("union", "run two queries and put their rows together"),
    "case": _unsupported("case", "compute in your program, or in SQL over `gq(…)`"),
    "call": _unsupported("call", QUERY),
    "for": _unsupported("for", QUERY),
    "let": _unsupported("let", QUERY),
    "foreach": _unsupported("foreach", "run the mutation for each value, or load the data"),
    "join": "an edge is written by its name in lower case: `$a knows $b`",
    "select": SQL,
    "from": _from,
    "match": _match,
    "order": _ordered,
    "delete": _delete,
    "create": INSERT,
    "merge": REPLACED,
    "upsert": REPLACED,
    "into": INSERT,
    "values": INSERT,
    "set": UPDATE,
    "detach": DELETE,
    "remove": DELETE,
    "drop": DELETE,
    "truncate": DELETE,
    "null": _null_literal,
    "none": _null_literal,
    "nil": _null_literal,
    "ascending": "a direction is written `asc`: `order { $x.name asc }`",
    "descending": "a direction is written `desc`: `order { $x.name desc }`",
}

_SIGNS: tuple[tuple[re.Pattern[str], Callable[[Place], str | None]], ...] = tuple(
    (re.compile(pattern), help_)
    for pattern, help_ in (
        (r"&", lambda _: AND),
        (r"\|", _disjunction),
        (r"=?~", _text_pattern),
        (r"=>", lambda _: "at least is written `>=`"),
        (r"=", _equals),
        (r"<", lambda place: "at most is written `<=`" if place[0].endswith("=") else None),
        (r">", lambda place: "inequality is written `!=`" if place[0].endswith("<") else None),
        (r">", lambda place: "at least is written `>=`" if place[0].endswith("=") else None),
        (r"[*+]", _star),
        (r"-|<-", _minus),
        (r"[/%]", lambda _: ARITHMETIC),
        (r"\(", _parenthesis),
        (r"\)", lambda place: COUNT if re.search(r"\bcount\s*\(\s*\Z", place[0]) else None),
        (r"\.", lambda place: _dot(place) or _hops_here(place)),
        (r"\?", lambda place: word_help("optional") if re.search(r"\$\w+\s+<?\w+>?\s*\Z", place[0]) else None),
        (r"\$", _variable),
        (r":", _colon),
        (r"\{", _brace),
        (r"\}", _end),
        (r",", _comma),
        (r"[\"'`]", _quoted),
        (
            r'"\w+"\s*:',
            lambda place: f"names are written without quotes: `{re.findall('[A-Za-z_]+', place[1])[0]}`",
        ),
        (r";", lambda _: "nothing ends a query but its `}`"),
        (r"`", lambda _: "names are written without quotes: `$x.name`"),
    )
)
