"""Tokens of texts.

The analyser of the store decides what a token is; it is passed in as two functions from a text to its tokens. This module
makes it fast: a column is split at whitespace, and each distinct piece is analysed once, many pieces per call.
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
    """Two tokenizers of texts.

    A token must depend only on its own run of letters and digits, not on adjacent runs or its position. Tokens are returned
    in the order of the text, repeated ones repeatedly.

    Attributes:
        terms: Tokens for search and scores: lower case, stemmed, without stop words, without accents.
        words: Tokens for fuzzy search: the same, but neither stemmed nor stripped of stop words.
    """

    terms: Tokenize
    words: Tokenize


@dataclass(frozen=True)
class Pieces:
    """A column of texts split at whitespace.

    Attributes:
        distinct: The distinct pieces.
        codes: The pieces of all texts in order, as indices into `distinct`.
        offsets: The start of the pieces of each text, with one more entry at the end. A null text has no pieces.
    """

    distinct: pa.LargeStringArray
    codes: Positions
    offsets: Positions


@dataclass(frozen=True)
class Tokens:
    """The tokens of a column of texts.

    Attributes:
        vocabulary: The distinct tokens, ascending in byte order.
        codes: The tokens of all texts in order, as indices into the vocabulary.
        offsets: The start of the tokens of each text, with one more entry at the end.
    """

    vocabulary: pa.LargeStringArray
    codes: Positions
    offsets: Positions


def cut(texts: pa.Array | pa.ChunkedArray) -> Pieces:
    """Split each text of a column at whitespace.

    Raises:
        TypeError: The column holds no strings.
    """
    pieces = pc.utf8_split_whitespace(pc.fill_null(one_piece(texts), ""))
    encoded = pc.list_flatten(pieces).dictionary_encode()
    return Pieces(encoded.dictionary, encoded.indices.to_numpy().astype(np.int64), pieces.offsets.to_numpy())


def tokens(pieces: Pieces, tokenize: Tokenize) -> Tokens:
    """Return the tokens of each text.

    >>> result = tokens(cut(pa.array(["b a", None, "a"])), str.split)
    >>> result.vocabulary.to_pylist(), result.codes.tolist(), result.offsets.tolist()
    (['a', 'b'], [1, 0, 0], [0, 2, 2, 3])
    """
    flat, per_piece = _analysed(pieces.distinct.to_pylist(), tokenize)
    vocabulary, codes = ranked(pa.array(flat, pa.large_string()))
    of_piece = Csr(_offsets(per_piece), codes, None, len(vocabulary))
    expansion = expand(of_piece, pieces.codes)
    return Tokens(vocabulary, expansion.targets, expansion.offsets[pieces.offsets])


def ranked(strings: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Positions]:
    """Return the distinct strings in byte order, and for each string its index among them."""
    encoded = strings.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), ranks[encoded.indices.to_numpy(zero_copy_only=False)]


def _analysed(pieces: Sequence[str], tokenize: Tokenize) -> tuple[list[str], Positions]:
    """Return the tokens of all pieces, and the number of tokens of each piece."""
    flat: list[str] = []
    counts = np.zeros(len(pieces), np.int64)
    for first in range(0, len(pieces), PIECES_PER_CALL):
        for number, of_piece in enumerate(_tokenized(pieces[first : first + PIECES_PER_CALL], tokenize), first):
            flat += of_piece
            counts[number] = len(of_piece)
    return flat, counts


def _tokenized(pieces: Sequence[str], tokenize: Tokenize) -> list[list[str]]:
    """Tokenize pieces in one call, separated by a token that the analyser preserves and no piece contains."""
    for mark in MARKS:
        if list(tokenize(mark)) != [mark]:
            continue
        per_piece: list[list[str]] = [[]]
        for token in tokenize(f" {mark} ".join(pieces) + f" {mark}"):
            if token == mark:
                per_piece.append([])
            else:
                per_piece[-1].append(token)
        if len(per_piece) == len(pieces) + 1:
            return per_piece[:-1]
    return [list(tokenize(piece)) for piece in pieces]  # every separator occurs in a piece


def _offsets(counts: Positions) -> Positions:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
