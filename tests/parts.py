"""Makes every load behave as if it were far larger than memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from omnigraph_sql.writes.load import spool


@contextmanager
def in_parts() -> Iterator[None]:
    """No row stays in memory, and what is checked is divided into parts of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "BUDGET", 0)
        patch.setattr(spool, "PART_BYTES", 64)
        yield
