"""The examples in docstrings run.

Examples of the public methods find a graph under the name `graph`: two ports and a lane between them, in a directory of its
own for each example. A file `pipeline.yaml` in it declares a load of one more port.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import shutil
from pathlib import Path
from types import ModuleType

import pytest

import omnigraph_compiler
import omnigraph_sql as og
import omnigraph_udfs
from tests.docs import page_run

PACKAGES = [omnigraph_compiler, omnigraph_udfs, og]
SCHEMA = """node Port {
  code: String @key
  name: String?
  depth: F64?
}
edge Lane: Port -> Port
"""
RECORDS = """
{"type": "Port", "data": {"code": "NLRTM", "name": "Rotterdam", "depth": 24}}
{"type": "Port", "data": {"code": "DEDUI", "name": "Duisburg"}}
{"edge": "Lane", "from": "NLRTM", "to": "DEDUI"}
"""
PIPELINE = """graph: harbour
mode: merge
sources:
  ports: {format: csv, path: ports.csv}
nodes:
  - {type: Port, from: ports, columns: {code: locode, name: title}}
"""
PORTS = "locode,title\nBEANR,Antwerpen-Bruges\n"


def _files() -> dict[str, Path]:
    """Every module of the packages, by name."""
    files = {page_run.__name__: Path(page_run.__file__)}
    for package in PACKAGES:
        assert package.__file__ is not None
        files[package.__name__] = Path(package.__file__)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            root = Path(package.__file__).parent.joinpath(*module.name.split(".")[1:])
            files[module.name] = root / "__init__.py" if module.ispkg else root.with_suffix(".py")
    return files


def _has_examples(file: Path) -> bool:
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = (ast.get_docstring(node) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, nodes))
    return any(">>> " in doc for doc in docs if doc)


MODULES = [name for name, file in _files().items() if not name.endswith("__main__") and _has_examples(file)]


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that each example gets a copy of."""
    root = tmp_path_factory.mktemp("harbour") / "harbour"
    with og.init(root, SCHEMA) as graph:
        graph.load(RECORDS, mode="append", message="first ports")
    return root


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """The examples of a module, those of decorated methods included."""
    tests = doctest.DocTestFinder(exclude_empty=True).find(module)
    return [test for test in tests if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_hold(name: str, harbour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, test in enumerate(examples(importlib.import_module(name))):
        directory = tmp_path / str(number)
        directory.mkdir()
        monkeypatch.chdir(directory)
        needs_graph = any("graph" in example.source or "pipeline" in example.source for example in test.examples)
        test.globs |= {"og": og, "Path": Path}
        if needs_graph:
            shutil.copytree(harbour, directory / "harbour")
            directory.joinpath("pipeline.yaml").write_text(PIPELINE)
            directory.joinpath("ports.csv").write_text(PORTS)
            test.globs["graph"] = og.connect(directory / "harbour")
        runner.run(test, clear_globs=False)
        if needs_graph:
            test.globs["graph"].close()

    assert runner.tries > 0
    assert runner.failures == 0
