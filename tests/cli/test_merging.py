"""`ogsql branch merge`, `revert`, `cherry-pick` and `restore`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.graphs import DREDGE, depths, done, history
from tests.cli.ogsql import Finished, ogsql
from tests.cli.test_colour import on_a_terminal

CONFLICT = """\
DivergentUpdate  Port BEANR
  node:Port `BEANR` was changed on both sides (depth)
  depth
    base   16.0
    ours   30.0
    theirs 20.0

"""


def dredged(graph: Path, depth: float, branch: str = "main") -> Finished:
    params = json.dumps({"code": "BEANR", "depth": depth})
    return done(ogsql("mutate", graph, "-e", DREDGE, "--params", params, "--branch", branch, "--quiet"))


def branched(graph: Path) -> Path:
    """A graph whose branch `draft` changed a port."""
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    dredged(graph, 20.0, "draft")
    return graph


@pytest.fixture
def divergent(graph: Path) -> Path:
    """A graph whose branches changed one port differently."""
    dredged(branched(graph), 30.0)
    return graph


def heads(graph: Path) -> dict[str, str]:
    details = done(ogsql("branch", "list", graph, "--json")).document["details"]
    return {info["name"]: info["commit_id"] for info in details}


# merge ---------------------------------------------------------------------------------------------------------------


def test_merge_says_what_it_changed(graph: Path) -> None:
    before = heads(branched(graph))
    result = ogsql("branch", "merge", graph, "draft", "--message", "deeper", "--as", "eve", "--delete-branch")

    (commit, *_) = history(graph)
    assert (result.status, result.err) == (0, f"target: {graph}, branch main\n")
    assert result.out == (
        "type  kind  inserted  updated  deleted\n"
        "Port  node         0        1        0\n"
        "\n"
        "merged draft into main (fast forward)\n"
        f"commit {commit['graph_commit_id']}\n"
        "deleted the branch draft\n"
    )
    assert (commit["message"], commit["actor_id"]) == ("deeper", "eve")
    assert (commit["parent_commit_id"], commit["merged_parent_commit_id"]) == (before["main"], before["draft"])
    assert list(heads(graph)) == ["main"]


def test_merge_as_json_into_another_branch(divergent: Path) -> None:
    done(ogsql("branch", "create", divergent, "release", "--quiet"))
    result = ogsql(
        "branch", "merge", "--store", divergent, "main", "--into", "draft", "--json", "--quiet", "--resolve", "theirs"
    )

    assert (result.status, result.err) == (0, "")
    document = result.document
    assert (document["outcome"], document["resolved"], document["target"]) == ("merged", 1, "draft")
    assert document["changes"] == {"node:Port": {"inserts": 0, "updates": 1, "deletes": 0}}
    assert document["commit"]["graph_commit_id"] == heads(divergent)["draft"]
    assert depths(divergent, "draft")["BEANR"] == 30.0
    again = ogsql("branch", "merge", divergent, "main", "--into", "draft", "--quiet")
    assert (again.status, again.out) == (0, "draft has the changes of main already: nothing to do\n")


def test_conflicts_are_shown_and_nothing_is_changed(divergent: Path) -> None:
    before = heads(divergent)
    result = ogsql("branch", "merge", divergent, "draft", "--quiet", "--delete-branch")

    assert (result.status, result.out) == (5, CONFLICT)
    assert result.err.startswith("error: 1 conflict: nothing was changed\nhint: decide them with --resolve")
    assert heads(divergent) == before


def test_conflicts_as_json(divergent: Path) -> None:
    for options, member in ((["--dry-run"], "outcome"), ([], "error")):
        result = ogsql("branch", "merge", divergent, "draft", *options, "--json", "--quiet")
        (conflict,) = result.document["conflicts"]

        assert (result.status, result.err) == (5, "")
        assert member in result.document
        assert (conflict["kind"], conflict["id"], conflict["properties"]) == ("DivergentUpdate", "BEANR", ["depth"])
        assert [conflict[side]["depth"] for side in ("base", "ours", "theirs")] == [16.0, 30.0, 20.0]


def test_a_dry_run_changes_nothing(graph: Path) -> None:
    before = heads(branched(graph))
    fine = ogsql("branch", "merge", graph, "draft", "--dry-run", "--delete-branch", "--quiet")
    dredged(graph, 30.0)
    conflicting = ogsql("branch", "merge", graph, "draft", "--dry-run", "--quiet")

    assert (fine.status, fine.out.splitlines()[-1]) == (0, "draft can be merged into main (fast forward)")
    assert (conflicting.status, conflicting.err) == (5, "")
    assert conflicting.out == CONFLICT + "draft cannot be merged into main: 1 conflict\n"
    assert heads(graph)["draft"] == before["draft"]


def test_conflicts_are_coloured_on_a_terminal(divergent: Path) -> None:
    words = ("branch", "merge", str(divergent), "draft", "--dry-run", "--quiet")
    screen = on_a_terminal("stdout", *words, cwd=divergent.parent)

    assert "\x1b[1;31mDivergentUpdate\x1b[0m" in screen
    assert "\x1b[32m    ours   \x1b[0m30.0" in screen


@pytest.mark.parametrize(
    ("name", "text", "depth"),
    [
        ("d.yaml", "- {type: Port, id: BEANR, take: theirs}\n", 20.0),
        ("d.yml", "Port: {BEANR: {depth: 25.5}}\n", 25.5),
        ("d.yaml", "'*': ours\n", 30.0),
        ("d.json", '[{"kind": "DivergentUpdate", "take": "theirs"}]', 20.0),
        ("d.json", '{"Port": "theirs"}', 20.0),
        ("d.yaml", "{type: Port, id: BEANR, values: {depth: 25.5}}\n", 25.5),
        ("d.json", '{"type": "Port", "id": "BEANR", "take": "theirs"}', 20.0),
        ("d.jsonl", '{"type": "Port", "id": "BEANR", "values": {"depth": 1.5}}\n\n', 1.5),
        ("decisions", '{"type": "Port", "take": "theirs"}\n{"type": "Port", "id": "BEANR", "take": "ours"}\n', 30.0),
        ("decisions", "theirs\n", 20.0),
    ],
)
def test_decisions_of_a_file(divergent: Path, folder: Path, name: str, text: str, depth: float) -> None:
    (folder / name).write_text(text)
    result = ogsql("branch", "merge", divergent, "draft", "--resolve", name, "--quiet", cwd=folder)

    assert (result.status, result.err) == (0, "")
    assert "\ndecided 1 conflict\n" in result.out
    assert depths(divergent)["BEANR"] == depth


def test_decisions_on_standard_input(divergent: Path) -> None:
    done(ogsql("branch", "merge", divergent, "draft", "--resolve", "-", "--quiet", stdin=b"Port: theirs\n"))
    assert depths(divergent)["BEANR"] == 20.0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("d.json", "{", "is not JSON"),
        ("d.jsonl", "[1]\n", "line 1 is no object"),
        ("d.yaml", "a: [", "d.yaml:"),
        ("d.yaml", "", "holds no decisions"),
        ("d.yaml", "7", "holds no decisions"),
        ("d.yaml", "Port: {7: ours}", "where the text of an id is expected"),
        ("d.yaml", "Port: mine", "takes `ours` or `theirs`"),
        ("d.yaml", "Prot: ours", "no kind of conflict `Prot`"),
        ("d.yaml", "Port: {BEANR: ours, NLRTM: ours}", "there is no conflict"),
        ("d.yaml", b"\xff\xfe", "is not UTF-8"),
        ("missing/d.yaml", None, "does not exist"),
        ("mine", None, "hint: give ours, theirs, or the path of a file of decisions"),
    ],
)
def test_decisions_that_cannot_be_read(divergent: Path, folder: Path, name: str, text: Any, message: str) -> None:
    if text is not None:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = heads(divergent)
    result = ogsql("branch", "merge", divergent, "draft", "--resolve", name, "--quiet", cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert message in result.err
    assert heads(divergent) == before


def test_columns_merge_what_rows_would_not(graph: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    dredged(graph, 20.0, "draft")
    dredged(graph, 20.0)
    result = ogsql("branch", "merge", graph, "draft", "--columns", "--quiet")
    assert (result.status, depths(graph)["BEANR"]) == (0, 20.0)


def test_branches_that_cannot_be_merged(graph: Path) -> None:
    for source, status in (("main", 1), ("nope", 1)):
        result = ogsql("branch", "merge", graph, source, "--quiet")
        assert (result.status, result.out) == (status, "")
        assert "hint: " in result.err
    assert ogsql("branch", "merge", graph).status == 2


# Commits and states --------------------------------------------------------------------------------------------------


def test_revert_takes_a_commit_back(graph: Path) -> None:
    dredged(graph, 30.0)
    wrong = history(graph)[0]["graph_commit_id"]
    result = ogsql("revert", graph, wrong, "--as", "eve", "--quiet")

    (commit, *_) = history(graph)
    assert (result.status, result.err) == (0, "")
    assert result.out.endswith(f"\nreverted {wrong} on main\ncommit {commit['graph_commit_id']}\n")
    assert (commit["origin_commit_id"], commit["actor_id"]) == (wrong, "eve")
    assert f"origin   {wrong}\n" in done(ogsql("commit", "show", graph, commit["graph_commit_id"])).out
    assert depths(graph)["BEANR"] == 16.0


def test_revert_with_a_conflict(graph: Path) -> None:
    dredged(graph, 30.0)
    wrong = history(graph)[0]["graph_commit_id"]
    dredged(graph, 40.0)
    refused = ogsql("revert", graph, wrong, "--quiet")
    as_json = ogsql("revert", graph, wrong, "--quiet", "--json")

    assert (refused.status, as_json.status) == (5, 5)
    assert refused.out.startswith("DivergentUpdate  Port BEANR\n")
    assert [conflict["id"] for conflict in as_json.document["conflicts"]] == ["BEANR"]
    done(ogsql("revert", graph, wrong, "--resolve", "theirs", "--quiet", "--message", "back"))
    assert (depths(graph)["BEANR"], history(graph)[0]["message"]) == (16.0, "back")


def test_cherry_pick_applies_a_commit_of_another_branch(graph: Path) -> None:
    branched(graph)
    wanted = history(graph, "draft")[0]["graph_commit_id"]
    result = ogsql("cherry-pick", graph, wanted, "--json", "--quiet")
    again = ogsql("cherry-pick", graph, wanted, "--quiet")

    assert (result.status, result.document["commit"]["origin_commit_id"]) == (0, wanted)
    assert depths(graph)["BEANR"] == 20.0
    assert (again.status, again.out) == (0, f"main has the changes of {wanted} already: nothing to do\n")


def test_restore_brings_an_earlier_state_back(graph: Path) -> None:
    branched(graph)
    first = history(graph)[0]["graph_commit_id"]
    dredged(graph, 30.0, "draft")
    result = ogsql("restore", graph, first, "--branch", "draft", "--message", "start over", "--quiet")

    assert (result.status, result.out.splitlines()[-2]) == (0, f"restored {first} on draft")
    assert (depths(graph, "draft")["BEANR"], history(graph, "draft")[0]["message"]) == (16.0, "start over")


@pytest.mark.parametrize("command", ["revert", "cherry-pick", "restore"])
def test_commits_that_do_not_exist(graph: Path, command: str) -> None:
    result = ogsql(command, graph, "01J00000000000000000000000", "--quiet")

    assert (result.status, result.out) == (1, "")
    assert "hint: " in result.err
    assert ogsql(command, graph).status == 2


@pytest.mark.parametrize("command", ["revert", "cherry-pick"])
def test_conflicts_of_reverts_and_picks_show_the_rows(graph: Path, command: str) -> None:
    dredged(graph, 30.0)
    wrong = history(graph)[0]["graph_commit_id"]
    dredged(graph, 40.0)
    before = heads(graph)
    base, theirs = (30.0, 16.0) if command == "revert" else (16.0, 30.0)
    images = f"  depth\n    base   {base}\n    ours   40.0\n    theirs {theirs}\n\n"
    doing, done_ = ("reverting", "reverted") if command == "revert" else ("picking", "picked")

    refused = ogsql(command, graph, wrong, "--quiet")
    dry = ogsql(command, graph, wrong, "--quiet", "--dry-run")
    as_json = ogsql(command, graph, wrong, "--quiet", "--json")
    (conflict,) = as_json.document["conflicts"]

    assert (refused.status, dry.status, dry.err, as_json.status) == (5, 5, "", 5)
    assert refused.out.endswith(images)
    assert refused.err.endswith("hint: decide them with --resolve, or look at them again with --dry-run\n")
    assert dry.out == f"{refused.out}{wrong} cannot be {done_} on main: 1 conflict\n"
    assert as_json.document["error"].startswith(f"{doing} `{wrong}` on `main` met 1 conflict")
    assert [conflict[side]["depth"] for side in ("base", "ours", "theirs")] == [base, 40.0, theirs]
    assert heads(graph) == before


def test_dry_runs_of_reverts_picks_and_restores_change_nothing(graph: Path) -> None:
    first = history(graph)[0]["graph_commit_id"]
    branched(graph)
    dredged(graph, 30.0)
    before = heads(graph)
    changed = "type  kind  inserted  updated  deleted\nPort  node         0        1        0\n\n"

    for command, state, line in (
        ("revert", before["main"], f"{before['main']} can be reverted on main"),
        ("restore", first, f"{first} can be restored on main"),
        ("restore", "main", None),
        ("cherry-pick", before["main"], None),
    ):
        result = ogsql(command, graph, state, "--dry-run", "--quiet")
        nothing = f"main has the changes of {state} already: nothing to do\n"
        assert (result.status, result.err) == (0, "")
        assert result.out == (nothing if line is None else f"{changed}{line}\n")
    assert done(ogsql("restore", graph, first, "--dry-run", "--json", "--quiet")).document["commit"] is None
    assert heads(graph) == before
