"""Readers of load data: lines of JSON records, and tables of any kind, as batches of table rows.

Both readers stream, check shape and types, fill in defaults and ids, and leave the rules that need more than one value
(enumerations, ranges, uniqueness, endpoints, cardinality) to validation.
"""

from omnigraph_sql.writes.readers.csv_files import TableOptions, table_options
from omnigraph_sql.writes.readers.model import Origin, Origins, ReaderLimits, Reject, TableBatch
from omnigraph_sql.writes.readers.records import read_records
from omnigraph_sql.writes.readers.streams import PlacedTable, PlacedTables
from omnigraph_sql.writes.readers.tables import check_table, read_tables, type_named

__all__ = [
    "Origin",
    "Origins",
    "PlacedTable",
    "PlacedTables",
    "ReaderLimits",
    "Reject",
    "TableBatch",
    "TableOptions",
    "check_table",
    "read_records",
    "read_tables",
    "table_options",
    "type_named",
]
