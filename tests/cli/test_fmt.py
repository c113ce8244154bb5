"""`ogsql fmt`: what it writes, what it leaves alone, and how it ends."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.ogsql import BROKEN, OGSQL, QUERIES, SCHEMA, TIMEOUT, environment, ogsql

UNTIDY = {
    "ports.pg": "node Port{code:String @key\n      depth:F64?}\n\n\nedge Lane:Port->Port",
    "ports.gq": QUERIES.replace("  ", "").replace("\n\n", "\n"),
}
TIDY = {"ports.pg": SCHEMA, "ports.gq": QUERIES}
OLD = 1_000_000_000_000_000_000  # a time long ago, in nanoseconds


def write_untidy(folder: Path) -> None:
    for name, text in UNTIDY.items():
        (folder / name).write_text(text)
        os.utime(folder / name, ns=(OLD, OLD))


def is_untouched(path: Path) -> bool:
    return path.stat().st_mtime_ns == OLD


def test_files_are_formatted_in_place(folder: Path) -> None:
    write_untidy(folder)
    result = ogsql("fmt", "ports.pg", "ports.gq", cwd=folder)

    assert (result.status, result.out) == (0, "ports.pg\nports.gq\n")
    assert result.err == "2 files formatted\n"
    assert {name: (folder / name).read_text() for name in TIDY} == TIDY


def test_a_tidy_file_is_not_written(folder: Path) -> None:
    os.utime(folder / "ports.pg", ns=(OLD, OLD))
    before = (folder / "ports.pg").stat()
    result = ogsql("fmt", "ports.pg", cwd=folder)

    assert (result.status, result.out, result.err) == (0, "", "1 file unchanged\n")
    assert is_untouched(folder / "ports.pg")
    assert (folder / "ports.pg").stat().st_ino == before.st_ino


def test_check_lists_and_writes_nothing(folder: Path) -> None:
    write_untidy(folder)
    (folder / "tidy.pg").write_text(SCHEMA)
    result = ogsql("fmt", "--check", "ports.pg", "tidy.pg", "ports.gq", cwd=folder)

    assert (result.status, result.out) == (1, "ports.pg\nports.gq\n")
    assert result.err == "2 files would change, 1 file unchanged\n"
    assert all(is_untouched(folder / name) for name in UNTIDY)
    assert {name: (folder / name).read_text() for name in UNTIDY} == UNTIDY


def test_check_of_tidy_files_succeeds(folder: Path) -> None:
    result = ogsql("fmt", "--check", "ports.pg", "ports.gq", cwd=folder)

    assert (result.status, result.out) == (0, "")


@pytest.mark.parametrize("options", [[], ["--check"]], ids=["write", "check"])
def test_a_broken_file_stops_no_other(folder: Path, options: list[str]) -> None:
    write_untidy(folder)
    result = ogsql("fmt", *options, "broken.gq", "missing.gq", "ports.pg", cwd=folder)

    assert (result.status, result.out) == (1, "ports.pg\n")
    assert " --> broken.gq:" in result.err
    assert "the file `missing.gq` does not exist" in result.err
    assert (folder / "broken.gq").read_text() == BROKEN
    assert is_untouched(folder / "ports.pg") == bool(options)


def test_a_file_that_is_no_text_is_left_alone(folder: Path) -> None:
    (folder / "odd.pg").write_bytes(b"node Port {\xff}")
    result = ogsql("fmt", "odd.pg", cwd=folder)

    assert result.status == 1
    assert "byte 0xff at offset 11" in result.err
    assert (folder / "odd.pg").read_bytes() == b"node Port {\xff}"


def test_mode_and_symbolic_link_survive(folder: Path) -> None:
    write_untidy(folder)
    (folder / "ports.pg").chmod(0o640)
    (folder / "inner").mkdir()
    (folder / "inner" / "link.pg").symlink_to("../ports.pg")
    result = ogsql("fmt", "inner/link.pg", cwd=folder)

    assert result.status == 0
    assert (folder / "inner" / "link.pg").is_symlink()
    assert (folder / "ports.pg").read_text() == SCHEMA
    assert (folder / "ports.pg").stat().st_mode & 0o7777 == 0o640
    assert [path.name for path in (folder / "inner").iterdir()] == ["link.pg"]


def test_the_content_is_replaced_at_once_and_not_overwritten(folder: Path) -> None:
    write_untidy(folder)
    os.link(folder / "ports.pg", folder / "witness")
    names = {path.name for path in folder.iterdir()}
    ogsql("fmt", "ports.pg", cwd=folder)

    # A second name of the old file would show a write into it.
    assert (folder / "witness").read_text() == UNTIDY["ports.pg"]
    assert (folder / "ports.pg").read_text() == SCHEMA
    assert {path.name for path in folder.iterdir()} == names


def test_a_write_that_fails_leaves_the_file_and_no_rubbish(folder: Path) -> None:
    write_untidy(folder)
    names = {path.name for path in folder.iterdir()}
    result = subprocess.run(
        ["bash", "-c", f"ulimit -f 0; exec '{OGSQL}' fmt ports.pg ports.gq"],
        cwd=folder,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )

    assert result.returncode == 1
    assert "error: the file `ports.pg` cannot be written: File too large" in result.stderr
    assert "Traceback" not in result.stderr
    assert {name: (folder / name).read_text() for name in UNTIDY} == UNTIDY
    assert {path.name for path in folder.iterdir()} == names


def test_a_read_only_file_is_not_replaced(folder: Path) -> None:
    write_untidy(folder)
    (folder / "ports.pg").chmod(0o444)
    if os.access(folder / "ports.pg", os.W_OK):
        pytest.skip("nothing is read-only for this user")
    result = ogsql("fmt", "ports.pg", cwd=folder)

    assert result.status == 1
    assert "read-only" in result.err
    assert (folder / "ports.pg").read_text() == UNTIDY["ports.pg"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_carriage_returns_become_newlines(folder: Path, mark: bytes) -> None:
    (folder / "dos.pg").write_bytes(mark + SCHEMA.encode().replace(b"\n", b"\r\n"))
    result = ogsql("fmt", "dos.pg", cwd=folder)

    assert result.status == 0
    assert (folder / "dos.pg").read_bytes().removeprefix(mark) == SCHEMA.encode()
    assert ogsql("fmt", "--check", "dos.pg", cwd=folder).status == 0


@pytest.mark.parametrize(("language", "name"), [("pg", "ports.pg"), ("gq", "ports.gq")])
def test_standard_input_goes_to_standard_output(language: str, name: str) -> None:
    result = ogsql("fmt", "--language", language, "-", stdin=UNTIDY[name].encode())

    assert (result.status, result.out, result.err) == (0, TIDY[name], "")


@pytest.mark.parametrize(("text", "status", "out"), [(UNTIDY["ports.pg"], 1, "-\n"), (SCHEMA, 0, "")])
def test_standard_input_can_be_checked(text: str, status: int, out: str) -> None:
    result = ogsql("fmt", "--check", "--language", "pg", "-", stdin=text.encode())

    assert (result.status, result.out) == (status, out)


def test_broken_standard_input_prints_no_text() -> None:
    result = ogsql("fmt", "--language", "gq", "-", stdin=BROKEN.encode())

    assert (result.status, result.out) == (1, "")
    assert " --> <stdin>:" in result.err


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["notes.txt"], "`notes.txt` is neither a schema (.pg) nor a query file (.gq)"),
        (["ports.pg", "README"], "`README` is neither"),
        (["-"], "--language"),
        (["-", "ports.pg", "--language", "pg"], "cannot be combined"),
        (["ports.pg", "--language", "pg"], "suffix"),
        (["-", "--language", "sql"], "sql"),
        ([], "FILES"),
    ],
)
def test_usage_errors_touch_nothing(folder: Path, arguments: list[str], fragment: str) -> None:
    write_untidy(folder)
    result = ogsql("fmt", *arguments, cwd=folder)

    assert (result.status, result.out) == (2, "")
    assert fragment in result.err
    assert is_untouched(folder / "ports.pg")


@pytest.mark.parametrize("name", ["inner", "inner.pg"])
def test_a_directory_is_bad_input(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    result = ogsql("fmt", name, cwd=folder)

    assert result.status == 1
    assert f"`{name}` is a directory" in result.err


def test_json_says_what_became_of_each_file(folder: Path) -> None:
    write_untidy(folder)
    (folder / "tidy.pg").write_text(SCHEMA)
    result = ogsql("fmt", "--json", "ports.pg", "tidy.pg", "broken.gq", "missing.gq", cwd=folder)
    changed, unchanged, broken, missing = result.document["files"]

    assert (result.status, result.err) == (1, "")
    assert changed == {"path": "ports.pg", "status": "changed"}
    assert unchanged == {"path": "tidy.pg", "status": "unchanged"}
    assert (broken["path"], broken["status"]) == ("broken.gq", "error")
    assert broken["diagnostic"]["path"] == "broken.gq"
    assert broken["diagnostic"]["class"] == "parse"
    assert missing == {"path": "missing.gq", "status": "error", "error": "the file `missing.gq` does not exist"}
    assert (folder / "ports.pg").read_text() == SCHEMA


def test_json_of_standard_input_carries_the_text() -> None:
    result = ogsql("fmt", "--json", "--language", "pg", "-", stdin=UNTIDY["ports.pg"].encode())

    assert result.document == {"files": [{"path": "-", "status": "changed", "text": SCHEMA}]}
