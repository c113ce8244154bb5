"""The rows that callers give for relational tables: streams of any origin, fitted to the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import BadRequest, OmnigraphError, ValidationFailed
from omnigraph_sql.writes.checks.pending_graph import TableRows


def opened_rows(data: Any) -> pa.RecordBatchReader:
    """The rows of a caller as a stream. Raises for what has none."""
    if isinstance(data, pa.Table):
        return data.to_reader()
    if not isinstance(data, pa.RecordBatchReader) and not hasattr(data, "__arrow_c_stream__"):
        message = f"a {type(data).__name__} is not a table"
        raise BadRequest(message, hint="give an Arrow table, a data frame, or anything with an Arrow C stream")
    try:
        reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
    except Exception as error:
        raise _unreadable(data, error) from error
    return pa.RecordBatchReader.from_batches(reader.schema, _batches(data, reader))


def _batches(data: Any, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a caller's stream; one that breaks off is a `BadRequest`."""
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except OmnigraphError:
            raise
        except Exception as error:
            raise _unreadable(data, error) from error
        yield batch


def _unreadable(data: Any, error: Exception) -> BadRequest:
    return BadRequest(
        f"the rows of a {type(data).__name__} cannot be read: {error}", hint="give data that can be read to its end"
    )


def fitted_rows(reader: pa.RecordBatchReader, wanted: pa.Schema) -> pa.RecordBatchReader:
    """Rows with the columns of a table, matched by name; missing ones are null."""
    unknown = [name for name in reader.schema.names if name not in wanted.names]
    missing = [field.name for field in wanted if field.name not in reader.schema.names and not field.nullable]
    if unknown:
        hint = f"the columns are {', '.join(wanted.names)}"
        raise BadRequest(f"the table has no column `{unknown[0]}`", hint=hint)
    if missing:
        raise BadRequest(f"the column `{missing[0]}` is missing, and it cannot be null")

    def batches() -> Any:
        for batch in reader:
            columns = [_column(batch, field) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    return pa.RecordBatchReader.from_batches(wanted, batches())


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    try:
        return column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadRequest(f"the column `{field.name}` takes {field.type}: {error}", hint="cast the column") from None


def check_keys(key: str, rows: TableRows, keys: Sequence[str]) -> None:
    """Raise if columns do not identify each of the rows."""
    unknown = [name for name in keys if name not in rows.schema.names]
    if unknown or not keys:
        text = f"there is no column `{unknown[0]}` to be a key" if unknown else "an upsert needs at least one key"
        raise BadRequest(text, hint=f"the columns are {', '.join(rows.schema.names)}")
    table = rows.table(list(keys))
    for name in keys:
        if table.column(name).null_count:
            raise ValidationFailed(f"the key `{name}` of {key} is null", table_key=key, rule="key")
    counted = table.group_by(list(keys)).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
    if repeated.num_rows:
        row = repeated.slice(0, 1).to_pylist()[0]
        value = ", ".join(str(row[name]) for name in keys)
        raise ValidationFailed(f"two rows for {key} have the key `{value}`", table_key=key, rule="key")
