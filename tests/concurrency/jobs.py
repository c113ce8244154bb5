"""What a worker does. Each job says a line for everything it can vouch for, after it was acknowledged."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import omnigraph_sql as og
from omnigraph_sql import failpoints
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, OmnigraphError
from tests.crash.damage_model import ask
from tests.crash.world import edge, node
from tests.simulation.drawing import draw
from tests.simulation.engine import INSERT, perform

Say = Callable[[str], object]
CONFLICTS = (Conflict, ExpectedVersionMismatch)
"""What a writer that lost against others may see; it may then repeat the write."""


def busy(say: Say, root: str, seed: int, model: str) -> None:
    """Writes at random until it is killed. Whoever knows seed and model knows what each write was."""
    state = pickle.loads(Path(model).read_bytes())
    graph = og.connect(root)
    random = Random(seed)
    say("ready")
    while True:
        operation = draw(random, state)
        say("start")
        try:
            perform(graph, operation)
        except OmnigraphError as error:
            say(f"refused {error.kind}")
            continue
        say("done")
        state = state.after(operation)


def commits(say: Say, root: str, branch: str, name: str, count: int) -> None:
    """Writes of its own to tables that all share: every third moves two tables at once."""
    graph = og.connect(root)
    say("ready")
    for number in range(count):
        key = f"{name}-{number}"
        while True:
            say(f"start {key}")
            try:
                commit = _commit(graph, branch, key, pair=number % 3 == 0)
            except CONFLICTS as error:
                say(f"conflict {error.kind}")
                continue
            say(f"done {key} {commit}")
            break


def _commit(graph: og.Graph, branch: str, key: str, *, pair: bool) -> str:
    if pair:
        records = [node("Person", name=key), edge("Knows", key, key, id=key)]
        found = graph.load(records, mode="append", branch=branch).commit
        assert found is not None
        return found.graph_commit_id
    mutated: Any = graph.mutate(INSERT, params={"name": key, "age": 1}, branch=branch)
    return str(getattr(mutated.commit, "graph_commit_id", mutated.commit))


def rounds(say: Say, root: str, gates: str, count: int, role: str) -> None:
    """One side of a race, again and again; everyone starts when the gate of a round opens."""
    graph = og.connect(root)
    for number in range(count):
        say(f"ready {number}")
        _await(Path(gates) / str(number))
        try:
            ROLES[role](graph, number)
        except CONFLICTS as error:
            say(f"conflict {number} {error.kind}")
        except OmnigraphError as error:
            say(f"refused {number} {error.kind}")
        else:
            say(f"done {number}")


def _await(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


ROLES: dict[str, Callable[[og.Graph, int], object]] = {
    "delete the node": lambda graph, number: graph.mutate(
        "query q($name: String) { delete Person where name = $name }", params={"name": f"p{number}"}
    ),
    "point an edge at it": lambda graph, number: graph.load(
        [edge("Knows", "ann", f"p{number}", id=f"e{number}")], mode="append"
    ),
    "replace the teams": lambda graph, number: graph.load([node("Team", slug=f"t{number + 1}")], mode="overwrite"),
    "tag the release": lambda graph, number: graph.tag(f"v{number}"),
    "write the next": lambda graph, number: graph.load([node("Team", slug=f"t{number}")], mode="merge"),
    "join a team": lambda graph, number: graph.load([edge("Member", "ann", f"t{number}", id="m")], mode="merge"),
}


def keyed(say: Say, root: str, gate: str, key: str, kind: str) -> None:
    """A load with an idempotency key, at the same time as others with the same one."""
    graph = og.connect(root)
    say("ready")
    _await(Path(gate))
    record = node("Team", slug=f"team-{key}") if kind == "Team" else node("Person", name=f"person-{key}")
    while True:
        try:
            found = graph.load([record], mode="merge", idempotency_key=key).commit
        except CONFLICTS:
            continue
        assert found is not None
        say(f"done {found.graph_commit_id}")
        return


def paused(say: Say, root: str, rule: str) -> None:
    """A write that takes its time at a failpoint."""
    graph = og.connect(root)
    os.environ[failpoints.VARIABLE] = rule
    say("ready")
    graph.load([node("Person", name="slow"), edge("Knows", "slow", "ann", id="slow")], mode="append")
    say("done")


def single(say: Say, root: str, operation: str, branch: str, name: str) -> None:
    """One operation of `SINGLE`, and what became of it."""
    graph = None if operation == "init" else og.connect(root)
    say("ready")
    try:
        SINGLE[operation](graph or root, branch, name)
    except OmnigraphError as error:
        say(f"refused {error.kind} {error.message}")
    else:
        say("done")


def both(name: str) -> list[str]:
    """Records of one write that moves two tables."""
    return [node("Person", name=name), node("Team", slug=name)]


TWO_TABLES = "node Person {\n  name: String @key\n}\nnode Team {\n  slug: String @key\n}\n"

SINGLE: dict[str, Callable[[Any, str, str], object]] = {
    "init": lambda root, _branch, _name: og.init(root, TWO_TABLES),
    "write": lambda graph, branch, name: graph.load(both(name), mode="append", branch=branch),
    "create": lambda graph, branch, _name: graph.create_branch(branch),
    "delete": lambda graph, branch, _name: graph.delete_branch(branch),
    "stage": lambda graph, branch, name: graph.publish(graph.stage(both(name), mode="append", branch=branch)),
}


def storm(say: Say, root: str, seed: int, branches: list[str]) -> None:
    """Writes to branches, deletes them and makes them anew, until it is killed. All processes share one clock."""
    graph, random, number = og.connect(root), Random(seed), 0
    say("ready")
    while True:
        number += 1
        branch = random.choice(["main", *branches])
        operations = ["write"] if branch == "main" else ["write", "write", "write", "create", "delete"]
        operation, name = random.choice(operations), f"{branch}-{seed}-{number}"
        say(f"start {time.monotonic()} {operation} {branch} {name}")
        try:
            SINGLE[operation](graph, branch, name)
        except OmnigraphError as error:
            say(f"refused {time.monotonic()} {error.kind} {error.message}")
        else:
            say(f"done {time.monotonic()}")


def questions(say: Say, root: str) -> None:
    """Everything that a damaged graph is asked, and what it answered."""
    for answer in ask(Path(root)):
        say(answer.to_json())


JOBS: dict[str, Callable[..., None]] = {
    "questions": questions,
    "storm": storm,
    "single": single,
    "busy": busy,
    "commits": commits,
    "rounds": rounds,
    "keyed": keyed,
    "paused": paused,
}
