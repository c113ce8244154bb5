"""The branches of a dataset, while others come and go."""

from __future__ import annotations

from typing import Any, Final

from omnigraph_sql.storage.faults import LANCE_ERRORS, is_absence

_TRIES: Final = 100


def branches_of(dataset: Any) -> dict[str, Any]:
    """Branches by name.

    Lance lists their files and then reads each. One that has gone in between is a reason to look again.
    """
    for _ in range(_TRIES - 1):
        try:
            return dict(dataset.branches.list())
        except LANCE_ERRORS as error:
            if not is_absence(error):
                raise
    return dict(dataset.branches.list())
