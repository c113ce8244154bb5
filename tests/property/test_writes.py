"""A graph and the model of it agree after every write, and refuse the same writes for the same reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.errors import Compile, OmnigraphError, ValidationFailed
from tests import stores
from tests.parts import in_parts
from tests.property.write_model import (
    ENDS,
    OPERATORS,
    PROPERTIES,
    SCHEMA,
    Change,
    Delete,
    Insert,
    Model,
    Record,
    Refused,
    Row,
    Statement,
    Update,
)
from tests.stores import Place

START = [
    Record("Port", {"code": "A", "depth": 1, "mail": "m1"}),
    Record("Port", {"code": "B", "depth": 50, "kind": "river"}),
    Record("Port", {"code": "C"}),
    Record("Ship", {"id": "s1", "name": "Ada", "crew": 3}),
    Record("Ship", {"id": "s2", "name": "Bee"}),
    Record("Lane", {"id": "e1", "nm": 1}, ("A", "B")),
    Record("Lane", {"id": "e2"}, ("A", "C")),
    Record("HomedAt", {"id": "e1"}, ("s1", "A")),
]


def rarely(usual: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 15).flatmap(lambda number: other if number == 15 else usual)


# Few values, so that they meet.
codes = st.sampled_from(["A", "B", "C", "D", "E"])
ends = rarely(st.sampled_from(["A", "B", "C"]), st.sampled_from(["D", "s1", "nowhere"]))
ships = rarely(st.sampled_from(["s1", "s2"]), st.sampled_from(["s3", "A"]))
mails = st.sampled_from(["m1", "m2", None])
kinds = rarely(st.sampled_from(["river", "sea"]), st.just("lake"))
depths = rarely(st.sampled_from([0, 1, 50, 100, None]), st.sampled_from([101, -1]))
small = st.sampled_from([1, 2, None])
huge = st.sampled_from([2**31, -(2**31) - 1])
names = st.sampled_from(["Ada", "Bee", "", "O'Neil"])
edge_ids = st.sampled_from(["e1", "e2", "e3"])
numbers = st.sampled_from([0, 1, 2, 50, 100, 2.5, -0.5, 2**40, None])
operators = st.sampled_from(OPERATORS)

nothing = st.none()
port_values = {"depth": rarely(depths, huge), "mail": mails, "kind": rarely(kinds, nothing)}
ship_values = {"name": rarely(names, nothing), "crew": rarely(small, huge)}
lane_values = {"nm": rarely(small, huge)}

inserts = st.one_of(
    st.fixed_dictionaries({"code": rarely(codes, nothing)}, optional=port_values).map(lambda values: Insert("Port", values)),
    st.fixed_dictionaries({"name": ship_values["name"]}, optional={"crew": ship_values["crew"]}).map(
        lambda values: Insert("Ship", values)
    ),
    st.fixed_dictionaries({"from": rarely(ends, nothing), "to": ends}, optional=lane_values).map(
        lambda values: Insert("Lane", values)
    ),
    st.fixed_dictionaries({"from": ships, "to": ends}).map(lambda values: Insert("HomedAt", values)),
)
predicates: dict[str, st.SearchStrategy[tuple[str, str, Any]]] = {
    "Port": st.one_of(
        st.tuples(st.just("code"), operators, codes),
        st.tuples(st.just("depth"), operators, numbers),
        st.tuples(st.just("mail"), operators, mails),
    ),
    "Ship": st.one_of(st.tuples(st.just("name"), operators, names), st.tuples(st.just("crew"), operators, numbers)),
    "Lane": st.one_of(
        st.tuples(st.sampled_from(["from", "to"]), operators, ends), st.tuples(st.just("nm"), operators, numbers)
    ),
    "HomedAt": st.tuples(st.sampled_from(["from", "to"]), operators, st.one_of(ends, ships)),
}


def some(values: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=dict(values)).filter(bool)


updates = st.one_of(
    st.builds(Update, st.just("Port"), some(port_values), predicates["Port"]),
    st.builds(Update, st.just("Ship"), some(ship_values), predicates["Ship"]),
)
deletes = st.sampled_from(sorted(PROPERTIES)).flatmap(lambda type_: st.builds(Delete, st.just(type_), predicates[type_]))

strange = st.sampled_from(
    [{"mast": 1}, {"id": 5}, {"id": "other"}, {"depth": "5"}, {"depth": 2**31}, {"name": 7}, {"nm": True}]
)
records = st.one_of(
    st.builds(
        Record,
        st.just("Port"),
        st.fixed_dictionaries({"code": codes}, optional={"depth": depths, "mail": mails, "kind": kinds}),
    ),
    st.builds(
        Record,
        st.just("Ship"),
        st.fixed_dictionaries({"name": ship_values["name"]}, optional={"id": ships, "crew": small}),
    ),
    st.builds(
        Record, st.just("Lane"), st.fixed_dictionaries({}, optional={"id": edge_ids, "nm": small}), st.tuples(ends, ends)
    ),
    st.builds(Record, st.just("HomedAt"), st.fixed_dictionaries({}, optional={"id": edge_ids}), st.tuples(ships, ends)),
)
odd_records = st.builds(lambda record, extra: Record(record.type, {**record.data, **extra}, record.ends), records, strange)


@dataclass(frozen=True)
class Mutation:
    branch: str
    statements: list[Statement]


@dataclass(frozen=True)
class Load:
    branch: str
    mode: LoadMode
    records: list[Record]


branches = st.sampled_from(["main", "main", "side"])
statements = st.one_of(
    st.lists(st.one_of(inserts, inserts, updates), min_size=1, max_size=4),
    st.lists(deletes, min_size=1, max_size=3),
    rarely(
        st.lists(updates, min_size=1, max_size=3), st.lists(st.one_of(inserts, updates, deletes), min_size=2, max_size=3)
    ),
)
modes = st.sampled_from(["append", "merge", "merge", "overwrite"])
batches = rarely(st.lists(rarely(records, odd_records), min_size=1, max_size=4), st.just([]))
loads = st.builds(Load, branches, modes, batches)
steps = st.lists(st.one_of(st.builds(Mutation, branches, statements), loads), min_size=3, max_size=10)


def to_source(found: list[Statement]) -> tuple[str, dict[str, Any]]:
    """The mutation as text; every value is a parameter, so that each can be null, negative or out of range."""
    params: dict[str, Any] = {}
    types: list[str] = []

    def param(value: Any, scalar: str) -> str:
        name = f"p{len(params)}"
        params[name] = value
        types.append(f"${name}: {scalar}?")
        return f"${name}"

    lines = []
    for statement in found:
        scalars = {name: {"I32": "I64"}.get(scalar, scalar) for name, scalar in PROPERTIES[statement.type].items()}
        where = assigned = ""
        if isinstance(statement, Insert | Update):
            assigned = ", ".join(f"{n}: {param(value, scalars.get(n, 'String'))}" for n, value in statement.values.items())
        if isinstance(statement, Update | Delete):
            name, operator, value = statement.where
            where = f"{name} {operator} {param(value, 'F64' if isinstance(value, float) else scalars.get(name, 'String'))}"
        match statement:
            case Insert():
                lines.append(f"insert {statement.type} {{ {assigned} }}")
            case Update():
                lines.append(f"update {statement.type} set {{ {assigned} }} where {where}")
            case Delete():
                lines.append(f"delete {statement.type} where {where}")
    return f"query q({', '.join(types)}) {{\n" + "\n".join(lines) + "\n}", params


def run(graph: og.Graph, step: Mutation | Load) -> Any:
    if isinstance(step, Load):
        text = "\n".join(json.dumps(record.to_json()) for record in step.records)
        return graph.load(text, mode=step.mode, branch=step.branch)
    source, params = to_source(step.statements)
    return graph.mutate(source, params=params, branch=step.branch)


def fault_of(error: OmnigraphError) -> str:
    if isinstance(error, ValidationFailed):
        return f"{error.kind}:{error.rule}"
    return (error.code or error.error_class) if isinstance(error, Compile) else error.kind


def predict(model: Model, step: Mutation | Load) -> Change | Refused:
    try:
        return model.mutate(step.statements) if isinstance(step, Mutation) else model.load(step.records, step.mode)
    except Refused as refused:
        return refused


def check_step(graph: og.Graph, model: Model, step: Mutation | Load) -> None:
    commits = len(graph.commits(step.branch))
    expected = predict(model, step)
    if isinstance(expected, Refused):
        with pytest.raises(OmnigraphError) as caught:
            run(graph, step)
        assert fault_of(caught.value) in expected.faults, caught.value
    else:
        check_result(step, expected, run(graph, step))
        commits += not expected.is_empty
    assert len(graph.commits(step.branch)) == commits
    check_rows(graph, step.branch, model)


def check_result(step: Mutation | Load, change: Change, result: Any) -> None:
    assert (result.commit is None) == change.is_empty
    if isinstance(step, Mutation):
        assert (result.affected_nodes, result.affected_edges) == (change.nodes, change.edges)
        return
    counts: dict[str, int] = {}
    for record in step.records:
        counts[record.type] = counts.get(record.type, 0) + 1
    assert result.nodes == {name: counts[name] for name in sorted(counts) if name not in ENDS}
    assert result.edges == {name: counts[name] for name in sorted(counts) if name in ENDS}


def check_rows(graph: og.Graph, branch: str, model: Model) -> None:
    found = dict(exported(graph, branch))
    for type_, expected in model.tables.items():
        rows = {row["id"]: row for row in found.get(type_, [])}
        # Ids that were generated are learned; rows that are otherwise equal may have either.
        open_ids = sorted((key for key in expected if key.startswith("?")), key=lambda key: content(expected[key]))
        new_ids = sorted((key for key in rows if key not in expected), key=lambda key: content(rows[key]))
        assert len(open_ids) == len(new_ids), (type_, expected, rows)
        model.name_generated(type_, dict(zip(open_ids, new_ids, strict=True)))
        assert model.tables[type_] == rows, type_


def content(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if name != "id"}, sort_keys=True)


def exported(graph: og.Graph, branch: str) -> Iterator[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for line in graph.export(branch):
        record = json.loads(line)
        type_ = record.get("type") or record["edge"]
        row = {name: record["data"].get(name) for name in ("id", *PROPERTIES[type_])}
        found.setdefault(type_, []).append(row | {end: record[end] for end in ("from", "to") if end in record})
    yield from found.items()


class Folder:
    """Graphs to write to: copies of one that is made once."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._original = folder / "original"
        graph = og.init(self._original, SCHEMA)
        graph.load("\n".join(json.dumps(record.to_json()) for record in START), mode="overwrite")

    def copy(self) -> og.Graph:
        target = self._folder / "copy"
        stores.remove(target)
        return og.connect(stores.copy(self._original, target))


