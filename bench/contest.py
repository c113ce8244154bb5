"""Contests: the same workload on several systems in turn, and their times."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.measure import Sample, shown
from bench.peers import OURS, Answer
from bench.workers import GaveUp, Place, Worker
from bench.workloads import Workload

Outcome = Sample | str
"""Times, or the reason that there are none."""
_PART = 1 / 6
"""The time for all repetitions of a workload in one system, as a fraction of the time limit of one answer."""
_MOST, _LEAST = 21, 3


@dataclass(frozen=True)
class Result:
    workload: Workload
    outcomes: dict[str, Outcome]
    disagreements: tuple[str, ...]
    seconds: float
    """The time limit of an answer."""

    @property
    def ours(self) -> Outcome:
        return self.outcomes[OURS]

    @property
    def best(self) -> tuple[str, Sample] | None:
        """The peer with the least median."""
        peers = [(name, outcome) for name, outcome in self.outcomes.items() if name != OURS and isinstance(outcome, Sample)]
        return min(peers, key=lambda peer: peer[1].median, default=None)

    @property
    def ratios(self) -> tuple[float, float, float] | None:
        """Our median divided by the best peer's, between the bounds that the quartiles of both give."""
        if not isinstance(self.ours, Sample) or self.best is None:
            return None
        best = self.best[1]
        (low, high), (least, most) = self.ours.spread, best.spread
        return low / most, self.ours.median / best.median, high / least

    def ratio(self) -> str:
        if self.ratios is not None:
            low, middle, high = self.ratios
            return f"{middle:.2f} ({low:.2f} to {high:.2f})"
        if not isinstance(self.ours, Sample) or len(self.outcomes) == 1:
            return "—"
        return f"< {self.ours.median / self.seconds / 1000:.2f}"

    def target(self) -> str:
        limit = self.workload.milliseconds
        return f"≤ {self.workload.target:g}" if limit is None else f"< {limit:g} ms"

    def met(self) -> str:
        if not isinstance(self.ours, Sample):
            return "no"
        if self.workload.milliseconds is not None:
            return _yes(self.ours.median < self.workload.milliseconds)
        return _yes(self.ratios is None or self.ratios[1] <= self.workload.target)


def outcome_text(outcome: Outcome) -> str:
    return shown(outcome) if isinstance(outcome, Sample) else outcome


def compete(systems: Sequence[str], workloads: Iterable[Workload], place: Place) -> list[Result]:
    """Run each workload in all systems, with alternating repetitions."""
    workers = [Worker(system, place) for system in systems]
    results = []
    try:
        for workload in workloads:
            results.append(_contest(workers, workload, place))
            print(_line(results[-1]), file=sys.stderr, flush=True)
    finally:
        for worker in workers:
            worker.end()
    return results


def _contest(workers: list[Worker], workload: Workload, place: Place) -> Result:
    times: dict[str, list[float]] = {worker.system: [] for worker in workers}
    rounds: dict[str, int] = {}
    reasons: dict[str, str] = {}
    answers: list[dict[str, Answer]] = []
    for number in range(-2, _MOST):
        replies: dict[str, Answer] = {}
        for worker in workers:
            name = worker.system
            if name in reasons or number >= rounds.get(name, _MOST):
                continue
            try:
                reply = worker.run(workload, workload.parameters(number + 2, place.size.persons))
            except GaveUp as why:
                reasons[name] = str(why)
                continue
            replies[name] = reply.answer
            if number >= 0:
                times[name].append(reply.milliseconds)
            else:
                rounds[name] = _repetitions(reply.milliseconds, place.seconds)
        answers.append(replies)
    outcomes = {name: reasons.get(name) or Sample(tuple(taken)) for name, taken in times.items()}
    return Result(workload, outcomes, tuple(_disagreements(workload, answers)), place.seconds)


def _repetitions(milliseconds: float, seconds: float) -> int:
    """Return the number of repetitions that fit into the time, within bounds."""
    return max(_LEAST, min(_MOST, int(seconds * 1000 * _PART / max(milliseconds, 1))))


def _disagreements(workload: Workload, answers: list[dict[str, Answer]]) -> Iterable[str]:
    """Yield one sentence for each system whose answer differs from the most common one."""
    seen = set()
    for replies in answers:
        usual = max(replies.values(), key=list(replies.values()).count, default=[])
        for name, answer in replies.items():
            if answer != usual and name not in seen:
                seen.add(name)
                yield f"{workload.title}: {name} says {answer[:3]}, others {usual[:3]}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _line(result: Result) -> str:
    cells = [f"{name} {outcome_text(outcome)}" for name, outcome in result.outcomes.items()]
    return f"{result.workload.name}: {'; '.join(cells)}; ratio {result.ratio()}" + "".join(
        f"\n  {disagreement}" for disagreement in result.disagreements
    )
