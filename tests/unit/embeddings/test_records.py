"""Records of a file: which are chosen, what becomes of them, and what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from omnigraph_compiler import compile_schema
from omnigraph_sql.embeddings import Client, Embedder, resolve
from omnigraph_sql.embeddings.records import LINE_BYTES, EmbeddingCounts, Mode, RecordRewriter, read_lines
from omnigraph_sql.embeddings.selection import Select, choose
from omnigraph_sql.errors import BadRequest, NotFound, OmnigraphError, ResourceLimit, ValidationFailed

CATALOG = compile_schema(
    """
    node Doc {
      slug: String @key
      title: String?
      body: String?
      pages: I32?
      draft: Bool?
      title_vector: Vector(3)? @embed(title)
      body_vector: Vector(2)? @embed(body)
    }
    node Note { text: String  vector: Vector(2) @embed(text) }
    node Port { code: String @key }
    edge Cites: Doc -> Doc
    """
)
CLIENT = Client(resolve("mock", environ={}))


def nobody() -> Embedder:
    raise AssertionError("there was nothing to compute")


def rewriter(
    mode: Mode = "fill_missing", types: tuple[str, ...] = (), selects: tuple[Select, ...] = (), *, silent: bool = False
) -> RecordRewriter:
    return RecordRewriter(choose(CATALOG, types, selects), mode, nobody if silent else lambda: CLIENT)


def rewritten(text: str | bytes, mode: Mode = "fill_missing", **options: Any) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return b"".join(rewriter(mode, **options).rewrite(data.splitlines(keepends=True))).decode()


def doc(**data: Any) -> str:
    return json.dumps({"type": "Doc", "data": data}) + "\n"


def stored(line: str, name: str) -> list[float]:
    """A vector of a record as a column would hold it."""
    vector: list[float] = np.array(json.loads(line)["data"][name], np.float64).astype(np.float32).tolist()
    return vector


def computed(text: str, dimension: int) -> list[float]:
    vector: list[float] = CLIENT.embed([text], dimension=dimension)[0].tolist()
    return vector


def test_null_counts_as_missing_and_no_text_leaves_no_vector() -> None:
    lines = doc(title="Tides", title_vector=None, body="") + doc(title=None) + '{"type": "Doc"}\n'

    first, *others = rewritten(lines).splitlines()

    assert stored(first, "title_vector") == computed("Tides", 3)
    assert "body_vector" not in first
    assert others == [doc(title=None).strip(), '{"type": "Doc"}']


def test_filling_what_was_cleaned_gives_the_same_again() -> None:
    first = rewritten(doc(slug="a", title="Tides", body="x") + '{"type":"Note","data":{"text":"y"}}')
    cleaned = rewritten(first, "clean", silent=True)

    assert "vector" not in cleaned
    assert rewritten(cleaned) == first
    assert rewritten(first, "reembed_all") == first
    assert rewritten(first, silent=True) == first


def test_a_changed_line_keeps_its_writing() -> None:
    line = '\ufeff{ "data":{"slug":"\\u0061","pages":1.0e1,"title":"Häfen"} , "type":"Doc"}\r\n{"type": "Port", "data": {}}'

    out = rewritten(line)

    numbers = json.dumps(
        json.loads(out.removeprefix("\ufeff").splitlines()[0])["data"]["title_vector"], separators=(",", ":")
    )
    assert out == line.replace('"Häfen"}', f'"Häfen","title_vector":{numbers}}}')


def test_numbers_are_written_so_that_they_come_back() -> None:
    texts = [f"text {number}" for number in range(300)]
    out = rewritten("".join(doc(title=text) for text in texts))

    assert [stored(line, "title_vector") for line in out.splitlines()] == CLIENT.embed(texts, dimension=3).tolist()


def test_what_was_done_is_counted() -> None:
    work = rewriter()
    lines = ["// note\n", doc(title="a"), doc(title="a", body="b"), doc(title_vector=[1, 0, 0]), '{"edge": "Cites"}\n']

    list(work.rewrite(line.encode() for line in lines))

    assert work.tally == EmbeddingCounts(records=4, chosen=3, embedded=3, removed=0, without_text=2)


def test_many_records_keep_their_order() -> None:
    lines = [doc(slug=f"d{at}", title=f"title {at % 700}").encode() for at in range(2000)]

    out = [json.loads(line)["data"] for line in rewriter().rewrite(lines)]

    assert [row["slug"] for row in out] == [f"d{at}" for at in range(2000)]
    assert out[1999]["title_vector"] == out[1999 - 1400]["title_vector"]


def pulled_before_the_first(lines: Iterator[bytes]) -> int:
    """How many lines are read before one comes out."""
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            count += 1
            yield line

    next(rewriter().rewrite(counted()))
    return count


def test_lines_are_not_held_back_for_long() -> None:
    assert pulled_before_the_first(doc(title=f"title {at}").encode() for at in range(10**9)) <= 256
    assert pulled_before_the_first(doc(title="same", slug="x" * 100_000).encode() for _ in range(10**9)) <= 100
    assert pulled_before_the_first(b"// note\n" for _ in range(10**9)) == 1


LINES = (
    doc(slug="a", title="one", pages=10, draft=True)
    + doc(slug="b", title="two", pages=20, draft=False)
    + doc(slug="c", title="three", pages=10**30)
    + '{"type": "Note", "data": {"text": "four"}}\n'
)


@pytest.mark.parametrize(
    ("types", "selects", "chosen"),
    [
        ([], [], [0, 1, 2, 3]),
        (["Doc"], [], [0, 1, 2]),
        (["Note"], [], [3]),
        (["Doc", "Note"], [], [0, 1, 2, 3]),
        ([], ["Doc slug b"], [1]),
        ([], ["Doc slug b", "Doc slug c"], [1, 2]),
        (["Doc"], ["Doc slug b"], [1]),
        (["Note"], ["Doc slug b"], [1, 3]),
        ([], ["Doc pages 10"], [0]),
        ([], ["Doc pages 1e1"], [0]),
        ([], ["Doc pages 10.0"], [0]),
        ([], ["Doc pages 1" + "0" * 30], [2]),
        ([], ["Doc pages ten"], []),
        ([], ["Doc pages "], []),
        ([], ["Doc draft true"], [0]),
        ([], ["Doc draft false"], [1]),
        ([], ["Doc draft 1"], []),
        ([], ["Doc body "], []),
        ([], ["Doc id a"], []),
    ],
)
def test_records_can_be_chosen(types: list[str], selects: list[str], chosen: list[int]) -> None:
    wanted = tuple(Select(*text.split(" ", 2)) for text in selects)

    after = rewritten(LINES, types=tuple(types), selects=wanted).splitlines()

    assert [at for at, before in enumerate(LINES.splitlines()) if before != after[at]] == chosen


@pytest.mark.parametrize(
    ("types", "selects", "kind", "message", "hint"),
    [
        (["Dok"], [], NotFound, "there is no type `Dok`", "did you mean `Doc`?"),
        ([], [Select("Dok", "slug", "a")], NotFound, "there is no type `Dok`", "did you mean `Doc`?"),
        (["Port"], [], BadRequest, "`Port` has no vector that is computed from a text", None),
        (["Cites"], [], BadRequest, "`Cites` has no vector that is computed from a text", None),
        ([], [Select("Doc", "slugg", "a")], BadRequest, "`Doc` has no property `slugg`", "did you mean `slug`?"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(
    types: list[str], selects: list[Select], kind: type[OmnigraphError], message: str, hint: str | None
) -> None:
    with pytest.raises(kind) as caught:
        choose(CATALOG, types, selects)

    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("{broken", BadRequest, "invalid JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'{"type": "\xff"}', BadRequest, "invalid JSON: byte 11 of the line is not UTF-8 (0xff)"),
        ('{"type": "Doc", "type": "Doc"}', BadRequest, "duplicate JSON member `type`"),
        ('{"type": "Doc", "data": {"title": "a", "title": "b"}}', BadRequest, "duplicate JSON member `title`"),
        ('{"type": "Doc", "data": {"pages": NaN}}', BadRequest, "invalid JSON: NaN is not a JSON value"),
        ('{"type": "Doc", "data": []}', BadRequest, "`data` must be an object"),
        ('{"type": "Doc", "data": {"title": 7}}', ValidationFailed, "`Doc.title` expects a string, found 7"),
        (
            '{"type": "Doc", "data": {"title": "\\ud800"}}',
            BadRequest,
            "invalid JSON: a string holds half of a surrogate pair",
        ),
        ("[" * 100_000, BadRequest, "invalid JSON: nested too deeply"),
        ("\ufeff{}", BadRequest, "invalid JSON: Expecting value at column 1"),
        ('{"type": "Doc"} {}', BadRequest, "invalid JSON: Extra data at column 17"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_faulty_line_is_named(line: str | bytes, kind: type[OmnigraphError], message: str) -> None:
    data = line if isinstance(line, bytes) else line.encode()

    with pytest.raises(kind) as caught:
        rewritten(b"// first\n\n" + data + b"\n")

    assert caught.value.message.startswith(f"line 3: {message}")


def test_odd_records_pass() -> None:
    lines = '[1, 2]\n{"type": ["Doc"]}\n{"type": "Unknown", "data": 7}\n{"n": ' + "9" * 5000 + '}\n{"x": "\\ud800"}\n7\n'

    assert rewritten(lines, silent=True) == lines


def test_a_line_has_a_greatest_length() -> None:
    longest = b" " * LINE_BYTES + b"\r\n"

    assert list(read_lines(io.BytesIO(longest), "it")) == [longest]
    with pytest.raises(ResourceLimit, match="line 2: the line holds") as caught:
        list(read_lines(io.BytesIO(b"\n " + longest), "it"))
    assert (caught.value.limit, caught.value.resource) == (LINE_BYTES, "embed_line_bytes")
