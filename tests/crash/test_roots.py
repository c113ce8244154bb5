"""Bad roots and bad surroundings: initialisations that died, places that are no graph, no right to write, no space."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from tests.cli.ogsql import ogsql
from tests.crash.world import (
    ACTOR,
    DIED,
    INSERT,
    OPERATIONS,
    ROOT,
    SCHEMA,
    armed,
    assert_settled,
    assert_writable,
    expected_after,
    names,
    node,
    reopened,
    rows,
    run_child,
    seeded,
    spawn,
)

pytestmark = pytest.mark.local

CLAIM = "__init_claim.json"
OTHER_SCHEMA = "node Ship { name: String @key }"
NOBODY = 65534


def claims(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("__init_claim*"))


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and "_locks" not in path.parts)


# Claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["init.after_schema_written", "init.after_contract_written", "storage.object_write@4"])
def test_init_of_a_dead_process_is_taken_over(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    name, at, nth = point.partition("@")
    assert run_child(root, "init", OMNIGRAPH_FAILPOINTS=f"{name}=exit{at}{nth}") == DIED
    assert claims(root) == [CLAIM]
    with pytest.raises(errors.NotFound, match="not a graph") as missing:
        og.connect(root)
    assert missing.value.hint == "it is being created, or that was interrupted: run init again"

    graph = og.init(root, OTHER_SCHEMA)

    assert claims(root) == []
    assert list(graph.snapshot().entries) == ["node:Ship"]
    assert [path.name for path in (root / "nodes").iterdir()] == [Path(graph.snapshot().entries["node:Ship"].path).name]
    graph.load([node("Ship", name="a")], mode="append")


def test_init_that_died_after_the_manifest_left_a_graph(tmp_path: Path) -> None:
    root = tmp_path / "g"
    assert run_child(root, "init", OMNIGRAPH_FAILPOINTS="init.after_manifest=exit") == DIED

    with pytest.raises(errors.AlreadyInitialized) as there:
        og.init(root, SCHEMA)

    assert not isinstance(there.value, errors.InitializationClaimed)
    assert claims(root) == []
    graph = reopened(root)
    graph.load([node("Person", name="bob")], mode="append")
    assert_writable(graph)


def test_a_take_over_that_dies_is_taken_over_as_well(tmp_path: Path) -> None:
    root = tmp_path / "g"
    for _ in range(2):
        assert run_child(root, "init", OMNIGRAPH_FAILPOINTS="init.after_contract_written=exit") == DIED
    assert len(claims(root)) == 2

    og.init(root, OTHER_SCHEMA)

    assert claims(root) == []
    assert len(list((root / "nodes").iterdir())) == 1


def test_a_living_initialisation_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "g"
    child = spawn(root, "init", OMNIGRAPH_FAILPOINTS="init.after_schema_written=sleep(60000)")
    try:
        deadline = time.monotonic() + 60
        while not (root / "_schema.pg").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        before = files(root)
        with pytest.raises(errors.InitializationClaimed, match=f"process {child.pid} on") as claimed:
            og.init(root, SCHEMA, force=True)
        assert str(root / CLAIM) in str(claimed.value)
        assert files(root) == before
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert_fresh(og.init(root, SCHEMA, actor=ACTOR))


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({"process_start": "1"}, True),
        ({"pid": 2**22 + 1}, True),
        ({"machine": "another-boot {space}"}, True),
        ({"host": "elsewhere"}, False),
        ({"machine": "{boot} pid:[1]"}, False),
    ],
    ids=["pid reused", "pid gone", "earlier boot", "other host", "other container"],
)
def test_who_counts_as_dead(tmp_path: Path, change: dict[str, str | int], taken: bool) -> None:
    root = tmp_path / "g"
    with armed("init.after_schema_written=panic"), pytest.raises(failpoints.Panic):
        og.init(root, SCHEMA)
    claim = json.loads((root / CLAIM).read_text())
    owner = claim["owner"]
    assert owner["pid"] == os.getpid()
    boot, _, space = owner["machine"].partition(" ")
    other = {key: value.format(boot=boot, space=space) if isinstance(value, str) else value for key, value in change.items()}
    (root / CLAIM).write_text(json.dumps(claim | {"owner": owner | other}))

    if taken:
        assert_fresh(og.init(root, SCHEMA, actor=ACTOR))
    else:
        with pytest.raises(errors.InitializationClaimed):
            og.init(root, SCHEMA)


def test_an_attempt_of_this_process_that_is_over_is_dead(tmp_path: Path) -> None:
    root = tmp_path / "g"
    with armed("init.after_schema_written=panic"), pytest.raises(failpoints.Panic):
        og.init(root, SCHEMA)

    assert_fresh(og.init(root, SCHEMA, actor=ACTOR))


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"pid": 1}', b"[]"])
def test_a_claim_that_cannot_be_read_names_the_file(tmp_path: Path, text: bytes) -> None:
    root = tmp_path / "g"
    root.mkdir()
    (root / CLAIM).write_bytes(text)

    with pytest.raises(errors.InitializationClaimed, match="cannot be read") as claimed:
        og.init(root, SCHEMA)

    assert str(root / CLAIM) in str(claimed.value.hint)
    (root / CLAIM).unlink()
    assert_fresh(og.init(root, SCHEMA, actor=ACTOR))


def test_a_dead_attempt_removes_nothing_that_it_did_not_write(tmp_path: Path) -> None:
    """It died before it had looked at the directory: what is there belongs to somebody else."""
    root = tmp_path / "g"
    root.mkdir()
    (root / "_schema.pg").write_text("node Mine { name: String @key }")
    assert run_child(root, "init", OMNIGRAPH_FAILPOINTS="init.after_claim=exit") == DIED
    assert claims(root) == [CLAIM]

    with pytest.raises(errors.AlreadyInitialized):
        og.init(root, SCHEMA)

    assert (root / "_schema.pg").read_text() == "node Mine { name: String @key }"
    assert claims(root) == []


def assert_fresh(graph: og.Graph) -> None:
    assert rows(graph) == {}
    assert claims(Path(graph.uri)) == []
    graph.load([node("Person", name="bob")], mode="append")
    assert_writable(graph)


# Places that are no graph ------------------------------------------------------------------------------------------


def test_a_place_that_is_no_graph_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    hints = {
        tmp_path / "empty": "give the directory of a graph, or create one with init",
        tmp_path / "file": "give the directory of a graph",
        tmp_path / "nowhere": "look at the address, or create one with init",
    }
    for place, hint in hints.items():
        for read_only in (True, False):
            with pytest.raises(errors.NotFound) as missing:
                og.connect(place, read_only=read_only)
            assert (missing.value.what, missing.value.hint) == ("graph", hint)
            assert str(place) in missing.value.message
    assert files(tmp_path) == [tmp_path / "file"]


def test_an_empty_address_and_a_file_are_refused(tmp_path: Path) -> None:
    for attempt in (og.connect, lambda uri: og.init(uri, SCHEMA)):
        with pytest.raises(errors.BadRequest, match="address of the graph is empty"):
            attempt("")
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.BadRequest, match="is a file, not a directory"):
        og.init(tmp_path / "file", SCHEMA)
    with pytest.raises(errors.Storage, match="Not a directory"):
        og.init(tmp_path / "file" / "below", SCHEMA)


def test_a_graph_without_its_manifest_is_never_initialised_anew(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    (root / "__manifest").rename(tmp_path / "kept")
    before = files(root)

    with pytest.raises(errors.NotFound, match="lacks __manifest") as missing:
        og.connect(root)
    assert missing.value.hint == "restore the directory __manifest from a copy of the graph"
    for force in (False, True):
        with pytest.raises(errors.AlreadyInitialized):
            og.init(root, SCHEMA, force=force)

    assert files(root) == before
    (tmp_path / "kept").rename(root / "__manifest")
    assert_writable(og.connect(root))


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "s.pg").write_text(SCHEMA)
    commands = [
        ["snapshot", "nowhere"],
        ["recovery", "list", "."],
        ["init", "file/below", "--schema", "s.pg", "--quiet"],
    ]
    for command in commands:
        finished = ogsql(*command, cwd=tmp_path)
        assert (finished.status, finished.out) == (1, "")
        assert [line.partition(":")[0] for line in finished.err.splitlines()] == ["error", "hint"]


# No atomic create --------------------------------------------------------------------------------------------------


def test_a_file_system_without_atomic_create_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "g"
    seeded(root)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(errors.Storage, match="cannot create an object only where there is none") as unfit:
        og.connect(root)
    assert unfit.value.storage_class == "configuration"
    assert str(root) in unfit.value.message
    assert rows(og.connect(root, read_only=True))["Team"] == [{"id": "red", "slug": "red"}]
    monkeypatch.undo()
    assert_writable(og.connect(root))


# No right to write -------------------------------------------------------------------------------------------------

READER = """
import os, sys
import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash import world
world.names(world.seeded(sys.argv[2]))  # imports everything while the interpreter's own files can be read
og.connect(sys.argv[2])
if os.getuid() == 0:
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
root = sys.argv[1]
assert world.names(og.connect(root, read_only=True)) == ["ann", "bob"]
for attempt in (lambda: og.connect(root), lambda: og.init(root + "/new", world.SCHEMA)):
    try:
        attempt()
    except errors.Storage as error:
        print(error.storage_class, root in error.message, error.hint is not None)
