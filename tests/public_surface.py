"""The public surface: what the packages export, the classes that public methods return, and what docstrings say of them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import omnigraph_sql
from omnigraph_sql import choices, errors, pipeline, spark

PACKAGES: dict[str, ModuleType] = {
    "og": omnigraph_sql,
    "og.errors": errors,
    "og.spark": spark,
    "og.pipeline": pipeline,
}
"""The modules whose names users import."""
ROOT = Path(omnigraph_sql.__file__ or "").parent
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Example", "Attributes")
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):$")
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:\.\w+)*):(?: |$)")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Docstring:
    """A docstring in Google's style, taken apart."""

    text: str
    sections: dict[str, str]

    @classmethod
    def of(cls, documented: object) -> Docstring:
        """The docstring of a function, class or property; nothing of its bases counts."""
        lines = inspect.cleandoc(getattr(documented, "__doc__", None) or "").splitlines()
        starts = [number for number, line in enumerate(lines) if _HEADING.match(line)]
        ends = [*starts, len(lines)][1:]
        sections = {
            lines[start].rstrip(":"): textwrap.dedent("\n".join(lines[start + 1 : end])).strip("\n")
            for start, end in zip(starts, ends, strict=True)
        }
        return cls("\n".join(lines[: starts[0]] if starts else lines).strip(), sections)

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.split("\n\n")[0].split())

    def entries(self, section: str) -> dict[str, str]:
        """The entries `name: text` of a section; a line that is indented further continues its entry."""
        entries: dict[str, str] = {}
        name = ""
        for line in self.sections.get(section, "").splitlines():
            heading = _ENTRY.match(line)
            if heading:
                name = heading[1]
                entries[name] = line[heading.end() :]
            else:
                entries[name] = f"{entries.get(name, '')} {line.strip()}".strip()
        return entries


@dataclass(frozen=True)
class PublicFunction:
    """A public function, method or property."""

    name: str
    """As users write it: `og.connect`, `Graph.load`."""
    documented: Any
    is_property: bool = False
    owner: type | None = None
    """The class of a method or property."""

    @property
    def function(self) -> Any:
        """What runs."""
        unbound = self.documented.fget if self.is_property else getattr(self.documented, "__func__", self.documented)
        return inspect.unwrap(unbound)

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """What a caller passes."""
        parameters = list(inspect.signature(self.function).parameters.values())
        return parameters[1:] if self.owner is not None and not isinstance(self.documented, staticmethod) else parameters

    @property
    def returns(self) -> str:
        """The annotation of what it returns."""
        return str(inspect.signature(self.function).return_annotation)

    @property
    def docstring(self) -> Docstring:
        """What its docstring says."""
        return Docstring.of(self.documented)


def stars(parameter: inspect.Parameter) -> str:
    """What stands before a parameter that takes several arguments."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return "*"
    return "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""


def exported() -> dict[str, Any]:
    """Everything that the packages export, as users write it."""
    return {f"{prefix}.{name}": getattr(module, name) for prefix, module in PACKAGES.items() for name in module.__all__}


@cache
def class_homes() -> dict[str, str]:
    """The module of each public class of `omnigraph_sql`, by name."""
    homes: dict[str, str] = {}
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(("omnigraph_sql", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        names = [node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
        homes |= {name: module for name in names if not name.startswith("_")}
    return homes


def classes_named(annotation: str) -> Iterator[type]:
    """The classes of `omnigraph_sql` that an annotation names."""
    for name in _WORD.findall(annotation):
        if name in class_homes():
            yield getattr(import_module(class_homes()[name]), name)


def members(class_: type) -> list[PublicFunction]:
    """The public methods and properties that a class defines."""
    found = []
    for name, value in vars(class_).items():
        is_property = isinstance(value, property)
        if not name.startswith("_") and (is_property or inspect.isroutine(value)):
            found.append(PublicFunction(f"{class_.__name__}.{name}", value, is_property, class_))
    return found


@cache
def functions() -> list[PublicFunction]:
    """The exported functions."""
    named = {id(value): (name, value) for name, value in exported().items() if inspect.isfunction(value)}
    return [PublicFunction(name, value) for name, value in named.values()]


def fields(class_: type) -> list[dataclasses.Field[Any]]:
    """The public fields of a dataclass; those that its `repr` leaves out are not for users."""
    if not dataclasses.is_dataclass(class_):
        return []
    return [field for field in dataclasses.fields(class_) if field.repr and not field.name.startswith("_")]


def _described(body: list[ast.stmt]) -> dict[str, str]:
    """The docstrings below annotated names."""
    return {
        node.target.id: " ".join(str(ast.literal_eval(below.value)).split())
        for node, below in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr)
    }


@cache
def choice_docs() -> dict[str, str]:
    """The docstrings below the literal types of options."""
    return _described(ast.parse(inspect.getsource(choices)).body)


@cache
def field_docs(class_: type) -> dict[str, str]:
    """The docstrings below the fields of a class, by field."""
    if not fields(class_):
        return {}
    definition = ast.parse(textwrap.dedent(inspect.getsource(class_))).body[0]
    assert isinstance(definition, ast.ClassDef)
    return _described(definition.body)


@cache
def classes() -> list[type]:
    """The exported classes, and those that functions and methods of these return."""
    waiting = [value for value in exported().values() if inspect.isclass(value)]
    for function in functions():
        waiting += classes_named(function.returns)
    public: dict[type, None] = {}
    while waiting:
        class_ = waiting.pop(0)
        if class_ not in public:
            public[class_] = None
            waiting += [returned for member in members(class_) for returned in classes_named(member.returns)]
    return list(public)


@cache
def records() -> list[type]:
    """Dataclasses that are public only as values of fields of public classes."""
    named = [record for class_ in classes() for field in fields(class_) for record in classes_named(str(field.type))]
    return [record for record in dict.fromkeys(named) if record not in classes()]


def all_functions() -> list[PublicFunction]:
    """Every public function, method and property."""
    return [*functions(), *(member for class_ in classes() for member in members(class_))]


@cache
def examples() -> frozenset[str]:
    """The examples of the public docstrings."""
    documented = [*classes(), *(function.documented for function in all_functions())]
    return frozenset(Docstring.of(value).sections.get("Example", "") for value in documented)
