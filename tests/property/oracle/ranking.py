"""Reciprocal rank fusion."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_compiler.query import ast
from tests.property.oracle.expressions import Expressions, ranked_variable
from tests.property.oracle.graph import Entity
from tests.property.oracle.matching import Row
from tests.property.oracle.undecided import Unspecified

_DEFAULT_K = 60


@dataclass
class Fusion:
    """Fuses the two arms of `rrf` over the entities of a match."""

    expressions: Expressions
    rows: list[Row]
    limit: int | None

    def score(self, expr: ast.Rrf, entity: Entity) -> float:
        """The sum of what the arms contribute; an arm that does not list the entity contributes nothing."""
        k = _DEFAULT_K if expr.k is None else self.expressions.value(expr.k, {}).data
        return sum(1 / (k + rank) for rank in self._ranks(expr, entity.id) if rank is not None)

    def best_first(self, expr: ast.Rrf) -> list[str]:
        """The ids of all entities that an arm lists, best first."""
        entities = {row[ranked_variable(expr)].id: row[ranked_variable(expr)] for row in self.rows}
        last = len(entities) + 1

        def place(key: str) -> tuple[float, int, int]:
            first, second = self._ranks(expr, key)
            return -self.score(expr, entities[key]), first or last, second or last

        listed = [key for key in entities if self._ranks(expr, key) != (None, None)]
        return sorted(listed, key=place)

    def _ranks(self, expr: ast.Rrf, key: str) -> tuple[int | None, int | None]:
        first, second = (self._list(arm) for arm in (expr.first, expr.second))
        return (
            first.index(key) + 1 if key in first else None,
            second.index(key) + 1 if key in second else None,
        )

    def _list(self, arm: ast.Expr) -> list[str]:
        """What one arm lists, best first, ties by id."""
        scores: dict[str, float | None] = {}
        for row in self.rows:
            key, score = row[ranked_variable(arm)].id, self.expressions.value(arm, row).data
            if scores.setdefault(key, score) != score:
                raise Unspecified("the place of an entity whose rows have different scores")
        if isinstance(arm, ast.Bm25):
            found = [(-score, key) for key, score in scores.items() if score]
        else:
            if self.limit is None:
                raise Unspecified("how many entities `nearest` lists without a limit")
            found = [(score, key) for key, score in scores.items() if score is not None]
        keys = [key for _, key in sorted(found, key=lambda each: (each[0], each[1].encode()))]
        return keys if isinstance(arm, ast.Bm25) else keys[: self.limit]
