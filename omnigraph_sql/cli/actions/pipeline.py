"""`ogsql pipeline`: run, validate and plan pipelines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph_sql.choices import PipelineEngineName
from omnigraph_sql.cli import output
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.errors import warning_lines
from omnigraph_sql.cli.projects import project_checks
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import announce, usage_error
from omnigraph_sql.errors import OmnigraphWarning
from omnigraph_sql.pipeline import PipelinePlan, load_pipeline, make_plan, run_pipeline
from omnigraph_sql.pipeline import validate as validate_pipeline
from omnigraph_sql.pipeline.engines import Progress


@dataclass(frozen=True, slots=True)
class PipelineArguments:
    """A pipeline file and the options that override it."""

    file: str
    engine: PipelineEngineName | None
    branch: str | None
    key: str | None
    master: str | None = None


def run(arguments: PipelineArguments, *, yes: bool, actor: str | None, quiet: bool, as_json: bool) -> int:
    """Run a pipeline and publish its targets in one commit."""
    if arguments.master is not None and arguments.engine == "local":
        raise usage_error("--master is for the engine spark")
    pipeline = load_pipeline(arguments.file)
    branch = arguments.branch or pipeline.branch
    if pipeline.mode == "overwrite":
        confirm(pipeline.graph, f"replace rows on the branch {branch}", yes=yes, as_json=as_json)
    announce(pipeline.graph, branch, quiet=quiet)
    progress = _Shown(quiet=quiet or as_json)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmnigraphWarning)  # the report has them, too
        report = run_pipeline(
            pipeline,
            engine=arguments.engine,
            branch=arguments.branch,
            key=arguments.key,
            master=arguments.master,
            actor=actor,
            progress=progress.tell,
            checks=project_checks(pipeline.graph),
        )
    _warn(report.warnings)
    if as_json:
        output.write_json(report.to_dict())
    else:
        output.write(report.to_text())
    return 0


def validate(arguments: PipelineArguments, *, as_json: bool) -> int:
    """Validate a pipeline without reading rows."""
    plan = validate_pipeline(arguments.file, engine=arguments.engine, branch=arguments.branch, key=arguments.key)
    _warn(plan.warnings)
    if as_json:
        output.write_json({"valid": True, "unchecked": list(plan.unchecked), **plan.to_dict()})
    else:
        sources, targets, tests = len(plan.sources), len(plan.targets), len(plan.pipeline.tests)
        output.write(f"valid: {count(sources, 'source')}, {count(targets, 'target')}, {count(tests, 'test')}\n")
        for name in plan.unchecked:
            form = plan.sources[name].source.format
            output.write(f"not checked: the source {name} ({form}), its columns, and the expressions that read it\n")
    return 0


def plan(arguments: PipelineArguments, *, as_json: bool) -> int:
    """Print the plan of a run."""
    pipeline_plan: PipelinePlan = make_plan(
        arguments.file, engine=arguments.engine, branch=arguments.branch, key=arguments.key
    )
    if as_json:
        output.write_json(pipeline_plan.to_dict())
    else:
        output.write(pipeline_plan.to_text())
    return 0


def _warn(texts: Iterable[str]) -> None:
    for text in texts:
        output.write_styled(warning_lines(text), sys.stderr)


class _Shown:
    """Progress on standard error: each stage once, and row counts from time to time."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._said: tuple[str, str] | None = None
        self._rows = 0

    def tell(self, what: Progress) -> None:
        """Write a line for a new stage, or after many rows."""
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
