"""Text predicates and scores equal those of reading every live row, whatever the segments.

The analyser is the store's own; what is expected is computed text by text, in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_sql.storage.analysis import ANALYSER
from omnigraph_udfs.analysis import Analyser, cut, tokens
from omnigraph_udfs.segments import Segment, build_segment, merge_segments
from omnigraph_udfs.text import Part, TextIndex, close

# fmt: off
WORDS = [
    "run", "running", "runs", "mostly", "because", "the", "The", "can't", "port", "ports", "PORT", "thé",
    "naïve", "Ångström", "ﬁne", "Straße", "İstanbul", "日本語", "5", "10.5", "e-mail", "x_y", "zq0qz", "zq0qz5",
    "²", "Ⅷ", "🚢", "a\u0301b", "abc", "abd", "abcd", "cab", "seaport",
    "a" * 39, "a" * 40, "é" * 20,
]
# fmt: on
BLANKS = st.sampled_from([" ", "  ", "\n", "\u3000", "\u00a0", "\u200b", "\x00", ", "])
TEXTS = st.none() | st.lists(st.tuples(st.sampled_from(WORDS) | st.text(max_size=8), BLANKS), max_size=8).map(
    lambda pairs: "".join(word + blank for word, blank in pairs)
)
COLUMNS = st.lists(TEXTS, max_size=12)


@dataclass(frozen=True)
class Corpus:
    """A table's live texts by position, and an index over segments that also hold deleted rows."""

    texts: list[str | None]
    index: TextIndex


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    rows = draw(COLUMNS)
    live = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    places = iter(draw(st.permutations(range(sum(live)))))
    positions = [next(places) if alive else -1 for alive in live]
    texts: list[str | None] = [None] * sum(live)
    for text, position in zip(rows, positions, strict=True):
        if position >= 0:
            texts[position] = text
    cuts = sorted({0, len(rows), *draw(st.lists(st.integers(0, len(rows)), max_size=3))})
    parts = [
        Part(build_segment(pa.array(rows[low:high], pa.string()), ANALYSER), positions[low:high])
        for low, high in pairwise(cuts)
    ]
    return Corpus(texts, TextIndex(parts, size=len(texts)))


def scores(texts: list[str | None], query: Sequence[str]) -> list[float]:
    documents = [list(ANALYSER.terms(text)) if text is not None else [] for text in texts]
    held = [terms for terms in documents if terms]
    average = sum(map(len, held)) / len(held) if held else 0.0
    found = []
    for terms in documents:
        score = 0.0
        for token in query:
            frequency, count = sum(token in other for other in held), terms.count(token)
            if count:
                idf = math.log(1 + (len(held) - frequency + 0.5) / (frequency + 0.5))
                score += idf * count * (1.2 + 1.0) / (count + 1.2 * (1.0 - 0.75 + 0.75 * len(terms) / average))
        found.append(score)
    return found


def edits(first: str, second: str) -> int:
    """Levenshtein distance in code points, the whole table."""
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, 1):
        row, before = [i], row
        for j, other in enumerate(second, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (one != other)))
    return row[-1]


def equal(first: Segment, second: Segment) -> None:
    assert first.lengths.tolist() == second.lengths.tolist()
    for one, other in ((first.terms, second.terms), (first.words, second.words)):
        assert one.vocabulary.to_arrow().to_pylist() == other.vocabulary.to_arrow().to_pylist()
        assert one.offsets.tolist() == other.offsets.tolist()
        assert one.docs.tolist() == other.docs.tolist()
        assert (one.counts is None) == (other.counts is None)
        if one.counts is not None and other.counts is not None:
            assert one.counts.tolist() == other.counts.tolist()


@given(COLUMNS)
def test_a_column_has_the_tokens_of_each_of_its_texts(texts: list[str | None]) -> None:
    for tokenize in (ANALYSER.terms, ANALYSER.words):
        found = tokens(cut(pa.array(texts, pa.string())), tokenize)

        vocabulary = found.vocabulary.to_pylist()
        flat = [vocabulary[code] for code in found.codes.tolist()]
        bounds = zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)
        assert [flat[low:high] for low, high in bounds] == [list(tokenize(text or "")) for text in texts]
        assert vocabulary == sorted(set(flat), key=str.encode)


def test_the_marks_between_pieces_never_show() -> None:
    """Texts that hold every mark, and an analyser that leaves no mark as it is."""
    marks = [f"zq{number}qz" for number in range(100)]
    vowels = Analyser(terms=lambda text: [word[:1] for word in text.split()], words=str.split)

    segment = build_segment(pa.array([" ".join(marks), "zebra"]), vowels)

    assert segment.lengths.tolist() == [100, 1]
    assert segment.terms.vocabulary.to_arrow().to_pylist() == ["z"]
    assert segment.words.vocabulary.to_arrow().to_pylist() == sorted([*marks, "zebra"])


@given(COLUMNS, st.data())
def test_merged_segments_equal_one_built_from_the_live_rows(rows: list[str | None], data: st.DataObject) -> None:
    live = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=3))})
    bounds = list(pairwise(cuts)) or [(0, 0)]
    segments = [build_segment(pa.array(rows[low:high], pa.string()), ANALYSER) for low, high in bounds]

    everything = merge_segments(segments)
    rest = merge_segments(segments, [live[low:high] for low, high in bounds])

    equal(everything, build_segment(pa.array(rows, pa.string()), ANALYSER))
    left = [text for text, alive in zip(rows, live, strict=True) if alive]
    equal(rest, build_segment(pa.array(left, pa.string()), ANALYSER))


