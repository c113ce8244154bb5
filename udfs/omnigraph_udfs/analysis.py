"""Tokens of texts.

What a token is, the analyser of the store decides; it is handed in as two functions from a text to its tokens. Here stands
what makes it fast: a column is cut at blanks, and each different piece is analysed once, many to a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_udfs.arrays import Positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import expand
from omnigraph_udfs.strings import one_piece

__all__ = ["Analyser", "Pieces", "Tokens", "cut", "tokens"]

Tokenize = Callable[[str], Sequence[str]]

PIECES_PER_CALL = 10_000
MARKS = tuple(f"zq{number}qz" for number in range(100))


@dataclass(frozen=True)
class Analyser:
    """The two ways a text is read.

    A token must depend on nothing but the run of letters and digits it stands in: neither on its neighbours nor on where it
    stands. All tokens are in the order of the text, repeated ones repeated.

    Attributes:
        terms: Tokens for search and scores: lower case, stemmed, without stop words, without accents.
        words: Tokens for fuzzy search: the same, but neither stemmed nor stripped of stop words.
    """

    terms: Tokenize
    words: Tokenize


@dataclass(frozen=True)
class Pieces:
    """A column of texts cut at blanks.

    Attributes:
        different: The different pieces.
        codes: The pieces of one text after the other, as numbers into `different`.
        offsets: Where the pieces of each text begin; one more than there are texts. A null text has none.
    """

    different: pa.LargeStringArray
    codes: Positions
    offsets: Positions


@dataclass(frozen=True)
class Tokens:
    """The tokens of a column of texts.

    Attributes:
        vocabulary: The different tokens, ascending in byte order.
        codes: The tokens of one text after the other, as numbers into the vocabulary.
        offsets: Where the tokens of each text begin; one more than there are texts.
    """

    vocabulary: pa.LargeStringArray
    codes: Positions
    offsets: Positions


def cut(texts: pa.Array | pa.ChunkedArray) -> Pieces:
    """The pieces of each text of a column.

    Raises:
        TypeError: The column holds no strings.
    """
    pieces = pc.utf8_split_whitespace(pc.fill_null(one_piece(texts), ""))
    encoded = pc.list_flatten(pieces).dictionary_encode()
    return Pieces(encoded.dictionary, encoded.indices.to_numpy().astype(np.int64), pieces.offsets.to_numpy())


def tokens(pieces: Pieces, tokenize: Tokenize) -> Tokens:
    """The tokens of each text.

    >>> found = tokens(cut(pa.array(["b a", None, "a"])), str.split)
    >>> found.vocabulary.to_pylist(), found.codes.tolist(), found.offsets.tolist()
    (['a', 'b'], [1, 0, 0], [0, 2, 2, 3])
    """
    flat, per_piece = _analysed(pieces.different.to_pylist(), tokenize)
    vocabulary, codes = ranked(pa.array(flat, pa.large_string()))
    of_piece = Csr(_offsets(per_piece), codes, None, len(vocabulary))
    found = expand(of_piece, pieces.codes)
    return Tokens(vocabulary, found.targets, found.offsets[pieces.offsets])


def ranked(strings: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Positions]:
    """The different strings in byte order, and for each string its number among them."""
    encoded = strings.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), ranks[encoded.indices.to_numpy(zero_copy_only=False)]


def _analysed(pieces: Sequence[str], tokenize: Tokenize) -> tuple[list[str], Positions]:
    """The tokens of all pieces, and how many each has."""
    flat: list[str] = []
    counts = np.zeros(len(pieces), np.int64)
    for first in range(0, len(pieces), PIECES_PER_CALL):
        for number, each in enumerate(_together(pieces[first : first + PIECES_PER_CALL], tokenize), first):
            flat += each
            counts[number] = len(each)
    return flat, counts


def _together(pieces: Sequence[str], tokenize: Tokenize) -> list[list[str]]:
    """Analyses pieces in one call, with a mark after each: a token that stays as it is and is none of theirs."""
    for mark in MARKS:
        if list(tokenize(mark)) != [mark]:
            continue
        found: list[list[str]] = [[]]
        for token in tokenize(f" {mark} ".join(pieces) + f" {mark}"):
            if token == mark:
                found.append([])
            else:
                found[-1].append(token)
        if len(found) == len(pieces) + 1:
            return found[:-1]
    return [list(tokenize(piece)) for piece in pieces]  # no mark will do


def _offsets(counts: Positions) -> Positions:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
