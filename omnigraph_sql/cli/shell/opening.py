"""`ogsql shell`: a session on a graph, fed by a terminal or by a stream."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import Any

from omnigraph_sql.cli.addressing import graph_uri, usage_error
from omnigraph_sql.cli.projects import project_of, use_all
from omnigraph_sql.cli.shell import piping
from omnigraph_sql.cli.shell.session import Limits, Place, Session
from omnigraph_sql.cli.streams import standard_input
from omnigraph_sql.errors import Configuration
from omnigraph_sql.graph import Graph, connect


@dataclass(frozen=True, slots=True)
class Order:
    """How a session begins."""

    params: dict[str, Any]
    branch: str
    snapshot: str | None
    version: int | None
    timeout: float | None
    memory: int | None
    form: str
    engine: str

    def session(self, graph: Graph, actor: str | None, *, read_only: bool) -> Session:
        """The session that begins so."""
        place, limits = Place(self.branch, self.version, self.snapshot), Limits(self.timeout, self.memory)
        return Session(graph, place, self.params, limits, self.form, self.engine, actor=actor, read_only=read_only)


def run(
    uri: str | None,
    store: str | None,
    order: Order,
    *,
    config: str | None,
    read_only: bool,
    actor: str | None,
    keep_going: bool,
) -> int:
    """Run a session to its end; the result is the exit status."""
    target = graph_uri(uri, store)
    if order.snapshot is not None and order.version is not None:
        raise usage_error("--snapshot and --at-version exclude each other")
    project = project_of(config)
    with (
        connect(target, read_only=read_only, actor=actor) as graph,
        order.session(graph, actor, read_only=read_only) as session,
    ):
        session.snapshot()  # a branch that does not exist is said at once
        use_all(graph, project)
        if sys.stdin is not None and sys.stdin.isatty():
            talk(session)
            return 0
        lines = io.TextIOWrapper(standard_input(), encoding="utf-8", errors="surrogateescape")
        errors = piping.KeepGoing()
        piping.obey(session, lines, errors if keep_going else piping.stop)
        return errors.status


def talk(session: Session) -> None:
    try:
        from omnigraph_sql.cli.shell import prompting
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        text = "the shell needs prompt_toolkit, which is not installed"
        hint = 'run pip install "omnigraph-sql[shell]"; statements on standard input run without it'
        raise Configuration(text, what="prompt_toolkit", hint=hint) from None
    prompting.talk(session)
