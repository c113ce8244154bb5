"""`ogsql diff`, `ogsql commit changes` and `ogsql changes`."""

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.graphs import DREDGE, done, history
from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql
from tests.cli.test_colour import on_a_terminal, without_colour


def load(graph: Path, *records: dict[str, Any], mode: str = "append") -> None:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    done(ogsql("load", graph, "--data", "-", "--mode", mode, "--quiet", stdin=lines.encode()))


def port(code: str, **values: Any) -> dict[str, Any]:
    return {"type": "Port", "data": {"code": code, **values}}


@pytest.fixture
def changed(graph: Path) -> Path:
    """The graph after an update, an insert and a delete."""
    parameters = '{"code": "NLRTM", "depth": 24.0}'
    done(ogsql("mutate", graph, "-e", DREDGE, "--params", parameters, "--quiet", "--as", "bob", "--message", "dredged"))
    load(graph, port("GBFXT", depth=16))
    done(ogsql("mutate", graph, "-e", 'query q() { delete Port where code = "BEANR" }', "--quiet"))
    return graph


def lane(graph: Path) -> str:
    """The id of the lane that `BEANR` and `NLRTM` began with."""
    return str(done(ogsql("diff", graph, "main@1", "main@2", "--json")).document["changes"][-1]["id"])


# diff ----------------------------------------------------------------------------------------------------------------


def test_diff_shows_signs_ends_and_the_values_of_updates(changed: Path) -> None:
    assert done(ogsql("diff", changed, "main@2", "main")).out == (
        "- Port BEANR\n"
        "+ Port GBFXT\n"
        "~ Port NLRTM\n"
        "    depth: null -> 24.0\n"
        f"- Lane {lane(changed)}  BEANR -> NLRTM\n"
        "\n"
        "1 insert, 1 update, 2 deletes in 2 types\n"
    )
    assert done(ogsql("diff", changed, "main", "main")).out == "0 inserts, 0 updates, 0 deletes in 0 types\n"


def test_diff_without_values(changed: Path) -> None:
    out = done(ogsql("diff", changed, "main@2", "main", "--no-values", "--type", "Port", "--op", "update")).out
    assert out == "~ Port NLRTM\n\n0 inserts, 1 update, 0 deletes in 1 type\n"


def test_diff_in_markdown(changed: Path) -> None:
    load(changed, port("A|`B"))
    assert done(ogsql("diff", changed, "main@2", "main", "--format", "markdown")).out == (
        "## Changes from `main@2` to `main`\n\n"
        "2 inserts, 1 update, 2 deletes in 2 types.\n\n"
        "| | Type | Id | Property | Before | After |\n"
        "|---|---|---|---|---|---|\n"
        "| + | Port | `` A\\|`B `` |  |  |  |\n"
        "| - | Port | `BEANR` |  |  |  |\n"
        "| + | Port | `GBFXT` |  |  |  |\n"
        "| ~ | Port | `NLRTM` | depth | `null` | `24.0` |\n"
        f"| - | Lane | `{lane(changed)}` (`BEANR` to `NLRTM`) |  |  |  |\n"
    )


@pytest.mark.parametrize("words", [["--json"], ["--format", "json"]])
def test_diff_as_json(changed: Path, words: list[str]) -> None:
    document = done(ogsql("diff", "--store", changed, "main@2", "main", "--kind", "node", "--op", "update", *words)).document

    assert (document["start"], document["end"], document["branch"]) == ("main@2", "main", "main")
    assert document["stats"] == {"inserts": 0, "updates": 1, "deletes": 0, "types_affected": 1}
    assert document["changes"] == [
        {
            "kind": "node",
            "type_name": "Port",
            "id": "NLRTM",
            "op": "update",
            "version": 5,
            "before": {"type": "Port", "data": {"id": "NLRTM", "code": "NLRTM"}},
            "after": {"type": "Port", "data": {"id": "NLRTM", "code": "NLRTM", "depth": 24.0}},
        }
    ]


