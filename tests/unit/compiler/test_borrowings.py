"""What people bring from Cypher, GQL and SQL gets help, and what help spells out compiles."""

from __future__ import annotations

import re

import pytest

from omnigraph_compiler import compile_query, compile_schema
from omnigraph_compiler.diagnostics import CompileError

CATALOG = compile_schema("node Type { name: String @key n: I32? tags: [String]? } edge Knows: Type -> Type")


def read(match: str = "$x: Type", items: str = "$x.name", rest: str = "") -> str:
    return f"query q() {{ match {{ {match} }} return {{ {items} }} {rest} }}"


def clause(text: str) -> str:
    return read(f"$x: Type {text}")


WRONG = {
    # conditions
    clause('$x.name = "a" or $x.name = "b"'): '`["a", "b"] contains $x.name`',
    clause('$x.name = "a" OR $x.name = "b"'): "there is no `or`",
    clause("$x.n > 1 || $x.n < 0"): "there is no `or`",
    clause("$x.n > 1 and $x.n < 5"): "one after the other",
    clause("$x.n > 1 AND $x.n < 5"): "one after the other",
    clause("$x.n > 1 && $x.n < 5"): "one after the other",
    clause("$x.n > 1 and ($x.n < 5)"): "one after the other",
    clause('$x.name == "a"'): "`=`",
    clause('$x.name === "a"'): "`=`",
    clause('$x.name <> "a"'): "`!=`",
    clause("$x.n => 1"): "`>=`",
    clause("$x.n =< 1"): "`<=`",
    clause('$x.name is "a"'): "`=`",
    clause('$x.name in ["a", "b"]'): '`["a", "b"] contains $x.name`',
    clause('$x.name IN ["a", "b"]'): '`["a", "b"] contains $x.name`',
    clause('$x.name not in ["a", "b"]'): '`not { ["a", "b"] contains $x.name }`',
    clause("$x.n is null"): "`not { $x.n = $x.n }`",
    clause("$x.n IS NOT NULL"): "`$x.n = $x.n`",
    clause("$x.n = null"): "null",
    clause("$x.n = NULL"): "null",
    clause('$x.name like "a%"'): '`$x.name starts_with "text"`',
    clause('$x.name LIKE "a%"'): '`$x.name contains "text"`',
    clause('$x.name =~ "a.*"'): '`$x.name starts_with "text"`',
    clause('$x.name ends_with "a"'): "there is no `ends_with`",
    clause('$x.name ENDS WITH "a"'): "there is no `ends_with`",
    clause('$x.name starts with "a"'): '`$x.name starts_with "text"`',
    clause('$x.name STARTS WITH "a"'): '`$x.name starts_with "text"`',
    clause("$x.n between 1 and 5"): "there is no `between`",
    clause('not $x.name = "a"'): "in braces",
    clause('NOT ($x.name = "a")'): "in braces",
    clause('not ($x.name = "a")'): "in braces",
    clause('where $x.name = "a"'): "conditions stand in `match`",
    clause('WHERE $x.name = "a"'): "conditions stand in `match`",
    clause('x.name = "a"'): "`$x.name`",
    clause("$x.name = 'a'"): '"like this"',
    clause("exists { $x knows $y }"): "a clause of its own",
    clause("optional { $x knows $y }"): "there is no `optional`",
    clause("optional match { $x knows $y }"): "there is no `optional`",
    "query q() { match { $x: Type } where $x.n > 1 return { $x.name } }": "conditions stand in `match`",
    "query q() { match { $x: Type } optional match { $x knows $y } return { $x.name } }": "there is no `optional`",
    # patterns
    read("(x:Type)"): "`$a: Type`",
    read("(x:Type)-[:KNOWS]->(y:Type)"): "`$a: Type`",
    "query q() { match (x:Type) return { $x.name } }": "`$a: Type`",
    clause("$x -[:knows]-> $y"): "`$a knows $b`",
    clause("$x --> $y"): "`$a knows $b`",
    clause("$x <-[:knows]- $y"): "`$a knows $b`",
    clause("$x knows* $y"): "`knows{1,3}`",
    clause("$x knows*1..3 $y"): "`knows{1,3}`",
    clause("$x knows+ $y"): "`knows{1,3}`",
    clause("$x <knows>* $y"): "`<knows>{1,3}`",
    clause("$x knows{1,} $y"): "`{1,4}`",
    clause("$x knows{0,3} $y"): "`{1,3}`",
    clause("$x knows{0,} $y"): "`{1,1}`",
    clause("$x knows{2} $y"): "`{2,2}`",
    clause("$x knows{,3} $y"): "`{1,3}`",
    read("$a: Type, $b: Type", "$a"): "without commas between clauses: `$a: Type $b: Type`",
    read("$a: Type, $a knows $b", "$a"): "without commas between clauses",
    read('$a: Type { name: "a", n: 1 }, $b: Type', "$a"): "without commas between clauses",
    read('$a: Type $a.name = "x", $a.n = 1', "$a"): "without commas between clauses",
    read('$a: Type $a.name = "x", not { $a knows $b, $b knows $c }', "$a"): "without commas between clauses",
    "query q() { match { $x: Type }, return { $x.name } }": "without commas between clauses",
    read(rest="order { $x.name }, limit 3"): "without commas between clauses",
    # results
    read(items='$x.name as "x y"'): "`$x.name as full_name`",
    read(items='$x.name as "name"'): "`$x.name as full_name`",
    read(items="$x.name as 'x y'"): "`$x.name as full_name`",
    read(items="$x.name as `x y`"): "`$x.name as full_name`",
    read(items="*"): "there is no `*`",
    "query q() { match { $x: Type } return * }": "there is no `*`",
    read(items="count(*)"): "`count($x)`",
    read(items="distinct $x.name"): "there is no `distinct`",
    read(items="DISTINCT $x.name"): "there is no `distinct`",
    read(items="count(distinct $x.name)"): "there is no `distinct`",
    "query q() { match { $x: Type } return distinct { $x.name } }": "there is no `distinct`",
    read(items="$x.n + 1"): "there is no arithmetic",
    read(items="$x.n - 1"): "there is no arithmetic",
    read(items="$x.n * 2"): "there is no arithmetic",
    read(items="$x.n / 2"): "there is no arithmetic",
    read(items="$x.n % 2"): "there is no arithmetic",
    clause("$x.n > -1"): "negative number as a parameter",
    read(items="x.name"): "`$x.name`",
    read(items="case when $x.n > 1 then 1 end"): "there is no `case`",
    read(rest="order by $x.name"): "`order { $x.name }`",
    read(rest="ORDER BY $x.name DESC"): "`order { $x.name desc }`",
    read(rest="order by name desc"): "`order { $x.name desc }`",
    read(rest="order { $x.name descending }"): "`desc`",
    read(rest="group by $x.name"): "beside an aggregate",
    read(rest="having count($x) > 1"): "there is no `having`",
    read(rest="limit 10 offset 5"): "there is no `offset`",
    read(rest="skip 5"): "there is no `offset`",
    read(rest="limit 10;"): "nothing ends a query but",
    read(rest="with $x"): "there is no `with`",
    read(rest="union"): "there is no `union`",
    # whole texts
    "query q() { match { $x: Type } RETURN { $x } }": "lower case",
    "query q() { MATCH { $x: Type } RETURN { $x } }": "lower case: `match`",
    "query q($a: String) { Match { $x: Type } return { $x } }": "`match`",
    "FOR x IN Type RETURN x": "`query name() { match { $x: Type } return { $x } }`",
    "for x in Type return x.name": "`query name() { match { $x: Type } return { $x } }`",
    "LET x = 1 RETURN x": "`query name() { match { $x: Type } return { $x } }`",
    "QUERY q() { match { $x: Type } return { $x } }": "lower case",
    read(rest="LIMIT 10"): "lower case",
    read(rest="limit 10 order { $x.name }"): "stands before",
    clause("$x.n = 1 or $x.n = 2"): "`[1, 2] contains $x.n`",
    clause("$x.n in [1, 2]"): "`[1, 2] contains $x.n`",
    clause("$x.n not in (1, 2)"): "`not { [1, 2] contains $x.n }`",
    "MATCH (x:Type) RETURN x.name": "`query name() { match { $x: Type } return { $x } }`",
    "match { $x: Type } return { $x }": "`query name() { match { $x: Type } return { $x } }`",
    "SELECT name FROM Type": "this is SQL",
    "select name from Type": "this is SQL",
    read(rest="-- the end"): "`// like this`",
    read(rest="# the end"): "`// like this`",
    read() + " -- the end": "`// like this`",
    # mutations
    'query q() { create (x:Type {name: "a"}) }': "`insert Type",
    'query q() { CREATE (x:Type {name: "a"}) }': "`insert Type",
    'query q() { merge (x:Type {name: "a"}) }': "is replaced",
    'query q() { insert into Type values ("a") }': "`insert Type",
    "query q() { set x.n = 1 }": "`update Type set",
    'query q() { update Type set n = 1 where name = "a" }': "`update Type set",
    'query q() { update Type set { n = 1 } where name = "a" }': "`n: VALUE`",
    'query q() { insert Type { name = "a" } }': "`name: VALUE`",
    "query q() { detach delete x }": "`delete Type where",
    'query q() { delete from Type where name = "a" }': "`delete Type where",
    'query q() { DELETE FROM Type WHERE name = "a" }': "`delete Type where",
    'query q() { delete Type where $x.name = "a" }': "`where name = ",
    'query q() { delete Type where name = "a" and n = 1 }': "one comparison",
    'query q() { delete Type where name like "a" }': "one comparison",
    "query q() { delete Type where n is null }": "one comparison",
}

