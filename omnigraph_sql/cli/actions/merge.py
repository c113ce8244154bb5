"""`ogsql branch merge`, `revert`, `cherry-pick` and `restore`: changes of one state, applied to a branch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol

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
_MERGED = ("merged", "into")
_REPLAYED = {"revert": ("reverted", "on"), "cherry_pick": ("picked", "on")}
_RESTORED = ("restored", "on")


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

        return _run(graph, merge, _MERGED, is_dry=options.dry_run, as_json=options.as_json)


def replay(kind: Literal["revert", "cherry_pick"], options: ReplayOptions) -> int:
    """Take a commit back, or apply it to another branch."""
    uri, commit = graph_and_word(options.words, options.store, "COMMIT")
    resolve = read_decisions(options.resolve)
    with writing(uri, branch=options.branch, actor=options.actor, quiet=options.quiet) as graph:

        def apply(*, dry_run: bool) -> MergeResult:
            method = graph.revert if kind == "revert" else graph.cherry_pick
            return method(
                commit,
                branch=options.branch,
                message=options.message,
                granularity=_granularity(by_column=options.by_column),
                dry_run=dry_run,
                resolve=resolve,
            )

        return _run(graph, apply, _REPLAYED[kind], is_dry=options.dry_run, as_json=options.as_json)


def restore(options: RestoreOptions) -> int:
    """Give a branch the rows of another state."""
    uri, ref = graph_and_word(options.words, options.store, "REF")
    with writing(uri, branch=options.branch, actor=options.actor, quiet=options.quiet) as graph:

        def apply(*, dry_run: bool) -> MergeResult:
            return graph.restore(  # inline-commit-ok: a state of the graph
                ref, branch=options.branch, message=options.message, dry_run=dry_run
            )

        return _run(graph, apply, _RESTORED, is_dry=options.dry_run, as_json=options.as_json)


def _granularity(*, by_column: bool) -> Literal["row", "column"]:
    return "column" if by_column else "row"


class _Apply(Protocol):
    """A change of a branch."""

    def __call__(self, *, dry_run: bool) -> MergeResult: ...


def _run(graph: Graph, apply: _Apply, words: tuple[str, str], *, is_dry: bool, as_json: bool) -> int:
    """Apply a change and report it, or what it would do. With conflicts the exit status is that of their error."""
    if is_dry:
        return _shown(graph, apply(dry_run=True), words, as_json=as_json)
    try:
        result = apply(dry_run=False)
    except MergeConflicts as error:
        # The error names rows; a dry run has their values as well, unless others settled the conflicts meanwhile.
        conflicts = apply(dry_run=True).conflicts or tuple(error.conflicts)
        if as_json:
            output.write_json(error_document(error) | {"conflicts": [conflict_document(entry) for entry in conflicts]})
        else:
            write_conflicts(conflicts)
            hint = "decide them with --resolve, or look at them again with --dry-run"
            number = count(len(conflicts), "conflict")
            output.write_styled([[("error", "error"), ("bold", f": {number}: nothing was changed")]], sys.stderr)
            output.write_styled([[("help", "hint"), ("source", f": {hint}")]], sys.stderr)
        return error.exit_code
    verb, into = words
    _report(graph, result, f"{verb} {result.source} {into} {result.target}", as_json=as_json)
    return 0


def _shown(graph: Graph, result: MergeResult, words: tuple[str, str], *, as_json: bool) -> int:
    """Report what a change would do."""
    status = MergeConflicts.exit_code if result.conflicts else 0
    if as_json:
        output.write_json(_document(graph, result))
        return status
    write_conflicts(result.conflicts)
    verb, into = words
    if result.conflicts:
        number = count(len(result.conflicts), "conflict")
        output.write(f"{result.source} cannot be {verb} {into} {result.target}: {number}\n")
        return status
    _report(graph, result, f"{result.source} can be {verb} {into} {result.target}", as_json=False)
    return status


def _report(graph: Graph, result: MergeResult, line: str, *, as_json: bool) -> None:
    for warning in result.warnings:
        output.write_styled(warning_lines(warning), sys.stderr)
    if as_json:
        output.write_json(_document(graph, result))
        return
    if result.outcome == "already_up_to_date":
        output.write(f"{result.target} has the changes of {result.source} already: nothing to do\n")
    else:
        _write_changes(result)
        output.write(line + (" (fast forward)\n" if result.outcome == "fast_forward" else "\n"))
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
