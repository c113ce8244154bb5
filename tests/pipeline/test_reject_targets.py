"""Where pipelines report rejected rows: checked before anything is read, and never a reason to hide what was published."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from omnigraph_sql import errors
from omnigraph_sql.pipeline import validate
from tests.pipeline.world import World

ROWS = [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 700}]


@pytest.mark.parametrize(
    ("to", "text"),
    [
        ("g/rejects.jsonl", "inside the graph"),
        ("g/deep/er/rejects.jsonl", "inside the graph"),
        ("alias/rejects.jsonl", "inside the graph"),
        ("people.jsonl", "what is read"),
        ("folder.jsonl", "is a directory"),
        ("people.jsonl/rejects.jsonl", "Not a directory"),
        ("x" * 300 + ".jsonl", "too long"),
    ],
)
def test_a_place_that_takes_no_report_is_told_by_validate_and_run(world: World, to: str, text: str) -> None:
    world.lines("people.jsonl", ROWS)
    (world.path / "folder.jsonl").mkdir()
    (world.path / "alias").symlink_to("g")
    path = world.pipeline(rejects={"to": to, "max": 5})
    with pytest.raises(errors.Configuration, match=text) as raised:
        validate(path, engine="local")
    assert raised.value.what == "rejects.to"
    with pytest.raises(errors.Configuration, match=text):
        world.run()
    assert world.people() == {}
    assert not (world.path / "g" / "deep").exists()
    assert world.leftovers() == []


def test_an_address_takes_no_report(world: World) -> None:
    with pytest.raises(errors.Configuration, match=r"rejects\.to.* is an address"):
        validate(world.pipeline(rejects={"to": "s3://bucket/rejects.jsonl"}), engine="local")


def test_a_report_that_fails_stops_the_run_before_anything_is_published(world: World) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("a device of Linux")
    world.lines("people.jsonl", ROWS)
    (world.path / "full.jsonl").symlink_to("/dev/full")
    world.pipeline(rejects={"to": "full.jsonl", "max": 5})
    with pytest.raises(errors.BadRequest, match="No space left") as raised:
        world.run()
    kept = Path(raised.value.message.rpartition("they are in ")[2])
    assert json.loads(kept.read_text())["id"] == "Bob"
    kept.unlink()
    assert (world.people(), world.leftovers()) == ({}, [])
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_nothing_of_a_report_is_left_by_a_run_that_fails_early(world: World) -> None:
    world.pipeline(
        sources={"people": {"format": "csv", "path": "people.csv"}}, rejects={"to": "out/rejects.jsonl", "max": 5}
    )
    world.write("people.csv", b"name,age\n\xff\xfe,1\n")
    with pytest.raises(errors.OmnigraphError):
        world.run()
    assert sorted(path.name for path in (world.path / "out").iterdir()) == ["rejects.jsonl"]
