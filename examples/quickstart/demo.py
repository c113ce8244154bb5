"""A first look: check, format and compile a schema with its queries, and plan a change. Run it with `make demo`."""

from __future__ import annotations

import time
from pathlib import Path

import omnigraph_compiler as og
from omnigraph_compiler import ir

HERE = Path(__file__).parent
MISTAKE = """\
query big_ports($tonnes: F64) {
  match {
    $p: Port { kind: "sea" }
    $s $visit:call $p
    $visit.tonnage >= $tonnes
  }
  return { $p.name, count($s) as ships }
}
"""
UNTIDY = """\
query homes(){match{$s:Ship $s homedAt $p // where a ship belongs
not{$s call $p}}
return{$s.name,$p.name as home}limit 5}
"""

COMMANDS = """\
source .venv/bin/activate
cd examples/quickstart
ogsql lint harbour.pg harbour.gq
ogsql fmt --check harbour.pg harbour.gq
ogsql compile harbour.pg harbour.gq --query idle_ships
ogsql schema plan --from harbour.pg harbour_v2.pg
"""


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}\n")


def indented(text: str) -> None:
    print("\n".join(f"    {line}".rstrip() for line in text.splitlines()))


def check() -> og.Catalog:
    title("1. Check the queries in harbour.gq against the schema in harbour.pg")
    catalog = og.compile_schema(read("harbour.pg"))
    report = og.lint(catalog, read("harbour.gq"), schema_path="harbour.pg", query_path="harbour.gq")
    for result in report.results:
        columns = ", ".join(column.name for column in result.query.columns) if result.query else ""
        print(f"    {result.kind:<8}  {result.name:<16}  {columns}".rstrip())
    print(f"\n    {len(report.results)} queries, {report.errors} errors, {report.warnings} warnings")
    return catalog


def mistake(catalog: og.Catalog) -> None:
    title("2. Make a mistake")
    report = og.lint(catalog, MISTAKE)
    for diagnostic in report.diagnostics:
        indented(diagnostic.render("big_ports.gq"))


def tidy() -> None:
    title("3. Format an untidy query")
    indented(UNTIDY)
    print("\n    becomes\n")
    indented(og.format_queries(UNTIDY))


def compile_one(catalog: og.Catalog) -> None:
    title("4. Compile the query `idle_ships` and look at its steps")
    query = og.compile_query(catalog, read("harbour.gq"), "idle_ships")
    assert isinstance(query.plan, ir.ReadPlan)
    for number, stage in enumerate(query.plan.stages(), start=1):
        print(f"    {number}. {step(stage)}")
    print(f"\n    hash of the plan: {query.ir_hash[:16]}…, whatever the layout and the comments of the file")


def step(stage: object) -> str:
    match stage:
        case ir.NodeScan():
            return f"scan {stage.type} as {stage.variable}"
        case ir.Expand():
            return f"expand along {stage.edge} from {stage.source} to {stage.target}"
        case ir.Filter():
            return f"keep rows with {operand(stage.left)} {stage.op} {operand(stage.right)}"
        case ir.AntiJoin():
            inner = "; ".join(step(each) for each in stage.inner)
            return f"drop rows for which this finds something: {inner}"
        case ir.Project() | ir.Aggregate():
            return f"{type(stage).__name__.lower()} {', '.join(item.name for item in stage.items)}"
        case ir.Order():
            keys = [f"{operand(key.expr)} {key.direction}" for key in stage.keys]
            return f"order by {', '.join(keys)}, then by {', '.join(operand(tie) for tie in stage.tie_break)}"
        case _:
            return type(stage).__name__.lower()


def operand(expression: object) -> str:
    match expression:
        case ir.PropertyRef():
            return f"{expression.variable}.{expression.property}"
        case ir.IdRef():
            return f"{expression.variable}.id"
        case ir.ParamRef():
            return f"${expression.name}"
        case _:
            return "…"


def plan(catalog: og.Catalog) -> None:
    title("5. Plan the way from harbour.pg to harbour_v2.pg")
    indented(og.plan_migration(catalog, og.compile_schema(read("harbour_v2.pg"))).render())


def read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def main() -> None:
    started = time.perf_counter()
    catalog = check()
    mistake(catalog)
    tidy()
    compile_one(catalog)
    plan(catalog)
    print(f"\nAll of this took {time.perf_counter() - started:.1f} s. The same on the command line:\n")
    indented(COMMANDS)


if __name__ == "__main__":
    main()
