"""The order of the steps: the variable to begin with, and the order of the traversals."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace

from omnigraph_compiler import ir
from omnigraph_compiler.deadline import check_deadline
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import (
    CloseStep,
    HopStep,
    Link,
    Logical,
    MeetStep,
    NegatedPattern,
    Pattern,
    Restrict,
    Scan,
    ScanEdges,
    Step,
    Vertex,
    Where,
    Without,
    used_by,
)

_UNFOLDED = 3.0
"""The cost of a row out of a list, in rows that a function gives: a guess, not measured."""
_WALKED = 0.25
"""The share of the edges from which on reading all of them is as good as following them from node to node."""


def choose_steps(query: Logical, estimate: Estimate) -> Logical:
    """The steps that match the pattern of a query."""
    supports = {vertex.variable: estimate.support(vertex, vertex.branches) for vertex in query.pattern.vertices}
    order = _Order(query.pattern, estimate, supports)
    return replace(query, steps=order.steps()).with_note(f"begins with {order.began}")


@dataclass
class _Order:
    pattern: Pattern
    estimate: Estimate
    supports: dict[str, float]
    _: KW_ONLY
    bound: set[str] = field(default_factory=set)
    """Node and edge variables that the rows have."""
    made: list[Step] = field(default_factory=list)
    waiting: list[ir.Compare] = field(default_factory=list)
    began: str = ""

    def steps(self) -> tuple[Step, ...]:
        self.bound = set(self.pattern.seeds)
        self.waiting = list(self.pattern.filters)
        left = list(self.pattern.links)
        for name in self.pattern.seeds:
            if self.pattern.has_vertex(name) and not self.pattern.vertex(name).is_free:
                self.made.append(Restrict(self._planned(self.pattern.vertex(name))))
        self._conditions()
        while left or not {vertex.variable for vertex in self.pattern.vertices} <= self.bound:
            left = self._next(left)
            self._conditions()
        self.made += [Without(self._negation(negation)) for negation in self.pattern.negations]
        return tuple(self.made)

    def _conditions(self) -> None:
        """Add conditions as soon as the rows have their variables."""
        has_rows = bool(self.made or self.pattern.seeds)
        ready = [condition for condition in self.waiting if has_rows and used_by(condition) <= self.bound]
        self.made += [Where(condition) for condition in ready]
        self.waiting = [condition for condition in self.waiting if condition not in ready]

    def _next(self, left: list[Link]) -> list[Link]:
        closing = next((link for link in left if set(link.ends) <= self.bound), None)
        if closing is not None:
            self._close(closing)
            return [link for link in left if link is not closing]
        open_ = [link for link in left if set(link.ends) & self.bound]
        if not open_:
            return self._start(left)
        link = min(open_, key=lambda candidate: self._step_from(candidate, self.bound))
        end = next(name for name in link.ends if name not in self.bound)
        return self._arrive(link, end, open_, left)

    def _start(self, left: list[Link]) -> list[Link]:
        free = [vertex for vertex in self.pattern.vertices if vertex.variable not in self.bound]
        linked = [vertex for vertex in free if any(vertex.variable in link.ends for link in left)]
        vertex = min(linked or free, key=lambda candidate: (self._cost_from(candidate, left), candidate.variable))
        edges = self._edges_instead(vertex, left)
        if edges is not None:
            source, target = (self.pattern.vertex(name) for name in edges.ends)
            self.made.append(ScanEdges(edges, self._planned(source), self._planned(target)))
            self.bound |= {*edges.ends, edges.edge_variable or ""}
            self.began = self.began or f"the edges of ${edges.edge_variable}"
            return [link for link in left if link is not edges]
        self.made.append(Scan(self._planned(vertex)))
        self.bound.add(vertex.variable)
        self.began = self.began or f"${vertex.variable}"
        return left

    def _cost_from(self, start: Vertex, left: list[Link]) -> float:
        """The number of rows that all steps together would make, beginning with a vertex."""
        bound, waiting = {*self.bound, start.variable}, list(left)
        rows = cost = self.supports[start.variable]
        while True:
            check_deadline()
            open_ = [link for link in waiting if set(link.ends) & bound]
            if not open_:
                return cost
            link = min(open_, key=lambda candidate: self._step_from(candidate, bound))
            growth, _ = self._step_from(link, bound)
            start_name = next(name for name in link.ends if name in bound)
            functional = link.is_hop and self.estimate.facts.is_functional(link.edge, link.seen_from(start_name))
            rows = max(1.0, rows * growth)
            cost += rows * (1.0 if functional or set(link.ends) <= bound else _UNFOLDED)
            bound |= set(link.ends)
            waiting.remove(link)

    def _step_from(self, link: Link, bound: set[str]) -> tuple[float, str]:
        if set(link.ends) <= bound:
            return 0.1, link.target
        start = next(name for name in link.ends if name in bound)
        end = link.other(start)
        near, far = self.pattern.vertex(start), self.pattern.vertex(end)
        left = self.supports[end] / self.estimate.nodes(far)
        return self.estimate.fan_out(link, near, far) * left, link.target

    def _edges_instead(self, vertex: Vertex, left: list[Link]) -> Link | None:
        """The edge table to begin with, where following its edges from the nodes would touch most of them anyway."""
        for link in left:
            if link.edge_variable is None or link.direction == "both" or link.source == link.target:
                continue
            share = min(self.supports[name] / self.estimate.size(self.pattern.vertex(name)) for name in link.ends)
            whole = self.supports[vertex.variable] >= _WALKED * self.estimate.size(vertex)
            if share >= _WALKED and whole:
                return link
        return None

    def _arrive(self, link: Link, end: str, open_: list[Link], left: list[Link]) -> list[Link]:
        vertex = self._planned(self.pattern.vertex(end))
        start = link.other(end)
        partner = next((other for other in open_ if other is not link and end in other.ends and other.is_hop), None)
        self.bound.add(end)
        if link.is_hop and partner is not None:
            self.made.append(MeetStep((link, partner), vertex))
            return [other for other in left if other is not link and other is not partner]
        functional = link.is_hop and self.estimate.facts.is_functional(link.edge, link.seen_from(start))
        self.made.append(HopStep(link, start, vertex, functional))
        if link.edge_variable is not None:
            self.bound.add(link.edge_variable)
        return [other for other in left if other is not link]

    def _close(self, link: Link) -> None:
        self.made.append(CloseStep(link))
        if link.edge_variable is not None:
            self.bound.add(link.edge_variable)

    def _planned(self, vertex: Vertex) -> Vertex:
        return replace(vertex, negations=tuple(map(self._negation, vertex.negations)))

    def _negation(self, negation: NegatedPattern) -> NegatedPattern:
        pattern = negation.pattern
        supports = {vertex.variable: self.estimate.nodes(vertex) for vertex in pattern.vertices}
        return replace(negation, steps=_Order(pattern, self.estimate, supports).steps())
