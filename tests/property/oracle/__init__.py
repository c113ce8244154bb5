"""The language in plain Python: what a read query means, computed with dicts and loops.

Deliberately slow and without any plan: a match tries every entity for every variable, and each rule of the language is one
short function. It parses and checks queries with the compiler, but takes nothing else from it, neither plans nor resolved
names. What the language leaves open raises `Unspecified`.
"""

from tests.property.oracle.answers import Answer, disagreement
from tests.property.oracle.embedding import Embedder
from tests.property.oracle.evaluate import evaluate
from tests.property.oracle.graph import Entity, OracleGraph
from tests.property.oracle.undecided import TooLarge, Undecided, Unspecified

__all__ = [
    "Answer",
    "Embedder",
    "Entity",
    "OracleGraph",
    "TooLarge",
    "Undecided",
    "Unspecified",
    "disagreement",
    "evaluate",
]
