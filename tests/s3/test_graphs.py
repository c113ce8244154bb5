"""A graph on S3 does what a graph in a directory does."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import AlreadyInitialized, Configuration, NotFound, Storage
from omnigraph_sql.writes.load.staged_load import StagedLoad
from tests import stores
from tests.cli.ogsql import ogsql
from tests.crash.world import (
    DIED,
    INSERT,
    SCHEMA,
    SEED,
    UPDATE,
    assert_settled,
    edge,
    expected_after,
    kinds,
    names,
    node,
    reopened,
    rows,
    run_child,
    seeded,
    sidecars,
)
from tests.stores import S3Place

PEOPLE = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
WRITER = """
import sys
import omnigraph_sql as og
graph = og.connect(sys.argv[1])
for number in range(3):
    graph.mutate("query q($name: String) { insert Person { name: $name } }", params={"name": f"{sys.argv[2]}-{number}"})
"""


def test_a_graph_lives_under_a_prefix(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part reaches the store by the settings of the graph: what libraries read from the environment leads nowhere."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", root.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    place = root / "my graphs" / "é=1"

    graph = og.init(place, SCHEMA, actor="ada")
    graph.load(SEED, mode="append")
    first = graph.snapshot().commit_id
    graph.mutate(INSERT, params={"name": "cleo"})
    graph.mutate(UPDATE)
    graph.create_branch("a/b")
    graph.mutate('query q() { delete Person where name = "ann" }', branch="a/b")
    staged = graph.stage([node("Person", name="dora"), node("Team", slug="blue")], mode="append", branch="a/b")
    graph.publish(StagedLoad.from_json(staged.to_json()))
    graph.load([edge("Knows", "bob", "cleo", id="k9")], mode="overwrite")

    reader = og.connect(str(place), read_only=True)
    assert reader.uri == str(place)
    assert names(reader) == ["ann", "bob", "cleo"]
    assert names(reader, commit=first) == ["ann", "bob"]
    assert [row["p.name"] for row in reader.query(PEOPLE, branch="a/b").to_pylist()] == ["bob", "cleo", "dora"]
    assert rows(reader)["Person"][0]["age"] == 31
    graph.delete_branch("a/b")
    assert graph.branches() == ["main"]
    assert not (place / "_staged").exists()
    assert not [each for each in place.rglob("*") if "_locks" in each.parts], "a lease was left behind"


def test_a_graph_is_made_once(root: S3Place) -> None:
    with pytest.raises(NotFound, match="there is no graph at"):
        og.connect(root)
    og.init(root, "node T { name: String @key }")

    with pytest.raises(AlreadyInitialized):
        og.init(root, "node T { name: String @key }")

    assert not (root / "__init_claim.json").exists()


def test_an_init_that_died_is_taken_over(root: S3Place) -> None:
    assert run_child(root, "init", OMNIGRAPH_FAILPOINTS="init.after_contract_written=exit") == DIED
    with pytest.raises(NotFound, match="is not a graph") as missing:
        og.connect(root)
    assert missing.value.hint == "it is being created, or that was interrupted: run init again"

    graph = og.init(root, SCHEMA)

    assert rows(graph) == {}
    assert not [each for each in root.iterdir() if each.name.startswith("__init_claim")]


@pytest.mark.parametrize(
    ("point", "kind"),
    [("write.post_table_commit=exit@2", "RolledBack"), ("write.post_effects_pre_publish=exit", "RolledForward")],
)
def test_a_writer_that_died_is_recovered_at_once(root: S3Place, point: str, kind: str) -> None:
    """Its lease has not expired, but its process was on this machine and is gone."""
    before = rows(seeded(root))
    assert run_child(root, "many", point) == DIED
    assert [each.name for each in (root / "_locks").iterdir() if each.name.startswith("op-")]
    (sidecar,) = sidecars(root)
    owner = json.loads(sidecar.read_text("utf-8"))["owner"]
    assert sorted(owner) == ["host", "lease_expires_at", "machine", "pid", "process_start"]

    graph = reopened(root)

    assert kinds(graph) == [kind]
    assert rows(graph) == (before if kind == "RolledBack" else expected_after("many", before))
    graph.mutate(INSERT, params={"name": "zoe"})
    assert_settled(graph)


def test_several_processes_write_one_table(root: S3Place) -> None:
    graph = seeded(root)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(root), name], stderr=subprocess.PIPE, text=True)
        for name in "xyz"
    ]
    complaints = [writer.communicate(timeout=120)[1] for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0, 0], complaints
    assert names(graph) == sorted(["ann", "bob", *(f"{name}-{number}" for name in "xyz" for number in range(3))])
    assert len(graph.commits()) == 2 + 9
    assert_settled(graph)


def test_what_is_wrong_with_the_store_is_said(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Callable[[str], object]] = [og.connect, lambda uri: og.init(uri, SCHEMA)]
    for attempt in attempts:
        with pytest.raises(Storage, match=r"s3://no-such-bucket/g.*the bucket does not exist") as caught:
            attempt("s3://no-such-bucket/g")
        assert caught.value.storage_class == "configuration"
    seeded(root)
    graph = og.connect(root, read_only=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(Storage, match="cannot be reached") as caught:
        og.connect(root, read_only=True)

    assert caught.value.storage_class == "transient"
    assert "AWS_ENDPOINT_URL" in str(caught.value)
    assert names(graph) == ["ann", "bob"], "an open graph keeps the settings it was opened with"


def test_a_store_that_ignores_conditions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with stores.s3_server("unconditional") as endpoint:
        for name, value in stores.settings(endpoint).items():
            monkeypatch.setenv(name, value)
        root = S3Place(endpoint, "g")

        with pytest.raises(Storage, match="cannot create an object only where there is none"):
            og.init(root, SCHEMA)

        assert not root.exists()


def test_without_the_client_library_the_error_names_the_extra(root: S3Place) -> None:
    script = "import sys; sys.modules['obstore'] = None; import omnigraph_sql as og; og.connect(sys.argv[1])"
    result = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False)

    assert Configuration.__name__ in result.stderr
    assert 'pip install "omnigraph-sql[s3]"' in result.stderr


def test_the_command_line_takes_addresses_of_buckets(root: S3Place, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "d.jsonl").write_text("\n".join(SEED))
    load = ("load", "--store", str(root), "--data", "d.jsonl", "--mode")
    assert ogsql("init", str(root), "--schema", "s.pg", cwd=tmp_path).status == 0
    og.connect(root).create_branch("draft")

    for command in ((*load, "overwrite"), ("branch", "delete", str(root), "draft")):
        refused = ogsql(*command, cwd=tmp_path)
        assert (refused.status, "--yes" in refused.err) == (2, True), refused
        assert ogsql(*command, "--yes", cwd=tmp_path).status == 0

    assert og.connect(root).branches() == ["main"]
    exported = ogsql("export", str(root), "--type", "Person").out
    assert [json.loads(line)["data"]["id"] for line in exported.splitlines()] == ["ann", "bob"]
