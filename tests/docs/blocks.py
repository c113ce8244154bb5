"""Reads the fenced code blocks of a Markdown page."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

_OPENING = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>.*?)[ \t]*$")
_ATTRIBUTE = re.compile(r'(?P<key>[\w-]+)="(?P<value>[^"]*)"')


class BadPage(Exception):
    """A page that cannot be read as blocks."""


@dataclass(frozen=True)
class Block:
    """One fenced block: ```` ```LANGUAGE FLAG… KEY="VALUE"… ````."""

    page: Path
    line: int
    language: str
    flags: tuple[str, ...]
    attributes: dict[str, str]
    text: str

    @property
    def place(self) -> str:
        """Where the block starts, for messages."""
        return f"{self.page}:{self.line}"

    @property
    def title(self) -> str | None:
        """The name of the file the block shows, if it shows one."""
        return self.attributes.get("title")


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order. A fence inside a longer fence is text."""
    blocks: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        opening = _OPENING.match(line)
        if opening is None:
            continue
        body: list[str] = []
        for _, inner in lines:
            if _closes(inner, opening["fence"]):
                break
            body.append(inner)
        else:
            raise BadPage(f"{page}:{number}: the code block is never closed")
        blocks.append(_block(page, number, opening["info"], body))
    return blocks


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


def _block(page: Path, line: int, info: str, body: list[str]) -> Block:
    attributes = {match["key"]: match["value"] for match in _ATTRIBUTE.finditer(info)}
    language, *flags = _ATTRIBUTE.sub("", info).split() or [""]
    text = textwrap.dedent("\n".join(body)) + "\n" if body else ""
    return Block(page, line, language, tuple(flags), attributes, text)
