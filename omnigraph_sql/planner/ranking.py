"""Search as SQL: the rows of the best entities by distance, score or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.expressions import expression
from omnigraph_sql.planner.logical import Logical, is_constant_rank, variables_of
from omnigraph_sql.planner.plan import FLOAT64, Draft, Frame, column, into, ordered, slot
from omnigraph_sql.planner.values import Positive


def ranked(draft: Draft, frame: Frame, rank: ir.Nearest | ir.Bm25, plan: Logical) -> Frame:
    """The rows that can be among the first by distance or score, with the rank of each."""
    limit = None if plan.limit is None else plan.limit.number
    if not is_constant_rank(rank) or (limit is None and plan.ranked_nodes is None):
        return _scored(draft, frame, rank)
    top = fn.Top(_measure(draft, frame, rank), limit, is_ordered=plan.is_ordered_by_search)
    ranks = {"r": "$$rank", "p": "$$place"} if plan.is_ordered_by_search else {"r": "$$rank"}
    return _best(draft, frame, rank.field.variable, top, plan, ranks)


def fused(draft: Draft, frame: Frame, rrf: ir.Rrf, plan: Logical) -> Frame:
    """The rows of the best entities by the sum of reciprocal ranks, with their place among them."""
    assert plan.limit is not None
    if not is_constant_rank(rrf):
        return _fused_by_rows(draft, frame, rrf, plan)
    first, second = (_measure(draft, frame, arm) for arm in (rrf.first, rrf.second))
    draft.fused[rrf] = f"$$rrf{len(draft.fused)}"
    assert isinstance(rrf.k, ir.ParamRef | ir.Constant | None)
    k = None if rrf.k is None else draft.input(rrf.k)
    top = fn.FusedTop(first, second, k, plan.limit.number)
    return _best(draft, frame, rrf.first.field.variable, top, plan, {"r": "$$place", "s": draft.fused[rrf]})


def _measure(draft: Draft, frame: Frame, rank: ir.Nearest | ir.Bm25) -> fn.Bm25Score | fn.Distance:
    """The score or distance of an entity that is the same for all rows."""
    assert isinstance(rank.query, ir.ParamRef | ir.Constant)
    table_key, query = frame.variables[rank.field.variable], draft.input(rank.query)
    if isinstance(rank, ir.Bm25):
        return fn.Bm25Score(table_key, rank.field.property, query)
    return fn.Distance(table_key, rank.field.property, rank.metric, query)


def _best(
    draft: Draft, frame: Frame, variable: str, top: fn.Top | fn.FusedTop, plan: Logical, ranks: dict[str, str]
) -> Frame:
    """The rows of the best entities: of a whole relation, or of the rows so far, which are handed over as lists.

    `array_agg` gathers the lists side by side in one pass: the rows are matched once, and the same place in each is one row.
    """
    assert frame.name is not None
    if plan.ranked_nodes is not None:
        if not any(isinstance(item.expr, ir.Rrf) and item.expr not in draft.fused for item in plan.output.items):
            draft.ctes.clear()  # the scan: nothing else uses it
            draft.relations.clear()
        conditions, _ = plan.ranked_nodes.conditions
        table = draft.relation(replace(top, of=fn.Nodes(plan.ranked_nodes.type, conditions)) if conditions else top)
        columns = [into(column("v"), variable)]
        columns += [column(name).as_(alias, quoted=True) for name, alias in ranks.items()]
        return Frame(draft.cte(exp.select(*columns).from_(table)), frame.variables)
    names = [variable, *(name for name in frame.variables if name != variable)]
    lists = [exp.ArrayAgg(this=slot(name)) for name in names]
    rows = exp.Unnest(expressions=[draft.call(fn.Among(top, len(names)), *lists)])
    listed = draft.cte(exp.select(rows.as_("$$best", quoted=True)).from_(exp.to_table(frame.name)))
    fields = [into(_field(f"v{place}"), name) for place, name in enumerate(names)]
    fields += [_field(name).as_(alias, quoted=True) for name, alias in ranks.items()]
    return Frame(draft.cte(exp.select(*fields).from_(exp.to_table(listed))), frame.variables)


def _field(name: str) -> exp.Expression:
    return exp.Bracket(this=column("$$best"), expressions=[exp.Literal.string(name)])


def _scored(draft: Draft, frame: Frame, rank: ir.Nearest | ir.Bm25) -> Frame:
    """All rows that have a rank: where it depends on the row, or where all of them are wanted."""
    assert frame.name is not None
    names = [slot(name) for name in frame.variables]
    score = expression(draft, frame, rank).as_("$$rank", quoted=True)
    scored = draft.cte(exp.select(*names, score).from_(exp.to_table(frame.name)))
    has_rank: exp.Expression = exp.Not(this=exp.Is(this=column("$$rank"), expression=exp.Null()))
    if isinstance(rank, ir.Bm25):
        has_rank = exp.GT(this=column("$$rank"), expression=exp.Literal.number(0))
    rows = exp.select(*(name.copy() for name in names), column("$$rank")).from_(exp.to_table(scored)).where(has_rank)
    return Frame(draft.cte(rows), frame.variables)


def _fused_by_rows(draft: Draft, frame: Frame, rrf: ir.Rrf, plan: Logical) -> Frame:
    """Like `fused`, for an arm whose query differs from row to row."""
    assert plan.limit is not None
    assert frame.name is not None
    scores = _scores(draft, frame, rrf, plan.limit.number)
    best = exp.LTE(this=column("f"), expression=exp.Literal.number(plan.limit.number))
    chosen = draft.cte(exp.select(column("v"), column("s"), column("f")).from_(exp.to_table(scores)).where(best))
    variable = rrf.first.field.variable
    draft.fused[rrf] = f"$$rrf{len(draft.fused)}"
    names = [into(slot(name, frame.name), name) for name in frame.variables]
    extra = [
        column("f", chosen).as_("$$place", quoted=True),
        column("s", chosen).as_(draft.fused[rrf], quoted=True),
    ]
    on = exp.EQ(this=slot(variable, frame.name), expression=column("v", chosen))
    joined = exp.select(*names, *extra).from_(exp.to_table(frame.name)).join(exp.to_table(chosen), on=on)
    return Frame(draft.cte(joined), frame.variables)


def with_score(draft: Draft, frame: Frame, extra: Sequence[str], rrf: ir.Rrf, plan: Logical, matches: Frame) -> Frame:
    """The rows with a fused score that does not rank them, though it is about all matches.

    Without a limit an arm lists everything it can rank.
    """
    assert frame.name is not None
    scores = _scores(draft, matches, rrf, None if plan.limit is None else plan.limit.number)
    variable = rrf.first.field.variable
    draft.fused[rrf] = f"$$rrf{len(draft.fused)}"
    names = [into(slot(name, frame.name), name) for name in frame.variables]
    names += [column(name, frame.name).as_(name, quoted=True) for name in extra]
    score = exp.Coalesce(this=column("s", scores), expressions=[exp.cast(exp.Literal.number(0), FLOAT64)])
    on = exp.EQ(this=slot(variable, frame.name), expression=column("v", scores))
    joined = exp.select(*names, score.as_(draft.fused[rrf], quoted=True)).from_(exp.to_table(frame.name))
    return Frame(draft.cte(joined.join(exp.to_table(scores), on=on, join_type="left")), frame.variables)


def _scores(draft: Draft, frame: Frame, rrf: ir.Rrf, limit: int | None) -> str:
    """Entities `v` that an arm lists, their sums `s` and places `f`."""
    assert frame.name is not None
    variable = rrf.first.field.variable
    # The query of an arm may differ from row to row; the best row of an entity then counts.
    used = variables_of(rrf.first.query) | variables_of(rrf.second.query)
    one = Frame(None, {name: frame.variables[name] for name in (variable, *sorted(used - {variable}))})
    candidates = draft.cte(exp.select(*map(slot, one.variables)).distinct().from_(exp.to_table(frame.name)))
    a, b = (_arm(draft, replace(one, name=candidates), arm, limit) for arm in (rrf.first, rrf.second))
    k = draft.value(Positive(rrf.k, "k of rrf", 60))
    both = (
        exp.select(
            exp.Coalesce(this=column("v", a), expressions=[column("v", b)]).as_("v", quoted=True),
            exp.Add(this=_reciprocal(k, a), expression=_reciprocal(k, b)).as_("s", quoted=True),
            column("r", a).as_("r1", quoted=True),
            column("r", b).as_("r2", quoted=True),
        )
        .from_(exp.to_table(a))
        .join(exp.to_table(b), on=exp.EQ(this=column("v", a), expression=column("v", b)), join_type="full")
    )
    order = [ordered(column("s"), descending=True), *(ordered(column(name), last=True) for name in ("r1", "r2"))]
    place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=order)).as_("f", quoted=True)
    return draft.cte(exp.select(column("v"), column("s"), place).from_(exp.to_table(draft.cte(both))))


def _arm(draft: Draft, frame: Frame, arm: ir.Nearest | ir.Bm25, limit: int | None) -> str:
    variable = arm.field.variable
    scored = _scored(draft, frame, arm)
    if len(frame.variables) > 1:
        best_of = exp.Max if isinstance(arm, ir.Bm25) else exp.Min
        rank = best_of(this=column("$$rank")).as_("$$rank", quoted=True)
        once = exp.select(slot(variable), rank).from_(exp.to_table(str(scored.name))).group_by(slot(variable))
        scored = Frame(draft.cte(once), {variable: frame.variables[variable]})
    assert scored.name is not None
    order = [
        ordered(column("$$rank"), descending=isinstance(arm, ir.Bm25)),
        ordered(draft.call(fn.IdRank(frame.variables[variable]), slot(variable))),
    ]
    place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=order)).as_("r", quoted=True)
    numbered = exp.select(slot(variable).as_("v", quoted=True), place).from_(exp.to_table(scored.name))
    name = draft.cte(numbered)
    if isinstance(arm, ir.Bm25) or limit is None:
        return name
    best = exp.LTE(this=column("r"), expression=exp.Literal.number(limit))
    return draft.cte(exp.select(column("v"), column("r")).from_(exp.to_table(name)).where(best))


def _reciprocal(k: exp.Expression, arm: str) -> exp.Expression:
    """The reciprocal of the rank in an arm plus `k`; zero where the arm does not list the entity."""
    share = exp.Div(
        this=exp.cast(exp.Literal.number(1), FLOAT64),
        expression=exp.Paren(this=exp.Add(this=exp.cast(k.copy(), FLOAT64), expression=column("r", arm))),
    )
    return exp.Coalesce(this=share, expressions=[exp.cast(exp.Literal.number(0), FLOAT64)])
