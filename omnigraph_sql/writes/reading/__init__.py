"""Readers of load data: lines of JSON records, and tables of any kind, as batches of table rows.

Both readers stream, check shape and types, fill in defaults and ids, and leave the rules that need more than one value
(enumerations, ranges, uniqueness, endpoints, cardinality) to validation.
"""

from omnigraph_sql.writes.reading.model import Limits, Origin, Origins, Reject, TableBatch
from omnigraph_sql.writes.reading.records import read_records
from omnigraph_sql.writes.reading.streams import Placed, PlacedTables
from omnigraph_sql.writes.reading.tables import check_table, read_tables, type_named

__all__ = [
    "Limits",
    "Origin",
    "Origins",
    "Placed",
    "PlacedTables",
    "Reject",
    "TableBatch",
    "check_table",
    "read_records",
    "read_tables",
    "type_named",
]