def test_diff_is_coloured_on_a_terminal(changed: Path) -> None:
    words = ("diff", str(changed), "main@2", "main")
    shown = on_a_terminal("stdout", *words, cwd=changed.parent)

    assert "\x1b[32m+ Port GBFXT" in shown
    assert "\x1b[1;31m- Port BEANR" in shown
    assert without_colour(shown) == ogsql(*words).out


def test_values_from_data_do_not_move_the_cursor(graph: Path) -> None:
    load(graph, port("A\n\x1b[31mB"))
    out = done(ogsql("diff", graph, "main@2", "main")).out
    assert out.splitlines()[0] == "+ Port A  [31mB"


@pytest.mark.parametrize(
    ("words", "status", "fragment"),
    [
        (["main"], 2, "Missing argument 'END'"),
        ([], 2, "Missing argument 'START'"),
        (["main", "main", "main"], 2, "unexpected extra argument"),
        (["main", "nowhere"], 1, "nowhere"),
        (["main", "main", "--type", "Prot"], 1, "no type"),
        (["main", "main", "--op", "remove"], 1, "no operation"),
        (["main", "main", "--format", "html"], 2, "html"),
    ],
)
def test_diffs_that_cannot_be(model_graph: Path, words: list[str], status: int, fragment: str) -> None:
    result = ogsql("diff", model_graph, *words)
    assert (result.status, result.out) == (status, "")
    assert fragment in result.err


# commit changes ------------------------------------------------------------------------------------------------------


def test_commit_changes(changed: Path) -> None:
    commit = history(changed)[2]["graph_commit_id"]
    lines = done(ogsql("commit", "changes", changed, commit)).out.splitlines()

    assert lines[0].startswith(f"commit {commit}  main  20")
    assert lines[0].endswith("  bob  dredged")
    assert lines[1:] == ["~ Port NLRTM", "    depth: null -> 24.0"]


def test_pages_of_commit_changes(model_graph: Path) -> None:
    commit = history(model_graph)[0]["graph_commit_id"]
    first = done(ogsql("commit", "changes", model_graph, commit, "--limit", "2", "--json")).document
    token = first["next_page_token"]
    second = done(ogsql("commit", "changes", model_graph, commit, "--limit", "2", "--page-token", token, "--json")).document

    assert [change["id"] for change in first["changes"]] == ["BEANR", "NLRTM"]
    assert [change["type_name"] for change in second["changes"]] == ["Lane"]
    assert (first["is_complete"], second["is_complete"], second["next_page_token"]) == (False, True, None)
    assert token in done(ogsql("commit", "changes", model_graph, commit, "--limit", "2")).out

    refused = ogsql("commit", "changes", model_graph, commit, "--type", "Port", "--page-token", token)
    assert (refused.status, refused.out) == (1, "")
    assert "another filter" in refused.err


def test_the_first_commit_has_no_changes_to_show(model_graph: Path) -> None:
    result = ogsql("commit", "changes", model_graph, history(model_graph)[-1]["graph_commit_id"])
    assert (result.status, result.out) == (1, "")
    assert "first commit" in result.err


# changes -------------------------------------------------------------------------------------------------------------


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_poll_from_the_beginning(changed: Path) -> None:
    commits = history(changed)[::-1]
    out = done(ogsql("changes", "poll", changed, "--start", "beginning")).out
    assert [line.split()[1] for line in out.splitlines() if line.startswith("commit ")] == [
        commit["graph_commit_id"] for commit in commits[1:]
    ]
    assert out.splitlines()[-1].startswith("cursor ")

    *blocks, last = lines(done(ogsql("changes", "poll", changed, "--start", "beginning", "--json")).out)
    assert [block["commit_id"] for block in blocks] == [commit["graph_commit_id"] for commit in commits[1:]]
    assert last == {"cursor": out.split()[-1], "head_commit_id": commits[-1]["graph_commit_id"]}


def test_poll_goes_on_from_a_cursor(graph: Path) -> None:
    cursor = lines(done(ogsql("changes", "poll", graph, "--json")).out)[-1]["cursor"]
    load(graph, port("GBFXT"))
    *blocks, _ = lines(done(ogsql("changes", "poll", graph, "--cursor", cursor, "--json")).out)
    assert [[change["id"] for change in block["changes"]] for block in blocks] == [["GBFXT"]]


