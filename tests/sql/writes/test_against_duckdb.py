"""Generated scripts leave the same tables in a graph, on both engines, as in DuckDB, and the same statements fail."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.graph.transactions import Transaction
from tests.sql.writes.scripts import DuckDBJudge, ScriptMaker
from tests.tiers import amount

STATEMENTS = 25
QUICK = 500
SCRIPTS = range(amount(check=10, test=40, all=5000))
SEEDS = [seed if seed < QUICK else pytest.param(seed, marks=pytest.mark.slow) for seed in SCRIPTS]


def _runs(transaction: Transaction, statement: str) -> bool:
    try:
        transaction.execute(statement)
    except OmnigraphError:
        return False
    return True


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_script(tmp_path: Path, seed: int, engine: EngineName) -> None:
    maker, judge = ScriptMaker(random.Random(seed)), DuckDBJudge()
    script: list[str] = []
    with og.init(tmp_path / "graph", "node N { k: String @key }") as graph, graph.transaction(engine=engine) as tx:
        for statement in maker.statements(STATEMENTS):
            script.append(statement)
            expected = judge.run(statement)
            assert expected is None or _runs(tx, statement) == expected, script
            maker.tables = judge.columns()
        tables = judge.tables()
        assert {relation.name for relation in tx.relations()} == set(tables), script
        for name, rows in tables.items():
            ours = sorted(map(repr, tx.sql(f"select * from {name}").to_pylist()))
            assert ours == rows, (name, script)
    with og.connect(tmp_path / "graph") as graph:
        for name, rows in tables.items():
            assert sorted(map(repr, graph.sql(f"select * from {name}", engine=engine).to_pylist())) == rows, (name, script)
    judge.close()
