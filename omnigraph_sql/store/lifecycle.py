"""Creating and opening graphs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from omnigraph_compiler import Catalog, CompileError, EdgeType, NodeType
from omnigraph_compiler.schema.catalog import FORMAT_VERSION
from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import (
    AlreadyInitialized,
    BadRequest,
    Compile,
    Conflict,
    InitializationClaimed,
    NotFound,
    OmnigraphError,
    Storage,
    UnsupportedFormat,
)
from omnigraph_sql.manifest.changes import Change, PointerUpdate, RegisterTable, manifest_rows
from omnigraph_sql.manifest.coordinator import CURRENT_STAMP, MAIN
from omnigraph_sql.manifest.journal import ACTORS, COMMITS
from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.manifest.texts import check_source
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.storage.identity import MANIFEST, STATE, Identity, identity_of_manifest, read_identity, stored_manifests
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.objects import ObjectStore, Standing
from omnigraph_sql.storage.roots import Root, resolve_root
from omnigraph_sql.storage.table_names import table_path
from omnigraph_sql.store import claims, copy_notes
from omnigraph_sql.store.graph_store import STAGED, GraphStore, assemble_store
from omnigraph_sql.store.locks.base import DIRECTORY as LOCKS
from omnigraph_sql.store.recovery import now_us, reconcile_journal, sweep
from omnigraph_sql.table_keys import TableKey

SOURCE = "_schema.pg"
IR = "_schema.ir.json"
_FORMAT = 1
_RESTORE_FILE = "restore the file from a copy of the graph"
T = TypeVar("T")


def compile_or_raise(schema: str) -> Catalog:
    """Compile a schema; raise the compiler's rejection as an error of the family."""
    from omnigraph_compiler import compile_schema

    try:
        return compile_schema(schema)
    except CompileError as error:
        raise Compile(
            error.message,
            error_class=error.error_class,
            span=error.span,
            diagnostics=(error.diagnostic,),
            code=error.code,
            hint=error.hint,
        ) from None


def _path(type_: NodeType | EdgeType) -> str:
    return table_path(TableKey.of_type(type_))


def create_graph(uri: str | os.PathLike[str], schema: str, *, actor: str | None = None, force: bool = False) -> GraphStore:
    """Create a graph. A failure before the manifest exists removes what this attempt wrote, so it can be repeated."""
    catalog = compile_or_raise(check_source(schema, "schema"))
    root = resolve_root(uri)
    identity = Identity.new()
    store = assemble_store(root, catalog, identity)
    objects = store.objects
    if objects.standing() is Standing.FILE:
        raise BadRequest(f"{root} is a file, not a directory", hint="choose another place for the graph")
    with claims.claimed(objects) as held:
        failpoints.hit("init.after_claim")
        written: list[str] = []
        try:
            if not _is_begun(objects):
                _remove(objects, held.left_behind)
            _refuse_existing(objects, root, force=force)
            objects.verify(LOCKS)
            held.announce([SOURCE, IR, STATE, *(_path(type_) for type_ in _types(catalog)), MANIFEST])
            _write_graph(store, schema, catalog, actor, written)
        except Exception:
            if not _is_begun(objects):
                _remove(objects, written)
            with suppress(OmnigraphError):
                held.release()
            raise
        held.release()
    return store


@contextmanager
def removed_on_failure(store: GraphStore) -> Iterator[None]:
    """Remove a graph that was just created, if what is to be in it cannot be written. Nobody else has opened it yet."""
    try:
        yield
    except BaseException:  # an interrupt as well
        _remove(store.objects, _parts(store))
        raise


def _parts(store: GraphStore) -> list[str]:
    """Everything that belongs to a new graph. The state of the schema comes first: without it nothing can be opened."""
    return [STATE, MANIFEST, COMMITS, ACTORS, IR, SOURCE, *(_path(type_) for type_ in _types(store.catalog)), STAGED]


def _is_begun(objects: ObjectStore) -> bool:
    """True if a graph or remains of one exist: after its first manifest nothing is removed."""
    return bool(stored_manifests(objects)) or objects.has_prefix(COMMITS)


def _refuse_existing(objects: ObjectStore, root: Root, *, force: bool) -> None:
    if copy_notes.is_incomplete(objects) and not objects.exists(STATE):
        raise AlreadyInitialized(f"{root} holds an incomplete copy", uri=str(root), hint=_copy_hint(objects))
    if _is_begun(objects) or (not force and _is_taken(objects)):
        if stored_manifests(objects):
            hint = "open it, or choose another directory"
        elif _is_begun(objects):
            hint = f"it lacks {MANIFEST}: restore that from a copy of the graph, or choose another directory"
        else:
            hint = "choose another directory; if its initialisation was interrupted, run init with force"
        raise AlreadyInitialized(f"{root} holds a graph already", uri=str(root), hint=hint)


