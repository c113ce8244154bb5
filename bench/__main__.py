"""`python -m bench [NAME…]`: run the suites and write their reports beside this file."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from bench import compile as compile_suite
from bench.measure import Row, table

SUITES: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "compile": (
        "Compiling schemas and queries. The peers do the nearest thing in SQL: sqlglot parses and qualifies (and, in the "
        "schema row, only parses), DataFusion parses, resolves and optimises in native code.",
        compile_suite.run,
    ),
}
PACKAGES = ("omnigraph-sql", "lark", "sqlglot", "datafusion")


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    for name in names or list(SUITES):
        intro, run = SUITES[name]
        report = f"# Benchmark: {name}\n\n{intro}\n\n{table(run())}\n\n{_environment()}\n"
        path = Path(__file__).parent / "reports" / f"{name}.md"
        path.write_text(report, "utf-8")
        print(report)
    return 0


def _environment() -> str:
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES)
    return (
        f"Medians of repeated warm runs in one process after another; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}; {versions}."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
