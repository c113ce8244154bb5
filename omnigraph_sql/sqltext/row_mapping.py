"""Mappings of source rows to tables: expressions of users, checked and assembled into statements.

Expressions are written in DuckDB's dialect. A statement is built as a tree and rendered for an engine, so nothing that a
user wrote becomes SQL without having been read as one expression first.

The statement of a mapping reads one relation, `RAW_ROWS`, with these columns:

- `AT`: a number that tells rows apart and ascends in their order
- `RULE`, `COLUMN`, `VALUE`: what is wrong with a row as its source has it, null if nothing is
- the columns of the source, those with a declared type as texts

It gives the first four, and the columns of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.sqltext.text_limits import check_sql, too_deep

RAW_ROWS: Final = "source_rows"
AT: Final = "__at"
RULE: Final = "__rule"
COLUMN: Final = "__column"
VALUE: Final = "__value"
SYSTEM: Final = (AT, RULE, COLUMN, VALUE)
WRITTEN: Final = "duckdb"
"""The dialect in which mappings are written."""
MappingDialect = Literal["duckdb", "spark"]
ROW_HINT: Final = "an expression fails on a row; TRY_CAST gives null where CAST fails, and try_strptime where strptime does"
_TYPED: Final = "typed_rows"
_FIT: Final = "__fit"
_VALUES: Final = "__values"
_WHOLE: Final = r"^ *[+-]?[0-9]+ *\z"
_FRACTION: Final = (
    r"^ *[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?) *\z"
)
_DAY: Final = r"^ *[0-9]{4}-[0-9]{1,2}-[0-9]{1,2} *\z"
_CLOCK: Final = r"[ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
_TIME: Final = rf"^[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}({_CLOCK})?\z"
_FORMS: Final = (
    (exp.DataType.INTEGER_TYPES - {exp.DType.BIT}, _WHOLE),
    (exp.DataType.FLOAT_TYPES, _FRACTION),
    ({exp.DType.DATE}, _DAY),
    ({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ}, _TIME),
)
"""The notation of numbers, dates and times. DuckDB would round 3.5 and read 0x10, 1_000, 2024/1/5; Spark 1.5d and 2024."""
_REFUSED: Final[tuple[tuple[type[Any], str], ...]] = (
    (exp.Query, "a query"),
    (exp.Window, "a window function"),
    (exp.AggFunc, "an aggregate"),
    (exp.UDTF, "a function that gives several rows"),
    (exp.Explode, "a function that gives several rows"),
    (exp.Star, "a star"),
    (exp.Placeholder, "a parameter"),
    (exp.Parameter, "a parameter"),
)


@dataclass(frozen=True)
class Keep:
    """Deduplication: which of several rows with the same values is kept."""

    by: tuple[str, ...]
    """The columns of the table that identify a row."""
    order: str | None
    """An expression over the columns of the source; among equals, and without it, the order of the rows decides."""
    last: bool


@dataclass(frozen=True)
class RowMapping:
    """A mapping from the rows of a source to those of a table."""

    columns: Mapping[str, str]
    """The columns of the table, each an expression over the columns of the source."""
    texts: frozenset[str] = frozenset()
    """Columns of the table that are always cast to text: ids."""
    where: str | None = None
    keep: Keep | None = None
    tells_flaws: bool = True
    """True if faulty rows are returned as well. One of several mappings of a source is enough."""

    @property
    def expressions(self) -> list[str]:
        optional = (self.where, None if self.keep is None else self.keep.order)
        return [*self.columns.values(), *(expression for expression in optional if expression is not None)]


def check_expression(text: str) -> list[str]:
    """Return the columns that an expression reads; raise unless the text is one expression over one row."""
    return list(dict.fromkeys(column.parts[0].name for column in _parsed(text).find_all(exp.Column)))


def check_type(text: str) -> str:
    """Return an SQL type in canonical form; raise if the text is no type."""
    check_sql(text, "a type")
    try:
        return exp.DataType.build(text, dialect=WRITTEN).sql(WRITTEN)
    except RecursionError:
        raise too_deep("a type") from None
    except SqlglotError:
        raise BadRequest(f"`{text}` is no type of SQL", hint="write one of DuckDB's types, as BIGINT or DATE") from None


def columns_read(mapping: RowMapping) -> list[str]:
    """Return the source columns that a mapping reads."""
    return list(dict.fromkeys(name for text in mapping.expressions for name in check_expression(text)))


def mapped_sql(
    mapping: RowMapping,
    columns: Sequence[str],
    declared: Mapping[str, str],
    dialect: MappingDialect,
    *,
    pretty: bool = False,
) -> str:
    """Return the statement of a mapping. `columns` are the columns of the source, `declared` the types of some of them."""
    select = exp.select(*(_name(name) for name in SYSTEM))
    for name, text in mapping.columns.items():
        value = _parsed(text)
        select = select.select(exp.alias_(exp.cast(value, "TEXT") if name in mapping.texts else value, name, quoted=True))
    select = select.from_(_source(columns, declared))
    is_sound = _name(RULE).is_(exp.null())
    if mapping.where is not None:
        is_wanted = exp.paren(_parsed(mapping.where))
        select = select.where(exp.or_(exp.not_(is_sound), is_wanted) if mapping.tells_flaws else is_wanted)
    if not mapping.tells_flaws:
        select = select.where(is_sound)
    if mapping.keep is not None:
        select = _deduplicated(select, mapping, mapping.keep)
    return select.sql(dialect, pretty=pretty)


def json_columns_sql(columns: Sequence[str], line: str, relation: str) -> str:
    """DuckDB: JSON lines as rows of `RAW_ROWS`. A line that is no object is faulty; values are texts."""
    text = _name(line)
    is_valid, kind = exp.func("json_valid", text), exp.func("json_type", text)
    # A CASE, because AND evaluates both sides, and `json_type` fails on a text that is no JSON.
    is_object = _case(is_valid, exp.EQ(this=kind, expression=exp.Literal.string("OBJECT")), exp.false())
    is_fit = exp.and_(_name(RULE).is_(exp.null()), exp.func("coalesce", is_object, exp.false()))
    is_bad = exp.and_(_name(RULE).is_(exp.null()), exp.not_(_name(_FIT)))
    # All values in one call, because each call parses the whole line. It must not see invalid JSON, on which it fails.
    paths = exp.array(*(exp.Literal.string(_pointer(name)) for name in columns))
    values = _case(_name(_FIT), exp.func("json_extract_string", text, paths), exp.null())
    checked = exp.select("*", exp.alias_(is_fit, _FIT, quoted=True)).from_(_table(relation))
    read = exp.select("*", exp.alias_(values if columns else exp.null(), _VALUES, quoted=True))
    rows = exp.select(
        _name(AT),
        exp.alias_(_case(is_bad, exp.Literal.string("json"), _name(RULE)), RULE, quoted=True),
        _name(COLUMN),
        exp.alias_(_case(is_bad, text, _name(VALUE)), VALUE, quoted=True),
    ).from_(read.from_(checked.subquery("checked_lines")).subquery("read_lines"))
    for place, name in enumerate(columns, 1):
        value = exp.func("list_extract", _name(_VALUES), exp.Literal.number(place), dialect="duckdb")
        rows = rows.select(exp.alias_(value, name, quoted=True))
    return rows.sql("duckdb")


def _pointer(name: str) -> str:
    """Return the JSON pointer of a member of an object."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _deduplicated(select: exp.Select, mapping: RowMapping, keep: Keep) -> exp.Select:
    by = [_parsed(mapping.columns[name]) for name in keep.by]
    # A row without a key, or a faulty one, is a group of its own: it must be reported.
    alone = exp.or_(exp.not_(_name(RULE).is_(exp.null())), *(exp.paren(key.copy()).is_(exp.null()) for key in by))
    order = [] if keep.order is None else [exp.Ordered(this=_parsed(keep.order), desc=keep.last, nulls_first=False)]
    order.append(exp.Ordered(this=_name(AT), desc=keep.last, nulls_first=False))
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[*by, _case(alone, _name(AT), exp.null())],
        order=exp.Order(expressions=order),
    )
    ranked = select.select(exp.alias_(rank, "__rank", quoted=True))
    names = [_name(name) for name in (*SYSTEM, *mapping.columns)]
    first = exp.EQ(this=_name("__rank"), expression=exp.Literal.number(1))
    return exp.select(*names).from_(ranked.subquery("ranked_rows")).where(first).order_by(_name(AT))


