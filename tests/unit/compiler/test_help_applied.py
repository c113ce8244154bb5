"""Help that is applied to the letter, to the very text that was wrong, gives a query that compiles."""

from __future__ import annotations

import pytest

from omnigraph_compiler import compile_query, compile_schema
from omnigraph_compiler.diagnostics import CompileError

CATALOG = compile_schema("""
node A { k: String @key n: I32? t: [String]? d: Date? }
edge Near: A -> A { w: I32? }
""")
_A = "$a: A "


def read(match: str = "", items: str = "$a.k", rest: str = "", params: str = "") -> str:
    return f"query q({params}) {{ match {{ {_A}{match} }} return {{ {items} }} {rest} }}"


def write(statement: str) -> str:
    return f"query q() {{ {statement} }}"


def update(where: str = 'where k = "x"', values: str = "n: 1") -> str:
    return write(f"update A set {{ {values} }} {where}")


# What is wrong, what the help spells out, and the text to which it leads.
APPLIED = [
    # membership: the author's own values, on the other side
    (read('$a.k in ["x", "y"]'), '`["x", "y"] contains $a.k`', read('["x", "y"] contains $a.k')),
    (read('$a.k NOT IN ("x", "y")'), '`not { ["x", "y"] contains $a.k }`', read('not { ["x", "y"] contains $a.k }')),
    (
        read('$a.d in [date("2020-01-01")]'),
        '`[date("2020-01-01")] contains $a.d`',
        read('[date("2020-01-01")] contains $a.d'),
    ),
    (read('"x" in $a.t'), '`$a.t contains "x"`', read('$a.t contains "x"')),
    (
        read("$a.k in $keys", params="$keys: [String]"),
        "`$keys contains $a.k`",
        read("$keys contains $a.k", params="$keys: [String]"),
    ),
    # or
    (read('$a.k = "x" Or $a.k = "y"'), '`["x", "y"] contains $a.k`', read('["x", "y"] contains $a.k')),
    (read('not { $a.k = "x"\n or\n $a.k = "y" }'), '`["x", "y"] contains $a.k`', read('not { ["x", "y"] contains $a.k }')),
    (read('($a.k = "x" or $a.k = "y")'), '`["x", "y"] contains $a.k`', read('["x", "y"] contains $a.k')),
    (read("($a.n > 5) or ($a.n < 1)"), "not { $a: A not", read("not { $a: A not { $a.n > 5 } not { $a.n < 1 } }")),
    (
        read("$a.n = $x or $a.n = $y", params="$x: I32, $y: I32"),
        "`$values contains $a.n`",
        read("$values contains $a.n", params="$values: [I32]"),
    ),
    (
        'query q() { match { $a: A { k: "x" or "y" } } return { $a.k } }',
        '`["x", "y"] contains $a.k`',
        read('["x", "y"] contains $a.k'),
    ),
    (
        'query q() { match { $a: A { k: "x" and n: 1 } } return { $a.k } }',
        "commas",
        'query q() { match { $a: A { k: "x", n: 1 } } return { $a.k } }',
    ),
    (read("($a.n > 1)"), "without parentheses", read("$a.n > 1")),
    # not and null
    (read('$a.k not like "x%"'), '`not { $a.k contains "text" }`', read('not { $a.k contains "text" }')),
    (read('$a.k not contains "x"'), '`not { $a.k contains "text" }`', read('not { $a.k contains "x" }')),
    (read("$a.n = null"), "`not { $x.name = $x.name }`", read("not { $a.n = $a.n }")),
    (read("$a.n = Null"), "`not { $a.n = $a.n }`", read("not { $a.n = $a.n }")),
    (read("isnull($a.n)"), "`not { $a.n = $a.n }`", read("not { $a.n = $a.n }")),
    (read("$a is not null"), "is never null", read()),
    # edges
    (read("$a near{*} $b"), "`near{1,3}`", read("$a near{1,3} $b")),
    (read("$a near{1,*} $b"), "`near{1,3}`", read("$a near{1,3} $b")),
    (read("$a near{1..3} $b"), "`near{1,3}`", read("$a near{1,3} $b")),
    (read("$a near{1,$n} $b"), "`near{1,3}`", read("$a near{1,3} $b")),
    (read("$a $e:near* $b"), "without an edge variable", read("$a near{1,3} $b")),
    (read("$a near? $b"), "there is no `optional`", read("not { $a near $_ }")),
    (read("$a -near-> $b"), "`$a knows $b`", read("$a near $b")),
    (read("$a - [:NEAR*1..3] -> $b"), "`$a knows{1,3} $b`", read("$a near{1,3} $b")),
    (read("$a NEAR $b"), "`near`", read("$a near $b")),
    (read("$a near ($b)"), "`$a knows $b`", read("$a near $b")),
    (read("$a near $b: A"), "`$b: A`", read("$a near $b $b: A")),
    ("query q() { match { a: A } return { $a.k } }", "`$a: A`", read()),
    ("query q() { match { A } return { $a.k } }", "`$a: Type`", read()),
    ('query q() { match { $a: A {"k": "x"} } return { $a.k } }', "`k`", read('$a.k = "x"')),
    # results
    (read(items="$a.*"), "there is no `*`", read(items="$a, $a.k")),
    (read(items='$a.k || "x"'), "there is no arithmetic", read()),
    (read(items='concat($a.k, "x")'), "in SQL over `gq(…)`", read()),
    (read(items="upper($a.k)"), "in SQL over `gq(…)`", read()),
    (read(items="count_distinct($a.n)"), "there is no `distinct`", read(items="$a.n, count($a) as rows")),
    (read(items="COUNT($a)"), "`count`", read(items="count($a)")),
    (read(items="count()"), "`count($x)`", read(items="count($a)")),
    (f"query q() {{ match {{ {_A} }} return $a.k }}", "`return { $a.k }`", read()),
    (read(items="key: $a.k"), "`$x.name as key`", read(items="$a.k as key")),
    # order and limit: all the keys that the author wrote
    (
        read(rest="order by $a.k, $a.n desc"),
        "`order { $a.k, $a.n desc }`",
        read(rest="order { $a.k, $a.n desc }"),
    ),
    (read(rest="ORDER BY a.k DESC"), "`order { $a.k desc }`", read(rest="order { $a.k desc }")),
    (read(rest="order by { $a.k }"), "`order { $a.k }`", read(rest="order { $a.k }")),
    (read(rest="order by k"), "`order { $a.k }`", read(rest="order { $a.k }")),
    (
        read(items="$a.k as name", rest="order by name"),
        "`order { name }`",
        read(items="$a.k as name", rest="order { name }"),
    ),
    (
        read(items="$a.k, count($a) as c", rest="order by count(*) desc"),
        "by its alias",
        read(items="$a.k, count($a) as c", rest="order { c desc }"),
    ),
    (read(rest="order $a.k limit 3"), "`order { $a.k }`", read(rest="order { $a.k } limit 3")),
    (read(rest="sort { $a.k }"), "`order { $a.k }`", read(rest="order { $a.k }")),
    (read(rest="order { $a.n desc nulls last }"), "null is the smallest value", read(rest="order { $a.n desc }")),
    (read(rest="limit 5, 10"), "there is no `offset`", read('$a.k > "x"', rest="order { $a.k } limit 10")),
    (read(rest="limit -1"), "not negative", read(rest="limit 1")),
    # heads
    ("query q { match { $a: A } return { $a.k } }", "`q()`", read()),
    ("query () { match { $a: A } return { $a.k } }", "`query name()", read()),
    (read(params="$x String"), "`$x: String`", read(params="$x: String")),
    (read(params="$x: I32 = 5"), "no defaults", read(params="$x: I32?")),
    (read(params="$x: int"), "`I32` or `I64`", read(params="$x: I64")),
    (read(params="$x: Float"), "`F64`", read(params="$x: F64")),
    (read(params="$x: TEXT"), "`String`", read(params="$x: String")),
    (read(params="$x: datetime"), "`DateTime`", read(params="$x: DateTime")),
    # whole texts that write
    ('INSERT INTO A VALUES ("x")', "`query name() { insert Type", 'query name() { insert A { k: "x" } }'),
    ('CREATE (a:A {k: "x"})', "`query name() { insert Type", 'query name() { insert A { k: "x" } }'),
    ('MERGE (a:A {k: "x"})', "`query name() { insert Type", 'query name() { insert A { k: "x" } }'),
    (
        'update A set n = 1 where k = "x"',
        "`query name() { update Type set",
        'query name() { update A set { n: 1 } where k = "x" }',
    ),
    ('DELETE FROM A WHERE k = "x"', "`query name() { delete Type", 'query name() { delete A where k = "x" }'),
    ("WITH x AS (SELECT 1) SELECT * FROM x", "this is SQL", read()),
    # mutations
    (write('insert A (k: "x")'), "`insert Type {", write('insert A { k: "x" }')),
    (write('insert (a:A {k: "x"})'), "`insert Type {", write('insert A { k: "x" }')),
    (write('insert A { k: "x" } on conflict do nothing'), "is replaced", write('insert A { k: "x" }')),
    (
        write('insert Near { src: "x", dst: "y" }'),
        "`from` and `to`",
        write('insert Near { from: "x", to: "y" }'),
    ),
    (write('update A { n: 1 } where k = "x"'), "`update Type set {", update()),
    (update(where=""), '`where name = "a"`', update()),
    (write("delete A"), '`where name = "a"`', write('delete A where k = "x"')),
    (write("delete (a:A)"), "`delete Type where", write('delete A where k = "x"')),
    (update('where k = "x" order by k limit 5'), "neither `order` nor `limit`", update()),
    (update('where k = "x" return { k }'), "returns nothing", update()),
    (update(values="n: n + 1"), "there is no arithmetic", update()),
    (
        f"query q() {{ match {{ {_A} }} update A set {{ n: 1 }} where n = 2 }}",
        "either reads or writes",
        update("where n = 2"),
    ),
    (f"query q() {{ match {{ {_A} }} delete $a }}", "either reads or writes", write('delete A where k = "x"')),
]


@pytest.mark.parametrize(("wrong", "spelled", "right"), APPLIED, ids=[each[0] for each in APPLIED])
def test_help_leads_to_a_query_that_compiles(wrong: str, spelled: str, right: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_query(CATALOG, wrong)
    assert spelled in (caught.value.hint or ""), (caught.value.message, caught.value.hint)
    compile_query(CATALOG, right)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("int", "I32"), ("Float", "F64"), ("text", "String"), ("Timestamp", "DateTime"), ("double", "F64")],
)
def test_types_of_other_languages_in_schemas(written: str, meant: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_schema(f"node A {{ k: String @key n: {written}? }}")
    assert f"`{meant}`" in (caught.value.hint or "")
    compile_schema(f"node A {{ k: String @key n: {meant}? }}")
