"""Words of the two languages, for completion."""

from __future__ import annotations

# fmt: off
GQ_KEYWORDS = (
    "as", "asc", "contains", "delete", "desc", "false", "insert", "limit", "match", "not", "order", "query", "return",
    "set", "starts_with", "true", "update", "where",
)
GQ_FUNCTIONS = (
    "avg", "bm25", "count", "date", "datetime", "fuzzy", "match_text", "max", "min", "nearest", "now", "rrf",
    "search", "sum",
)
GQ_TYPES = (
    "Blob", "Bool", "Date", "DateTime", "F32", "F64", "I32", "I64", "String", "U32", "U64", "Vector",
)
SQL_KEYWORDS = (
    "all", "and", "any", "as", "asc", "between", "by", "case", "cast", "cross", "current_date", "desc", "describe",
    "distinct", "else", "end", "except", "exists", "explain", "false", "filter", "first", "following", "from", "full",
    "group", "having", "in", "inner", "intersect", "interval", "is", "join", "last", "lateral", "left", "like",
    "limit", "natural", "not", "null", "nulls", "offset", "on", "or", "order", "outer", "over", "partition",
    "preceding", "recursive", "right", "rows", "select", "show", "similar", "tables", "then", "to", "true",
    "unbounded", "union", "unnest", "using", "values", "when", "where", "window", "with",
)
SQL_FUNCTIONS = (
    "abs", "array_agg", "array_length", "avg", "btrim", "ceil", "coalesce", "concat", "concat_ws", "count",
    "cume_dist", "date_part", "date_trunc", "dense_rank", "ends_with", "first_value", "floor", "greatest", "lag",
    "last_value", "lead", "least", "length", "ln", "log10", "lower", "lpad", "max", "median", "min", "now", "ntile",
    "nullif", "percent_rank", "power", "rank", "regexp_like", "regexp_replace", "replace", "round", "row_number",
    "rpad", "split_part", "sqrt", "starts_with", "stddev", "string_agg", "strpos", "substr", "sum", "to_timestamp",
    "trim", "upper", "variance",
)
GRAPH_FUNCTIONS = (
    "bm25", "branches", "changes", "commits", "degree", "distance", "entity_history", "expand", "gq", "history_of", "keys",
    "merge_conflicts", "nearest", "rrf", "tags",
)
# fmt: on

TABLE_WORDS = frozenset({"from", "join", "table", "describe"})
"""In SQL, a table follows one of these."""