def _copy_hint(objects: ObjectStore) -> str:
    origin = ""
    with suppress(OmnigraphError):  # the note itself may be damaged
        note = copy_notes.read_note(objects)
        origin = "" if note is None else f" of {note.source}"
    return f"repeat the copy{origin} to complete it, or remove what is in {objects.root}"


def _is_taken(objects: ObjectStore) -> bool:
    """True if the root of a new graph is occupied."""
    return objects.has_prefix(MANIFEST) or any(objects.exists(name) for name in (SOURCE, IR, STATE))


def _remove(objects: ObjectStore, written: Iterable[str]) -> None:
    """Clean up as far as possible; the caller gets the original error."""
    for name in written:
        with suppress(OmnigraphError):
            objects.delete_prefix(name) if objects.has_prefix(name) else objects.delete(name)


def _types(catalog: Catalog) -> list[NodeType | EdgeType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _write_graph(store: GraphStore, schema: str, catalog: Catalog, actor: str | None, written: list[str]) -> None:
    objects, identity = store.objects, store.coordinator.table.identity
    written.append(SOURCE)
    _begin(objects, SOURCE, schema)
    failpoints.hit("init.after_schema_written")
    written += [IR, STATE]
    for name, text in compiled_texts(schema, catalog, identity).items():
        _begin(objects, name, text)
    failpoints.hit("init.after_contract_written")
    changes: list[Change] = []
    for type_ in _types(catalog):
        path = _path(type_)
        written.append(path)
        objects.delete_prefix(path)
        handle = store.storage.create_table(path, table_schema(type_))
        made = store.storage.state(handle)
        key = TableKey.of_type(type_)
        changes += [RegisterTable(key, path), PointerUpdate(key, made.version, None, 0, made.transaction_uuid)]
    written.append(MANIFEST)
    objects.delete_prefix(MANIFEST)  # without a version in it, as an interrupted attempt leaves it
    graph_id = store.coordinator.table.identity.graph_id
    intent = Intent(
        graph_commit_id=ulid.new(),
        parent_commit_id=None,
        created_at=now_us(),
        writer_kind="Init",
        actor_id=actor,
        message="init",
        graph_id=graph_id,
    )
    version = store.coordinator.table.create(manifest_rows(changes, intent), CURRENT_STAMP)
    failpoints.hit("init.after_manifest")
    store.coordinator.journal.record(None, version, intent)


def _begin(objects: ObjectStore, name: str, text: str) -> None:
    """Write a schema file of a new graph. Only where there is none: a request of an initialisation that died may be late."""
    objects.delete(name)
    if not objects.write_text_if_absent(name, text):
        text = f"{objects.uri(name)} was written by another initialisation"
        raise InitializationClaimed(text, uri=str(objects.root), hint="run init again")


def compiled_texts(source: str, catalog: Catalog, identity: Identity) -> dict[str, str]:
    """The compiled schema and the state, as they are stored."""
    state: dict[str, Any] = {
        "format_version": _FORMAT,
        "schema_ir_hash": catalog.schema_hash,
        "schema_identity_version": catalog.next_identity,
        "schema_source_hash": _source_hash(source),
    }
    return {IR: catalog.to_json(), STATE: json.dumps(state | identity.to_dict())}


def open_graph(uri: str | os.PathLike[str], *, read_only: bool = False) -> GraphStore:
    """Open a graph. Opening it read-write finishes or undoes what a crashed writer left."""
    root = resolve_root(uri)
    objects = open_objects(root)
    _require_graph(objects, root)
    if not read_only:
        objects.verify(LOCKS)
        if not objects.exists(IR) and not objects.exists(STATE):
            _bootstrap(root, objects)
    catalog, identity = read_contract(objects)
    _require_manifest(objects, root, identity)
    store = assemble_store(root, catalog, identity)
    store.coordinator.check_stamp()
    if not read_only:
        claims.forget(store.objects)
        store.coordinator.migrate_stamp()
        sweep(store, full=True)
        store.objects.discard_unfinished("", identity.manifest, STAGED)
        reconcile_journal(store)
    return store


def _require_manifest(objects: ObjectStore, root: Root, identity: Identity) -> None:
    if not objects.has_version(identity.manifest):
        hint = f"restore the directory {identity.manifest} from a copy of the graph"
        raise NotFound(f"the graph {root} lacks {identity.manifest}", what="graph", name=str(root), hint=hint)


def _require_graph(objects: ObjectStore, root: Root) -> None:
    with suppress(Storage):  # unreadable files are handled below
        identity = read_identity(objects)
        if identity is not None and objects.has_version(identity.manifest):
            return
    if copy_notes.is_incomplete(objects):
        text = f"{root} holds an incomplete copy of a graph"
        raise NotFound(text, what="graph", name=str(root), hint=_copy_hint(objects))
    text, standing = f"{root} is not a graph", objects.standing()
    if standing is Standing.DIRECTORY and stored_manifests(objects):
        return
    if standing is Standing.NOTHING:
        text, hint = f"there is no graph at {root}", "look at the address, or create one with init"
    elif standing is Standing.FILE:
        text, hint = f"{root} is a file, not a graph", "give the directory of a graph"
    elif objects.has_prefix(COMMITS):
        text, hint = f"the graph {root} lacks {MANIFEST}", f"restore the directory {MANIFEST} from a copy of the graph"
    elif objects.exists(claims.CLAIM):
        hint = "it is being created, or that was interrupted: run init again"
    elif objects.exists(SOURCE):
        hint = "its initialisation was interrupted: run init again with force"
    else:
        hint = "give the directory of a graph, or create one with init"
    raise NotFound(text, what="graph", name=str(root), hint=hint)


# The schema files ------------------------------------------------------------------------------------------------


def read_contract(objects: ObjectStore) -> tuple[Catalog, Identity]:
    """The accepted schema, whose source, compiled form and state must agree, and the identity of the graph."""
    for name in (SOURCE, IR, STATE):
        if not objects.exists(name):
            raise NotFound(f"the graph lacks {name}", what="schema file", name=name, hint=_RESTORE_FILE)
    catalog = _parsed(objects, IR, Catalog.from_dict, FORMAT_VERSION)
    state_hash, source_hash, identity = _parsed(
        objects,
        STATE,
        lambda entry: (str(entry["schema_ir_hash"]), entry.get("schema_source_hash"), Identity.from_dict(entry)),
        _FORMAT,
    )
    source = _source(objects)
    # The text that was compiled to this state need not be compiled again. Early releases did not note which one it was.
    is_known = source_hash == _source_hash(source)
    if not catalog.schema_hash == state_hash == (state_hash if is_known else _compiled(objects, source).schema_hash):
        text = f"{SOURCE}, {IR} and {STATE} do not describe the same schema"
        raise Conflict(text, reason="schema contract", hint="restore the three files from a copy of the graph")
    return catalog, identity


def _parsed(objects: ObjectStore, name: str, read: Callable[[dict[str, Any]], T], newest: int) -> T:
    """The content of a schema file in JSON."""
    try:
        entry = json.loads(objects.read_text(name))
        version = entry["format_version"]
        if not isinstance(version, int) or version <= newest:
            return read(entry)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(objects, name, f"{type(error).__name__}: {error}") from error
    text = f"{objects.uri(name)} has format {version}, this release understands up to {newest}: upgrade first"
    raise UnsupportedFormat(text, actual=str(version), supported=str(newest))


def _source(objects: ObjectStore) -> str:
    try:
        return objects.read_text(SOURCE)
    except UnicodeDecodeError as error:
        raise _unreadable(objects, SOURCE, str(error).partition("\n")[0]) from error


def _source_hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def _compiled(objects: ObjectStore, source: str) -> Catalog:
    from omnigraph_compiler import compile_schema

    try:
        return compile_schema(source)
    except CompileError as error:
        raise _unreadable(objects, SOURCE, str(error).partition("\n")[0]) from error


def _unreadable(objects: ObjectStore, name: str, reason: str) -> Storage:
    return Storage(f"{objects.uri(name)} cannot be read: {reason}", storage_class="permanent", hint=_RESTORE_FILE)


def _bootstrap(root: Root, objects: ObjectStore) -> None:
    """Recreate the compiled schema of a graph if both its files are missing and the source fits every table."""
    if not objects.exists(SOURCE):
        return
    source = _source(objects)
    store = assemble_store(root, _compiled(objects, source), identity_of_manifest(stored_manifests(objects)[0]))
    store.coordinator.check_stamp()
    snapshot = store.coordinator.fresh(MAIN)
    types: dict[str, NodeType | EdgeType] = {TableKey.of_type(type_): type_ for type_ in _types(store.catalog)}
    entries = {key: entry for key, entry in snapshot.entries.items() if TableKey(key).kind != "table"}
    if store.coordinator.branches() != [MAIN] or types.keys() != entries.keys():
        return
    for key, entry in entries.items():
        handle = store.storage.open(entry)
        if not store.storage.schema(handle).equals(table_schema(types[key])):
            return
    for name, text in compiled_texts(source, store.catalog, store.coordinator.table.identity).items():
        objects.write_text(name, text)
