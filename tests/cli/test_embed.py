"""`ogsql embed`: vectors into files of records, and everything else left as it is."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph_sql.embeddings import Client, resolve
from tests.cli.graphs import done
from tests.cli.ogsql import OGSQL, TIMEOUT, Finished, environment, ogsql

SCHEMA = """\
node Doc {
  slug: String @key
  title: String?
  body: String?
  pages: I32?
  draft: Bool?
  title_vector: Vector(3)? @embed(title)
  body_vector: Vector(2)? @embed(body)
}

node Note {
  text: String
  vector: Vector(2) @embed(text)
}

node Port {
  code: String @key
}

edge Cites: Doc -> Doc
"""
MOCK = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs.pg").write_text(SCHEMA)
    return tmp_path


def embed(folder: Path, data: str | bytes, *arguments: str, env: dict[str, str] | None = None) -> Finished:
    """Run the command on standard input with the mock."""
    stdin = data if isinstance(data, bytes) else data.encode()
    return ogsql("embed", "--schema", "docs.pg", *arguments, cwd=folder, stdin=stdin, env=MOCK if env is None else env)


def vector(text: str, dimension: int) -> list[float]:
    found: list[float] = Client(resolve("mock", environ={})).embed([text], dimension=dimension)[0].tolist()
    return found


def doc(**data: Any) -> str:
    return json.dumps({"type": "Doc", "data": data}) + "\n"


def data_of(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)["data"]
    return found


def as_stored(values: list[float]) -> list[float]:
    """Numbers as a vector column would hold them."""
    return [float(value) for value in np.array(values, np.float64).astype(np.float32)]


# What is computed


def test_missing_vectors_are_computed(folder: Path) -> None:
    lines = doc(slug="a", title="Tides", body="high and low") + doc(slug="b", title="Locks", title_vector=[1, 0, 0])

    result = done(embed(folder, lines))

    first, second = map(data_of, result.out.splitlines())
    assert as_stored(first["title_vector"]) == vector("Tides", 3)
    assert as_stored(first["body_vector"]) == vector("high and low", 2)
    assert second == {"slug": "b", "title": "Locks", "title_vector": [1, 0, 0]}
    assert result.err == (
        "computed 2 vectors of 2 chosen records (2 in all) with mock (mock); 1 vector without a text to compute from\n"
    )


def test_everything_can_be_computed_anew(folder: Path) -> None:
    lines = doc(title="Tides", title_vector=[1, 0, 0]) + doc(body_vector=[1, 0])

    result = done(embed(folder, lines, "--reembed-all"))

    first, second = result.out.splitlines()
    assert as_stored(data_of(first)["title_vector"]) == vector("Tides", 3)
    assert second + "\n" == doc(body_vector=[1, 0])


def test_vectors_can_be_removed_without_a_provider(folder: Path) -> None:
    lines = doc(slug="a", title_vector=[1, 0, 0], body="x", body_vector=[1, 0]) + doc(slug="b", title_vector=None)

    result = done(embed(folder, lines, "--clean", env={}))

    assert result.out == doc(slug="a", body="x") + doc(slug="b", title_vector=None)
    assert result.err == "removed 2 vectors of 2 chosen records (2 in all)\n"


def test_nothing_to_do_needs_no_provider(folder: Path) -> None:
    lines = doc(slug="a") + '{"edge": "Cites", "from": "a", "to": "a"}\n'

    assert done(embed(folder, lines, env={})).out == lines


# What stays


def test_other_lines_stay_byte_for_byte(folder: Path) -> None:
    lines = (
        b"\xef\xbb\xbf// made by hand\r\n"
        b"\n"
        b" \t \n"
        b'{"type": "Port", "data": {"code":"X",   "n": 1.00}}\n'
        b'{"edge": "Cites", "from": "a", "to": "b"}\r\n'
        b'{"type": "Unknown", "data": 7}\n'
        b'{"type": ["Doc"]}\n'
        b"[1, 2]\n"
        b'{"some": "thing"}\n'
        b'{"type": "Doc", "data": {"slug": "\\u0061"}}'
    )

    result = subprocess.run(
        [OGSQL, "embed", "--schema", "docs.pg"],
        input=lines,
        cwd=folder,
        env=environment(**MOCK),
        capture_output=True,
        check=True,
        timeout=TIMEOUT,
    )

    assert result.stdout == lines


# What is chosen


LINES = doc(slug="a", title="one") + doc(slug="b", title="two") + '{"type": "Note", "data": {"text": "three"}}\n'


def test_records_can_be_chosen(folder: Path) -> None:
    result = done(embed(folder, LINES, "--select", "Doc:slug=b", "--type", "Note"))

    before, after = LINES.splitlines(), result.out.splitlines()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, False]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--type", "Dok"], 1, "error: there is no type `Dok`\nhint: did you mean `Doc`?\n"),
        (["--select", "slug=a"], 2, "error: --select slug=a is not of the form TYPE:PROPERTY=VALUE\n"),
        (["--clean", "--reembed-all"], 2, "error: --reembed-all and --clean exclude each other\n"),
        (["--store", "x"], 2, "error: name the schema with either --schema FILE or --store URI\n"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(folder: Path, arguments: list[str], status: int, message: str) -> None:
    result = embed(folder, LINES, *arguments)

    assert (result.status, result.out) == (status, "")
    assert message in result.err


def test_a_schema_is_needed(folder: Path) -> None:
    result = ogsql("embed", cwd=folder)

    assert result.status == 2
    assert "Missing option '--schema' or '--store'" in result.err


def test_the_schema_of_a_graph(folder: Path) -> None:
    done(ogsql("init", "graph", "--schema", "docs.pg", "--quiet", cwd=folder))
    (folder / "in.jsonl").write_text(doc(slug="a", title="Tides"))

    done(ogsql("embed", "in.jsonl", "--store", "graph", "--output", "out.jsonl", cwd=folder, env=MOCK))
    done(ogsql("load", "graph", "--data", "out.jsonl", "--mode", "append", "--quiet", cwd=folder))
    exported = done(ogsql("export", "graph", cwd=folder)).out

    # What was written is what is stored, to the last bit.
    assert data_of(exported)["title_vector"] == vector("Tides", 3)


# Files


def test_files_in_and_out(folder: Path) -> None:
    (folder / "in.jsonl").write_text(doc(slug="a", title="Tides"))

    result = done(ogsql("embed", "in.jsonl", "--schema", "docs.pg", "--output", "out.jsonl", "--json", cwd=folder, env=MOCK))

    assert result.document == {
        "mode": "fill_missing",
        "records": 1,
        "chosen": 1,
        "embedded": 1,
        "removed": 0,
        "without_text": 1,
        "provider": "mock",
        "model": "mock",
        "output": "out.jsonl",
    }
    assert as_stored(data_of((folder / "out.jsonl").read_text())["title_vector"]) == vector("Tides", 3)


def test_a_file_can_be_replaced_by_itself(folder: Path) -> None:
    path = folder / "docs.jsonl"
    path.write_text(doc(slug="a", title="Tides"))
    path.chmod(0o640)

    done(ogsql("embed", "docs.jsonl", "--schema", "docs.pg", "--out", "docs.jsonl", cwd=folder, env=MOCK))

    assert "title_vector" in data_of(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in folder.iterdir()) == ["docs.jsonl", "docs.pg"]


def test_packed_files(folder: Path) -> None:
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(doc(slug="a", title="Tides").encode()))

    done(ogsql("embed", "in.jsonl.gz", "--schema", "docs.pg", "--output", "out.jsonl.gz", cwd=folder, env=MOCK))

    assert "title_vector" in data_of(gzip.decompress((folder / "out.jsonl.gz").read_bytes()).decode())


def test_a_truncated_packed_file(folder: Path) -> None:
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(doc(slug="a", title="Tides" * 1000).encode())[:-20])

    result = ogsql("embed", "in.jsonl.gz", "--schema", "docs.pg", cwd=folder, env=MOCK)

    assert (result.status, result.err) == (
        1,
        "error: `in.jsonl.gz` is truncated: its gzip stream has no end\nhint: copy it again\n",
    )


def test_a_missing_file(folder: Path) -> None:
    result = ogsql("embed", "doks.pg", "--schema", "docs.pg", cwd=folder)

    assert (result.status, result.err) == (1, "error: the file `doks.pg` does not exist\nhint: did you mean `docs.pg`?\n")


def test_a_failure_leaves_the_output_as_it_was(folder: Path) -> None:
    (folder / "out.jsonl").write_text("before\n")

    result = embed(folder, doc(title="Tides") + "{broken\n", "--output", "out.jsonl")

    assert result.status == 1
    assert (folder / "out.jsonl").read_text() == "before\n"
    assert sorted(each.name for each in folder.iterdir()) == ["docs.pg", "out.jsonl"]


# Faults


def test_a_faulty_line_is_named(folder: Path) -> None:
    result = embed(folder, '// first\n\n{"type": "Doc", "data": {"title": 7}}\n')

    assert (result.status, result.err) == (1, "error: line 3: `Doc.title` expects a string, found 7\n")


def test_errors_as_json(folder: Path) -> None:
    result = embed(folder, "{broken\n", "--json")

    assert result.status == 1
    assert result.document["error"].startswith("line 1: invalid JSON")


def test_a_provider_without_a_key(folder: Path) -> None:
    result = embed(folder, doc(title="Tides"), env={"OMNIGRAPH_EMBED_PROVIDER": "gemini", "GEMINI_API_KEY": ""})

    assert (result.status, result.out) == (2, "")
    assert result.err == "error: the embedding provider gemini needs a key\nhint: set GEMINI_API_KEY\n"


def test_a_provider_that_cannot_be_reached_names_the_lines(folder: Path) -> None:
    settings = {
        "OMNIGRAPH_EMBED_PROVIDER": "openai",
        "OPENAI_API_KEY": "sk-hidden-hidden",
        "OMNIGRAPH_EMBED_BASE_URL": "http://127.0.0.1:9/v1",
        "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "1",
        "NO_PROXY": "*",
    }

    result = embed(folder, doc(slug="a") + doc(title="one") + doc(title="two"), env=settings)

    assert result.status == 1
    assert result.err.startswith("error: lines 2 to 3: the embedding provider openai cannot be reached: ")
    assert "hidden" not in result.err


def test_the_recorded_model_is_respected(folder: Path) -> None:
    (folder / "docs.pg").write_text(SCHEMA.replace("@embed(title)", '@embed(title, model="tiny")'))

    refused = embed(folder, doc(title="Tides"))
    accepted = embed(folder, doc(title="Tides"), env={**MOCK, "OMNIGRAPH_EMBED_MODEL": "tiny"})

    assert refused.status == 2
    assert refused.err == (
        "error: `Doc.title_vector` is recorded with the embedding model `tiny`, but the provider mock uses `mock`\n"
        "hint: set OMNIGRAPH_EMBED_MODEL to the recorded model\n"
    )
    assert accepted.status == 0


def test_warnings_are_shown_beside_the_records(folder: Path) -> None:
    result = done(embed(folder, doc(title="Tides"), env={**MOCK, "OMNIGRAPH_EMBED_PROVIDER": "openai"}))

    warning = "warning: OMNIGRAPH_EMBEDDINGS_MOCK is set: the mock computes vectors, not the configured provider openai\n"
    assert result.err.startswith(warning)
    assert result.out.count("\n") == 1