"""


def test_a_directory_one_may_not_write_is_readable_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    opened = [root, *(path for path in root.rglob("*"))]
    for path in opened:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.getuid() and above.name.startswith(("test", "pytest-", "popen-")):
            above.chmod(0o755)
    try:
        result = _as_nobody(root)
    finally:
        for path in opened:
            path.chmod(0o755 if path.is_dir() else 0o644)

    assert result.stdout.split("\n")[:-1] == ["configuration True True"] * 2, result.stderr
    assert_writable(og.connect(root))


def _as_nobody(root: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", READER.format(nobody=NOBODY), str(root), str(root.parent / "own")],
        env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(root.parent / "numba")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# No space ----------------------------------------------------------------------------------------------------------


@contextmanager
def limited(limit: int) -> Iterator[None]:
    """No file of this process may grow beyond the limit: a disk that is full for some files and not for others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


LIMITS = [0, 100, 500, 700, 900, 1200, 1500, 1590, 2000, 2600, 3300, 4000, 5000]


def failure(operation: Callable[[], object]) -> errors.OmnigraphError | None:
    """What an operation that may find no space ends with. Any error but these two kinds is a failure of the test."""
    try:
        operation()
    except (errors.Storage, errors.RecoveryRequired) as error:
        return error
    return None


def assert_explained(error: errors.OmnigraphError) -> None:
    assert error.hint is not None
    if isinstance(error, errors.Storage):
        assert error.storage_class == "permanent"


