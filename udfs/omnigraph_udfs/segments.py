"""Inverted segments of a text column: for each token, the documents that hold it.

A segment covers rows of one column and never changes. Rows that are deleted later stay in it until a merge leaves them out;
which rows are live, the index over the segments knows (`omnigraph_udfs.text`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_udfs.analysis import Analyser, Tokens, cut, ranked, tokens
from omnigraph_udfs.arrays import Ints, Mask, Positions, frozen
from omnigraph_udfs.csr import Csr, build, transpose
from omnigraph_udfs.strings import Strings

__all__ = ["Postings", "Segment", "build_segment", "merge_segments"]

ROWS_PER_SLICE = 50_000


@dataclass(frozen=True)
class Postings:
    """For each token of a vocabulary the documents it occurs in, ascending.

    Attributes:
        vocabulary: The tokens, ascending in byte order.
        offsets: Where the documents of each token begin; one more than there are tokens.
        docs: Documents, as numbers of rows in the segment.
        counts: How often the token occurs in each document, or None where nobody asks.
    """

    vocabulary: Strings
    offsets: Positions
    docs: Ints
    counts: npt.NDArray[np.uint32] | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", frozen(self.offsets, np.int64))
        object.__setattr__(self, "docs", frozen(self.docs, np.int32))
        if self.counts is not None:
            object.__setattr__(self, "counts", frozen(self.counts, np.uint32))

    def number(self, token: str) -> int:
        """The number of a token, -1 if no document holds it."""
        wanted = token.encode()
        at = bisect_left(self.vocabulary, wanted)
        return at if at < len(self.vocabulary) and self.vocabulary[at] == wanted else -1


@dataclass(frozen=True)
class Segment:
    """The inverted lists of some rows of a text column.

    Attributes:
        lengths: How many terms each row has; none for a null.
        terms: Postings of the tokens for search and scores.
        words: Postings of the tokens for fuzzy search.
    """

    lengths: npt.NDArray[np.uint32]
    terms: Postings
    words: Postings

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", frozen(self.lengths, np.uint32))

    @property
    def documents(self) -> int:
        """How many rows it covers."""
        return len(self.lengths)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All there is to the segment, as arrays by name."""
        out: dict[str, npt.NDArray[Any]] = {"lengths": self.lengths}
        for name, held in (("terms", self.terms), ("words", self.words)):
            out[f"{name}_begin"], out[f"{name}_bytes"] = held.vocabulary.offsets, held.vocabulary.data
            out[f"{name}_offsets"], out[f"{name}_docs"] = held.offsets, held.docs
            if held.counts is not None:
                out[f"{name}_counts"] = held.counts
        return out

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Segment:
        """The segment that `arrays` took apart; nothing is copied.

        Raises:
            KeyError: An array is missing.
            ValueError: The arrays do not fit together.
        """
        held = [
            Postings(
                Strings(frozen(arrays[f"{name}_begin"], np.int64), frozen(arrays[f"{name}_bytes"], np.uint8)),
                arrays[f"{name}_offsets"],
                arrays[f"{name}_docs"],
                arrays[f"{name}_counts"] if name == "terms" else None,
            )
            for name in ("terms", "words")
        ]
        for each in held:
            size, entries = len(each.vocabulary), len(each.docs)
            fits = (len(each.offsets), int(each.offsets[-1])) == (size + 1, entries)
            if not fits or int(each.vocabulary.offsets[-1]) > len(each.vocabulary.data):
                raise ValueError(f"{size} tokens with {entries} entries do not fit together")
        return cls(arrays["lengths"], *held)


def build_segment(texts: pa.Array | pa.ChunkedArray, analyser: Analyser) -> Segment:
    """The segment of a column of texts. Long columns are done in slices, which bounds the memory.

    Raises:
        TypeError: The column holds no strings.
    """
    slices = [texts.slice(first, ROWS_PER_SLICE) for first in range(0, max(len(texts), 1), ROWS_PER_SLICE)]
    return merge_segments([_slice(each, analyser) for each in slices])


def merge_segments(segments: Sequence[Segment], live: Sequence[npt.ArrayLike | None] = ()) -> Segment:
    """One segment of the live rows of several, in order: equal to one built from these rows' texts.

    Args:
        segments: At least one.
        live: For each segment a Boolean per row, or None for all; may be left out altogether.

    Raises:
        ValueError: There is no segment, or `live` does not fit.
    """
    if not segments:
        raise ValueError("there is nothing to merge")
    masks = [_live(segment, mask) for segment, mask in zip(segments, live or [None] * len(segments), strict=True)]
    if len(segments) == 1 and masks[0].all():
        return segments[0]
    numbers, first = [], 0
    for mask in masks:
        numbers.append(np.where(mask, first + np.cumsum(mask) - 1, -1))
        first += int(mask.sum())
    lengths = np.concatenate([segment.lengths[mask] for segment, mask in zip(segments, masks, strict=True)])
    terms = _merged([segment.terms for segment in segments], numbers, first)
    words = _merged([segment.words for segment in segments], numbers, first)
    return Segment(lengths, terms, words)


def _slice(texts: pa.Array | pa.ChunkedArray, analyser: Analyser) -> Segment:
    pieces = cut(texts)
    terms, words = tokens(pieces, analyser.terms), tokens(pieces, analyser.words)
    return Segment(np.diff(terms.offsets).astype(np.uint32), _inverted(terms), replace(_inverted(words), counts=None))


def _inverted(found: Tokens) -> Postings:
    """Postings by token, from tokens by document."""
    from omnigraph_udfs.kernels import postings

    lists = transpose(Csr(found.offsets, found.codes, None, len(found.vocabulary)))
    offsets = np.zeros(len(found.vocabulary) + 1, np.int64)
    docs, counts = np.empty(lists.size, np.int32), np.empty(lists.size, np.uint32)
    size = postings.runs(lists.offsets, lists.targets, offsets, docs, counts)
    return Postings(Strings.of(found.vocabulary), offsets, docs[:size].copy(), counts[:size].copy())


def _merged(lists: Sequence[Postings], numbers: Sequence[Positions], documents: int) -> Postings:
    """Postings of the documents that have a new number."""
    vocabulary, codes = ranked(pa.concat_arrays([each.vocabulary.to_arrow() for each in lists]))
    held, docs, first = [], [], 0
    for each, number in zip(lists, numbers, strict=True):
        held.append(np.repeat(codes[first : first + len(each.vocabulary)], np.diff(each.offsets)))
        docs.append(number[each.docs])  # -1, and left out below, for a document that is not live
        first += len(each.vocabulary)
    joined = build(np.concatenate(held), np.concatenate(docs), sources=len(vocabulary), width=documents)
    used = np.flatnonzero(joined.degrees())
    offsets = np.append(joined.offsets[used], joined.offsets[-1])
    known = [each.counts for each in lists if each.counts is not None]
    counts = np.concatenate(known)[joined.edges] if known else None
    return Postings(Strings.of(vocabulary.take(pa.array(used))), offsets, joined.targets, counts)


def _live(segment: Segment, mask: npt.ArrayLike | None) -> Mask:
    live = np.ones(segment.documents, np.bool_) if mask is None else np.asarray(mask, np.bool_)
    if live.shape != (segment.documents,):
        raise ValueError(f"{live.size} marks for {segment.documents} rows")
    return live
