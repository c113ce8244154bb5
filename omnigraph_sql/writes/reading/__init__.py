"""Readers of load data: lines of JSON records, and tables of any kind, as batches of table rows.

Both readers stream, check shape and types, fill in defaults and ids, and leave the rules that need more than one value
(enumerations, ranges, uniqueness, endpoints, cardinality) to validation.
"""

from omnigraph_sql.writes.reading.model import Limits, Reject, TableBatch
from omnigraph_sql.writes.reading.records import read_records
from omnigraph_sql.writes.reading.tables import read_tables, type_named

__all__ = ["Limits", "Reject", "TableBatch", "read_records", "read_tables", "type_named"]
