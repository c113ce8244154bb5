"""`ogsql copy`: a copy of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.projects import default_branch, graph_address
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import announce, graph_and_word, reading, usage_error

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.copy import CopyOptions


def run(options: CopyOptions) -> int:
    """Copy a state, or everything, and report what was copied."""
    uri, word = graph_and_word(options.words, options.store, "TARGET")
    ref, target = _ref(options), graph_address(word)
    with reading(uri) as graph:
        from omnigraph_sql.storage.roots import resolve_root

        announce(str(resolve_root(target)), quiet=options.quiet)
        made = graph.copy(target, ref, whole=options.whole, actor=options.actor, message=options.message)
    if options.as_json:
        output.write_json(made.to_dict())
        return 0
    what = count(len(made.branches), "branch", "branches") if ref is None else ref
    reused = f", {made.reused} of them were there already" if made.reused else ""
    output.write(f"copied {what}: {count(made.tables, 'table')}, {count(made.files, 'file')}, {made.bytes} bytes{reused}\n")
    output.write(f"commit {made.commit_id}\n")
    return 0


def _ref(options: CopyOptions) -> str | None:
    """The state to copy; None for everything."""
    named = {
        "--all": options.whole or None,
        "--tag": options.tag,
        "--snapshot": options.snapshot,
        "--branch": options.branch,
    }
    present = [name for name, value in named.items() if value is not None]
    if len(present) > 1:
        raise usage_error(f"{present[0]} and {present[1]} exclude each other")
    if options.version is not None:
        if present not in ([], ["--branch"]):
            raise usage_error(f"{present[0]} and --at-version exclude each other")
        return f"{options.branch or default_branch()}@{options.version}"
    if options.whole:
        if options.message is not None:
            raise usage_error("--all makes no commit, so there is nothing for --message")
        return None
    named_state = options.tag if options.snapshot is None else options.snapshot
    return f"@{named_state}" if named_state is not None else options.branch or default_branch()
