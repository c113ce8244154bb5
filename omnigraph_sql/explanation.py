"""Explanations of queries: their steps, their SQL, and the plans of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step of a query, and the steps that it takes its rows from."""

    what: str
    """What the step does."""
    inputs: tuple[Step, ...] = ()
    """The steps that it takes its rows from."""
    notes: tuple[str, ...] = ()
    """Its operands and details."""
    estimated: int | None = None
    """The estimated number of rows, if table sizes allow an estimate."""
    _: KW_ONLY
    rows: int | None = None
    """The actual number of rows, if the query was run."""
    seconds: float | None = None
    """The time of the step itself, summed over threads, if the query was run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> plan = graph.explain("query names() { match { $p: Port } return { $p.name } }")
            >>> sorted(plan.steps.to_dict())
            ['estimated', 'inputs', 'notes', 'rows', 'seconds', 'what']
        """
        return {
            "what": self.what,
            "notes": list(self.notes),
            "estimated": self.estimated,
            "rows": self.rows,
            "seconds": self.seconds,
            "inputs": [step.to_dict() for step in self.inputs],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a tree with this step at the root, above the steps it takes its rows from.

        Example:
            >>> plan = graph.explain("query names() { match { $p: Port } return { $p.name } }")
            >>> len(list(plan.steps.lines())) > 0
            True
        """
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


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """The explanation of one query, from its plan to the plans of the engine."""

    query_name: str
    """The name of the query."""
    target: str
    """The id of the commit that is read."""
    steps: Step
    """The last step; the others are its inputs."""
    plan: dict[str, Any]
    """The IR of the query, as JSON."""
    sql: str
    """The SQL of the engine, with placeholders for parameters."""
    names: dict[str, str]
    """The meanings of the relations and functions in the SQL."""
    values: dict[str, Any]
    """The values of the parameters of the SQL."""
    logical: str
    """The logical plan of the engine."""
    physical: str
    """The physical plan of the engine."""
    rules: tuple[str, ...] = ()
    """The rewriting rules that the planner applied."""
    traversals: tuple[str, ...] = ()
    """The strategy of each traversal, with the reason."""
    indexes: tuple[str, ...] = ()
    """Indexes on the tables of the query."""
    rows: int | None = None
    """The number of rows, if the query was run."""
    seconds: dict[str, float] | None = None
    """The times of planning and running, if the query was run."""
    work: dict[str, int] | None = None
    """The numbers of traversals by strategy, if the query was run."""

    def __str__(self) -> str:
        """Return the text of `render`."""
        return self.render()

    def __repr__(self) -> str:
        return f"<Explanation of `{self.query_name}`; print it to see its steps>"

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> plan = graph.explain("query names() { match { $p: Port } return { $p.name } }")
            >>> plan.to_dict()["query_name"]
            'names'
        """
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
        """Return a text for people: the steps as a tree, each above those it takes its rows from.

        Example:
            >>> plan = graph.explain("query names() { match { $p: Port } return { $p.name } }")
            >>> plan.render().splitlines()[2]
            'steps'
        """
        return _sections([("", f"{self.query_name} on {self.target}"), *self._overview()])

    def render_all(self) -> str:
        """Return the text of `render` with the SQL, the meanings of its names, and the plans of the engine.

        Example:
            >>> plan = graph.explain("query names() { match { $p: Port } return { $p.name } }")
            >>> "physical plan" in plan.render_all()
            True
        """
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
    """Return a number of rows as a text for people."""
    return f"{number:,} {'row' if number == 1 else 'rows'}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _listed(entries: dict[str, Any]) -> str:
    width = max((len(name) for name in entries), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in entries.items())


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
