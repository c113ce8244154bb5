"""`ogsql branch merge`, `revert`, `cherry-pick` and `restore`: changes of one state, applied to a branch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from omnigraph_sql.cli import output
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.conflicts import conflict_document, write_conflicts
from omnigraph_sql.cli.decisions import read_decisions
from omnigraph_sql.cli.errors import error_document, warning_lines
from omnigraph_sql.cli.tables import TableColumn, count, write_table
from omnigraph_sql.cli.target import graph_and_word, writing
from omnigraph_sql.errors import MergeConflicts

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.branch import BranchMergeOptions
    from omnigraph_sql.cli.commands.replay import ReplayOptions, RestoreOptions
    from omnigraph_sql.graph import Graph
    from omnigraph_sql.writes.merge.merges import MergeResult

_CHANGES = (
    TableColumn("type"),
    TableColumn("kind"),
    TableColumn("inserted", right=True),
    TableColumn("updated", right=True),
    TableColumn("deleted", right=True),
)
_DONE = {"fast_forward": "merged {0} into {1} (fast forward)", "merged": "merged {0} into {1}"}
_WOULD = {"fast_forward": "{0} can be merged into {1} (fast forward)", "merged": "{0} can be merged into {1}"}


def run(options: BranchMergeOptions) -> int:
    """Merge a branch, or show what a merge would do."""
    uri, source = graph_and_word(options.words, options.store, "SOURCE")
    resolve = read_decisions(options.resolve)
    if options.delete_branch and not options.dry_run:
        confirm(uri, f"delete the branch {source}", yes=options.yes, as_json=options.as_json)
    with writing(uri, branch=options.into, actor=options.actor, quiet=options.quiet) as graph:

        def merge(*, dry_run: bool) -> MergeResult:
            return graph.merge(  # inline-commit-ok: a merge of branches
                source,
                options.into,
                message=options.message,
                delete_source=options.delete_branch,
                granularity=_granularity(by_column=options.by_column),
                dry_run=dry_run,
                resolve=resolve,
            )

        if options.dry_run:
            return _shown(graph, merge(dry_run=True), as_json=options.as_json)
        return _applied(
            graph, lambda: merge(dry_run=False), _DONE, as_json=options.as_json, images=lambda: merge(dry_run=True)
        )


def replay(kind: Literal["revert", "cherry_pick"], options: ReplayOptions) -> int:
    """Take a commit back, or apply it to another branch."""
    uri, commit = graph_and_word(options.words, options.store, "COMMIT")
    resolve = read_decisions(options.resolve)
    verb = "reverted" if kind == "revert" else "picked"
    with writing(uri, branch=options.branch, actor=options.actor, quiet=options.quiet) as graph:

        def apply() -> MergeResult:
            method = graph.revert if kind == "revert" else graph.cherry_pick
            return method(
                commit,
                branch=options.branch,
                message=options.message,
                granularity=_granularity(by_column=options.by_column),
                resolve=resolve,
            )

        return _applied(graph, apply, {"merged": f"{verb} {{0}} on {{1}}"}, as_json=options.as_json)


def restore(options: RestoreOptions) -> int:
    """Give a branch the rows of another state."""
    uri, ref = graph_and_word(options.words, options.store, "REF")
    with writing(uri, branch=options.branch, actor=options.actor, quiet=options.quiet) as graph:

        def apply() -> MergeResult:
            return graph.restore(  # inline-commit-ok: a state of the graph
                ref, branch=options.branch, message=options.message
            )

        return _applied(graph, apply, {"merged": "restored {0} on {1}"}, as_json=options.as_json)


def _granularity(*, by_column: bool) -> Literal["row", "column"]:
    return "column" if by_column else "row"


def _applied(
    graph: Graph,
    apply: Callable[[], MergeResult],
    texts: dict[str, str],
    *,
    as_json: bool,
    images: Callable[[], MergeResult] | None = None,
) -> int:
    """Apply a change and report it. With conflicts, these are printed and the exit status is that of their error."""
    try:
        result = apply()
    except MergeConflicts as error:
        # The error names rows; a dry run has their values as well, unless others settled the conflicts meanwhile.
        conflicts = (images().conflicts if images is not None else ()) or tuple(error.conflicts)
        if as_json:
            output.write_json(error_document(error) | {"conflicts": [conflict_document(entry) for entry in conflicts]})
        else:
            write_conflicts(conflicts)
            if images is None:
                hint = "decide them with --resolve"
            else:
                hint = "decide them with --resolve, or look at them again with --dry-run"
            number = count(len(conflicts), "conflict")
            output.write_styled([[("error", "error"), ("bold", f": {number}: nothing was changed")]], sys.stderr)
            output.write_styled([[("help", "hint"), ("source", f": {hint}")]], sys.stderr)
        return error.exit_code
    _report(graph, result, texts, as_json=as_json)
    return 0


def _shown(graph: Graph, result: MergeResult, *, as_json: bool) -> int:
    """Report what a merge would do."""
    status = MergeConflicts.exit_code if result.conflicts else 0
    if as_json:
        output.write_json(_document(graph, result))
        return status
    write_conflicts(result.conflicts)
    if result.conflicts:
        output.write(f"{result.source} cannot be merged into {result.target}: {count(len(result.conflicts), 'conflict')}\n")
        return status
    _report(graph, result, _WOULD, as_json=False)
    return status


def _report(graph: Graph, result: MergeResult, texts: dict[str, str], *, as_json: bool) -> None:
    for warning in result.warnings:
        output.write_styled(warning_lines(warning), sys.stderr)
    if as_json:
        output.write_json(_document(graph, result))
        return
    if result.outcome == "already_up_to_date":
        output.write(f"{result.target} has the changes of {result.source} already: nothing to do\n")
    else:
        _write_changes(result)
        output.write(texts.get(result.outcome, texts["merged"]).format(result.source, result.target) + "\n")
    if result.resolved:
        output.write(f"decided {count(result.resolved, 'conflict')}\n")
    if result.commit is not None:
        output.write(f"commit {result.commit.graph_commit_id}\n")
    if result.branch_deleted:
        output.write(f"deleted the branch {result.source}\n")
    if result.branch_delete_error is not None:
        text = f"the branch {result.source} was not deleted: {result.branch_delete_error}"
        output.write_styled(warning_lines(text), sys.stderr)


def _write_changes(result: MergeResult) -> None:
    rows = []
    for key, counts in result.changes.items():
        kind, _, name = key.partition(":")
        rows.append((name, kind, str(counts.inserts), str(counts.updates), str(counts.deletes)))
    rows += [(key.partition(":")[2], key.partition(":")[0], "", "", "") for key in result.relations]
    if rows:
        write_table(_CHANGES, rows)
        output.write("\n")


def _document(graph: Graph, result: MergeResult) -> dict[str, Any]:
    document = {"uri": graph.uri, **result.to_dict()}
    document["conflicts"] = [conflict_document(conflict) for conflict in result.conflicts]
    return document
