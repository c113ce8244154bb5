"""What a query will do, or did: its steps, its SQL, and what the engine makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step of a run, and the steps that it takes its rows from."""

    what: str
    inputs: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    """What it works on, and how."""
    estimated: int | None = None
    """How many rows are expected, as far as that can be told from the sizes of tables."""
    rows: int | None = None
    """How many rows came out, if the query was run."""
    seconds: float | None = None
    """How long the step itself took, summed over threads, if the query was run."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "what": self.what,
            "notes": list(self.notes),
            "estimated": self.estimated,
            "rows": self.rows,
            "seconds": self.seconds,
            "inputs": [step.to_dict() for step in self.inputs],
        }

    def lines(self) -> Iterator[str]:
        """The tree below this step, the last step first."""
        yield f"{self.what}{self._numbers()}"
        yield from (f"{'│' if self.inputs else ' '}    {note}" for note in self.notes)
        for step in self.inputs:
            is_last = step is self.inputs[-1]
            first, *rest = step.lines()
            yield f"{'└' if is_last else '├'}─ {first}"
            yield from (f"{' ' if is_last else '│'}  {line}" for line in rest)

    def _numbers(self) -> str:
        expected = "" if self.estimated is None else f"about {counted(self.estimated)}"
        if self.rows is None:
            return f"  ({expected})" if expected else ""
        actual = counted(self.rows) + ("" if self.seconds is None else f", {_time(self.seconds)}")
        return f"  ({actual}; expected {expected})" if expected else f"  ({actual})"


@dataclass(frozen=True)
class Explanation:
    """The way of one query, from its plan to what the engine runs."""

    query_name: str
    target: str
    """The commit that is read."""
    steps: Step
    plan: dict[str, Any]
    """The query's plan, as JSON."""
    sql: str
    names: dict[str, str]
    """What the relations and functions of the SQL mean."""
    values: dict[str, Any]
    """What is bound to the parameters of the SQL."""
    logical: str
    physical: str
    rules: tuple[str, ...] = ()
    """What the planner did to the plan."""
    traversals: tuple[str, ...] = ()
    """How edges are followed, and why so."""
    indexes: tuple[str, ...] = ()
    """Indexes on the tables of the query."""
    rows: int | None = None
    """How many rows came out, if the query was run."""
    seconds: dict[str, float] | None = None
    """How long planning and running took, if the query was run."""
    work: dict[str, int] | None = None
    """How often edge types were followed, and how, if the query was run."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "query_name": self.query_name,
            "graph_commit_id": self.target,
            "steps": self.steps.to_dict(),
            "rules": list(self.rules),
            "traversals": list(self.traversals),
            "indexes": list(self.indexes),
            "plan": self.plan,
            "sql": self.sql,
            "names": self.names,
            "values": {name: None if value is None else str(value) for name, value in self.values.items()},
            "logical_plan": self.logical,
            "physical_plan": self.physical,
            "rows": self.rows,
            "seconds": self.seconds,
            "work": self.work,
        }

    def render(self) -> str:
        """A text for people: the steps as a tree, each above those it takes its rows from."""
        return _sections([("", f"{self.query_name} on {self.target}"), *self._overview()])

    def render_all(self) -> str:
        """As `render`, with the SQL, the meaning of its names, and the plans of the engine."""
        more = [("SQL", self.sql), ("names", _listed(self.names)), ("values", _listed(self.values))]
        more += [("logical plan", self.logical), ("physical plan", self.physical)]
        return _sections([("", f"{self.query_name} on {self.target}"), *self._overview(), *more])

    def _overview(self) -> list[tuple[str, str]]:
        parts = [("steps", "\n".join(self.steps.lines())), ("rules", "\n".join(self.rules))]
        parts += [("traversals", "\n".join(self.traversals)), ("indexes", "\n".join(self.indexes))]
        if self.seconds is not None:
            times = {name: _time(seconds) for name, seconds in self.seconds.items()}
            parts.append(("run", _listed({"rows": self.rows, **times, **(self.work or {})})))
        return parts


def _sections(parts: list[tuple[str, str]]) -> str:
    return "\n\n".join(f"{title}\n{_indented(text)}" if title else text for title, text in parts if text.strip())


def counted(number: int) -> str:
    """A number of rows for people."""
    return f"{number:,} {'row' if number == 1 else 'rows'}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _listed(entries: dict[str, Any]) -> str:
    width = max((len(name) for name in entries), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in entries.items())


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
