"""Small commits: one row each, into a large table and after a long history."""

from __future__ import annotations

import cProfile
import pstats
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import omnigraph_sql as og
from bench.loading import Comparison, stored_table, write_table
from bench.measure import Sample, alternate
from omnigraph_sql.manifest.changes import PointerUpdate, manifest_rows
from omnigraph_sql.manifest.coordinator import ManifestCoordinator
from omnigraph_sql.manifest.journal import CommitGraph
from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.storage.manifest_table import ROW_SCHEMA, ManifestTable
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.store.sidecars import Sidecars
from omnigraph_sql.writes.stage import stage_write

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Note { text: String }
"""
UPSERT = "query q($name: String) { insert Person { name: $name, age: 1 } }"
APPEND = "query q($name: String) { insert Note { text: $name } }"

PARTS: tuple[tuple[str, Any], ...] = (
    ("stage the rows", stage_write),
    ("look for drift", TableStorage.newest_version),
    ("write the sidecar", Sidecars.write),
    ("commit the table", TableStorage.commit_staged),
    ("look at the manifest", ManifestCoordinator.fresh),
    ("merge into the manifest", ManifestTable.merge_rows),
    ("append to the journal", CommitGraph.append),
)


def _people(rows: int) -> pa.Table:
    names = pa.array([f"person-{number}" for number in range(rows)])
    ages = pa.array([number % 100 for number in range(rows)], pa.int32())
    return pa.table({"name": names, "age": ages, "city": pa.array([f"city-{number % 500}" for number in range(rows)])})


# Into a large table ----------------------------------------------------------------------------------------------


def upserts(directory: Path, rows: int, repeat: int) -> tuple[list[Comparison], list[tuple[str, float]]]:
    """Compare one-row upserts with the two bare merges they contain, and break our time down."""
    graph = og.init(directory / "large", SCHEMA)
    graph.load({"Person": _people(rows)}, mode="append")
    bare = write_table(directory / "bare-large", lance.dataset(str(stored_table(graph, "node:Person"))).to_table())
    manifest = write_table(directory / "bare-manifest", _manifest_like(50))
    compared = []
    for name, key in (("a new key", "new-{}"), ("an existing key", "person-{}")):

        def ours(number: int, key: str = key) -> None:
            graph.mutate(UPSERT, params={"name": key.format(number * 1000)})

        def peer(number: int, key: str = key) -> None:
            _two_merges(bare, manifest, key.format(number * 1000))

        mine, theirs = alternate(ours, peer, repeat=repeat, warm_up=2)
        compared.append(Comparison(f"upsert of {name} into {rows:,} rows", mine, theirs, 3.0))
    parts = breakdown(lambda number: graph.mutate(UPSERT, params={"name": f"person-{number * 1000 + 7}"}), repeat)
    return compared, parts


def _manifest_like(tables: int) -> pa.Table:
    changes = [PointerUpdate(f"node:T{number}", 1, None, 0, "u") for number in range(tables)]
    return pa.Table.from_pylist(manifest_rows(changes, _intent(0)), schema=ROW_SCHEMA)


def _intent(number: int) -> Intent:
    return Intent(graph_commit_id=f"c{number}", parent_commit_id=None, created_at=number, writer_kind="Mutation")


def _two_merges(table: lance.LanceDataset, manifest: lance.LanceDataset, name: str) -> None:
    row = {"id": name, "name": name, "age": 1, "city": None}
    _merge(table, "id", pa.Table.from_pylist([row], schema=table.schema))
    rows = manifest_rows([PointerUpdate("node:T0", manifest.version + 1, None, 0, "u")], _intent(manifest.version))
    _merge(manifest, "object_id", pa.Table.from_pylist(rows, schema=ROW_SCHEMA))


def _merge(table: lance.LanceDataset, key: str, rows: pa.Table) -> None:
    builder = table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).use_index(False).execute(rows)


def breakdown(run: Callable[[int], object], repeat: int) -> list[tuple[str, float]]:
    """Return the milliseconds per call in the parts of a write."""
    profile = cProfile.Profile()
    for number in range(repeat):
        profile.runcall(run, number)
    stats: Any = pstats.Stats(profile)
    spent = {(file, line): times[3] for (file, line, _), times in stats.stats.items()}
    codes = [(label, function.__code__) for label, function in PARTS]
    parts = [(label, spent[code.co_filename, code.co_firstlineno] * 1000 / repeat) for label, code in codes]
    total = stats.total_tt * 1000 / repeat
    return [*parts, ("everything else", total - sum(spent for _, spent in parts)), ("together", total)]


# After a long history --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The 10th commit of new graphs and later commits of an old one, and bare Lance on tables of the same shape."""

    workload: str
    young: Sample
    old: Sample
    bare_young: Sample
    bare_old: Sample
    fragments: int
    """The number of fragments in the data table of the old graph."""
    bare_fragments: int


KINDS: dict[str, tuple[str, str, str]] = {
    "insert (append)": (APPEND, "node:Note", "x{}"),
    "upsert of new keys (merge)": (UPSERT, "node:Person", "x{}"),
    "upsert of one key (merge)": (UPSERT, "node:Person", "the same"),
}


def growth(directory: Path, commits: int, repeat: int) -> list[Growth]:
    return [_growth(directory / str(number), kind, commits, repeat) for number, kind in enumerate(KINDS)]


def _growth(directory: Path, kind: str, commits: int, repeat: int) -> Growth:
    query, key, text = KINDS[kind]
    old = _aged(directory / "old", query, text, commits - 1)
    young = [_aged(directory / f"young-{number}", query, text, 9) for number in range(repeat + 1)]
    bare_old = _bare_aged(directory / "bare-old", old, key, text, commits - 1)
    bare_young = [_bare_aged(directory / f"bare-young-{number}", old, key, text, 9) for number in range(repeat + 1)]
    young_times, old_times, bare_young_times, bare_old_times = alternate(
        lambda number: young[number].mutate(query, params={"name": text.format(f"t{number}")}),
        lambda number: old.mutate(query, params={"name": text.format(f"t{number}")}),
        lambda number: _bare(bare_young[number], key, text.format(f"t{number}")),
        lambda number: _bare(bare_old, key, text.format(f"t{number}")),
        repeat=repeat,
    )
    fragments = len(lance.dataset(str(stored_table(old, key))).get_fragments())
    bare_fragments = len(bare_old.get_fragments())
    shutil.rmtree(directory)
    return Growth(
        workload=kind,
        young=young_times,
        old=old_times,
        bare_young=bare_young_times,
        bare_old=bare_old_times,
        fragments=fragments,
        bare_fragments=bare_fragments,
    )


def _aged(root: Path, query: str, text: str, commits: int) -> og.Graph:
    graph = og.init(root, SCHEMA)
    for number in range(commits):
        graph.mutate(query, params={"name": text.format(number)})
    return graph


def _bare_aged(path: Path, graph: og.Graph, key: str, text: str, commits: int) -> lance.LanceDataset:
    """Return a table like that of a graph after so many commits, written through one handle, as a graph writes its own."""
    table = write_table(path, lance.dataset(str(stored_table(graph, key))).schema.empty_table())
    for number in range(commits):
        _bare(table, key, text.format(number))
    return table


def _bare(table: lance.LanceDataset, key: str, text: str) -> None:
    if key == "node:Note":
        rows = pa.Table.from_pylist([{"id": text, "text": text}], schema=table.schema)
        table.insert(rows)
        return
    row = {"id": text, "name": text, "age": 1, "city": None}
    _merge(table, "id", pa.Table.from_pylist([row], schema=table.schema))
