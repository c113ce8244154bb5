"""Creating and opening graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from omnigraph_compiler import Catalog, CompileError, EdgeType, NodeType, compile_schema
from omnigraph_compiler.schema.catalog import FORMAT_VERSION
from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import (
    AlreadyInitialized,
    BadRequest,
    Compile,
    Conflict,
    NotFound,
    OmnigraphError,
    Storage,
    UnsupportedFormat,
)
from omnigraph_sql.manifest.changes import Change, RegisterTable, Update, manifest_rows
from omnigraph_sql.manifest.coordinator import CURRENT_STAMP, MAIN
from omnigraph_sql.manifest.journal import COMMITS
from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.storage.catalogue import MANIFEST
from omnigraph_sql.storage.columns import table_key, table_schema
from omnigraph_sql.storage.names import fnv1a64_hex
from omnigraph_sql.storage.objects import ObjectStore, Standing
from omnigraph_sql.storage.opening import open_objects
from omnigraph_sql.storage.roots import Root, resolve_root
from omnigraph_sql.writes import claims
from omnigraph_sql.writes.branching import RECORDS
from omnigraph_sql.writes.engine import Engine, assemble
from omnigraph_sql.writes.held import DIRECTORY as LOCKS
from omnigraph_sql.writes.recovery import now_us, reconcile_journal, sweep
from omnigraph_sql.writes.staged import DIRECTORY as STAGED

SOURCE = "_schema.pg"
IR = "_schema.ir.json"
STATE = "__schema_state.json"
_FORMAT = 1
_RESTORE_FILE = "restore the file from a copy of the graph"
T = TypeVar("T")


def compile_or_raise(schema: str) -> Catalog:
    """A catalog, or the compiler's rejection as an error of our family."""
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


def table_path(type_: NodeType | EdgeType) -> str:
    return f"{'edges' if isinstance(type_, EdgeType) else 'nodes'}/{fnv1a64_hex(type_.name)}"


def create_graph(uri: str | os.PathLike[str], schema: str, *, actor: str | None = None, force: bool = False) -> Engine:
    """A new graph. A failure before the manifest exists removes what this attempt wrote, so it can be repeated."""
    catalog = compile_or_raise(schema)
    root = resolve_root(uri)
    engine = assemble(root, catalog)
    objects = engine.objects
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
            held.announce([SOURCE, IR, STATE, *(table_path(type_) for type_ in _types(catalog)), MANIFEST])
            _write_graph(engine, schema, catalog, actor, written)
        except Exception:
            if not _is_begun(objects):
                _remove(objects, written)
            with suppress(OmnigraphError):
                held.release()
            raise
        held.release()
    return engine


def _is_begun(objects: ObjectStore) -> bool:
    """Whether there is a graph, or what is left of one: from its first manifest on nothing is removed."""
    return objects.has_version(MANIFEST) or objects.has_prefix(COMMITS)


def _refuse_existing(objects: ObjectStore, root: Root, *, force: bool) -> None:
    if _is_begun(objects) or (not force and _is_taken(objects)):
        if objects.has_version(MANIFEST):
            hint = "open it, or choose another directory"
        elif _is_begun(objects):
            hint = f"it lacks {MANIFEST}: restore that from a copy of the graph, or choose another directory"
        else:
            hint = "choose another directory; if its initialisation was interrupted, run init with force"
        raise AlreadyInitialized(f"{root} holds a graph already", uri=str(root), hint=hint)


def _is_taken(objects: ObjectStore) -> bool:
    """Whether something is there that a graph would need the place of."""
    return objects.has_prefix(MANIFEST) or any(objects.exists(name) for name in (SOURCE, IR, STATE))


def _remove(objects: ObjectStore, written: Iterable[str]) -> None:
    """Best effort; the caller gets the error that led here, not one from cleaning up."""
    for name in written:
        with suppress(OmnigraphError):
            objects.delete_prefix(name) if objects.has_prefix(name) else objects.delete(name)


