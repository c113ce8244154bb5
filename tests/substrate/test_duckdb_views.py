"""Views of DuckDB over Python objects, made without binding them twice: what `engines/sql/duck/tables.py` relies on."""

from __future__ import annotations

import gc
import weakref

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads


def test_a_view_keeps_its_source_and_gives_its_rows() -> None:
    with duckdb.connect() as duck:
        duck.execute("ATTACH ':memory:' AS graph")
        duck.execute("CREATE SCHEMA graph.draft")
        table = pa.table({"a": [1, 2]})
        dataset = pads.dataset(table)
        alive = weakref.ref(dataset)
        source = duck._register_source(dataset)
        duck._create_view(("graph", "draft", "T"), f'SELECT * FROM "{source.name}"', replace=True)
        del dataset, source
        gc.collect()
        assert alive() is not None
        assert duck.sql('SELECT * FROM graph.draft."T"').fetchall() == [(1,), (2,)]


def test_a_view_that_is_replaced_gives_the_new_rows() -> None:
    with duckdb.connect() as duck:
        for value in (1, 2):
            source = duck._register_source(pads.dataset(pa.table({"a": [value]})))
            duck._create_view(("memory", "main", "t"), f'SELECT * FROM "{source.name}"', replace=True)
        assert duck.sql("FROM t").fetchall() == [(2,)]
