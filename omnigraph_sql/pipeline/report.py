"""What a run did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph_sql.manifest.journal import Commit

STAGES = ("read", "validate", "stage", "test", "publish")


@dataclass(frozen=True)
class SourceCount:
    """How much of a source was read, and how many of its rows were nothing that could be mapped."""

    name: str
    rows: int
    malformed: int = 0


@dataclass(frozen=True)
class TableCount:
    """The rows of one type: what its mappings gave, and what became of them."""

    table_key: str
    rows: int
    rejected: int
    staged: int
    published: int = 0


@dataclass(frozen=True)
class RunReport:
    """What a run did. `to_text` is for people, `to_dict` for programs."""

    graph: str
    branch: str
    branch_created: bool
    mode: str
    engine: str
    key: str | None
    replayed: bool
    """Whether the key was published before: then nothing was read, and `commit` is that first commit."""
    commit: Commit | None
    sources: tuple[SourceCount, ...]
    tables: tuple[TableCount, ...]
    rejected: int
    rejects: str | None
    """Where the rejected rows are reported."""
    tests: tuple[str, ...]
    """The tests that passed."""
    seconds: Mapping[str, float]
    """By stage."""
    resumed: bool = False
    """Whether it went on with what a run that was killed had staged."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "graph": self.graph,
            "branch": self.branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "key": self.key,
            "replayed": self.replayed,
            "resumed": self.resumed,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "sources": [vars(each) for each in self.sources],
            "tables": [vars(each) for each in self.tables],
            "rows": sum(each.rows for each in self.sources),
            "rejected": self.rejected,
            "staged": sum(each.staged for each in self.tables),
            "published": sum(each.published for each in self.tables),
            "rejects": self.rejects,
            "tests": list(self.tests),
            "seconds": {**self.seconds, "total": round(sum(self.seconds.values()), 3)},
        }

    def to_text(self) -> str:
        """A table of what became of the rows, and what was published."""
        if self.replayed and self.commit is not None:
            return f"the run {self.key} was published before: nothing to do\ncommit {self.commit.graph_commit_id}\n"
        lines = [f"read {each.rows} rows of {each.name}" + _malformed(each) for each in self.sources]
        rows: list[tuple[str, ...]] = [("type", "rows", "rejected", "staged", "published")]
        rows += [
            (each.table_key, *map(str, (each.rows, each.rejected, each.staged, each.published))) for each in self.tables
        ]
        widths = [max(len(row[place]) for row in rows) for place in range(5)]
        lines += ["", *("  ".join(_padded(row, widths)).rstrip() for row in rows), ""]
        if self.resumed:
            lines.append("went on with what a run that was killed had done")
        if self.branch_created:
            lines.append(f"created the branch {self.branch}")
        if self.rejected:
            lines.append(f"left out {self.rejected} rows" + ("" if self.rejects is None else f"; see {self.rejects}"))
        if self.tests:
            lines.append(f"passed {len(self.tests)} {'test' if len(self.tests) == 1 else 'tests'}")
        spent = ", ".join(f"{stage} {self.seconds[stage]:.1f} s" for stage in STAGES if stage in self.seconds)
        lines.append(f"{sum(self.seconds.values()):.1f} s: {spent}")
        lines.append("nothing to commit" if self.commit is None else f"commit {self.commit.graph_commit_id}")
        return "\n".join(lines) + "\n"


def _malformed(count: SourceCount) -> str:
    return f", {count.malformed} of them malformed" if count.malformed else ""


def _padded(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
