"""`ogsql pipeline`: runs of pipelines, and what they would do."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from omnigraph_sql.cli import output
from omnigraph_sql.cli.addressing import announce, usage_error
from omnigraph_sql.cli.confirming import confirm
from omnigraph_sql.cli.tabulating import count
from omnigraph_sql.pipeline import Plan, load_pipeline, make_plan, run_pipeline
from omnigraph_sql.pipeline import validate as validate_pipeline
from omnigraph_sql.pipeline.engines import Progress


@dataclass(frozen=True, slots=True)
class Order:
    """Which pipeline, and how."""

    file: str
    engine: str
    branch: str | None
    key: str | None
    master: str | None = None


def run(order: Order, *, yes: bool, actor: str | None, quiet: bool, as_json: bool) -> int:
    """Everything or nothing."""
    if order.master is not None and order.engine != "spark":
        raise usage_error("--master is for the engine spark")
    pipeline = load_pipeline(order.file)
    branch = order.branch or pipeline.branch
    if pipeline.mode == "overwrite":
        confirm(pipeline.graph, f"replace rows on the branch {branch}", yes=yes, as_json=as_json)
    announce(pipeline.graph, branch, quiet=quiet)
    progress = _Shown(quiet=quiet or as_json)
    report = run_pipeline(
        pipeline,
        engine=order.engine,
        branch=order.branch,
        key=order.key,
        master=order.master,
        actor=actor,
        progress=progress.tell,
    )
    if as_json:
        output.write_json(report.to_dict())
    else:
        output.write(report.to_text())
    return 0


def validate(order: Order, *, as_json: bool) -> int:
    """Check everything but the rows."""
    plan = validate_pipeline(order.file, engine=order.engine, branch=order.branch, key=order.key)
    if as_json:
        output.write_json({"valid": True, "unchecked": list(plan.unchecked), **plan.to_dict()})
    else:
        sources, targets, tests = len(plan.sources), len(plan.targets), len(plan.pipeline.tests)
        output.write(f"valid: {count(sources, 'source')}, {count(targets, 'target')}, {count(tests, 'test')}\n")
        for name in plan.unchecked:
            form = plan.sources[name].source.format
            output.write(f"not checked: the source {name} ({form}), its columns, and the expressions that read it\n")
    return 0


def plan(order: Order, *, as_json: bool) -> int:
    """Show what a run would do."""
    found: Plan = make_plan(order.file, engine=order.engine, branch=order.branch, key=order.key)
    if as_json:
        output.write_json(found.to_dict())
    else:
        output.write(found.to_text())
    return 0


class _Shown:
    """Tells on standard error what a run has come to: each stage once, and rows now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._said: tuple[str, str] | None = None
        self._rows = 0

    def tell(self, what: Progress) -> None:
        """Write a line if there is something new."""
        if self._quiet:
            return
        said = (what.stage, what.detail)
        is_step = what.rows is not None and what.rows >= self._rows + _STEP
        if said == self._said and not is_step:
            return
        if said != self._said:
            self._rows = 0
        if what.rows is not None:
            self._rows = what.rows
        self._said = said
        words = [what.stage, *([what.detail] if what.detail else []), *([f"{what.rows} rows"] if what.rows else [])]
        output.write_styled([[("help", "stage"), ("source", f": {' '.join(words)}")]], sys.stderr)


_STEP = 1_000_000
