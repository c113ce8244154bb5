"""The documentation builds without a warning, shows its code blocks, and loads nothing from other hosts."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_builds(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr

    pages = {path.relative_to(tmp_path): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert Path("index.html") in pages
    assert [page for page, html in pages.items() if re.search(r"<p>\s*(```|~~~)", html)] == []
    assert [page for page, html in pages.items() if re.search(r'<(script|img)[^>]* src="(https?:)?//', html)] == []
    assert [page for page, html in pages.items() if re.search(r'rel="(stylesheet|preconnect)"[^>]*"https?:', html)] == []
