"""omnigraph-sql: a versioned, typed property graph on Lance tables."""

from omnigraph_sql import _compat, errors
from omnigraph_sql._version import __version__

__all__ = ["__version__", "errors"]

_compat.check_versions()
