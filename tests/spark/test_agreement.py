"""Generated dirty data: a pipeline gives the same graph, counts and rejects on Spark and without it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import omnigraph_sql as og
from omnigraph_sql.pipeline import RunReport
from tests.spark.dirty import Raw, content, raws, rejected
from tests.spark.helpers import heads, orphans, pins


def agree(raw: Raw) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        raw.write(place)
        local, told_locally = raw.run(place, "local")
        spark, told = raw.run(place, "spark")

        assert content(spark) == content(local)
        assert rejected(place / "rejects-spark.jsonl") == rejected(place / "rejects-local.jsonl")
        assert said(told) == said(told_locally)
        for graph in (local, spark):
            assert (heads(graph), orphans(graph)) == (pins(graph), [])


def said(told: RunReport | og.errors.OmnigraphError) -> object:
    if isinstance(told, RunReport):
        return told.sources, told.tables, told.rejected, told.commit is not None
    return type(told), told.exit_code


@pytest.mark.usefixtures("spark")
@settings(max_examples=3, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(raws())
def test_both_engines_agree(raw: Raw) -> None:
    agree(raw)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(raws())
def test_both_engines_agree_on_much_more(raw: Raw) -> None:
    agree(raw)
