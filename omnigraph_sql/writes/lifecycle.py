"""Creating and opening graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from omnigraph_compiler import Catalog, CompileError, EdgeType, NodeType, compile_schema
from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import AlreadyInitialized, Compile, Conflict, InitializationClaimed, NotFound
from omnigraph_sql.manifest.changes import Change, RegisterTable, Update, manifest_rows
from omnigraph_sql.manifest.coordinator import CURRENT_STAMP
from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.storage.columns import table_key, table_schema
from omnigraph_sql.storage.names import fnv1a64_hex
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.opening import open_objects
from omnigraph_sql.storage.roots import Root, resolve_root
from omnigraph_sql.writes.engine import Engine, assemble
from omnigraph_sql.writes.recovery import now_us, reconcile_journal, sweep

SOURCE = "_schema.pg"
IR = "_schema.ir.json"
STATE = "__schema_state.json"
CLAIM = "__init_claim.json"
_FORMAT = 1


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
    claim = json.dumps({"pid": os.getpid(), "attempt": ulid.new()})
    if not objects.write_text_if_absent(CLAIM, claim):
        text = f"another initialisation of {root} is under way or was interrupted"
        hint = f"if none is running, delete {objects.uri(CLAIM)}"
        raise InitializationClaimed(text, uri=str(root), hint=hint)
    written: list[str] = []
    try:
        _refuse_existing(objects, root, force=force)
        objects.verify(CLAIM)
        _write_graph(engine, schema, catalog, actor, written)
    except Exception:
        if not engine.coordinator.table.exists():
            _remove(objects, written)
        raise
    objects.delete(CLAIM)
    return engine


def _refuse_existing(objects: ObjectStore, root: Root, *, force: bool) -> None:
    names = () if force else (SOURCE, IR, STATE)
    if objects.has_prefix("__manifest") or any(objects.exists(name) for name in names):
        objects.delete(CLAIM)
        raise AlreadyInitialized(f"{root} holds a graph already", uri=str(root), hint="open it, or choose another directory")


def _remove(objects: ObjectStore, written: Iterable[str]) -> None:
    """Best effort; the caller gets the error that led here, not one from cleaning up."""
    for name in (*written, CLAIM):
        try:
            objects.delete_prefix(name) if objects.has_prefix(name) else objects.delete(name)
        except Exception:
            continue


def _write_graph(engine: Engine, schema: str, catalog: Catalog, actor: str | None, written: list[str]) -> None:
    objects = engine.objects
    written.append(SOURCE)
    objects.write_text(SOURCE, schema)
    failpoints.hit("init.after_schema_written")
    written += [IR, STATE]
    objects.write_text(IR, catalog.to_json())
    state = {
        "format_version": _FORMAT,
        "schema_ir_hash": catalog.schema_hash,
        "schema_identity_version": catalog.next_identity,
    }
    objects.write_text(STATE, json.dumps(state))
    failpoints.hit("init.after_contract_written")
    changes: list[Change] = []
    types: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    for type_ in types:
        path = table_path(type_)
        written.append(path)
        objects.delete_prefix(path)
        handle = engine.storage.create_table(path, table_schema(type_))
        made = engine.storage.state(handle)
        key = table_key(type_)
        changes += [RegisterTable(key, path), Update(key, made.version, None, 0, made.transaction_uuid)]
    intent = Intent(ulid.new(), None, now_us(), "Init", actor_id=actor, message="init")
    version = engine.coordinator.table.create(manifest_rows(changes, intent), CURRENT_STAMP)
    failpoints.hit("init.after_manifest")
    engine.coordinator.journal.record(None, version, intent)


def open_graph(uri: str | os.PathLike[str], *, read_only: bool = False) -> Engine:
    """An existing graph. Opening it read-write finishes or undoes what a crashed writer left."""
    root = resolve_root(uri)
    objects = open_objects(root)
    if not objects.has_prefix("__manifest/_versions"):
        hint = (
            "create one with init"
            if not objects.exists(SOURCE)
            else "its initialisation was interrupted: run init again with force"
        )
        raise NotFound(f"{root} is not a graph", what="graph", name=str(root), hint=hint)
    catalog = read_contract(objects)
    engine = assemble(root, catalog)
    engine.coordinator.check_stamp()
    if not read_only:
        objects.delete(CLAIM)
        engine.coordinator.migrate_stamp()
        sweep(engine, full=True)
        reconcile_journal(engine)
    return engine


def read_contract(objects: ObjectStore) -> Catalog:
    """The accepted schema: source, compiled form and state must agree."""
    for name in (SOURCE, IR, STATE):
        if not objects.exists(name):
            hint = "restore it from a copy of the graph"
            raise NotFound(f"the graph lacks {name}", what="schema file", name=name, hint=hint)
    catalog = Catalog.from_json(objects.read_text(IR))
    state = json.loads(objects.read_text(STATE))
    source_hash = compile_or_raise(objects.read_text(SOURCE)).schema_hash
    if not catalog.schema_hash == state["schema_ir_hash"] == source_hash:
        text = f"{SOURCE}, {IR} and {STATE} do not describe the same schema"
        raise Conflict(text, reason="schema contract", hint="restore the three files from a copy of the graph")
    return catalog
