"""Loads of one graph: from the data of the caller to validated batches, staged or published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from omnigraph_sql.choices import ExtraColumns, LoadMode
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph.bundles import require_same_schema
from omnigraph_sql.history.bundles import BundleHeader
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.lifecycle import SOURCE
from omnigraph_sql.writes.load.abandoned_loads import discard, record
from omnigraph_sql.writes.load.loads import LoadInput, LoadResult, check_mode, prepare_load, reported_result, warn_of
from omnigraph_sql.writes.load.loads import load as run_load
from omnigraph_sql.writes.load.rejects import RejectLimit, Rejects, RejectTarget, files_of
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.load.stage import Step, publish_staged, stage_load
from omnigraph_sql.writes.load.staged_load import StagedLoad
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.protocol import Review
from omnigraph_sql.writes.readers import PlacedTables, TableOptions, read_records, read_tables, table_options
from omnigraph_sql.writes.readers.model import Counted
from omnigraph_sql.writes.transactions import WriteTransaction


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """The data and options of a load."""

    data: Any
    mode: LoadMode
    branch: str
    provenance: Provenance
    rejects: RejectTarget | Rejects | None = None
    max_rejects: RejectLimit | None = None
    csv: Mapping[str, Any] | None = None
    extra_columns: ExtraColumns = "refuse"
    review: Review = None

    @property
    def options(self) -> TableOptions:
        """The options of tables."""
        return table_options(self.csv, self.extra_columns)

    def check(self) -> None:
        """Raise if the mode or an option is not valid."""
        check_mode(self.mode)
        _ = self.options

    @contextmanager
    def rejected(self) -> Iterator[Rejects | None]:
        """The collector of rejected records, if one is wanted; it delivers its report at the end of the block."""
        if self.rejects is None and self.max_rejects is None:
            yield None
            return
        target = self.rejects
        collector = target if isinstance(target, Rejects) else Rejects(target, self.max_rejects, inputs=files_of(self.data))
        with collector.delivered():
            yield collector


class GraphLoads:
    """Reads, validates, stages and publishes loads of one graph."""

    def __init__(self, store: GraphStore, embeddings: Embeddings | None) -> None:
        self._store = store
        self._embeddings = embeddings

    def load(self, request: LoadRequest) -> LoadResult:
        """Load and publish in one commit. Options and targets are checked before anything is read."""
        mode, options = check_mode(request.mode), request.options
        with request.rejected() as rejects:
            batches = self._input(request.data, rejects, options)
            result = run_load(
                self._store,
                batches,
                mode=mode,
                branch=request.branch,
                provenance=request.provenance,
                review=request.review,
            )
        return reported_result(result, rejects)

    def load_into(self, transaction: WriteTransaction, request: LoadRequest) -> LoadResult:
        """Load as part of a transaction."""
        mode, options = check_mode(request.mode), request.options
        with request.rejected() as rejects, Workspace() as workspace:
            batches = self._input(request.data, rejects, options)
            prepare = prepare_load(self._store, batches, workspace, mode=mode, branch=request.branch)
            result = transaction.apply(prepare)
        return reported_result(result, rejects)

    def stage(self, request: LoadRequest, on_step: Callable[[Step], None]) -> StagedLoad:
        """Validate a load and write its files; nothing becomes visible."""
        mode, options = check_mode(request.mode), request.options
        with request.rejected() as rejects:
            batches = self._input(request.data, rejects, options)
            staged = stage_load(
                self._store,
                batches,
                mode=mode,
                branch=request.branch,
                provenance=request.provenance,
                on_step=on_step,
            )
        if rejects is not None and rejects.problem is not None:
            discard(self._store, staged)
            rejects.require_delivered()
        if request.provenance.idempotency_key is not None:
            record(self._store, staged)
        warn_of(staged.warnings)
        return staged

    def publish(self, staged: StagedLoad, provenance: Provenance, review: Review = None) -> Commit | None:
        """Publish a staged load."""
        outcome = publish_staged(self._store, staged, provenance, review)
        if outcome.replayed:
            discard(self._store, staged)  # another load of the same key came first
        return outcome.commit

    def _input(self, data: Any, rejects: Rejects | None, options: TableOptions) -> LoadInput:
        catalog, on_reject = self._store.catalog, None if rejects is None else rejects.add_unread
        computes = self._embeddings is not None
        if isinstance(data, PlacedTables):
            placed = read_tables(data.tables, catalog, on_reject=on_reject, computes=computes, places=data.places)
            return LoadInput(placed, data.places, rejects, self._embeddings)
        if isinstance(data, Mapping):
            tables = read_tables(data, catalog, on_reject=on_reject, computes=computes, options=options)
            return LoadInput(tables, Counted("row"), rejects, self._embeddings)
        if not options.is_default:
            hint = 'name the type of each table: load({"TYPE": "FILE.csv"}, ...)'
            raise BadRequest("csv and extra_columns are for tables, and these are records", hint=hint)
        records = read_records(data, catalog, on_reject=on_reject, computes=computes, on_header=self._check_header)
        return LoadInput(records, Counted("line"), rejects, self._embeddings)

    def _check_header(self, header: BundleHeader) -> None:
        require_same_schema(header, self._store.objects.read_text(SOURCE), self._store.catalog)
