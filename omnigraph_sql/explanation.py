"""What a query will do, or did: its plan, its SQL, and what the engine makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Explanation:
    """The way of one query, from its plan to what the engine runs."""

    query_name: str
    plan: dict[str, Any]
    """The query's plan, as JSON."""
    sql: str
    names: dict[str, str]
    """What the relations and functions of the SQL mean."""
    values: dict[str, Any]
    """What is bound to the parameters of the SQL."""
    logical: str
    physical: str
    rows: int | None = None
    """How many rows came out, if the query was run."""
    seconds: dict[str, float] | None = None
    """How long planning and running took, if the query was run."""
    work: dict[str, int] | None = None
    """How often each edge type was followed in which way, if the query was run."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "query_name": self.query_name,
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
        """A text for people."""
        parts = [("SQL", self.sql), ("names", _listed(self.names)), ("values", _listed(self.values))]
        parts += [("logical plan", self.logical), ("physical plan", self.physical)]
        if self.seconds is not None:
            times = {name: f"{seconds * 1000:.1f} ms" for name, seconds in self.seconds.items()}
            parts.append(("run", _listed({"rows": self.rows, **times, **(self.work or {})})))
        return "\n\n".join(f"{title}\n{_indented(text)}" for title, text in parts if text)


def _listed(entries: dict[str, Any]) -> str:
    width = max((len(name) for name in entries), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in entries.items())


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
