"""The pages for maintainers name modules, directories and tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted((ROOT / "docs" / "maintainers").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
]
BASES = [ROOT, ROOT / "omnigraph_sql", ROOT / "compiler" / "omnigraph_compiler", ROOT / "compiler", ROOT / "udfs"]
_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:[A-Za-z]\w*/)*[A-Za-z]\w*(?:\.(?:py|c|md|txt)|/)|[a-z]\w*/[a-z]\w*(?:/[a-z]\w*)*(?:\.\w+)?")
_ROOMS = {path.name for base in BASES for path in base.iterdir() if path.is_dir()}


def named_paths(text: str) -> Iterator[tuple[int, str, str]]:
    """Paths in backticks, with their line and the directory of the path before them on it: `a/b.py`, `c.py` is `a/c.py`."""
    for number, line in enumerate(text.splitlines(), start=1):
        directory = ""
        for match in _QUOTED.finditer(line):
            path = match[1]
            if not _PATH.fullmatch(path):
                continue
            if "/" not in path or path.endswith(".py") or path.split("/")[0] in _ROOMS:
                yield number, path, directory
            if "/" in path.rstrip("/"):
                directory = path.rpartition("/")[0]


def exists(path: str, directory: str) -> bool:
    """Whether a path exists; a module may stand without its suffix, and with a name that it defines."""
    places = [base / prefix / path for base in BASES for prefix in ("", directory)]
    for place in places:
        if place.exists() or place.with_name(f"{place.name}.py").exists():
            return True
        module = place.with_suffix(".py")
        if place.suffix not in ("", ".py") and module.exists() and place.suffix[1:] in module.read_text("utf-8"):
            return True
    return False


def test_the_search_finds_paths() -> None:
    text = "`planner/steps.py`, `output.py` and `writes/protocol`, not `a`, `SELECT 1` or `feature/x`"
    assert [path for _, path, _ in named_paths(text)] == ["planner/steps.py", "output.py", "writes/protocol"]
    assert exists("output.py", "planner")
    assert not exists("output.py", "storage")
    assert exists("storage/handles.SnapshotHandle", "")
    assert not exists("storage/handles.Nothing", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_names_paths_that_exist(page: Path) -> None:
    missing = [
        f"line {number}: {path}"
        for number, path, directory in named_paths(page.read_text("utf-8"))
        if not exists(path, directory)
    ]
    assert missing == []


def test_every_room_is_on_the_map_and_has_tests() -> None:
    rooms = sorted(path.parent.name for path in (ROOT / "omnigraph_sql").glob("*/__init__.py"))
    for page in (ROOT / "docs" / "maintainers" / "architecture.md", ROOT / "CONTRIBUTING.md"):
        text = page.read_text("utf-8")
        assert [room for room in rooms if f"`{room}/`" not in text and f"omnigraph_sql/{room}/`" not in text] == []


def test_every_family_of_tests_is_described() -> None:
    families = sorted({path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").glob("*/test_*.py")})
    text = (ROOT / "docs" / "maintainers" / "testing.md").read_text("utf-8")
    assert [family for family in families if f"| `tests/{family}/` |" not in text] == []
