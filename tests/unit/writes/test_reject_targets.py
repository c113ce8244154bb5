"""Where rejected records go: targets are checked before a load, and what fails afterwards does not hide its outcome."""

from __future__ import annotations

import gc
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.graph import resumption
from omnigraph_sql.storage.output_files import check_destination

SCHEMA = "node P { name: String @key  a: I32? }"
DATA = ['{"type":"P","data":{"name":"good"}}', '{"type":"P","data":{"name":"bad","a":"x"}}']


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def names(graph: og.Graph) -> list[str]:
    return [json.loads(line)["data"]["name"] for line in graph.export()]


def load(graph: og.Graph, rejects: Any, **options: Any) -> Any:
    return graph.load(DATA, mode="append", rejects=rejects, **{"max_rejects": 5, **options})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "the path is empty"),
        (".", "is a directory"),
        ("directory", "is a directory"),
        ("directory/", "is a directory"),
        ("new/", "is a directory"),
        ("missing/x.jsonl", "there is no directory"),
        ("file/x.jsonl", "Not a directory"),
        ("a\0b", "NUL"),
        ("\ud800.jsonl", "is no file name"),
        ("n" * 300, "File name too long"),
        ("a/" * 3000 + "x", "File name too long"),
        ("loop", "symbolic links"),
        ("s3://bucket/x.jsonl", "object store"),
        ("file:///tmp/x.jsonl", "address"),
        (b"x.jsonl", "type bytes"),
        (7, "type int"),
        (["x"], "type list"),
        ("g/_schema.pg", "inside the graph"),
        ("g/_schema.ir.json", "inside the graph"),
        ("g/__schema_state.json", "inside the graph"),
        ("g/new.jsonl", "inside the graph"),
        ("g/nodes/../x.jsonl", "inside the graph"),
        ("link/x.jsonl", "inside the graph"),
        ("link-to-schema", "inside the graph"),
        ("other/_schema.pg", "inside the graph"),
        ("socket", "is a socket"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_anything_is_loaded(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any, text: str
) -> None:
    import socket

    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("g")
    (tmp_path / "link-to-schema").symlink_to("g/_schema.pg")
    og.init(tmp_path / "other", SCHEMA).close()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for target in (name, Path(name)) if isinstance(name, str) and name not in ("", "directory/", "new/") else (name,):
            if isinstance(target, Path) and "://" in name:
                continue
            with pytest.raises(errors.BadRequest, match=text):
                load(graph, target)
    assert names(graph) == []
    assert og.connect(tmp_path / "g").schema == SCHEMA


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_rights_are_looked_at_first(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(errors.BadRequest, match="Permission denied"):
        load(graph, tmp_path / "closed" / "x.jsonl")
    assert names(graph) == []


def test_a_target_that_cannot_be_opened_leaves_nothing_open(graph: og.Graph) -> None:
    with pytest.raises(errors.BadRequest, match="cannot be written"):
        load(graph, "/dev/fd/977")
    gc.collect()
    assert names(graph) == []


@pytest.mark.parametrize("limit", [2.5, [1], True, "5", "101%", -1, b"1"])
def test_a_limit_is_a_number_or_a_share(graph: og.Graph, limit: Any) -> None:
    with pytest.raises(errors.BadRequest, match="max_rejects is"):
        load(graph, None, max_rejects=limit)


def test_the_loaded_file_is_no_target(graph: og.Graph, tmp_path: Path) -> None:
    given = tmp_path / "in.jsonl"
    given.write_text("\n".join(DATA))
    (tmp_path / "alias").symlink_to(given)
    for target in (given, tmp_path / "alias"):
        with pytest.raises(errors.BadRequest, match="what is read"):
            graph.load(given, mode="append", rejects=target, max_rejects=5)
    table = tmp_path / "p.csv"
    table.write_text("name\nx\n")
    with pytest.raises(errors.BadRequest, match="what is read"):
        graph.load({"P": table}, mode="append", rejects=table, max_rejects=5)
    assert (names(graph), table.read_text()) == ([], "name\nx\n")


def test_a_link_keeps_pointing_at_its_target_and_modes_stay(graph: og.Graph, tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "link.jsonl"
    link.symlink_to(real)
    result = load(graph, link)
    assert (result.rejected, result.warnings, result.rejects) == (1, (), str(link))
    assert link.is_symlink()
    assert json.loads(real.read_text())["id"] == "bad"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    dangling = tmp_path / "dangling.jsonl"
    dangling.symlink_to(tmp_path / "made.jsonl")
    graph.load([DATA[1]], mode="merge", rejects=dangling, max_rejects=1)
    assert dangling.is_symlink()
    assert json.loads((tmp_path / "made.jsonl").read_text())["id"] == "bad"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(not os.path.exists("/proc/self/exe"), reason="links of Linux")
def test_links_of_the_system_are_no_targets(graph: og.Graph, tmp_path: Path) -> None:
    with (tmp_path / "theirs").open("w") as theirs:
        theirs.write("theirs")
        theirs.flush()
        with subprocess.Popen(["sleep", "60"], pass_fds=[theirs.fileno()]) as other:
            try:
                with pytest.raises(errors.BadRequest, match="what a process uses"):
                    load(graph, f"/proc/{other.pid}/fd/{theirs.fileno()}")
            finally:
                other.kill()
    assert (tmp_path / "theirs").read_text() == "theirs"
    (tmp_path / "alias").symlink_to("/proc/self/exe")
    for name in ("/proc/self/exe", str(tmp_path / "alias")):
        # Only checked: a load that did not refuse it would replace the interpreter.
        with pytest.raises(errors.BadRequest, match="what a process uses"):
            check_destination(name, "{path}")
    assert names(graph) == []


def test_a_device_is_written_into_and_stays_one(graph: og.Graph) -> None:
    result = load(graph, "/dev/null")
    assert (result.rejected, result.warnings) == (1, ())
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("suffix", ["", ".parquet"])
def test_a_device_that_is_full_costs_a_warning(graph: og.Graph, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"full{suffix}"
    target.symlink_to("/dev/full")
    with pytest.warns(errors.RejectsWarning, match="No space left"):
        result = load(graph, target)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert names(graph) == ["good"]
    assert result.commit is not None
    assert "No space left" in result.warnings[0]
    kept = Path(result.rejects)
    assert json.loads(kept.read_text())["id"] == "bad"
    kept.unlink()


def test_a_pipe_is_written_into(graph: og.Graph, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    result = load(graph, pipe)
    reader.join(30)
    assert result.warnings == ()
    assert json.loads(got[0])["id"] == "bad"
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_standard_output_is_written_into(tmp_path: Path) -> None:
    script = (
        "import omnigraph_sql as og\n"
        f"g = og.init({str(tmp_path / 'g')!r}, {SCHEMA!r})\n"
        "print('before', flush=True)\n"
        f"g.load({DATA!r}, mode='append', rejects='/dev/stdout', max_rejects=5)\n"
        "print('after')\n"
    )
    with (tmp_path / "out.txt").open("w") as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True, timeout=120)
    first, second, third = (tmp_path / "out.txt").read_text().splitlines()
    assert (first, json.loads(second)["id"], third) == ("before", "bad", "after")


def test_a_function_that_raises_costs_a_warning(graph: og.Graph) -> None:
    def fails(_: Any) -> None:
        raise RuntimeError("boom")

    with pytest.warns(errors.RejectsWarning, match="RuntimeError: boom"):
        result = load(graph, fails)
    assert names(graph) == ["good"]
    assert result.rejected == 1
    kept = Path(result.rejects)
    assert json.loads(kept.read_text())["id"] == "bad"
    kept.unlink()


def test_a_directory_that_comes_into_the_way_costs_a_warning(graph: og.Graph, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"

    def lines() -> Iterator[str]:
        yield from DATA
        target.mkdir()

    with pytest.warns(errors.RejectsWarning, match="x.jsonl"):
        result = graph.load(lines(), mode="append", rejects=target, max_rejects=5)
    assert names(graph) == ["good"]
    assert result.rejects is not None
    assert json.loads(Path(result.rejects).read_text())["id"] == "bad"
    assert result.to_dict()["rejects"] == result.rejects
    assert result.to_dict()["warnings"] == list(result.warnings)


def test_a_failed_load_keeps_its_error(graph: og.Graph, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"

    def lines() -> Iterator[str]:
        yield from DATA
        target.mkdir()

    with pytest.raises(errors.ValidationFailed, match="1 record is rejected, 0 allowed") as raised:
        graph.load(lines(), mode="append", rejects=target)
    assert "Is a directory" in str(raised.value.hint)
    assert names(graph) == []


def test_a_staged_load_whose_rejects_cannot_be_reported_is_none(graph: og.Graph, tmp_path: Path) -> None:
    def fails(_: Any) -> None:
        raise RuntimeError("boom")

    with pytest.raises(errors.BadRequest, match="RuntimeError: boom"):
        graph.stage(DATA, mode="append", rejects=fails, max_rejects=5, idempotency_key="k")
    assert resumption.discard_abandoned(graph, "k") == 0
    assert not list((tmp_path / "g" / "_staged").glob("*"))
