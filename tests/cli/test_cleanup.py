"""`ogsql cleanup`."""

from pathlib import Path

import pytest

from tests.cli.graphs import DREDGE, depths, done
from tests.cli.ogsql import ogsql

KEYS = {"table_key", "bytes_removed", "versions_removed", "branches_removed", "files_removed", "error"}


@pytest.fixture
def dredged(graph: Path) -> Path:
    """A graph with four more versions of its ports."""
    for depth in ("17.0", "18.0", "19.0", "20.0"):
        done(ogsql("mutate", graph, "-e", DREDGE, "--params", f'{{"code": "BEANR", "depth": {depth}}}', "--quiet"))
    return graph


def versions(graph: Path) -> int:
    return len(list(graph.glob("nodes/*/_versions/*.manifest")))


def test_without_confirmation_it_only_shows(dredged: Path) -> None:
    before = versions(dredged)

    result = ogsql("cleanup", dredged, "--keep", "3")

    assert (result.status, result.err) == (0, "")
    heading, ports, last = result.out.splitlines()
    assert heading.split() == ["table", "versions", "branches", "files", "size"]
    assert ports.split()[:3] == ["node:Port", "3", "0"]
    assert last.endswith("would be removed; add --confirm to do it")
    assert versions(dredged) == before == 6


def test_with_confirmation_it_removes(dredged: Path) -> None:
    result = ogsql("cleanup", "--store", dredged, "--keep", "3", "--confirm")

    assert (result.status, result.err) == (0, f"target: {dredged}\n")
    assert result.out.splitlines()[-1].startswith("removed ")
    assert versions(dredged) == 3
    assert depths(dredged) == {"BEANR": 20.0, "NLRTM": None}
    again = ogsql("cleanup", dredged, "--keep", "3", "--confirm", "--quiet")
    assert (again.status, again.out, again.err) == (0, "nothing to remove\n", "")
    query = "query q() { match { $p: Port } return { $p.depth } }"
    gone = ogsql("query", dredged, "-e", query, "--at-version", "2")
    assert (gone.status, "is gone" in gone.err) == (1, True)


def test_as_json(dredged: Path) -> None:
    for confirmed in ([], ["--confirm"]):
        result = ogsql("cleanup", dredged, "--keep", "3", "--older-than", "0s", "--json", *confirmed, "--quiet")

        assert (result.status, result.err) == (0, "")
        assert (result.document["uri"], result.document["removed"]) == (str(dredged), bool(confirmed))
        tables = {each["table_key"]: each for each in result.document["tables"]}
        assert set(tables) == {"edge:Lane", "node:Port"}
        assert all(set(each) == KEYS for each in tables.values())
        assert (tables["node:Port"]["versions_removed"], tables["node:Port"]["error"]) == (3, None)


def test_little_is_warned_of(dredged: Path) -> None:
    result = ogsql("cleanup", dredged, "--keep", "1")

    assert result.status == 0
    assert result.err.startswith("warning: keep=1 leaves almost nothing of the history")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ([], "say what to keep"),
        (["--keep", "0"], "0 is not in the range"),
        (["--older-than", "soon"], "`soon` is not a duration"),
        (["--keep", "3", "--as", "ada"], "No such option"),
    ],
)
def test_orders_that_make_no_sense(graph: Path, options: list[str], fragment: str) -> None:
    result = ogsql("cleanup", graph, *options, "--confirm")

    assert (result.status, result.out) == (2, "")
    assert fragment in result.err


def test_a_table_that_fails_fails_the_command(dredged: Path) -> None:
    failing = {"OMNIGRAPH_FAILPOINTS": "cleanup.table_gc=error@2"}
    result = ogsql("cleanup", dredged, "--keep", "3", "--confirm", "--quiet", env=failing)

    assert result.status == 1
    assert result.err.startswith("error: node:Port: failpoint cleanup.table_gc")
    assert versions(dredged) == 6
    assert ogsql("cleanup", dredged, "--keep", "3", "--confirm", "--quiet").status == 0
    assert versions(dredged) == 3
