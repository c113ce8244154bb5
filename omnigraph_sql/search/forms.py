"""The two forms a column takes for search: inverted lists of a text column, and the matrix of a vector column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph_sql.storage.analysis import ANALYSER, ANALYSER_NAME
from omnigraph_sql.storage.derived import Arrays
from omnigraph_udfs.segments import ROWS_PER_SLICE, Segment, build_segment, merge_segments
from omnigraph_udfs.vector import Vectors

__all__ = ["TEXT", "VECTOR", "Form"]

Part = TypeVar("Part")


@dataclass(frozen=True)
class Form(Generic[Part]):
    """How some rows of a column are made ready for search.

    Attributes:
        kind: The directory of its files.
        name: Tells files of this form from those of any other, an older one for instance.
        build: From the values, and how many there are.
        combine: From the parts of neighbouring rows.
        write: To arrays by name.
        read: From such arrays, without a copy. What does not fit together is a `KeyError` or a `ValueError`.
        size: How many rows a part has.
    """

    kind: str
    name: str
    build: Callable[[Iterator[pa.Array], int], Part]
    combine: Callable[[Sequence[Part]], Part]
    write: Callable[[Part], Arrays]
    read: Callable[[Arrays], Part]
    size: Callable[[Part], int]


def _build_text(values: Iterator[pa.Array], rows: int) -> Segment:
    """Analyses a slice at a time, so that the texts of a large column are never in memory together."""
    done: list[Segment] = []
    waiting: list[pa.Array] = []
    for array in values:
        waiting.append(array)
        if sum(map(len, waiting)) >= ROWS_PER_SLICE:
            done.append(build_segment(pa.chunked_array(waiting), ANALYSER))
            waiting = []
    if waiting or not done:
        done.append(build_segment(pa.chunked_array(waiting, pa.string()), ANALYSER))
    del rows
    return merge_segments(done)


def _build_vectors(values: Iterator[pa.Array], rows: int) -> Vectors:
    matrix, known, first = None, np.ones(rows, np.bool_), 0
    for array in values:
        if matrix is None:
            matrix = np.zeros((rows, array.type.list_size), np.float32)
        some = Vectors.of(array)
        matrix[first : first + len(some)] = some.matrix
        if some.known is not None:
            known[first : first + len(some)] = some.known
        first += len(some)
    return Vectors(np.empty((0, 0), np.float32) if matrix is None else matrix, None if known.all() else known)


def _merge_vectors(parts: Sequence[Vectors]) -> Vectors:
    marks = [np.ones(len(part), np.bool_) if part.known is None else part.known for part in parts]
    known = None if all(part.known is None for part in parts) else np.concatenate(marks)
    return Vectors(np.concatenate([part.matrix for part in parts]), known)


def _write_vectors(vectors: Vectors) -> Arrays:
    known = np.ones(len(vectors), np.uint8) if vectors.known is None else vectors.known.astype(np.uint8)
    return {"values": vectors.matrix.reshape(-1), "known": known}


def _read_vectors(arrays: Arrays) -> Vectors:
    known, values = arrays["known"], arrays["values"]
    rows = len(known)
    return Vectors(values.reshape(rows, len(values) // max(rows, 1)), None if known.all() else known.view(np.bool_))


TEXT = Form(
    "text",
    f"text 1, {ANALYSER_NAME}",
    _build_text,
    merge_segments,
    Segment.arrays,
    Segment.of_arrays,
    lambda it: it.documents,
)
VECTOR = Form("vector", "vector 1", _build_vectors, _merge_vectors, _write_vectors, _read_vectors, len)