def test_poll_keeps_its_cursor_in_a_file(graph: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    words = ("changes", "poll", graph, "--cursor-file", place, "--json")
    assert len(lines(done(ogsql(*words)).out)) == 1, "it begins now"
    load(graph, port("GBFXT"))
    kept = place.read_text()
    assert ogsql(*words, "--type", "Prot").status == 1
    assert place.read_text() == kept
    assert len(lines(done(ogsql(*words)).out)) == 2
    assert len(lines(done(ogsql(*words)).out)) == 1
    assert place.read_text() != kept
    assert list(tmp_path.glob("place*")) == [place]

    place.write_bytes(b"\xff")
    for content in (b"\xff", b"", b"cursor"):
        place.write_bytes(content)
        refused = ogsql(*words)
        assert refused.status == 1, refused
        assert place.read_bytes() == content


def test_a_poll_nobody_reads_keeps_its_place(graph: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    done(ogsql("changes", "poll", graph, "--cursor-file", place))
    kept = place.read_text()
    load(graph, *(port(f"P{number}", depth=1) for number in range(3000)))
    script = (
        f"'{OGSQL}' changes poll '{graph}' --cursor-file '{place}' --json | head -c 10 > /dev/null; echo ${{PIPESTATUS[0]}}"
    )
    result = subprocess.run(
        ["bash", "-c", script], env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT
    )

    assert (result.stdout, result.stderr) == ("141\n", "")
    assert place.read_text() == kept
    blocks = lines(done(ogsql("changes", "poll", graph, "--cursor-file", place, "--json")).out)[:-1]
    assert sum(len(block["changes"]) for block in blocks) == 3000
    assert [block["is_complete"] for block in blocks] == [False, False, True]


def test_a_baseline_and_the_feed_after_it(graph: Path, tmp_path: Path) -> None:
    place, out = tmp_path / "place", tmp_path / "base.jsonl.gz"
    records = lines(done(ogsql("changes", "baseline", graph, "--cursor-file", place)).out)
    assert [record.get("type") or record.get("edge") for record in records] == ["Port", "Port", "Lane", None]
    assert records[-1]["baseline"]["resume_cursor"] == place.read_text().strip()

    document = done(ogsql("changes", "baseline", graph, "--out", out, "--json")).document
    assert (document["records"], document["baseline"]) == (3, records[-1]["baseline"])
    assert lines(gzip.decompress(out.read_bytes()).decode()) == records
    load(graph, port("GBFXT"))
    *blocks, _ = lines(done(ogsql("changes", "poll", graph, "--cursor-file", place, "--json")).out)
    assert [[change["id"] for change in block["changes"]] for block in blocks] == [["GBFXT"]]


def test_a_gap_names_the_commit(graph: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    done(ogsql("changes", "poll", graph, "--cursor-file", place))
    for number in range(4):
        load(graph, port(f"P{number}"))
    done(ogsql("cleanup", graph, "--older-than", "0s", "--confirm", "--quiet"))
    result = ogsql("changes", "poll", graph, "--cursor-file", place)

    assert (result.status, result.out) == (1, "")
    assert history(graph)[3]["graph_commit_id"] in result.err
    assert "baseline" in result.err


@pytest.mark.parametrize(
    ("words", "status", "fragment"),
    [
        (["--cursor", "x", "--start", "now"], 2, "excludes"),
        (["--cursor", "x", "--cursor-file", "y"], 2, "excludes"),
        (["--cursor", "x"], 1, "token"),
        (["--start", "yesterday"], 1, "start"),
        (["--start", "after:nobody"], 1, "no commit"),
        (["--branch", "nowhere"], 1, "no branch"),
        (["--op", "remove"], 1, "no operation"),
    ],
)
def test_polls_that_cannot_be(model_graph: Path, words: list[str], status: int, fragment: str) -> None:
    result = ogsql("changes", "poll", model_graph, *words)
    assert (result.status, result.out) == (status, "")
    assert fragment in result.err
