"""Kernels that build and rearrange adjacency arrays."""

from __future__ import annotations

from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["distinct_counts", "distinct_fill", "merge_fill", "scatter", "tally", "union_counts", "union_fill"]


@kernel
def tally(keys: Ints, counts: Ints) -> None:
    """Count the occurrences of each key."""
    for i in range(len(keys)):
        counts[keys[i]] += 1


@kernel
def scatter(keys: Ints, values: Ints, tags: Ints, cursor: Ints, out_values: Ints, out_tags: Ints) -> None:
    """Write each value and its tag to the next free place of its key, in order."""
    for i in range(len(keys)):
        key = keys[i]
        place = cursor[key]
        cursor[key] = place + 1
        out_values[place] = values[i]
        out_tags[place] = tags[i]


@kernel
def distinct_counts(offsets: Ints, targets: Ints, counts: Ints) -> None:
    """Count the distinct targets of each row; the targets of a row are sorted."""
    for row in range(len(offsets) - 1):
        count = 0
        for i in range(offsets[row], offsets[row + 1]):
            if i == offsets[row] or targets[i] != targets[i - 1]:
                count += 1
        counts[row] = count


@kernel
def distinct_fill(offsets: Ints, targets: Ints, out: Ints) -> None:
    """Write the distinct targets of each row, row by row."""
    place = 0
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            if i == offsets[row] or targets[i] != targets[i - 1]:
                out[place] = targets[i]
                place += 1


@kernel
def merge_fill(
    offsets: Ints,
    targets: Ints,
    edges: Ints,
    new_offsets: Ints,
    new_targets: Ints,
    new_edges: Ints,
    out_targets: Ints,
    out_edges: Ints,
) -> None:
    """Merge two adjacencies row by row; for equal targets the old edge, which has the lower number, comes first."""
    place = 0
    for row in range(len(new_offsets) - 1):
        i, stop = offsets[row], offsets[row + 1]
        j, new_stop = new_offsets[row], new_offsets[row + 1]
        while i < stop or j < new_stop:
            if j == new_stop or (i < stop and targets[i] <= new_targets[j]):
                out_targets[place] = targets[i]
                out_edges[place] = edges[i]
                i += 1
            else:
                out_targets[place] = new_targets[j]
                out_edges[place] = new_edges[j]
                j += 1
            place += 1


@kernel
def union_counts(
    offsets: Ints, targets: Ints, edges: Ints, in_offsets: Ints, in_targets: Ints, in_edges: Ints, counts: Ints
) -> None:
    """Count the edges that leave or enter each vertex; a self-loop counts once."""
    for row in range(len(counts)):
        i, stop = offsets[row], offsets[row + 1]
        j, in_stop = in_offsets[row], in_offsets[row + 1]
        count = (stop - i) + (in_stop - j)
        while i < stop and j < in_stop:
            if targets[i] == in_targets[j] and edges[i] == in_edges[j]:
                count -= 1
                i += 1
                j += 1
            elif targets[i] < in_targets[j] or (targets[i] == in_targets[j] and edges[i] < in_edges[j]):
                i += 1
            else:
                j += 1
        counts[row] = count


@kernel
def union_fill(
    offsets: Ints,
    targets: Ints,
    edges: Ints,
    in_offsets: Ints,
    in_targets: Ints,
    in_edges: Ints,
    out_targets: Ints,
    out_edges: Ints,
) -> None:
    """Write the edges that leave or enter each vertex, sorted by the other end and edge; a self-loop once."""
    place = 0
    for row in range(len(offsets) - 1):
        i, stop = offsets[row], offsets[row + 1]
        j, in_stop = in_offsets[row], in_offsets[row + 1]
        while i < stop or j < in_stop:
            both = i < stop and j < in_stop
            same = both and targets[i] == in_targets[j] and edges[i] == in_edges[j]
            outgoing = j == in_stop or (
                both and (targets[i] < in_targets[j] or (targets[i] == in_targets[j] and edges[i] <= in_edges[j]))
            )
            if outgoing:
                out_targets[place] = targets[i]
                out_edges[place] = edges[i]
                i += 1
                if same:
                    j += 1
            else:
                out_targets[place] = in_targets[j]
                out_edges[place] = in_edges[j]
                j += 1
            place += 1
