"""A shell session: a graph, its current state and settings. It runs statements and writes results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_sql.cli import output
from omnigraph_sql.cli.actions import mutate
from omnigraph_sql.cli.actions import query as querying
from omnigraph_sql.cli.query_input import QuerySource
from omnigraph_sql.cli.result_writer import write_rows
from omnigraph_sql.cli.shell.screen import Screen
from omnigraph_sql.cli.shell.statements import ShellStatement, split, tokens
from omnigraph_sql.cli.shell.write_statements import may_write, run_write
from omnigraph_sql.cli.source_files import load_text, located, rejections
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph import Graph
from omnigraph_sql.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from omnigraph_sql.graph.transactions import Transaction

ENGINES = ("datafusion", "duckdb")
_DEEPEST = 16
_SHORT_COMMIT = 10


class ShellExit(Exception):
    """The session is over."""


@dataclass(frozen=True)
class ShellTarget:
    """The state of the graph that statements are about."""

    branch: str = "main"
    version: int | None = None
    commit: str | None = None

    @property
    def is_now(self) -> bool:
        """True for the head of a branch, the only state that can be changed."""
        return self.version is None and self.commit is None

    def __str__(self) -> str:
        if self.commit is not None:
            return f"@{self.commit}"
        return self.branch if self.version is None else f"{self.branch}@{self.version}"

    @property
    def short(self) -> str:
        """For the prompt: of a commit only as much as tells it from its neighbours."""
        return str(self) if self.commit is None else f"@{self.commit[:_SHORT_COMMIT]}"


@dataclass(frozen=True)
class ShellLimits:
    """The limits of a statement."""

    timeout: float | None = None
    memory: int | None = None


class _Watch:
    """A stopwatch that also stops on errors."""

    seconds = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


@dataclass(kw_only=True)
class ShellSession:
    """The state of a session between statements."""

    graph: Graph
    place: ShellTarget = ShellTarget()
    params: dict[str, Any] = field(default_factory=dict)
    limits: ShellLimits = ShellLimits()
    form: str = "table"
    engine: str = "datafusion"
    actor: str | None = None
    """Who is recorded as the author of mutations."""
    read_only: bool = False
    times: bool = False
    screen: Screen = field(default_factory=Screen)
    history: Callable[[], Sequence[str]] = tuple
    """The earlier input, oldest first."""
    transaction: Transaction | None = None
    """What `begin` began and no `commit` or `rollback` has ended."""
    _depth: int = 0

    def __enter__(self) -> ShellSession:
        return self

    def __exit__(self, *_: object) -> None:
        if self.transaction is not None:
            self.transaction.rollback()
        self.screen.close()

    @property
    def prompt(self) -> str:
        """The prompt: the graph and its current state."""
        name = os.path.basename(self.graph.uri.rstrip("/")) or self.graph.uri
        return f"{name} {self.place.short}{'' if self.transaction is None else '*'}> "

    def run_text(self, text: str, path: str) -> None:
        """Run all statements of a text; a last one need not be ended."""
        pieces = split(text)
        for statement in (*pieces.complete, *([] if pieces.rest is None else [pieces.rest])):
            self.run(statement, path)

    def run_file(self, path: str) -> None:
        """Run the statements of a file."""
        if self._depth >= _DEEPEST:
            raise BadRequest(f"files include each other more than {_DEEPEST} deep", hint=f"the last one was `{path}`")
        text = load_text(os.path.expanduser(path))
        self._depth += 1
        try:
            self.run_text(text, path)
        finally:
            self._depth -= 1

    def run(self, statement: ShellStatement, path: str) -> None:
        """Run one statement; errors name its place in `path`."""
        if statement.kind == "command":
            from omnigraph_sql.cli.shell.commands import run_command

            run_command(self, statement.text)
            return
        watch, waited = _Watch(), self.screen.waited
        with self.screen.showing(), watch:
            self._answer(statement, path)
        if self.times:
            output.write(f"time: {_duration(watch.seconds - (self.screen.waited - waited))}\n")

    def explain(self, statement: ShellStatement, path: str, *, analyze: bool) -> None:
        """Show how a statement runs."""
        if statement.kind == "gq":
            source = QuerySource(statement.placed, path)
            with rejections(path):
                query = parse_queries(source.text).queries[0]
            arguments = self._arguments(source, self._declared(query))
            with located(path), self.screen.showing():
                output.write(
                    f"{self.graph.explain(arguments.source.text, analyze=analyze, **arguments.keywords()).render()}\n"
                )
            return
        words = "explain analyze" if analyze else "explain"
        arguments = self._arguments(QuerySource(f"{words} {statement.text}", path), self._mentioned(statement.text))
        with querying.start_sql(self.graph, arguments) as result, self.screen.showing():
            write_rows(result, "table")

    def snapshot(self) -> Snapshot:
        """The tables as the session's place shows them."""
        return self.graph.snapshot(branch=self.place.branch, version=self.place.version, commit=self.place.commit)

    def _answer(self, statement: ShellStatement, path: str) -> None:
        if (
            statement.kind == "sql"
            and may_write(statement.text, is_open=self.transaction is not None)
            and run_write(self, statement.text, path, self._mentioned(statement.text))
        ):
            return
        if statement.kind == "sql":
            arguments = self._arguments(QuerySource(statement.text, path), self._mentioned(statement.text))
            with querying.start_sql(self.graph, arguments) as result:
                write_rows(result, self.form)
            return
        source = QuerySource(statement.placed, path)
        with rejections(path):
            (query,) = parse_queries(source.text).queries
        if isinstance(query.body, ast.Write):
            self._mutate(source, query)
            return
        if self.transaction is not None:
            with located(path):
                write_rows(self.transaction.query(source.text, None, self._declared(query)), self.form)
            return
        with located(path), querying.start_query(self.graph, self._arguments(source, self._declared(query))) as result:
            write_rows(result, self.form)

    def _mutate(self, source: QuerySource, query: ast.Query) -> None:
        name = query.name.text
        self.require_writable(f"`{name}` is a mutation")
        with located(source.path):
            if self.transaction is not None:
                done = self.transaction.mutate(source.text, None, self._declared(query))
            else:
                done = self.graph.mutate(source.text, None, self._declared(query), branch=self.place.branch)
        if self.form == "table":
            mutate.write_summary(done)
        else:
            about = {"uri": self.graph.uri, "branch": self.place.branch, "query_name": name}
            output.write_json(mutate.document(done, self.actor, **about))

    def require_writable(self, what: str) -> None:
        """Raise unless the session may change the state it is at."""
        if self.read_only:
            raise BadRequest(f"{what}, and the shell only reads", hint="open it without --read-only")
        if not self.place.is_now:
            raise BadRequest(f"{self.place} is a state of the past, which nobody can change", hint="go back with `\\at now`")

    def go_to(self, place: ShellTarget) -> None:
        """Change the state that statements are about."""
        if self.transaction is not None:
            raise BadRequest(f"a transaction on {self.place} is open", hint="end it with COMMIT or ROLLBACK")
        self.place = place

    def _arguments(self, source: QuerySource, params: Mapping[str, Any]) -> querying.QueryArguments:
        place, limits = self.place, self.limits
        return querying.QueryArguments(
            source=source,
            params=dict(params),
            branch=place.branch,
            snapshot=place.commit,
            version=place.version,
            timeout=limits.timeout,
            memory=limits.memory,
            engine=self.engine,
        )

    def _declared(self, query: ast.Query) -> dict[str, Any]:
        """The parameters that a query declares: others are there for other statements.

        One that is not set counts as null. Where a similar name is set that the query does not know, it was misspelt.
        """
        names = {param.variable.text for param in query.params}
        for name in sorted(names - self.params.keys()):
            if hint := did_you_mean(name, self.params.keys() - names):
                hint = f"{hint} Set it with `\\set {name} VALUE`, to null if it has none"
                raise BadRequest(f"parameter '{name}' of query `{query.name.text}` is not set", hint=hint)
        return {name: value for name, value in self.params.items() if name in names}

    def _mentioned(self, text: str) -> dict[str, Any]:
        """The parameters that an SQL statement names: others may have values that no engine takes."""
        names = {token.text[1:] for token in tokens("sql", text) if token.kind == "variable"}
        if missing := sorted(names - self.params.keys()):
            raise BadRequest(f"parameter '{missing[0]}' not provided", hint=f"\\set {missing[0]} VALUE")
        return {name: self.params[name] for name in names}
