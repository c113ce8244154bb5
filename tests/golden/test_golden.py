"""Runs every block of every golden file; each block is one test."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_compiler import (
    Catalog,
    CompileError,
    Query,
    bind_params,
    compile_query,
    compile_schema,
    entity_id,
    format_queries,
    format_schema,
    ir,
    lint,
    plan_migration,
)
from omnigraph_compiler.values import format_datetime
from tests.golden.engines import ENGINES, WAYS, Engine, way_of
from tests.golden.gqt import Block, Section, read_blocks
from tests.golden.graphs import Graphs
from tests.golden.notation import notate
from tests.golden.plan_texts import KEYS as PLAN_TEXTS
from tests.golden.plan_texts import check_plan_texts, update_plan_texts
from tests.golden.reads import KIND as READ
from tests.golden.reads import run_read
from tests.golden.writes import KINDS as WRITES
from tests.golden.writes import run_block, run_on_main
from tests.parts import in_parts
from tests.stores import Place

HERE = Path(__file__).parent
BLOCKS = [block for path in sorted(HERE.glob("*.gqt")) for block in read_blocks(path)]


@pytest.fixture(scope="session")
def graphs(new_place: Callable[[str], Place]) -> Graphs:
    return Graphs(new_place("graphs"))


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.kind in WRITES], ids=lambda block: block.id)
def test_write(block: Block, graphs: Graphs, place: Place) -> None:
    run_block(block, graphs, place)


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.kind == "load"], ids=lambda block: block.id)
def test_load_larger_than_memory(block: Block, graphs: Graphs) -> None:
    copy = graphs.copy(block)
    with in_parts():
        run_on_main(block, copy)


@pytest.mark.one_of("engine")
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize("block", [each for each in BLOCKS if each.kind == READ], ids=lambda block: block.id)
def test_read(block: Block, engine: Engine, graphs: Graphs) -> None:
    run_read(block, graphs, engine)


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.kind == READ], ids=lambda block: block.id)
def test_read_another_way(block: Block, graphs: Graphs) -> None:
    run_read(block, graphs, way_of(block.id))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("block", [each for each in BLOCKS if each.kind == READ], ids=lambda block: block.id)
def test_read_every_way(block: Block, way: Engine, graphs: Graphs) -> None:
    run_read(block, graphs, way)


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.kind not in (*WRITES, READ)], ids=lambda block: block.id)
def test_block(block: Block, request: pytest.FixtureRequest) -> None:
    run, keys = KINDS.get(block.kind, (None, ()))
    assert run is not None, f"unknown kind of block: {block.kind}"
    for section in block.sections:
        assert section.key in keys, f"a {block.kind} block has no section `--- {section.key}`"
    assert block.kind == "schema" or block.sections, "the block states no expectation"
    error = block.get("error")
    if request.config.getoption("--update-sql") and error is None and any(block.get(key) for key in PLAN_TEXTS):
        query = _query(block)
        assert isinstance(query.plan, ir.ReadPlan)
        update_plan_texts(block, query.plan, _catalog(block))
        return
    if error is None:
        run(block)
        return
    with pytest.raises(CompileError) as caught:
        run(block)
    _check_error(block, error, caught.value)


def _check_error(block: Block, expected: Section, found: CompileError) -> None:
    assert (found.code or found.error_class) == expected.argument, found.message
    shown = f"{found.message}\n{found.diagnostic.help or ''}"
    for fragment in expected.lines:
        assert fragment in shown, f"{fragment!r} is not in {shown!r}"
    place = block.get("at")
    if place is not None:
        position = found.diagnostic.position
        assert position is not None
        assert f"{position.line}:{position.column}" == place.argument, found.diagnostic.render()


def _catalog(block: Block) -> Catalog:
    assert block.schema is not None, "no schema block stands above"
    return compile_schema(block.schema)


def _run_schema(block: Block) -> None:
    catalog = compile_schema(block.text)
    expected = block.get("catalog")
    if expected is not None:
        _contains(catalog.to_dict(), json.loads(expected.text), "catalog")


def _run_same(block: Block) -> None:
    hashes = [compile_schema(block.need(key).text).schema_hash for key in ("a", "b")]
    assert (hashes[0] == hashes[1]) == (block.kind == "same")


def _query(block: Block) -> Query:
    name = block.get("name")
    return compile_query(_catalog(block), block.text, name.argument if name else None)


def _run_query(block: Block) -> None:
    query = _query(block)
    columns, descriptor, ops = block.get("columns"), block.get("descriptor"), block.get("ops")
    if columns is not None:
        assert [f"{column.name}: {column.type}" for column in query.columns] == columns.lines
    if descriptor is not None:
        assert query.operation.to_dict() == json.loads(descriptor.text)
    if ops is not None:
        assert notate(query.plan) == ops.lines
    if isinstance(query.plan, ir.ReadPlan):
        check_plan_texts(block, query.plan, _catalog(block))
    else:
        assert not any(block.get(key) for key in PLAN_TEXTS), "a mutation has no SQL"


def _run_bind(block: Block) -> None:
    query = compile_query(_catalog(block), block.text)
    bound = bind_params(query, json.loads(block.need("params").text))
    expected = block.get("values")
    if expected is not None:
        assert {name: _shown(value) for name, value in bound.items()} == json.loads(expected.text)


def _shown(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return format_datetime(round(value.timestamp() * 1000))
    if isinstance(value, datetime.date):
        return value.isoformat()
    return [_shown(each) for each in value] if isinstance(value, list) else value


def _run_lint(block: Block) -> None:
    report = lint(_catalog(block), block.text).to_dict()
    _contains(report, json.loads(block.need("report").text), "report")


def _run_plan(block: Block) -> None:
    plan = plan_migration(compile_schema(block.need("from").text), compile_schema(block.need("to").text))
    found = plan.to_dict()
    steps, unsupported, render = block.get("steps"), block.get("unsupported"), block.get("render")
    if steps is not None:
        assert found["steps"] == [json.loads(line) for line in steps.lines]
        assert found["supported"] == all(step["kind"] != "unsupported_change" for step in found["steps"])
    if unsupported is not None:
        refused = [step for step in found["steps"] if step["kind"] == "unsupported_change"]
        assert [f"{step.get('code', '-')} {step['entity']}" for step in refused] == unsupported.lines
        assert found["supported"] is False
    for line in render.lines if render else ():
        assert line in plan.render()


def _run_format(block: Block) -> None:
    schema = block.get("schema")
    formatted = format_schema(schema.text) if schema else format_queries(block.need("queries").text)
    assert formatted == block.need("becomes").text + "\n"
    assert (format_schema if schema else format_queries)(formatted) == formatted


def _run_id(block: Block) -> None:
    (node,) = compile_schema(block.need("schema").text).nodes.values()
    found = entity_id(node, json.loads(block.need("data").text))
    if block.get("error") is None:
        assert found == block.need("becomes").text


def _contains(found: Any, expected: Any, path: str) -> None:
    """Every member of the expectation is found; members it does not mention are free."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), path
        for name, member in expected.items():
            assert name in found, f"{path} has no {name!r}: {found}"
            _contains(found[name], member, f"{path}.{name}")
    elif isinstance(expected, list):
        assert isinstance(found, list), path
        assert len(found) == len(expected), f"{path}: {found}"
        for number, member in enumerate(expected):
            _contains(found[number], member, f"{path}[{number}]")
    elif isinstance(expected, str) and expected.startswith("…"):
        assert expected[1:] in found, path
    else:
        assert found == expected, path


_FAILS = ("ok", "error", "at")
KINDS: dict[str, tuple[Callable[[Block], None], tuple[str, ...]]] = {
    "schema": (_run_schema, ("catalog", *_FAILS)),
    "same": (_run_same, ("a", "b")),
    "differ": (_run_same, ("a", "b")),
    "query": (_run_query, ("name", "columns", "descriptor", "ops", "facts", *PLAN_TEXTS, *_FAILS)),
    "bind": (_run_bind, ("params", "values", *_FAILS)),
    "lint": (_run_lint, ("report",)),
    "plan": (_run_plan, ("from", "to", "steps", "unsupported", "render", *_FAILS)),
    "format": (_run_format, ("schema", "queries", "becomes", *_FAILS)),
    "id": (_run_id, ("schema", "data", "becomes", *_FAILS)),
}
"""What runs a block of each kind, and the sections that it may have."""
