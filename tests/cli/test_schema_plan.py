"""`ogsql schema plan`: the way from one schema to another."""

from pathlib import Path

import pytest

from tests.cli.ogsql import SCHEMA, ogsql

WIDER = SCHEMA.replace("depth: F64?", "depth: F64?\n  name: String?")
RETYPED = SCHEMA.replace("depth: F64?", "depth: String?")


@pytest.mark.parametrize(
    ("new", "status", "fragment"),
    [
        (WIDER, 0, "name"),
        (RETYPED, 1, "OG-MF-106"),
        (SCHEMA, 0, ""),
    ],
    ids=["supported", "unsupported", "nothing to do"],
)
def test_the_exit_status_says_whether_it_is_supported(folder: Path, new: str, status: int, fragment: str) -> None:
    (folder / "new.pg").write_text(new)
    result = ogsql("schema", "plan", "--from", "ports.pg", "new.pg", cwd=folder)

    assert (result.status, result.err) == (status, "")
    assert fragment in result.out
    assert result.out.endswith("\n")
    assert not result.out.endswith("\n\n")


@pytest.mark.parametrize(
    ("new", "status", "kinds"),
    [(WIDER, 0, ["add_property"]), (RETYPED, 1, ["unsupported_change"]), (SCHEMA, 0, [])],
)
def test_json(folder: Path, new: str, status: int, kinds: list[str]) -> None:
    (folder / "new.pg").write_text(new)
    result = ogsql("schema", "plan", "--json", "--from", "ports.pg", "new.pg", cwd=folder)

    assert (result.status, result.err) == (status, "")
    assert result.document["supported"] is (status == 0)
    assert [step["kind"] for step in result.document["steps"]] == kinds


@pytest.mark.parametrize(("old", "new"), [("bad.pg", "ports.pg"), ("ports.pg", "bad.pg")])
def test_a_schema_that_does_not_compile_is_named(folder: Path, old: str, new: str) -> None:
    (folder / "bad.pg").write_text("node Port { code: Strin @key }")
    result = ogsql("schema", "plan", "--from", old, new, cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert " --> bad.pg:1:19\n" in result.err


def test_a_rename_that_leads_nowhere_points_into_the_new_schema(folder: Path) -> None:
    (folder / "new.pg").write_text(SCHEMA.replace("depth: F64?", 'draught: F64? @rename_from("dept")'))
    result = ogsql("schema", "plan", "--from", "ports.pg", "new.pg", cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert "dept" in result.err
    assert " --> new.pg" in result.err


def test_the_schema_in_force_must_be_given(folder: Path) -> None:
    result = ogsql("schema", "plan", "ports.pg", cwd=folder)

    assert (result.status, result.out) == (2, "")
    assert "--from" in result.err
