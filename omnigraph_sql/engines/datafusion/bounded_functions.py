"""Replacements for functions of DataFusion that amplify their input, limited by the memory of the statement.

DataFusion does not count the memory of function results, and aborts the process when an allocation fails. Functions that
return texts are replaced by ones that compute the size first; for the others, the argument that determines the size is
checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionContext, udf
from numpy.typing import NDArray

from omnigraph_sql.engines.datafusion.catalog import CatalogSession
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.runtime.execution import BATCH_ROWS, Execution, RunClock, RunSettings
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sqltext.calls import COUNTED, MOST_MULTIPLIED, multiplied, unwrapped_name, wrapped_arguments
from omnigraph_sql.sqltext.text_limits import growth_of

_COUNT = "__omnigraph_count"
_COUNTED = re.compile(rf"{_COUNT}\d")
_MOST_TEXT = (1 << 31) - 1
"""The most bytes that an Arrow array of texts can hold."""
_WIDTH = 8


def register_bounded(context: SessionContext, session: CatalogSession) -> None:
    """Register the bounded functions under the names of DataFusion's."""
    text, count = pa.string(), pa.int64()
    functions: tuple[tuple[str, Callable[..., pa.Array], list[pa.DataType], pa.DataType], ...] = (
        ("repeat", _repeat, [text, count], text),
        ("replace", _replace, [text, text, text], text),
        *((f"{_COUNT}{number}", partial(_check_counts, number), [count], count) for number in range(1, MOST_MULTIPLIED + 1)),
    )
    for name, run, kinds, result in functions:
        context.register_udf(udf(_with_execution(session, run), kinds, result, "immutable", name))


def bounded_sql(text: str) -> str:
    """Wrap the size arguments of amplifying functions in a statement, so that they are checked."""
    return wrapped_arguments(text, COUNTED, f"{_COUNT}{multiplied(text)}")


def growth(text: str) -> tuple[int, bool]:
    """How many times longer the statement may make a text of these functions, and whether it reads relations."""
    folded = text.lower()
    return growth_of(text) if "repeat" in folded or "replace" in folded else (1, False)


def column_name(name: str) -> str:
    """Return the name that a column has in the statement as the user wrote it."""
    wrapper = _COUNTED.search(name)
    return name if wrapper is None else unwrapped_name(name, wrapper[0])


def _with_execution(session: CatalogSession, run: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def call(*arguments: pa.Array) -> pa.Array:
        resolver = session.resolver
        execution = resolver.execution or Execution(RunSettings(limits=run_limits()), RunClock(None))
        try:
            execution.check_cancelled()
            return run(_Run(execution, *resolver.growth), *arguments)
        except OmnigraphError as error:
            resolver.fail(error)
            raise

    return call


@dataclass(frozen=True, slots=True)
class _Run:
    """The run of a statement, and what the statement may make of the texts of these functions."""

    execution: Execution
    growth: int
    """How many times longer a value may get by being joined to itself."""
    reads: bool
    """Whether the statement reads relations: a constant may become a value of each row."""

    def reserve_text(self, size: float, rows: int) -> None:
        """Raise if there is no memory for the texts of some rows, or if no Arrow array can hold them."""
        if size > _MOST_TEXT:
            raise self.execution.error_for_memory(int(size))
        self.execution.reserve_bytes(int(size * self.growth * (BATCH_ROWS if self.reads and rows == 1 else 1)))


def _repeat(run: _Run, texts: pa.Array, counts: pa.Array) -> pa.Array:
    counts = pc.max_element_wise(counts, 0, skip_nulls=False)
    run.reserve_text(float(np.dot(_numbers(pc.binary_length(texts)), _numbers(counts))), len(texts))
    return pc.binary_repeat(texts, counts)


def _replace(run: _Run, texts: pa.Array, olds: pa.Array, news: pa.Array) -> pa.Array:
    if len(texts) and len(olds.unique()) == 1 and len(news.unique()) == 1 and olds[0].as_py() and news[0].is_valid:
        old, new = olds[0].as_py(), news[0].as_py()
        grown = _numbers(pc.count_substring(texts, old)) * (len(new.encode()) - len(old.encode()))
        run.reserve_text(float(np.sum(_numbers(pc.binary_length(texts)) + grown)), len(texts))
        return pc.replace_substring(texts, old, new)
    replaced: list[str | None] = []
    size = 0.0
    for text, old, new in zip(texts.to_pylist(), olds.to_pylist(), news.to_pylist(), strict=True):
        if text is None or old is None or new is None:
            replaced.append(None)
            continue
        size += len(text.encode()) + (text.count(old)) * max(0, len(new.encode()) - len(old.encode()))
        run.reserve_text(size, len(texts))
        replaced.append(text.replace(old, new))
    return pa.array(replaced, pa.string())


def _check_counts(multiplied: int, run: _Run, counts: pa.Array) -> pa.Array:
    """Return the counts; raise if a batch of rows with `max(counts) ** multiplied` values each would not fit in memory."""
    most = pc.max(counts).as_py() or 0
    run.reserve_text(float(max(0, most)) ** multiplied * _WIDTH * BATCH_ROWS, 0) if most > 1 else None
    return counts


def _numbers(values: pa.Array) -> NDArray[np.float64]:
    return np.asarray(values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
