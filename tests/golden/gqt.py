"""Reader of `.gqt` files; the format is described in README.md beside this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Section:
    key: str
    argument: str
    text: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.strip()]


@dataclass(frozen=True)
class GraphText:
    """What a `graph` block says: a schema, the records loaded first, and what happened then."""

    schema: str
    data: str
    steps: tuple[Section, ...]


@dataclass(frozen=True)
class Block:
    path: Path
    line: int
    kind: str
    title: str
    text: str
    sections: tuple[Section, ...]
    schema: str | None
    """The schema in force: the text of the last `schema` block above that must compile."""
    graph: GraphText | None
    """The graph in force: that of the last `graph` block above."""

    @property
    def id(self) -> str:
        return f"{self.path.stem}:{self.line}:{self.title}".replace(" ", "-")

    def get(self, key: str) -> Section | None:
        return next((section for section in self.sections if section.key == key), None)

    def need(self, key: str) -> Section:
        section = self.get(key)
        assert section is not None, f"{self.path.name}:{self.line}: a {self.kind} block needs a section `--- {key}`"
        return section


def read_blocks(path: Path) -> Iterator[Block]:
    schema: str | None = None
    graph: GraphText | None = None
    titles: set[str] = set()
    for line, header, body in _split(path):
        kind, _, title = (part.strip() for part in header.partition(":"))
        assert title not in titles, f"{path.name}:{line}: the title {title!r} is used twice"
        titles.add(title)
        text, sections = _sections(body)
        yield Block(path, line, kind, title, text, sections, schema, graph)
        if kind == "schema" and not any(section.key == "error" for section in sections):
            schema = text
        if kind == "graph":
            data = next((section.text for section in sections if section.key == "data"), "")
            graph = GraphText(text, data, tuple(section for section in sections if section.key == "then"))


def _split(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    current: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.startswith("=== "):
            if current is not None:
                yield current
            current = (number, line[4:], [])
        elif current is not None:
            current[2].append(line)
    if current is not None:
        yield current


def _sections(lines: list[str]) -> tuple[str, tuple[Section, ...]]:
    while lines and lines[0].startswith("#"):
        lines = lines[1:]
    text: list[str] = []
    sections: list[tuple[str, str, list[str]]] = []
    for line in lines:
        if line.startswith("--- "):
            key, _, argument = line[4:].strip().partition(" ")
            sections.append((key, argument.strip(), []))
        else:
            (sections[-1][2] if sections else text).append(line)
    return _text(text), tuple(Section(key, argument, _text(body)) for key, argument, body in sections)


def _text(lines: list[str]) -> str:
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    plain = [line[1:] if line.startswith(("\\---", "\\===")) else line for line in lines]
    return "\n".join(plain).replace("␀", "\0").replace("␍", "\r")