@pytest.mark.parametrize("operation", ["insert", "many", "update", "delete", "first_touch_many"])
def test_a_write_that_finds_no_space_is_whole_or_not_there(tmp_path: Path, operation: str) -> None:
    """Each limit stops the write at another file: staged rows, sidecar, table versions, manifest, journal."""
    root = tmp_path / "g"
    branch = "draft" if operation.startswith("first_touch") else "main"
    graph = seeded(root)
    graph.create_branch("draft")
    failures = 0
    before = rows(graph, branch)
    for limit in LIMITS:
        with limited(limit):
            error = failure(lambda graph=graph: OPERATIONS[operation](graph))  # type: ignore[misc]
        graph = og.connect(root)
        assert_settled(graph)
        if error is None or rows(graph, branch) != before:
            # The one failure after which a write may be there is the one that says so.
            assert error is None or isinstance(error, errors.RecoveryRequired)
            break
        failures += 1
        assert_explained(error)
    else:
        OPERATIONS[operation](graph)
    assert rows(graph, branch) == expected_after(operation, before)
    assert failures >= 3
    assert_writable(graph, ["main"] if operation != "delete" else [])


def test_init_that_finds_no_space_can_be_repeated(tmp_path: Path) -> None:
    failures = 0
    for limit in LIMITS:
        root = tmp_path / str(limit)
        with limited(limit):
            error = failure(lambda root=root: og.init(root, SCHEMA))  # type: ignore[misc]
        if error is None:
            break
        failures += 1
        assert_explained(error)
        assert files(root) == []
        graph = og.init(root, SCHEMA, actor=ACTOR)
        graph.load([node("Person", name="bob")], mode="append")
    assert failures >= 3


def _mounted(place: Path, size: str) -> bool:
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    if not _mounted(place, "4m"):
        pytest.skip("this user may not mount; the limits of file sizes above show the same for one file at a time")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """Filled to the last pages but a few, so that each round stops somewhere else."""
    root = small_disk / "g"
    graph = seeded(root)
    outcomes = []
    for pages in (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64):
        before = names(graph)
        with _filled(small_disk, pages):
            error = failure(lambda graph=graph, name=f"p{pages:02}": graph.mutate(INSERT, params={"name": name}))  # type: ignore[misc]
        outcomes.append(None if error is None else error.kind)
        graph = og.connect(root)
        grown = len(names(graph)) - len(before)
        assert grown in {None: [1], "Storage": [0], "RecoveryRequired": [0, 1]}[outcomes[-1]]
        assert_settled(graph)
        if error is not None:
            assert_explained(error)
    assert {None, "Storage"} <= set(outcomes)
    assert_writable(graph)


@contextmanager
def _filled(disk: Path, pages: int) -> Iterator[None]:
    filler = disk / "filler"
    free = os.statvfs(disk)
    with open(filler, "wb") as stream:
        stream.write(b"\0" * max(0, (free.f_bavail - pages) * free.f_bsize))
    try:
        yield
    finally:
        filler.unlink()
