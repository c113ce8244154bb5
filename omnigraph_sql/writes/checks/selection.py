"""Check whether a decision on committed rows still holds on a later snapshot.

An update or delete rests on the rows that its statements chose. A later snapshot that shows the same rows under the same
conditions leaves the decision as it was, even if other rows have moved: the write is prepared again there. Rows that were
changed, that came or that went make it stale. An overwrite rests on its whole table. Inserts and upserts rest on nothing.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import ExpectedVersionMismatch, VersionReclaimed
from omnigraph_sql.history.equality import equal_values
from omnigraph_sql.manifest.publisher import check_expected
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.pending_graph import PROBE_KEYS, plain
from omnigraph_sql.writes.operation import Attempt, Overwrite, Selection, T, expected_pins

_WRITTEN: Final = "_row_last_updated_at_version"


def check_decision(store: GraphStore, attempt: Attempt[T], fresh: Snapshot) -> None:
    """Raise `ExpectedVersionMismatch` unless what an attempt decided holds on a later snapshot as well."""
    if attempt.prepared.head is not None:
        return  # what is bound to the head is decided anew
    pins = expected_pins(attempt)
    strict = {write.table_key for write in attempt.prepared.writes if isinstance(write, Overwrite)}
    if attempt.snapshot.incarnation != fresh.incarnation:
        strict |= {selection.table_key for selection in attempt.prepared.selections}  # versions differ by branch
    check_expected(fresh, {key: pins[key] for key in strict})
    for selection in attempt.prepared.selections:
        if attempt.snapshot.state(selection.table_key) != fresh.state(selection.table_key):
            _check_selection(store, selection, attempt.snapshot, fresh)


def _check_selection(store: GraphStore, selection: Selection, before: Snapshot, fresh: Snapshot) -> None:
    entry = fresh.entries.get(selection.table_key)
    if entry is None or _is_touched(store, selection, before.entry(selection.table_key), entry):
        key = selection.table_key
        expected, actual = before.pin(key), fresh.pin(key)
        text = f"rows of {key} that the write chose at version {expected} have changed; it is at version {actual}"
        hint = "read again and repeat the write, or allow it to be evaluated anew (retries)"
        raise ExpectedVersionMismatch(text, table_key=key, expected=expected, actual=actual, hint=hint)


def _is_touched(store: GraphStore, selection: Selection, before: Entry, now: Entry) -> bool:
    """True if a condition chooses other rows than before, or rows that were changed."""
    rows = store.storage.scan(store.storage.open(now), ["id", _WRITTEN], selection.condition).read_all()
    ids = plain(rows.column("id"))
    if len(ids) != len(selection.ids) or not pc.all(pc.is_in(ids, value_set=selection.ids), min_count=0).as_py():
        return True
    if (before.path, before.branch) != (now.path, now.branch):
        suspects = ids  # versions of two lineages cannot be compared
    else:
        # Rows that were only moved to another fragment count as written, too: their values decide.
        suspects = ids.filter(plain(pc.greater(rows.column(_WRITTEN), before.version)))
    try:
        parts = (suspects.slice(start, PROBE_KEYS) for start in range(0, len(suspects), PROBE_KEYS))
        return any(not _are_alike(store, before, now, part) for part in parts)
    except VersionReclaimed:
        return True  # what was chosen can no longer be looked at


def _are_alike(store: GraphStore, before: Entry, now: Entry, ids: pa.Array) -> bool:
    """True if rows have the same values in two versions of a table."""
    old, new = (_rows(store, entry, ids) for entry in (before, now))
    if old.schema.names != new.schema.names or old.num_rows != new.num_rows:
        return False
    return all(equal_values(plain(old.column(name)), plain(new.column(name))).all() for name in old.schema.names)


def _rows(store: GraphStore, entry: Entry, ids: pa.Array) -> pa.Table:
    rows = store.storage.scan(store.storage.open(entry), None, member_filter("id", ids)).read_all()
    return rows.sort_by("id") if rows.num_rows else rows
