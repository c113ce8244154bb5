"""Parameters of `.gq` queries, bound for one run."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from omnigraph_compiler import CompileError, Query, bind_params, ir
from omnigraph_sql.errors import BadRequest


def bind_parameters(query: Query, params: Mapping[str, Any] | None, *, ignore_unknown: bool = False) -> dict[str, Any]:
    """Check the parameters of a query and convert them to their declared types; add the instant of `now()` if it is used.

    Raises:
        BadRequest: a parameter is missing, unknown or of the wrong type.
    """
    try:
        bound = bind_params(query, params, ignore_unknown=ignore_unknown)
    except CompileError as error:
        raise BadRequest(error.message, code=error.code, hint=error.hint) from None
    if not query.uses_now:
        return bound
    now = datetime.datetime.now(datetime.UTC)
    return bound | {ir.NOW: now.replace(microsecond=now.microsecond // 1000 * 1000)}
