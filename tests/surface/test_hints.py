"""What messages tell people to do exists: commands, options, functions and parameters."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import omnigraph_sql as og
from omnigraph_sql import embeddings, pipeline
from omnigraph_sql.cli.app import app
from omnigraph_sql.pipeline import spec
from omnigraph_sql.project import SECTIONS
from omnigraph_sql.result import Result
from omnigraph_sql.writes.load.staged_load import StagedLoad
from omnigraph_sql.writes.relational import RelationalWriter
from tests.surface.commands import tree

ROOT = Path(__file__).parents[2]
PACKAGES = ("omnigraph_sql", "compiler/omnigraph_compiler", "udfs/omnigraph_udfs", "ogsql", "pyspark_omnigraph")
OTHER_OPTIONS = {"--add-modules"}
"""Options of other programs: Java's."""
ORDINARY = {
    "a",
    "again",
    "as",
    "explain",
    "in",
    "it",
    "one",
    "pip",
    "python",
    "statements",
    "the",
    "them",
    "with",
    "without",
}
"""Words that may follow `run` in a hint and name no command."""
OTHER_NAMES = {"omnigraph_sql", "param_values", "rename_from", "reset_index"}
"""The package, and names of DataFusion, of the schema language and of pandas."""
SPARK = {"load_mode", "query_id", "source_column"}
"""Options of the data source, which tests/spark sets."""
_COMMAND = re.compile(r"\bogsql((?: [a-z][a-z-]*)*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_RUN = re.compile(r"\brun (?:`|ogsql )*([a-z-]+)")
_NAME = re.compile(r"(?<![\w.$/\"'-])([a-z]+(?:_[a-z0-9]+)+)\b(?!\.)")


@dataclass(frozen=True)
class Text:
    place: str
    value: str
    is_hint: bool


def _literal(node: ast.expr) -> str | None:
    """A text of the source, with … for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


def _hints(module: ast.Module) -> Iterator[ast.expr]:
    """What is given as `hint=`, kept in a `hint`, or is the help of a diagnostic."""
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg in ("hint", "help"):
            yield node.value
        if isinstance(node, ast.Assign) and any("hint" in getattr(each, "id", "") for each in node.targets):
            yield node.value


def texts() -> Iterator[Text]:
    for path in sorted(each for package in PACKAGES for each in (ROOT / package).rglob("*.py")):
        module = ast.parse(path.read_text("utf-8"))
        hinted = {id(each) for hint in _hints(module) for each in ast.walk(hint)}
        for node in ast.walk(module):
            value = _literal(node) if isinstance(node, ast.expr) else None
            if value:
                yield Text(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", value, id(node) in hinted)


TEXTS = list(texts())


def _known_options() -> set[str]:
    return {option for _, command in tree() for each in command.params for option in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "--version",
    }


def _names() -> set[str]:
    """The names of functions, parameters and keys that callers can use."""
    classes = (og.Graph, RelationalWriter, Result, StagedLoad, embeddings.Client, embeddings.EmbeddingSettings)
    functions = [member for each in classes for _, member in inspect.getmembers(each, callable)]
    functions += [getattr(module, name) for module in (og, embeddings, pipeline) for name in module.__all__]
    names = {name for each in classes for name in dir(each)} | set(SECTIONS) | set(vars(spec)) | OTHER_NAMES | SPARK
    for function in functions:
        if callable(function):
            try:
                names |= set(inspect.signature(function).parameters)
            except ValueError:
                continue
    return names


def test_commands_that_are_mentioned_exist() -> None:
    wrong = []
    for text in TEXTS:
        for found in _COMMAND.finditer(text.value):
            command: click.Command = app
            for word in found[1].split():
                if not isinstance(command, click.Group):
                    break
                inner = command.commands.get(word)
                if inner is None:
                    wrong.append(f"{text.place}: ogsql{found[1]}")
                    break
                command = inner
    # Prose about the program itself, in docstrings, is not a mention of a command.
    assert not [each for each in wrong if not each.endswith(": ogsql")]


def test_options_that_are_mentioned_exist() -> None:
    known = _known_options() | OTHER_OPTIONS
    assert not [f"{text.place}: {option}" for text in TEXTS for option in _OPTION.findall(text.value) if option not in known]


def test_what_a_hint_says_to_run_exists() -> None:
    known = ORDINARY | {word for name, _ in tree() for word in name.split()} | set(dir(og.Graph))
    assert not [
        f"{text.place}: {text.value}"
        for text in TEXTS
        if text.is_hint
        for word in _RUN.findall(text.value)
        if word not in known
    ]


def test_names_in_hints_exist() -> None:
    known = _names()
    assert not [
        f"{text.place}: {name}" for text in TEXTS if text.is_hint for name in _NAME.findall(text.value) if name not in known
    ]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_commands_that_the_documentation_mentions_exist(page: Path) -> None:
    if "decisions" in page.parts:
        return
    options = _known_options()
    commands = {name for name, _ in tree()} | {" ".join(name.split()[:2]) for name, _ in tree()}
    for found in re.findall(r"`(ogsql [a-z-]+(?: [a-z-]+)?)[^`]*`", page.read_text("utf-8")):
        first = " ".join(found.split()[:2])
        assert first in commands or first.partition(" ")[2] in options, f"{page.name}: {found}"


def test_the_checks_can_fail() -> None:
    assert len(TEXTS) > 5000
    assert sum(text.is_hint for text in TEXTS) > 500
    assert _RUN.findall("run repair") == ["repair"]
    assert _OPTION.findall("open it with --read-write") == ["--read-write"]
    assert _NAME.findall("connect with read_only") == ["read_only"]
