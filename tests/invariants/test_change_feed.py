"""Consumers of the change feed on random histories: branches, merges, reverts, index builds, cleanups, consumers that die.

A consumer has an empty model and applies what it is sent. Whatever happens, its model is the graph once it has come to the
head; where rows were removed it gets a gap, and begins anew with a baseline.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.history.diff import EntityChange
from tests.stores import Place, repetitions

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  vec: Vector(2)? }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
edge About: Note -> Person
"""
Model = dict[tuple[str, str], dict[str, Any]]


def key_of(record: dict[str, Any]) -> tuple[str, str]:
    return record.get("type") or record["edge"], record["data"]["id"]


def export(graph: og.Graph, branch: str, types: list[str] | None) -> Model:
    return {key_of(record): record for record in map(json.loads, graph.export(branch, types))}


class Consumer:
    """A model of a branch, kept with the cursor up to which it holds."""

    def __init__(self, chance: random.Random, branch: str, types: list[str] | None = None) -> None:
        self.random = chance
        self.branch = branch
        self.types = types
        self.saved: tuple[str | None, Model] = None, {}
        self.gaps = 0

    def poll(self, graph: og.Graph) -> None:
        """Come to the head of the branch."""
        cursor, model = self.saved[0], dict(self.saved[1])
        limit = self.random.choice([None, 1, 2, 3, 10])
        request: dict[str, Any] = {"start": "beginning"} if cursor is None else {"cursor": cursor}
        while True:
            try:
                page = graph.changes(self.branch, limit=limit, types=self.types, **request)
            except errors.ChangeFeedGap as gap:
                self.check_gap(graph, gap)
                cursor, model = self.begin(graph)
                request = {"cursor": cursor}
                continue
            except errors.CursorRejected as rejection:
                self.check_rejection(rejection)
                cursor, model = self.begin(graph)
                request = {"cursor": cursor}
                continue
            for block in page.blocks:
                assert block.changes
                for change in block.changes:
                    apply(model, change)
            if page.cursor != cursor and all(block.is_complete for block in page.blocks):
                cursor = page.cursor
                self.saved = cursor, dict(model)
            if page.next_page_token is None:
                break
            if self.random.random() < 0.1:  # dies, and goes on from what it has kept
                cursor, model = self.saved[0], dict(self.saved[1])
                request = {"start": "beginning"} if cursor is None else {"cursor": cursor}
            else:
                request = {"page_token": page.next_page_token}
        assert self.saved[0] == page.cursor
        assert self.saved[1] == export(graph, self.branch, self.types)

    def check_gap(self, graph: og.Graph, gap: errors.ChangeFeedGap) -> None:
        assert gap.first_unreadable_commit_id in [each.graph_commit_id for each in graph.commits(self.branch)]
        assert gap.cursor is not None
        self.gaps += 1

    def check_rejection(self, rejection: errors.CursorRejected) -> None:
        assert (rejection.reason, self.branch) == ("branch", "draft"), "only this branch is made anew"

    def begin(self, graph: og.Graph) -> tuple[str, Model]:
        """Begin anew with a baseline."""
        *lines, last = graph.baseline(self.branch, types=self.types)
        records = map(json.loads, lines)
        cursor, model = json.loads(last)["baseline"]["resume_cursor"], {key_of(record): record for record in records}
        self.saved = cursor, dict(model)
        return cursor, model


def apply(model: Model, change: EntityChange) -> None:
    """Apply a change to a model that must be in the state before it."""
    key = change.type_name, change.id
    assert model.get(key) == change.before
    assert change.op == ("insert" if change.before is None else "delete" if change.after is None else "update")
    if change.after is None:
        del model[key]
    else:
        model[key] = change.after


