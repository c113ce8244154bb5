"""The search structures of columns: inverted lists of a text column, and the matrix of a vector column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph_sql.storage.analysis import ANALYSER, ANALYSER_NAME
from omnigraph_sql.storage.derived_files import Arrays
from omnigraph_udfs.checks import require_type
from omnigraph_udfs.segments import ROWS_PER_SLICE, Segment, build_segment, merge_segments
from omnigraph_udfs.vector import Vectors

__all__ = ["TEXT", "VECTOR", "SearchForm"]

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class SearchForm(Generic[Part]):
    """Functions that build, combine, store and load the search structure of rows of a column.

    Attributes:
        kind: The directory of its files.
        name: The name and version of the form, part of the keys of its files.
        build: Builds a part from values and their number.
        combine: Merges parts of adjacent rows.
        write: Converts a part to arrays by name.
        read: Converts such arrays to a part, without copying. Raises `KeyError` or `ValueError` for invalid arrays.
        size: Returns the number of rows of a part.
    """

    kind: str
    name: str
    build: Callable[[Iterator[pa.Array], int], Part]
    combine: Callable[[Sequence[Part]], Part]
    write: Callable[[Part], Arrays]
    read: Callable[[Arrays], Part]
    size: Callable[[Part], int]


def _build_text(values: Iterator[pa.Array], rows: int) -> Segment:
    """Build a segment slice by slice, so that the texts of a large column are never all in memory."""
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
    matrix, valid, first = None, np.ones(rows, np.bool_), 0
    for array in values:
        if matrix is None:
            matrix = np.zeros((rows, array.type.list_size), np.float32)
        part = Vectors.of(array)
        matrix[first : first + len(part)] = part.matrix
        if part.valid is not None:
            valid[first : first + len(part)] = part.valid
        first += len(part)
    return Vectors(np.empty((0, 0), np.float32) if matrix is None else matrix, None if valid.all() else valid)


def _merge_vectors(parts: Sequence[Vectors]) -> Vectors:
    marks = [np.ones(len(part), np.bool_) if part.valid is None else part.valid for part in parts]
    valid = None if all(part.valid is None for part in parts) else np.concatenate(marks)
    return Vectors(np.concatenate([part.matrix for part in parts]), valid)


def _write_vectors(vectors: Vectors) -> Arrays:
    valid = np.ones(len(vectors), np.uint8) if vectors.valid is None else vectors.valid.astype(np.uint8)
    return {"values": vectors.matrix.reshape(-1), "known": valid}


def _read_vectors(arrays: Arrays) -> Vectors:
    valid, values = require_type(arrays["known"], np.uint8), require_type(arrays["values"], np.float32)
    rows = len(valid)
    if int(valid.max(initial=0)) > 1:
        raise ValueError("the validity of a vector is neither 0 nor 1")
    return Vectors(values.reshape(rows, len(values) // max(rows, 1)), None if valid.all() else valid.view(np.bool_))


TEXT = SearchForm(
    kind="text",
    name=f"text 1, {ANALYSER_NAME}",
    build=_build_text,
    combine=merge_segments,
    write=Segment.arrays,
    read=Segment.of_arrays,
    size=lambda segment: segment.documents,
)
VECTOR = SearchForm(
    kind="vector",
    name="vector 1",
    build=_build_vectors,
    combine=_merge_vectors,
    write=_write_vectors,
    read=_read_vectors,
    size=len,
)
