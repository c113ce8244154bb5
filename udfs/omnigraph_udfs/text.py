"""Text predicates and scores over segments, as of one version of a table.

Results do not depend on the division into segments: statistics count the live rows at query time.

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
LOOK_UP = 20  # the cost of a binary search in a list, relative to reading one of its entries


@dataclass(frozen=True)
class Part:
    """A segment, and the current positions of its rows in the table.

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
    """A text column in one version of its table. Rows in no part have no text."""

    def __init__(self, parts: Sequence[Part], *, size: int) -> None:
        """Combine segments.

        Args:
            parts: The segments that cover the column. No two rows may have the same position.
            size: The number of rows of the table.

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
        """The number of live rows with at least one token."""
        return sum(int(np.count_nonzero(_lengths(part))) for part in self.parts)

    @cached_property
    def average_length(self) -> float:
        """The mean number of tokens of live rows that have any, or 0."""
        total = sum(int(_lengths(part).sum(dtype=np.int64)) for part in self.parts)
        return total / self.documents if self.documents else 0.0

    def search(self, terms: Sequence[str]) -> Mask:
        """Return a mask of the positions whose text contains at least one of the terms."""
        out = np.zeros(self.size, np.bool_)
        for part in self.parts:
            postings = part.segment.terms
            numbers = [number for term in dict.fromkeys(terms) if (number := postings.number(term)) >= 0]
            _mark(postings, numbers, part, out)
        return out

    def fuzzy(self, words: Sequence[str], edits: int = 2) -> Mask:
        """Return a mask of the positions whose text contains a word within `edits` edits of one of the words.

        An edit inserts, deletes or replaces one code point.

        Raises:
            ValueError: The number of edits is negative.
        """
        if edits < 0:
            raise ValueError(f"fuzzy search within {edits} edits: the number cannot be negative")
        out = np.zeros(self.size, np.bool_)
        for part in self.parts:
            postings = part.segment.words
            _mark(postings, np.flatnonzero(close(postings.vocabulary, words, edits)), part, out)
        return out

    def bm25(self, terms: Sequence[str]) -> Scores:
        """Return the score of every row. Statistics are over all live rows; a repeated term counts repeatedly."""
        from omnigraph_udfs.kernels import postings

        lists = self._lists(terms)
        values, hits, count = np.zeros(self.size), np.empty(min(self.size, _entries(lists)), np.int64), 0
        for term, idf in self._weights(terms, lists):
            for entries in lists[term]:
                lengths, places = entries.part.segment.lengths, entries.part.positions
                count = postings.add_scores(
                    entries.docs, entries.counts, lengths, places, idf, K1, B, self.average_length, values, hits, count
                )
        return Scores(values, hits[:count])

    def bm25_at(self, terms: Sequence[str], at: npt.ArrayLike) -> Floats:
        """Return the scores at some positions, equal to those of `bm25`, but faster for few positions. -1 scores 0.

        Raises:
            IndexError: A position is not in the table.
        """
        from omnigraph_udfs.kernels import postings

        rows, lists = positions(at, self.size), self._lists(terms)
        valid = rows >= 0
        values = np.zeros(len(rows))
        if _entries(lists) <= len(rows) * len(lists) * LOOK_UP:
            values[valid] = self.bm25(terms).values[rows[valid]]
            return values
        documents = self._homes[rows]
        weights, first = self._weights(terms, lists), 0
        for part in self.parts:
            in_part = (documents >= first) & (documents < first + part.segment.documents)
            local = frozen(np.where(in_part, documents - first, -1), np.int64)
            first += part.segment.documents
            for term, idf in weights:
                for entries in lists[term]:
                    if entries.part is part:
                        postings.add_scores_at(
                            entries.docs,
                            entries.counts,
                            part.segment.lengths,
                            local,
                            idf,
                            K1,
                            B,
                            self.average_length,
                            values,
                        )
        return values

    @cached_property
    def _homes(self) -> Positions:
        """The row of each position, counted through all segments; -1 for positions without text, and as the last entry."""
        homes, first = np.full(self.size + 1, -1, np.int64), 0
        for part in self.parts:
            live = np.flatnonzero(part.positions >= 0)
            homes[part.positions[live]] = first + live
            first += part.segment.documents
        return homes

    def _lists(self, terms: Sequence[str]) -> dict[str, list[_List]]:
        """Return the inverted lists of the terms."""
        lists: dict[str, list[_List]] = {term: [] for term in terms}
        for term, of_term in lists.items():
            for part in self.parts:
                postings = part.segment.terms
                number = postings.number(term)
                if number >= 0 and postings.counts is not None:
                    span = slice(int(postings.offsets[number]), int(postings.offsets[number + 1]))
                    of_term.append(_List(part, postings.docs[span], postings.counts[span]))
        return lists

    def _weights(self, terms: Sequence[str], lists: dict[str, list[_List]]) -> list[tuple[str, float]]:
        """Return the terms in order, each with its inverse document frequency."""
        from omnigraph_udfs.kernels import postings

        weights = {}
        for term, of_term in lists.items():
            frequency = sum(postings.live_count(entries.docs, entries.part.positions) for entries in of_term)
            weights[term] = math.log(1 + (self.documents - frequency + 0.5) / (frequency + 0.5))
        return [(term, weights[term]) for term in terms]


@dataclass(frozen=True)
class _List:
    """The documents of one part that contain a term."""

    part: Part
    docs: Ints
    counts: npt.NDArray[np.uint32]


def _entries(lists: dict[str, list[_List]]) -> int:
    return sum(len(entries.docs) for of_term in lists.values() for entries in of_term)


def close(vocabulary: Strings, words: Sequence[str], edits: int) -> Mask:
    """Return a mask of the strings within `edits` edits of one of the words."""
    from omnigraph_udfs.kernels import edits as kernels

    out = np.zeros(len(vocabulary), np.bool_)
    longest = int(np.diff(vocabulary.offsets).max()) if len(vocabulary) else 0
    for word in dict.fromkeys(words):
        points = frozen([ord(point) for point in word], np.int32)
        limit = min(edits, max(longest, len(points)))  # more edits are never needed
        room = np.empty(longest, np.int32), np.empty(len(points) + 1, np.int32)
        kernels.within(vocabulary.offsets, vocabulary.data, points, limit, *room, out)
    return out


def _lengths(part: Part) -> npt.NDArray[np.uint32]:
    return part.segment.lengths[part.positions >= 0]


def _mark(lists: Postings, numbers: npt.ArrayLike, part: Part, out: Mask) -> None:
    from omnigraph_udfs.kernels import postings

    postings.mark(lists.offsets, lists.docs, frozen(numbers, np.int64), part.positions, out)
