"""`ogsql shell` without a terminal: where statements end, what is completed, what commands do, and piped use."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_compiler import compile_schema
from omnigraph_sql import errors
from omnigraph_sql.cli.shell import start
from omnigraph_sql.cli.shell.completion import Names, complete, quoted
from omnigraph_sql.cli.shell.pipe import statements_of
from omnigraph_sql.cli.shell.session import ShellSession
from omnigraph_sql.cli.shell.statements import is_complete, split
from tests.cli.graphs import depths, done
from tests.cli.ogsql import OGSQL, TIMEOUT, Finished, environment, ogsql

READ = "query ports() { match { $p: Port } return { $p.code } order { $p.code } }"
BRACES = 'query q() { match { $p: Port { code: "}\\"}" } } return { $p } }'

# Where statements end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("select 1;", ["select 1"]),
        ("select 1; select 2;", ["select 1", "select 2"]),
        (" \n -- nothing\n /* at all; */ ;; \n", []),
        ("select ';';", ["select ';'"]),
        ("select 'it''s; so';", ["select 'it''s; so'"]),
        ("select E'it\\'s; so';", ["select E'it\\'s; so'"]),
        ("select $$;$$, $t$ ; $$ $t$;", ["select $$;$$, $t$ ; $$ $t$"]),
        ('select "a;b", `c;d`;', ['select "a;b", `c;d`']),
        ("select 1 -- one;\n+ 1;", ["select 1 -- one;\n+ 1"]),
        ("select /* ; /* ; */ ; */ 1;", ["select /* ; /* ; */ ; */ 1"]),
        ("select a.b[1], $x;", ["select a.b[1], $x"]),
        (READ, [READ]),
        (f"{READ};{READ}", [READ, READ]),
        (f"// a note\n{READ} select 1;", [READ, "select 1"]),
        (BRACES, [BRACES]),
        ("query q() { // }\n /* } */ }", ["query q() { // }\n /* } */ }"]),
        ("query q( ;", ["query q("]),
        ("query q() }", ["query q() }"]),
        ("\\d Port;\n\\timing", ["\\d Port", "\\timing"]),
        ('\\set a "x;y"\nselect 1;', ['\\set a "x;y"', "select 1"]),
        ("\\explain select\n1; \\q", ["\\explain select\n1", "\\q"]),
        (f"\\explain analyze {READ}", [f"\\explain analyze {READ}"]),
        ("\\explain", ["\\explain"]),
        ("queryable;", ["queryable"]),
    ],
)
def test_statements_of_a_text(text: str, found: list[str]) -> None:
    pieces = split(text)

    assert [each.text for each in pieces.complete] == found
    assert pieces.rest is None


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select ';",
        "select 1 -- ;",
        "select /* ; ",
        "select /* /* ; */ ;",
        'select ";',
        "select $$ ; ",
        "select 'a''; ",
        "query",
        "query ports",
        "query ports()",
        "query q() { match { $p: Port }",
        'query q() { match { $p: Port { code: "} }',
        "query q() { /* }",
        "query q() { // }",
        "\\explain select 1",
        "\\explain query q() {",
        "select 1; select",
    ],
)
def test_a_text_that_needs_more(text: str) -> None:
    assert not is_complete(text)


def test_a_long_text_without_an_end_is_scanned_in_no_time() -> None:
    assert not is_complete("select '" + "''" * 500_000)
    assert not is_complete("query q() { " + '"\\"' * 300_000)


def test_statements_know_their_place() -> None:
    pieces = split("select 1;\n\n  select\n2; \\d")

    assert [(each.kind, each.line, each.column) for each in pieces.complete] == [
        ("sql", 1, 1),
        ("sql", 3, 3),
        ("command", 4, 4),
    ]
    assert pieces.complete[1].placed == "\n\n  select\n2"


def test_statements_of_a_stream_come_as_soon_as_they_end() -> None:
    read: list[str] = []

    def lines() -> Iterator[str]:
        for line in ("select\n", "1; select 2\n", "; \\d\n", "query q() {\n", "}\n", "select 3\n"):
            read.append(line)
            yield line

    found = [(each.text, each.line, each.column, len(read)) for each in statements_of(lines())]

    assert found == [
        ("select\n1", 1, 1, 2),
        ("select 2", 2, 4, 3),
        ("\\d", 3, 3, 3),
        ("query q() {\n}", 4, 1, 5),
        ("select 3\n", 6, 1, 6),
    ]


# Completion ----------------------------------------------------------------------------------------------------------

CATALOG = compile_schema(
    """
    node Port { code: String @key
      depth: F64?
      order: I32? }
    node Order { number: I64 @key }
    edge Lane: Port -> Port { miles: I32? }
    edge BoundFor: Order -> Port
    """
)
COMMANDS = [("\\branch", "branch"), ("\\d", "type"), ("\\explain", "statement"), ("\\format", "table|csv"), ("\\i", "file")]
NAMES = Names(
    CATALOG,
    lambda: ["feature/x", "main"],
    lambda: ["code"],
    [*COMMANDS, ("\\set", "param"), ("\\at", "state")],
    lambda: ["v1"],
)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("select p.d", " from Port p", ["depth"]),
        ("select p.", " from Port as p", ["id", "code", "depth", '"order"']),
        ("select Port.co", " from Port", ["code"]),
        ("select l.m", ' from "feature/x"."Lane" l', ["miles"]),
        ("select s", " from Lane", ["src", "split_part(", "sqrt(", "starts_with(", "stddev(", "string_agg(", "strpos("]),
        ("select * from Po", "", ["Port"]),
        ("select * from Or", "", ['"Order"']),
        ("select * from ", "", ["Port", '"Order"', "Lane", "BoundFor", '"feature/x"', "main", '"@v1"']),
        ('select * from "@', "", ['"@v1"']),
        ('select * from "@v1".La', "", ["Lane"]),
        ("\\at ", "", ["now", "v1"]),
        ("select * from Port, La", "", ["Lane"]),
        ('select * from "fe', "", ['"feature/x"']),
        ("select * from fe", "", ['"feature/x"']),
        ('select * from "feature/x".Po', "", ["Port"]),
        ('select * from "main@42".La', "", ["Lane"]),
        ("select 'de", "", []),
        ("select 1 -- de", "", []),
        ("select $c", "", ["$code"]),
        ("SEL", "", ["SELECT"]),
        ("qu", "", ["query"]),
        ("", "", []),
        ("query q() { match { $p: Po", "", ["Port"]),
        ("query q($a: S", "", ["String"]),
        ("query q() { match { $p: Port $p la", "", ["lane"]),
        ("query q() { match { $o $e: bo", "", ["boundFor"]),
        ("query q() { match { $p: Port } return { $p.de", "", ["depth"]),
        ("query q() { match { $p.de", " $p: Port }", ["depth"]),
        ("query q() { match { $o boundFor{1,2} $p } return { $p.de", "", ["depth"]),
        ("query q() { match { $a <lane> $b } return { $b.de", "", ["depth"]),
        ("query q() { match { $a $e: lane $b } return { $e.", "", ["miles"]),
        ("query q($code: String) { match { $p: Port { code: $c", "", ["$code"]),
        ("query q() { match { $p: Port { dep", "", ["depth"]),
        ("query q() { delete La", "", ["Lane"]),
        ("query q() { mat", "", ["match", "match_text("]),
        ('query q() { match { $p: Port { code: "de', "", []),
        ("query q() { // de", "", []),
        ("\\br", "", ["\\branch"]),
        ("\\branch fe", "", ["feature/x"]),
        ("select 1; \\branch m", "", ["main"]),
        ("\\d L", "", ["Lane"]),
        ("\\set c", "", ["code"]),
        ("\\set code c", "", []),
        ("\\format c", "", ["csv"]),
        ("\\explain select p.d", " from Port p", ["depth"]),
        ("\\nonsense x", "", []),
    ],
)
def test_what_is_proposed(before: str, after: str, found: list[str]) -> None:
    proposals = complete(before, after, NAMES)
    begun = {"select s": 7}.get(before, len(proposals))

    assert [each.text for each in proposals][:begun] == found
    assert all(before.endswith(before[len(before) - each.replaces :]) for each in proposals)


def test_files_are_proposed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "in.sql").write_text("")

    assert [(each.text, each.replaces) for each in complete(f"\\i {tmp_path}/in", "", NAMES)] == [
        ("in.sql", 2),
        ("inner/", 2),
    ]
    assert complete("\\i /nowhere/at/all", "", NAMES) == []


@pytest.mark.parametrize(
    ("name", "written"),
    [("Port", "Port"), ("Order", '"Order"'), ("feature/x", '"feature/x"'), ('a"b', '"a""b"'), ("1st", '"1st"')],
)
def test_names_are_quoted_where_sql_needs_it(name: str, written: str) -> None:
    assert quoted(name) == written


# Piped use and commands ----------------------------------------------------------------------------------------------


def shell(graph: Path, text: str, *options: str | Path, cwd: Path | None = None) -> Finished:
    return ogsql("shell", graph, *options, stdin=text.encode(), cwd=cwd)


def test_both_languages_from_standard_input(graph: Path) -> None:
    result = shell(graph, f"{READ}\nselect count(*) as n\nfrom Port; select 1 as one")

    assert (result.status, result.err) == (0, "")
    assert result.out == "p.code\nBEANR\nNLRTM\n\n2 rows\nn\n2\n\n1 row\none\n  1\n\n1 row\n"


def test_a_mutation_and_its_refusals(graph: Path) -> None:
    dredge = 'query dredge($depth: F64) { update Port set { depth: $depth } where code = "NLRTM" }'
    changed = shell(graph, f"\\set depth 24\n{dredge}\nselect depth from Port where code = 'NLRTM';", "--as", "ada")
    refused = shell(graph, f"\\set depth 25\n{dredge}", "--read-only")
    past = shell(graph, f"\\at 1\n\\set depth 25\n{dredge}")
    document = shell(graph, dredge, "--format", "json", "--params", '{"depth": 24.5}', "--as", "bob").document

    assert done(changed).out.startswith("affected 1 node and 0 edges\ncommit ")
    assert "24.0" in changed.out
    assert refused.status == past.status == 1
    assert "`dredge` is a mutation, and the shell only reads" in refused.err
    assert "main@1 is a state of the past" in past.err
    assert (document["query_name"], document["affected_nodes"], document["actor_id"]) == ("dredge", 1, "bob")
    assert depths(graph)["NLRTM"] == 24.5


def test_the_first_error_ends_a_run_with_its_exit_status(graph: Path) -> None:
    result = shell(graph, "select 1 as one;\nselect * from Prot;\nselect 2;")

    assert (result.status, result.out) == (1, "one\n  1\n\n1 row\n")
    assert result.err == "error: there is no table `Prot`\nhint: did you mean `Port`?\n"
    assert shell(graph, f"{READ}", "--timeout", "0.001ms").status == 8


def test_keep_going_shows_errors_and_goes_on(graph: Path) -> None:
    result = shell(graph, "select * from Prot;\n\\nonsense\nselect 2 as two;", "--keep-going")

    assert (result.status, result.out) == (1, "two\n  2\n\n1 row\n")
    assert result.err.count("error: ") == 2


def test_an_error_names_its_place_in_the_stream(graph: Path) -> None:
    result = shell(graph, "select 1;\n\n  query q() { match { $p: Prot } return { $p } }")

    assert result.status == 1
    assert " --> <stdin>:3:27\n" in result.err
    assert "did you mean `Port`?" in result.err


def test_branches_and_states(graph: Path) -> None:
    done(ogsql("branch", "create", graph, "feature/x", "--quiet"))
    first = done(ogsql("commit", "list", graph, "--json")).document["commits"][-1]["graph_commit_id"]
    count = "select count(*) as n from Port;"
    moved = done(
        shell(graph, f"\\branch\n\\branch feature/x\n\\branch\n\\at\n\\branch main\n\\at 1\n{count}\n\\at now\n\\at\n")
    )
    back = done(shell(graph, f"\\at {first.lower()[:14]}\n{count}\n\\at\n", "--format", "csv"))
    unknown = shell(graph, "\\branch feature/y")

    assert moved.out.startswith("  feature/x\n* main\n* feature/x\n  main\nfeature/x: version ")
    assert "\nn\n0\n" in moved.out
    assert back.out == f"n\n0\n@{first}: version 1 of main, commit {first}\n"
    assert (unknown.status, unknown.err) == (1, "error: there is no branch `feature/y`\nhint: did you mean `feature/x`?\n")
    assert "no version 99" in shell(graph, "\\at 99").err
    assert "\\branch main goes to it" in shell(graph, "\\at main").err
    assert shell(graph, "\\at nothing").status == shell(graph, "", "--branch", "none").status == 1
    assert "is the beginning of 2 commits" in shell(graph, f"\\at {first[:5]}").err


def test_types_are_described(graph: Path) -> None:
    listed, port, lane = (done(shell(graph, command)).out for command in ("\\d", "\\d port", '\\d "edge:Lane"'))

    assert listed == "kind  name  from  to    rows\nnode  Port                 2\nedge  Lane  Port  Port     1\n"
    assert port.splitlines() == [
        "node Port, 2 rows",
        "",
        "property  type    declared",
        "code      String  key, index",
        "depth     F64?",
        "",
        "edge Lane: Port -> Port",
    ]
    assert lane == "edge Lane: Port -> Port, 1 row\n"
    assert "did you mean `Port`?" in shell(graph, "\\d Prot").err


def test_parameters(graph: Path) -> None:
    text = '\\set code "NLRTM"\n\\set $n [1, 2]\n\\set\nselect code from Port where code = $code;\n\\unset n\n\\set\n'
    result = done(shell(graph, text, "--format", "csv", "--params", '{"x": null}'))

    assert result.out == 'x = null\ncode = "NLRTM"\nn = [1, 2]\ncode\nNLRTM\nx = null\ncode = "NLRTM"\n'
    assert 'texts stand in quotes: \\set code "NLRTM"' in shell(graph, "\\set code NLRTM").err
    assert "parameter 'code' not provided\nhint: \\set code VALUE" in shell(graph, "select $code;").err
    assert "is no name with a value" in shell(graph, "\\set code").err
    assert "there is no parameter `code`" in shell(graph, "\\unset code").err


def test_a_misspelt_parameter_is_an_error_and_others_stay_for_other_statements(graph: Path) -> None:
    query = "query q($least: F64?) { match { $p: Port $p.depth >= $least } return { count($p) as n } }"
    wrong = shell(graph, f"\\set leest 10\n{query}")
    assert wrong.status == 1
    assert "parameter 'least' of query `q` is not set" in wrong.err
    assert "did you mean `leest`?" in wrong.err
    assert done(shell(graph, f"\\set other 10\n\\set least 1\n{query}")).out


def test_explanations_of_both_languages(graph: Path) -> None:
    steps = done(shell(graph, f"\\explain {READ}")).out
    analyzed = done(shell(graph, f"\\explain analyze {READ}")).out
    plan = done(shell(graph, "\\explain select code\nfrom Port;\n")).out

    assert "scan: all Port nodes  (about 2 rows)" in steps
    assert "run\n  rows " in analyzed
    assert plan.startswith("logical_plan\n  ")
    assert "nothing to explain" in shell(graph, "\\explain").err


def test_formats_times_and_files(graph: Path, tmp_path: Path) -> None:
    (tmp_path / "in.sql").write_text("select 1 as one;\nselect 2 as two;\n")
    text = (
        "\\format csv\n\\o out.csv\n\\i in.sql\n\\o\n\\timing on\nselect 3 as three;\n\\timing off\n\\pager off\n\\format\n"
    )
    result = done(shell(graph, text, cwd=tmp_path))

    assert (tmp_path / "out.csv").read_text() == "one\n1\ntwo\n2\n"
    lines = result.out.splitlines()
    assert lines[:4] == ["rows are written as csv", "timing is on", "three", "3"]
    assert lines[4].startswith("time: ")
    assert lines[5:] == ["timing is off", "the pager is off", "rows are written as csv"]
    for wrong, complaint in [
        ("\\format cvs", "did you mean `csv`"),
        ("\\timing maybe", "neither on nor off"),
        ("\\o /nowhere/x", "cannot be written"),
        ("\\i missing.sql", "does not exist"),
        ("\\i", "there is no file to run"),
        ("\\history x", "is not a number of entries"),
        ("\\brnch", "did you mean `\\branch`"),
    ]:
        refused = shell(graph, wrong, cwd=tmp_path)
        assert (refused.status, refused.out) == (1, "")
        assert complaint in refused.err


def test_an_error_in_a_file_names_it_and_files_do_not_include_each_other_for_ever(graph: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.gq").write_text(f"{READ}\n\nquery q() {{ match {{ $p: Prot }} return {{ $p }} }}\n")
    (tmp_path / "self.sql").write_text("\\i self.sql\n")
    bad = shell(graph, "\\i bad.gq", cwd=tmp_path)
    endless = shell(graph, "\\i self.sql", cwd=tmp_path)

    assert bad.out.endswith("2 rows\n")
    assert " --> bad.gq:3:25" in bad.err
    assert (endless.status, "files include each other" in endless.err) == (1, True)


def test_help_and_leaving(graph: Path) -> None:
    result = done(shell(graph, "\\?\n\\help at\n\\q\nselect 1;"))

    assert "\\branch [NAME]" in result.out
    assert result.out.endswith("\\at [VERSION|COMMIT|TAG|now]  show the state that is asked, or go to another\n")


def test_options_begin_a_session(graph: Path) -> None:
    result = done(shell(graph, "select code from Port;\n\\at", "--format", "jsonl", "--at-version", "1"))

    assert json.loads(result.out.splitlines()[0])["target"] == "main@1"
    assert "main@1: version 1 of main" in result.out
    assert shell(graph, "", "--snapshot", "x", "--at-version", "1").status == 2
    assert ogsql("shell").status == 2


def test_a_statement_runs_before_the_stream_ends(graph: Path) -> None:
    process = subprocess.Popen(
        [OGSQL, "shell", graph, "--format", "csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for number in (1, 2):
            process.stdin.write(f"select {number} as n;\n")
            process.stdin.flush()
            assert [process.stdout.readline(), process.stdout.readline()] == ["n\n", f"{number}\n"]
        process.stdin.close()
        assert process.wait(timeout=TIMEOUT) == 0


def test_without_prompt_toolkit_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.delitem(sys.modules, "omnigraph_sql.cli.shell.prompt", raising=False)

    with pytest.raises(errors.Configuration, match=r"omnigraph-sql\[shell\]") as raised:
        start.run_shell(ShellSession.__new__(ShellSession))
    assert (raised.value.exit_code, raised.value.what) == (2, "prompt_toolkit")


@pytest.mark.parametrize("word", ["exit", "exit;", "QUIT", "quit ;", "\\q", "exit()", "\\exit"])
def test_words_that_leave(graph: Path, word: str) -> None:
    done = ogsql("shell", graph, "--format", "csv", stdin=f"select 1 as a;\n{word}\nselect 2 as b;\n".encode())

    assert (done.status, done.out, done.err) == (0, "a\n1\n", "")


def test_help_without_a_backslash(graph: Path) -> None:
    done = ogsql("shell", graph, stdin=b"help\nhelp set;\nHELP \\d\n")

    assert done.status == 0, done.err
    assert "\\explain [analyze] STATEMENT" in done.out
    assert done.out.splitlines()[-2:] == [
        "\\set [NAME VALUE]  list the parameters, or give one a JSON value",
        "\\d [TYPE]  list the types with their rows, or describe one",
    ]


def test_the_words_are_words_elsewhere() -> None:
    for text in ("select exit;", "exiting;", "quit the port;", "select 1\nexit\n;"):
        assert [each.kind for each in split(text).complete] == ["sql"]
