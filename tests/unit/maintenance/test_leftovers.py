"""What nothing refers to: it stays while a writer may be about to need it, and goes when it is older than the grace."""

import os
import time
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.maintenance.cleanup import CleanupStat
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.storage.preview_versions import commit_view
from omnigraph_sql.writes.distributed.load import begin_table, finish_table, publish_remote
from omnigraph_sql.writes.distributed.task import write_rows
from omnigraph_sql.writes.load.staged_load import StagedLoad
from omnigraph_sql.writes.operation import Provenance
from tests.crash.world import INSERT, abandon, armed, assert_settled, names, node, reopened, run_child, seeded
from tests.internals import store_of

EVERYTHING = timedelta(0)
DAY = 86_400


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "g"


@pytest.fixture
def graph(root: Path) -> og.Graph:
    return seeded(root)


def age(root: Path, days: float, *patterns: str) -> None:
    """Let files look as if they had been written days ago."""
    for pattern in patterns:
        for path in root.glob(pattern):
            then = time.time() - days * DAY
            os.utime(path, (then, then))


def files(graph: og.Graph, key: str = "node:Person") -> set[str]:
    place = Path(graph.uri) / graph.snapshot().entries[key].path
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def of(stats: list[CleanupStat], key: str = "node:Person") -> CleanupStat:
    (found,) = [each for each in stats if each.table_key == key]
    return found


# A write that is under way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_staged_load_survives_every_cleanup_and_is_published(graph: og.Graph, root: Path, mode: LoadMode) -> None:
    for name in ("one", "two"):
        graph.mutate(INSERT, params={"name": name})
    people = [node("Person", name=name, age=1) for name in ("ann", "bob", "cleo")]
    staged = graph.stage(people[2:] if mode == "append" else people, mode=mode)

    with pytest.warns(UserWarning, match="keep=1"):
        graph.cleanup(keep=1)
    og.connect(root).cleanup(older_than=EVERYTHING)

    assert graph.publish(StagedLoad.from_json(staged.to_json())) is not None
    expected = {"ann", "bob", "cleo"} | (set() if mode == "overwrite" else {"one", "two"})
    assert set(names(reopened(root))) == expected


def test_a_load_staged_for_the_first_write_on_a_branch_survives(graph: og.Graph, root: Path) -> None:
    graph.create_branch("draft")
    staged = graph.stage([node("Person", name="cleo")], mode="append", branch="draft", idempotency_key="k")
    assert list((root / "_staged").rglob("*.arrow"))

    graph.cleanup(older_than=EVERYTHING)

    assert graph.publish(staged) is not None
    assert names(reopened(root), "draft") == ["ann", "bob", "cleo"]


def test_a_staged_load_can_be_looked_at_while_the_version_below_it_goes(graph: og.Graph, root: Path) -> None:
    people = [node("Person", name=name) for name in ("ann", "bob", "cleo")]
    staged = graph.stage(people[::2], mode="merge")
    with graph.preview(staged) as preview:
        og.connect(root).load(people[:2], mode="overwrite")
        og.connect(root).cleanup(older_than=EVERYTHING)
        found = preview.sql('SELECT name FROM "Person" ORDER BY name').to_arrow().column(0).to_pylist()
        assert found == ["ann", "bob", "cleo"]
    with pytest.raises(errors.ExpectedVersionMismatch):
        graph.publish(staged)
    assert_settled(graph)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_job_of_many_processes_survives_cleanups_between_its_tasks(graph: og.Graph, root: Path, mode: LoadMode) -> None:
    columns = pa.schema([("name", pa.string())])
    table = begin_table(store_of(graph), "job", "Person", columns, mode=mode, branch="main")

    def task(number: int, *people: str) -> object:
        worker = og.connect(root, read_only=True)
        return write_rows(worker._store, table, [pa.record_batch({"name": list(people)})], number)

    parts = [task(0, "ann", "bob") if mode != "append" else task(0, "dora")]
    graph.mutate(INSERT, params={"name": "meanwhile"})
    graph.cleanup(older_than=EVERYTHING)
    assert graph.snapshot(version=table.manifest_version).entries["node:Person"].version < min(_versions(graph))
    parts.append(task(1, "eve"))
    graph.cleanup(older_than=EVERYTHING)
    finish_table(store_of(graph), table, parts)  # type: ignore[arg-type]
    graph.cleanup(older_than=EVERYTHING)
    if mode == "overwrite":
        graph.mutate('query q() { delete Person where name = "meanwhile" }')

    published = publish_remote(store_of(graph), "job", Provenance("Load", None))

    assert published.commit is not None
    added = {"eve"} | ({"dora"} if mode == "append" else set())
    kept = set() if mode == "overwrite" else {"meanwhile"}
    assert set(names(reopened(root))) == {"ann", "bob"} | added | kept
    assert not (root / "_staged" / "job").exists()


