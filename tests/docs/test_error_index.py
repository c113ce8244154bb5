"""The error index describes every code that the compiler can emit, no others, and quotes its messages exactly."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import omnigraph_compiler
from omnigraph_compiler import CompileError, Diagnostic, compile_schema, lint
from tests.docs.blocks import Block, read_blocks

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
CODE = r"(?:[TDL]\d+|Q\d{3}|OG-[A-Z]{2}-\d{3})"
SECTION = re.compile(rf"^## ({CODE}) — .+ \{{ #([\w-]+) \}}$")
BLOCKS = read_blocks(PAGE)


def emitted_codes() -> set[str]:
    """Every string literal in the compiler's sources that has the form of a code."""
    directory = Path(omnigraph_compiler.__file__).parent
    literals = (
        node.value
        for path in sorted(directory.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {literal for literal in literals if re.fullmatch(CODE, literal)}


def sections() -> dict[str, list[Block]]:
    """The blocks of each section that describes a code."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    headings = [number for number, line in enumerate(lines, start=1) if line.startswith("## ")]
    found: dict[str, list[Block]] = {}
    for start, end in pairwise([*headings, len(lines) + 1]):
        if heading := SECTION.match(lines[start - 1]):
            found[heading[1]] = [block for block in BLOCKS if start < block.line < end]
    return found


SECTIONS = sections()


def test_the_compiler_emits_codes_of_every_kind() -> None:
    # Guards the search itself: were it to find nothing, the comparison below would prove nothing.
    assert {"T1", "T24", "D2", "Q000", "L201", "OG-DS-104", "OG-MF-106"} <= emitted_codes()


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    assert set(SECTIONS) == emitted_codes()


def test_a_section_is_found_under_the_lower_cased_code() -> None:
    headings = [SECTION.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    anchors = {heading[1]: heading[2] for heading in headings if heading}

    assert anchors == {code: code.lower() for code in SECTIONS}


def test_the_index_lists_every_code_once() -> None:
    rows = re.findall(rf"^\| \[({CODE})\]\(#([\w-]+)\) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == [(code, code.lower()) for code in SECTIONS]


def test_reserved_codes_are_not_emitted() -> None:
    reserved = re.findall(rf"^\| ({CODE}) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert reserved
    assert not set(reserved) & emitted_codes()


@pytest.mark.parametrize("code", SECTIONS)
def test_a_section_shows_an_example_and_a_way_out(code: str) -> None:
    blocks = SECTIONS[code]
    if code.startswith(("T", "D", "Q")):
        assert any(block.flags == ("error", code) for block in blocks)
        assert any(block.language == "gq" and not block.flags for block in blocks)
    else:
        printed = [block.text for block in blocks if block.language == "console"]
        assert any(f"[{code}]" in text for text in printed)
        assert code == "OG-MF-107" or any(f"[{code}]" not in text for text in printed)


@pytest.mark.parametrize("code", SECTIONS)
def test_the_examples_of_a_section_are_rejected_for_its_code(code: str) -> None:
    wrong = [block.place for block in SECTIONS[code] if "error" in block.flags and block.flags != ("error", code)]

    assert wrong == []


def quoted_messages() -> list[tuple[Block, str, str]]:
    """Each rejected block that a message follows, with the schema in force and the message."""
    found: list[tuple[Block, str, str]] = []
    schema = ""
    for block, below in pairwise(BLOCKS):
        if block.language == "pg" and not block.flags:
            schema = block.text
        if "error" in block.flags and below.language == "text":
            found.append((block, schema, below.text))
    return found


QUOTED = quoted_messages()


@pytest.mark.parametrize(("block", "schema", "message"), QUOTED, ids=[f"line-{block.line}" for block, _, _ in QUOTED])
def test_a_message_is_quoted_exactly(block: Block, schema: str, message: str) -> None:
    assert message == f"{rejection(block, schema)}\n"


def rejection(block: Block, schema: str) -> str:
    """What `ogsql` prints about a rejected schema or query file."""
    if block.language == "pg":
        with pytest.raises(CompileError) as caught:
            compile_schema(block.text)
        return caught.value.diagnostic.render("schema.pg")
    diagnostics: tuple[Diagnostic, ...] = lint(compile_schema(schema), block.text).diagnostics
    return "\n\n".join(diagnostic.render("query.gq") for diagnostic in diagnostics)