@pytest.fixture(scope="module")
def folder(new_place: Callable[[str], Place]) -> Folder:
    return Folder(new_place("writes"))


def check_sequence(folder: Folder, sequence: list[Mutation | Load]) -> None:
    graph = folder.copy()
    models = {"main": Model()}
    models["main"].load(START, "overwrite")
    for step in sequence:
        if step.branch not in models:
            graph.create_branch(step.branch)
            models[step.branch] = models["main"].copy()
        check_step(graph, models[step.branch], step)
    for branch, model in models.items():
        check_rows(graph, branch, model)
    assert graph.recoveries()["pending"] == []


@settings(max_examples=50)
@given(sequence=steps)
def test_writes(folder: Folder, sequence: list[Mutation | Load]) -> None:
    check_sequence(folder, sequence)


@settings(max_examples=25)
@given(sequence=st.lists(loads, min_size=3, max_size=8))
def test_loads_larger_than_memory(folder: Folder, sequence: list[Mutation | Load]) -> None:
    with in_parts():
        check_sequence(folder, sequence)


@settings(max_examples=40)
@given(first=st.lists(records, max_size=4), found=st.lists(rarely(records, odd_records), min_size=1, max_size=8), mode=modes)
def test_what_is_left_after_rejects_is_what_loads_without_them(
    folder: Folder, first: list[Record], found: list[Record], mode: LoadMode
) -> None:
    rejected: list[Mapping[str, Any]] = []
    lines = [json.dumps(record.to_json()) for record in found]
    tolerant = _after(folder, first)
    result: Any = None
    fault = None
    try:
        result = tolerant.load("\n".join(lines), mode=mode, rejects=rejected.append, max_rejects=len(lines))
    except OmnigraphError as error:
        fault = fault_of(error)
    if fault is not None:
        # Only rows that were there before can still be in the way.
        assert fault in ("ValidationFailed:endpoint", "ValidationFailed:cardinality")
        return
    assert result.rejected == len(rejected) == len({entry["line"] for entry in rejected})
    left_out = {entry["line"] for entry in rejected}
    kinds_left = {record.type for number, record in enumerate(found, 1) if number not in left_out}
    if mode == "overwrite" and kinds_left < {record.type for record in found}:
        return  # a table is emptied that the records left over do not mention
    expected = _without_ids(tolerant)
    strict = _after(folder, first)
    accepted = [line for number, line in enumerate(lines, 1) if number not in left_out]
    again = strict.load("\n".join(accepted), mode=mode)
    assert (again.nodes, again.edges) == (_present(result.nodes), _present(result.edges))
    assert sorted(_without_ids(strict)) == sorted(expected)
    assert all(entry["message"].startswith(f"line {entry['line']}: ") for entry in rejected)


def _after(folder: Folder, records: list[Record]) -> og.Graph:
    """A graph that took these records, if it could."""
    graph = folder.copy()
    with suppress(OmnigraphError):
        graph.load("\n".join(json.dumps(record.to_json()) for record in records), mode="merge")
    return graph


def _present(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _without_ids(graph: og.Graph) -> list[str]:
    return [re.sub(r'"id":"[0-7][0-9A-HJKMNP-TV-Z]{25}",?', "", line) for line in graph.export()]


@pytest.mark.slow
@settings(max_examples=300)
@given(sequence=st.lists(st.one_of(st.builds(Mutation, branches, statements), loads), min_size=8, max_size=25))
def test_long_sequences_of_writes(folder: Folder, sequence: list[Mutation | Load]) -> None:
    check_sequence(folder, sequence)
