"""The vocabulary of the code: names say what a thing is, and a name means one thing.

`docs/maintainers/glossary.md` has the words. The guards read syntax trees, so comments and docstrings do not count.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

import pytest

import omnigraph_sql

ROOT = Path(omnigraph_sql.__file__).parents[1]
PACKAGE = ROOT / "omnigraph_sql"
SOURCES = [PACKAGE, ROOT / "compiler" / "omnigraph_compiler", ROOT / "udfs" / "omnigraph_udfs", ROOT / "ogsql"]
FILES = sorted(file for source in SOURCES for file in source.rglob("*.py"))

NOUNS = frozenset(
    {"derived", "hashing", "ranking", "row_mapping", "staging"}
    | {"staged", "unpublished"}  # loads in these states
    | {"embed"}  # a command
)
"""Stems of modules that end like verbs and are the names of things."""
MODULES = ("kept", "shelf", "apart", "awaiting", "watching", "utils", "helpers", "*ing", "*ed")
VARIABLES = frozenset({"found", "each", "given", "told", "asked"})
FUNCTIONS = ("told", "told_*", "blamed", "refused", "is_heard", "at_hand")
WIDE = 6
"""A dataclass with so many fields is filled by keyword only."""


def module_offences(files: list[Path]) -> list[str]:
    """Modules named by what somebody does, not by what they are."""
    return [
        str(file) for file in files if file.stem not in NOUNS and any(fnmatchcase(file.stem, pattern) for pattern in MODULES)
    ]


def name_offences(source: str) -> Iterator[tuple[int, str]]:
    """Variables, parameters, attributes and functions whose names say nothing about the thing."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) if name in VARIABLES:
                yield node.lineno, name
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)) if name in VARIABLES:
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) if name in VARIABLES:
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_banned(name.lstrip("_")):
                yield node.lineno, name


def _is_banned(name: str) -> bool:
    return name in VARIABLES or any(fnmatchcase(name, pattern) for pattern in FUNCTIONS)


def narrow_dataclasses(source: str) -> Iterator[tuple[int, str]]:
    """Dataclasses with many fields that may be filled by position."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and _fields(node) >= WIDE and not _is_keyword_only(node):
            yield node.lineno, node.name


def _decorator(node: ast.ClassDef) -> ast.expr | None:
    for decorator in node.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(named).rpartition(".")[2] == "dataclass":
            return decorator
    return None


def _is_keyword_only(node: ast.ClassDef) -> bool:
    decorator = _decorator(node)
    settings = decorator.keywords if isinstance(decorator, ast.Call) else []
    return any(setting.arg == "kw_only" and ast.unparse(setting.value) == "True" for setting in settings)


def _fields(node: ast.ClassDef) -> int:
    """Fields that a call may fill by position: not those with `init=False`, and none after `_: KW_ONLY`."""
    if _decorator(node) is None:
        return 0
    annotated = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    declared = list(takewhile(lambda item: "KW_ONLY" not in ast.unparse(item.annotation), annotated))
    return sum("ClassVar" not in ast.unparse(item.annotation) and not _is_own(item.value) for item in declared)


def _is_own(default: ast.expr | None) -> bool:
    settings = default.keywords if isinstance(default, ast.Call) else []
    return any(setting.arg == "init" and ast.unparse(setting.value) == "False" for setting in settings)


def public_classes(files: list[Path]) -> dict[str, list[str]]:
    """The files that define a public class, by its name."""
    homes: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    return homes


def _place(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_the_guards_see_every_form() -> None:
    source = """
def told_apart(given): each, other = given
async def _refused(): pass
for each in []: self.told = each
with open("f") as asked: pass
[found for found in []]
if (each := 1): pass
match []:
    case [each, *found]: pass
try: pass
except OSError as found: pass
x.given; asked(1)
"""
    assert sorted(name_offences(source)) == [
        *((2, "each"), (2, "given"), (2, "told_apart")),
        (3, "_refused"),
        *((4, "each"), (4, "told")),
        (5, "asked"),
        (6, "found"),
        (7, "each"),
        *((9, "each"), (9, "found")),
        (11, "found"),
    ]

    wide = "\n".join(f"    f{number}: int" for number in range(WIDE))
    assert list(narrow_dataclasses(f"@dataclass(frozen=True)\nclass A:\n{wide}")) == [(2, "A")]
    assert list(narrow_dataclasses(f"@dataclasses.dataclass\nclass A:\n{wide}")) == [(2, "A")]
    assert list(narrow_dataclasses(f"@dataclass(kw_only=True)\nclass A:\n{wide}")) == []
    assert list(narrow_dataclasses(f"@dataclass\nclass A:\n{wide.replace(': int', ': ClassVar[int]')}")) == []
    assert list(narrow_dataclasses(f"@dataclass\nclass A:\n    a: int\n    _: KW_ONLY\n{wide}")) == []
    assert list(narrow_dataclasses(f"class A:\n{wide}")) == []

    stems = [file.stem for file in map(Path, module_offences([Path("a/kept.py"), Path("a/staging.py"), Path("a/asked.py")]))]
    assert stems == ["kept", "asked"]


def test_a_public_class_name_occurs_once() -> None:
    homes = public_classes(sorted(PACKAGE.rglob("*.py")))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_modules_are_named_by_nouns() -> None:
    assert module_offences([file.relative_to(ROOT) for file in FILES]) == []


@pytest.mark.parametrize("file", FILES, ids=_place)
def test_names_say_what_a_thing_is(file: Path) -> None:
    assert list(name_offences(file.read_text("utf-8"))) == []


def test_wide_dataclasses_are_filled_by_keyword() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert [
        f"{_place(file)}:{line} {name}" for file in files for line, name in narrow_dataclasses(file.read_text("utf-8"))
    ] == []
