"""Text predicates and scores over segments, as of one version of a table.

Every answer equals that of reading all live rows anew, whatever the segments: statistics count live rows at query time.

>>> import pyarrow as pa
>>> from omnigraph_udfs.analysis import Analyser
>>> from omnigraph_udfs.segments import build_segment
>>> split = Analyser(terms=lambda text: text.lower().split(), words=lambda text: text.lower().split())
>>> column = pa.array(["old port", "Port of call", None])
>>> index = TextIndex([Part(build_segment(column, split), [0, 1, 2])], size=3)
>>> index.search(["port", "sea"]).tolist()
[True, True, False]
>>> index.fuzzy(["cal"], 1).tolist()
[False, True, False]
>>> index.bm25(["old"]).values.round(3).tolist()
[0.755, 0.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Ints, Mask, Positions, frozen, positions
from omnigraph_udfs.segments import Postings, Segment
from omnigraph_udfs.strings import Strings

__all__ = ["Part", "Scores", "TextIndex"]

K1 = 1.2
B = 0.75
LOOK_UP = 20  # looking up a row in a list costs about as much as reading so many of its entries


@dataclass(frozen=True)
class Part:
    """A segment, and where its rows stand in the table now.

    Attributes:
        segment: The segment.
        positions: The position of each of its rows, -1 for one that is deleted.
    """

    segment: Segment
    positions: Positions

    def __init__(self, segment: Segment, positions: npt.ArrayLike) -> None:
        object.__setattr__(self, "segment", segment)
        object.__setattr__(self, "positions", frozen(positions, np.int64))


@dataclass(frozen=True)
class Scores:
    """The bm25 score of every row for one query.

    Attributes:
        values: One score per position; 0 where no token matches.
        hits: Positions of the rows with a score above 0, in no particular order.
    """

    values: Floats
    hits: Positions


class TextIndex:
    """A text column as of one version of its table. Rows in no part have no text."""

    def __init__(self, parts: Sequence[Part], *, size: int) -> None:
        """Puts segments together.

        Args:
            parts: The segments that cover the column. No two rows may have the same position.
            size: How many rows the table has.

        Raises:
            IndexError: A position is not in the table.
            ValueError: A part does not have one position per row of its segment.
        """
        for part in parts:
            positions(part.positions, size)
            if len(part.positions) != part.segment.documents:
                raise ValueError(f"{len(part.positions)} positions for {part.segment.documents} rows of a segment")
        self.parts = tuple(parts)
        self.size = size

    @cached_property
    def documents(self) -> int:
        """How many live rows have at least one token."""
        return sum(int(np.count_nonzero(_lengths(part))) for part in self.parts)

    @cached_property
    def average_length(self) -> float:
        """The mean number of tokens of the live rows that have any; 0 if there are none."""
        total = sum(int(_lengths(part).sum(dtype=np.int64)) for part in self.parts)
        return total / self.documents if self.documents else 0.0

    def search(self, terms: Sequence[str]) -> Mask:
        """For each position whether its text holds at least one of the terms."""
        out = np.zeros(self.size, np.bool_)
        for part in self.parts:
            held = part.segment.terms
            numbers = [number for term in dict.fromkeys(terms) if (number := held.number(term)) >= 0]
            _mark(held, numbers, part, out)
        return out

    def match_text(self, terms: Sequence[str]) -> Mask:
        """As `search`; the name is kept apart for phrases."""
        return self.search(terms)

    def fuzzy(self, words: Sequence[str], edits: int = 2) -> Mask:
        """For each position whether its text holds a word at most so many edits from one of the words.

        An edit inserts, deletes or replaces one code point.

        Raises:
            ValueError: The number of edits is negative.
        """
        if edits < 0:
            raise ValueError(f"fuzzy search within {edits} edits: the number cannot be negative")
        out = np.zeros(self.size, np.bool_)
        for part in self.parts:
            held = part.segment.words
            _mark(held, np.flatnonzero(close(held.vocabulary, words, edits)), part, out)
        return out

    def bm25(self, terms: Sequence[str]) -> Scores:
        """The score of every row. Statistics are over all live rows; a repeated term counts repeatedly."""
        from omnigraph_udfs.kernels import postings

        lists = self._lists(terms)
        values, hits, found = np.zeros(self.size), np.empty(min(self.size, _entries(lists)), np.int64), 0
        for term, idf in self._weights(terms, lists):
            for each in lists[term]:
                lengths, places = each.part.segment.lengths, each.part.positions
                found = postings.add_scores(
                    each.docs, each.counts, lengths, places, idf, K1, B, self.average_length, values, hits, found
                )
        return Scores(values, hits[:found])

    def bm25_at(self, terms: Sequence[str], at: npt.ArrayLike) -> Floats:
        """The scores at some positions: equal to those of `bm25`, but sooner if they are few. -1 scores 0.

        Raises:
            IndexError: A position is not in the table.
        """
        from omnigraph_udfs.kernels import postings

        asked, lists = positions(at, self.size), self._lists(terms)
        known = asked >= 0
        values = np.zeros(len(asked))
        if _entries(lists) <= len(asked) * len(lists) * LOOK_UP:
            values[known] = self.bm25(terms).values[asked[known]]
            return values
        documents = self._homes[asked]
        weights, first = self._weights(terms, lists), 0
        for part in self.parts:
            mine = (documents >= first) & (documents < first + part.segment.documents)
            local = frozen(np.where(mine, documents - first, -1), np.int64)
            first += part.segment.documents
            for term, idf in weights:
                for each in lists[term]:
                    if each.part is part:
                        postings.add_scores_at(
                            each.docs, each.counts, part.segment.lengths, local, idf, K1, B, self.average_length, values
                        )
        return values

    @cached_property
    def _homes(self) -> Positions:
        """For each position its row, counted through all segments; -1 for one without text, and at the end for none."""
        homes, first = np.full(self.size + 1, -1, np.int64), 0
        for part in self.parts:
            live = np.flatnonzero(part.positions >= 0)
            homes[part.positions[live]] = first + live
            first += part.segment.documents
        return homes

    def _lists(self, terms: Sequence[str]) -> dict[str, list[_List]]:
        """Where each of the terms occurs."""
        lists: dict[str, list[_List]] = {term: [] for term in terms}
        for term, found in lists.items():
            for part in self.parts:
                held = part.segment.terms
                number = held.number(term)
                if number >= 0 and held.counts is not None:
                    span = slice(int(held.offsets[number]), int(held.offsets[number + 1]))
                    found.append(_List(part, held.docs[span], held.counts[span]))
        return lists

    def _weights(self, terms: Sequence[str], lists: dict[str, list[_List]]) -> list[tuple[str, float]]:
        """The terms in order, each with its inverse document frequency."""
        from omnigraph_udfs.kernels import postings

        weights = {}
        for term, found in lists.items():
            frequency = sum(postings.live_count(each.docs, each.part.positions) for each in found)
            weights[term] = math.log(1 + (self.documents - frequency + 0.5) / (frequency + 0.5))
        return [(term, weights[term]) for term in terms]


@dataclass(frozen=True)
class _List:
    """The documents of one part that hold a term."""

    part: Part
    docs: Ints
    counts: npt.NDArray[np.uint32]


def _entries(lists: dict[str, list[_List]]) -> int:
    return sum(len(each.docs) for found in lists.values() for each in found)


def close(vocabulary: Strings, words: Sequence[str], edits: int) -> Mask:
    """Which strings are at most so many edits from one of the words."""
    from omnigraph_udfs.kernels import edits as kernels

    out = np.zeros(len(vocabulary), np.bool_)
    longest = int(np.diff(vocabulary.offsets).max()) if len(vocabulary) else 0
    for word in dict.fromkeys(words):
        asked = frozen([ord(point) for point in word], np.int32)
        most = min(edits, max(longest, len(asked)))  # that many always suffice
        room = np.empty(longest, np.int32), np.empty(len(asked) + 1, np.int32)
        kernels.within(vocabulary.offsets, vocabulary.data, asked, most, *room, out)
    return out


def _lengths(part: Part) -> npt.NDArray[np.uint32]:
    return part.segment.lengths[part.positions >= 0]


def _mark(lists: Postings, numbers: npt.ArrayLike, part: Part, out: Mask) -> None:
    from omnigraph_udfs.kernels import postings

    postings.mark(lists.offsets, lists.docs, frozen(numbers, np.int64), part.positions, out)
