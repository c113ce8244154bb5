"""The project file of a command: `--config FILE`, or the nearest `omnigraph.yaml`."""

from __future__ import annotations

import sys
from pathlib import Path

from omnigraph_sql.cli import output
from omnigraph_sql.cli.failures import warning_lines
from omnigraph_sql.errors import NotFound, OmnigraphError
from omnigraph_sql.graph import Graph
from omnigraph_sql.project import Project, find_project, load_project


def project_of(config: str | None) -> Project | None:
    """The project that was asked for, or the nearest, if there is one."""
    if config is not None:
        return load_project(Path(config))
    try:
        return find_project()
    except NotFound:
        return None


def use_for(graph: Graph, project: Project | None, statement: str) -> None:
    """Use a project for one statement: sources that it does not name are left alone, whatever state they are in."""
    if project is None:
        return
    graph.use_queries(*project.queries)
    for table in project.foreign:
        if table.name.lower() in statement.lower():
            graph.register(table.name, table.source, **table.options)


def use_all(graph: Graph, project: Project | None) -> None:
    """Use a project for a session; what is wrong with a source is said, and the session goes on without it."""
    if project is None:
        return
    graph.use_queries(*project.queries)
    for table in project.foreign:
        try:
            graph.register(table.name, table.source, **table.options)
        except OmnigraphError as error:
            output.write_styled(
                warning_lines(f"the foreign table `{table.name}` is left out: {error.message}", error.hint), sys.stderr
            )
