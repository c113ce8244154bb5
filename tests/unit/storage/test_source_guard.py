"""No code outside storage and manifest commits to Lance as a side effect: everything goes through staged writes.

Read from the syntax tree, so comments and docstrings do not count. A line may opt out with
`# inline-commit-ok: <reason>`; inside the storage module nobody needs to.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_sql

PACKAGES = Path(omnigraph_sql.__file__).parents[1]
ROOTS = [PACKAGES / "omnigraph_sql", PACKAGES / "ogsql"]  # the compiler and the operators may not import lance at all
EXEMPT = ("omnigraph_sql/storage/", "omnigraph_sql/manifest/")

FORBIDDEN = {
    "write_dataset",
    "insert",
    "delete",
    "update",
    "merge",
    "merge_insert",
    "create_index",
    "create_scalar_index",
    "restore",
    "add_columns",
    "drop_columns",
    "optimize",
    "cleanup_old_versions",
}
OPT_OUT = re.compile(r"# inline-commit-ok: \S")

# Objects whose methods share a name with a commit. `engine.objects` is the adapter for small texts, `engine.storage_inline`
# the accessor of what cannot be staged, `bar` a progress bar, `graph` the public face; modules of our own, dicts and sets
# are no tables either.
ADAPTERS = {"objects", "_objects", "storage_inline", "bar", "graph"}
CONTAINERS = (ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.List, ast.ListComp)
CONTAINER_TYPES = {"dict", "set", "list", "OrderedDict", "Counter", "defaultdict"}


def violations(source: str) -> Iterator[tuple[int, str]]:
    """Lines that commit as a side effect, with the name they use."""
    tree = ast.parse(source)
    lines = source.splitlines()
    containers = _containers(tree)
    for found in ast.walk(tree):
        name = _offence(found, containers)
        if name is None:
            continue
        assert isinstance(found, ast.expr)
        span = lines[found.lineno - 1 : found.end_lineno]
        if not any(OPT_OUT.search(line) for line in span):
            yield found.lineno, name


def _offence(found: ast.AST, containers: set[str]) -> str | None:
    if isinstance(found, ast.Attribute) and isinstance(found.value, ast.Attribute) and found.value.attr == "optimize":
        return "optimize"
    if not isinstance(found, ast.Call):
        return None
    function = found.func
    if isinstance(function, ast.Name):
        return function.id if function.id == "write_dataset" else None
    if not isinstance(function, ast.Attribute):
        return None
    owner = function.value
    if function.attr == "commit" and _last(owner) == "LanceDataset":
        return "LanceDataset.commit"
    if function.attr not in FORBIDDEN or _last(owner) in ADAPTERS or _last(owner) in containers:
        return None
    return None if _makes_container(owner) else function.attr


def _last(owner: ast.expr) -> str | None:
    """The name next to the dot: `b` of `a.b.delete()`."""
    if isinstance(owner, ast.Attribute):
        return owner.attr
    return owner.id if isinstance(owner, ast.Name) else None


def _containers(tree: ast.Module) -> set[str]:
    """Names that a module binds to a container of the language, by value or by annotation, or to a part of our own."""
    found: set[str] = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and _makes_container(each.value):
            found |= {name for target in each.targets if (name := _last(target))}
        elif isinstance(each, ast.AnnAssign) and _names_container(each.annotation):
            found |= {name for name in [_last(each.target)] if name}
        elif isinstance(each, ast.ImportFrom) and (each.module or "").partition(".")[0] == "omnigraph_sql":
            found |= {alias.asname or alias.name for alias in each.names}
        elif isinstance(each, ast.arg) and each.annotation is not None and _names_container(each.annotation):
            found.add(each.arg)
    return found


def _makes_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _last(value.func) in CONTAINER_TYPES | {"setdefault"}
    if isinstance(value, ast.BinOp):
        return _makes_container(value.left) or _makes_container(value.right)
    return isinstance(value, CONTAINERS)


def _names_container(annotation: ast.expr) -> bool:
    bare = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return _last(bare) in CONTAINER_TYPES


def sources() -> list[Path]:
    return sorted(path for root in ROOTS for path in root.rglob("*.py"))


def test_the_walk_sees_the_package() -> None:
    seen = {path.relative_to(PACKAGES).as_posix() for path in sources()}

    assert {"omnigraph_sql/writes/protocol.py", "omnigraph_sql/storage/tables.py", "omnigraph_sql/graph/graph.py"} <= seen


def test_no_side_effect_commit_outside_storage_and_manifest() -> None:
    found = [
        f"{relative}:{line}: {name}"
        for path in sources()
        if not (relative := path.relative_to(PACKAGES).as_posix()).startswith(EXEMPT)
        for line, name in violations(path.read_text("utf-8"))
    ]

    assert found == []


def test_an_opt_out_says_why() -> None:
    marks = [
        f"{path.name}: {line.strip()}"
        for path in sources()
        for line in path.read_text("utf-8").splitlines()
        if "inline-commit-ok" in line and not OPT_OUT.search(line)
    ]

    assert marks == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("lance.write_dataset(rows, uri)", "write_dataset"),
        ("write_dataset(rows, uri)", "write_dataset"),
        ("dataset.insert(rows)", "insert"),
        ("self._dataset.delete('id = 1')", "delete"),
        ("dataset.update({'n': '1'})", "update"),
        ("dataset.merge(rows, 'id')", "merge"),
        ("open_it().merge_insert('id').execute(rows)", "merge_insert"),
        ("dataset.create_index('n', 'BTREE')", "create_index"),
        ("dataset.create_scalar_index('n', 'BTREE')", "create_scalar_index"),
        ("dataset.checkout_version(3).restore()", "restore"),
        ("dataset.add_columns({'m': '1'})", "add_columns"),
        ("dataset.drop_columns(['m'])", "drop_columns"),
        ("dataset.optimize.compact_files()", "optimize"),
        ("dataset.cleanup_old_versions()", "cleanup_old_versions"),
        ("lance.LanceDataset.commit(uri, change)", "LanceDataset.commit"),
        ("LanceDataset.commit(uri, change)", "LanceDataset.commit"),
        ("dataset.delete('x')  # inline-commit-ok:", "delete"),
    ],
)
def test_the_guard_sees_every_form(line: str, name: str) -> None:
    assert [found for _, found in violations(line)] == [name]


@pytest.mark.parametrize(
    "line",
    [
        "# dataset.delete('x')",
        '"""Never call dataset.delete(...)."""',
        "dataset.delete('x')  # inline-commit-ok: a scratch table of this test",
        "engine.objects.delete('claim')",
        "engine.storage_inline.restore(handle, operation)",
        "from omnigraph_sql.cli import branching\nbranching.delete(name)",
        "seen = set()\nseen.update(more)",
        "seen.setdefault(name, set()).update(more)",
        "def f(seen: dict[str, int]) -> None:\n    seen.update(more)",
        "engine.storage.stage_delete(handle, ids, operation)",
    ],
)
def test_the_guard_lets_pass(line: str) -> None:
    assert list(violations(line)) == []
