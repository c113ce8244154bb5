"""What `engines/sql/duck` relies on: views over Python objects that are bound once, and statements that are planned once."""

from __future__ import annotations

import gc
import weakref

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pytest


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


def test_a_statement_that_is_submitted_streams_its_rows() -> None:
    with duckdb.connect() as duck:
        (statement,) = duck.extract_statements("SELECT i FROM range(300000) t(i)")
        reader = duck._submit(statement.query, None, "stream", 131_072).arrow_reader()
        assert [batch.num_rows for batch in reader] == [131_072, 131_072, 37_856]
        with pytest.raises(duckdb.ConversionException):
            duck._submit("SELECT 'x'::INT", None, "stream", 131_072).arrow_reader().read_all()
        assert duck.sql("SELECT 1").fetchall() == [(1,)]