_TRIED = (
    "{}",
    read("$x: Type {}"),
    read("$x: Type $a: Type $b: Type {}"),
    read("{}"),
    read(items="{}"),
    read(items="{} $x.name as alias"),
    read(rest="{}"),
    read(items="$x.name as name", rest="{}"),
    "query q() {{ match {{ $x: Type }} {} }}",
    "query q() {{ {} return {{ $x }} }}",
    "query q($last: String) {{ match {{ $x: Type {} }} return {{ $x.name }} }}",
    read('$x: Type $x.name {} "a"'),
    read("$x: Type $x {} $y"),
    read("$x: Type $x knows{} $y"),
    read("$x: Type $x knows $y {}"),
    read(items="$x.name", rest="order {{ $x.name {} }}"),
    "query q() {{ {} }}",
    "query q() {{ delete Type {} }}",
    "query q() {{ insert Type {{ {} , tags: [] }} }}",
    'query q() {{ insert Type {{ name: "a", {} }} }}',
    read() + " {}",
)
_NOT_CODE = {"gq(…)", "ogsql sql", "Graph.sql", "match", "from", "to", "}", "not", "$", "return", "query", "limit", "order"}


def spelled(help_text: str) -> list[str]:
    """What a help text proposes to write."""
    missing = re.findall("there is no `([^`]*)`", help_text)
    return [each for each in re.findall("`([^`]*)`", help_text) if each not in missing and each not in _NOT_CODE]


