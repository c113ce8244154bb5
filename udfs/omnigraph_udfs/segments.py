"""Inverted segments of a text column: for each token, the documents that contain it.

A segment covers rows of one column and is immutable. Rows that are deleted later stay in it until a merge drops them; the
index over the segments (`omnigraph_udfs.text`) has the positions of the live rows.
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
from omnigraph_udfs.checks import require_ascending_rows, require_offsets, require_positions, require_type
from omnigraph_udfs.csr import Csr, build, transpose
from omnigraph_udfs.strings import Strings

__all__ = ["Postings", "Segment", "build_segment", "merge_segments"]

ROWS_PER_SLICE = 50_000


@dataclass(frozen=True)
class Postings:
    """Inverted lists: for each token of a vocabulary its documents, ascending.

    Attributes:
        vocabulary: The tokens, ascending in byte order.
        offsets: The start of the documents of each token, with one more entry at the end.
        docs: Documents, as row numbers in the segment.
        counts: The number of occurrences of the token in each document; None if not needed.
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
        """Return the index of a token in the vocabulary, -1 if no document contains it."""
        key = token.encode()
        at = bisect_left(self.vocabulary, key)
        return at if at < len(self.vocabulary) and self.vocabulary[at] == key else -1


@dataclass(frozen=True)
class Segment:
    """The inverted lists of some rows of a text column.

    Attributes:
        lengths: The number of terms of each row; 0 for a null.
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
        """The number of rows of the segment."""
        return len(self.lengths)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the content of the segment as arrays by name."""
        out: dict[str, npt.NDArray[Any]] = {"lengths": self.lengths}
        for name, postings in (("terms", self.terms), ("words", self.words)):
            vocabulary = postings.vocabulary.trimmed()
            out[f"{name}_begin"], out[f"{name}_bytes"] = vocabulary.offsets, vocabulary.data
            out[f"{name}_offsets"], out[f"{name}_docs"] = postings.offsets, postings.docs
            if postings.counts is not None:
                out[f"{name}_counts"] = postings.counts
        return out

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Segment:
        """Make a segment of the result of `arrays`, without copying.

        Raises:
            KeyError: An array is missing.
            ValueError: The arrays do not fit together.
        """
        lengths = require_type(arrays["lengths"], np.uint32)
        postings = [_postings(arrays, name, len(lengths)) for name in ("terms", "words")]
        return cls(lengths, *postings)


def _postings(arrays: Mapping[str, npt.NDArray[Any]], name: str, documents: int) -> Postings:
    vocabulary = Strings.of_arrays(arrays[f"{name}_begin"], arrays[f"{name}_bytes"])
    offsets, docs = require_type(arrays[f"{name}_offsets"], np.int64), require_type(arrays[f"{name}_docs"], np.int32)
    counts = require_type(arrays[f"{name}_counts"], np.uint32) if name == "terms" else None
    if len(offsets) != len(vocabulary) + 1 or (counts is not None and len(counts) != len(docs)):
        raise ValueError(f"{len(vocabulary)} tokens with {len(docs)} entries do not fit together")
    require_offsets(offsets, len(docs))
    require_positions(docs, documents)
    require_ascending_rows(offsets, docs, strictly=True)
    return Postings(vocabulary, offsets, docs, counts)


def build_segment(texts: pa.Array | pa.ChunkedArray, analyser: Analyser) -> Segment:
    """Build the segment of a column of texts. Long columns are processed in slices, which bounds memory.

    Raises:
        TypeError: The column holds no strings.
    """
    slices = [texts.slice(first, ROWS_PER_SLICE) for first in range(0, max(len(texts), 1), ROWS_PER_SLICE)]
    return merge_segments([_slice(part, analyser) for part in slices])


def merge_segments(segments: Sequence[Segment], live: Sequence[npt.ArrayLike | None] = ()) -> Segment:
    """Merge the live rows of segments, in order, into one segment. Equal to one built from the texts of these rows.

    Args:
        segments: At least one.
        live: For each segment a Boolean per row, or None for all; empty for all rows of all segments.

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


def _inverted(by_document: Tokens) -> Postings:
    """Convert tokens by document to postings by token."""
    from omnigraph_udfs.kernels import postings

    lists = transpose(Csr(by_document.offsets, by_document.codes, None, len(by_document.vocabulary)))
    offsets = np.zeros(len(by_document.vocabulary) + 1, np.int64)
    docs, counts = np.empty(lists.size, np.int32), np.empty(lists.size, np.uint32)
    size = postings.runs(lists.offsets, lists.targets, offsets, docs, counts)
    return Postings(Strings.of(by_document.vocabulary), offsets, docs[:size].copy(), counts[:size].copy())


def _merged(lists: Sequence[Postings], numbers: Sequence[Positions], documents: int) -> Postings:
    """Merge postings; documents without a new number are dropped."""
    vocabulary, codes = ranked(pa.concat_arrays([postings.vocabulary.to_arrow() for postings in lists]))
    tokens_of_docs, docs, first = [], [], 0
    for postings, number in zip(lists, numbers, strict=True):
        tokens_of_docs.append(np.repeat(codes[first : first + len(postings.vocabulary)], np.diff(postings.offsets)))
        docs.append(number[postings.docs])  # -1 for a document that is not live, which `build` omits
        first += len(postings.vocabulary)
    joined = build(np.concatenate(tokens_of_docs), np.concatenate(docs), sources=len(vocabulary), width=documents)
    used = np.flatnonzero(joined.degrees())
    offsets = np.append(joined.offsets[used], joined.offsets[-1])
    all_counts = [postings.counts for postings in lists if postings.counts is not None]
    counts = np.concatenate(all_counts)[joined.edges] if all_counts else None
    return Postings(Strings.of(vocabulary.take(pa.array(used))), offsets, joined.targets, counts)


def _live(segment: Segment, mask: npt.ArrayLike | None) -> Mask:
    live = np.ones(segment.documents, np.bool_) if mask is None else np.asarray(mask, np.bool_)
    if live.shape != (segment.documents,):
        raise ValueError(f"{live.size} marks for {segment.documents} rows")
    return live
