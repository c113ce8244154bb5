"""The sections `--- plan` and `--- sql ENGINE` of `query` blocks: how the planner runs a query, as text.

The facts that the planner asks for are those of the section `--- facts`, so the texts depend on no data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.build import build
from omnigraph_sql.planner.dialects import DIALECTS
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.sql_script import legend, statements
from tests.golden.gqt import Block, Section

KEYS = ("plan", "sql")
_ROWS = 1000


@dataclass
class StatedFacts:
    """The facts of a `--- facts` section: sizes of tables, and edge types that lead to one node at most."""

    sizes: dict[str, int] = field(default_factory=dict)
    single: set[tuple[str, str]] = field(default_factory=set)

    def rows(self, table_key: str) -> int:
        return self.sizes.get(table_key.partition(":")[2], _ROWS)

    def is_functional(self, edge: str, direction: str) -> bool:
        return (edge, direction) in self.single


def check_plan_texts(block: Block, plan: ir.ReadPlan, catalog: Catalog) -> None:
    """Compare every `--- plan` and `--- sql` section with what the planner makes."""
    sections = [section for section in block.sections if section.key in KEYS]
    if sections:
        sql_plan = build(plan, catalog, _facts(block, catalog))
        for section in sections:
            assert plan_text(sql_plan, section) == section.text, "--update-sql rewrites the section"


def update_plan_texts(block: Block, plan: ir.ReadPlan, catalog: Catalog) -> None:
    """Rewrite these sections in the file of a block."""
    sql_plan = build(plan, catalog, _facts(block, catalog))
    lines = block.path.read_text("utf-8").split("\n")
    begin = lines.index(f"=== {block.kind}: {block.title}")
    end = next((at for at in range(begin + 1, len(lines)) if lines[at].startswith("=== ")), len(lines))
    kept: list[str] = []
    is_stale = False
    for line in lines[begin:end]:
        if line.startswith("--- "):
            section = Section(*_key(line), "")
            is_stale = section.key in KEYS
            kept += [line, *plan_text(sql_plan, section).split("\n")] if is_stale else [line]
        elif not is_stale:
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    text = "\n".join([*lines[:begin], *kept, "", *lines[end:]])
    block.path.write_text(text.rstrip("\n") + "\n", "utf-8")


def plan_text(plan: SqlPlan, section: Section) -> str:
    """What a section has to say about a plan."""
    if section.key == "sql":
        return statements(plan, DIALECTS[section.argument])
    assert not section.argument, section.argument
    return "\n".join((*(f"rule: {note}" for note in plan.applied), *legend(plan, DIALECTS["datafusion"])))


def _facts(block: Block, catalog: Catalog) -> StatedFacts:
    facts = StatedFacts()
    section = block.get("facts")
    for line in section.lines if section else ():
        match line.split():
            case ["rows", name, number]:
                assert name in catalog.nodes or name in catalog.edges, name
                facts.sizes[name] = int(number)
            case ["single", edge, direction]:
                assert edge in catalog.edges, edge
                assert direction in ("in", "out"), direction
                facts.single.add((edge, direction))
            case _:
                raise AssertionError(f"{line!r} is not `rows TYPE NUMBER` or `single EDGE DIRECTION`")
    return facts


def _key(line: str) -> tuple[str, str]:
    key, _, argument = line.removeprefix("--- ").strip().partition(" ")
    return key, argument.strip()
