"""The analyser of texts: what a token is.

Every option is given, so that a default that changes with the library changes no answer.
"""

from __future__ import annotations

from typing import Any

import lance

from omnigraph_udfs.analysis import Analyser

__all__ = ["ANALYSER", "ANALYSER_NAME"]

_OPTIONS: dict[str, Any] = {
    "base_tokenizer": "simple",
    "language": "English",
    "max_token_length": 40,
    "lower_case": True,
    "custom_stop_words": None,
    "ascii_folding": True,
}


def _terms(text: str) -> list[str]:
    return [token.text for token in lance.tokenize(text, stem=True, remove_stop_words=True, **_OPTIONS)]


def _words(text: str) -> list[str]:
    return [token.text for token in lance.tokenize(text, stem=False, remove_stop_words=False, **_OPTIONS)]


ANALYSER = Analyser(terms=_terms, words=_words)
"""The one analyser of stored text and of query text."""

ANALYSER_NAME = f"lance {lance.__version__}"
"""Identifies the analyser of tokens; another release of the library may split texts in another way."""
