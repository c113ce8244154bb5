"""Scores, distances and fused ranks in every state a table can be in, with files, without, and read-only."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import LoadMode
from tests.unit.search.naive import SCHEMA, Model, check, derived

WORDS = ["sea1", "oak2", "reef3", "tar4", "buoy5", "keel6", "sea12"]


def rows(generator: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    """Documents; some have no text, some no vector, and distances tie."""
    made = []
    for number in range(first, first + count):
        text = " ".join(generator.choices(WORDS, k=generator.randint(0, 9)))
        vector = [float(generator.randint(-2, 2)) for _ in range(3)]
        made.append(
            {
                "k": f"d{number:03}",
                "t": None if generator.random() < 0.1 else text,
                "v": None if generator.random() < 0.1 else vector,
                "n": generator.randint(0, 6),
            }
        )
    return made


class Story:
    """A graph and what it should hold, by branch and by commit."""

    def __init__(self, path: Path, seed: int) -> None:
        self.graph = og.init(path / "g", SCHEMA)
        self.random = random.Random(seed)
        self.models = {"main": Model()}
        self.past: dict[str, Model] = {}
        self.count = 0

    def load(self, count: int, branch: str = "main") -> None:
        made = rows(self.random, self.count, count)
        self.count += count
        self.models[branch].put(made)
        self._load(made, "append", branch)

    def update(self, count: int, branch: str = "main") -> None:
        keys = self.random.sample(sorted(self.models[branch].docs), count)
        made = [{**new, "k": key} for key, new in zip(keys, rows(self.random, 0, count), strict=True)]
        self.models[branch].put(made)
        self._load(made, "merge", branch)

    def delete(self, count: int, branch: str = "main") -> None:
        for key in self.random.sample(sorted(self.models[branch].docs), count):
            del self.models[branch].docs[key]
            self.graph.mutate("query q($k: String) { delete Doc where k = $k }", params={"k": key}, branch=branch)

    def _load(self, made: list[dict[str, Any]], mode: LoadMode, branch: str) -> None:
        import json

        lines = [json.dumps({"type": "Doc", "data": row}) for row in made]
        self.graph.load(lines, mode=mode, branch=branch)

    def remember(self) -> None:
        self.past[self.graph.commits()[0].graph_commit_id] = self.models["main"].copy()

    def check(self) -> None:
        """On all branches and all moments: with this handle, with a new one, and with one that may not write."""
        for graph in (self.graph, og.connect(self.graph.uri), og.connect(self.graph.uri, read_only=True)):
            for branch, model in self.models.items():
                check(graph, model, branch=branch)
            for commit, model in self.past.items():
                check(graph, model, snapshot=commit)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path, seed=5)


def test_an_empty_type(story: Story) -> None:
    story.check()


def test_appends_updates_and_deletions(story: Story) -> None:
    story.load(30)
    story.check()
    story.remember()
    story.load(5)
    story.check()
    story.update(8)
    story.remember()
    story.delete(6)
    story.check()


def test_branches_share_and_go_their_own_ways(story: Story) -> None:
    story.load(20)
    story.check()
    before = derived(story.graph, "text").keys()
    story.graph.create_branch("side")
    story.models["side"] = story.models["main"].copy()
    story.check()
    assert derived(story.graph, "text").keys() == before
    story.load(4, "side")
    story.delete(3, "side")
    story.update(3)
    story.check()


def test_many_small_appends_are_merged(story: Story) -> None:
    story.load(12)
    for _ in range(14):
        story.load(1)
    story.remember()
    story.check()
    assert len(derived(story.graph, "text")) == len(derived(story.graph, "vector")) == 8
    story.load(1)
    story.delete(2)
    story.check()


def test_nothing_but_speed_depends_on_the_files(story: Story) -> None:
    story.load(20)
    story.update(4)
    story.check()
    shutil.rmtree(Path(story.graph.uri) / "_derived")
    with og.connect(story.graph.uri, read_only=True) as graph:
        check(graph, story.models["main"])
    assert not (Path(story.graph.uri) / "_derived" / "text").exists()
    assert not (Path(story.graph.uri) / "_derived" / "vector").exists()
    with og.connect(story.graph.uri) as graph:
        check(graph, story.models["main"])
    assert derived(story.graph, "text")


@pytest.mark.parametrize("kind", ["text", "vector"])
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "foreign"])
def test_damaged_files_are_made_anew(story: Story, kind: str, damage: str) -> None:
    story.load(20)
    story.update(4)
    check(story.graph, story.models["main"])
    files = derived(story.graph, kind)
    first, second = files
    root = Path(story.graph.uri) / "_derived" / kind
    bad = {
        "cut": files[first][:-100],
        "empty": b"",
        "garbage": b"no Arrow file" * 100,
        "foreign": files[second],
    }[damage]
    (root / first).write_bytes(bad)
    with og.connect(story.graph.uri) as graph:
        check(graph, story.models["main"])
    assert derived(story.graph, kind) == files
