"""Plots of the query benchmark, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.contest import Result
from bench.measure import Sample
from bench.peers import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"omnigraph": "#1f6f8b", "duckdb": "#e0a526", "ladybug": "#b5483a", "datafusion": "#8a8a8a"}


def bars(title: str, results: list[Result], file: Path) -> None:
    """Plot a group of bars for each workload, with a bar for each system that has times."""
    from matplotlib.figure import Figure

    names = list(results[0].outcomes)
    height = 0.8 / len(names)
    figure = Figure(figsize=(9, 1.1 + 0.6 * len(results)), layout="constrained")
    axes = figure.add_subplot()
    for position, name in enumerate(names):
        for row, result in enumerate(results):
            outcome = result.outcomes[name]
            if isinstance(outcome, Sample):
                low, high = outcome.spread
                axes.barh(
                    row + (position - (len(names) - 1) / 2) * height,
                    outcome.median,
                    height,
                    color=_COLOURS[name],
                    label=SYSTEMS[name].title,
                    xerr=[[max(outcome.median - low, 0)], [max(high - outcome.median, 0)]],
                    error_kw={"lw": 0.8},
                )
    axes.set_yticks(np.arange(len(results)), [result.workload.title for result in results])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds, median and quartiles")
    axes.set_title(title)
    handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    axes.legend(handles.values(), handles.keys(), fontsize="small")
    _save(figure, file)


def growth(results_by_size: dict[int, list[Result]], file: Path) -> None:
    """Plot the time of each workload by the number of persons."""
    from matplotlib.figure import Figure

    first = next(iter(results_by_size.values()))
    columns = 4
    rows = -(-len(first) // columns)
    figure = Figure(figsize=(11, 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    for panel, position in zip(panels, range(len(panels)), strict=True):
        if position >= len(first):
            panel.set_axis_off()
            continue
        for name in first[position].outcomes:
            timed = [(size, results[position].outcomes[name]) for size, results in results_by_size.items()]
            points = [(size, sample.median) for size, sample in timed if isinstance(sample, Sample)]
            panel.plot(*zip(*points, strict=True), "o-", color=_COLOURS[name], label=SYSTEMS[name].title) if points else None
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(first[position].workload.title, fontsize="x-small")
    panels[0].legend(fontsize="x-small")
    figure.supxlabel("persons")
    figure.supylabel("milliseconds")
    _save(figure, file)


def lines(title: str, label: str, points: dict[str, list[tuple[int, float]]], file: Path) -> None:
    """Plot milliseconds by size, with a line for each operation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for name, values in points.items():
        axes.plot(*zip(*values, strict=True), "o-", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_ylabel("milliseconds, median")
    axes.set_title(title)
    axes.legend(fontsize="small")
    _save(figure, file)


def _save(figure: Figure, file: Path) -> None:
    """Save a figure with texts as texts; equal numbers give equal files."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "omnigraph"}):
        figure.savefig(file, metadata={"Date": None})