def applied(code: str) -> bool:
    """Whether it compiles somewhere, once its blanks are filled in."""
    code = (
        code.replace("FIRST", "$x.n > 5")
        .replace("SECOND", "$x.n < 1")
        .replace("VALUE", "1" if "n:" in code and "name:" not in code else '"a"')
    )
    for frame in _TRIED:
        try:
            compile_query(CATALOG, _unescaped(frame).replace("\0", code))
        except CompileError:
            continue
        return True
    return False


def _unescaped(frame: str) -> str:
    marked = frame.replace("{}", "\0")
    return marked.replace("{{", "{").replace("}}", "}") if "{{" in marked and frame.startswith("query q") else marked


@pytest.mark.parametrize("text", WRONG)
def test_help_says_how_it_is_spelled_and_what_it_spells_compiles(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_query(CATALOG, text)
    help_text = caught.value.hint
    assert help_text is not None, caught.value.message
    assert WRONG[text] in help_text, help_text
    assert "not yet" not in help_text
    for code in spelled(help_text):
        assert applied(code), f"{code!r} of {help_text!r} does not compile"


@pytest.mark.parametrize(
    "text",
    [
        'query q() { match { $x: Type $x.name contains "or and in" } return { $x.name as distinct } }',
        "query q() { match { $x: Type } return { $x.name as offset } order { offset desc } }",
        "query with() { match { $x: Type } return { $x.name as from, $x.n as where } }",
    ],
)
def test_words_of_other_languages_are_names_where_names_stand(text: str) -> None:
    assert compile_query(CATALOG, text).columns


@pytest.mark.parametrize(
    "text",
    [read(items="$x.name,, $x.n"), read('$x: Type { name: "a",, n: 1 }'), read(rest="order { $x.name,, $x.n }")],
)
def test_two_commas_between_items_are_no_comma_between_clauses(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_query(CATALOG, text)
    assert "without commas" not in str(caught.value.hint)


def test_what_stands_in_texts_and_comments_is_not_taken_for_a_word() -> None:
    with pytest.raises(CompileError) as caught:
        compile_query(CATALOG, 'query q() { match { $x: Type $x.name = "a or" "b" } return { $x } }')
    assert "`or`" not in str(caught.value.hint)
