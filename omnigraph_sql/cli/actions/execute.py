"""`ogsql sql --write`: run statements that write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.query_input import QuerySource
from omnigraph_sql.cli.result_writer import write_rows
from omnigraph_sql.cli.source_files import located
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import usage_error, writing

if TYPE_CHECKING:
    from omnigraph_sql.graph.execute_result import ExecuteResult

_FORMS = ("table", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteArguments:
    """A script, its parameters and its target."""

    source: QuerySource
    params: dict[str, Any]
    branch: str
    engine: str
    message: str | None = None
    idempotency_key: str | None = None


def run(uri: str, arguments: ExecuteArguments, *, actor: str | None, quiet: bool, form: str) -> int:
    """Run the script, and report what it changed and the rows of its last query."""
    if form not in _FORMS:
        raise usage_error(f"--write takes --format {' or '.join(_FORMS)}")
    with (
        writing(uri, branch=arguments.branch, actor=actor, quiet=quiet) as graph,
        located(arguments.source.path),
    ):
        done = graph.execute(
            arguments.source.text,
            arguments.params,
            branch=arguments.branch,
            engine=arguments.engine,  # type: ignore[arg-type]
            actor=actor,
            message=arguments.message,
            idempotency_key=arguments.idempotency_key,
        )
        if form == "json":
            output.write_json(document(done, uri=graph.uri, branch=arguments.branch))
        else:
            write_done(done)
    return 0


def document(done: ExecuteResult, **about: str) -> dict[str, Any]:
    """What a script did as JSON; `about` names the graph and the branch."""
    rows = None if done.result is None else done.result.to_json()
    return {
        **about,
        "rows_affected": done.rows_affected,
        "commit": done.commit.to_dict() if done.commit else None,
        "rows": rows,
    }


def write_done(done: ExecuteResult) -> None:
    """Print what a script did, and the rows of its last query."""
    if done.result is not None:
        write_rows(done.result, "table")
    output.write(f"affected {count(done.rows_affected, 'row')}\n")
    output.write(f"commit {done.commit.graph_commit_id}\n" if done.commit else "nothing to commit\n")