def _types(catalog: Catalog) -> list[NodeType | EdgeType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _write_graph(engine: Engine, schema: str, catalog: Catalog, actor: str | None, written: list[str]) -> None:
    objects = engine.objects
    written.append(SOURCE)
    objects.write_text(SOURCE, schema)
    failpoints.hit("init.after_schema_written")
    written += [IR, STATE]
    _write_compiled(objects, catalog)
    failpoints.hit("init.after_contract_written")
    changes: list[Change] = []
    for type_ in _types(catalog):
        path = table_path(type_)
        written.append(path)
        objects.delete_prefix(path)
        handle = engine.storage.create_table(path, table_schema(type_))
        made = engine.storage.state(handle)
        key = table_key(type_)
        changes += [RegisterTable(key, path), Update(key, made.version, None, 0, made.transaction_uuid)]
    written.append(MANIFEST)
    objects.delete_prefix(MANIFEST)  # without a version in it, as an interrupted attempt leaves it
    intent = Intent(ulid.new(), None, now_us(), "Init", actor_id=actor, message="init")
    version = engine.coordinator.table.create(manifest_rows(changes, intent), CURRENT_STAMP)
    failpoints.hit("init.after_manifest")
    engine.coordinator.journal.record(None, version, intent)


def _write_compiled(objects: ObjectStore, catalog: Catalog) -> None:
    objects.write_text(IR, catalog.to_json())
    state = {
        "format_version": _FORMAT,
        "schema_ir_hash": catalog.schema_hash,
        "schema_identity_version": catalog.next_identity,
    }
    objects.write_text(STATE, json.dumps(state))


def open_graph(uri: str | os.PathLike[str], *, read_only: bool = False) -> Engine:
    """An existing graph. Opening it read-write finishes or undoes what a crashed writer left."""
    root = resolve_root(uri)
    objects = open_objects(root)
    _require_graph(objects, root)
    if not read_only:
        objects.verify(LOCKS)
        if not objects.exists(IR) and not objects.exists(STATE):
            _bootstrap(root, objects)
    engine = assemble(root, read_contract(objects))
    engine.coordinator.check_stamp()
    if not read_only:
        claims.forget(engine.objects)
        engine.coordinator.migrate_stamp()
        sweep(engine, full=True)
        engine.objects.discard_unfinished("", RECORDS, STAGED)
        reconcile_journal(engine)
    return engine


def _require_graph(objects: ObjectStore, root: Root) -> None:
    if objects.has_version(MANIFEST):
        return
    text, standing = f"{root} is not a graph", objects.standing()
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


def read_contract(objects: ObjectStore) -> Catalog:
    """The accepted schema: source, compiled form and state must agree."""
    for name in (SOURCE, IR, STATE):
        if not objects.exists(name):
            raise NotFound(f"the graph lacks {name}", what="schema file", name=name, hint=_RESTORE_FILE)
    catalog = _parsed(objects, IR, Catalog.from_dict, FORMAT_VERSION)
    state_hash = _parsed(objects, STATE, lambda entry: str(entry["schema_ir_hash"]), _FORMAT)
    if not catalog.schema_hash == state_hash == _compiled_source(objects).schema_hash:
        text = f"{SOURCE}, {IR} and {STATE} do not describe the same schema"
        raise Conflict(text, reason="schema contract", hint="restore the three files from a copy of the graph")
    return catalog


def _parsed(objects: ObjectStore, name: str, read: Callable[[dict[str, Any]], T], known: int) -> T:
    """What a schema file in JSON says."""
    try:
        entry = json.loads(objects.read_text(name))
        version = entry["format_version"]
        if not isinstance(version, int) or version <= known:
            return read(entry)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(objects, name, f"{type(error).__name__}: {error}") from error
    text = f"{objects.uri(name)} has format {version}, this release understands up to {known}: upgrade first"
    raise UnsupportedFormat(text, found=str(version), supported=str(known))


def _compiled_source(objects: ObjectStore) -> Catalog:
    try:
        return compile_schema(objects.read_text(SOURCE))
    except (CompileError, UnicodeDecodeError) as error:
        raise _unreadable(objects, SOURCE, str(error).partition("\n")[0]) from error


def _unreadable(objects: ObjectStore, name: str, reason: str) -> Storage:
    return Storage(f"{objects.uri(name)} cannot be read: {reason}", storage_class="permanent", hint=_RESTORE_FILE)


def _bootstrap(root: Root, objects: ObjectStore) -> None:
    """Write the compiled schema of a graph anew when both files of it are gone, if the source fits every table."""
    if not objects.exists(SOURCE):
        return
    engine = assemble(root, _compiled_source(objects))
    engine.coordinator.check_stamp()
    snapshot = engine.coordinator.fresh(MAIN)
    types = {table_key(type_): type_ for type_ in _types(engine.catalog)}
    entries = {key: entry for key, entry in snapshot.entries.items() if not key.startswith("table:")}
    if engine.coordinator.branches() != [MAIN] or types.keys() != entries.keys():
        return
    for key, entry in entries.items():
        handle = engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
        if not engine.storage.schema(handle).equals(table_schema(types[key])):
            return
    _write_compiled(objects, engine.catalog)
