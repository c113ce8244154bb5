"""Reports of the rejected rows of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.writes.load.rejects import Rejects, check_target

if TYPE_CHECKING:
    from omnigraph_sql.pipeline.plan import PipelinePlan


def check_report(plan: PipelinePlan) -> None:
    """Raise `Configuration` if the report of rejected rows cannot be written to `rejects.to`. Creates nothing."""
    rule = plan.pipeline.rejects
    if rule is None:
        return
    try:
        check_target(rule.to, inputs=_inputs(plan), makes_parents=True)
    except BadRequest as error:
        raise _misplaced(plan, error.message, error.hint) from None


def planned_rejects(plan: PipelinePlan) -> Rejects | None:
    """Return the collector of rejected rows of a run, or None. Creates missing directories."""
    rule = plan.pipeline.rejects
    if rule is None:
        return None
    check_report(plan)
    try:
        if rule.to is not None:
            rule.to.parent.mkdir(parents=True, exist_ok=True)
        return Rejects(rule.to, rule.limit, "rejects.max", inputs=_inputs(plan))
    except BadRequest as error:
        raise _misplaced(plan, error.message, error.hint) from None
    except OSError as error:
        text = f"the directory {error.filename} cannot be created: {error.strerror}"
        raise _misplaced(plan, text, "name another file") from None


def _inputs(plan: PipelinePlan) -> list[str]:
    return [str(plan.pipeline.path), *(path for source in plan.sources.values() for path in source.files)]


def _misplaced(plan: PipelinePlan, text: str, hint: str | None) -> Configuration:
    return Configuration(f"{plan.pipeline.path}: `rejects.to`: {text}", what="rejects.to", hint=hint)
