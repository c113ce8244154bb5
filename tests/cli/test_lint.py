"""`ogsql lint`: what it prints, where, and how it ends."""

from pathlib import Path

import pytest

from tests.cli.ogsql import QUERIES, SCHEMA, ogsql

REPORT_KEYS = {
    "status", "schema_source", "query_path", "queries_processed", "errors", "warnings", "infos", "results", "findings",
    "diagnostics",
}  # fmt: skip


def test_queries_that_fit(folder: Path) -> None:
    result = ogsql("lint", "ports.pg", "ports.gq", cwd=folder)

    assert (result.status, result.out, result.err) == (0, "2 queries checked in ports.gq: 0 errors, 0 warnings\n", "")


def test_an_error_is_shown_with_its_place_and_a_proposal(folder: Path) -> None:
    result = ogsql("lint", "ports.pg", "misspelt.gq", cwd=folder)

    assert result.status == 1
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0].startswith("type error[T1]: ")
    assert lines[1] == " --> misspelt.gq:1:25"
    assert lines[3] == "1 | query q() { match { $p: Prot } return { $p } }"
    assert lines[4] == "  |                         ^^^^"
    assert lines[5] == "  = help: did you mean `Port`?"
    assert lines[-1] == "1 query checked in misspelt.gq: 1 error, 0 warnings"


def test_every_failing_query_of_a_file_is_shown(folder: Path) -> None:
    (folder / "two.gq").write_text(
        "query a() { match { $p: Prot } return { $p } }\n"
        "query b() { match { $p: Port } return { $p.code } }\n"
        "query c() { match { $p: Port } return { $p.cod } }\n"
    )
    result = ogsql("lint", "ports.pg", "two.gq", cwd=folder)

    assert [line for line in result.out.splitlines() if "-->" in line] == [" --> two.gq:1:25", " --> two.gq:3:44"]
    assert result.out.endswith("3 queries checked in two.gq: 2 errors, 0 warnings\n")


def test_warnings_are_shown_and_do_not_fail(folder: Path) -> None:
    (folder / "extra.pg").write_text(SCHEMA.replace("depth: F64?", "depth: F64?\n  note: String?"))
    (folder / "fixed.gq").write_text(QUERIES + '\nquery fixed() { insert Port { code: "A" } }\n')
    result = ogsql("lint", "extra.pg", "fixed.gq", cwd=folder)

    assert result.status == 0
    assert "warning: mutation `fixed` declares no params" in result.out
    assert "warning[L201]: `Port.note`" in result.out
    assert " --> fixed.gq: `dredge`\n" in result.out
    assert result.out.endswith("3 queries checked in fixed.gq: 0 errors, 2 warnings\n")


def test_every_file_is_checked(folder: Path) -> None:
    result = ogsql("lint", "ports.pg", "broken.gq", "misspelt.gq", "ports.gq", cwd=folder)

    assert result.status == 1
    assert [line for line in result.out.splitlines() if " checked in " in line] == [
        "0 queries checked in broken.gq: 1 error, 0 warnings",
        "1 query checked in misspelt.gq: 1 error, 0 warnings",
        "2 queries checked in ports.gq: 0 errors, 0 warnings",
    ]


def test_a_schema_that_does_not_compile(folder: Path) -> None:
    (folder / "bad.pg").write_text("node Port { code: Strin @key }")
    result = ogsql("lint", "bad.pg", "ports.gq", cwd=folder)

    assert (result.status, result.err) == (1, "")
    assert " --> bad.pg:1:19\n" in result.out
    assert result.out.endswith("bad.pg: 1 error, no query was checked\n")


def test_an_empty_file_is_fine(folder: Path) -> None:
    (folder / "empty.gq").touch()
    result = ogsql("lint", "ports.pg", "empty.gq", cwd=folder)

    assert (result.status, result.out) == (0, "0 queries checked in empty.gq: 0 errors, 0 warnings\n")


def test_json_of_one_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "q.gq").write_text("query q() { match { $p: Prot } return { $p } }")
    result = ogsql("lint", "--json", "./ports.pg", "sub/../sub/q.gq", cwd=folder)
    report = result.document

    assert (result.status, result.err) == (1, "")
    assert set(report) == REPORT_KEYS
    assert report["schema_source"] == {"kind": "file", "path": "./ports.pg"}
    assert report["query_path"] == "sub/../sub/q.gq"
    assert (report["status"], report["queries_processed"], report["errors"]) == ("error", 1, 1)
    (diagnostic,) = report["diagnostics"]
    assert diagnostic["path"] == "sub/../sub/q.gq"
    assert diagnostic["query"] == "q"
    assert (diagnostic["class"], diagnostic["code"], diagnostic["line"], diagnostic["column"]) == ("type", "T1", 1, 25)
    assert diagnostic["span"] == {"start": 24, "end": 28}
    assert diagnostic["help"] == "did you mean `Port`?"


