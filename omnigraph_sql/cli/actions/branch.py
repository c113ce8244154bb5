"""`ogsql branch`: create, list and delete branches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from omnigraph_sql.cli import output
from omnigraph_sql.cli.confirm import confirm
from omnigraph_sql.cli.tables import TableColumn, age, write_table
from omnigraph_sql.cli.target import graph_and_word, graph_uri, reading, writing

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.branch import BranchCreateOptions, BranchDeleteOptions
    from omnigraph_sql.history.branches import BranchInfo

_BRANCHES = (
    TableColumn("branch", whole=True),
    TableColumn("commit", whole=True),
    TableColumn("age"),
    TableColumn("actor"),
    TableColumn("ahead", right=True),
    TableColumn("behind", right=True),
    TableColumn("message"),
)


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
    """List the branches with their newest commits, sorted by name."""
    with reading(graph_uri(uri, store)) as graph:
        infos = graph.branch_infos()
    damaged = {info.name: info.damage for info in infos if info.damage is not None}
    if as_json:
        document = {"branches": [info.name for info in infos], "details": [info.to_dict() for info in infos]}
        output.write_json(document | ({"damaged": damaged} if damaged else {}))
    else:
        now = time.time_ns() // 1000
        write_table(_BRANCHES, [_row(info, now) for info in infos])
    for reason in damaged.values():
        output.write(f"warning: {reason}\n", sys.stderr)
    return 0


def _row(info: BranchInfo, now: int) -> tuple[str, ...]:
    if info.damage is not None:
        return (info.name, "(damaged)", "", "", "", "", "")
    return (
        info.name,
        info.commit_id or "",
        "" if info.created_at is None else age(now - info.created_at),
        info.actor_id or "",
        "" if info.ahead is None else str(info.ahead),
        "" if info.behind is None else str(info.behind),
        info.message or "",
    )


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
