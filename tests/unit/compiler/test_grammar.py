"""The grammars themselves: conflict free, and their tables up to date."""

from __future__ import annotations

from importlib import resources

import pytest
from lark import Lark

from omnigraph_compiler.lexer import LanguageLexer
from omnigraph_compiler.tables import GRAMMARS, fingerprint


def _grammar(name: str) -> str:
    return resources.files("omnigraph_compiler").joinpath(f"grammar/{name}.lark").read_text("utf-8")


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_grammar_has_no_conflict(name: str) -> None:
    # In strict mode lark raises for shift/reduce conflicts, which it otherwise resolves by a rule nobody reads.
    Lark(_grammar(name), parser="lalr", lexer=LanguageLexer, strict=True)


def test_a_conflict_would_be_noticed() -> None:
    ambiguous = """
    start: item+
    item: IDENT | IDENT "as" IDENT
    ?x: "as" -> y
    AS: "as"
    %declare IDENT
    """.replace("start: item+", "start: (item | AS)+")
    with pytest.raises(Exception, match="conflict"):
        Lark(ambiguous, parser="lalr", lexer=LanguageLexer, strict=True)


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_tables_belong_to_the_grammar(name: str) -> None:
    tables = resources.files("omnigraph_compiler").joinpath(f"grammar/{name}.tables").read_bytes()
    assert tables.partition(b"\n")[0] == fingerprint(_grammar(name)), "run `make grammar` and commit the tables"
