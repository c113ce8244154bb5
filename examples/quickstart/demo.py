"""A first look: schemas and queries from check to plan, then a graph with branches. Run it with `make demo`."""

from __future__ import annotations

import datetime
import json
import tempfile
import time
from pathlib import Path

import omnigraph_compiler as og
import omnigraph_sql
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
ogsql init /tmp/harbour --schema harbour.pg
ogsql load /tmp/harbour --data harbour.jsonl --mode append --as ada --message "first load"
ogsql branch create /tmp/harbour survey
ogsql mutate /tmp/harbour record_call --query harbour.gq --branch survey --as grace \\
    --params '{"ship": "9700011", "port": "DEHAM", "arrived": "2026-03-09T13:20:00Z"}'
ogsql commit list /tmp/harbour --branch survey
ogsql query /tmp/harbour within_reach --query harbour.gq --params '{"from": "NLRTM", "draught": 9.0}'
ogsql ensure-indices /tmp/harbour
ogsql explain /tmp/harbour within_reach --query harbour.gq --params '{"from": "NLRTM", "draught": 9.0}' --analyze
diff <(ogsql export /tmp/harbour) <(ogsql export /tmp/harbour --branch survey)
ogsql branch merge /tmp/harbour survey --as ada --message "survey of March"
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
            inner = "; ".join(step(inner_stage) for inner_stage in stage.inner)
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


def store(directory: Path) -> None:
    title("6. Create a graph and load harbour.jsonl")
    with omnigraph_sql.init(directory / "harbour", HERE / "harbour.pg", embedder="mock") as graph:
        result = graph.load(HERE / "harbour.jsonl", mode="append", actor="ada", message="first load")
        for name, rows in {**result.nodes, **result.edges}.items():
            print(f"    {name:<8}{rows:>4}")
        change(graph)
        ask(graph)
        merge(graph)


def change(graph: omnigraph_sql.Graph) -> None:
    title("7. Branch it and change the branch")
    queries = read("harbour.gq")
    graph.create_branch("survey")
    surveyed = {"code": "DEHAM", "depth": 15.4, "opened": "1189-05-07", "tags": ["container", "tidal"], "notes": None}
    arrival = {"ship": "9700011", "port": "DEHAM", "arrived": "2026-03-09T13:20:00Z", "tonnes": 12400.0}
    runs = {"survey_port": surveyed, "record_call": arrival, "retire_ship": {"imo": 9700059}}
    for name, params in runs.items():
        result = graph.mutate(queries, name, params, branch="survey", actor="grace")
        print(f"    {name:<12}  nodes: {result.affected_nodes}, edges: {result.affected_edges}")
    print("\n    history of the branch, newest first:\n")
    for commit in graph.commits("survey"):
        when = datetime.datetime.fromtimestamp(commit.created_at / 1_000_000, datetime.UTC)
        place = f"{commit.manifest_branch or 'main'} v{commit.manifest_version}"
        author, message = commit.actor_id or "", commit.message or ""
        print(f"    {commit.graph_commit_id}  {place:<9}  {when:%H:%M:%S}  {author:<5}  {message}".rstrip())
    print("\n    rows that differ, - on main, + on the branch:\n")
    main, branch = (dict(map(keyed, graph.export(name))) for name in ("main", "survey"))
    for key in sorted(main.keys() | branch.keys()):
        for mark, side, other in (("-", main, branch), ("+", branch, main)):
            if key in side and side[key] != other.get(key):
                print(f"    {mark} {shortened(f'{key[0]} {side[key]}', 110)}")


def ask(graph: omnigraph_sql.Graph) -> None:
    title("8. Ask both branches: words, meaning and traversals in one query")
    queries = read("harbour.gq")
    hybrid = {"from": "LKCMB", "text": "a passage up a tidal river"}
    params_by_query = {"reachable_like": hybrid, "tonnage_by_owner": {"since": "2026-01-01T00:00:00Z"}}
    for name, params in params_by_query.items():
        for branch in ("main", "survey"):
            result = graph.query(queries, name, params, branch=branch)
            print(f"    {name} on {branch}: {len(result)} rows")
            for row in result.to_json()[:3]:
                print(f"      {shortened(json.dumps(row, ensure_ascii=False), 110)}")
    print("\n    how `within_reach` runs, with the rows and the time of each step:\n")
    explained = graph.explain(queries, "within_reach", {"from": "NLRTM", "draught": 9.0}, analyze=True)
    indented("\n".join(explained.steps.lines()))


def merge(graph: omnigraph_sql.Graph) -> None:
    title("9. Merge the branch, and decide a conflict")
    queries = read("harbour.gq")
    dredged = {"code": "DEHAM", "depth": 15.9, "opened": "1189-05-07", "tags": ["container", "tidal"], "notes": None}
    graph.mutate(queries, "survey_port", dredged, actor="ada")
    for conflict in graph.merge("survey", dry_run=True).conflicts:
        ours, theirs = (side["depth"] for side in (conflict.ours, conflict.theirs))
        print(f"    {conflict.kind} of {conflict.type_name} {conflict.id}: depth is {ours} on main, {theirs} on the branch")
    merged = graph.merge("survey", actor="ada", message="survey of March", resolve={("Port", "DEHAM"): "theirs"})
    for key, counts in merged.changes.items():
        print(f"    {key:<12}  +{counts.inserts} ~{counts.updates} -{counts.deletes}")
    print(f"    {merged.outcome}: commit {merged.commit.graph_commit_id}, a child of both heads")


def keyed(record: str) -> tuple[tuple[str, str], str]:
    """Return the identity of an exported record, and its other members as text."""
    fields = json.loads(record)
    type_name = fields.get("type") or fields["edge"]
    row_id = fields["data"].pop("id")
    values = {name: fields[name] for name in ("from", "to") if name in fields} | fields["data"]
    return (type_name, row_id), ", ".join(
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()
    )


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def main() -> None:
    started = time.perf_counter()
    catalog = check()
    mistake(catalog)
    tidy()
    compile_one(catalog)
    plan(catalog)
    with tempfile.TemporaryDirectory() as directory:
        store(Path(directory))
    print(f"\nAll of this took {time.perf_counter() - started:.1f} s. The same on the command line:\n")
    indented(COMMANDS)


if __name__ == "__main__":
    main()