def _versions(graph: og.Graph) -> list[int]:
    place = Path(graph.uri) / graph.snapshot().entries["node:Person"].path
    return [int(each["version"]) for each in lance.dataset(str(place)).versions()]


def test_a_job_longer_than_the_grace_keeps_what_its_first_tasks_wrote(graph: og.Graph, root: Path) -> None:
    table = begin_table(store_of(graph), "job", "Person", pa.schema([("name", pa.string())]), mode="append", branch="main")
    first = write_rows(store_of(graph), table, [pa.record_batch({"name": ["cleo"]})], 0)
    age(root, 30, "nodes/*/data/*", "_staged/job/*")
    second = write_rows(store_of(graph), table, [pa.record_batch({"name": ["dora"]})], 1)

    graph.cleanup(older_than=EVERYTHING)
    finish_table(store_of(graph), table, [first, second])
    publish_remote(store_of(graph), "job", Provenance("Load", None))

    assert names(reopened(root)) == ["ann", "bob", "cleo", "dora"]


def test_a_large_upsert_of_a_task_survives_a_cleanup(graph: og.Graph, root: Path) -> None:
    table = begin_table(store_of(graph), "job", "Person", pa.schema([("name", pa.string())]), mode="merge", branch="main")
    many = [f"p{number:05}" for number in range(20_000)]
    part = write_rows(store_of(graph), table, [pa.record_batch({"name": ["ann", *many]})], 0)
    assert part.joined is not None, "the task has joined its rows with the table"

    graph.mutate(INSERT, params={"name": "meanwhile"})
    graph.cleanup(older_than=EVERYTHING)
    finish_table(store_of(graph), table, [part])
    publish_remote(store_of(graph), "job", Provenance("Load", None))

    assert names(reopened(root)) == ["ann", "bob", "meanwhile", *many]
    assert_settled(graph)


# What is left over ---------------------------------------------------------------------------------------------------


def test_the_files_of_a_writer_that_died_go_after_the_grace(graph: og.Graph, root: Path) -> None:
    before = files(graph)
    assert run_child(root, "insert", "mutation.post_stage_pre_gates=exit") != 0
    (stray,) = files(graph) - before

    assert of(graph.cleanup(keep=10)).files_removed == 0
    age(root, 6.9, "nodes/*/data/*")
    assert of(graph.cleanup(keep=10)).files_removed == 0
    assert stray in files(graph)
    age(root, 7.1, "nodes/*/data/*")
    stats = graph.cleanup(keep=10)

    assert (of(stats).files_removed, of(stats).versions_removed, of(stats).error) == (1, 0, None)
    assert files(graph) == before, "what versions name is not left over, however old it is"
    assert names(reopened(root)) == ["ann", "bob"]


def test_the_file_that_a_killed_writer_had_open_goes_after_the_grace(graph: og.Graph, root: Path) -> None:
    place = root / graph.snapshot().entries["node:Person"].path / "data"
    (place / ".tmpX7aB2c").write_bytes(b"half of a file")
    assert of(graph.cleanup(keep=10)).files_removed == 0
    age(root, 8, "nodes/*/data/.tmp*")
    assert of(graph.cleanup(keep=10)).files_removed == 1
    assert not (place / ".tmpX7aB2c").exists()


