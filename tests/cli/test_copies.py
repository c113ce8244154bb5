"""`ogsql copy`, bundles, `export` of past states, and pages of listings."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.graphs import DREDGE, depths, done, history
from tests.cli.ogsql import Finished, ogsql

COPY_KEYS = {
    *("uri", "graph_id", "commit_id", "origin_commit_id", "branches"),
    *("tables", "files", "bytes", "reused"),
}


def dredged(graph: Path, depth: float, branch: str = "main") -> Finished:
    params = json.dumps({"code": "BEANR", "depth": depth})
    return done(ogsql("mutate", graph, "-e", DREDGE, "--params", params, "--branch", branch, "--as", "bob", "--quiet"))


# copy ----------------------------------------------------------------------------------------------------------------


def test_copy_says_what_it_copied_and_where(graph: Path, folder: Path) -> None:
    result = ogsql("copy", graph, "copy", cwd=folder)

    assert (result.status, result.err) == (0, f"target: {folder / 'copy'}\n")
    (first,) = history(folder / "copy")
    assert result.out.startswith("copied main: 2 tables, ")
    assert result.out.endswith(f"commit {first['graph_commit_id']}\n")
    assert first["origin_commit_id"] == history(graph)[0]["graph_commit_id"]
    assert first["message"] == f"copy of main of {graph}"
    assert depths(folder / "copy") == depths(graph)


def test_copy_as_json_of_everything(graph: Path, folder: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    dredged(graph, 20.0, "draft")

    result = ogsql("copy", "--store", graph, "copy", "--all", "--json", "--quiet", cwd=folder)

    assert (result.status, result.err) == (0, "")
    assert set(result.document) == COPY_KEYS
    assert (result.document["branches"], result.document["origin_commit_id"]) == (["draft", "main"], None)
    assert history(folder / "copy") == history(graph)
    assert depths(folder / "copy", "draft") == depths(graph, "draft") == {"BEANR": 20.0, "NLRTM": None}


def test_copy_of_branches_commits_and_versions(graph: Path, folder: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    dredged(graph, 20.0, "draft")
    before = history(graph)[0]
    dredged(graph, 30.0)
    states = {
        "one": ("--branch", "draft"),
        "two": ("--snapshot", before["graph_commit_id"]),
        "three": ("--branch", "main", "--at-version", str(before["manifest_version"])),
        "four": ("--message", "for review", "--as", "eve"),
    }
    for name, options in states.items():
        done(ogsql("copy", graph, name, *options, "--quiet", cwd=folder))

    found = {name: depths(folder / name)["BEANR"] for name in states}
    assert found == {"one": 20.0, "two": 16.0, "three": 16.0, "four": 30.0}
    assert [(commit["message"], commit["actor_id"]) for commit in history(folder / "four")] == [("for review", "eve")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--all", "--branch", "main"], "exclude each other"),
        (["--snapshot", "X", "--branch", "main"], "exclude each other"),
        (["--all", "--at-version", "2"], "exclude each other"),
        (["--all", "--message", "x"], "makes no commit"),
    ],
)
def test_options_of_copy_that_do_not_go_together(graph: Path, folder: Path, options: list[str], text: str) -> None:
    result = ogsql("copy", graph, "copy", *options, cwd=folder)

    assert (result.status, result.out) == (2, "")
    assert text in result.err
    assert not (folder / "copy").exists()


def test_copy_refuses_what_is_there(graph: Path, folder: Path) -> None:
    for target, text in (("graph", "is the graph itself"), ("graph/x", "lies in the graph"), (".", "is not empty")):
        result = ogsql("copy", graph, target, "--quiet", cwd=folder)
        assert (result.status, result.out) == (1, "")
        assert text in result.err
    assert ogsql("copy", graph, "copy", "--branch", "nope", "--quiet", cwd=folder).status == 1
    assert not (folder / "copy").exists()


def test_an_interrupted_copy_is_refused_and_repeated(graph: Path, folder: Path) -> None:
    crash = {"OMNIGRAPH_FAILPOINTS": "copy.before_state=exit"}
    assert ogsql("copy", graph, "copy", "--quiet", cwd=folder, env=crash).status != 0

    refused = ogsql("export", "copy", cwd=folder)
    assert (refused.status, "holds an incomplete copy" in refused.err) == (1, True)
    assert "were there already" in done(ogsql("copy", graph, "copy", "--quiet", cwd=folder)).out
    assert depths(folder / "copy") == depths(graph)


# Bundles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bundle.jsonl", "bundle.jsonl.gz"])
def test_a_graph_is_made_of_a_bundle(graph: Path, folder: Path, name: str) -> None:
    written = ogsql("export", graph, "--with-schema", "--out", name, cwd=folder)
    made = ogsql("init", "new", "--from", name, "--as", "eve", cwd=folder)

    assert (written.out, made.out) == (
        f"exported 3 records to {name}\n",
        "created a graph of 3 records: 1 node type, 1 edge type\n",
    )
    assert done(ogsql("export", "new", cwd=folder)).out == done(ogsql("export", graph)).out
    assert [(commit["message"], commit["actor_id"]) for commit in history(folder / "new")] == [
        ("load of a bundle", "eve"),
        ("init", "eve"),
    ]


def test_a_bundle_goes_through_a_pipe(graph: Path, folder: Path) -> None:
    bundle = done(ogsql("export", graph, "--with-schema")).out
    result = ogsql("init", "new", "--from", "-", "--json", "--quiet", stdin=bundle.encode(), cwd=folder)

    assert (result.status, result.document["nodes"]) == (0, ["Port"])
    assert json.loads(bundle.splitlines()[0])["omnigraph"]["rows"] == {"node:Port": 2, "edge:Lane": 1}
    assert depths(folder / "new") == depths(graph)


def test_a_bundle_that_cannot_be_loaded_leaves_no_graph(graph: Path, folder: Path) -> None:
    bundle = done(ogsql("export", graph, "--with-schema")).out.splitlines(keepends=True)
    bad = {
        "short": ("".join(bundle[:-1]), "has 0 records of edge:Lane"),
        "records": ("".join(bundle[1:]), "this is no bundle"),
        "newer": ("".join([bundle[0].replace('"format":1', '"format":2'), *bundle[1:]]), "upgrade first"),
        "wrong": ("".join([*bundle, '{"type":"Nope","data":{}}\n']), "line 5: unknown node type"),
        "broken": ('{"omnigraph":{}}\n', "cannot be read"),
    }
    for name, (text, message) in bad.items():
        (folder / f"{name}.jsonl").write_text(text)
        result = ogsql("init", "new", "--from", f"{name}.jsonl", "--quiet", cwd=folder)
        assert (result.status, result.out) == (1, ""), name
        assert message in result.err, name
    missing = ogsql("init", "new", "--from", "nope.jsonl", "--quiet", cwd=folder)
    both = ogsql("init", "new", "--from", "short.jsonl", "--schema", "ports.pg", "--quiet", cwd=folder)
    assert (missing.status, both.status) == (1, 2)
    done(ogsql("init", "new", "--schema", "ports.pg", "--quiet", cwd=folder))


def test_a_bundle_is_loaded_into_a_graph_of_its_schema_only(graph: Path, folder: Path) -> None:
    bundle = done(ogsql("export", graph, "--with-schema")).out
    (folder / "b.jsonl").write_text(bundle)
    (folder / "other.pg").write_text("node Port { code: String @key  depth: I64? }\nedge Lane: Port -> Port\n")
    done(ogsql("init", "same", "--schema", "ports.pg", "--quiet", cwd=folder))
    done(ogsql("init", "other", "--schema", "other.pg", "--quiet", cwd=folder))

    done(ogsql("load", "same", "--data", "b.jsonl", "--mode", "append", "--quiet", cwd=folder))
    refused = ogsql("load", "other", "--data", "b.jsonl", "--mode", "append", "--quiet", cwd=folder)

    assert depths(folder / "same") == depths(graph)
    assert (refused.status, refused.out) == (5, "")
    assert "node:Port.depth: the type of `depth` cannot be changed from I64? to F64?" in refused.err
    assert depths(folder / "other") == {}


def test_a_bundle_says_which_relations_it_leaves_out(graph: Path) -> None:
    import pyarrow as pa

    import omnigraph_sql as og

    og.connect(graph).tables().create_table("main", "fees", pa.table({"a": [1]}))
    with_schema, plain = ogsql("export", graph, "--with-schema"), ogsql("export", graph)

    assert with_schema.err == "warning: the bundle has the types of the graph only, and leaves out table:main.fees\n"
    assert json.loads(with_schema.out.splitlines()[0])["omnigraph"]["omits"] == ["table:main.fees"]
    assert plain.err == ""


# Past states and pages -----------------------------------------------------------------------------------------------


def test_export_of_past_states(graph: Path, folder: Path) -> None:
    before = history(graph)[0]
    expected = done(ogsql("export", graph)).out
    dredged(graph, 30.0)

    by_commit = ogsql("export", graph, "--snapshot", before["graph_commit_id"])
    by_version = ogsql("export", graph, "--at-version", str(before["manifest_version"]))
    both = ogsql("export", graph, "--snapshot", "x", "--at-version", "1")

    assert (by_commit.out, by_version.out) == (expected, expected)
    assert both.status == 2
    done(ogsql("export", graph, "--snapshot", before["graph_commit_id"], "--with-schema", "--out", "b.gz", cwd=folder))
    header = json.loads(gzip.decompress((folder / "b.gz").read_bytes()).splitlines()[0])
    assert header["omnigraph"]["commit_id"] == before["graph_commit_id"]


def test_commits_come_in_pages(graph: Path) -> None:
    for depth in range(5):
        dredged(graph, float(depth))
    everything = [commit["graph_commit_id"] for commit in history(graph)]

    pages: list[list[str]] = []
    after: list[str] = []
    while True:
        page = done(ogsql("commit", "list", graph, "--limit", "3", *after, "--json")).document
        pages.append([commit["graph_commit_id"] for commit in page["commits"]])
        if page["after"] is None:
            break
        after = ["--after", page["after"]]

    assert pages == [everything[:3], everything[3:6], everything[6:]]
    shown = done(ogsql("commit", "list", graph, "--limit", "3")).out
    assert shown.endswith(f"\n4 more: --after {everything[2]}\n")
    by_bob = done(ogsql("commit", "list", graph, "--actor", "ada", "--limit", "1", "--json")).document
    assert [commit["message"] for commit in by_bob["commits"]] == ["first load"]


def test_bad_pages(graph: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    dredged(graph, 1.0, "draft")
    elsewhere = history(graph, "draft")[0]["graph_commit_id"]

    for commit in ("nope", elsewhere):
        result = ogsql("commit", "list", graph, "--after", commit)
        assert (result.status, result.out) == (1, "")
        assert "is not in the history of the branch `main`" in result.err
    assert ogsql("commit", "list", graph, "--limit", "0").status == 2


def test_branches_with_their_heads(graph: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    done(ogsql("branch", "create", graph, "idle", "--quiet"))
    dredged(graph, 1.0, "draft")
    dredged(graph, 2.0, "draft")
    dredged(graph, 3.0)

    document = done(ogsql("branch", "list", graph, "--json")).document
    shown = done(ogsql("branch", "list", graph)).out.splitlines()

    assert document["branches"] == ["draft", "idle", "main"]
    assert [(info["name"], info["ahead"], info["behind"], info["actor_id"]) for info in document["details"]] == [
        ("draft", 2, 1, "bob"),
        ("idle", 0, 1, "ada"),
        ("main", 0, 0, "bob"),
    ]
    assert [info["commit_id"] for info in document["details"]] == [
        history(graph, branch)[0]["graph_commit_id"] for branch in document["branches"]
    ]
    assert shown[0].split() == ["branch", "commit", "age", "actor", "ahead", "behind", "message"]
    assert [line.split()[0] for line in shown[1:]] == document["branches"]
