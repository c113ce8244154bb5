"""Runs the blocks about writes: on main and on a branch, each time on a fresh copy of the block's graph."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import omnigraph_sql as og
from omnigraph_sql.errors import Compile, OmnigraphError
from tests.golden.gqt import Block, GraphText, Section
from tests.golden.graphs import Graphs, make_graph
from tests.stores import Place

Row = dict[str, Any]
Write = Callable[[og.Graph, str], Any]
KINDS = ("graph", "mutate", "load")

_GENERATED = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
_INSTANT = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"')


@dataclass(frozen=True)
class Outcome:
    """What a write came to, without what differs from run to run."""

    result: tuple[Any, ...]
    error: str | None
    rows: tuple[str, ...]


def run_block(block: Block, graphs: Graphs, folder: Place) -> None:
    if block.kind == "graph":
        assert not block.get("error"), "an error of a schema belongs into a schema block"
        _check_graph(block, folder)
        return
    on_main = _run(block, graphs.copy(block), "main")
    branched = graphs.copy(block)
    branched.create_branch("side")
    before = list(branched.export("main"))
    on_side = _run(block, branched, "side")
    assert list(branched.export("main")) == before, "a write on a branch changed main"
    assert on_side == on_main, f"main and a branch differ: {on_main} and {on_side}"


def run_on_main(block: Block, graph: og.Graph) -> None:
    """The block once, on this graph."""
    _run(block, graph, "main")


def _check_graph(block: Block, folder: Place) -> None:
    """What is loaded comes out again, and going in once more changes nothing."""
    data = block.get("data")
    graph = make_graph(folder / "first", GraphText(block.text, data.text if data else "", ())).graph
    records = list(graph.export())
    copy = make_graph(folder / "second", GraphText(block.text, "\n".join(records), ())).graph
    assert list(copy.export()) == records, f"{list(copy.export())} instead of {records}"


def _run(block: Block, graph: og.Graph, branch: str) -> Outcome:
    expected = block.get("error")
    before, commits = list(graph.export(branch)), graph.commits(branch)
    result: Any = None
    caught: OmnigraphError | None = None
    try:
        result = _write(block)(graph, branch)
    except OmnigraphError as error:
        if expected is None:
            raise
        caught = error
    assert graph.recoveries()["pending"] == [], "something waits for recovery"
    after = list(graph.export(branch))
    new = graph.commits(branch)[: len(graph.commits(branch)) - len(commits)]
    if expected is not None:
        assert caught is not None, f"the write succeeds: {result}"
        check_error(block, expected, caught)
        assert after == before, "a failed write changed the graph"
        assert new == [], "a failed write left a commit"
        _check_usable(graph, branch, before)
        return Outcome((), caught.kind if "now()" in block.text else _plain(str(caught)), ())
    assert [commit.graph_commit_id for commit in new] == ([result.commit.graph_commit_id] if result.commit else []), new
    assert result.commit is not None or after == before, "there is no commit, and yet something changed"
    if block.kind == "load":
        assert (result.branch, result.mode) == (branch, block.need("mode").argument), result
    _check_success(block, result, [json.loads(line) for line in after])
    shown = tuple(sorted(_plain(line, any_instant="now()" in block.text) for line in after))
    return Outcome(_shown_result(block, result), None, shown)


def _write(block: Block) -> Write:
    name, params, mode = block.get("name"), block.get("params"), block.get("mode")
    if block.kind == "load":
        chosen: Any = block.need("mode").argument
        return lambda graph, branch: graph.load(block.text, mode=chosen, branch=branch)
    assert mode is None, "only loads have a mode"
    bound = json.loads(params.text) if params else None
    return lambda graph, branch: graph.mutate(block.text, name.argument if name else None, bound, branch=branch)


def _check_usable(graph: og.Graph, branch: str, records: list[str]) -> None:
    """Every table takes the next write: its own rows once more."""
    if records:
        assert graph.load("\n".join(records), mode="overwrite", branch=branch).commit is not None
        assert list(graph.export(branch)) == records, "an export that is loaded again gives something else"


def _plain(text: str, *, any_instant: bool = False) -> str:
    text = _GENERATED.sub("*", text)
    return _INSTANT.sub('"*"', text) if any_instant else text


# Expectations


def check_error(block: Block, expected: Section, found: OmnigraphError) -> None:
    kind = (found.code or found.error_class) if isinstance(found, Compile) else found.kind
    assert kind == expected.argument, f"{found.kind}: {found}"
    for fragment in expected.lines:
        assert fragment in str(found), f"{fragment!r} is not in {str(found)!r}"
    fields = block.get("fields")
    for name, value in (json.loads(fields.text) if fields else {}).items():
        assert getattr(found, name) == value, f"{name}: {getattr(found, name)!r}"


def _check_success(block: Block, result: Any, records: list[Row]) -> None:
    stated = False
    for section in block.sections:
        match section.key:
            case "affected":
                nodes, _, edges, _ = section.argument.split()
                assert (result.affected_nodes, result.affected_edges) == (int(nodes), int(edges)), result
            case "counts":
                assert _counts(result) == section.lines, _counts(result)
            case "unchanged":
                assert result.commit is None, "it made a commit"
            case "rows":
                _check_rows(section, list(_rows(records, section.argument)))
            case "ok":
                pass
            case "params" | "name" | "mode":
                continue
            case _:
                raise AssertionError(f"a {block.kind} block has no section `--- {section.key}`")
        stated = True
    assert stated, "the block states no expectation"


def _counts(result: Any) -> list[str]:
    return [f"node {name} {n}" for name, n in result.nodes.items()] + [
        f"edge {name} {n}" for name, n in result.edges.items()
    ]


def _shown_result(block: Block, result: Any) -> tuple[Any, ...]:
    if block.kind == "load":
        return result.mode, *_counts(result), result.commit is None
    return result.affected_nodes, result.affected_edges, result.commit is None


def _rows(records: list[Row], type_: str) -> Iterator[Row]:
    """The rows of a type, an edge's ends beside its properties."""
    for record in records:
        if type_ in (record.get("type"), record.get("edge")):
            yield {name: record[name] for name in ("from", "to") if name in record} | record["data"]


def _check_rows(section: Section, found: list[Row]) -> None:
    rest = list(found)
    for line in section.lines:
        expected = json.loads(line)
        match = next((row for row in rest if _matches(expected, row)), None)
        assert match is not None, f"no row is {line}; there are {json.dumps(rest, ensure_ascii=False)}"
        rest.remove(match)
    assert not rest, f"rows too many: {json.dumps(rest, ensure_ascii=False)}"


def _matches(expected: Row, found: Row) -> bool:
    if "id" not in expected:
        found = {name: value for name, value in found.items() if name != "id"}
    if expected.get("id") == "*" and not _GENERATED.fullmatch(found["id"]):
        return False
    if expected.keys() != found.keys():
        return False
    return all(value == "*" or _same(value, found[name]) for name, value in expected.items())


def _same(expected: Any, found: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0."""
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_same, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)
