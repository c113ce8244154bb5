"""Completion: names of the graph and keywords, from the text around the cursor."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph_compiler import Catalog
from omnigraph_sql.cli.shell import vocabulary
from omnigraph_sql.cli.shell.name_scope import Types, columns_of, properties_of, sql_types, variable_types
from omnigraph_sql.cli.shell.statements import ShellStatement, ShellToken, kind_at, split, tokens
from omnigraph_sql.sqltext import identifiers

_WORD = re.compile(r"\$?\w*\Z")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_SILENT = ("space", "comment", "open_comment", "open_string")
_CLAUSES = ("select", "from", "where", "by", "on", "(", ")")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A text that can replace the last `replaces` characters before the cursor."""

    text: str
    replaces: int
    about: str = ""


@dataclass(frozen=True)
class Names:
    """The names of a graph and a session, for completion."""

    catalog: Catalog
    branches: Callable[[], Sequence[str]]
    params: Callable[[], Iterable[str]]
    commands: Sequence[tuple[str, str]]
    """With what they take: `branch`, `state`, `type`, `param`, `file`, `statement`, words of their own, or nothing."""
    tags: Callable[[], Sequence[str]] = tuple


Candidate = tuple[str, str]
"""A name as it is written, and what it is."""


def complete(before: str, after: str, names: Names) -> list[Proposal]:
    """The proposals for the text around the cursor."""
    rest = _unfinished(before)
    if rest.kind != "command":
        return _in_statement(rest.text, after, names)
    word, space, argument = rest.text.partition(" ")
    if not space:
        return _starting(word, [(name, "command") for name, _ in names.commands])
    return _in_command(dict(names.commands).get(word, ""), argument.lstrip(), after, names)


def _unfinished(before: str) -> ShellStatement:
    """The statement at the end of a text. A command is one as long as its line goes on."""
    pieces = split(before)
    if pieces.rest is not None:
        return pieces.rest
    last = pieces.complete[-1] if pieces.complete else None
    if last is not None and last.kind == "command" and last.line == before.count("\n") + 1:
        return ShellStatement("command", before[before.rfind("\n") + 1 :][last.column - 1 :])
    return ShellStatement("sql", "")


def quoted(name: str) -> str:
    """A name as SQL needs it: in double quotes, unless it is a plain word that means nothing else."""
    if _PLAIN_NAME.match(name) and name.lower() not in vocabulary.SQL_KEYWORDS:
        return name
    return identifiers.quoted(name)


# Commands ------------------------------------------------------------------------------------------------------------


def _in_command(takes: str, argument: str, after: str, names: Names) -> list[Proposal]:
    match takes:
        case "statement":
            return _in_statement(argument.removeprefix("analyze").lstrip(), after, names)
        case "branch":
            return _starting(argument, [(name, "branch") for name in names.branches()])
        case "state":
            return _starting(argument, [("now", ""), *((name, "tag") for name in names.tags())])
        case "type":
            return _starting(argument, [*_typed(names.catalog.nodes, "node"), *_typed(names.catalog.edges, "edge")])
        case "param":
            return [] if " " in argument else _starting(argument, [(name, "parameter") for name in names.params()])
        case "file":
            return _files(argument)
    return _starting(argument, [(word, "") for word in takes.split("|") if word])


def _typed(names: Iterable[str], what: str) -> Iterator[Candidate]:
    return ((name, what) for name in names)


def _files(argument: str) -> list[Proposal]:
    directory, name = os.path.split(argument)
    try:
        entries = sorted(os.scandir(os.path.expanduser(directory) or "."), key=lambda entry: entry.name)
    except OSError:
        return []
    shown = [entry for entry in entries if name.startswith(".") or not entry.name.startswith(".")]
    return _starting(name, [(entry.name + ("/" if entry.is_dir() else ""), "") for entry in shown])


# Statements ----------------------------------------------------------------------------------------------------------


def _in_statement(before: str, after: str, names: Names) -> list[Proposal]:
    kind = kind_at(before)
    seen = list(tokens(kind, before))
    if seen and _is_silent(seen[-1]):
        return []
    word = _word_before(seen, before)
    before_word = [token for token in seen if token.kind not in _SILENT and token.start < len(before) - len(word)]
    ahead = [token for token in tokens(kind, after) if token.kind not in _SILENT]
    if kind == "gq":
        return _starting(word, list(_gq(word, before_word, ahead, names)))
    return _starting(word, list(_sql(word, before_word, ahead, names)))


def _is_silent(last: ShellToken) -> bool:
    """True if the cursor is in a string or in a comment."""
    is_line = last.kind == "comment" and not last.text.endswith("*/")
    return is_line or last.kind in ("open_comment", "open_string")


def _word_before(seen: Sequence[ShellToken], before: str) -> str:
    """The word before the cursor; in SQL it may be a name whose quote is open."""
    if seen and seen[-1].kind == "open_name":
        return seen[-1].text
    match = _WORD.search(before)
    return match.group() if match else ""


