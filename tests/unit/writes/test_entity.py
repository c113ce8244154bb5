"""One entity, now and in the past."""

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.stores import Place

SCHEMA = "node Port { code: String @key  depth: F64? }\nedge Lane: Port -> Port { nm: I32? }"
DATA = """
{"type": "Port", "data": {"code": "A", "depth": 1}}
{"type": "Port", "data": {"code": "B"}}
{"edge": "Lane", "from": "A", "to": "B", "data": {"id": "l", "nm": 3}}
"""


def test_an_entity_is_read_alone_and_at_any_moment(place: Place) -> None:
    graph = og.init(place / "graph", SCHEMA)
    first = graph.load(DATA, mode="append").commit
    assert first is not None
    graph.mutate('query q() { update Port set { depth: 2.0 } where code = "A" }')

    assert graph.entity_at("node:Port", "A") == {"type": "Port", "data": {"id": "A", "code": "A", "depth": 2.0}}
    before = graph.entity_at("node:Port", "A", commit=first.graph_commit_id)
    assert before == graph.entity_at("node:Port", "A", version=first.manifest_version)
    assert before is not None
    assert before["data"]["depth"] == 1.0
    assert graph.entity_at("edge:Lane", "l") == {"edge": "Lane", "from": "A", "to": "B", "data": {"id": "l", "nm": 3}}
    assert graph.entity_at("node:Port", "Z") is None
    assert graph.entity_at("node:Port", "it's") is None
    with pytest.raises(errors.NotFound, match="there is no table `node:Lane`"):
        graph.entity_at("node:Lane", "l")