def test_a_long_column_is_built_in_slices_as_if_in_one() -> None:
    texts = [f"port {number % 7} of {number % 1000}" if number % 11 else None for number in range(60_000)]

    whole = build_segment(pa.chunked_array([texts[:100], texts[100:]]), ANALYSER)

    first, second = (build_segment(pa.array(part), ANALYSER) for part in (texts[:33_000], texts[33_000:]))
    equal(merge_segments([first, second]), whole)
    index = TextIndex([Part(whole, np.arange(60_000))], size=60_000)
    assert index.search(["999"]).sum() == sum(number % 1000 == 999 for number in range(60_000) if number % 11)


@given(corpora(), st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=4).map(" ".join))
def test_search_finds_texts_that_share_a_token(corpus: Corpus, query: str) -> None:
    terms = ANALYSER.terms(query)

    expected = [text is not None and bool({*terms} & {*ANALYSER.terms(text)}) for text in corpus.texts]
    assert corpus.index.search(terms).tolist() == expected


@given(corpora(), st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=3).map(" ".join), st.integers(0, 9))
def test_fuzzy_search_finds_texts_with_a_word_near_enough(corpus: Corpus, query: str, most: int) -> None:
    words = ANALYSER.words(query)

    assert corpus.index.fuzzy(words, most).tolist() == [
        any(edits(one, other) <= most for one in words for other in ANALYSER.words(text or "")) for text in corpus.texts
    ]


@given(corpora(), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join))
def test_scores_are_those_of_the_live_rows(corpus: Corpus, query: str) -> None:
    terms = ANALYSER.terms(query)

    found = corpus.index.bm25(terms)

    expected = scores(corpus.texts, terms)
    assert found.values.tolist() == expected
    assert sorted(found.hits.tolist()) == [position for position, score in enumerate(expected) if score > 0]


@given(corpora(), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), st.data())
def test_scores_of_candidates_are_the_same(corpus: Corpus, query: str, data: st.DataObject) -> None:
    terms = ANALYSER.terms(query)
    asked = data.draw(st.lists(st.integers(-1, len(corpus.texts) - 1), max_size=12))

    found = corpus.index.bm25_at(terms, asked)

    expected = scores(corpus.texts, terms)
    assert found.tolist() == [expected[position] if position >= 0 else 0.0 for position in asked]


def test_few_candidates_of_many_rows_are_looked_up_in_the_lists() -> None:
    texts = ["port " * (number % 3 + 1) + ("sea" if number % 5 == 0 else "river") for number in range(3000)]
    halves = [build_segment(pa.array(texts[:1500]), ANALYSER), build_segment(pa.array(texts[1500:]), ANALYSER)]
    places = np.arange(3000)
    places[::7] = -1
    index = TextIndex([Part(halves[0], places[:1500]), Part(halves[1], places[1500:])], size=3000)
    terms = ANALYSER.terms("sea port sea")
    asked = [5, -1, 2999, 7, 1500, 5]

    assert index.bm25_at(terms, asked).tolist() == [
        0.0 if position < 0 else index.bm25(terms).values[position] for position in asked
    ]
    assert index.bm25_at(terms, asked)[3] == 0.0  # deleted


@given(st.lists(st.text(max_size=8), unique=True, max_size=20), st.text(max_size=8), st.integers(0, 10))
def test_edits_are_counted_in_code_points(vocabulary: list[str], word: str, most: int) -> None:
    from omnigraph_udfs.strings import Strings

    found = close(Strings.of(pa.array(vocabulary, pa.string())), [word], most)

    assert found.tolist() == [edits(other, word) <= most for other in vocabulary]


def test_the_order_of_analysis() -> None:
    assert ANALYSER.terms("mostly because thé") == ["becaus", "the"]
    assert ANALYSER.words("Mostly because thé") == ["mostly", "because", "the"]
    assert [len(token) for token in ANALYSER.terms(f"{'a' * 39} {'a' * 40} {'é' * 20}")] == [39]


def test_a_stop_word_finds_nothing_and_a_query_without_tokens_neither() -> None:
    index = TextIndex([Part(build_segment(pa.array(["the port", None]), ANALYSER), [0, 1])], size=2)

    assert index.search(ANALYSER.terms("the")).tolist() == [False, False]
    assert index.fuzzy(ANALYSER.words("the"), 0).tolist() == [True, False]
    assert index.fuzzy(ANALYSER.words("...")).tolist() == [False, False]
    assert index.bm25([]).values.tolist() == [0.0, 0.0]
    assert index.fuzzy(ANALYSER.words("part")).tolist() == [True, False]


def test_rows_in_no_segment_have_no_text() -> None:
    index = TextIndex([], size=3)

    assert index.search(["port"]).tolist() == [False] * 3
    assert index.bm25_at(["port"], [0, 2]).tolist() == [0.0, 0.0]
    assert (index.documents, index.average_length) == (0, 0.0)


def test_what_does_not_fit_is_refused() -> None:
    segment = build_segment(pa.array(["a", "b"]), ANALYSER)

    with pytest.raises(ValueError, match="1 positions for 2 rows"):
        TextIndex([Part(segment, [0])], size=2)
    with pytest.raises(IndexError, match="position 2 is out of range"):
        TextIndex([Part(segment, [0, 2])], size=2)
    with pytest.raises(ValueError, match="within -1 edits"):
        TextIndex([Part(segment, [0, 1])], size=2).fuzzy(["a"], -1)
    with pytest.raises(IndexError, match="position 5"):
        TextIndex([Part(segment, [0, 1])], size=2).bm25_at(["a"], [5])
    with pytest.raises(ValueError, match="nothing to merge"):
        merge_segments([])
    with pytest.raises(ValueError, match="1 marks for 2 rows"):
        merge_segments([segment], [[True]])
    with pytest.raises(TypeError, match="strings are needed"):
        build_segment(pa.array([1]), ANALYSER)