def _source(columns: Sequence[str], declared: Mapping[str, str]) -> exp.Expr:
    """Return the relation with values of the declared types; a text that cannot be converted makes the row faulty."""
    raw = _table(RAW_ROWS)
    types = {name: kind for name, kind in declared.items() if name in columns}
    if not types:
        return raw
    casts = {name: _try_cast(_name(name), kind) for name, kind in types.items()}
    wrong = {name: exp.and_(exp.not_(_name(name).is_(exp.null())), casts[name].is_(exp.null())) for name in types}
    flawed = exp.and_(_name(RULE).is_(exp.null()), exp.or_(*(condition.copy() for condition in wrong.values())))
    which = exp.Case(ifs=[exp.If(this=wrong[name].copy(), true=exp.Literal.string(name)) for name in types])
    value = exp.Case(ifs=[exp.If(this=wrong[name].copy(), true=_name(name)) for name in types])
    read = exp.select(
        _name(AT),
        exp.alias_(_case(flawed, exp.Literal.string("type"), _name(RULE)), RULE, quoted=True),
        exp.alias_(_case(flawed.copy(), which, _name(COLUMN)), COLUMN, quoted=True),
        exp.alias_(_case(flawed.copy(), value, _name(VALUE)), VALUE, quoted=True),
    )
    for name in columns:
        read = read.select(exp.alias_(casts.get(name, _name(name)), name, quoted=True))
    return read.from_(raw).subquery(_TYPED)


def _try_cast(value: exp.Expr, kind: str) -> exp.Expr:
    """Convert a text to a type; null if it is invalid. The notation is checked here, because engines differ in it."""
    wanted = exp.DataType.build(kind, dialect=WRITTEN)
    # `safe`, or Spark's cast would fail where DuckDB's gives null.
    cast = exp.TryCast(this=value, to=wanted, safe=True)
    form = next((form for kinds, form in _FORMS if wanted.this in kinds), None)
    if form is None:
        return cast
    return _case(exp.RegexpLike(this=value, expression=exp.Literal.string(form)), cast, exp.null())


def _table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _case(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=then.copy())], default=otherwise.copy())


def _name(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _parsed(text: str) -> exp.Expr:
    check_sql(text, "an expression")
    try:
        parsed = Dialect.get_or_raise(WRITTEN).parse_into(exp.Condition, text)
        expressions = [expression for expression in parsed if expression is not None]
    except RecursionError:
        raise too_deep("an expression") from None
    except SqlglotError:
        raise BadRequest(f"`{text}` is not an expression of SQL", hint=_HINT) from None
    if len(expressions) != 1:
        raise BadRequest(f"`{text}` is {'several expressions' if expressions else 'empty'}", hint=_HINT)
    tree: exp.Expr = expressions[0]
    for kind, named in _REFUSED:
        if tree.find(kind) is not None:
            raise BadRequest(f"`{text}` holds {named}", hint=_HINT)
    return tree


_HINT: Final = "write one expression over the columns of one source row, in DuckDB's SQL"
