"""Writes that were validated against something which then changed, in one process and without chance."""

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import ExpectedVersionMismatch
from tests.crash.world import assert_settled, edge, node, rows
from tests.simulation.state import SCHEMA
from tests.stores import Place


def test_replacing_nodes_relies_on_there_being_no_edges(place: Place) -> None:
    """The table of edges was empty when the nodes were replaced; the first edge came before that was published."""
    graph = og.init(place / "g", SCHEMA)
    graph.load([node("Person", name="ann"), node("Team", slug="red")], mode="append")
    staged = graph.stage([node("Team", slug="blue")], mode="overwrite")
    graph.load([edge("Member", "ann", "red", id="m")], mode="append")

    with pytest.raises(ExpectedVersionMismatch) as refused:
        graph.publish(staged)

    assert refused.value.table_key == "edge:Member"
    assert [row["id"] for row in rows(graph)["Team"]] == ["red"]
    assert_settled(graph)
