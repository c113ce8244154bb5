"""`ogsql schema plan`: the steps from one schema to another."""

from __future__ import annotations

from omnigraph_compiler import plan_migration
from omnigraph_sql.cli import output
from omnigraph_sql.cli.source_files import load_catalog, rejections


def run(old_path: str, new_path: str, *, as_json: bool) -> int:
    """Show the plan; 1 if it has a step that is not supported."""
    old, new = load_catalog(old_path), load_catalog(new_path)
    with rejections(new_path):
        plan = plan_migration(old, new)
    if as_json:
        output.write_json(plan.to_dict())
    else:
        output.write(plan.render().rstrip("\n") + "\n")
    return 0 if plan.supported else 1
