"""A busy writer, killed at any time: what it was told is done is there, and nothing is half there."""

import pickle
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import omnigraph_sql as og
from tests import stores
from tests.concurrency.workers import Team, Worker, team
from tests.simulation.drawing import draw
from tests.simulation.engine import caught_up, observe, undone
from tests.simulation.model import Merge, Model, Operation
from tests.simulation.state import SCHEMA, Refused
from tests.stores import Place

WRITES = 8
"""In which of its writes a writer dies at the latest."""
FIRST = 0.03
"""Seconds that a first write may take in a directory; later ones are measured."""


def replayed(model: Model, seed: int, said: Iterable[str]) -> tuple[Model, Operation | None]:
    """The model after what a worker was told is done, and the operation it was at when it died."""
    random = Random(seed)
    under_way: Operation | None = None
    for line in said:
        word, _, kind = line.partition(" ")
        if word == "start":
            assert under_way is None
            under_way = draw(random, model)
        elif word == "done":
            assert under_way is not None
            model, under_way = model.after(under_way), None
        elif word == "refused":
            assert under_way is not None
            with pytest.raises(Refused) as refused:
                model.after(under_way)
            assert kind in refused.value.kinds
            under_way = None
    return model, under_way


def possible(model: Model, under_way: Operation | None) -> list[Model]:
    """The model before and after an operation; a merge is done before it deletes its source."""
    parts = [] if under_way is None else [under_way]
    if isinstance(under_way, Merge) and under_way.delete:
        parts.insert(0, replace(under_way, delete=False))
    models = [model]
    for part in parts:
        with suppress(Refused):
            models.append(model.after(part))
    return models


def settled(root: Place, models: list[Model], what: str) -> Model:
    """The model that the reopened graph shows."""
    graph = og.connect(root)
    found = {branch: observe(graph, branch) for branch in graph.branches()}
    matching = [each for each in models if each.branches == found and undone(graph, each) is not None]
    assert matching, f"{what}: the graph shows {found}, expected one of {[each.branches for each in models]}"
    assert graph.recoveries()["pending"] == []
    return caught_up(graph, matching[-1])


def await_death(writer: Worker, random: Random) -> None:
    """Wait for a moment somewhere in one of its writes, however fast they are here."""
    begun, number = time.monotonic(), random.randrange(WRITES)
    writer.await_line("start", number + 1)
    pace = (time.monotonic() - begun) / number if number else FIRST * stores.patience
    time.sleep(random.uniform(0, pace))


def cycle(workers: Team, root: Place, model: Model, seed: int) -> tuple[Model, int]:
    """One life of a writer. Returns the model and the number of writes it was told are done."""
    path = workers.directory / "model"
    path.write_bytes(pickle.dumps(model))
    writer = workers.start("busy", root=str(root), seed=seed, model=str(path))
    writer.await_line("ready")
    await_death(writer, Random(seed))
    writer.kill()
    said = writer.said()
    after, under_way = replayed(model, seed, said)
    return settled(root, possible(after, under_way), f"seed {seed}, killed in {under_way}"), said.count("done")


def check(root: Place, directory: Path, start: int, count: int) -> None:
    seeds = range(start, start + stores.repetitions(count))
    og.init(root, SCHEMA)
    model, done = Model(), 0
    with team(directory) as workers:
        for seed in seeds:
            model, acknowledged = cycle(workers, root, model, seed)
            done += acknowledged
    assert done > len(seeds) / 2, "the writers hardly wrote; the test proves nothing"


@pytest.mark.parametrize("start", [0, 25])
def test_random_kills(place: Place, tmp_path_factory: pytest.TempPathFactory, start: int) -> None:
    check(place / "g", tmp_path_factory.mktemp("workers"), start, 25)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2000, 50))
def test_many_random_kills(place: Place, tmp_path_factory: pytest.TempPathFactory, start: int) -> None:
    check(place / "g", tmp_path_factory.mktemp("workers"), start, 50)