def test_a_staged_load_older_than_the_grace_is_gone_and_says_so(graph: og.Graph, root: Path) -> None:
    staged = graph.stage([node("Person", name="ann", age=1), node("Person", name="cleo")], mode="merge")
    age(root, 8, "nodes/*/data/*", "nodes/*/_deletions/*")
    removed = of(graph.cleanup(keep=10)).files_removed

    assert removed == 3
    with pytest.raises(errors.NotFound, match=r"the staged rows .* are gone") as gone:
        graph.publish(staged)
    assert gone.value.hint == "stage the load again"
    assert names(reopened(root)) == ["ann", "bob"]


def test_the_directories_of_staged_loads_go_after_the_grace(graph: og.Graph, root: Path) -> None:
    graph.create_branch("draft")
    old = graph.stage([node("Person", name="cleo")], mode="append", branch="draft")
    table = begin_table(store_of(graph), "job", "Person", pa.schema([("name", pa.string())]), mode="append", branch="main")
    write_rows(store_of(graph), table, [pa.record_batch({"name": ["dora"]})], 0)
    age(root, 8, "_staged/*/*", "nodes/*/data/*")
    young = graph.stage([node("Person", name="eve")], mode="append", branch="draft")

    stats = graph.cleanup(keep=10)

    assert [path.name for path in (root / "_staged").iterdir()] == [young.load_id]
    assert (of(stats, "_staged").files_removed, of(stats).files_removed) == (3, 1)
    for attempt in (lambda: graph.publish(old), lambda: publish_remote(store_of(graph), "job", Provenance("Load", None))):
        with pytest.raises(errors.NotFound):
            attempt()
    assert graph.publish(young) is not None
    assert names(reopened(root), "draft") == ["ann", "bob", "eve"]


def test_the_view_of_a_process_that_died_goes_after_the_grace(graph: og.Graph, root: Path) -> None:
    staged = graph.stage([node("Person", name="cleo")], mode="append")
    written = StagedHandle.from_dict(staged.tables[0].staged or {})
    below = store_of(graph).storage.open_head(written.path, None)
    commit_view(store_of(graph).storage, below, written, staged.load_id, owns_files=False)
    assert any("/d" in name for name in files(graph))
    graph.cleanup(older_than=EVERYTHING)
    assert any("/d" in name for name in files(graph))

    age(root, 8, "nodes/*/_versions/d*", "nodes/*/data/*", "nodes/*/_transactions/*")
    graph.cleanup(older_than=EVERYTHING)

    assert not any("/d" in name for name in files(graph))
    assert names(reopened(root)) == ["ann", "bob"]


def test_the_grace_can_be_set(graph: og.Graph, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.stage([node("Person", name="cleo")], mode="append")
    age(root, 20, "nodes/*/data/*")
    monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", "30d")
    assert of(graph.cleanup(keep=10)).files_removed == 0
    for wrong in ("soon", "0s", "-1d", "7"):
        monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", wrong)
        age(root, 6, "nodes/*/data/*")
        with pytest.warns(RuntimeWarning, match="OMNIGRAPH_STAGING_GRACE"):
            assert of(graph.cleanup(keep=10)).files_removed == 0
    monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", "12h")
    assert of(graph.cleanup(keep=10)).files_removed == 1
    assert names(reopened(root)) == ["ann", "bob"]


def test_files_of_a_fork_without_a_reference_go_after_the_grace(graph: og.Graph, root: Path) -> None:
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "cleo"}, branch="draft")
    place = root / graph.snapshot().entries["node:Person"].path / "tree"
    stray = place / "draft.0123456789" / "data" / "x.lance"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"x")

    assert of(graph.cleanup(keep=10)).branches_removed == 0
    age(root, 8, "nodes/*/tree/draft.0123456789/data/*")
    stats = graph.cleanup(keep=10)

    assert (of(stats).branches_removed, stray.exists()) == (1, False)
    assert names(reopened(root), "draft") == ["ann", "bob", "cleo"]


