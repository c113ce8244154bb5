"""Arrow without pandas: pyarrow imports pandas, where it is installed, and the commands have no use for it."""

from __future__ import annotations

import sys

from omnigraph_sql.interrupt_safe_import import import_whole


def import_arrow() -> None:
    """Import pyarrow, and let it look for pandas while pandas is hidden.

    pyarrow looks once, at its first conversion of a Python value, which could be a data frame. The values of commands are
    not, and pandas takes longer to import than everything else together. Code that asks pyarrow for a data frame afterwards
    still gets one: it looks again where it cannot go on without pandas.
    """
    if "pandas" in sys.modules:
        return
    import_whole("pyarrow")
    import pyarrow as pa

    hidden = _PandasHidden()
    sys.meta_path[:0] = [hidden]
    try:
        pa.scalar(True)
    finally:
        sys.meta_path.remove(hidden)


class _PandasHidden:
    """A finder of modules that finds no pandas, and stops the search for it."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
