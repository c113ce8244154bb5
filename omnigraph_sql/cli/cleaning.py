"""`ogsql cleanup`: remove old versions and what interrupted writers left."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import announce, graph_uri, usage_error
from omnigraph_sql.cli.confirming import confirm
from omnigraph_sql.cli.failures import warning_lines
from omnigraph_sql.cli.tabulating import Column, write_table
from omnigraph_sql.engines.limits import parse_duration, shown_size
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph import connect
from omnigraph_sql.maintenance.cleanup import CleanupStat

_COLUMNS = (
    Column("table", whole=True),
    Column("versions", right=True),
    Column("branches", right=True),
    Column("files", right=True),
    Column("size", right=True),
)


@dataclass(frozen=True)
class Order:
    """What is to be kept, and whether the rest is to go."""

    keep: int | None
    older_than: timedelta | None
    confirmed: bool


def age(text: str | None) -> timedelta | None:
    """The value of --older-than."""
    try:
        return None if text is None else timedelta(seconds=parse_duration(text))
    except BadRequest as error:
        raise usage_error(f"--older-than: {error.message}; write a number with a unit, for example 12h or 7d") from None


def run(uri: str | None, store: str | None, order: Order, *, yes: bool, quiet: bool, as_json: bool) -> int:
    """Remove what is not kept and say what it was; unless that is confirmed, only say what would go."""
    place = graph_uri(uri, store)
    if order.keep is None and order.older_than is None:
        raise usage_error("say what to keep: --keep N, --older-than TIME, or both")
    if order.confirmed:
        confirm(place, "remove old versions for good", yes=yes, as_json=as_json)
    # Looking needs no right to write, and recovers nothing.
    with connect(place, read_only=not order.confirmed) as graph, _warned():
        announce(graph.uri, quiet=quiet or not order.confirmed)
        stats = graph.cleanup(order.keep, order.older_than, dry_run=not order.confirmed)
        if as_json:
            entries = [each.to_dict() for each in stats]
            output.write_json({"uri": graph.uri, "removed": order.confirmed, "tables": entries})
        else:
            _show(stats, confirmed=order.confirmed)
    return 1 if any(each.error is not None for each in stats) else 0


@contextmanager
def _warned() -> Iterator[None]:
    """Say warnings as this program does."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        output.write_styled(warning_lines(str(each.message)), sys.stderr)


def _show(stats: Sequence[CleanupStat], *, confirmed: bool) -> None:
    found = [each for each in stats if not each.is_empty]
    if found:
        write_table(_COLUMNS, [_cells(each) for each in found])
    for each in found:
        if each.error is not None:
            output.write_styled([[("error", "error"), ("source", f": {each.table_key}: {each.error}")]], sys.stderr)
    size = sum(each.bytes_removed for each in stats)
    if not size:
        output.write("nothing to remove\n" if not any(each.error for each in stats) else "nothing was removed\n")
    elif confirmed:
        output.write(f"removed {shown_size(size)}\n")
    else:
        output.write(f"{shown_size(size)} would be removed; add --confirm to do it\n")


def _cells(stat: CleanupStat) -> list[str]:
    counts = (stat.versions_removed, stat.branches_removed, stat.files_removed)
    return [stat.table_key, *map(str, counts), shown_size(stat.bytes_removed)]
