"""Definitions of indexes: which ones a table should have, and how they are built."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from omnigraph_compiler import EdgeType, NodeType, Property

VECTOR_ROWS: Final = 1_000_000
"""The most rows without a vector index: comparing them all is exact and fast enough (OMNIGRAPH_VECTOR_INDEX_ROWS)."""
LEAST_VECTORS: Final = 256
"""The number of entries of the code book that a vector index learns."""


@dataclass(frozen=True)
class IndexSpec:
    """An index on one column."""

    column: str
    kind: str
    metric: str | None = None
    dimension: int = 0

    @property
    def name(self) -> str:
        """The name of the index in its table."""
        return f"{self.column}_{self.kind.lower()}"


@dataclass(frozen=True)
class IndexState:
    """An index that a version of a table has."""

    name: str
    column: str
    kind: str
    fragments: frozenset[int]
    """The fragments that it covers."""
    covers_all: bool


def index_specs(type_: NodeType | EdgeType, rows: int) -> tuple[IndexSpec, ...]:
    """Return the indexes that the table of a type should have at its number of rows."""
    if isinstance(type_, EdgeType):
        return tuple(IndexSpec(name, "BTREE") for name in ("id", "src", "dst"))
    declared = [columns[0] for columns in type_.index if len(columns) == 1]
    key = type_.key if type_.key is not None and len(type_.key) == 1 else ()
    names = dict.fromkeys([*key, *declared])
    specs = (_spec(type_.properties[name], rows) for name in names)
    return (IndexSpec("id", "BTREE"), *(spec for spec in specs if spec is not None))


def text_specs(type_: NodeType | EdgeType) -> Iterator[IndexSpec]:
    """Lance's own text indexes on declared texts. Queries never use them; other readers of the tables may want them."""
    for columns in type_.index if isinstance(type_, NodeType) else ():
        prop = type_.properties[columns[0]]
        if len(columns) == 1 and _is_free_text(prop):
            yield IndexSpec(prop.name, "INVERTED")


def declared_vectors(type_: NodeType) -> Iterator[str]:
    """Return the vector properties that are declared as searchable."""
    for columns in type_.index:
        if len(columns) == 1 and type_.properties[columns[0]].type.is_vector:
            yield columns[0]


def _spec(prop: Property, rows: int) -> IndexSpec | None:
    type_ = prop.type
    if type_.is_vector:
        limit = os.environ.get("OMNIGRAPH_VECTOR_INDEX_ROWS", "")
        if rows <= (int(limit) if limit.isdigit() else VECTOR_ROWS):
            return None
        return IndexSpec(prop.name, "IVF_PQ", prop.metric or "l2", type_.dimension or 0)
    if type_.is_list or type_.is_blob:
        return None
    return IndexSpec(prop.name, "BTREE")


def _is_free_text(prop: Property) -> bool:
    type_ = prop.type
    return type_.scalar == "String" and not type_.is_list and type_.enum_values is None


def build_indexes(dataset: Any, specs: Iterable[IndexSpec]) -> list[Any]:
    """Build indexes over all rows of a dataset that no other thread uses meanwhile; nothing is committed."""
    fragments = [fragment.fragment_id for fragment in dataset.get_fragments()]
    built = []
    for spec in specs:
        index = dataset.create_index_uncommitted(
            spec.column, spec.kind, name=spec.name, fragment_ids=fragments, replace=True, **_settings(spec, dataset)
        )
        built.append(dataset.merge_existing_index_segments([index]) if spec.kind == "INVERTED" else index)
    return built


def _settings(spec: IndexSpec, dataset: Any) -> dict[str, Any]:
    """Lance's settings of a vector index: short codes, and partitions that it can learn from samples."""
    if spec.metric is None:
        return {}
    width = next(size for size in (4, 2, 1) if spec.dimension % size == 0)
    vectors = dataset.count_rows(f"`{spec.column}` IS NOT NULL")
    parts = max(1, min(round(vectors**0.5), vectors // 256))
    return {"metric": spec.metric, "num_partitions": parts, "num_sub_vectors": spec.dimension // width}
