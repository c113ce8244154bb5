"""The graphs of `graph` blocks: made once, copied for writes, shared by reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import omnigraph_sql as og
from tests import stores
from tests.golden.gqt import Block, GraphText, Section
from tests.indexes import build_btrees
from tests.stores import Place


@dataclass(frozen=True)
class Moment:
    """Where a branch stood after a step."""

    branch: str
    commit: str
    version: int


@dataclass
class MadeGraph:
    """A graph and where it stood after its data (0) and after each step."""

    graph: og.Graph
    moments: list[Moment] = field(default_factory=list)

    def note(self, branch: str) -> None:
        commits = self.graph.commits(branch)
        version = self.graph.snapshot(branch=branch).manifest_version
        self.moments.append(Moment(branch, commits[0].graph_commit_id if commits else "", version))


def make_graph(folder: Place, text: GraphText) -> MadeGraph:
    made = MadeGraph(og.init(folder, text.schema))
    if text.data:
        made.graph.load(text.data, mode="overwrite")
    made.note("main")
    for step in text.steps:
        made.note(_take(made.graph, step))
    return made


def _take(graph: og.Graph, step: Section) -> str:
    """Do what a step says; the answer is the branch it was about."""
    kind, *words = step.argument.split()
    if kind == "branch":
        name, base = words[0], words[2] if words[1:2] == ["from"] else "main"
        assert words[1:] in ([], ["from", base]), step.argument
        graph.create_branch(name, base)
        return name
    mode: Any = words.pop(0) if kind == "load" else ""
    branch = words[1] if words else "main"
    assert words in ([], ["on", branch]), step.argument
    if kind == "load":
        graph.load(step.text, mode=mode, branch=branch)
    else:
        assert kind == "mutate", step.argument
        graph.mutate(step.text, branch=branch)
    return branch


class Graphs:
    """The graphs of all blocks of a run."""

    SIDE = "side"
    """A branch that every graph for reading has; it shows what main shows."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._made: dict[GraphText, Place] = {}
        self._shared: dict[tuple[GraphText, str], MadeGraph] = {}
        self._copied: Block | None = None
        self._copies = self._forgotten = 0

    def copy(self, block: Block) -> og.Graph:
        """A copy of its own, for a block that writes."""
        text = _text(block)
        if block is not self._copied:
            self._forget_copies()
            self._copied = block
        if text not in self._made:
            made = self._folder / f"graph-{len(self._made)}"
            make_graph(made, text).graph.close()
            self._made[text] = made
        self._copies += 1
        return og.connect(stores.copy(self._made[text], self._copy(self._copies)))

    def _forget_copies(self) -> None:
        """Remove what the block before wrote to: the more there is, the longer a store takes."""
        for number in range(self._forgotten + 1, self._copies + 1):
            stores.remove(self._copy(number))
        self._forgotten = self._copies

    def _copy(self, number: int) -> Place:
        return self._folder / f"copy-{number}"

    def share(self, block: Block, indexed: str = "none") -> MadeGraph:
        """The graph that all reading blocks use together, with indexes on none, some or all of its tables."""
        place = _text(block), indexed
        if place not in self._shared:
            made = make_graph(self._folder / f"shared-{len(self._shared)}", place[0])
            if indexed != "none":
                build_btrees(made.graph, lambda key: indexed == "all" or crc32(key.encode()) % 2 == 0)
            made.graph.create_branch(self.SIDE)
            self._shared[place] = made
        return self._shared[place]


def _text(block: Block) -> GraphText:
    assert block.graph is not None, "no graph block stands above"
    return block.graph
