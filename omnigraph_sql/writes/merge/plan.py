"""The plan of a merge: the outcome of every row and relation that the sides changed, and the writes that bring it about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.arguments import is_encodable
from omnigraph_sql.embeddings import Embeddings, fill
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.changes import DefinitionChange, PointerUpdate, Tombstone
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.storage.version_difference import portions
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.merge.conflicts import MergeConflict, ordered
from omnigraph_sql.writes.merge.frame import MergeFrame, type_key
from omnigraph_sql.writes.merge.image import image_conflicts, stored_rows, value_conflicts, with_plain_blobs
from omnigraph_sql.writes.merge.relations import changed_relations, definition_change, required_keys, table_write
from omnigraph_sql.writes.merge.resolution import MergeDecision, MergeResolution
from omnigraph_sql.writes.merge.row_states import OURS, THEIRS, RowStates, row_conflicts
from omnigraph_sql.writes.mutation_values import outdated_vectors, rows_table, stored
from omnigraph_sql.writes.operation import RowEdits, TableWrite


@dataclass(frozen=True, kw_only=True)
class TypeChanges:
    """The numbers of rows of a type that a merge changes in its target."""

    inserts: int
    """Rows that come."""
    updates: int
    """Rows that get other values."""
    deletes: int
    """Rows that go."""


@dataclass(kw_only=True)
class MergePlan:
    """What a merge will do. With conflicts it does nothing."""

    frame: MergeFrame
    conflicts: tuple[MergeConflict, ...] = ()
    """Conflicts that nobody decided."""
    taken: tuple[TableKey, ...] = ()
    """Relations that become those of the source."""
    resolved: int = 0
    """Conflicts that were decided."""
    counts: dict[str, TypeChanges] = field(default_factory=dict)

    @property
    def reads(self) -> frozenset[str]:
        """Everything that the plan was made from."""
        return frozenset([*self.frame.states, *required_keys(self.taken)])


def plan_merge(
    frame: MergeFrame, resolution: MergeResolution, *, by_column: bool, embeddings: Embeddings | None = None
) -> MergePlan:
    """Decide every row and relation. Conflicts between rows are reported before the merged graph is validated.

    `embeddings` computes the vectors of texts that a decision gives.
    """
    decider = _Decider(frame=frame, resolution=resolution, embeddings=embeddings)
    for type_ in frame.types():
        key = type_key(type_)
        if frame.touches(key):
            decider.decide_rows(key, by_column=by_column)
    taken = list(decider.decide_relations())
    if not decider.open:
        decider.decide_image()
    if not decider.open:
        resolution.check_used()
    plan = MergePlan(frame=frame, conflicts=ordered(decider.open), taken=tuple(taken), resolved=decider.resolved)
    for table_key, states in frame.states.items():
        present = states.ours.is_present
        put = states.is_put
        counts = (int((put & ~present).sum()), int((put & present).sum()), int(states.is_removed.sum()))
        if any(counts):
            plan.counts[table_key] = TypeChanges(inserts=counts[0], updates=counts[1], deletes=counts[2])
    return plan


@dataclass(kw_only=True)
class _Decider:
    """Applies decisions to conflicts and keeps those that are open."""

    frame: MergeFrame
    resolution: MergeResolution
    embeddings: Embeddings | None = None
    open: list[MergeConflict] = field(default_factory=list)
    resolved: int = 0
    outdated: dict[str, list[int]] = field(default_factory=dict)
    """Rows with texts whose vectors are to be computed, by table key."""

    def decide_rows(self, key: TableKey, *, by_column: bool) -> None:
        states = self.frame.rows(key)
        conflicts = row_conflicts(self.frame.store.storage, states, by_column=by_column)
        ids = states.ids.take(pa.array(conflicts.rows)).to_pylist()
        for row, row_id, kind, properties in zip(
            conflicts.rows.tolist(), ids, conflicts.kinds, conflicts.properties, strict=True
        ):
            conflict = MergeConflict(
                table_key=key,
                kind=kind,  # type: ignore[arg-type]
                id=row_id,
                properties=properties,
                message=_row_message(key, row_id, kind, properties),
                members=((str(key), row_id),),
            )
            decision = self.resolution.decide(conflict)
            if decision is None:
                self.open.append(conflict)
            else:
                self._apply(states, row, decision)
                self.resolved += 1

    def decide_relations(self) -> list[TableKey]:
        """The relations that become those of the source."""
        taken: set[TableKey] = set()
        for relation in changed_relations(self.frame):
            if relation.conflict is None:
                taken |= {relation.key, *relation.along}
                continue
            decision = self.resolution.decide(relation.conflict)
            if decision is None:
                self.open.append(relation.conflict)
                continue
            self.resolved += 1
            if decision.take == THEIRS:
                taken |= {relation.key, *relation.along}
        return sorted(taken)

    def decide_image(self) -> None:
        """Decide conflicts of the merged graph until there are none, or none that can be decided."""
        while conflicts := self._image_conflicts():
            settled = [conflict for conflict in conflicts if self._settle(conflict)]
            self.resolved += len(settled)
            if not settled:
                self.open = list(conflicts)
                return

    def _image_conflicts(self) -> tuple[MergeConflict, ...]:
        """The conflicts of the merged graph, with the vectors of the texts that decisions gave."""
        storage = self.frame.store.storage
        for key, rows in self.outdated.items():
            states, type_ = self.frame.states[key], self.frame.store.type_of(key)
            assert self.embeddings is not None
            chosen = np.array(rows, np.int64)
            images = states.images(storage, table_schema(type_).names, chosen)
            states.write(chosen, with_plain_blobs(fill(type_, stored_rows(type_, images), self.embeddings)))
        self.outdated.clear()
        return ordered(image_conflicts(self.frame))

    def _settle(self, conflict: MergeConflict) -> bool:
        """Give the rows of a conflict to the side that a decision names; False if that changes nothing."""
        decision = self.resolution.decide(conflict)
        if decision is None:
            return False
        is_settled = False
        for key, row_id in conflict.members:
            states = self.frame.rows(key)
            row = states.index(row_id)
            if row is None or states.decided[row]:
                continue
            is_named = row_id == decision.id and decision.type_name in (None, TableKey(key).name, key)
            own = decision if is_named or decision.values is None else replace(decision, values=None)
            self._apply(states, row, own)
            is_settled = True
        return is_settled

    def _apply(self, states: RowStates, row: int, decision: MergeDecision) -> None:
        states.decided[row] = True
        states.outcome[row] = decision.take
        if decision.values is not None:
            self._give_values(states, row, decision.values)

    def _give_values(self, states: RowStates, row: int, values: Mapping[str, Any]) -> None:
        key = next(key for key, candidate in self.frame.states.items() if candidate is states)
        type_ = self.frame.store.type_of(key)
        row_id = states.ids[row].as_py()
        if not states.is_merged[row]:
            side = "theirs" if states.outcome[row] == OURS else "ours"
            text = f"{key} `{row_id}` is not there on the side that the decision takes, so it cannot get values"
            raise BadRequest(text, hint=f"take `{side}` together with the values")
        rows = states.images(self.frame.store.storage, table_schema(type_).names, np.array([row]))
        image = rows.to_pylist()[0]
        changes = {name: _checked_value(type_, name, value) for name, value in values.items()}
        image |= changes
        if self.embeddings is not None and (vectors := outdated_vectors(type_, changes)):
            image |= vectors
            self.outdated.setdefault(key, []).append(row)
        states.write(np.array([row]), with_plain_blobs(rows_table(type_, [image])))


def _checked_value(type_: NodeType | EdgeType, name: str, value: Any) -> Any:
    prop = type_.properties.get(name)
    if prop is None:
        hint = f"the properties are {', '.join(type_.properties)}"
        raise BadRequest(f"a decision cannot give `{name}` a value: {type_.name} has no such property", hint=hint)
    if isinstance(type_, NodeType) and name in (type_.key or ()):
        raise BadRequest(
            f"`{type_.name}.{name}` is the key, which cannot be changed", hint="give values to other properties"
        )
    if not all(is_encodable(text) for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)):
        text = f"`{type_.name}.{name}` expects valid Unicode, found half of a surrogate pair"
        raise BadRequest(text, hint="give a text of whole characters")
    try:
        return stored(f"{type_.name}.{name}", prop.type, value)
    except BadRequest as error:
        hint = error.hint or f"give `{name}` a value as in a record of a load"
        raise BadRequest(error.message, hint=hint) from None


def _row_message(key: TableKey, row_id: str, kind: str, properties: tuple[str, ...]) -> str:
    if kind == "DeleteVsUpdate":
        return f"{key} `{row_id}` was deleted on one side and changed on the other"
    if kind == "DivergentInsert":
        return f"{key} `{row_id}` was created on both sides with other values ({', '.join(properties)})"
    return f"{key} `{row_id}` was changed on both sides ({', '.join(properties)})"


# Writes --------------------------------------------------------------------------------------------------------------


def plan_transfer(frame: MergeFrame) -> MergePlan:
    """The plan that brings a target which is still at the base to the source. The source is valid, so nothing is checked."""
    decider = _Decider(frame=frame, resolution=MergeResolution())
    for type_ in frame.types():
        key = type_key(type_)
        if frame.touches(key):
            decider.decide_rows(key, by_column=False)
    taken = list(decider.decide_relations())
    assert not decider.open
    return MergePlan(frame=frame, taken=tuple(taken))


def plan_writes(
    plan: MergePlan, workspace: Workspace
) -> tuple[list[TableWrite], list[Tombstone | DefinitionChange | PointerUpdate]]:
    """The writes to tables and the changes of the manifest that a plan without conflicts takes.

    Rows that are taken over are validated once more. `plan.conflicts` has those that break a rule of their type.
    """
    frame = plan.frame
    writes: list[TableWrite] = []
    changes: list[Tombstone | DefinitionChange | PointerUpdate] = []
    violations: list[MergeConflict] = []
    for key, states in sorted(frame.states.items()):
        if not (states.is_put.any() or states.is_removed.any()):
            continue
        adopted = frame.adoptable(key)
        if adopted is not None and not (states.outcome != THEIRS).any():
            changes.append(PointerUpdate(key, adopted.version, adopted.branch, adopted.row_count, adopted.transaction_uuid))
            continue
        writes.append(_row_edits(frame, key, states, workspace, violations))
    for key in plan.taken:
        change = definition_change(frame, key)
        if change is not None:
            changes.append(change)
        elif (write := table_write(frame, key, workspace)) is not None:
            writes.append(write)
    plan.conflicts = ordered(violations)
    return writes, changes


def _row_edits(
    frame: MergeFrame, key: str, states: RowStates, workspace: Workspace, violations: list[MergeConflict]
) -> RowEdits:
    storage = frame.store.storage
    present = states.ours.is_present
    changed, added = np.flatnonzero(states.is_put & present), np.flatnonzero(states.is_put & ~present)
    put = np.concatenate([changed, added])
    row_ids, addresses = states.places(storage, changed)
    _, removed = states.places(storage, np.flatnonzero(states.is_removed))
    type_ = frame.store.type_of(key)
    schema = table_schema(type_)
    handle = states.target or states.theirs.changes.after
    assert handle is not None

    def batches() -> Iterator[pa.RecordBatch]:
        for part in portions(storage, handle, schema.names, len(put)):
            rows = stored_rows(type_, states.images(storage, schema.names, put[part]))
            violations.extend(value_conflicts(type_, key, rows))
            yield from rows.combine_chunks().to_batches()

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    return RowEdits(
        table_key=key,
        rows=TableRows.put(reader, workspace),
        row_ids=row_ids,
        addresses=addresses,
        removed=removed,
    )