def test_what_versions_name_stays_however_old_it_is(root: Path) -> None:
    graph = og.init(root, "node Picture { name: String @key  size: I32? @index  bytes: Blob? }")
    image = os.urandom(300_000)
    columns = {"name": ["a", "b"], "size": [1, 2], "bytes": pa.array([image, image], pa.binary())}
    graph.load({"Picture": pa.table(columns)}, mode="append")
    graph.ensure_indices()
    graph.mutate('query q() { delete Picture where name = "b" }')
    graph.create_branch("draft")
    graph.load([node("Picture", name="c", size=3)], mode="append", branch="draft")
    graph.mutate('query q() { delete Picture where name = "c" }', branch="draft")
    graph.load([node("Picture", name="d", size=4)], mode="append")
    age(root, 30, "nodes/**/*")
    before = files(graph, "node:Picture")

    stats = graph.cleanup(keep=10)

    assert of(stats, "node:Picture") == CleanupStat(table_key="node:Picture")
    assert files(graph, "node:Picture") == before
    again = og.connect(root)
    for branch, expected in (("main", ["a", "d"]), ("draft", ["a"])):
        assert names(again, branch, "Picture") == expected
        text = 'SELECT bytes FROM "Picture" WHERE size = 1'
        assert again.sql(text, branch=branch).to_arrow().column(0).to_pylist() == [image]


def test_a_branch_keeps_what_it_was_forked_with_though_that_version_is_lost(graph: og.Graph, root: Path) -> None:
    graph.ensure_indices()
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "cleo"}, branch="draft")
    graph.load([node("Person", name=name) for name in ("ann", "bob")], mode="overwrite")
    fork = graph.snapshot(branch="draft").entries["node:Person"]
    for manifest in sorted((root / fork.path / "_versions").glob("[0-9]*.manifest"))[1:]:
        manifest.unlink()  # another tool
    age(root, 30, "nodes/**/*")

    graph.cleanup(keep=10)

    table = lance.dataset(str(root / fork.path / "tree" / str(fork.branch)))
    assert "ScalarIndexQuery" in table.scanner(filter="id = 'ann'").explain_plan()
    assert table.to_table(filter="id = 'ann'").num_rows == 1
    assert names(reopened(root), "draft") == ["ann", "bob", "cleo"]


# A cleanup that died -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nth", range(1, 11))
def test_a_cleanup_that_died_is_finished_by_the_next(graph: og.Graph, root: Path, nth: int) -> None:
    for name in ("one", "two"):
        graph.mutate(INSERT, params={"name": name})
    graph.load([node("Person", name=name) for name in ("ann", "bob", "cleo")], mode="overwrite")
    abandon(f"storage.object_delete@{nth}", lambda: graph.cleanup(older_than=EVERYTHING))

    again = reopened(root)
    assert names(again) == ["ann", "bob", "cleo"]
    again.cleanup(older_than=EVERYTHING)

    data = [name for name in files(again) if name.startswith("data/")]
    assert (len(data), len(_versions(again))) == (1, 1), "young files that only removed versions named are gone, too"
    assert not list((root / "_cleanup").glob("*"))
    assert all(each.is_empty for each in again.cleanup(older_than=EVERYTHING))
    assert names(reopened(root)) == ["ann", "bob", "cleo"]


def test_an_error_in_the_middle_of_a_table_is_finished_by_the_next(graph: og.Graph, root: Path) -> None:
    graph.load([node("Person", name=name) for name in ("ann", "bob", "cleo")], mode="overwrite")
    failpoints.reset()
    with armed("storage.object_delete=error"):
        failed = graph.cleanup(older_than=EVERYTHING)
    assert all(each.error for each in failed if each.table_key in ("edge:Knows", "node:Person"))

    done = graph.cleanup(older_than=EVERYTHING)

    assert of(done).error is None
    assert len([name for name in files(graph) if name.startswith("data/")]) == 1
    assert names(reopened(root)) == ["ann", "bob", "cleo"]
