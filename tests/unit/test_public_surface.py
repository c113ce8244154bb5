"""Whatever a package exports is documented."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import omnigraph_compiler
import omnigraph_sql

EXPORTS = [(module, name) for module in (omnigraph_compiler, omnigraph_sql) for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), EXPORTS, ids=lambda value: getattr(value, "__name__", value))
def test_an_exported_name_has_a_docstring(module: ModuleType, name: str) -> None:
    exported = getattr(module, name)
    if isinstance(exported, str):
        return
    documented = inspect.getdoc(exported)
    assert documented
    assert not documented.startswith(f"{name}("), "a dataclass needs a docstring of its own"


@pytest.mark.parametrize("name", omnigraph_compiler.__all__)
def test_an_exported_function_says_what_it_takes(name: str) -> None:
    exported = getattr(omnigraph_compiler, name)
    if inspect.isfunction(exported):
        signature = inspect.signature(exported)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values())
