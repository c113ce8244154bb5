"""Tables of other databases, read with one SELECT per scan that has the columns, filter and limit pushed down."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import OmnigraphError, SourceFailed
from omnigraph_sql.foreign.filter_codec import decode_filter
from omnigraph_sql.foreign.model import ForeignRead, RemoteStatement
from omnigraph_sql.foreign.predicate_evaluation import filter_batch
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan, columnless_batch
from omnigraph_sql.runtime.execution import engine_call
from omnigraph_sql.sqltext.predicates import Predicate, columns_of
from omnigraph_sql.sqltext.remote_select import RemoteQuery, RemoteTableRef, remote_count, remote_select


class DatabaseSession(Protocol):
    """A connection to another database, for one statement."""

    def run(self, sql: str) -> Any:
        """Run a statement; return an iterable of batches with a `schema`."""

    def cancel(self) -> None:
        """Cancel the statement, from another thread."""


class Database(Protocol):
    """A remote database."""

    @property
    def kind(self) -> str:
        """The kind of the database."""

    @property
    def shown(self) -> str:
        """Its address, without passwords."""

    @property
    def infinities(self) -> Mapping[str, tuple[int, int]]:
        """The values that represent infinite dates and timestamps."""

    def session(self) -> AbstractContextManager[DatabaseSession]:
        """Open a connection for a `with` block."""

    def reason(self, error: Exception) -> str | None:
        """Return the message of an error of this database without passwords; None for other exceptions."""

    def is_down(self, error: Exception) -> bool:
        """True if the database could not be reached, so that a retry may succeed."""


class RemoteDatabaseTable:
    """A foreign table in a remote database."""

    def __init__(self, name: str, database: Database, table: RemoteTableRef, schema: pa.Schema) -> None:
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

    def dataset(self, reading: ForeignRead) -> LazyDataset:
        """Return the table as a dataset for one statement."""
        return _RemoteDataset(self, reading)

    def rows(self, columns: Sequence[str]) -> Batches:
        """Read all rows, with at least one column."""
        return _RemoteDataset(self, ForeignRead()).scanner(columns).to_batches()


@contextmanager
def source_errors(name: str, database: Database) -> Iterator[None]:
    """Translate exceptions of a database in the block into errors that name the foreign table and the source."""
    try:
        yield
    except OmnigraphError:
        raise
    except Exception as error:
        reason = database.reason(error)
        if reason is None:
            raise
        is_down = database.is_down(error)
        problem = "cannot be reached" if is_down else "gave no rows"
        hint = "see that it runs and that the address is right" if is_down else "see that the table is what it was"
        text = f"the source of the foreign table `{name}` {problem}: {database.shown}: {reason}"
        # Without a cause: exceptions of drivers contain addresses with passwords.
        raise SourceFailed(text, name=name, source=database.shown, retryable=is_down, hint=hint) from None


class _RemoteDataset(LazyDataset):
    """A remote table for one statement."""

    def __init__(self, remote: RemoteDatabaseTable, reading: ForeignRead) -> None:
        super().__init__(remote.schema)
        self._remote = remote
        self._reading = reading

    def on_planned(self, scan: LazyScan) -> None:
        if self._reading.statements is not None:
            query = self._query(scan.columns, _predicate(scan.filter))
            self._reading.statements[RemoteStatement(self._remote.name, query.sql)] = None

    def batches(self, scan: LazyScan) -> Batches:
        rows = self._rows(scan.columns, _predicate(scan.filter))
        try:
            while True:
                # The shutdown waits for reads in progress.
                with engine_call(), source_errors(self._remote.name, self._remote.database):
                    batch = next(rows, None)
                if batch is None:
                    return
                yield batch
        except OmnigraphError as error:
            self._reading.report_error(error)
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
                yield columnless_batch(sum(batch.column(0)[0].as_py() for batch in batches))
                return
            schema = pa.schema([self.schema.field(name) for name in _read(columns, predicate)])
            for batch in batches:
                self._reading.check_cancelled()
                rows = _cast(self._remote, batch, schema)
                if predicate is not None:
                    rows = filter_batch(rows, predicate)
                yield rows.select(list(columns)) if columns else columnless_batch(rows.num_rows)


def _predicate(expression: Any) -> Predicate | None:
    return None if expression is None else decode_filter(expression)


def _read(columns: Sequence[str], predicate: Predicate | None) -> list[str]:
    """Return the requested columns, and those that the predicate needs."""
    return list(dict.fromkeys([*columns, *(() if predicate is None else columns_of(predicate))]))


def _cast(remote: RemoteDatabaseTable, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to the types that the table was registered with."""
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise _error_for_value(remote, field, str(error).strip().splitlines()[0]) from error
        if _has_infinities(columns[-1], remote.database.infinities):
            raise _error_for_value(remote, field, "it is infinite")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _has_infinities(column: pa.Array, infinities: Mapping[str, tuple[int, int]]) -> bool:
    if pa.types.is_timestamp(column.type):
        numbers, values = column.view(pa.int64()), infinities["timestamp"]
    elif pa.types.is_date32(column.type):
        numbers, values = column.view(pa.int32()), infinities["date"]
    else:
        return False
    return bool(pc.any(pc.is_in(numbers, pa.array(values, numbers.type))).as_py())


def _error_for_value(remote: RemoteDatabaseTable, field: pa.Field, reason: str) -> SourceFailed:
    text = f"a value in column `{field.name}` of the foreign table `{remote.name}` is no {field.type}: {reason}"
    hint = "leave such rows out with a view at the source, or register the table again if the column was changed"
    return SourceFailed(text, name=remote.name, source=remote.shown, hint=hint)
