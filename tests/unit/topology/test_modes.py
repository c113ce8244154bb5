"""The choice between asking the tables and building the adjacency, and the settings that steer it."""

import warnings

import pytest

from omnigraph_sql.topology.cost_model import ExpandCost, Meter, Mode, TraversalSettings, choose, traversal_settings

EDGES, NODES = 1_000_000, 10_000


@pytest.mark.parametrize(
    ("frontier", "hops", "covered", "cached", "expected"),
    [
        # 100 edges per vertex; building costs 1.5 million.
        (1, 1, True, False, "indexed"),
        (1024, 1, True, False, "indexed"),
        (1025, 1, True, False, "csr"),  # too many vertices
        (1, 6, True, False, "indexed"),
        (1, 7, True, False, "csr"),  # too many hops
        (1000, 6, True, False, "indexed"),  # 600 000
        (1, 1, False, False, "indexed"),  # one scan of all edges: 1 million
        (1, 2, False, False, "csr"),  # two of them: 2 million
        (1, 1, True, True, "csr"),  # nothing is cheaper than what is there
        (0, 1, True, True, "csr"),
        (0, 1, True, False, "indexed"),
    ],
)
def test_the_cheaper_way_is_taken(frontier: int, hops: int, covered: bool, cached: bool, expected: Mode) -> None:
    asked = ExpandCost(frontier, EDGES, NODES, hops)

    assert choose(asked, TraversalSettings(), covered=covered, cached=cached) == expected


def test_equal_costs_build() -> None:
    # 3 edges for 2 vertices, 1 asked for: 1.5 edges read per hop, 4.5 to build.
    assert choose(ExpandCost(1, 3, 2, 3), TraversalSettings(), covered=True, cached=False) == "csr"
    assert choose(ExpandCost(1, 3, 2, 2), TraversalSettings(), covered=True, cached=False) == "indexed"


def test_a_table_without_rows_divides_nothing() -> None:
    assert choose(ExpandCost(0, 0, 0, 1), TraversalSettings(), covered=True, cached=False) == "csr"


@pytest.mark.parametrize("mode", ["indexed", "csr"])
def test_a_forced_mode_is_used_whatever_it_costs(mode: Mode) -> None:
    for frontier, hops, cached in ((1, 1, True), (10**6, 50, False)):
        assert (
            choose(ExpandCost(frontier, EDGES, NODES, hops), TraversalSettings(mode), covered=False, cached=cached) == mode
        )


def test_limits_can_be_set() -> None:
    given = TraversalSettings(max_frontier=10, max_hops=2)

    assert choose(ExpandCost(11, EDGES, NODES, 1), given, covered=True, cached=False) == "csr"
    assert choose(ExpandCost(10, EDGES, NODES, 2), given, covered=True, cached=False) == "indexed"
    assert choose(ExpandCost(10, EDGES, NODES, 3), given, covered=True, cached=False) == "csr"


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "CSR")
    monkeypatch.setenv("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "7")
    monkeypatch.setenv("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "3")

    assert traversal_settings() == TraversalSettings("csr", 7, 3)


def test_nothing_set_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAVERSAL_MODE", "EXPAND_INDEXED_MAX_FRONTIER", "EXPAND_INDEXED_MAX_HOPS"):
        monkeypatch.setenv(f"OMNIGRAPH_{name}", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert traversal_settings() == TraversalSettings(None, 1024, 6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_TRAVERSAL_MODE", "fast"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "0"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "-5"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "many"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "2.5"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "²"),
    ],
)
def test_what_is_no_value_is_ignored_with_a_warning(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    with pytest.warns(UserWarning, match=name):
        assert traversal_settings() == TraversalSettings()


def test_asking_ends_when_it_has_cost_as_much_as_having_everything() -> None:
    meter = Meter()

    assert [meter.try_spend(3, 10) for _ in range(5)] == [True, True, True, False, False]
