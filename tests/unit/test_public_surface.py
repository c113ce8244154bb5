"""The public surface is documented: every exported name, and every method and property of the classes behind them.

Docstrings follow Google's style. `docs/reference/python-api.md` is made of them, and `tests/docs/test_docstrings.py` runs
their examples.
"""

from __future__ import annotations

import builtins
import inspect
import re
from types import ModuleType
from typing import Any, Protocol, get_args

import pytest

import omnigraph_compiler
from omnigraph_sql import errors
from tests import public_surface as surface
from tests.public_surface import PublicFunction

REFERENCES = {
    *("branch", "base", "commit", "commit_id", "end", "load_id", "name", "path", "pipeline", "snapshot", "source"),
    *("staged", "start", "uri", "version"),
}
"""Parameters that name something which may not exist or may not be valid."""
EXPORTS = surface.exported() | {
    f"omnigraph_compiler.{name}": getattr(omnigraph_compiler, name) for name in omnigraph_compiler.__all__
}
DOCUMENTED = {name: value for name, value in EXPORTS.items() if inspect.isroutine(value) or inspect.isclass(value)}
FUNCTIONS = {function.name: function for function in surface.all_functions()}
CLASSES = {class_.__name__: class_ for class_ in [*surface.classes(), *surface.records()]}


def has_example(documented: object) -> bool:
    return ">>> " in (getattr(documented, "__doc__", None) or "")


def test_the_surface_is_found() -> None:
    # Guards the search itself: were it to find nothing, the tests below would prove nothing.
    assert {"og.connect", "og.spark.session", "Graph.load", "Result.columns", "StagedLoad.from_json"} <= FUNCTIONS.keys()
    assert {"Entry", "GraphContext", "SnapshotRef", "SourceCount"} <= CLASSES.keys()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_an_exported_name_has_a_docstring(name: str) -> None:
    documented = inspect.getdoc(DOCUMENTED[name])
    assert documented
    assert not documented.startswith(f"{DOCUMENTED[name].__name__}("), "a dataclass needs a docstring of its own"


@pytest.mark.parametrize("name", sorted(EXPORTS.keys() - DOCUMENTED.keys()))
def test_an_exported_value_is_a_package_or_a_described_choice(name: str) -> None:
    value, last = EXPORTS[name], name.rpartition(".")[2]
    if isinstance(value, ModuleType):
        assert value.__doc__
    elif last != "__version__":
        assert get_args(value), "a choice is a Literal"
        assert surface.choice_docs()[last]


@pytest.mark.parametrize("name", omnigraph_compiler.__all__)
def test_an_exported_function_says_what_it_takes(name: str) -> None:
    exported = getattr(omnigraph_compiler, name)
    if inspect.isfunction(exported):
        signature = inspect.signature(exported)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values())


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_class_and_its_fields_are_described(name: str) -> None:
    class_ = CLASSES[name]
    assert class_.__doc__
    assert not class_.__doc__.startswith(f"{name}("), "a dataclass needs a docstring of its own"
    if class_ in surface.classes():
        described = surface.field_docs(class_)
        undescribed = [field.name for field in surface.fields(class_) if field.name not in described]
        assert undescribed == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_is_described(name: str) -> None:
    function = FUNCTIONS[name]
    doc = function.docstring
    assert doc.summary.endswith(".")
    assert list(doc.entries("Args")) == [_starred(parameter) for parameter in function.parameters]
    assert "" not in doc.entries("Args").values()
    if function.parameters and function.returns != "None":
        assert "Returns" in doc.sections or "Yields" in doc.sections


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_names_errors_that_exist(name: str) -> None:
    function = FUNCTIONS[name]
    raised = function.docstring.entries("Raises")
    assert [error for error in raised if error not in errors.__all__ and not hasattr(builtins, error)] == []
    if REFERENCES & {parameter.name for parameter in function.parameters}:
        assert raised


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_shows_an_example(name: str) -> None:
    function = FUNCTIONS[name]
    documented: Any = function.owner if _is_protocol(function) else function.documented
    assert has_example(documented)


def test_modes_and_engines_are_literals() -> None:
    loose = [
        f"{name}: {parameter}"
        for name, function in FUNCTIONS.items()
        for parameter in function.parameters
        if parameter.name in ("mode", "load_mode", "engine", "extra_columns")
        and re.search(r"\bstr\b", str(parameter.annotation))
    ]
    assert loose == []


def _starred(parameter: inspect.Parameter) -> str:
    return surface.stars(parameter) + parameter.name


def _is_protocol(function: PublicFunction) -> bool:
    return function.owner is not None and Protocol in function.owner.__bases__
