"""`ogsql init`, `load`, `ingest`, `mutate`, `branch` and `tag`: commands that change a graph."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.graphs import DREDGE, RECORDS, depths, done, history, jsonl
from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql
from tests.cli.test_colour import on_a_terminal

COMMIT_KEYS = {
    "graph_commit_id",
    "manifest_branch",
    "manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "actor_id",
    "created_at",
    "message",
    "idempotency_key",
    "origin_commit_id",
}
ONE_PORT = jsonl([{"type": "Port", "data": {"code": "DEHAM", "depth": 15.1}}]).encode()


# init ----------------------------------------------------------------------------------------------------------------


def test_init_says_what_it_made_and_where(folder: Path) -> None:
    result = ogsql("init", "new/graph", "--schema", "ports.pg", cwd=folder)

    assert (result.status, result.out) == (0, "created an empty graph: 1 node type, 1 edge type\n")
    assert result.err == f"target: {folder / 'new' / 'graph'}\n"
    assert depths(folder / "new" / "graph") == {}


def test_init_as_json(folder: Path) -> None:
    result = ogsql("init", "--store", "graph", "--schema", "ports.pg", "--as", "ada", "--quiet", "--json", cwd=folder)

    assert (result.status, result.err) == (0, "")
    assert set(result.document) == {"uri", "schema_hash", "nodes", "edges", "commit"}
    assert (result.document["nodes"], result.document["edges"]) == (["Port"], ["Lane"])
    assert set(result.document["commit"]) == COMMIT_KEYS
    assert result.document["commit"]["actor_id"] == "ada"


def test_init_refuses_an_existing_graph(graph: Path, folder: Path) -> None:
    for option in ([], ["--force"]):
        result = ogsql("init", graph, "--schema", "ports.pg", "--quiet", *option, cwd=folder)

        assert (result.status, result.out) == (1, "")
        assert "holds a graph already" in result.err
    assert len(depths(graph)) == 2


def test_init_with_a_broken_schema_points_into_it_and_leaves_nothing(folder: Path) -> None:
    (folder / "bad.pg").write_text("node Port { code: Strin @key }")
    result = ogsql("init", "graph", "--schema", "bad.pg", "--quiet", cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert " --> bad.pg:1:19\n" in result.err
    assert not (folder / "graph").exists()


def test_init_can_be_repeated_by_force_after_it_was_interrupted(folder: Path) -> None:
    crash = {"OMNIGRAPH_FAILPOINTS": "init.after_contract_written=error"}
    failed = ogsql("init", "graph", "--schema", "ports.pg", "--quiet", cwd=folder, env=crash)
    again = ogsql("init", "graph", "--schema", "ports.pg", "--quiet", "--force", cwd=folder)

    assert (failed.status, again.status) == (1, 0)


# load ----------------------------------------------------------------------------------------------------------------


def test_load_reports_rows_and_commit(graph: Path, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_bytes(ONE_PORT + jsonl([{"edge": "Lane", "from": "NLRTM", "to": "DEHAM"}]).encode())
    result = ogsql("load", "graph", "--data", "more.jsonl", "--mode", "append", cwd=tmp_path)

    *lines, last = result.out.splitlines()
    assert result.err == f"target: {graph}, branch main\n"
    assert lines == [
        "type  kind  rows",
        "Port  node     1",
        "Lane  edge     1",
        "",
        "loaded 1 node and 1 edge into main (append)",
    ]
    assert last == f"commit {history(graph)[0]['graph_commit_id']}"


def test_load_as_json(graph: Path) -> None:
    options = ("--mode", "merge", "--as", "grace", "--message", "two lines\nof text", "--json")
    result = ogsql("load", "--store", graph, "--data", "-", *options, stdin=ONE_PORT)

    assert (result.status, result.err) == (0, f"target: {graph}, branch main\n")
    document = result.document
    assert set(document) >= {"uri", "branch", "base_branch", "branch_created", "mode", "nodes", "edges", "tables", "commit"}
    assert (document["uri"], document["branch"], document["branch_created"]) == (str(graph), "main", False)
    assert (document["nodes"], document["edges"]) == ({"Port": 1}, {})
    assert set(document["commit"]) == COMMIT_KEYS
    assert (document["commit"]["actor_id"], document["commit"]["message"]) == ("grace", "two lines\nof text")


def test_modes(graph: Path) -> None:
    data = jsonl([{"type": "Port", "data": {"code": "NLRTM", "depth": 24.0}}]).encode()

    taken = ogsql("load", graph, "--data", "-", "--mode", "append", "-q", stdin=data)
    assert (taken.status, taken.out) == (5, "")
    assert taken.err.startswith("error: line 1: the id `NLRTM` exists already")
    done(ogsql("load", graph, "--data", "-", "--mode", "merge", "-q", stdin=data))
    assert depths(graph) == {"BEANR": 16.0, "NLRTM": 24.0}
    lanes = ogsql("load", graph, "--data", "-", "--mode", "overwrite", "-q", stdin=data)
    assert lanes.status == 1, "a lane would lose its port"
    everything = data + jsonl([{"edge": "Lane", "from": "NLRTM", "to": "NLRTM"}]).encode()
    done(ogsql("load", graph, "--data", "-", "--mode", "overwrite", "-q", stdin=everything))
    assert depths(graph) == {"NLRTM": 24.0}


@pytest.mark.parametrize("way", ["file", "standard input", "process substitution"])
def test_gzipped_records_come_from_anywhere(graph: Path, tmp_path: Path, way: str) -> None:
    packed = tmp_path / "one.jsonl.gz"
    packed.write_bytes(gzip.compress(ONE_PORT))
    data, redirection = {
        "file": ("one.jsonl.gz", "< /dev/null"),
        "standard input": ("-", "< one.jsonl.gz"),
        "process substitution": ("<(cat one.jsonl.gz)", "< /dev/null"),
    }[way]
    result = subprocess.run(
        ["bash", "-c", f"'{OGSQL}' load graph --data {data} --mode append --quiet {redirection}"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert depths(graph)["DEHAM"] == 15.1


def test_tables_are_loaded_by_type(graph: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"code": ["DEHAM", "GBFXT"], "depth": [15.1, None]}), tmp_path / "ports.parquet")
    (tmp_path / "lanes.csv").write_text("from,to\nDEHAM,GBFXT\nGBFXT,NLRTM\n")
    data = ("--data", "Port=ports.parquet", "--data", "edge:Lane=lanes.csv")
    result = ogsql("load", "graph", *data, "--mode", "append", "--quiet", "--json", cwd=tmp_path)

    assert (result.document["nodes"], result.document["edges"]) == ({"Port": 2}, {"Lane": 2})
    assert depths(graph) == {"BEANR": 16.0, "DEHAM": 15.1, "GBFXT": None, "NLRTM": None}


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--data", "a.jsonl", "--data", "b.jsonl"], "--data takes one file of records"),
        (["--data", "a.jsonl", "--data", "Port=b.csv"], "records and tables cannot be loaded together"),
        (["--data", "Port=a.csv", "--data", "Port=b.csv"], "names the type Port twice"),
        (["--data", "a.parquet"], "as in --data TYPE=a.parquet"),
        ([], "Missing option '--data'"),
    ],
)
def test_data_that_does_not_fit_together_is_a_usage_error(
    model_graph: Path, tmp_path: Path, options: list[str], fragment: str
) -> None:
    result = ogsql("load", model_graph, *options, "--mode", "append", cwd=tmp_path)

    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Usage: ogsql load [OPTIONS] [URI]\n")
    assert fragment in result.err


def test_the_mode_must_be_given(model_graph: Path) -> None:
    result = ogsql("load", model_graph, "--data", "-")

    assert result.status == 2
    assert "Missing option '--mode'" in result.err


def test_a_missing_data_file_is_named_before_anything_happens(model_graph: Path, folder: Path) -> None:
    (folder / "ports.jsonl").write_text("")
    result = ogsql("load", model_graph, "--data", "port.jsonl", "--mode", "append", cwd=folder)
    table = ogsql("load", model_graph, "--data", "Port=port.csv", "--mode", "append", cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert result.err == "error: the file `port.jsonl` does not exist\nhint: did you mean `ports.jsonl`?\n"
    assert (table.status, table.err) == (1, "error: the file `port.csv` does not exist\n")


def test_a_bad_record_is_named_by_its_line_and_nothing_is_loaded(graph: Path) -> None:
    data = ONE_PORT + jsonl([{"type": "Port", "data": {"code": "GBFXT", "depth": "deep"}}]).encode()
    result = ogsql("load", graph, "--data", "-", "--mode", "append", "--quiet", stdin=data)
    as_json = ogsql("load", graph, "--data", "-", "--mode", "append", "--quiet", "--json", stdin=data)

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: line 2: ")
    assert (as_json.status, as_json.err) == (1, "")
    assert as_json.document["error"].startswith("line 2: ")
    assert len(history(graph)) == 2


def test_an_idempotency_key_is_used_once(graph: Path) -> None:
    load = ("load", graph, "--data", "-", "--mode", "merge", "--idempotency-key", "2026-03", "--quiet", "--json")
    first, second = (ogsql(*load, stdin=ONE_PORT).document["commit"] for _ in range(2))

    assert first["idempotency_key"] == "2026-03"
    assert first["graph_commit_id"] == second["graph_commit_id"]
    assert len(history(graph)) == 3


def test_ingest_creates_its_branch_and_load_does_so_only_when_told(graph: Path) -> None:
    data = ("--data", "-", "--mode", "append", "--quiet", "--json")
    refused = ogsql("load", graph, *data, "--branch", "draft", stdin=ONE_PORT)
    ingested = ogsql("ingest", graph, *data, "--branch", "draft", stdin=ONE_PORT)
    derived = ogsql("load", graph, *data, "--branch", "review", "--from", "draft", stdin=jsonl([]).encode())

    assert refused.status == 1
    assert "there is no branch `draft`" in refused.document["error"]
    assert (ingested.document["base_branch"], ingested.document["branch_created"]) == ("main", True)
    assert derived.document["commit"] is None
    assert (derived.document["base_branch"], derived.document["branch_created"]) == ("draft", True)
    assert "DEHAM" not in depths(graph)
    assert "DEHAM" in depths(graph, "review")


def test_a_terminal_sees_progress_unless_it_is_quiet(graph: Path, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_bytes(ONE_PORT)
    load = ("load", str(graph), "--data", "one.jsonl", "--mode", "merge")

    shown = on_a_terminal("stderr", *load, cwd=tmp_path)
    assert "reading one.jsonl" in shown
    assert "100%" in shown
    assert on_a_terminal("stderr", *load, "--quiet", cwd=tmp_path) == ""
    assert "reading" not in on_a_terminal("stderr", *load, "--json", cwd=tmp_path)
    assert "reading" not in on_a_terminal("stderr", *load, cwd=tmp_path, env={"TERM": "dumb"})


def test_rejects_are_reported_and_left_out_up_to_the_limit(graph: Path, folder: Path) -> None:
    data = jsonl(
        [
            {"type": "Port", "data": {"code": "DEHAM"}},
            {"type": "Port", "data": {"code": "FRLEH", "depth": "deep"}},
            {"edge": "Lane", "from": "DEHAM", "to": "FRLEH"},
        ]
    )
    (folder / "mixed.jsonl").write_text(data)
    load = ("load", graph, "--data", "mixed.jsonl", "--mode", "append", "--quiet", "--rejects", "bad.jsonl")

    refused = ogsql(*load, cwd=folder)
    reported = (folder / "bad.jsonl").read_text()
    accepted = ogsql(*load, "--max-rejects", "2", cwd=folder)

    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("error: 2 records are rejected, 0 allowed; the first: line 2: ")
    assert "bad.jsonl" in refused.err
    assert [json.loads(line)["line"] for line in reported.splitlines()] == [2, 3]
    assert (accepted.status, "left out 2 records that break a rule; see bad.jsonl\n" in accepted.out) == (0, True)
    assert set(depths(graph)) == {"BEANR", "NLRTM", "DEHAM"}
    assert sorted(path.name for path in folder.glob(".rejects*")) == []


def test_a_single_reject_is_told_as_one(graph: Path, folder: Path) -> None:
    (folder / "bad.jsonl").write_text(jsonl([{"type": "Port", "data": {"code": "FRLEH", "depth": "deep"}}]))
    load = ("load", graph, "--data", "bad.jsonl", "--mode", "append", "--quiet", "--max-rejects", "1")

    assert "left out 1 record that breaks a rule\n" in ogsql(*load, cwd=folder).out


def test_rejects_to_a_dash_are_refused(graph: Path, folder: Path) -> None:
    (folder / "bad.jsonl").write_text(jsonl([{"type": "Port", "data": {"code": "FRLEH", "depth": "deep"}}]))
    load = ("load", graph, "--data", "bad.jsonl", "--mode", "append", "--quiet", "--max-rejects", "1", "--rejects")

    refused = ogsql(*load, "-", cwd=folder)
    reported = ogsql(*load, "/dev/stdout", cwd=folder)

    assert (refused.status, refused.out) == (1, "")
    assert "/dev/stdout" in refused.err
    assert not (folder / "-").exists()
    assert (reported.status, '"rule": "type"' in reported.out) == (0, True)


def test_the_limit_of_rejects_may_be_a_share(graph: Path, folder: Path) -> None:
    rows = [{"type": "Port", "data": {"code": f"P{n}"}} for n in range(199)]
    (folder / "mixed.jsonl").write_text(jsonl([*rows, {"type": "Port", "data": {"code": "X", "depth": "deep"}}]))
    load = ("load", graph, "--data", "mixed.jsonl", "--mode", "append", "--quiet", "--max-rejects")
    for wrong in ("-1", "101%", "half", "1.5", ""):
        result = ogsql(*load, wrong, cwd=folder)
        assert (result.status, "neither a number nor a share" in result.err) == (2, True)
    assert ogsql(*load, "0.4%", cwd=folder).status == 1
    assert ogsql(*load, "0.5%", cwd=folder).status == 0


def test_rejects_that_cannot_be_put_in_place(graph: Path, folder: Path) -> None:
    (folder / "mixed.jsonl").write_text(jsonl([{"type": "Port", "data": {"code": "X", "depth": "deep"}}]))
    load = ("load", graph, "--data", "mixed.jsonl", "--mode", "merge", "--quiet", "--max-rejects", "1", "--rejects")
    for target in ("mixed.jsonl", ".", "no/where", str(graph / "_schema.pg"), ""):
        result = ogsql(*load, target, cwd=folder)
        assert (result.status, result.out) == (1, "")
        assert "the rejected records cannot be written to" in result.err
    full = ogsql(*load, "/dev/full", cwd=folder)
    assert (full.status, full.err.count("warning: the rejected records cannot be written to /dev/full")) == (0, 1)
    kept = Path(full.err.rpartition("they are in ")[2].strip())
    assert f"see {kept}" in full.out
    kept.unlink()


def test_csv_files_are_read_as_the_options_say(graph: Path, folder: Path) -> None:
    (folder / "ports.csv").write_bytes("X1\tn/a\tcaf\xe9\nX2\t7\t\n".encode("latin-1"))
    spelled = ("--csv-delimiter", "\\t", "--csv-encoding", "latin-1", "--csv-null", "n/a", "--csv-names", "code,depth,note")
    load = ("load", graph, "--data", "Port=ports.csv", "--mode", "append", "--quiet", *spelled)
    refused = ogsql(*load, cwd=folder)
    assert (refused.status, "unknown column `note`" in refused.err) == (1, True)
    assert ogsql(*load, "--skip-extra-columns", cwd=folder).status == 0
    assert {code: depth for code, depth in depths(graph).items() if code.startswith("X")} == {"X1": None, "X2": 7.0}


def test_edges_that_nothing_identifies_are_warned_of(graph: Path, folder: Path) -> None:
    (folder / "lanes.jsonl").write_text(jsonl([{"edge": "Lane", "from": "NLRTM", "to": "NLRTM"}]))
    result = ogsql("load", graph, "--data", "lanes.jsonl", "--mode", "merge", "--quiet", cwd=folder)
    assert result.status == 0
    assert result.err.count("warning: merge made new edges") == 1
    assert "declare @unique(src, dst)" in result.err


def test_a_mutation_has_a_message_and_a_key(graph: Path, folder: Path) -> None:
    mutate = ("mutate", graph, "-e", 'query add() { insert Port { code: "KEYED" } }', "--message", "why", "--quiet")
    keyed = (*mutate, "--idempotency-key", "once")
    first, second = (ogsql(*keyed, "--json", cwd=folder).document for _ in range(2))
    assert (first["commit"]["message"], first["commit"]["idempotency_key"]) == ("why", "once")
    assert (first["replayed"], second["replayed"], second["commit"]) == (False, True, first["commit"])
    assert "was published before" in ogsql(*keyed, cwd=folder).out


def test_rejects_as_json(graph: Path, folder: Path) -> None:
    (folder / "mixed.jsonl").write_text('{"type": "Port", "data": {"code": 5}}\n')

    result = ogsql("load", graph, "--data", "mixed.jsonl", "--mode", "append", "--max-rejects", "1", "--json", cwd=folder)

    assert (result.status, result.document["rejected"], result.document["commit"]) == (0, 1, None)


# mutate --------------------------------------------------------------------------------------------------------------


def test_mutate_from_the_command_line(graph: Path) -> None:
    result = ogsql("mutate", graph, "-e", DREDGE, "--params", '{"code": "NLRTM", "depth": 24}', "--as", "grace")

    newest = history(graph)[0]
    assert result.err == f"target: {graph}, branch main\n"
    assert result.out == f"affected 1 node and 0 edges\ncommit {newest['graph_commit_id']}\n"
    assert newest["actor_id"] == "grace"
    assert depths(graph)["NLRTM"] == 24.0


def test_mutate_from_files_on_a_branch(graph: Path, folder: Path) -> None:
    (folder / "values.json").write_text('{"code": "NLRTM", "depth": 24}')
    done(ogsql("branch", "create", graph, "survey", "--quiet"))
    files = ("--query", "ports.gq", "--params-file", "values.json")
    result = ogsql("mutate", "--store", graph, "dredge", *files, "--branch", "survey", "--quiet", "--json", cwd=folder)

    assert (result.status, result.err) == (0, "")
    assert set(result.document) == {
        "uri",
        "branch",
        "query_name",
        "affected_nodes",
        "affected_edges",
        "replayed",
        "actor_id",
        "commit",
    }
    assert (result.document["query_name"], result.document["affected_nodes"]) == ("dredge", 1)
    assert result.document["commit"]["manifest_branch"] == "survey"
    assert (depths(graph)["NLRTM"], depths(graph, "survey")["NLRTM"]) == (None, 24.0)


def test_a_mutation_that_meets_nothing_makes_no_commit(graph: Path) -> None:
    mutate = ("mutate", graph, "-e", DREDGE, "--params", '{"code": "XXXXX", "depth": 1}', "--quiet")

    assert ogsql(*mutate).out == "affected 0 nodes and 0 edges\nnothing to commit\n"
    document = ogsql(*mutate, "--json").document
    assert (document["query_name"], document["commit"]) == ("dredge", None)


def test_a_mutation_may_depend_on_the_newest_commit(graph: Path) -> None:
    newest, first = (commit["graph_commit_id"] for commit in history(graph))
    mutate = ("mutate", graph, "-e", DREDGE, "--params", '{"code": "NLRTM", "depth": 2}', "--quiet")

    stale = ogsql(*mutate, "--if-commit", first)
    assert (stale.status, stale.out) == (4, "")
    assert depths(graph)["NLRTM"] is None
    assert ogsql(*mutate, "--if-commit", newest).status == 0


def test_a_mutation_may_be_evaluated_anew(graph: Path) -> None:
    mutate = ("mutate", graph, "-e", DREDGE, "--params", '{"code": "NLRTM", "depth": 2}', "--quiet")

    assert ogsql(*mutate, "--retries", "2").status == 0
    assert depths(graph)["NLRTM"] == 2
    assert ogsql(*mutate, "--retries", "-1").status == 2


@pytest.mark.parametrize(
    ("options", "status", "fragment"),
    [
        (["-e", 'query q() { delete Prot where code = "A" }'], 1, " --> <-e>:1:20\n"),
        (["--query", "broken.gq"], 1, " --> broken.gq:1:10\n"),
        (["deep", "--query", "ports.gq", "--params", '{"depth": 1}'], 1, "`deep` is a read"),
        (["--query", "ports.gq"], 1, "error: "),
        (["-e", DREDGE], 1, "error: parameter 'code' not provided"),
        (["-e", DREDGE, "--params", "{"], 1, "error: --params is not JSON: "),
        (["-e", DREDGE, "--params", "[1]"], 1, "error: --params must hold a JSON object"),
        (["-e", DREDGE, "--params", '{"depth": NaN}'], 1, "NaN is not a JSON value"),
        (["-e", DREDGE, "--params-file", "ports.gq"], 1, "error: the file `ports.gq` is not JSON: "),
        (["-e", DREDGE, "--params", "{}", "--params-file", "ports.gq"], 2, "exclude each other"),
        (["-e", DREDGE, "--query", "ports.gq"], 2, "either --query FILE or -e GQ"),
        ([], 2, "either --query FILE or -e GQ"),
        (["dredge", "extra", "-e", DREDGE], 2, "unexpected extra argument (extra)"),
        (["-e", DREDGE, "--as", "omnigraph:recovery"], 1, "is reserved"),
    ],
)
def test_mutations_that_cannot_run(model_graph: Path, folder: Path, options: list[str], status: int, fragment: str) -> None:
    result = ogsql("mutate", model_graph, *options, cwd=folder)

    assert (result.status, result.out) == (status, "")
    assert fragment in result.err


def test_a_mistake_in_a_mutation_as_json(model_graph: Path, folder: Path) -> None:
    (folder / "bad.gq").write_text('query q() { delete Prot where code = "A" }')
    result = ogsql("mutate", model_graph, "--query", "bad.gq", "--json", "--quiet", cwd=folder)

    assert (result.status, result.err) == (1, "")
    (diagnostic,) = result.document["diagnostics"]
    assert (diagnostic["path"], diagnostic["line"], diagnostic["column"]) == ("bad.gq", 1, 20)
    assert result.document["code"] == diagnostic["code"]


# branch --------------------------------------------------------------------------------------------------------------


def test_branches_come_and_go(graph: Path) -> None:
    head = history(graph)[0]["graph_commit_id"]
    made = ogsql("branch", "create", graph, "draft/one")
    derived = ogsql("branch", "create", "--store", graph, "second", "--from", "draft/one", "--json", "--quiet")

    assert (made.status, made.out) == (0, "created the branch draft/one from main\n")
    assert made.err == f"target: {graph}, branch draft/one\n"
    assert derived.document == {"uri": str(graph), "name": "second", "from": "draft/one", "commit_id": head}
    assert done(ogsql("branch", "list", graph, "--json")).document["branches"] == ["draft/one", "main", "second"]
    in_use = ogsql("branch", "delete", graph, "draft/one", "--quiet")
    assert (in_use.status, in_use.out) == (5, "")
    deleted = ogsql("branch", "delete", graph, "second", "--json", "--quiet")
    assert deleted.document == {"uri": str(graph), "name": "second", "deleted": True}
    gone = ogsql("branch", "delete", graph, "draft/one")
    assert (gone.out, gone.err) == ("deleted the branch draft/one\n", f"target: {graph}, branch draft/one\n")
    assert ogsql("branch", "list", graph, "--json").document["branches"] == ["main"]


@pytest.mark.parametrize(
    ("arguments", "status", "fragment"),
    [
        (["create", "main"], 1, "is reserved"),
        (["create", "a b"], 1, "is not a branch name"),
        (["create", "x", "--from", "nowhere"], 1, "there is no branch, tag or commit `nowhere`"),
        (["delete", "nowhere"], 1, "hint: there are main"),
        (["delete", "main"], 1, "cannot be deleted"),
        (["create"], 2, "Missing argument 'NAME'"),
        (["create", "x", "y"], 2, "the graph is named by --store already"),
    ],
)
def test_branches_that_cannot_be(model_graph: Path, arguments: list[str], status: int, fragment: str) -> None:
    command, *rest = arguments
    result = ogsql("branch", command, *rest, "--store", model_graph)

    assert (result.status, result.out) == (status, "")
    assert fragment in result.err


# tag -----------------------------------------------------------------------------------------------------------------


def test_tags_come_and_go(graph: Path) -> None:
    head = history(graph)[0]["graph_commit_id"]
    made = ogsql("tag", "create", graph, "v1", "--message", "first", "--as", "ada")
    derived = ogsql("tag", "create", "--store", graph, "v1.1", "--from", "v1", "--json", "--quiet")

    assert (made.status, made.out) == (0, f"created the tag v1 at commit {head} of main\n")
    assert made.err == f"target: {graph}\n"
    assert (derived.document["name"], derived.document["graph_commit_id"]) == ("v1.1", head)
    listed = ogsql("tag", "list", graph, "--json").document["tags"]
    assert [(tag["name"], tag["actor_id"], tag["message"]) for tag in listed] == [
        ("v1", "ada", "first"),
        ("v1.1", None, None),
    ]
    lines = ogsql("tag", "list", graph).out.splitlines()
    assert [line.split()[:2] for line in lines] == [["tag", "commit"], ["v1", head], ["v1.1", head]]
    deleted = ogsql("tag", "delete", graph, "v1.1", "--json", "--quiet")
    assert deleted.document == {"uri": str(graph), "name": "v1.1", "deleted": True}
    gone = ogsql("tag", "delete", graph, "v1")
    assert (gone.out, gone.err) == ("deleted the tag v1\n", f"target: {graph}\n")
    assert ogsql("tag", "list", graph, "--json").document == {"tags": []}


def test_commands_read_tags_and_branch_from_them(graph: Path) -> None:
    done(ogsql("tag", "create", graph, "v1", "--quiet"))
    done(ogsql("mutate", graph, "-e", DREDGE, "--params", '{"code": "NLRTM", "depth": 99.0}', "--quiet"))
    deepest = "select max(depth) as n from Port"
    query = "query q() { match { $p: Port } return { max($p.depth) as n } }"

    now = ogsql("sql", graph, deepest, "--format", "json").document
    state = ("--snapshot", "v1", "--format", "json")
    before = [ogsql("sql", graph, deepest, *state).document, ogsql("query", graph, "-e", query, *state).document]
    done(ogsql("explain", graph, "-e", query, "--snapshot", "v1"))
    shown = ogsql("snapshot", graph, "--commit", "v1", "--json").document
    done(ogsql("branch", "create", graph, "fix", "--from", "v1", "--quiet"))

    assert now["rows"] == [{"n": 99.0}]
    assert before[0]["rows"] == before[1]["rows"] != now["rows"]
    assert shown["commit_id"] == history(graph)[1]["graph_commit_id"]
    assert ogsql("snapshot", graph, "--branch", "fix", "--json").document["commit_id"] == shown["commit_id"]


@pytest.mark.parametrize(
    ("arguments", "status", "fragment"),
    [
        (["create", "main"], 5, "is a branch"),
        (["create", "a b"], 1, "is not a name for a tag"),
        (["create", "x", "--from", "nowhere"], 1, "there is no branch, tag or commit `nowhere`"),
        (["delete", "nowhere"], 1, "hint: there are no tags"),
        (["create"], 2, "Missing argument 'NAME'"),
        (["create", "x", "y"], 2, "the graph is named by --store already"),
    ],
)
def test_tags_that_cannot_be(model_graph: Path, arguments: list[str], status: int, fragment: str) -> None:
    command, *rest = arguments
    result = ogsql("tag", command, *rest, "--store", model_graph)

    assert (result.status, result.out) == (status, "")
    assert fragment in result.err


# Which graph ---------------------------------------------------------------------------------------------------------

COMMANDS = [
    ["init", "--schema", "x.pg"],
    ["load", "--data", "-", "--mode", "append"],
    ["snapshot"],
    ["export"],
    ["branch", "list"],
    ["tag", "list"],
    ["commit", "list"],
    ["recovery", "list"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_server_is_not_a_directory(tmp_path: Path, command: list[str]) -> None:
    for option in ([], ["--store"]):
        result = ogsql(*command, *option, "https://graphs.example.com", cwd=tmp_path)

        assert (result.status, result.out) == (2, "")
        assert "is the address of a server" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", [["mutate", "-e", DREDGE], ["branch", "create"], ["tag", "create"], ["commit", "show"]], ids=" ".join
)
def test_a_server_before_a_word_is_not_a_directory_either(command: list[str]) -> None:
    result = ogsql(*command, "http://localhost:8080", "word")

    assert (result.status, result.out) == (2, "")
    assert "is the address of a server" in result.err


def test_the_graph_must_be_named_once(model_graph: Path) -> None:
    never = ogsql("snapshot", "--json")
    twice = ogsql("snapshot", model_graph, "--store", model_graph)

    assert (never.status, never.document["error"]) == (2, "Missing argument 'URI'.")
    assert twice.status == 2
    assert "the graph is named twice" in twice.err


@pytest.mark.parametrize("command", [["snapshot"], ["load", "--data", "-", "--mode", "append"]], ids=" ".join)
def test_an_address_without_a_graph(tmp_path: Path, command: list[str]) -> None:
    result = ogsql(*command, "nothing", cwd=tmp_path)

    assert (result.status, result.out) == (1, "")
    there = tmp_path / "nothing"
    assert result.err == f"error: there is no graph at {there}\nhint: look at the address, or create one with init\n"
    assert os.listdir(tmp_path) == []


def test_records_survive_the_way_out_and_in(graph: Path, folder: Path) -> None:
    done(ogsql("export", graph, "--out", "all.jsonl", cwd=folder))
    done(ogsql("init", "copy", "--schema", "ports.pg", "--quiet", cwd=folder))
    done(ogsql("load", "copy", "--data", "all.jsonl", "--mode", "append", "--quiet", cwd=folder))
    copied = ogsql("export", "copy", cwd=folder).out

    assert copied == ogsql("export", graph).out
    assert len(copied.splitlines()) == len(RECORDS)
    assert json.loads(copied.splitlines()[0]) == {"type": "Port", "data": {"id": "BEANR", "code": "BEANR", "depth": 16.0}}