def test_json_of_a_file_without_errors_has_the_same_members(folder: Path) -> None:
    result = ogsql("lint", "--json", "ports.pg", "ports.gq", cwd=folder)

    assert result.status == 0
    assert set(result.document) == REPORT_KEYS
    assert result.document["diagnostics"] == []


def test_json_of_a_file_that_does_not_parse_names_no_query(folder: Path) -> None:
    report = ogsql("lint", "--json", "ports.pg", "broken.gq", cwd=folder).document

    assert [finding["code"] for finding in report["findings"]] == ["Q000"]
    (diagnostic,) = report["diagnostics"]
    assert diagnostic["class"] == "parse"
    assert "query" not in diagnostic


def test_json_of_several_files(folder: Path) -> None:
    result = ogsql("lint", "--json", "ports.pg", "ports.gq", "misspelt.gq", cwd=folder)
    document = result.document

    assert result.status == 1
    assert set(document) == {"status", "queries_processed", "errors", "warnings", "infos", "reports"}
    assert (document["status"], document["queries_processed"], document["errors"]) == ("error", 3, 1)
    assert [report["query_path"] for report in document["reports"]] == ["ports.gq", "misspelt.gq"]
    assert all(set(report) == REPORT_KEYS for report in document["reports"])


def test_json_of_a_schema_that_does_not_compile(folder: Path) -> None:
    (folder / "bad.pg").write_text("node Port { code: Strin @key }")
    result = ogsql("lint", "--json", "bad.pg", "ports.gq", cwd=folder)

    assert (result.status, result.err) == (1, "")
    assert result.document["error"].startswith("parse error: line 1, column 19: ")
    assert [diagnostic["path"] for diagnostic in result.document["diagnostics"]] == ["bad.pg"]


@pytest.mark.parametrize(
    ("content", "place", "fragment"),
    [
        pytest.param(b"query q() {\x00 }", "1:12", "", id="NUL"),
        pytest.param(b"query q() {\n  \xff }", "2:3", "not valid UTF-8: byte 0xff at offset 14", id="invalid UTF-8"),
        pytest.param("query q() {}".encode("utf-16"), "1:1", "UTF-16", id="UTF-16"),
        pytest.param(b"\xef\xbb\xbfquery q() { match { $p: Prot } return { $p } }", "1:25", "Prot", id="BOM"),
        pytest.param(b"query q() {\r\n match { $p: Prot }\r\n return { $p } }\r\n", "2:14", "Prot", id="CRLF"),
        pytest.param("// ⚓ é\nquery q() { match { $p: Prot } return { $p } }".encode(), "2:25", "Prot", id="non-ASCII"),
    ],
)
def test_unusual_bytes_give_one_diagnostic_with_its_place(folder: Path, content: bytes, place: str, fragment: str) -> None:
    (folder / "odd.gq").write_bytes(content)
    result = ogsql("lint", "ports.pg", "odd.gq", "ports.gq", cwd=folder)

    assert (result.status, result.err) == (1, "")
    assert [line for line in result.out.splitlines() if "-->" in line] == [f" --> odd.gq:{place}"]
    assert fragment in result.out
    assert "odd.gq: 1 error" in result.out
    assert "2 queries checked in ports.gq: 0 errors" in result.out


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_a_mark_and_carriage_returns_are_no_errors(folder: Path, mark: bytes, newline: bytes) -> None:
    (folder / "s.pg").write_bytes(mark + SCHEMA.encode().replace(b"\n", newline))
    (folder / "q.gq").write_bytes(mark + QUERIES.encode().replace(b"\n", newline))
    result = ogsql("lint", "s.pg", "q.gq", cwd=folder)

    assert (result.status, result.err) == (0, "")


def test_a_long_line_is_cut_around_the_caret(folder: Path) -> None:
    (folder / "long.gq").write_text("query q() { match { $p: Port } return { " + "$p.code as c, " * 1000 + "# } }")
    result = ogsql("lint", "ports.pg", "long.gq", cwd=folder)

    source, caret = result.out.splitlines()[3:5]
    assert len(source) < 200
    assert source[caret.index("^")] == "#"
