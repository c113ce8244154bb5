"""The states that references name: the one place where branches, versions, tags and commits are looked up."""

from __future__ import annotations

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.coordinator import MAIN, ManifestCoordinator, public_name
from omnigraph_sql.manifest.refs import check_commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.sql.refs import StateRef, parse_ref


def state_of(coordinator: ManifestCoordinator, ref: StateRef) -> Snapshot:
    """Return the current snapshot of a reference."""
    if ref.commit is not None:
        return coordinator.at_name(ref.commit)
    return coordinator.fresh(ref.branch) if ref.version is None else coordinator.at_version(ref.branch, ref.version)


def named_state(coordinator: ManifestCoordinator, text: str) -> Snapshot:
    """Return the state that a text names: `BRANCH`, `BRANCH@VERSION`, a tag or a commit, the last two also after an `@`.

    A branch takes precedence over a tag of its name, which can be there only if both were made at the same time.
    """
    name = check_commit(text).strip()  # whichever it is, it is a text of that kind
    if "@" in name:
        ref = parse_ref(name)
        return state_of(coordinator, ref if ref.commit is not None else StateRef(public_name(ref.branch), ref.version))
    if name == MAIN or coordinator.table.has_branch(public_name(name)):
        return coordinator.fresh(name)
    if coordinator.find_commit(name) is not None or name in coordinator.tags():
        return coordinator.at_name(name)
    return _missing(coordinator, name)


def _missing(coordinator: ManifestCoordinator, name: str) -> Snapshot:
    """Read a branch that is probably not there; the hint of its error names tags as well."""
    try:
        return coordinator.fresh(name)
    except NotFound as error:
        if error.what != "branch" or name in coordinator.branches():
            raise
        names = [*coordinator.branches(), *coordinator.tags()]
        hint = did_you_mean(name, names) or "give a branch, BRANCH@VERSION, a tag or the id of a commit"
        raise NotFound(f"there is no branch, tag or commit `{name}`", what="branch", name=name, hint=hint) from None
