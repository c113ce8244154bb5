"""`ogsql diff`: what differs between two states of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.target import graph_and_two_words, reading

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.diff import DiffOptions
    from omnigraph_sql.history.diff import ChangeSet


def run(options: DiffOptions) -> int:
    """Print the changes from one state to another."""
    uri, start, end = graph_and_two_words(options.words, options.store, "START", "END")
    with reading(uri) as graph:
        changes = graph.diff(
            start,
            end,
            kinds=options.kinds or None,
            types=options.types or None,
            ops=options.ops or None,
            images=not options.no_values,
        )
    if options.as_json or options.format_ == "json":
        output.write_json({"start": start, "end": end} | changes.to_dict())
    elif options.format_ == "markdown":
        _write_markdown(start, end, changes)
    else:
        _write_text(changes)
    return 0


def _write_text(changes: ChangeSet) -> None:
    from omnigraph_sql.cli.change_lines import change_lines, summary

    output.write_styled(change_lines(changes.changes))
    output.write_styled([("bold", f"* {key}")] for key in _relations(changes))
    blank = "\n" if changes.changes or _relations(changes) else ""
    output.write(f"{blank}{summary(changes.stats)}\n")


def _write_markdown(start: str, end: str, changes: ChangeSet) -> None:
    from omnigraph_sql.cli.change_lines import markdown_rows, summary

    lines = [f"## Changes from `{start}` to `{end}`", "", f"{summary(changes.stats)}.", ""]
    if changes.changes:
        lines += [*markdown_rows(changes.changes), ""]
    if _relations(changes):
        lines += [f"Changed beside the graph: {', '.join(f'`{key}`' for key in _relations(changes))}.", ""]
    output.write("\n".join(lines))


def _relations(changes: ChangeSet) -> list[str]:
    """The relational tables, views and schemas that differ; types are told by their changes."""
    return [key for key in changes.tables_changed if not key.startswith(("node:", "edge:"))]
