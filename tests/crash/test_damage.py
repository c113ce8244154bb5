"""Each file of a graph, damaged in seven ways: an error of the family that names what is damaged, never anything worse.

What a case does stands in `damage_model.py`. Each runs in a process of its own, with a time limit.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import omnigraph_sql as og
from tests.concurrency.workers import Team, Worker, team
from tests.crash.damage_model import BRANCHES, DAMAGES, Answer, Owner, build, copy, files_of, owner_of_file
from tests.tiers import amount

pytestmark = pytest.mark.local

LIMIT = 90.0
SLICE = amount(check=5, test=8, all=21)
"""How many cases the short set takes, three of each damage."""
PARTS = 8
UNCHECKED = ("flipped", "zeroed", "swapped")
"""Damages that leave a file of another content: Lance keeps no checksum of what is in a file of its own."""

Case = tuple[str, str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("damage") / "model" / "g"
    build(root)
    return root


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with team(tmp_path_factory.mktemp("workers")) as made:
        yield made


@pytest.fixture(scope="module")
def sound(model: Path, workers: Team, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """What the graph answers when nothing is damaged."""
    answers = answers_of(workers, copy(model, tmp_path_factory.mktemp("sound") / "c"))
    assert [answer for answer in answers.values() if answer.error or answer.raw] == []
    return answers


@pytest.fixture(scope="module")
def datasets(model: Path) -> dict[str, str]:
    """The type or table that a dataset belongs to."""
    entries = og.connect(model, read_only=True).snapshot().entries
    return {entry.path: re.split(r"[:.]", key)[-1] for key, entry in entries.items()}


def answers_of(workers: Team, root: Path) -> dict[str, Answer]:
    """Ask a graph everything, in another process."""
    worker = workers.start("questions", root=str(root))
    deadline = time.monotonic() + LIMIT
    while not ended(worker):
        if time.monotonic() > deadline:
            worker.kill()
            pytest.fail(f"no end after {LIMIT} s, the last answers are {worker.said()[-2:]}")
        time.sleep(0.02)
    worker.join()
    return {answer.question: answer for answer in (Answer(**json.loads(line)) for line in worker.said())}


def ended(worker: Worker) -> bool:
    """Whether a worker is done, or dead: its template has not waited for it, so its entry stays."""
    return Path(f"/proc/{worker.pid}/stat").read_text().rpartition(") ")[2].startswith("Z")


# What must hold ------------------------------------------------------------------------------------------------------


def complaints(case: Case, answers: dict[str, Answer], sound: dict[str, Answer], kind: str | None) -> Iterator[str]:
    """What is wrong with the answers of a damaged graph."""
    file, damage = case
    owner = owner_of_file(file)
    for question, expected in sound.items():
        answer = answers.get(question)
        if answer is None:
            if not answers.get("open to write", Answer("")).error and not answers.get("open to read", Answer("")).error:
                yield f"{question}: no answer"
            continue
        if answer.raw:
            yield f"{question}: raw {answer.raw}"
        elif answer.error:
            if is_apart(question, owner, file, kind) and not is_unrecorded(question, file, damage):
                yield f"{question}: stopped by a damage elsewhere: {answer.error}"
            elif not names_something(answer.error, file, question):
                yield f"{question}: names nothing: {answer.error}"
        elif answer.value != expected.value and not may_differ(question, file, damage, owner):
            yield f"{question}: {answer.value} instead of {expected.value}, without a sign"


def is_apart(question: str, owner: Owner, file: str, kind: str | None) -> bool:
    """Whether a question has nothing to do with a file, so that its damage must not be noticed."""
    if file.startswith(("_derived/", "__recovery/")):
        return True
    if file.startswith("_staged/"):
        return not question.startswith("publish")
    if question.startswith("open"):
        return owner.branch is not None or kind is not None
    verb, branch, *what = question.split(" ")
    if verb == "delete":
        return owner.branch is not None or kind is not None
    if owner.branch is not None and BRANCHES.index(branch) < BRANCHES.index(owner.branch):
        return verb != "remake"
    if kind is not None and what and verb != "publish":
        return (
            what[0] in ("Person", "Team", "Knows", "notes", "history")
            and what[0] != kind
            and {what[0], kind}
            != {
                "Knows",
                "Person",
            }
        )
    return False


def is_unrecorded(question: str, file: str, damage: str) -> bool:
    """Whether the record of a branch is gone, so that there is no branch to delete, or something else in its place."""
    return "/_branches/" in file and question.startswith("delete") and damage in ("removed", "directory")


def names_something(text: str, file: str, question: str) -> bool:
    """Whether an error names the file, its dataset, or the branch that cannot be used."""
    parts = {part for part in file.split("/") if part not in ("data", "tree", "branches", "_refs", "_versions")}
    branches = {f"`{branch}`" for branch in question.split(" ") if branch in BRANCHES}
    return any(part in text for part in parts | branches)


def may_differ(question: str, file: str, damage: str, owner: Owner) -> bool:
    """Whether another answer without a sign is what docs/operations/failure-model.md says."""
    if "/data/" in file or "/_deletions/" in file or "/_indices/" in file or "/_versions/" in file:
        if damage in UNCHECKED:
            return True
        # Without its newest version the manifest is that of an older copy.
        return damage in ("removed", "directory") and file.startswith("__manifest/") and "/_versions/" in file
    if file.startswith("_graph_commits.lance/"):
        return question.endswith("history")
    if file.startswith("__recovery/"):
        return question.endswith("history")  # the write that waits is neither finished nor undone
    return question.startswith("remake") and owner.branch is not None


def cases_of(model: Path) -> list[Case]:
    return [(file, damage) for file in files_of(model) for damage in DAMAGES]


def slice_of(model: Path, seed: int) -> list[Case]:
    """Some cases, each damage as often as the others."""
    random = Random(seed)
    files = sorted({file for file, _ in cases_of(model)})
    return [(random.choice(files), damage) for damage in DAMAGES for _ in range(SLICE // len(DAMAGES))]


def judge(
    cases: list[Case], model: Path, workers: Team, sound: dict[str, Answer], datasets: dict[str, str], directory: Path
) -> list[str]:
    faults = []
    for file, damage in cases:
        root = copy(model, directory / "case")
        DAMAGES[damage](root / file, Random(zlib.crc32(f"{file} {damage}".encode())))
        answers = answers_of(workers, root)
        kind = datasets.get(owner_of_file(file).dataset)
        faults += [f"{file} {damage}: {text}" for text in complaints((file, damage), answers, sound, kind)]
        shutil.rmtree(directory / "case")
    return faults


def test_some_files_damaged(
    model: Path, workers: Team, sound: dict[str, Answer], datasets: dict[str, str], tmp_path: Path
) -> None:
    faults = judge(slice_of(model, 1), model, workers, sound, datasets, tmp_path)
    assert faults == [], "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_file_damaged(
    model: Path, workers: Team, sound: dict[str, Answer], datasets: dict[str, str], tmp_path: Path, part: int
) -> None:
    faults = judge(cases_of(model)[part::PARTS], model, workers, sound, datasets, tmp_path)
    assert faults == [], "\n".join(faults)
