"""Laws of the two languages: what compiles, what formatting keeps, what an order or a name does not change."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph_compiler import (
    Catalog,
    CompileError,
    Query,
    compile_queries,
    compile_query,
    compile_schema,
    format_queries,
    format_schema,
    lint,
)
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_compiler.schema.parse import parse_schema
from tests.property.diagnostics import check_diagnostic
from tests.property.laws import law
from tests.property.layout import Layout, comments_of, layouts
from tests.property.mutations import damaged_text, damaged_tokens
from tests.property.query_model import query_tokens, reordered, write
from tests.property.query_strategies import FileCase, files
from tests.property.strategies import SchemaText, schema_texts, spellings

# Members of a tree that say where its text stands, beside those whose name ends in `span`, and whether there are braces
# around nothing.
PLACES = {"brace", "params_end", "braces"}


def without_places(tree: Any) -> Any:
    """A syntax tree as plain values that say nothing about where things stand."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = (field.name for field in dataclasses.fields(tree))
        kept = [name for name in names if name not in PLACES and not name.endswith("span")]
        bare = type(tree).__name__, *(without_places(getattr(tree, name)) for name in kept)
        return None if bare == ("Body", ()) else bare
    return tuple(without_places(each) for each in tree) if isinstance(tree, tuple) else tree


def column_order(catalog: Catalog) -> list[list[str]]:
    types = (*catalog.interfaces.values(), *catalog.nodes.values(), *catalog.edges.values())
    return [[type_.name, *type_.properties] for type_ in sorted(types, key=lambda each: (type(each).__name__, each.name))]


def tables(query: Query, member: str) -> set[tuple[str, str]]:
    return {(table["kind"], table["type_name"]) for table in query.operation.to_dict()[member]}


# Schemas ---------------------------------------------------------------------------------------------------------


@law(schema_texts)
def test_every_schema_compiles_to_what_was_written(case: SchemaText) -> None:
    catalog = compile_schema(case.text)

    for owner in case.schema.owners:
        group = {"interface": catalog.interfaces, "node": catalog.nodes, "edge": catalog.edges}[owner.kind]
        declared = case.schema.properties(owner)
        assert {name: prop.type for name, prop in group[owner.name].properties.items()} == {
            name: prop.type for name, prop in declared.items()
        }
        # Own properties come first, as written.
        assert list(group[owner.name].properties)[: len(owner.props)] == [prop.name for prop in owner.props]
    assert {node.name: set(node.key or ()) for node in catalog.nodes.values()} == {
        node.name: set(case.schema.key_of(node)) for node in case.schema.nodes
    }
    assert len(catalog.interfaces) + len(catalog.nodes) + len(catalog.edges) == len(case.schema.owners)


@law(schema_texts, spellings, layouts)
def test_order_spelling_and_layout_do_not_change_the_schema_hash(case: SchemaText, spelling: int, layout: Layout) -> None:
    assert compile_schema(case.text).schema_hash == compile_schema(case.again(spelling, layout)).schema_hash


@law(schema_texts)
def test_a_catalog_survives_json(case: SchemaText) -> None:
    catalog = compile_schema(case.text)
    again = Catalog.from_json(catalog.to_json())

    assert again.to_json() == catalog.to_json()
    assert again.schema_hash == catalog.schema_hash
    assert column_order(again) == column_order(catalog)
    # What a rename hint says has been said once the schema is accepted, so it is not kept.
    assert again == without_hints(catalog)


def without_hints(catalog: Catalog) -> Catalog:
    def bare(group: Any) -> dict[str, Any]:
        return {
            name: dataclasses.replace(
                type_,
                rename_from=None,
                properties={each.name: dataclasses.replace(each, rename_from=None) for each in type_.properties.values()},
            )
            for name, type_ in group.items()
        }

    return dataclasses.replace(
        catalog, interfaces=bare(catalog.interfaces), nodes=bare(catalog.nodes), edges=bare(catalog.edges)
    )


@law(schema_texts)
def test_formatting_a_schema_keeps_its_meaning_and_its_comments(case: SchemaText) -> None:
    text = case.text
    formatted = format_schema(text)

    assert format_schema(formatted) == formatted
    assert comments_of(formatted) == comments_of(text)
    assert without_places(parse_schema(formatted)) == without_places(parse_schema(text))
    before, after = compile_schema(text), compile_schema(formatted)
    assert after == before
    assert after.schema_hash == before.schema_hash
    assert column_order(after) == column_order(before)


# Queries ---------------------------------------------------------------------------------------------------------


