"""Every writer, killed after each of its changes on disk: reopened, the graph is as before or as after, as it must be."""

import re
from collections.abc import Iterable, Iterator

import pytest

from tests.crash.cuts import Cutter, Rehearsal, Unavailable, compile_cutter, failures, rehearse, telling
from tests.crash.cuts_writers import WRITERS

pytestmark = pytest.mark.local

PARTS = 4
"""Of the cuts of one writer, so that they can run side by side."""

rehearsals: dict[str, Rehearsal] = {}


@pytest.fixture(scope="module")
def cutter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cutter]:
    try:
        made = compile_cutter(tmp_path_factory.mktemp("cutter"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.close()
    rehearsals.clear()


def rehearsed(name: str, cutter: Cutter, tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    if name not in rehearsals:
        try:
            rehearsals[name] = rehearse(name, cutter, tmp_path_factory.mktemp("cuts"))
        except Unavailable as reason:
            pytest.skip(str(reason))
    return rehearsals[name]


def check(rehearsal: Rehearsal, cuts: Iterable[int]) -> None:
    wrong = list(failures(rehearsal, cuts))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", WRITERS)
def test_telling_cuts(name: str, cutter: Cutter, tmp_path_factory: pytest.TempPathFactory) -> None:
    rehearsal = rehearsed(name, cutter, tmp_path_factory)
    cuts = telling(rehearsal, list(WRITERS).index(name))

    check(rehearsal, cuts)


FOUND = [
    ("init", "create", r"__manifest/[0-9A-Z]+/_versions/[0-9]+\.manifest#1"),
    ("create_table_again", "create", r"tables/.*/_versions/[0-9]+\.manifest#1"),
    ("define_view", "link", r"_graph_commits\.lance/[0-9A-Z]+/_versions/.*"),
    ("insert", "create", r"__recovery/\.tmp-.*"),
    ("recover_published", "mkdir", r"_graph_commit_recoveries\.lance/[0-9A-Z]+/_versions"),
]
"""Cuts that once left a graph which could not be opened, or was not as it should be."""


@pytest.mark.parametrize(("name", "call", "pattern"), FOUND)
def test_cuts_that_once_went_wrong(
    name: str, call: str, pattern: str, cutter: Cutter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rehearsal = rehearsed(name, cutter, tmp_path_factory)
    changes = enumerate(rehearsal.changes, start=1)
    cuts = [number for number, change in changes if change.call == call and re.fullmatch(pattern, change.name)]

    assert cuts, "the writer does not do this any more; choose another cut"
    check(rehearsal, cuts)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", WRITERS)
def test_every_cut(name: str, part: int, cutter: Cutter, tmp_path_factory: pytest.TempPathFactory) -> None:
    rehearsal = rehearsed(name, cutter, tmp_path_factory)
    cuts = range(1 + part, len(rehearsal.changes) + 1, PARTS)

    check(rehearsal, cuts)
