"""Generated scripts of statements that both DuckDB and a graph understand, and DuckDB as the judge of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb

TYPES = (
    "integer",
    "bigint",
    "double",
    "varchar",
    "decimal(8, 2)",
    "date",
    "boolean",
    "smallint",
    "utinyint",
    "float",
    "timestamp",
    "time",
)
NUMBERS = ("integer", "bigint", "double", "decimal(8, 2)")
CONVERTED = 0.07
"""How often a value has another type than its column."""


@dataclass
class ScriptMaker:
    """Makes statements at random, about few tables and few values, so that they meet."""

    random: random.Random
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    """Columns with their types, by table: what the statements so far would leave if all of them succeeded."""

    def statements(self, count: int) -> Iterator[str]:
        """A script."""
        for _ in range(count):
            weights = {
                self._create: 3 if len(self.tables) < 3 else 1,
                self._create_as: 1,
                self._drop: 0.3,
                self._insert: 6,
                self._insert_select: 2,
                self._update: 4,
                self._update_from: 1.5,
                self._delete: 2,
                self._delete_using: 1,
                self._merge: 3,
                self._upsert: 2,
                self._upsert_rows: 1,
                self._update_pair: 1,
                self._change_default: 0.5,
                self._change_type: 0.5,
                self._add_column: 0.7,
                self._drop_column: 0.5,
                self._rename_column: 0.5,
                self._truncate: 0.2,
            }
            if not self.tables:
                yield self._create()
                continue
            (make,) = self.random.choices(list(weights), list(weights.values()))
            yield make()

    # Values

    def _pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    def _table(self) -> str:
        return self._pick(sorted(self.tables))

    def _value(self, kind: str) -> str:
        if self.random.random() < 0.12:
            return "null"
        number = self.random.randint(-2, 6)
        match kind:
            case "varchar":
                return f"'{self.random.choice('abcd')}'"
            case "double":
                return f"cast({number}.5 as double)"
            case "decimal(8, 2)":
                return f"cast({number}.25 as decimal(8, 2))"
            case "date":
                return f"date '2020-01-0{abs(number) + 1}'"
            case "boolean":
                return self.random.choice(("true", "false"))
            case "float":
                return f"cast({number}.25 as real)"
            case "timestamp":
                return f"timestamp '2020-01-0{abs(number) + 1} 12:00:0{abs(number)}'"
            case "time":
                return f"cast('12:00:0{abs(number)}' as time)"
        return str(number)

    def _some_value(self, kind: str) -> str:
        """A value that is not null: DuckDB takes a null for a column that is NOT NULL if the row conflicts."""
        while (value := self._value(kind)) == "null":
            pass
        return value

    def _default(self, kind: str) -> str:
        """A default that fits its column: DuckDB takes others too, and fails when a row gets them."""
        return "1" if kind == "utinyint" else self._value(kind)

    def _kind(self, kind: str) -> str:
        """The type of the values that a statement writes to a column."""
        return self.random.choice(TYPES) if self.random.random() < CONVERTED else kind

    def _condition(self, alias: str, columns: dict[str, str]) -> str:
        name = self._pick(list(columns))
        column = f"{alias}.{name}"
        return self._pick(
            [
                f"{column} is null",
                f"{column} is not null",
                f"{column} = {self._value(columns[name])}",
                f"{column} <> {self._value(columns[name])}",
                f"{column} >= {self._value(columns[name])}" if columns[name] != "boolean" else f"{column}",
                f"not ({column} = {self._value(columns[name])})",
            ]
        )

    def _expression(self, alias: str, name: str, kind: str) -> str:
        column = f"{alias}.{name}"
        if kind in ("integer", "bigint", "double") and self.random.random() < 0.5:
            return f"{column} + {self.random.randint(1, 2)}"
        if kind == "varchar" and self.random.random() < 0.4:
            return f"upper({column})"
        return self._value(self._kind(kind))

    # Statements

    def _create(self) -> str:
        name = self._pick(["t1", "t2", "t3", "t4"])
        columns = {"k": "integer"} | {f"c{n}": self.random.choice(TYPES) for n in range(self.random.randint(1, 3))}
        rules = dict.fromkeys(columns, "")
        if self.random.random() < 0.6:
            rules["k"] = " primary key"
        for column in columns:
            if column != "k" and self.random.random() < 0.2:
                rules[column] = self._pick([" not null", " unique", f" default {self._default(columns[column])}"])
        if self.random.random() < 0.3:
            rules["k"] += " check (k < 6)"
        listed = ", ".join(f"{column} {kind}{rules[column]}" for column, kind in columns.items())
        words = self._pick(["create table", "create table if not exists", "create or replace table"])
        if words != "create table if not exists" or name not in self.tables:
            self.tables[name] = columns
        return f"{words} {name} ({listed})"

    def _create_as(self) -> str:
        name, source = self._pick(["t1", "t2", "t3", "t4"]), self._table()
        columns = dict(self.tables[source])
        self.tables[name] = columns
        return f"create or replace table {name} as select * from {source} s where {self._condition('s', columns)}"

    def _drop(self) -> str:
        name = self._table()
        del self.tables[name]
        return f"drop table {self._pick(['', 'if exists '])}{name}"

    def _insert(self) -> str:
        name = self._table()
        columns = self.tables[name]
        chosen = [column for column in columns if column == "k" or self.random.random() < 0.8]
        kinds = [self._kind(columns[column]) for column in chosen]
        rows = [f"({', '.join(map(self._value, kinds))})" for _ in range(self.random.randint(1, 3))]
        return f"insert into {name} ({', '.join(chosen)}) values {', '.join(rows)}"

    def _insert_select(self) -> str:
        name, source = self._table(), self._table()
        common = [column for column in self.tables[name] if self.tables[source].get(column) == self.tables[name][column]]
        common = common or ["k"]
        shift = {"k": f"s.k + {self.random.randint(0, 3)}"}
        items = [shift.get(column, f"s.{column}") for column in common]
        condition = self._condition("s", self.tables[source])
        return f"insert into {name} ({', '.join(common)}) select {', '.join(items)} from {source} s where {condition}"

    def _set(self, alias: str, columns: dict[str, str]) -> str:
        name = self._pick([column for column in columns if column != "k"] or ["k"])
        return f"{name} = {self._expression(alias, name, columns[name])}"

    def _update(self) -> str:
        name = self._table()
        columns = self.tables[name]
        return f"update {name} set {self._set(name, columns)} where {self._condition(name, columns)}"

    def _update_from(self) -> str:
        name, source = self._table(), self._table()
        setting = self._set(name, self.tables[name])
        return f"update {name} set {setting} from (select distinct k from {source}) s where s.k = {name}.k"

    def _delete(self) -> str:
        name = self._table()
        return f"delete from {name} where {self._condition(name, self.tables[name])}"

    def _delete_using(self) -> str:
        name, source = self._table(), self._table()
        condition = self._condition("s", self.tables[source])
        return f"delete from {name} using {source} s where s.k = {name}.k and {condition}"

    def _merge(self) -> str:
        name, source = self._table(), self._table()
        columns = self.tables[name]
        clauses = [
            f"when matched and {self._condition('t', columns)} then update set {self._set('t', columns)}",
            f"when matched and {self._condition('t', columns)} then delete",
            "when not matched then insert (k) values (s.k)",
            f"when not matched by source and {self._condition('t', columns)} then delete",
        ]
        chosen = [clause for clause in clauses if self.random.random() < 0.6] or clauses[:1]
        grouped = f"(select k + {self.random.randint(0, 2)} as k from {source} where k is not null group by k)"
        return f"merge into {name} as t using {grouped} as s on t.k = s.k {' '.join(chosen)}"

    def _upsert(self) -> str:
        name = self._table()
        columns = self.tables[name]
        action = self._pick(["do nothing", f"do update set {self._set('excluded', columns)}"])
        row = ", ".join(map(self._some_value, columns.values()))
        return f"insert into {name} ({', '.join(columns)}) values ({row}) on conflict (k) {action}"

    def _upsert_rows(self) -> str:
        name = self._table()
        columns = self.tables[name]
        action = self._pick(["do nothing", f"do update set {self._set('excluded', columns)} where excluded.k > 1"])
        keys = self.random.sample(range(-2, 7), self.random.randint(2, 3))
        others = [kind for column, kind in columns.items() if column != "k"]
        rows = [f"({', '.join([str(key), *map(self._some_value, others)])})" for key in keys]
        names = ["k", *(column for column in columns if column != "k")]
        return f"insert into {name} ({', '.join(names)}) values {', '.join(rows)} on conflict (k) {action}"

    def _update_pair(self) -> str:
        name = self._table()
        columns = self.tables[name]
        one, two = (self.random.sample(list(columns), 2)) if len(columns) > 1 else ("k", "k")
        values = f"{self._expression(name, one, columns[one])}, {self._expression(name, two, columns[two])}"
        return f"update {name} set ({one}, {two}) = ({values}) where {self._condition(name, columns)}"

    def _change_default(self) -> str:
        name = self._table()
        column = self._pick(list(self.tables[name]))
        change = self._pick(["drop default", f"set default {self._default(self.tables[name][column])}"])
        return f"alter table {name} alter column {column} {change}"

    def _change_type(self) -> str:
        name = self._table()
        numbers = [column for column, kind in self.tables[name].items() if kind in NUMBERS and column != "k"]
        return f"alter table {name} alter column {self._pick(numbers or ['k'])} type {self.random.choice(NUMBERS)}"

    def _add_column(self) -> str:
        name = self._table()
        column, kind = self._pick(["c7", "c8"]), self.random.choice(TYPES)
        self.tables[name].setdefault(column, kind)
        return f"alter table {name} add column if not exists {column} {kind}"

    def _drop_column(self) -> str:
        name = self._table()
        column = self._pick(["c0", "c7", "c8"])
        if len(self.tables[name]) > 2:
            self.tables[name].pop(column, None)
        return f"alter table {name} drop column if exists {column}"

    def _rename_column(self) -> str:
        name = self._table()
        old, new = self._pick(["c0", "c1"]), self._pick(["c8", "c9"])
        if old in self.tables[name] and new not in self.tables[name]:
            self.tables[name] = {new if column == old else column: kind for column, kind in self.tables[name].items()}
        return f"alter table {name} rename column {old} to {new}"

    def _truncate(self) -> str:
        return f"delete from {self._table()}"


_LIMITS = (
    "an index depends on a column after it",
    "depend on it",
    "Cannot change the type of a column that has",
    "Unimplemented type for cast",
)
"""What DuckDB says where it is not able to do what is right, or refuses what happens to concern no row."""


def _is_limit(statement: str, error: str) -> bool:
    # It converts a constant also if no row matches or conflicts.
    is_conversion = "out of range for the destination type" in error or "Could not convert string" in error
    if is_conversion and (not statement.startswith("insert") or "on conflict" in statement):
        return True
    return any(limit in error for limit in _LIMITS)


class DuckDBJudge:
    """DuckDB, where each statement stands alone."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:")

    def run(self, statement: str) -> bool | None:
        """Run a statement; False if it fails, None if DuckDB is not able to run what is right."""
        try:
            self.connection.execute(statement)
        except duckdb.Error as error:
            return None if _is_limit(statement, str(error)) else False
        return True

    def tables(self) -> dict[str, list[str]]:
        """The rows of each table, sorted."""
        names = [row[0] for row in self.connection.execute("select table_name from duckdb_tables()").fetchall()]
        return {name: self._rows(name) for name in names}

    def columns(self) -> dict[str, dict[str, str]]:
        """The columns of each table."""
        text = "select table_name, column_name, lower(data_type) from duckdb_columns() where not internal"
        rows = self.connection.execute(text).fetchall()
        tables: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            tables.setdefault(table, {})[column] = "decimal(8, 2)" if kind == "decimal(8,2)" else kind
        return tables

    def _rows(self, name: str) -> list[str]:
        result = self.connection.execute(f"select * from {name}")
        columns = [column[0] for column in result.description]
        return sorted(repr(dict(zip(columns, row, strict=True))) for row in result.fetchall())

    def close(self) -> None:
        self.connection.close()
