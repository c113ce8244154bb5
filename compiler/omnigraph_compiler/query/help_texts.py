"""The help texts of `foreign_syntax`: the forms of `.gq` for constructs of Cypher, GQL and SQL."""

from __future__ import annotations

from collections.abc import Mapping

NO_COMMAS = "what is matched and returned stands one after the other, without commas between clauses: `$a: Type $b: Type`"
ALIAS = "an alias is a name, without quotes and spaces: `$x.name as full_name`"
ARITHMETIC = "there is no arithmetic; return the values and compute with them in your program, or in SQL over `gq(…)`"
COMMENT = "comments are written `// like this` or `/* like this */`"
GROUPS = "the items beside an aggregate are the grouping keys: `return { $x.name, count($x) as rows }`"
DISTINCT = f"there is no `distinct`; {GROUPS}, one row for each value"
AND = 'conditions stand one after the other, without a word or sign between them: `$x.name = "a" $x.name != "b"`'
INSERTED = 'insert Type { name: "a" }'
UPDATED = 'update Type set { n: 1 } where name = "a"'
DELETED = 'delete Type where name = "a"'
STATEMENTS = {
    **dict.fromkeys(("update", "set"), UPDATED),
    **dict.fromkeys(("delete", "detach", "remove", "drop", "truncate"), DELETED),
}
INSERT = f"a node or edge is made with `{INSERTED}`, an edge with `from` and `to`"
DELETE = f"nodes and edges are removed with `{DELETED}`; the edges of a node go with it"
WHERE = 'conditions stand in `match`, one after the other: `match { $x: Type $x.name = "a" }`'
NEVER_NULL = "a variable is never null; a node without such an edge is `not { $x knows $_ }`"
REPLACED = f"{INSERT}; a node with the same key is replaced"
COUNT = "rows are counted by a variable of the match: `count($x)`"
ELSEWHERE = "compute in your program, or in SQL over `gq(…)`"
ONE_COMPARISON = 'update and delete take one comparison of a property: `where name = "a"`'
QUERY = "a read is written `query name() { match { $x: Type } return { $x } }`"
UPDATE = f"values are changed with `{UPDATED}`"
SQL = f"this is SQL, for `ogsql sql` and `Graph.sql`; {QUERY}"
OFFSET = "there is no `offset`; to continue after the last row, sort and filter by it: `$x.name > $last`"
NULL_HELP = (
    "null comes from nullable parameters and from stored data; "
    "`not { $x.name = $x.name }` keeps the rows where it is null, `$x.name = $x.name` the others"
)
HELP_OF_WRITES = {"insert": INSERT, "update": UPDATE, "delete": DELETE}
OF_TEXTS = (
    "concat",
    "concat_ws",
    "upper",
    "lower",
    "toupper",
    "tolower",
    "trim",
    "substring",
    "substr",
    "replace",
    "split",
)
OF_NUMBERS = (
    "size",
    "length",
    "len",
    "coalesce",
    "ifnull",
    "nullif",
    "abs",
    "round",
    "floor",
    "ceil",
    "cast",
    "year",
    "month",
)
OF_GROUPS = ("collect", "array_agg", "string_agg", "group_concat", "median", "stddev", "stdev", "percentile", "row_number")
FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(("count_distinct", "countdistinct", "uniq", "collect_set"), DISTINCT),
    **dict.fromkeys(
        (*OF_TEXTS, *OF_NUMBERS, *OF_GROUPS),
        ELSEWHERE,
    ),
    **dict.fromkeys(("id", "elementid"), "the bare variable is the id: `return { $x }`"),
    "mean": "the mean is `avg($x.n)`",
    "average": "the mean is `avg($x.n)`",
    "shortestpath": "there are no paths; nodes within some hops are `$a knows{1,3} $b`",
}
