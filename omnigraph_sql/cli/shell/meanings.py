"""Which types the variables and tables of a statement stand for, as far as its text tells; it need not be complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from omnigraph_compiler import Catalog
from omnigraph_sql.cli.shell.statements import Token
from omnigraph_sql.cli.shell.vocabulary import SQL_KEYWORDS, TABLE_WORDS

Types: TypeAlias = tuple[str, ...]


def variable_types(found: Sequence[Token], catalog: Catalog) -> dict[str, Types]:
    """The types of the variables of a `.gq` query: those that are bound, and those that an edge leads to."""
    types: dict[str, Types] = {}
    for at, token in enumerate(found):
        if token.kind != "variable":
            continue
        after = [each.text for each in found[at + 1 : at + 5]]
        if after[:1] == [":"] and len(after) > 1 and after[1] in catalog.nodes:
            types[token.text] = (after[1],)
        else:
            types |= {name: type_ for name, type_ in _along(found, at, catalog) if name not in types}
    return types


def _along(found: Sequence[Token], at: int, catalog: Catalog) -> Iterator[tuple[str, Types]]:
    """What a traversal that begins at a variable says: `$a edge $b` or `$a $e: edge $b`, with hops or without."""
    begin = at + 1
    named = None
    if len(found) > begin + 1 and found[begin].kind == "variable" and found[begin + 1].text == ":":
        named, begin = found[begin].text, begin + 2
    words = [token for token in found[begin : begin + 9] if token.text not in "<>"]
    edge = catalog.edge_by_word(words[0].text) if words and words[0].kind == "word" else None
    if edge is None:
        return
    yield found[at].text, (edge.source,)
    if named is not None:
        yield named, (edge.name,)
    if len(words) > 1 and words[1].text == "{":
        closing = next((place for place, token in enumerate(words) if token.text == "}"), len(words))
        words = words[closing:]
    if len(words) > 1 and words[1].kind == "variable":
        yield words[1].text, (edge.target,)


def sql_types(found: Sequence[Token], catalog: Catalog) -> tuple[dict[str, Types], Types]:
    """The types that tables and their aliases stand for, and all of them together."""
    aliases: dict[str, Types] = {}
    mentioned: dict[str, None] = {}
    for at, token in enumerate(found):
        name = _type_name(token, catalog)
        before = found[at - 1].text.lower() if at else ""
        if name is None or not (before in TABLE_WORDS or before in (",", ".")):
            continue
        if before == "." and not (at > 2 and found[at - 3].text.lower() in (*TABLE_WORDS, ",")):
            continue
        after = found[at + 1 : at + 3]
        if after and after[0].text.lower() == "as":
            after = after[1:]
        mentioned[name] = None
        aliases[_plain(token)] = (name,)
        if after and after[0].kind in ("word", "name") and after[0].text.lower() not in SQL_KEYWORDS:
            aliases[_plain(after[0])] = (name,)
    return aliases, tuple(mentioned)


def _plain(token: Token) -> str:
    return token.text.strip('"`')


def _type_name(token: Token, catalog: Catalog) -> str | None:
    """The type that a name in SQL means; case matters only where names differ by nothing else."""
    if token.kind not in ("word", "name"):
        return None
    name = _plain(token).removeprefix("node:").removeprefix("edge:")
    if name in catalog.nodes or name in catalog.edges:
        return name
    alike = [each for each in (*catalog.nodes, *catalog.edges) if each.lower() == name.lower()]
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
