"""The data of the search benchmark: documents with a text, a vector and a bucket, the same on every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SCHEMA = "node Doc { k: String @key  text: String  bucket: I32  v: Vector(64) }"
DOCUMENTS = 200_000
BUCKETS = 1000
DIMENSION = 64
_WORDS = 20_000
_TOPICS = 200
_LETTERS = np.array(list("bcdfghjklmnprstvz"))
_VOWELS = np.array(list("aeiou"))


@dataclass(frozen=True)
class Question:
    """The arguments of one query."""

    vector: npt.NDArray[np.float32]
    text: str
    bucket: int


@dataclass(frozen=True)
class Documents:
    table: pa.Table
    questions: list[Question]


def generate(count: int, questions: int) -> Documents:
    """Generate texts of 20 to 60 words by Zipf's law, one of them of the topic, and vectors around the centres of topics."""
    random = np.random.default_rng(11)
    words = _words(random)
    frequency = 1 / np.arange(1, _WORDS + 1) ** 0.9
    lengths = random.integers(20, 60, count)
    flat = words[random.choice(_WORDS, int(lengths.sum()), p=frequency / frequency.sum())]
    topics = random.integers(0, _TOPICS, count)
    ends = np.cumsum(lengths)
    flat[ends - 1] = words[500 + topics]
    texts = [" ".join(flat[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    centres = random.standard_normal((_TOPICS, DIMENSION))
    vectors = (centres[topics] + random.standard_normal((count, DIMENSION))).astype(np.float32)
    table = pa.table(
        {
            "k": pa.array([f"doc-{number:07}" for number in range(count)]),
            "text": pa.array(texts),
            "bucket": pa.array(random.integers(0, BUCKETS, count), pa.int32()),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
    )
    generated = []
    for topic in random.integers(0, _TOPICS, questions):
        near = centres[topic] + random.standard_normal(DIMENSION) * 0.7
        text = " ".join([words[500 + topic], words[random.integers(20, 200)], words[random.integers(200, 5000)]])
        generated.append(Question(near.astype(np.float32), text, int(random.integers(0, BUCKETS))))
    return Documents(table, generated)


def _words(random: np.random.Generator) -> npt.NDArray[np.object_]:
    """Return words that the analyser does not change: they end in a digit, so none is stemmed, and none is a stop word."""
    syllables = np.char.add(_LETTERS[random.integers(0, 17, (_WORDS, 3))], _VOWELS[random.integers(0, 5, (_WORDS, 3))])
    joined = np.char.add(np.char.add(syllables[:, 0], syllables[:, 1]), syllables[:, 2])
    return np.char.add(joined, np.arange(_WORDS).astype(str)).astype(object)
