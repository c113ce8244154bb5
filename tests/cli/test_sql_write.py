"""`ogsql sql --write`, and SQL that writes in the shell."""

from pathlib import Path

from tests.cli.graphs import done
from tests.cli.ogsql import Finished, ogsql


def shell(graph: Path, text: str, *options: str | Path) -> Finished:
    return ogsql("shell", graph, *options, stdin=text.encode())


def count(graph: Path, table: str = "Port") -> int:
    rows = done(ogsql("sql", graph, f"select count(*) as n from {table}", "--json")).document["rows"]
    return int(rows[0]["n"])


def test_statements_that_write_need_the_option(graph: Path) -> None:
    refused = ogsql("sql", graph, "delete from Port")

    assert refused.status == 1
    assert "ogsql sql --write" in refused.err
    assert count(graph) == 2


def test_a_script_is_published_with_its_rows(graph: Path, tmp_path: Path) -> None:
    script = "create table t (a int); insert into t values ($n), (2); select sum(a) as s from t"
    (tmp_path / "script.sql").write_text(script)
    shown = ogsql("sql", graph, "--write", "--file", "script.sql", "--params", '{"n": 1}', "--as", "ada", cwd=tmp_path)
    document = done(ogsql("sql", graph, "--write", "delete from t", "--json", "--message", "all", "--quiet")).document

    assert done(shown).out.startswith("s\n3\n\n1 row\naffected 2 rows\ncommit ")
    assert f"target: {graph}, branch main" in shown.err
    assert (document["rows_affected"], document["rows"], document["commit"]["message"]) == (2, None, "all")
    newest, older = done(ogsql("commit", "list", graph, "--json")).document["commits"][:2]
    assert (newest["message"], older["actor_id"]) == ("all", "ada")


def test_a_key_a_branch_and_an_engine(graph: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    write = ("sql", graph, "--write", "insert into Port (code) values ('X')", "--branch", "draft", "--quiet")
    first = done(ogsql(*write, "--idempotency-key", "k", "--engine", "duckdb"))
    again = done(ogsql(*write, "--idempotency-key", "k"))

    assert first.out.splitlines()[0] == "affected 1 row"
    assert again.out.splitlines() == ["affected 0 rows", first.out.splitlines()[1]]
    assert (count(graph), count(graph, "draft.Port")) == (2, 3)


def test_what_does_not_go_together(graph: Path) -> None:
    for options in (["--isolated"], ["--at-version", "1"], ["--timeout", "1s"], ["--format", "csv"], ["--snapshot", "x"]):
        refused = ogsql("sql", graph, "--write", "delete from Port", *options)
        assert (refused.status, "--write" in refused.err) == (2, True), options
    failed = ogsql("sql", graph, "--write", "delete from Port; insert into Prot values (1)", "--quiet")
    assert failed.status == 1
    assert "error: statement 2 (line 1, column 19): there is no table `Prot`\nhint: did you mean `Port`?" in failed.err
    assert count(graph) == 2


def test_the_shell_writes(graph: Path) -> None:
    lines = (
        "create table t (a int); insert into t values (1), (2);",
        "begin; insert into t values ($n); select count(*) as n from t; rollback;",
        "select count(*) as n from t;",
        "begin; delete from t where a = 1;",
        'query dredge() { update Port set { depth: 1.0 } where code = "BEANR" }',
        "query deep() { match { $p: Port { depth: 1.0 } } return { $p.code } }",
        "commit;",
        "create branch b; use branch b; delete from t; show branches;",
        "with a as (select case when true then 1 end as x) select x from a;",
    )
    result = done(shell(graph, "\\set n 9\n" + "\n".join(lines), "--as", "ada"))

    assert "transaction on main\naffected 1 row\nn\n3\n\n1 row\nrolled back\nn\n2\n" in result.out
    assert "affected 1 node and 0 edges\nnothing to commit\np.code\nBEANR\n\n1 row\ncommit " in result.out
    assert result.out.endswith("x\n1\n\n1 row\n")
    assert (count(graph, "t"), count(graph, "b.t")) == (1, 0)
    assert done(ogsql("commit", "list", graph, "--json")).document["commits"][0]["actor_id"] == "ada"


def test_what_the_shell_refuses(graph: Path) -> None:
    for text, message in (
        ("commit;", "no transaction is open"),
        ("begin; begin;", "a transaction is open already"),
        ("begin; \\branch main", "a transaction on main is open"),
        ("begin; create branch b;", "a transaction stays on its branch"),
        ("insert into Prot values (1);", "there is no table `Prot`"),
        ("\\at 1\ndelete from Port;", "is a state of the past"),
    ):
        refused = shell(graph, text)
        assert (refused.status, message in refused.err) == (1, True), (text, refused.err)
    refused = shell(graph, "delete from Port;", "--read-only")
    assert "the shell only reads" in refused.err
    assert count(graph) == 2


def test_leaving_the_shell_rolls_back(graph: Path) -> None:
    done(shell(graph, "begin; delete from Port;"))

    assert count(graph) == 2
