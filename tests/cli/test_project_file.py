"""`omnigraph.yaml` beside commands: what it gives them, and that a file for somebody else stops nothing."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from omnigraph_sql import errors
from omnigraph_sql.project import load_project
from tests.cli.graphs import make_graph
from tests.cli.ogsql import OGSQL, QUERIES, SCHEMA, TIMEOUT, Finished, environment
from tests.surface.commands import captured

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
UNUSABLE: dict[str, bytes] = {
    "another product": b"version: 3\nserver: {port: 8080}\ncli: {theme: dark}\n",
    "a list": b"- a\n- b\n",
    "a text": b"just words\n",
    "a number": b"7\n",
    "broken": b"graphs: {a: [\n",
    "tabs": b"graphs:\n\ta: b\n",
    "not UTF-8": b"graphs: {a: caf\xe9}\n",
    "UTF-16": "graphs: {a: b}".encode("utf-16"),
    "NUL": b"graphs: {a: 'b\0'}\n",
    "a bomb": BOMB.encode(),
    "itself": b"a: &a [*a]\n",
    "deep": b"[" * 20_000,
    "many keys": b"".join(b"k%d: 1\n" % number for number in range(60_000)),
    "long": b"a: " + b"x" * (2 << 20),
    "a date that does not exist": b"a: 2020-13-45\n",
    "an endless number": b"a: " + b"9" * 6000 + b"\n",
    "an object": b"a: !!python/object/apply:os.system ['touch harmed']\n",
    "keys that are lists": b"? [a, b]\n: c\n",
    "two documents": b"a: b\n---\nc: d\n",
    "mixed keys": b"1: a\ntrue: b\nnull: c\n",
}
WRONG = {
    "graphs": "graphs: [a]\n",
    "servers": "servers: 5\nqueries: []\n",
    "schema": "schema: {a: b}\n",
    "queries": "queries: q.gq\n",
    "branch": "branch: [a]\n",
    "foreign": "foreign: 5\n",
    "a foreign table": "foreign: {calls: 5}\n",
    "missing queries": "queries: [none/*.gq]\n",
    "a variable": "branch: ${NOT_SET_AT_ALL}\n",
}
COMMANDS = (
    ("sql", "graph", "select 1 as x", "--format", "csv"),
    ("query", "graph", "-e", "query q() { match { $p: Port } return { count($p) as n } }"),
    ("snapshot", "graph"),
    ("branch", "list", "graph"),
    ("lint", "ports.pg", "ports.gq"),
    ("compile", "ports.pg", "ports.gq"),
    ("fmt", "--check", "ports.gq"),
    ("version",),
)
"""Commands that need nothing of a project."""


def ogsql(*words: str, cwd: Path, stdin: bytes = b"") -> Finished:
    """Run a command in this process: there are many of them."""
    with contextlib.chdir(cwd):
        return Finished(*captured(words, stdin))


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with the files of a project beside it, which nobody changes."""
    place = tmp_path_factory.mktemp("project")
    make_graph(place)
    (place / "ports.pg").write_text(SCHEMA)
    (place / "ports.gq").write_text(QUERIES)
    return place


@pytest.fixture
def place(harbour: Path, tmp_path: Path) -> Path:
    """A directory of one's own with links to the graph and its files."""
    for name in ("graph", "ports.pg", "ports.gq"):
        (tmp_path / name).symlink_to(harbour / name)
    return tmp_path


def test_the_line_of_a_file_that_is_no_yaml_is_told(place: Path) -> None:
    (place / "omnigraph.yaml").write_text("graphs:\n  a: [1,\n")
    done = ogsql("sql", "graph", "select 1 as x", "--format", "csv", cwd=place)
    assert (done.status, done.out) == (0, "x\n1\n"), done.err
    assert "omnigraph.yaml is ignored: line 3 is not YAML: " in done.err


