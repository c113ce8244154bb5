"""Scripts of SQL that are published on their own: one transaction, and statements about branches before or instead of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from omnigraph_sql.errors import BadRequest, Conflict, NotFound, OmnigraphError
from omnigraph_sql.graph.execute_result import ExecuteResult
from omnigraph_sql.graph.statement_executor import parsed_script
from omnigraph_sql.manifest.coordinator import public_name
from omnigraph_sql.sqltext.script import located
from omnigraph_sql.sqltext.write_statements import (
    LASTING,
    BranchStatement,
    CreateBranchStatement,
    CreateTagStatement,
    DropBranchStatement,
    DropTagStatement,
    MergeBranchStatement,
    ReadStatement,
    ScriptStatement,
    ShowStatement,
    UseBranchStatement,
)
from omnigraph_sql.store.graph_store import GraphStore

if TYPE_CHECKING:
    from omnigraph_sql.graph.transactions import Transaction
    from omnigraph_sql.manifest.journal import Commit
    from omnigraph_sql.writes.merge.merges import MergeResult

ATTEMPTS: Final = 12
"""How often a script is run that loses against others. From the second time on the losers take turns."""


class BranchWriter(Protocol):
    """What makes, merges and deletes branches and tags."""

    def create_branch(self, name: str, base: str = ...) -> str:
        """Create a branch."""

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""

    def merge(
        self,
        source: str,
        into: str = ...,
        *,
        message: str | None = ...,
        actor: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> MergeResult:
        """Merge a branch into another one."""

    def tag(self, name: str, ref: str = ...) -> object:
        """Make a tag."""

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""


@dataclass(kw_only=True)
class ScriptRun:
    """Runs one script."""

    store: GraphStore
    graph: BranchWriter
    begin: Callable[[str], Transaction]
    """Begins a transaction on a branch."""
    notes: Mapping[str, str | None] = field(default_factory=dict)
    """Message, actor and idempotency key of merges."""
    params: Mapping[str, Any] | None = None
    is_pinned: bool = False
    """True if the script has to stay on its branch."""
    _undo: list[Callable[[], object]] = field(default_factory=list)
    """What removes the branches and tags that the script has made."""

    def run(self, text: object, branch: str) -> ExecuteResult:
        """Run a script on a branch. One that fails leaves everything as it was."""
        statements = parsed_script(text, self.params)
        _check_order(statements)
        branch = public_name(branch)
        done = ExecuteResult(0)
        segment: list[ScriptStatement] = []
        try:
            for statement in statements:
                if not isinstance(statement, BranchStatement):
                    segment.append(statement)
                    continue
                done = _both(done, self._publish(segment, branch))
                segment = []
                try:
                    branch, commit = self._run(statement, branch)
                except OmnigraphError as error:
                    raise located(error, statement) from error.__cause__
                done = replace(done, commit=commit or done.commit)
            return _both(done, self._publish(segment, branch))
        except BaseException:
            for undo in reversed(self._undo):
                with suppress(OmnigraphError):
                    undo()
            raise

    def _run(self, statement: BranchStatement, branch: str) -> tuple[str, Commit | None]:
        """Run a statement about branches: the branch of the statements after it, and the commit that it made."""
        match statement:
            case CreateBranchStatement():
                exists = statement.name in self.store.coordinator.branches()
                if not (exists and statement.if_not_exists):
                    self.graph.create_branch(statement.name, statement.base or branch)
                    self._undo.append(partial(self.graph.delete_branch, statement.name))
            case DropBranchStatement():
                if statement.name == branch:
                    raise BadRequest(f"the script is on the branch `{branch}`", hint="begin it with USE BRANCH main")
                with suppress(*((NotFound,) if statement.if_exists else ())):
                    self.graph.delete_branch(statement.name)
            case CreateTagStatement():
                self.graph.tag(statement.name, statement.base or branch)
                self._undo.append(partial(self.graph.delete_tag, statement.name))
            case DropTagStatement():
                with suppress(*((NotFound,) if statement.if_exists else ())):
                    self.graph.delete_tag(statement.name)
            case MergeBranchStatement():
                return branch, self.graph.merge(statement.source, statement.target or branch, **self.notes).commit
            case UseBranchStatement():
                if self.is_pinned:
                    hint = "open another session with Graph.pinned(branch=…)"
                    raise BadRequest(f"a pinned session stays on its branch, `{branch}`", hint=hint)
                return self.store.coordinator.require(public_name(statement.name)), None
        return branch, None

    def _publish(self, statements: Sequence[ScriptStatement], branch: str) -> ExecuteResult:
        """Run statements as one transaction; again if others have changed what it read."""
        if not statements:
            return ExecuteResult(0)
        for attempt in range(ATTEMPTS):
            turn = self.store.locks.turn(f"{branch}\0__execute__") if attempt else nullcontext()
            with turn:
                try:
                    return self._attempt(statements, branch)
                except Conflict as error:
                    if error.reason != "table changed" or attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, statements: Sequence[ScriptStatement], branch: str) -> ExecuteResult:
        with self.begin(branch) as transaction:
            done = transaction._run_statements(statements, self.params)
            if done.result is not None:
                done.result.to_arrow()  # what it reads is gone once the transaction is published
            return replace(done, commit=transaction.commit())


def _both(first: ExecuteResult, second: ExecuteResult) -> ExecuteResult:
    return ExecuteResult(
        first.rows_affected + second.rows_affected, second.commit or first.commit, second.result or first.result
    )


def _check_order(statements: Sequence[ScriptStatement]) -> None:
    """Raise unless everything that fails can be undone: only the last statements that change something may be for good."""
    writer: ScriptStatement | None = None
    for statement in statements:
        if isinstance(statement, ReadStatement | ShowStatement):
            continue
        lasting = isinstance(statement, LASTING)
        if writer is not None and not (lasting and isinstance(writer, LASTING)):
            if isinstance(statement, BranchStatement):
                text = f"a statement about branches cannot follow {writer.place}, which is published with the whole script"
                raise located(BadRequest(text, hint="run it in a script of its own"), statement)
            if isinstance(writer, LASTING):
                text = f"{writer.place} takes effect at once, so nothing else may be written after it"
                raise located(BadRequest(text, hint="run it in a script of its own"), statement)
        if lasting or not isinstance(statement, BranchStatement):
            writer = statement
