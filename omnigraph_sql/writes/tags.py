"""Tags of a graph: made and deleted by one atomic write to the manifest of the main branch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from omnigraph_sql import ulid
from omnigraph_sql.errors import BadRequest, Conflict, NotFound, OmnigraphError, Storage, VersionReclaimed
from omnigraph_sql.manifest.coordinator import LOCK_BRANCH, MAIN
from omnigraph_sql.manifest.refs import check_new_tag, check_tag
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.manifest.texts import check_actor, check_optional
from omnigraph_sql.sql.states import named_state
from omnigraph_sql.storage.garbage import require_versions
from omnigraph_sql.storage.manifest_table import Merged
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.locks.manager import publish_lock
from omnigraph_sql.store.recovery import now_us


def create_tag(store: GraphStore, name: str, ref: str, *, message: str | None, actor: str | None) -> Tag:
    """Name a state. The name must be free: a tag never moves."""
    name = check_new_tag(name)
    if name == LOCK_BRANCH:
        raise BadRequest(f"`{name}` is reserved", hint="choose another name")
    message, actor = check_optional(message, "message"), check_actor(actor)
    state = _origin(store, named_state(store.coordinator, ref))
    with store.locks.hold([branch_lock(state.branch)]):
        store.coordinator.confirm(state)
        require_state(store, state)
        tag = Tag(
            name=name,
            graph_commit_id=state.commit_id,
            branch=state.branch,
            manifest_version=state.manifest_version,
            actor_id=actor,
            message=message,
            created_at=now_us(),
            lineage=state.lineage,
            operation_id=ulid.new(),
        )
        merged = _publish(store, _Creation(store, tag))
        try:
            store.coordinator.confirm(state)  # the branch may have been deleted, or a cleanup removed the state
            require_state(store, state)
        except (NotFound, Conflict, VersionReclaimed):
            _publish(store, _Deletion(tag.name, tag))
            raise
    _acknowledge(store, tag.name, merged)
    return tag


def delete_tag(store: GraphStore, name: str) -> None:
    """Delete a tag. What only it kept goes with the next cleanup."""
    deletion = _Deletion(check_tag(name), None)
    merged = _publish(store, deletion)
    _acknowledge(store, deletion.name, merged)


def branch_lock(branch: str) -> str:
    """The lock under which a branch is created or deleted, and states of it become bases and tags."""
    return f"__branch__\0{branch}"


def require_state(store: GraphStore, state: Snapshot) -> None:
    """Raise `VersionReclaimed` if a cleanup removed rows of a state, or is about to.

    What the branch of the state shows now is never removed, nor was it since the state was read: branches do not move back.
    """
    shown: Mapping[str, Entry] = {}
    with suppress(NotFound):  # the branch may be gone
        present = store.coordinator.fresh(state.branch)
        shown = present.entries if present.incarnation == state.incarnation else {}
    require_versions(store.storage, (entry for key, entry in state.entries.items() if shown.get(key) != entry))


def _origin(store: GraphStore, state: Snapshot) -> Snapshot:
    """The same state where its commit was published: a branch that has no commits of its own shows one of its base."""
    if not state.is_past:
        store.publisher.reconcile(state)
    if state.head is None:
        return state
    with suppress(NotFound):  # the branch of the commit may be gone
        return store.coordinator.at_commit(state.commit_id)
    return state


@dataclass
class _Creation:
    """The choice to make a tag, on the main branch as it is at each attempt."""

    store: GraphStore
    tag: Tag

    @property
    def name(self) -> str:
        return self.tag.name

    def choose(self, main: Snapshot) -> Tag:
        """The tag, unless another one has its name; its own is there if the answer to an earlier attempt was lost."""
        existing = main.tags.get(self.name)
        if existing is not None and existing.operation_id != self.tag.operation_id:
            text = f"the tag `{self.name}` exists already: it names {existing.graph_commit_id}, and tags do not move"
            raise Conflict(text, reason="exists", hint="choose another name, or delete the tag first")
        if existing is None and (self.name == MAIN or self.store.coordinator.table.has_branch(self.name)):
            text = f"`{self.name}` is a branch, and a tag of that name could not be told from it"
            raise Conflict(text, reason="name_taken", hint="choose another name")
        return self.tag

    def is_done(self, main: Snapshot) -> bool:
        return main.tags.get(self.name) == self.tag


@dataclass
class _Deletion:
    """The choice to delete a tag: the one that is there at the first attempt."""

    name: str
    tag: Tag | None

    def choose(self, main: Snapshot) -> Tag | None:
        existing = main.tags.get(self.name)
        if self.tag is None:
            if existing is None:
                hint = f"there are {', '.join(main.tags)}" if main.tags else "there are no tags"
                raise NotFound(f"there is no tag `{self.name}`", what="tag", name=self.name, hint=hint)
            self.tag = existing
        # Another one of the name was made since: the tag in question is gone.
        return None if existing == self.tag else existing

    def is_done(self, main: Snapshot) -> bool:
        return self.tag is not None and main.tags.get(self.name) != self.tag


def _publish(store: GraphStore, choice: _Creation | _Deletion) -> Merged | None:
    try:
        return store.publisher.publish_tag(choice.name, choice.choose, lambda: store.locks.turn(publish_lock(MAIN)))
    except Storage:
        if not choice.is_done(store.coordinator.fresh(MAIN)):
            raise
        return None  # the write was there before the error


def _acknowledge(store: GraphStore, name: str, merged: Merged | None) -> None:
    """Upkeep of the manifest after a write to it; raises if the write may be lost in a power cut."""
    if merged is None:
        return
    if merged.crowded:
        with suppress(OmnigraphError):  # what was asked for is done
            store.coordinator.table.compact(None)
    if merged.unflushed is not None:
        text = f"the change of the tag `{name}` is visible, but not on disk: {merged.unflushed.message}"
        hint = "look at the disk. Do not repeat the write: only a power cut or a crash of the machine can take it back"
        raise Storage(text, storage_class="permanent", hint=hint) from merged.unflushed
