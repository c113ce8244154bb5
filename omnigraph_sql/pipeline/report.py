"""Reports of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph_sql.manifest.journal import Commit

STAGES = ("read", "validate", "stage", "test", "publish")


@dataclass(frozen=True)
class SourceCount:
    """The rows read from a source, and how many of them were malformed and not mapped."""

    name: str
    rows: int
    malformed: int = 0


@dataclass(frozen=True)
class TableCount:
    """The rows of one type: mapped, rejected, staged and published."""

    table_key: str
    rows: int
    rejected: int
    staged: int
    published: int = 0


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """The outcome of a run. `to_text` is for people, `to_dict` for programs.

    Example:
        >>> report = og.pipeline.run_pipeline("pipeline.yaml", key="monday")
        >>> report.replayed, og.pipeline.run_pipeline("pipeline.yaml", key="monday").replayed
        (False, True)
    """

    graph: str
    """The address of the graph."""
    branch: str
    """The branch that got the rows."""
    branch_created: bool
    """True if the run created the branch."""
    mode: str
    """The mode of the load."""
    engine: str
    """`local` or `spark`."""
    key: str | None
    """The idempotency key of the run; None if it has none."""
    replayed: bool
    """True if the key was published before: then nothing was read, and `commit` is the first commit."""
    commit: Commit | None
    """The published commit; None if the run changed nothing."""
    sources: tuple[SourceCount, ...]
    """Rows read, by source."""
    tables: tuple[TableCount, ...]
    """Rows mapped, rejected, staged and published, by type."""
    rejected: int
    """Rows that were left out."""
    rejects: str | None
    """The file with the rejected rows."""
    tests: tuple[str, ...]
    """The tests that passed."""
    seconds: Mapping[str, float]
    """The duration of each stage."""
    resumed: bool = False
    """True if the run resumed the work of a killed one."""
    warnings: tuple[str, ...] = ()
    """Warnings of a successful run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values.

        Example:
            >>> og.pipeline.run_pipeline("pipeline.yaml").to_dict()["published"]
            1
        """
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
            "sources": [vars(count) for count in self.sources],
            "tables": [vars(count) for count in self.tables],
            "rows": sum(count.rows for count in self.sources),
            "rejected": self.rejected,
            "staged": sum(count.staged for count in self.tables),
            "published": sum(count.published for count in self.tables),
            "rejects": self.rejects,
            "tests": list(self.tests),
            "warnings": list(self.warnings),
            "seconds": {**self.seconds, "total": round(sum(self.seconds.values()), 3)},
        }

    def to_text(self) -> str:
        """Return a table of the rows by type and outcome, and the commit.

        Example:
            >>> print(og.pipeline.run_pipeline("pipeline.yaml").to_text())
            read 1 rows of ports
            ...
            commit ...
        """
        if self.replayed and self.commit is not None:
            return f"the run {self.key} was published before: nothing to do\ncommit {self.commit.graph_commit_id}\n"
        lines = [f"read {count.rows} rows of {count.name}" + _malformed(count) for count in self.sources]
        rows: list[tuple[str, ...]] = [("type", "rows", "rejected", "staged", "published")]
        rows += [
            (count.table_key, *map(str, (count.rows, count.rejected, count.staged, count.published)))
            for count in self.tables
        ]
        widths = [max(len(row[place]) for row in rows) for place in range(5)]
        lines += ["", *("  ".join(_padded(row, widths)).rstrip() for row in rows), ""]
        if self.resumed:
            lines.append("went on with what a run that was killed had done")
        if self.branch_created:
            lines.append(f"created the branch {self.branch}")
        if self.rejected:
            rows_left_out = f"{self.rejected} {'row' if self.rejected == 1 else 'rows'}"
            lines.append(f"left out {rows_left_out}" + ("" if self.rejects is None else f"; see {self.rejects}"))
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
