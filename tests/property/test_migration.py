"""Laws of migration: what a plan says about a change, and that identities follow their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph_compiler import Catalog, MigrationPlan, NodeType, compile_schema, format_schema, plan_migration
from tests.property.edits import Editor, Entity, compiled, refusals
from tests.property.laws import law
from tests.property.layout import Layout, layouts
from tests.property.model import Owner, Prop, Schema
from tests.property.strategies import SchemaText, schema_texts, schemas, spellings, upto

Step = dict[str, Any]


def types_of(catalog: Catalog) -> dict[Entity, Any]:
    """Every type by kind and name."""
    groups: dict[Any, Mapping[str, Any]] = {"interface": catalog.interfaces, "node": catalog.nodes, "edge": catalog.edges}
    return {(kind, name): type_ for kind, group in groups.items() for name, type_ in group.items()}


def identities(catalog: Catalog) -> list[int]:
    types = types_of(catalog).values()
    return [type_.identity for type_ in types] + [prop.identity for type_ in types for prop in type_.properties.values()]


def steps_of(plan: MigrationPlan) -> list[Step]:
    """The steps of a plan. Those that add constraints to one type come in no particular order, so here by their text."""
    steps: list[Step] = plan.to_dict()["steps"]
    result: list[Step] = []
    for _, group in groupby(steps, key=lambda step: (step["kind"], step.get("type_kind"), step.get("type_name"))):
        result += sorted(group, key=lambda step: step.get("constraint", ""))
    return result


# Nothing to do ---------------------------------------------------------------------------------------------------


@law(schema_texts, spellings, layouts)
def test_another_way_to_write_a_schema_is_no_change(case: SchemaText, spelling: int, layout: Layout) -> None:
    catalog = compile_schema(case.text)
    for again in (case.text, format_schema(case.text), case.again(spelling, layout)):
        plan = plan_migration(catalog, compile_schema(again))

        assert plan.to_dict() == {"supported": True, "steps": []}
        assert plan.metadata_only
        assert plan.catalog.to_json() == catalog.to_json()


@law(schemas())
def test_everything_is_added_to_nothing_and_dropped_again(schema: Schema) -> None:
    nothing, catalog = compile_schema(""), compiled(Schema(tuple(without_hints(owner) for owner in schema.owners)))
    added = plan_migration(nothing, catalog)
    dropped = plan_migration(added.catalog, nothing)

    assert [step["kind"] for step in steps_of(added)] == ["add_type"] * len(schema.owners)
    assert added.catalog.schema_hash == catalog.schema_hash
    kinds = [step["kind"] for step in steps_of(dropped)]
    assert kinds == ["unsupported_change"] * len(schema.interfaces) + ["drop_type"] * len((*schema.nodes, *schema.edges))
    assert dropped.supported == (not schema.interfaces)


def without_hints(owner: Owner) -> Owner:
    return replace(owner, rename_from=None, props=tuple(replace(prop, rename_from=None) for prop in owner.props))


# Edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edited:
    """A schema before and after some edits, and the steps between them."""

    before: Schema
    after: Schema
    steps: list[Step]
    names: dict[Entity, str]
    renamed: dict[Entity, dict[str, str]]


def edited(draw: DrawFn, schema: Schema, number: int = 0) -> Edited:
    editor = Editor(draw, schema, round=number)
    for _ in range(upto(draw, 6, least=1)):
        editor.edit()
    return Edited(schema, editor.schema, editor.expected(), editor.names, editor.renamed)


@st.composite
def edits(draw: DrawFn) -> Edited:
    return edited(draw, draw(schemas(min_nodes=1)))


@law(edits(), quick=300, long=5_000)
def test_edits_give_exactly_their_steps(case: Edited) -> None:
    before, after = compiled(case.before), compiled(case.after)
    plan = plan_migration(before, after)

    assert steps_of(plan) == case.steps
    assert plan.supported
    assert (before.schema_hash == after.schema_hash) == (not case.steps)
    assert plan.catalog.schema_hash == after.schema_hash
    assert len(plan.render().splitlines()) >= len(case.steps)
    check_identities(before, plan.catalog, case)
    # A plan that has been carried out leaves nothing to do, also after its catalog was stored and read back.
    stored = Catalog.from_json(plan.catalog.to_json())
    assert steps_of(plan_migration(plan.catalog, after)) == steps_of(plan_migration(stored, after)) == []


def check_identities(before: Catalog, after: Catalog, case: Edited) -> None:
    """Whatever is still there has its identity, column order and key order; whatever is new has new ones."""
    old, new = types_of(before), types_of(after)
    fresh = set(identities(after))
    for entity, type_ in old.items():
        if entity not in case.names:
            continue
        now = new[entity[0], case.names[entity]]
        assert now.identity == type_.identity
        fresh.discard(now.identity)
        renamed = case.renamed.get(entity, {})
        names = [renamed.get(name, name) for name in type_.properties]
        kept = [name for name in names if name in now.properties]
        assert list(now.properties)[: len(kept)] == kept
        for name, prop in type_.properties.items():
            current = now.properties.get(renamed.get(name, name))
            if current is not None:
                assert current.identity == prop.identity
                fresh.discard(prop.identity)
        if isinstance(type_, NodeType) and type_.key is not None:
            assert now.key == tuple(renamed.get(name, name) for name in type_.key)
    assert all(identity >= before.next_identity for identity in fresh)
    assert len(identities(after)) == len(set(identities(after)))
    assert after.next_identity > max(identities(after), default=0)


# Refusals --------------------------------------------------------------------------------------------------------


@law(schemas(min_nodes=1), st.integers(0, 2**16), quick=200)
def test_what_cannot_be_done_is_refused(schema: Schema, number: int) -> None:
    choices = refusals(schema)
    changed, entity, code = choices[number % len(choices)]
    plan = plan_migration(compiled(schema), compiled(changed))
    refused = [step for step in steps_of(plan) if step["kind"] == "unsupported_change"]

    assert not plan.supported
    assert (refused[0]["entity"], refused[0].get("code")) == (entity, code)
    assert {step["entity"] for step in refused} == {entity}
    assert all(step["reason"] for step in refused)


# Histories -------------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: DrawFn) -> list[Edited]:
    schema = draw(schemas(min_nodes=1))
    rounds: list[Edited] = []
    for number in range(upto(draw, 4, least=2)):
        rounds.append(edited(draw, schema, number))
        schema = rounds[-1].after
    return rounds


@law(histories(), quick=100)
def test_plans_follow_each_other(rounds: list[Edited]) -> None:
    catalog = compiled(rounds[0].before)
    ever = set(identities(catalog))
    for case in rounds:
        plan = plan_migration(catalog, compiled(case.after))

        assert steps_of(plan) == case.steps
        check_identities(catalog, plan.catalog, case)
        added = set(identities(plan.catalog)) - set(identities(catalog))
        assert not added & ever
        ever |= added
        catalog = Catalog.from_json(plan.catalog.to_json())


@law(schemas(min_nodes=1), st.integers(0, 2**16))
def test_a_name_that_comes_back_is_something_else(schema: Schema, number: int) -> None:
    owners = [owner for owner in schema.owners if owner.kind != "interface"]
    owner = owners[number % len(owners)]
    with_property = schema.change(owner.kind, owner.name, lambda each: replace(each, props=(*each.props, EXTRA)))
    first = compiled(with_property)
    dropped_plan = plan_migration(first, compiled(schema))
    again = plan_migration(dropped_plan.catalog, compiled(with_property))
    entity = (owner.kind, owner.name)

    assert [step["kind"] for step in steps_of(dropped_plan)] == ["drop_property"]
    assert [step["kind"] for step in steps_of(again)] == ["add_property"]
    before, after = types_of(first)[entity], types_of(again.catalog)[entity]
    assert after.identity == before.identity
    assert after.properties["extra"].identity not in identities(first)
    assert again.catalog.schema_hash == first.schema_hash


EXTRA = Prop("extra", replace(compile_schema("node T { p: I32? }").nodes["T"].properties["p"].type))


@law(schemas(min_nodes=1), st.integers(0, 2**16))
def test_a_type_that_comes_back_is_something_else(schema: Schema, number: int) -> None:
    ends = {end for edge in schema.edges for end in (edge.source, edge.target)}
    free = [*schema.edges, *(node for node in schema.nodes if node.name not in ends)]
    assume(free)
    owner = free[number % len(free)]
    rest = Schema(tuple(each for each in schema.owners if each != owner))
    first = compiled(schema)
    gone = plan_migration(first, compiled(rest))
    plain = without_hints(replace(owner, interfaces=()))
    plain = replace(plain, key=None, unique=(), index=(), ranges=(), checks=(), props=tuple(bare(p) for p in plain.props))
    back = plan_migration(gone.catalog, compiled(Schema((*rest.owners, plain))))
    entity = (owner.kind, owner.name)

    assert [step["kind"] for step in steps_of(gone)] == ["drop_type"]
    assert [step["kind"] for step in steps_of(back)] == ["add_type"]
    assert types_of(back.catalog)[entity].identity not in identities(first)
    assert not {prop.identity for prop in types_of(back.catalog)[entity].properties.values()} & set(identities(first))


def bare(prop: Prop) -> Prop:
    return Prop(prop.name, prop.type)
