"""`information_schema` of tables made in SQL: their keys, checks, defaults and comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName

SCHEMA = """
node Person @description("who") { name: String @key @description("called")  age: I32? }
"""


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_rules_of_tables_are_shown(tmp_path: Path, engine: EngineName) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.execute(
            "create table parent (k int primary key);"
            "create table t (a int primary key, b varchar unique default 'x', c int check (c > 0),"
            " d int references parent (k), constraint pair unique (b, c));"
            "comment on table t is 'a table'; comment on column t.b is 'a column';"
            "create view v as select a from t; comment on view v is 'a view'"
        )

        def rows(statement: str) -> list[tuple[Any, ...]]:
            return [tuple(row.values()) for row in graph.sql(statement, engine=engine).to_pylist()]

        of = "table_schema = 'main' and table_name = 't'"
        constraints = (
            f"select constraint_name, constraint_type from information_schema.table_constraints where {of} order by 1"
        )
        assert rows(constraints) == [
            ("pair", "UNIQUE"),
            ("t_b_key", "UNIQUE"),
            ("t_c_check", "CHECK"),
            ("t_d_fkey", "FOREIGN KEY"),
            ("t_pkey", "PRIMARY KEY"),
        ]
        keys = (
            "select constraint_name, column_name, ordinal_position from information_schema.key_column_usage "
            f"where {of} order by 1, 3"
        )
        assert rows(keys) == [
            ("pair", "b", 1),
            ("pair", "c", 2),
            ("t_b_key", "b", 1),
            ("t_d_fkey", "d", 1),
            ("t_pkey", "a", 1),
        ]
        references = (
            "select constraint_name, unique_constraint_name, delete_rule from information_schema.referential_constraints "
            "where constraint_name = 't_d_fkey' and constraint_schema = 'main'"
        )
        assert rows(references) == [("t_d_fkey", "parent_pkey", "NO ACTION")]
        checks = (
            "select constraint_name, check_clause from information_schema.check_constraints where constraint_schema = 'main'"
        )
        assert rows(checks) == [("t_c_check", "c > 0")]
        columns = f"select column_name, column_default, column_comment from information_schema.columns where {of} order by 1"
        assert rows(columns) == [("a", None, None), ("b", "'x'", "a column"), ("c", None, None), ("d", None, None)]
        tables = (
            "select table_name, table_type, table_comment from information_schema.tables "
            "where table_schema = 'main' order by 1"
        )
        assert rows(tables) == [
            ("Person", "BASE TABLE", "who"),
            ("parent", "BASE TABLE", None),
            ("t", "BASE TABLE", "a table"),
            ("v", "VIEW", "a view"),
        ]
        called = "select column_comment from information_schema.columns where table_name = 'Person' and column_name = 'name'"
        assert rows(f"{called} and table_schema = 'main'") == [("called",)]
        named = "select referenced_table, referenced_column from keys() where constraint_name = 't_d_fkey'"
        assert rows(named) == [("parent", "k")]
