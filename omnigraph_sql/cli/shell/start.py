"""`ogsql shell`: a session on a graph, fed by a terminal or by a stream."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

from omnigraph_sql.cli.actions.query import ReadArguments
from omnigraph_sql.cli.byte_streams import standard_input
from omnigraph_sql.cli.projects import use_all
from omnigraph_sql.cli.shell import pipe
from omnigraph_sql.cli.shell.session import ShellLimits, ShellSession, ShellTarget
from omnigraph_sql.cli.target import graph_uri
from omnigraph_sql.errors import Configuration
from omnigraph_sql.graph import Graph, connect


@dataclass(frozen=True, slots=True)
class ShellArguments:
    """The initial settings of a session."""

    read: ReadArguments
    form: str

    def session(self, graph: Graph, actor: str | None, *, read_only: bool) -> ShellSession:
        """Make the session."""
        read = self.read
        return ShellSession(
            graph=graph,
            place=ShellTarget(read.branch, read.version, read.snapshot),
            params=read.params,
            limits=ShellLimits(read.timeout, read.memory),
            form=self.form,
            engine=read.engine,
            actor=actor,
            read_only=read_only,
        )


def run(
    uri: str | None,
    store: str | None,
    arguments: ShellArguments,
    *,
    read_only: bool,
    actor: str | None,
    keep_going: bool,
) -> int:
    """Run a session to its end; the result is the exit status."""
    target = graph_uri(uri, store)
    with (
        connect(target, read_only=read_only, actor=actor) as graph,
        arguments.session(graph, actor, read_only=read_only) as session,
    ):
        session.snapshot()  # a branch that does not exist is said at once
        use_all(graph)
        if sys.stdin is not None and sys.stdin.isatty():
            run_shell(session)
            return 0
        lines = io.TextIOWrapper(standard_input(), encoding="utf-8", errors="surrogateescape")
        errors = pipe.ErrorMode()
        pipe.run_input(session, lines, errors if keep_going else pipe.stop)
        return errors.status


def run_shell(session: ShellSession) -> None:
    try:
        from omnigraph_sql.cli.shell import prompt
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        text = "the shell needs prompt_toolkit, which is not installed"
        hint = 'run pip install "omnigraph-sql[shell]"; statements on standard input run without it'
        raise Configuration(text, what="prompt_toolkit", hint=hint) from None
    prompt.run_prompt(session)
