"""Every code block of the README and of the documentation does what it shows (see page_run.py for the rules)."""

from pathlib import Path

import pytest

from tests.docs.blocks import read_blocks
from tests.docs.page_run import PageRun

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_the_page_holds(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = PageRun(tmp_path)
    for block in read_blocks(page):
        run.run(block)
