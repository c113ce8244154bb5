"""Text: analysis, the three predicates, and bm25."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import lance

_K1 = 1.2
_B = 0.75


def tokens(text: str) -> tuple[str, ...]:
    """What full-text search compares."""
    return _analysed(text, True)


def words(text: str) -> tuple[str, ...]:
    """What fuzzy search compares: neither stemmed nor without stop words."""
    return _analysed(text, False)


@lru_cache(maxsize=4096)
def _analysed(text: str, reduced: bool) -> tuple[str, ...]:
    found = lance.tokenize(
        text,
        base_tokenizer="simple",
        language="English",
        max_token_length=40,
        lower_case=True,
        stem=reduced,
        remove_stop_words=reduced,
        ascii_folding=True,
    )
    return tuple(token.text for token in found)


def search(text: str | None, query: str | None) -> bool:
    """Whether the two share a token."""
    if text is None or query is None:
        return False
    return any(token in tokens(text) for token in tokens(query))


def fuzzy(text: str | None, query: str | None, most: int) -> bool:
    """Whether some word of the one is at most that many edits away from some word of the other."""
    if text is None or query is None:
        return False
    return any(distance(a, b) <= most for a in words(query) for b in words(text))


def distance(a: str, b: str) -> int:
    """Levenshtein distance in code points."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def bm25(text: str | None, query: str | None, texts: Iterable[str | None]) -> float:
    """The score of a text among the texts of all entities of its type."""
    documents = [tokens(each) for each in texts if each is not None and tokens(each)]
    if text is None or query is None:
        return 0.0
    own = tokens(text)
    score = 0.0
    for token in tokens(query):
        frequency = own.count(token)
        if frequency:
            containing = sum(token in document for document in documents)
            average = sum(len(document) for document in documents) / len(documents)
            idf = math.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
            score += idf * frequency * (_K1 + 1) / (frequency + _K1 * (1 - _B + _B * len(own) / average))
    return score