class History:
    """A graph that changes at random."""

    def __init__(self, place: Place, seed: int, *, cleans: bool) -> None:
        self.graph = og.init(place / "g", SCHEMA)
        self.random = random.Random(seed)
        self.cleans = cleans
        self.graph.create_branch("draft")
        self.numbers = iter(range(10_000))

    def step(self) -> None:
        steps = {
            self.put: 6,
            self.remove: 2,
            self.link: 3,
            self.write_same: 1,
            self.replace: 1,
            self.index: 1,
            self.merge: 2,
            self.revert: 1,
            self.renew: 1,
            self.clean: 2 if self.cleans else 0,
        }
        (chosen,) = self.random.choices(list(steps), list(steps.values()))
        with suppress(errors.MergeConflicts, errors.VersionReclaimed):  # nothing was changed
            chosen(self.random.choice(["main", "draft"]))

    def people(self, branch: str) -> list[str]:
        return [json.loads(line)["data"]["id"] for line in self.graph.export(branch, ["Person"])]

    def put(self, branch: str) -> None:
        people = [self.person() for _ in range(self.random.randrange(1, 5))]
        self.graph.load(list({key_of(each): json.dumps(each) for each in people}.values()), mode="merge", branch=branch)

    def person(self) -> dict[str, Any]:
        values: dict[str, Any] = {"name": f"p{self.random.randrange(12)}"}
        if self.random.random() < 0.7:
            values["age"] = self.random.randrange(3)
        if self.random.random() < 0.3:
            values["tags"] = self.random.choice([[], ["x"], ["x", "ü"]])
        if self.random.random() < 0.3:
            values["vec"] = [0.5, float(self.random.randrange(2))]
        return {"type": "Person", "data": {"id": values["name"], **values}}

    def remove(self, branch: str) -> None:
        for name in self.random.sample(people := self.people(branch), min(1, len(people))):
            query = "query q($name: String) { delete Person where name = $name }"
            self.graph.mutate(query, params={"name": name}, branch=branch)

    def link(self, branch: str) -> None:
        people = self.people(branch)
        if people:
            note = f"n{next(self.numbers)}"
            one, other = self.random.choice(people), self.random.choice(people)
            records = [
                {"type": "Note", "data": {"id": note, "text": note}},
                {"edge": "About", "from": note, "to": one, "data": {}},
                {"edge": "Knows", "from": one, "to": other, "data": {"since": 1}},
            ]
            self.graph.load(list(map(json.dumps, records)), mode="append", branch=branch)

    def write_same(self, branch: str) -> None:
        self.graph.load(list(self.graph.export(branch, ["Person"])), mode="merge", branch=branch)

    def replace(self, branch: str) -> None:
        edges = list(self.graph.export(branch, ["Knows"]))
        self.graph.load(edges[:2], mode="overwrite", branch=branch) if edges else None

    def index(self, branch: str) -> None:
        self.graph.ensure_indices(branch)

    def merge(self, branch: str) -> None:
        source = "draft" if branch == "main" else "main"
        self.graph.merge(source, into=branch, resolve=self.random.choice([None, "ours", "theirs"]))

    def revert(self, branch: str) -> None:
        own = [each for each in self.graph.commits(branch)[:4] if each.parent_commit_id is not None]
        if own:
            self.graph.revert(self.random.choice(own).graph_commit_id, branch=branch)

    def renew(self, _: str) -> None:
        self.graph.delete_branch("draft")
        self.graph.create_branch("draft")

    def clean(self, _: str) -> None:
        self.graph.cleanup(older_than=timedelta(0))


def follow(place: Place, seed: int, steps: int, *, cleans: bool) -> list[Consumer]:
    history = History(place, seed, cleans=cleans)
    chance = random.Random(seed + 1)
    consumers = [Consumer(chance, "main"), Consumer(chance, "draft"), Consumer(chance, "main", ["Person", "Knows"])]
    late = Consumer(chance, "main")
    for number in range(steps):
        history.step()
        for consumer in consumers:
            if chance.random() < 0.25:
                consumer.poll(history.graph)
        if number == steps // 2:
            late.begin(history.graph)
    reader = og.connect(place / "g", read_only=True)
    for consumer in (*consumers, late):
        consumer.poll(reader)
    return consumers


@pytest.mark.parametrize("seed", range(4))
def test_the_feed_from_the_beginning_and_a_baseline_with_its_feed_are_the_present(tmp_path: Place, seed: int) -> None:
    consumers = follow(tmp_path, seed, repetitions(24), cleans=False)
    assert [consumer.gaps for consumer in consumers] == [0, 0, 0]
    anew = Consumer(random.Random(seed), "main")
    anew.poll(og.connect(tmp_path / "g", read_only=True))


@pytest.mark.parametrize("seed", range(4))
def test_a_cursor_behind_a_cleanup_gets_a_gap_and_never_a_wrong_answer(tmp_path: Place, seed: int) -> None:
    follow(tmp_path, seed, repetitions(24), cleans=True)


def test_cleanups_do_make_gaps(tmp_path: Place) -> None:
    # Guards the walk above: without gaps it would prove less.
    history = History(tmp_path, 0, cleans=False)
    consumer = Consumer(random.Random(0), "main")
    for number in range(4):
        history.graph.load([json.dumps({"type": "Person", "data": {"name": f"p{number}"}})], mode="append")
    consumer.poll(history.graph)
    assert consumer.gaps == 0
    for number in range(4, 8):
        history.graph.load([json.dumps({"type": "Person", "data": {"name": f"p{number}"}})], mode="append")
    history.renew("main")
    history.clean("main")
    consumer.poll(history.graph)
    assert consumer.gaps == 1


@pytest.mark.slow
@pytest.mark.parametrize("cleans", [False, True])
@pytest.mark.parametrize("seed", range(100, 140))
def test_consumers_on_many_random_histories(tmp_path: Place, seed: int, cleans: bool) -> None:
    follow(tmp_path, seed, repetitions(60), cleans=cleans)
