"""`omnigraph.yaml`: foreign tables and files of queries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_sql import errors
from omnigraph_sql.graph import Graph
from omnigraph_sql.project import ForeignEntry, ProjectSettings, find_project, load_project


@pytest.fixture
def write(tmp_path: Path) -> Path:
    return tmp_path / "omnigraph.yaml"


FULL = """
foreign:
  orders:
    uri: postgresql://${PROJECT_USER}:${PROJECT_PASSWORD}@db/shop
    table: sales.orders
  prices:
    path: data/prices/*.parquet
  "Odd name":
    source: ${PROJECT_DIRECTORY}/a.csv
    format: csv
    options: {delimiter: ";", header: false, types: {zip: string}}
  literal:
    path: $${PROJECT_USER}
queries:
  - q/*.gq
  - more.gq
"""


def test_everything(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("USER", "ann"), ("PASSWORD", "s3cret"), ("DIRECTORY", "sub")):
        monkeypatch.setenv(f"PROJECT_{name}", value)
    (write.parent / "q").mkdir()
    for name in ("q/b.gq", "q/a.gq", "more.gq"):
        (write.parent / name).write_text("")
    write.write_text(FULL)
    project = load_project(write)

    assert project == ProjectSettings(
        path=write,
        foreign=(
            ForeignEntry("orders", "postgresql://ann:s3cret@db/shop", {"table": "sales.orders"}),
            ForeignEntry("prices", str(write.parent / "data/prices/*.parquet")),
            ForeignEntry(
                "Odd name",
                str(write.parent / "sub/a.csv"),
                {"format": "csv", "delimiter": ";", "header": False, "types": {"zip": "string"}},
            ),
            ForeignEntry("literal", str(write.parent / "${PROJECT_USER}")),
        ),
        queries=tuple(write.parent / name for name in ("q/a.gq", "q/b.gq", "more.gq")),
    )
    assert "s3cret" not in repr(project)


@pytest.mark.parametrize("text", ["", "foreign:\n", "queries: []\nforeign: {}\n", "# nothing"])
def test_nothing(write: Path, text: str) -> None:
    write.write_text(text)

    assert load_project(write.parent) == ProjectSettings(path=write)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("other: 1", "for another tool", "there are `graphs`, `servers`, `schema`, `queries`, `branch` and `foreign`"),
        ("graphs: [a]", "`graphs` is not a mapping", None),
        ("graphs: {a: {url: b}}", r"`graphs\.a\.url` is not known", "did you mean `uri`?"),
        ("servers: {a: 5}", r"`servers\.a` is not a text", None),
        ("schema: [a]", "`schema` is not a text", None),
        ("branch: ''", "`branch` is not a text", None),
        ("- a", "the file is not a mapping", None),
        ("false", "the file is not a mapping", None),
        ("foreign: []", "`foreign` is not a mapping", None),
        ("foreign: [a]", "`foreign` is not a mapping", None),
        ("foreign: {a: b}", "`foreign.a` is not a mapping", None),
        ("foreign: {1: {path: b}}", r"`foreign\.1` is not a text", "put quotes around the key"),
        ("foreign: {a: {pth: b}}", r"`foreign\.a\.pth` is not known", "did you mean `path`?"),
        ("foreign: {a: {format: csv}}", r"`foreign\.a` has none of source, path and uri", None),
        ("foreign: {a: {path: b, uri: c}}", r"`foreign\.a` has several of", None),
        ("foreign: {a: {path: 5}}", r"`foreign\.a\.path` is not a text", None),
        ("foreign: {a: {path: b, options: 5}}", r"`foreign\.a\.options` is not a mapping", None),
        (
            "foreign: {a: {path: b, format: csv, options: {format: csv}}}",
            r"`foreign\.a\.options\.format` is given twice",
            None,
        ),
        ("foreign: {a: {path: '${NOT_SET_AT_ALL}/b'}}", r"`foreign\.a\.path` needs .* `NOT_SET_AT_ALL`", None),
        ("foreign: {a: {path: b, options: {types: {z: '${NOT_SET_AT_ALL}'}}}}", r"`foreign\.a\.types\.z` needs", None),
        ("foreign: {a: {path: b}, a: {path: c}}", r":1 is not YAML: `a` is given twice", None),
        ("queries: a.gq", "`queries` is not a list", None),
        ("queries: [5]", r"`queries\[0\]` is not a text", None),
        ("queries: [none.gq]", r"`queries\[0\]` names no file: none\.gq", None),
        ("foreign: {a: [", r":\d is not YAML", None),
    ],
)
def test_what_is_wrong_is_named(write: Path, text: str, message: str, hint: str | None) -> None:
    write.write_text(text)
    with pytest.raises(errors.Configuration, match=message) as caught:
        load_project(write)

    assert str(write) in caught.value.message
    assert caught.value.hint is not None
    assert hint is None or caught.value.hint == hint


def test_it_is_found_in_a_directory_above(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write.write_text("queries: []")
    below = write.parent / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert find_project() == ProjectSettings(path=write)
    write.unlink()
    with pytest.raises(errors.NotFound, match=r"no omnigraph\.yaml in"):
        find_project()
    with pytest.raises(errors.NotFound, match="cannot be read"):
        load_project(write)


def test_a_graph_uses_it(graph: Graph, write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (write.parent / "data").mkdir()
    pq.write_table(pa.table({"who": ["ann"], "x": [1]}), write.parent / "data" / "a.parquet")
    write.write_text("foreign:\n  scores:\n    path: data\n")
    monkeypatch.chdir(write.parent / "data")
    project = graph.use_project()

    assert project.path == write
    assert graph.sql('SELECT p.age FROM scores s JOIN "Person" p ON p.name = s.who').to_pylist() == [{"age": 30}]
    graph.unregister("scores")
    assert graph.use_project(write) == project
