"""Which variable to begin with, and in which order to follow the traversals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph_compiler import ir
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import (
    Close,
    Hop,
    Link,
    Logical,
    Meet,
    Negation,
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
"""A row out of a list is taken to cost so many times as much as one that a function gives: a guess, not measured."""
_WALKED = 0.25
"""From this share of the edges on, reading all of them is as good as following them from node to node."""


def choose_steps(query: Logical, estimate: Estimate) -> Logical:
    """The steps that match the pattern of a query."""
    supports = {each.variable: estimate.support(each, query.branches(each.variable)) for each in query.pattern.vertices}
    order = _Order(query.pattern, estimate, supports)
    return replace(query, steps=order.steps()).with_note(f"begins with {order.began}")


@dataclass
class _Order:
    pattern: Pattern
    estimate: Estimate
    supports: dict[str, float]
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
        while left or not {each.variable for each in self.pattern.vertices} <= self.bound:
            left = self._next(left)
            self._conditions()
        self.made += [Without(self._negation(each)) for each in self.pattern.negations]
        return tuple(self.made)

    def _conditions(self) -> None:
        """Conditions as soon as the rows have what they ask about."""
        ready = [each for each in self.waiting if used_by(each) <= self.bound and (self.made or self.pattern.seeds)]
        self.made += [Where(each) for each in ready]
        self.waiting = [each for each in self.waiting if each not in ready]

    def _next(self, left: list[Link]) -> list[Link]:
        closing = next((link for link in left if set(link.ends) <= self.bound), None)
        if closing is not None:
            self._close(closing)
            return [link for link in left if link is not closing]
        open_ = [link for link in left if set(link.ends) & self.bound]
        if not open_:
            return self._start(left)
        link = min(open_, key=lambda each: self._step_from(each, self.bound))
        end = next(name for name in link.ends if name not in self.bound)
        return self._arrive(link, end, open_, left)

    def _start(self, left: list[Link]) -> list[Link]:
        free = [each for each in self.pattern.vertices if each.variable not in self.bound]
        linked = [each for each in free if any(each.variable in link.ends for link in left)]
        vertex = min(linked or free, key=lambda each: (self._cost_from(each, left), each.variable))
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
        """The rows that all steps would make together, beginning with a vertex."""
        bound, waiting = {*self.bound, start.variable}, list(left)
        rows = cost = self.supports[start.variable]
        while True:
            open_ = [link for link in waiting if set(link.ends) & bound]
            if not open_:
                return cost
            link = min(open_, key=lambda each: self._step_from(each, bound))
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
        """An edge table to begin with, where following its edges from the nodes would touch most of them anyway."""
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
        partner = next((each for each in open_ if each is not link and end in each.ends and each.is_hop), None)
        self.bound.add(end)
        if link.is_hop and partner is not None:
            self.made.append(Meet((link, partner), vertex))
            return [each for each in left if each is not link and each is not partner]
        functional = link.is_hop and self.estimate.facts.is_functional(link.edge, link.seen_from(start))
        self.made.append(Hop(link, start, vertex, functional))
        if link.edge_variable is not None:
            self.bound.add(link.edge_variable)
        return [each for each in left if each is not link]

    def _close(self, link: Link) -> None:
        self.made.append(Close(link))
        if link.edge_variable is not None:
            self.bound.add(link.edge_variable)

    def _planned(self, vertex: Vertex) -> Vertex:
        return replace(vertex, negations=tuple(self._negation(each) for each in vertex.negations))

    def _negation(self, negation: Negation) -> Negation:
        pattern = negation.pattern
        supports = {each.variable: self.estimate.nodes(each) for each in pattern.vertices}
        return replace(negation, steps=_Order(pattern, self.estimate, supports).steps())
