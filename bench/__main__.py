"""`python -m bench [NAME…]`: run the suites and write their reports beside this file."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import compile as compile_suite
from bench import merges as merges_suite
from bench import queries as queries_suite
from bench import search as search_suite
from bench import spark as spark_suite
from bench import sql as sql_suite
from bench import sqlwrites as sqlwrites_suite
from bench import startup as startup_suite
from bench import store as store_suite
from bench import writers as writers_suite
from bench.measure import table


@dataclass(frozen=True)
class Suite:
    intro: str
    run: Callable[[argparse.Namespace], str]
    """Runs a benchmark and returns the tables of its report."""
    packages: tuple[str, ...]
    statistic: str = "Medians of repeated warm runs in one process after another"


SUITES = {
    "compile": Suite(
        "Compiling schemas and queries. The peers do the nearest thing in SQL: sqlglot parses and qualifies (and, in the "
        "schema row, only parses), DataFusion parses, resolves and optimises in native code.",
        lambda _: table(compile_suite.run()),
        ("omnigraph-sql", "lark", "sqlglot", "datafusion"),
    ),
    "store": Suite(store_suite.INTRO, store_suite.run, ("omnigraph-sql", "pylance", "pyarrow", "numpy")),
    "store-huge": Suite(store_suite.HUGE_INTRO, store_suite.run_huge, ("omnigraph-sql", "pylance", "pyarrow", "numpy")),
    "merges": Suite(merges_suite.INTRO, merges_suite.run, merges_suite.PACKAGES),
    "queries": Suite(queries_suite.INTRO, queries_suite.run, (*queries_suite.PACKAGES, "pyarrow")),
    "search": Suite(search_suite.INTRO, search_suite.run, search_suite.PACKAGES),
    "spark": Suite(spark_suite.INTRO, spark_suite.run, spark_suite.PACKAGES),
    "sql": Suite(sql_suite.INTRO, sql_suite.run, sql_suite.PACKAGES),
    "sqlwrites": Suite(sqlwrites_suite.INTRO, sqlwrites_suite.run, sqlwrites_suite.PACKAGES),
    "startup": Suite(startup_suite.INTRO, startup_suite.run, startup_suite.PACKAGES, "The quickest of repeated runs"),
    "writers": Suite(writers_suite.INTRO, writers_suite.run, ("omnigraph-sql", "pylance", "lancedb")),
}
DEFAULT = ("compile", "store", "merges", "queries", "search", "spark", "sql", "sqlwrites", "startup", "writers")


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    names = options.names or list(DEFAULT)
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    if options.huge:
        names = ["store-huge" if name == "store" else name for name in names]
    for name in names:
        suite = SUITES[name]
        load = os.getloadavg()[0]
        report = f"# Benchmark: {name}\n\n{suite.intro}\n\n{suite.run(options)}\n\n{_environment(suite, load)}\n"
        path = Path(__file__).parent / "reports" / f"{name}.md"
        path.write_text(report, "utf-8")
        print(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure speed against other systems.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"suites to run: {', '.join(DEFAULT)}; all, when none is named"
    )
    parser.add_argument("--huge", action="store_true", help="of `store`, only the load of a very large JSONL file; slow")
    parser.add_argument("--huge-bytes", type=int, default=store_suite.HUGE_BYTES, metavar="N", help="the size of that file")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="F",
        help="of `store`, `queries` and `writers`: this part of the usual sizes",
    )
    parser.add_argument(
        "--million",
        action="store_true",
        help="of `queries`: growth up to a million persons; of `merges`: a million wide rows; slow",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="of `queries` and `sql`: where the data is kept between runs; else a temporary directory",
    )
    parser.add_argument(
        "--limit", type=float, default=queries_suite.LIMIT, metavar="S", help="of `queries`: seconds an answer may take"
    )
    return parser


def _environment(suite: Suite, load: float) -> str:
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in suite.packages)
    busy = " Other work ran on the machine." if load > 1 else ""
    return (
        f"{suite.statistic}; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}; {versions}. Load average when it began: {load:.1f}.{busy}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
