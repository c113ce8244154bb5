"""`ogsql branch`: create, list and delete branches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.target import graph_and_word, graph_uri, reading, writing

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.branch import BranchCreateOptions, BranchDeleteOptions


def create(options: BranchCreateOptions) -> int:
    """Create a branch."""
    uri, name = graph_and_word(options.words, options.store, "NAME")
    with writing(uri, branch=name, actor=options.actor, quiet=options.quiet) as graph:
        made = graph.create_branch(name, options.base)
        if options.as_json:
            output.write_json(
                {"uri": graph.uri, "name": made, "from": options.base, "commit_id": graph.snapshot(branch=made).commit_id}
            )
        else:
            output.write(f"created the branch {made} from {options.base}\n")
    return 0


def show(uri: str | None, store: str | None, *, as_json: bool) -> int:
    """List the branches, sorted by name."""
    with reading(graph_uri(uri, store)) as graph:
        names, damaged = graph.branches(), graph.damaged_branches()
    if as_json:
        output.write_json({"branches": names} | ({"damaged": damaged} if damaged else {}))
    else:
        output.write("".join(f"{name}{'  (damaged)' if name in damaged else ''}\n" for name in names))
    for reason in damaged.values():
        output.write(f"warning: {reason}\n", sys.stderr)
    return 0


def delete(options: BranchDeleteOptions) -> int:
    """Delete a branch."""
    uri, name = graph_and_word(options.words, options.store, "NAME")
    confirm(uri, f"delete the branch {name}", yes=options.yes, as_json=options.as_json)
    with writing(uri, branch=name, actor=options.actor, quiet=options.quiet) as graph:
        graph.delete_branch(name)
        if options.as_json:
            output.write_json({"uri": graph.uri, "name": name, "deleted": True})
        else:
            output.write(f"deleted the branch {name}\n")
    return 0
