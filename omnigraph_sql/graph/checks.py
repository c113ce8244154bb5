"""Checks on the graph as a write will leave it: reads that must return no row, run before anything is published."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph_sql.arguments import path, shown
from omnigraph_sql.errors import BadRequest, DataTestFailed, OmnigraphError
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import RunLimits, run_limits
from omnigraph_sql.source_files import read_source
from omnigraph_sql.storage.source_files import is_path
from omnigraph_sql.store.graph_store import GraphStore

if TYPE_CHECKING:
    from omnigraph_sql.graph.queries import GraphQueries
    from omnigraph_sql.graph.sessions import SqlSessions

_SHOWN_ROWS: Final = 5
_QUERY: Final = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*query\b", re.DOTALL)
_HINT: Final = (
    'give checks by name: {"no orphans": "select … from …"}, with texts of SQL or .gq, or paths of .sql or .gq files'
)


@dataclass(frozen=True)
class DataCheck:
    """A read that must return no row."""

    name: str
    """The name in messages."""
    text: str
    """A statement of SQL, or the text of a `.gq` query."""
    is_query: bool
    """True for `.gq`."""
    query: str | None = None
    """Which query of the text; None if there is one."""


def read_checks(value: Any) -> tuple[DataCheck, ...]:
    """Checks in any form that a caller may give them. `BadRequest` for anything else."""
    if value is None:
        return ()
    if isinstance(value, DataCheck):
        return (value,)
    if isinstance(value, (str, Path)):
        return tuple(_checks(None, value))
    if isinstance(value, Mapping):
        return tuple(check for name, text in value.items() for check in _checks(_name(name), text))
    if isinstance(value, (list, tuple)):
        return tuple(check for entry in value for check in _entry(entry))
    raise BadRequest(f"`checks` takes no {type(value).__name__}", hint=_HINT)


def _entry(entry: Any) -> Iterator[DataCheck]:
    if isinstance(entry, DataCheck):
        yield entry
    else:
        yield from _checks(None, entry)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise BadRequest(f"a check is named by a text, not by {shown(name)}", hint=_HINT)
    return shown(name)


def _checks(name: str | None, text: Any) -> Iterator[DataCheck]:
    """The checks of one text or file; a file of `.gq` has one for each of its queries."""
    if not isinstance(text, (str, Path)):
        raise BadRequest(f"a check is a text or a path, not {type(text).__name__}", hint=_HINT)
    is_file = isinstance(text, Path) or is_path(text, (".gq", ".sql"))
    content = read_source(path("checks", Path(text))) if is_file else str(text)
    is_query = str(text).lower().endswith(".gq") if is_file else _QUERY.match(content) is not None
    if not content.strip():
        raise BadRequest("a check is empty", hint=_HINT)
    if not is_query:
        yield DataCheck(name or (Path(text).stem if is_file else _short(content)), content, is_query=False)
        return
    names = re.findall(r"^\s*query\s+(\w+)", content, re.MULTILINE)
    for query in names or [None]:
        label = query if name is None else name if len(names) < 2 else f"{name}: {query}"
        yield DataCheck(label or _short(content), content, is_query=True, query=query)


def _short(text: str) -> str:
    return shown(" ".join(text.split()))


class CheckRunner:
    """Runs checks on snapshots that are not published yet."""

    def __init__(self, store: GraphStore, queries: GraphQueries) -> None:
        self._store = store
        self._queries = queries

    def review(self, checks: Iterable[DataCheck]) -> Callable[[Snapshot], None] | None:
        """A function that raises `DataTestFailed` for a snapshot on which a check returns rows; None without checks."""
        chosen = tuple(checks)
        return (lambda snapshot: self._run(chosen, snapshot)) if chosen else None

    def _run(self, checks: tuple[DataCheck, ...], snapshot: Snapshot) -> None:
        from omnigraph_sql.graph.sessions import SqlSessions

        queries = self._queries.unsaved()
        with closing(SqlSessions(self._store, queries, lambda: snapshot)) as sessions:
            for check in checks:
                try:
                    rows, count = _first_rows(self._result(check, snapshot, queries, sessions, run_limits()))
                except OmnigraphError as error:
                    error.message = f"the check `{check.name}` cannot run: {error.message}"
                    raise
                if count:
                    raise _failure(check, rows, count)

    @staticmethod
    def _result(
        check: DataCheck, snapshot: Snapshot, queries: GraphQueries, sessions: SqlSessions, limits: RunLimits
    ) -> Result:
        if check.is_query:
            read = queries.request(check.text, check.query, None, lambda: snapshot, limits)
            runner = queries.engines.get("datafusion")
            return Result(read.schema, lambda: runner.start(read), graph_commit_id=snapshot.commit_id)
        from omnigraph_sql.sql.refs import StateRef

        return sessions.sql(check.text, None, StateRef(snapshot.branch), "datafusion", limits)


def _first_rows(result: Result) -> tuple[tuple[dict[str, Any], ...], int]:
    """The first rows of a result, and the number of all rows."""
    rows: list[dict[str, Any]] = []
    count = 0
    for batch in result:
        rows += batch.slice(0, _SHOWN_ROWS - len(rows)).to_pylist()
        count += batch.num_rows
    return tuple(rows), count


def _failure(check: DataCheck, rows: tuple[dict[str, Any], ...], count: int) -> DataTestFailed:
    lines = "\n".join(f"  {row}" for row in rows)
    more = f"\n  … and {count - len(rows)} more" if count > len(rows) else ""
    noun = "row" if count == 1 else "rows"
    text = f"the check `{check.name}` returned {count} {noun}; nothing was published\n{lines}{more}"
    return DataTestFailed(text, test=check.name, rows=rows, count=count, hint="correct the data or the check")


def store_review(store: GraphStore, checks: Any) -> Callable[[Snapshot], None] | None:
    """A review of an open store, for those who have no `Graph`."""
    chosen = read_checks(checks)
    if not chosen:
        return None
    from omnigraph_sql.embeddings.handle import Embeddings
    from omnigraph_sql.graph.queries import GraphQueries

    return CheckRunner(store, GraphQueries(store, Embeddings(None), saves=False)).review(chosen)
