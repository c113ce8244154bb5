"""Runs the blocks about reads: on main and on a branch that shows the same, or where the block says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from omnigraph_sql.errors import OmnigraphError
from tests.golden.engines import Engine, Reading, Target
from tests.golden.gqt import Block, Section
from tests.golden.graphs import Graphs, MadeGraph
from tests.golden.writes import check_error
from tests.property.oracle.answers import ANYTHING, disagreement

KIND = "read"
_SORTS = re.compile(r"\}\s*(order\s*\{|limit\s*[0-9$])")


def run_read(block: Block, graphs: Graphs, engine: Engine) -> None:
    made = graphs.share(block, engine.tables)
    for target in _targets(block, made):
        _run(block, made, target, engine)


def _targets(block: Block, made: MadeGraph) -> Iterator[Target]:
    branch, step = block.get("branch"), block.get("step")
    if branch is not None:
        yield Target(branch.argument)
    elif step is not None:
        moment = made.moments[int(step.argument)]
        yield Target(moment.branch, commit=moment.commit)
        yield Target(moment.branch, version=moment.version)
    else:
        yield from (Target(), Target(Graphs.SIDE))


def _run(block: Block, made: MadeGraph, target: Target, engine: Engine) -> None:
    name, params, expected = block.get("name"), block.get("params"), block.get("error")
    bound = json.loads(params.text) if params else None
    try:
        reading = engine.read(made.graph, target, block.text, name.argument if name else None, bound)
    except OmnigraphError as error:
        if expected is None:
            raise
        check_error(block, expected, error)
        return
    assert expected is None, f"the query succeeds: {reading.rows}"
    _check(block, reading)


def _check(block: Block, reading: Reading) -> None:
    stated = False
    for section in block.sections:
        match section.key:
            case "columns":
                assert reading.columns == section.lines
            case "rows":
                _check_rows(block, section, reading)
            case "name" | "params" | "branch" | "step":
                continue
            case _:
                raise AssertionError(f"a read block has no section `--- {section.key}`")
        stated = True
    assert stated, "the block states no expectation"


def _check_rows(block: Block, section: Section, reading: Reading) -> None:
    assert section.argument in ("", "in order"), section.argument
    in_order = section.argument == "in order"
    sorts = _SORTS.search(block.text) is not None
    assert in_order == sorts, "rows are `in order` if the query has an order or a limit, and only then"
    expected = [_expected(json.loads(line)) for line in section.lines]
    difference = disagreement(expected, reading.rows, in_order=in_order)
    assert difference is None, difference


def _expected(row: dict[str, Any]) -> dict[str, Any]:
    return {name: ANYTHING if value == "*" else value for name, value in row.items()}
