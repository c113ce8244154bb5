"""Enforcing the constraints of relational tables on rows that are about to be written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import KeyConflict, OmnigraphError, ValidationFailed
from omnigraph_sql.graph.staged_rows import ROW_NUMBER
from omnigraph_sql.graph.write_targets import StatementContext, WriteTarget
from omnigraph_sql.manifest.table_rules import TableConstraint, TableRules
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.writes.checks.findings import AT
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.checks.validation import complete_tuples

_NONE = pa.array([], pa.uint64())


def check_rows(context: StatementContext, target: WriteTarget, rows: TableRows, gone: pa.Array = _NONE) -> None:
    """Raise if incoming rows break a constraint. The rows at the addresses `gone` are replaced or removed."""
    rules = target.rules
    if rows.num_rows == 0:
        return
    check_conditions(context, target.table_key, rules, rows)
    for key in rules.unique_keys():
        _check_input(target.table_key, key, rows)
        if target.table.entry is not None and target.table.entry.row_count > len(gone):
            _check_existing(context, target, key, rows, gone)


def check_whole(context: StatementContext, table_key: str, rules: TableRules, rows: TableRows) -> None:
    """Raise if the rows of a whole table break a constraint."""
    check_conditions(context, table_key, rules, rows)
    for key in rules.unique_keys():
        _check_input(table_key, key, rows)


def check_conditions(context: StatementContext, table_key: str, rules: TableRules, rows: TableRows) -> None:
    """Raise if a row does not satisfy a check; one whose condition is unknown does. Also raises if a check cannot be run."""
    for constraint in rules.checks():
        assert constraint.check is not None
        with context.staged(rows) as staged:
            condition = context.translated(constraint.check)
            number = quoted(ROW_NUMBER)
            text = f"SELECT {number} AS n FROM {staged} AS t WHERE NOT ({condition}\n) ORDER BY {number} LIMIT 1"
            try:
                failing = context.run(text).to_arrow().column(0)
            except OmnigraphError as error:
                error.message = f"the check `{constraint.name}`: {error.message}"
                error.args = (error.message,)
                raise
        if len(failing):
            message = f"row {failing[0].as_py() + 1} of {table_key} breaks the check `{constraint.name}`"
            raise ValidationFailed(message, table_key=table_key, rule="check", hint=f"it is {constraint.check.sql}")


def _check_input(table_key: str, key: TableConstraint, rows: TableRows) -> None:
    """Raise if two incoming rows have the same key."""
    repeated = first_repeated(rows, key.columns)
    if repeated is not None:
        raise _conflict(table_key, key, rows, repeated)


def first_repeated(rows: TableRows, columns: tuple[str, ...]) -> int | None:
    """The number of a row whose key an earlier one has; None if there is none."""
    table = complete_tuples(rows.table([*columns, AT]), columns)
    counted = table.group_by(list(columns)).aggregate([(AT, "min"), (AT, "max")])
    twice = counted.filter(pc.not_equal(counted.column(f"{AT}_min"), counted.column(f"{AT}_max")))
    return int(pc.min(twice.column(f"{AT}_max")).as_py()) if twice.num_rows else None


def _check_existing(
    context: StatementContext, target: WriteTarget, key: TableConstraint, rows: TableRows, gone: pa.Array
) -> None:
    """Raise if a row of the table that stays has the key of an incoming one."""
    with context.staged(rows) as staged:
        matches = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key.columns)
        text = (
            f'SELECT t."_rowaddr" AS a, s.{quoted(ROW_NUMBER)} AS n FROM {target.sql()} AS t JOIN {staged} AS s ON {matches}'
        )
        both = context.run(text).to_arrow()
    if both.num_rows == 0:
        return
    stays = np.isin(both.column("a").to_numpy(), gone.to_numpy(zero_copy_only=False), invert=True)
    if stays.any():
        raise _conflict(target.table_key, key, rows, int(both.column("n").to_numpy()[stays].min()))


def _conflict(table_key: str, key: TableConstraint, rows: TableRows, number: int) -> KeyConflict | ValidationFailed:
    table = rows.table([*key.columns, AT])
    row = table.filter(pc.equal(table.column(AT), number)).to_pylist()[0]
    value = ", ".join(shown(row[name]) for name in key.columns)
    names = ", ".join(key.columns)
    text = f"row {number + 1} of {table_key} repeats ({names}) = ({value}), which `{key.name}` allows once"
    hint = "update the row that exists, with MERGE INTO or ON CONFLICT"
    if key.kind == "primary key":
        return KeyConflict(text, table_key=table_key, id=value, hint=hint)
    return ValidationFailed(text, table_key=table_key, rule="unique", hint=hint)