@pytest.mark.parametrize("content", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_file_for_somebody_else_is_a_warning(place: Path, content: bytes) -> None:
    (place / "omnigraph.yaml").write_bytes(content)
    done = ogsql("sql", "graph", "select 1 as x", "--format", "csv", cwd=place)

    assert (done.status, done.out) == (0, "x\n1\n"), done.err
    assert "omnigraph.yaml is ignored: " in done.err
    assert "internal error" not in done.err
    assert len(done.err) < 2000
    assert not (place / "harmed").exists()
    assert ogsql("lint", "ports.pg", "ports.gq", cwd=place).status == 0
    needy = ogsql("lint", cwd=place)
    assert needy.status == 2, needy.err
    named = ogsql("sql", "graph", "select 1", "--config", "omnigraph.yaml", cwd=place)
    assert named.status == 2
    assert "omnigraph.yaml" in named.err
    with pytest.raises(errors.Configuration):
        load_project(place)


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_in_one_section_stops_nobody_who_needs_another(place: Path, text: str) -> None:
    (place / "omnigraph.yaml").write_text(text)
    for command in COMMANDS:
        done = ogsql(*command, cwd=place)
        assert done.status == 0, (command, done.err)


@pytest.mark.parametrize("kind", ["directory", "link to nothing", "link to itself", "closed"])
def test_something_that_is_no_file(place: Path, kind: str) -> None:
    path = place / "omnigraph.yaml"
    match kind:
        case "directory":
            path.mkdir()
        case "link to nothing":
            path.symlink_to("nowhere")
        case "link to itself":
            path.symlink_to("omnigraph.yaml")
        case "closed":
            path.write_text("graphs: {a: b}")
            path.chmod(0)
    for command in COMMANDS:
        assert ogsql(*command, cwd=place).status == 0
    assert ogsql("sql", "graph", "select 1", "--config", "omnigraph.yaml", cwd=place).status in (0, 1, 2)


def test_a_command_that_needs_a_broken_value_says_so(place: Path) -> None:
    (place / "omnigraph.yaml").write_text("graphs: [a]\nbranch: [b]\nschema: 5\nqueries: none\nforeign: {calls: 5}\n")
    for command, key in (
        (("snapshot", "harbour"), "graphs"),
        (("mutate", "graph", "-e", 'query q() { delete Port where code = "x" }'), "branch"),
        (("init", "./new"), "schema"),
        (("lint", "ports.pg"), "queries"),
        (("sql", "graph", "select * from gq('deep')"), "queries"),
        (("sql", "graph", "select * from calls"), "foreign.calls"),
    ):
        done = ogsql(*command, cwd=place)
        assert done.status == 2, (command, done.err)
        assert f"`{key}`" in done.err
        assert "hint: " in done.err


def test_graphs_have_names(place: Path) -> None:
    (place / "omnigraph.yaml").write_text("graphs:\n  harbour: graph\n  other: {uri: ./elsewhere}\n")
    below = place / "a"
    below.mkdir()
    for command in (
        ("sql", "harbour", "select count(*) as n from Port", "--format", "csv"),
        ("query", "harbour", "-e", "query q() { match { $p: Port } return { count($p) as n } }", "--format", "csv"),
        ("sql", "--store", "harbour", "select count(*) as n from Port", "--format", "csv"),
    ):
        assert ogsql(*command, cwd=below).out == "n\n2\n"
    assert ogsql("branch", "list", "harbour", "--json", cwd=below).document["branches"] == ["main"]
    made = ogsql("init", "other", "--schema", "../ports.pg", cwd=below)
    assert made.status == 0, made.err
    assert f"target: {place / 'elsewhere'}" in made.err
    (below / "harbour").mkdir()
    assert ogsql("snapshot", "harbour", cwd=below).status == 0
    assert ogsql("snapshot", "./harbour", cwd=below).status != 0


def test_names_of_servers_are_known_for_what_they_are(place: Path) -> None:
    (place / "omnigraph.yaml").write_text("servers: {prod: https://example.org, test: {url: https://example.org}}\n")
    done = ogsql("snapshot", "prod", cwd=place)

    assert done.status == 1
    assert "`prod` is a server" in done.err


def test_the_branch_of_a_project_is_the_default(tmp_path: Path) -> None:
    place = tmp_path
    make_graph(place).rename(place / "g")
    assert ogsql("branch", "create", "g", "draft", cwd=place).status == 0
    (place / "omnigraph.yaml").write_text("branch: draft\n")
    wrote = ogsql("mutate", "g", "-e", 'query q() { delete Port where code = "NLRTM" }', cwd=place)

    assert "branch draft" in wrote.err
    count = ("sql", "g", "select count(*) as n from Port", "--format", "csv")
    assert ogsql(*count, cwd=place).out == "n\n1\n"
    assert ogsql(*count, "--branch", "main", cwd=place).out == "n\n2\n"
    assert "draft" in ogsql("snapshot", "g", cwd=place).out
    assert ogsql("shell", "g", "--format", "csv", stdin=b"select count(*) as n from Port;", cwd=place).out == "n\n1\n"


def test_schema_and_queries_of_a_project(place: Path) -> None:
    (place / "omnigraph.yaml").write_text("schema: ports.pg\nqueries: [ports.gq]\n")
    (place / "other.gq").write_text("query all() { match { $p: Port } return { $p.code } }\n")

    for words in ((), ("ports.pg",), ("other.gq",), ("ports.pg", "other.gq")):
        assert ogsql("lint", *words, cwd=place).status == 0, words
    assert "other.gq" in ogsql("lint", "other.gq", cwd=place).out
    assert ogsql("compile", "other.gq", "--emit", "sql", cwd=place).status == 0
    assert ogsql("compile", "--emit", "descriptor", cwd=place).document["queries"][0]["name"] == "deep"
    assert ogsql("init", "new", cwd=place).status == 0
    assert ogsql("embed", "-", cwd=place, stdin=b"").status == 0
    assert ogsql("compile", "ports.gq", "other.gq", cwd=place).status == 2
    (place / "omnigraph.yaml").write_text("branch: main\n")
    for command in (("lint",), ("init", "another"), ("compile", "ports.pg")):
        done = ogsql(*command, cwd=place)
        assert done.status == 1
        assert "omnigraph.yaml names no" in done.err


def test_keys_that_are_not_known_are_warnings(place: Path) -> None:
    (place / "omnigraph.yaml").write_text("graph: {a: b}\nqueries: [ports.gq]\ntheme: dark\n")
    done = ogsql("sql", "graph", "select count(*) as n from gq('deep', '{\"depth\": 1.0}')", cwd=place)

    assert done.status == 0, done.err
    assert "`graph` is not known, and is ignored" in done.err
    assert "did you mean `graphs`?" in done.err
    assert "`theme` is not known" in done.err
    (place / "omnigraph.yaml").write_text("queries: [ports.gq]\ntheme: dark\n")
    with pytest.warns(UserWarning, match="`theme` is not known"):
        load_project(place)


def test_keys_beside_the_address_of_a_graph_are_warnings(place: Path) -> None:
    content = "graphs:\n  harbour: {uri: graph, branch: main}\nservers: {prod: {url: https://example.org, token: x}}\n"
    (place / "omnigraph.yaml").write_text(content)
    done = ogsql("sql", "harbour", "select 1 as x", "--format", "csv", cwd=place)

    assert (done.status, done.out) == (0, "x\n1\n"), done.err
    assert "`graphs.harbour.branch` is not known, and is ignored" in done.err
    assert "`servers.prod.token` is not known, and is ignored" in done.err
    with pytest.warns(UserWarning, match="is not known"):
        assert load_project(place).servers == {"prod": "https://example.org"}
    (place / "omnigraph.yaml").write_text("graphs: {harbour: {url: graph}}\n")
    assert "did you mean `uri`?" in ogsql("sql", "harbour", "select 1", cwd=place).err


def test_a_working_directory_that_is_gone(place: Path) -> None:
    gone = place / "gone"
    for words in ("snapshot graph", f"sql {place / 'graph'} 'select 1'", "lint"):
        script = f"mkdir {gone} && cd {gone} && rmdir {gone} && exec {OGSQL} {words}"
        done = subprocess.run(["sh", "-c", script], capture_output=True, env=environment(), check=False, timeout=TIMEOUT)
        assert b"internal error" not in done.stderr + done.stdout, (words, done.stderr)
        assert b"Traceback" not in done.stderr, done.stderr
