"""Options of tables: the format of CSV files, and the treatment of columns that are not properties."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean, listing
from omnigraph_sql.errors import BadRequest

CSV_OPTIONS: Final = ("delimiter", "quote", "escape", "header", "names", "encoding", "null")
"""The same as of CSV sources in pipelines."""
_CHARACTERS: Final = ("delimiter", "quote", "escape")


@dataclass(frozen=True)
class TableOptions:
    """The options of the tables of a load."""

    csv: Mapping[str, Any] = field(default_factory=dict)
    skips_extra: bool = False
    """True if columns that are no properties are passed over."""

    @property
    def is_default(self) -> bool:
        """True if all options have their defaults."""
        return not self.csv and not self.skips_extra


def table_options(csv: object, extra_columns: object) -> TableOptions:
    """Options of a load, checked. Raises `BadRequest`."""
    if extra_columns not in ("refuse", "skip"):
        raise BadRequest(f"extra_columns is {extra_columns!r}", hint='give "refuse" or "skip"')
    if not isinstance(csv, Mapping | None):
        raise BadRequest(f"csv is a value of the type {type(csv).__name__}", hint='give a mapping: {"delimiter": ";"}')
    options = dict(csv or {})
    for name, value in options.items():
        _check_option(name, value)
    if options.get("header") is False and "names" not in options:
        raise BadRequest("a CSV file without a header needs the option `names`", hint="list the names of its columns")
    return TableOptions(options, extra_columns == "skip")


def _check_option(name: object, value: object) -> None:
    if name not in CSV_OPTIONS:
        raise BadRequest(
            f"`{name}` is no option of CSV files", hint=did_you_mean(str(name), CSV_OPTIONS) or listing(CSV_OPTIONS)
        )
    is_fit = isinstance(value, str)
    wanted = "a text"
    if name == "header":
        is_fit, wanted = isinstance(value, bool), "True or False"
    elif name in ("names", "null"):
        is_fit = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        wanted = "a list of texts"
    elif name in _CHARACTERS:
        is_fit = isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n"
        wanted = "one character of ASCII"
    elif isinstance(value, str):
        is_fit, wanted = _is_encoding(value), "the name of an encoding, as utf-8 or latin-1"
    if not is_fit:
        raise BadRequest(f"the CSV option `{name}` is {value!r}", hint=f"give {wanted}")


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def open_csv(
    path: Path, columns: Iterable[str], options: Mapping[str, Any], leave_out: Callable[[int, int, int], None]
) -> pa.RecordBatchReader:
    """The rows of a file; `columns` are read as texts. A row of the wrong width is reported with its number and left out."""
    import pyarrow.csv as pv

    above = 0 if "names" in options and not options.get("header", False) else 1

    def wrong(row: Any) -> str:
        leave_out(row.number - above, row.actual_columns, row.expected_columns)
        return "skip"

    return pv.open_csv(
        path,
        read_options=pv.ReadOptions(
            use_threads=False,  # rows are numbered only when one thread reads them
            encoding=options.get("encoding", "utf8"),
            column_names=list(options["names"]) if "names" in options else None,
            skip_rows=1 if "names" in options and above else 0,
        ),
        parse_options=pv.ParseOptions(
            delimiter=options.get("delimiter", ","),
            quote_char=options.get("quote", '"'),
            escape_char=options.get("escape", False),
            newlines_in_values=True,
            invalid_row_handler=wrong,
        ),
        convert_options=pv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=list(options.get("null", [""])),
        ),
    )