@law(files(), quick=250, long=4_000)
def test_every_query_compiles_to_what_was_written(case: FileCase) -> None:
    queries = compile_queries(compile_schema(case.schema_text), case.text)

    for query, wanted in zip(queries, case.queries, strict=True):
        assert query.name == wanted.name
        assert list(query.params.items()) == list(wanted.params)
        assert [(column.name, column.type) for column in query.columns] == wanted.columns()
        assert tables(query, "reads") == wanted.reads
        assert tables(query, "writes") == wanted.writes
        assert query.kind == ("mutation" if wanted.statements else "read")
        assert {"description": query.description, "instruction": query.instruction} == {
            "description": dict(wanted.metas).get("description"),
            "instruction": dict(wanted.metas).get("instruction"),
        }


@law(files())
def test_formatting_queries_keeps_their_meaning_and_their_comments(case: FileCase) -> None:
    text = case.text
    formatted = format_queries(text)

    assert format_queries(formatted) == formatted
    assert comments_of(formatted) == comments_of(text)
    assert without_places(parse_queries(formatted)) == without_places(parse_queries(text))
    catalog = compile_schema(case.schema_text)
    for before, after in zip(compile_queries(catalog, text), compile_queries(catalog, formatted), strict=True):
        assert after == before
        assert after.ir_hash == before.ir_hash
        assert after.columns == before.columns


@pytest.mark.parametrize("end", ["\r\n", "\r\r\n", "\r\r\r\n"])
def test_line_ends_in_a_comment_are_settled_at_once(end: str) -> None:
    comment = f"/* one{end} two\rstill two */"
    queries = format_queries(f"{comment}{end}query q() {{ match {{ $p: Person }} return {{ $p }} }}")
    schema = format_schema(f"{comment}{end}node Person {{ name: String }}")

    for formatted in (queries, schema):
        assert formatted.startswith("/* one\n two\rstill two */\n")
    assert format_queries(queries) == queries
    assert format_schema(schema) == schema


@law(files(), spellings, layouts)
def test_layout_and_optional_commas_do_not_change_a_query(case: FileCase, spelling: int, layout: Layout) -> None:
    catalog = compile_schema(case.schema_text)
    again = dataclasses.replace(case, spelling=spelling, layout=layout)

    assert compile_queries(catalog, again.text) == compile_queries(catalog, case.text)


@law(files(most=1, only_reads=True), st.integers(0, 2**16))
def test_the_order_of_clauses_does_not_change_the_descriptor(case: FileCase, seed: int) -> None:
    catalog = compile_schema(case.schema_text)
    (query,) = case.queries
    before = compile_query(catalog, write(query))
    after = compile_query(catalog, write(reordered(query, Random(seed))))

    assert after.operation == before.operation
    assert after.params == before.params


@law(files(most=1), st.integers(0, 2**16))
def test_names_of_variables_change_nothing_but_column_names(case: FileCase, seed: int) -> None:
    catalog = compile_schema(case.schema_text)
    for query in case.queries:
        names = sorted(query.names())
        others = [f"v{number}" for number in range(len(names))]
        Random(seed).shuffle(others)
        renamed = query.renamed(dict(zip(names, others, strict=True)))
        before, after = compile_query(catalog, write(query)), compile_query(catalog, write(renamed))

        assert [(column.name, column.type) for column in after.columns] == renamed.columns()
        assert [column.type for column in after.columns] == [column.type for column in before.columns]
        assert (after.operation.reads, after.operation.writes) == (before.operation.reads, before.operation.writes)
        assert list(after.params.values()) == list(before.params.values())
        assert after.uses_now == before.uses_now


# Diagnostics -----------------------------------------------------------------------------------------------------


@st.composite
def damaged_files(draw: DrawFn) -> tuple[str, str]:
    """A schema that compiles and queries that may not."""
    case = draw(files(most=1))
    if draw(st.booleans()):
        return case.schema_text, draw(damaged_text(case.text))
    tokens = [token for query in case.queries for token in query_tokens(query, case.spelling)]
    return case.schema_text, case.layout.write(draw(damaged_tokens(tokens)))


@law(damaged_files(), quick=400, long=6_000)
def test_a_diagnostic_of_a_query_points_into_its_source(case: tuple[str, str]) -> None:
    schema_text, text = case
    for diagnostic in lint(compile_schema(schema_text), text).diagnostics:
        check_diagnostic(diagnostic, text)


@st.composite
def damaged_schemas(draw: DrawFn) -> str:
    case = draw(schema_texts)
    return draw(damaged_text(case.text))


@law(damaged_schemas(), quick=300)
def test_a_diagnostic_of_a_schema_points_into_its_source(text: str) -> None:
    try:
        compile_schema(text)
    except CompileError as error:
        check_diagnostic(error.diagnostic, text)
