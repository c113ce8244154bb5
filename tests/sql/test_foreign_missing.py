"""Packages that a source needs and that are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omnigraph_sql import errors
from omnigraph_sql.graph import Graph


@pytest.mark.parametrize(
    ("package", "extra", "source"),
    [
        ("adbc_driver_postgresql", "postgres", "postgresql://u:s3cret@127.0.0.1:9/x"),
        ("duckdb", "duckdb", "a.duckdb"),
    ],
)
def test_the_extra_is_named(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, extra: str, source: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    Path("a.duckdb").write_bytes(b"x" * 8 + b"DUCK")
    with pytest.raises(errors.Configuration, match="need the package") as caught:
        graph.register("it", source, table="t")

    assert caught.value.hint == f'run pip install "omnigraph-sql[{extra}]"'
    assert "s3cret" not in str(caught.value)