def _gq(word: str, tokens: Sequence[ShellToken], ahead: Sequence[ShellToken], names: Names) -> Iterator[Candidate]:
    catalog = names.catalog
    last = tokens[-1].text if tokens else ""
    types = variable_types([*tokens, *ahead], catalog)
    if last == "." and len(tokens) > 1 and tokens[-2].kind == "variable":
        yield from _columns(properties_of(types.get(tokens[-2].text) or _mentioned([*tokens, *ahead], catalog), catalog))
    elif word.startswith("$"):
        yield from dict.fromkeys((token.text, "variable") for token in [*tokens, *ahead] if token.kind == "variable")
    elif last == ":" and len(tokens) > 2 and [token.kind for token in tokens[-3:-1]] == ["variable", "variable"]:
        yield from _edge_words(catalog)
    elif last == ":" and _in_parameters(tokens):
        yield from ((name, "type") for name in vocabulary.GQ_TYPES)
    elif last == ":" and tokens[-2].kind == "variable":
        yield from _typed(catalog.nodes, "node")
    elif last in ("insert", "update", "delete"):
        yield from [*_typed(catalog.nodes, "node"), *_typed(catalog.edges, "edge")]
    elif tokens and tokens[-1].kind == "variable":
        yield from _edge_words(catalog)
    else:
        yield from _columns(properties_of(_mentioned(tokens, catalog), catalog))
        if word:
            yield from ((name, "keyword") for name in vocabulary.GQ_KEYWORDS)
            yield from ((f"{name}(", "function") for name in vocabulary.GQ_FUNCTIONS)
            yield from [*_typed(catalog.nodes, "node"), *_typed(catalog.edges, "edge")]


def _in_parameters(tokens: Sequence[ShellToken]) -> bool:
    return all(token.text not in (")", "{") for token in tokens)


def _edge_words(catalog: Catalog) -> Iterator[Candidate]:
    """Edge types as traversals write them."""
    return ((name[0].lower() + name[1:], f"{edge.source} -> {edge.target}") for name, edge in catalog.edges.items())


def _mentioned(tokens: Sequence[ShellToken], catalog: Catalog) -> Types:
    words = {token.text for token in tokens if token.kind == "word"}
    return tuple(name for name in (*catalog.nodes, *catalog.edges) if name in words)


def _sql(word: str, tokens: Sequence[ShellToken], ahead: Sequence[ShellToken], names: Names) -> Iterator[Candidate]:
    catalog = names.catalog
    last = tokens[-1].text if tokens else ""
    aliases, mentioned = sql_types([*tokens, *ahead], catalog)
    if last == "." and len(tokens) > 1:
        owner = _unquoted(tokens[-2])
        if owner in aliases:
            yield from _quoted(_columns(columns_of(aliases[owner], catalog)))
        elif owner.partition("@")[0] in names.branches() or owner.startswith("@"):
            yield from _quoted([*_typed(catalog.nodes, "node"), *_typed(catalog.edges, "edge")])
    elif word.startswith("$"):
        yield from ((f"${name}", "parameter") for name in names.params())
    elif last.lower() in vocabulary.TABLE_WORDS or (last == "," and _in_from(tokens)):
        yield from _tables(names)
    else:
        yield from _quoted(_columns(columns_of(mentioned, catalog)))
        yield from ((alias, "table") for alias in aliases if alias not in mentioned)
        if word:
            yield from _tables(names)
            yield from ((f"{name}(", "function") for name in (*vocabulary.SQL_FUNCTIONS, *vocabulary.GRAPH_FUNCTIONS))
            written = str.upper if word.isupper() and len(word) > 1 else str.lower
            yield from ((written(name), "keyword") for name in vocabulary.SQL_KEYWORDS)
            if not tokens and "query".startswith(word):
                yield "query", "keyword"


def _in_from(tokens: Sequence[ShellToken]) -> bool:
    """True if a comma is in a list of tables."""
    clauses = [token.text.lower() for token in tokens if token.text.lower() in _CLAUSES]
    return bool(clauses) and clauses[-1] == "from"


def _tables(names: Names) -> Iterator[Candidate]:
    types = [*_typed(names.catalog.nodes, "node"), *_typed(names.catalog.edges, "edge")]
    states = [*((name, "branch") for name in names.branches()), *((f"@{name}", "tag") for name in names.tags())]
    return _quoted([*types, *states])


def _unquoted(token: ShellToken) -> str:
    return token.text[1:-1].replace('""', '"') if token.kind == "name" else token.text


def _columns(columns: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
    return iter(dict(columns).items())


def _quoted(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    return ((quoted(name), about) for name, about in candidates)


def _starting(word: str, candidates: Iterable[Candidate]) -> list[Proposal]:
    """The candidates that begin with a word, whatever the case, and whether or not its quote was typed."""
    begun = word.removeprefix('"').lower()
    is_quoted = word.startswith('"')
    proposals: dict[str, Proposal] = {}
    for text, about in candidates:
        written = f'"{text}"' if is_quoted and not text.startswith('"') else text
        if written.removeprefix('"').lower().startswith(begun) and written != word:
            proposals.setdefault(written, Proposal(written, len(word), about))
    return list(proposals.values())
