"""Tables of other databases: one SELECT per scan, with the columns, the filter and maybe the limit of the statement."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.engines.execution import calling
from omnigraph_sql.engines.foreign.checking import satisfying
from omnigraph_sql.engines.foreign.decoding import decoded
from omnigraph_sql.engines.foreign.lazy import Batches, LazyDataset, lengths
from omnigraph_sql.engines.foreign.model import Asked, Reading
from omnigraph_sql.engines.foreign.providing import provided
from omnigraph_sql.engines.foreign.views import create_object_view
from omnigraph_sql.errors import OmnigraphError, SourceFailed
from omnigraph_sql.planner.predicates import Predicate, columns_of
from omnigraph_sql.planner.remote import RemoteQuery, RemoteTable, remote_count, remote_select


class Session(Protocol):
    """A connection to another database, for one statement."""

    def run(self, sql: str) -> Any:
        """The rows of a statement, as batches; it has a `schema`, too."""

    def cancel(self) -> None:
        """Stop the statement, from another thread."""


class Database(Protocol):
    """Another database."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def shown(self) -> str:
        """Its address, without passwords."""

    @property
    def infinities(self) -> Mapping[str, tuple[int, int]]:
        """The numbers that arrive for infinite dates and timestamps."""

    def session(self) -> AbstractContextManager[Session]:
        """A connection; at the end, early or not, it is closed."""

    def reason(self, error: Exception) -> str | None:
        """What an error of it says, without passwords; None if it is not an error of it."""

    def is_down(self, error: Exception) -> bool:
        """Whether it could not be reached, which may pass."""


class Remote:
    """A foreign table in another database."""

    def __init__(self, name: str, database: Database, table: RemoteTable, schema: pa.Schema) -> None:
        self.name = name
        self.database = database
        self.table = table
        self.schema = schema
        self.last_sql: str | None = None

    @property
    def kind(self) -> str:
        return self.database.kind

    @property
    def shown(self) -> str:
        return f"{self.database.shown} table {self.table.schema}.{self.table.name}"

    def provider(self, reading: Reading) -> Any:
        reading.is_remote = True
        return provided(LazyDataset(_Scanned(self, reading)), self.name)

    def rows(self, columns: Sequence[str]) -> Batches:
        """All rows, with some columns; at least one."""
        return _Scanned(self, Reading()).batches(columns, None)

    def expose(self, connection: Any, schema: str, name: str, reading: Reading) -> None:
        create_object_view(connection, schema, name, LazyDataset(_Scanned(self, reading)))


@contextmanager
def reported(name: str, database: Database) -> Iterator[None]:
    """What a database raises inside becomes an error of our family that names the foreign table and the source."""
    try:
        yield
    except OmnigraphError:
        raise
    except Exception as error:
        reason = database.reason(error)
        if reason is None:
            raise
        is_down = database.is_down(error)
        failed = "cannot be reached" if is_down else "gave no rows"
        hint = "see that it runs and that the address is right" if is_down else "see that the table is what it was"
        text = f"the source of the foreign table `{name}` {failed}: {database.shown}: {reason}"
        # The original is left out: drivers put addresses with passwords into what they raise.
        raise SourceFailed(text, name=name, source=database.shown, retryable=is_down, hint=hint) from None


class _Scanned:
    """A remote table as one statement reads it."""

    def __init__(self, remote: Remote, reading: Reading) -> None:
        self._remote = remote
        self._reading = reading
        self.schema = remote.schema

    def planned(self, columns: Sequence[str], expression: Any) -> None:
        if self._reading.asked is not None:
            query = self._query(columns, _predicate(expression))
            self._reading.asked[Asked(self._remote.name, query.sql)] = None

    def batches(self, columns: Sequence[str], expression: Any) -> Batches:
        rows = self._rows(columns, _predicate(expression))
        try:
            while True:
                # The process waits at its end for a read that is under way.
                with calling(), reported(self._remote.name, self._remote.database):
                    batch = next(rows, None)
                if batch is None:
                    return
                yield batch
        except OmnigraphError as error:
            self._reading.failed(error)
            raise
        finally:
            rows.close()

    def _query(self, columns: Sequence[str], predicate: Predicate | None) -> RemoteQuery:
        if not columns and predicate is None:
            return remote_count(self._remote.table)
        limit = self._reading.limits.get(self._remote.name)
        return remote_select(self._remote.table, _read(columns, predicate), predicate, limit)

    def _rows(self, columns: Sequence[str], predicate: Predicate | None) -> Generator[pa.RecordBatch]:
        sql = self._remote.last_sql = self._query(columns, predicate).sql
        with self._remote.database.session() as session, self._reading.stopping(session.cancel):
            batches = session.run(sql)
            if not columns and predicate is None:
                yield lengths(sum(batch.column(0)[0].as_py() for batch in batches))
                return
            schema = pa.schema([self.schema.field(name) for name in _read(columns, predicate)])
            for batch in batches:
                self._reading.going()
                rows = _fit(self._remote, batch, schema)
                if predicate is not None:
                    rows = satisfying(rows, predicate)
                yield rows.select(list(columns)) if columns else lengths(rows.num_rows)


def _predicate(expression: Any) -> Predicate | None:
    return None if expression is None else decoded(expression)


def _read(columns: Sequence[str], predicate: Predicate | None) -> list[str]:
    """The columns that are wanted, and those that the condition is checked on."""
    return list(dict.fromkeys([*columns, *(() if predicate is None else columns_of(predicate))]))


def _fit(remote: Remote, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the types that the table was registered with."""
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise _misfit(remote, field, str(error).strip().splitlines()[0]) from error
        if _has_infinities(columns[-1], remote.database.infinities):
            raise _misfit(remote, field, "it is infinite")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _has_infinities(column: pa.Array, infinities: Mapping[str, tuple[int, int]]) -> bool:
    if pa.types.is_timestamp(column.type):
        numbers, values = column.view(pa.int64()), infinities["timestamp"]
    elif pa.types.is_date32(column.type):
        numbers, values = column.view(pa.int32()), infinities["date"]
    else:
        return False
    return bool(pc.any(pc.is_in(numbers, pa.array(values, numbers.type))).as_py())


def _misfit(remote: Remote, field: pa.Field, reason: str) -> SourceFailed:
    text = f"a value in column `{field.name}` of the foreign table `{remote.name}` is no {field.type}: {reason}"
    hint = "leave such rows out with a view at the source, or register the table again if the column was changed"
    return SourceFailed(text, name=remote.name, source=remote.shown, hint=hint)
