"""`ogsql snapshot`, `export`, `commit` and `recovery`: commands that look at a graph."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.graphs import DREDGE, RECORDS, done, history, jsonl
from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql
from tests.cli.test_colour import ESCAPE, on_a_terminal, without_colour

DREDGE_ROTTERDAM = ("mutate", "-e", DREDGE, "--params", '{"code": "NLRTM", "depth": 24}', "--quiet", "--store")


def files_of(graph: Path) -> set[str]:
    return {str(path.relative_to(graph)) for path in graph.rglob("*")}


# snapshot ------------------------------------------------------------------------------------------------------------


def test_snapshot(model_graph: Path) -> None:
    head = history(model_graph)[0]["graph_commit_id"]
    result = ogsql("snapshot", model_graph)

    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines() == [
        f"branch main, version 2, commit {head}",
        "",
        "table      version  branch  rows",
        "edge:Lane        2  main       1",
        "node:Port        2  main       2",
    ]


def test_snapshots_of_the_past(graph: Path) -> None:
    empty = history(graph)[-1]["graph_commit_id"]
    done(ogsql("branch", "create", graph, "survey", "--quiet"))
    done(ogsql("load", graph, "--data", "-", "--mode", "append", "--branch", "survey", stdin=jsonl(RECORDS[2:]).encode()))

    def lanes(*options: str) -> dict[str, object]:
        document = done(ogsql("snapshot", graph, "--json", *options)).document
        assert set(document) == {"branch", "manifest_version", "commit_id", "internal_schema_version", "tables"}
        assert [set(table) for table in document["tables"]] == [{"table_key", "version", "branch", "row_count"}] * 2
        return {"branch": document["branch"], "rows": document["tables"][0]["row_count"]}

    assert lanes() == {"branch": "main", "rows": 1}
    assert lanes("--branch", "survey") == {"branch": "survey", "rows": 2}
    assert lanes("--branch", "survey", "--at-version", "2") == {"branch": "survey", "rows": 1}
    assert lanes("--at-version", "1") == {"branch": "main", "rows": 0}
    assert lanes("--commit", empty) == {"branch": "main", "rows": 0}


@pytest.mark.parametrize(
    ("options", "status", "fragment"),
    [
        (["--branch", "nowhere"], 1, "there is no branch `nowhere`"),
        (["--at-version", "99"], 1, "has no version 99"),
        (["--at-version", "0"], 2, "--at-version"),
        (["--commit", "01XXXXXXXXXXXXXXXXXXXXXXXX"], 1, "there is no commit"),
        (["--commit", "01XXXXXXXXXXXXXXXXXXXXXXXX", "--branch", "main"], 2, "excludes --branch and --at-version"),
        (["--commit", "01XXXXXXXXXXXXXXXXXXXXXXXX", "--at-version", "1"], 2, "excludes --branch and --at-version"),
    ],
)
def test_snapshots_that_do_not_exist(model_graph: Path, options: list[str], status: int, fragment: str) -> None:
    result = ogsql("snapshot", model_graph, *options)

    assert (result.status, result.out) == (status, "")
    assert fragment in result.err


# export --------------------------------------------------------------------------------------------------------------


def test_export_prints_records_by_type_and_id(model_graph: Path) -> None:
    result = ogsql("export", model_graph)
    records = [json.loads(line) for line in result.out.splitlines()]

    assert (result.status, result.err) == (0, "")
    assert [record.get("type") or record["edge"] for record in records] == ["Port", "Port", "Lane"]
    assert [record["data"]["id"] for record in records[:2]] == ["BEANR", "NLRTM"]
    assert ogsql("export", model_graph, "--json").out == result.out


def test_export_of_some_types(model_graph: Path) -> None:
    assert len(ogsql("export", model_graph, "--type", "Lane").out.splitlines()) == 1
    assert len(ogsql("export", model_graph, "--type", "Lane", "--type", "Port").out.splitlines()) == 3
    unknown = ogsql("export", model_graph, "--type", "Ship")
    assert (unknown.status, unknown.out, unknown.err) == (1, "", "error: there is no type `Ship`\n")


def test_export_is_utf_8_on_every_terminal(graph: Path) -> None:
    data = jsonl([{"type": "Port", "data": {"code": "Göteborg ⚓"}}]).encode()
    done(ogsql("load", graph, "--data", "-", "--mode", "append", "--quiet", stdin=data))

    assert '"code":"Göteborg ⚓"' in ogsql("export", graph, env={"PYTHONIOENCODING": "ascii"}).out


def test_export_to_a_file(model_graph: Path, tmp_path: Path) -> None:
    printed = ogsql("export", model_graph).out
    plain = ogsql("export", model_graph, "--out", "all.jsonl", cwd=tmp_path)
    packed = ogsql("export", model_graph, "--out", "all.jsonl.gz", "--json", cwd=tmp_path)

    assert (plain.out, plain.err) == ("exported 3 records to all.jsonl\n", "")
    assert packed.document == {"uri": str(model_graph), "branch": "main", "out": "all.jsonl.gz", "records": 3}
    assert (tmp_path / "all.jsonl").read_text() == printed
    assert gzip.decompress((tmp_path / "all.jsonl.gz").read_bytes()).decode() == printed
    assert sorted(os.listdir(tmp_path)) == ["all.jsonl", "all.jsonl.gz"]
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o444


def test_an_export_that_fails_leaves_the_file_as_it_was(model_graph: Path, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text("the old content")
    failed = ogsql("export", model_graph, "--type", "Ship", "--out", "all.jsonl", cwd=tmp_path)
    nowhere = ogsql("export", model_graph, "--out", "missing/all.jsonl", cwd=tmp_path)

    assert failed.status == 1
    assert (tmp_path / "all.jsonl").read_text() == "the old content"
    assert os.listdir(tmp_path) == ["all.jsonl"]
    assert (nowhere.status, nowhere.out) == (1, "")
    first, hint = nowhere.err.splitlines()
    assert first == "error: the file `missing/all.jsonl` cannot be written: No such file or directory"
    assert "there is no directory" in hint
    inside = ogsql("export", model_graph, "--out", model_graph / "_schema.pg", cwd=tmp_path)
    assert (inside.status, inside.out) == (1, "")
    assert "inside the graph" in inside.err


def test_a_reader_that_went_away_ends_the_export(model_graph: Path) -> None:
    result = subprocess.run(
        ["bash", "-c", f"'{OGSQL}' export '{model_graph}' | true; echo ${{PIPESTATUS[0]}}"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )

    assert (result.stdout, result.stderr) == ("141\n", "")


# commit --------------------------------------------------------------------------------------------------------------


def test_commit_list_shows_the_newest_first(model_graph: Path) -> None:
    newest, first = history(model_graph)
    result = ogsql("commit", "list", model_graph)
    heading, *lines = result.out.splitlines()

    assert (result.status, result.err) == (0, "")
    assert heading.split() == ["commit", "branch", "version", "time", "(UTC)", "actor", "message"]
    assert lines[0].startswith(f"{newest['graph_commit_id']}  main          2  20")
    assert lines[0].endswith("  ada    first load")
    assert lines[1].startswith(f"{first['graph_commit_id']}  main          1  20")
    assert lines[1].endswith("         init")


def test_commit_list_of_an_actor(model_graph: Path) -> None:
    commits = ogsql("commit", "list", model_graph, "--actor", "ada", "--json").document

    assert commits["branch"] == "main"
    assert [commit["message"] for commit in commits["commits"]] == ["first load"]
    assert ogsql("commit", "list", model_graph, "--actor", "nobody", "--json").document["commits"] == []


def test_a_message_of_several_lines_stays_on_its_line(graph: Path) -> None:
    port = jsonl([{"type": "Port", "data": {"code": "DEHAM"}}]).encode()
    message = "one\n\ttwo"
    done(ogsql("load", graph, "--data", "-", "--mode", "append", "--message", message, "--quiet", stdin=port))
    result = ogsql("commit", "list", graph)

    assert len(result.out.splitlines()) == 4
    assert "one two" in " ".join(result.out.split())


def test_a_terminal_gets_a_ruled_table(model_graph: Path) -> None:
    listing = ("commit", "list", str(model_graph))
    shown = on_a_terminal("stdout", *listing, cwd=model_graph, env={"COLUMNS": "120"})

    assert ESCAPE in shown
    assert "───" in shown
    assert history(model_graph)[0]["graph_commit_id"] in without_colour(shown)
    assert on_a_terminal("stdout", *listing, cwd=model_graph, env={"NO_COLOR": "1"}) == ogsql(*listing).out


def test_a_narrow_terminal_does_not_break_a_commit_id(model_graph: Path) -> None:
    shown = on_a_terminal("stdout", "commit", "list", str(model_graph), cwd=model_graph, env={"COLUMNS": "90"})

    assert history(model_graph)[0]["graph_commit_id"] in without_colour(shown)


def test_commit_show(model_graph: Path) -> None:
    newest, first = history(model_graph)
    result = ogsql("commit", "show", model_graph, newest["graph_commit_id"])
    lines = dict(line.split(maxsplit=1) for line in result.out.splitlines())

    assert lines.pop("time").endswith(" UTC")
    assert lines == {
        "commit": newest["graph_commit_id"],
        "branch": "main",
        "version": "2",
        "actor": "ada",
        "parent": first["graph_commit_id"],
        "message": "first load",
    }
    assert ogsql("commit", "show", "--store", model_graph, first["graph_commit_id"], "--json").document == first


def test_a_commit_that_does_not_exist(model_graph: Path) -> None:
    result = ogsql("commit", "show", model_graph, "01XXXXXXXXXXXXXXXXXXXXXXXX")

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: there is no commit `01XXXXXXXXXXXXXXXXXXXXXXXX`\n")


# recovery ------------------------------------------------------------------------------------------------------------


def test_nothing_to_recover(model_graph: Path) -> None:
    assert ogsql("recovery", "list", model_graph).out == "0 pending, 0 quarantined, 0 operations recovered\n"
    assert ogsql("recovery", "list", model_graph, "--json").document == {"pending": [], "quarantined": [], "audit": []}


def test_an_interrupted_write_is_pending_until_the_next_write(graph: Path) -> None:
    crash = {"OMNIGRAPH_FAILPOINTS": "write.post_effects_pre_publish=exit"}
    assert ogsql(*DREDGE_ROTTERDAM, graph, env=crash).status == 86
    before = files_of(graph)
    (operation,) = ogsql("recovery", "list", graph, "--json").document["pending"]

    assert ogsql("recovery", "list", graph).out == (
        f"pending {operation}\n1 pending, 0 quarantined, 0 operations recovered\n"
    )
    done(ogsql("snapshot", graph))
    assert files_of(graph) == before, "looking changes nothing"

    done(ogsql("branch", "create", graph, "next", "--quiet"))
    document = ogsql("recovery", "list", graph, "--json").document
    assert document["pending"] == []
    (row,) = document["audit"]
    assert set(row) == {
        "graph_commit_id",
        "recovery_kind",
        "recovery_for_actor",
        "operation_id",
        "sidecar_writer_kind",
        "per_table_outcomes",
        "created_at",
    }
    assert (row["operation_id"], row["sidecar_writer_kind"]) == (operation, "Mutation")
    assert [table["table_key"] for table in row["per_table_outcomes"]] == ["node:Port"]
    table, _, summary = ogsql("recovery", "list", graph).out.rstrip("\n").rpartition("\n\n")
    assert operation in table
    assert summary == "0 pending, 0 quarantined, 1 operation recovered"


def test_the_history_is_complete_for_a_reader_that_comes_after_a_crash(graph: Path) -> None:
    crash = {"OMNIGRAPH_FAILPOINTS": "journal.before_append=exit"}
    assert ogsql(*DREDGE_ROTTERDAM, graph, env=crash).status == 86

    assert len(history(graph)) == 3
