"""`ogsql schema`: the steps from one schema to another."""

from __future__ import annotations

import click

from omnigraph_sql.cli.options import FILE, json_option, require_command


@click.group("schema", invoke_without_command=True)
@click.pass_context
def schema(context: click.Context) -> None:
    """Work with schemas."""
    require_command(context)


@schema.command("plan")
@click.argument("new", type=FILE)
@click.option("--from", "old", type=FILE, required=True, metavar="OLD", help="The schema in force.")
@json_option()
def schema_plan(new: str, old: str, as_json: bool) -> int:
    """Show the steps that lead from the schema OLD to the schema NEW.

    Exits with 1 if a step is not supported.
    """
    from omnigraph_sql.cli.actions import schema_plan

    return schema_plan.run(old, new, as_json=as_json)
