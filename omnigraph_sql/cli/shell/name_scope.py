"""The types of the variables and tables of a statement, which may be incomplete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from omnigraph_compiler import Catalog
from omnigraph_sql.cli.shell.statements import ShellToken
from omnigraph_sql.cli.shell.vocabulary import SQL_KEYWORDS, TABLE_WORDS

Types: TypeAlias = tuple[str, ...]


def variable_types(tokens: Sequence[ShellToken], catalog: Catalog) -> dict[str, Types]:
    """The types of the variables of a `.gq` query: those that are bound, and those that an edge leads to."""
    types: dict[str, Types] = {}
    for at, token in enumerate(tokens):
        if token.kind != "variable":
            continue
        after = [following.text for following in tokens[at + 1 : at + 5]]
        if after[:1] == [":"] and len(after) > 1 and after[1] in catalog.nodes:
            types[token.text] = (after[1],)
        else:
            types |= {name: type_ for name, type_ in _along(tokens, at, catalog) if name not in types}
    return types


def _along(tokens: Sequence[ShellToken], at: int, catalog: Catalog) -> Iterator[tuple[str, Types]]:
    """The types in a traversal from a variable: `$a edge $b` or `$a $e: edge $b`, with or without hops."""
    begin = at + 1
    named = None
    if len(tokens) > begin + 1 and tokens[begin].kind == "variable" and tokens[begin + 1].text == ":":
        named, begin = tokens[begin].text, begin + 2
    words = [token for token in tokens[begin : begin + 9] if token.text not in "<>"]
    edge = catalog.edge_by_word(words[0].text) if words and words[0].kind == "word" else None
    if edge is None:
        return
    yield tokens[at].text, (edge.source,)
    if named is not None:
        yield named, (edge.name,)
    if len(words) > 1 and words[1].text == "{":
        closing = next((place for place, token in enumerate(words) if token.text == "}"), len(words))
        words = words[closing:]
    if len(words) > 1 and words[1].kind == "variable":
        yield words[1].text, (edge.target,)


def sql_types(tokens: Sequence[ShellToken], catalog: Catalog) -> tuple[dict[str, Types], Types]:
    """The types that tables and their aliases stand for, and all of them together."""
    aliases: dict[str, Types] = {}
    mentioned: dict[str, None] = {}
    for at, token in enumerate(tokens):
        name = _type_name(token, catalog)
        before = tokens[at - 1].text.lower() if at else ""
        if name is None or not (before in TABLE_WORDS or before in (",", ".")):
            continue
        if before == "." and not (at > 2 and tokens[at - 3].text.lower() in (*TABLE_WORDS, ",")):
            continue
        after = tokens[at + 1 : at + 3]
        if after and after[0].text.lower() == "as":
            after = after[1:]
        mentioned[name] = None
        aliases[_plain(token)] = (name,)
        if after and after[0].kind in ("word", "name") and after[0].text.lower() not in SQL_KEYWORDS:
            aliases[_plain(after[0])] = (name,)
    return aliases, tuple(mentioned)


def _plain(token: ShellToken) -> str:
    return token.text.strip('"`')


def _type_name(token: ShellToken, catalog: Catalog) -> str | None:
    """The type that a name in SQL means; case matters only where names differ by nothing else."""
    if token.kind not in ("word", "name"):
        return None
    name = _plain(token).removeprefix("node:").removeprefix("edge:")
    if name in catalog.nodes or name in catalog.edges:
        return name
    alike = [type_name for type_name in (*catalog.nodes, *catalog.edges) if type_name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def properties_of(types: Types, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Names and types of the properties of some types."""
    for name in types:
        for declared in (catalog.nodes.get(name), catalog.edges.get(name)):
            if declared is not None:
                yield from ((prop.name, str(prop.type)) for prop in declared.properties.values())


def columns_of(types: Types, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Names and types of the columns that some types have in SQL."""
    for name in types:
        yield "id", "String"
        if name not in catalog.nodes:
            yield from (("src", "String"), ("dst", "String"))
        yield from properties_of((name,), catalog)
