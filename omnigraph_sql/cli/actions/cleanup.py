"""`ogsql cleanup`: remove old versions and what interrupted writers left."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.arrow_import import import_arrow
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.errors import warning_lines
from omnigraph_sql.cli.tables import TableColumn, write_table
from omnigraph_sql.cli.target import announce, graph_uri, usage_error
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.runtime.limits import shown_size

if TYPE_CHECKING:
    from omnigraph_sql.maintenance.cleanup import CleanupStat

_COLUMNS = (
    TableColumn("table", whole=True),
    TableColumn("versions", right=True),
    TableColumn("branches", right=True),
    TableColumn("files", right=True),
    TableColumn("size", right=True),
)


@dataclass(frozen=True)
class CleanupArguments:
    """The versions to keep, and whether to remove the others."""

    keep: int | None
    older_than: timedelta | None
    confirmed: bool


def age(text: str | None) -> timedelta | None:
    """The value of --older-than."""
    from omnigraph_sql.maintenance.retention import age as read_age

    try:
        return None if text is None else read_age("older_than", text)
    except BadRequest as error:
        raise usage_error(f"--older-than: {error.message}; write a number with a unit, for example 12h or 7d") from None


def run(uri: str | None, store: str | None, arguments: CleanupArguments, *, yes: bool, quiet: bool, as_json: bool) -> int:
    """Remove old versions and report them; without confirmation report what would be removed."""
    place = graph_uri(uri, store)
    if arguments.keep is None and arguments.older_than is None:
        raise usage_error("say what to keep: --keep N, --older-than TIME, or both")
    if arguments.confirmed:
        confirm(place, "remove old versions for good", yes=yes, as_json=as_json)
    import_arrow()
    from omnigraph_sql.graph import connect

    # Looking needs no right to write, and recovers nothing.
    with connect(place, read_only=not arguments.confirmed) as graph, _warned():
        announce(graph.uri, quiet=quiet or not arguments.confirmed)
        stats = graph.cleanup(arguments.keep, arguments.older_than, dry_run=not arguments.confirmed)
        if as_json:
            entries = [stat.to_dict() for stat in stats]
            output.write_json({"uri": graph.uri, "removed": arguments.confirmed, "tables": entries})
        else:
            _show(stats, confirmed=arguments.confirmed)
    return 1 if any(stat.error is not None for stat in stats) else 0


@contextmanager
def _warned() -> Iterator[None]:
    """Print Python warnings in the style of the command line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        output.write_styled(warning_lines(str(warning.message)), sys.stderr)


def _show(stats: Sequence[CleanupStat], *, confirmed: bool) -> None:
    changed = [stat for stat in stats if not stat.is_empty]
    if changed:
        write_table(_COLUMNS, [_cells(stat) for stat in changed])
    for stat in changed:
        if stat.error is not None:
            output.write_styled([[("error", "error"), ("source", f": {stat.table_key}: {stat.error}")]], sys.stderr)
    size = sum(stat.bytes_removed for stat in stats)
    if not size:
        output.write("nothing to remove\n" if not any(stat.error for stat in stats) else "nothing was removed\n")
    elif confirmed:
        output.write(f"removed {shown_size(size)}\n")
    else:
        output.write(f"{shown_size(size)} would be removed; add --confirm to do it\n")


def _cells(stat: CleanupStat) -> list[str]:
    counts = (stat.versions_removed, stat.branches_removed, stat.files_removed)
    return [stat.table_key, *map(str, counts), shown_size(stat.bytes_removed)]
