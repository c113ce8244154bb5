"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import omnigraph_compiler
import omnigraph_sql
import omnigraph_udfs
from tests.docs import page_run

PACKAGES = [omnigraph_compiler, omnigraph_udfs, omnigraph_sql]
MODULES = [
    *(package.__name__ for package in PACKAGES),
    *(
        found.name
        for package in PACKAGES
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not found.name.endswith("__main__")
    ),
    page_run.__name__,
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_hold(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert outcome.failed == 0
