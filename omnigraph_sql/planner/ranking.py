"""Ranking by distance, score or both: the rows of the best entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from omnigraph_compiler import ir
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.expressions import expression
from omnigraph_sql.planner.logical import Logical, Scan, variables_of
from omnigraph_sql.planner.plan import FLOAT64, Draft, Frame, column, into, ordered, slot
from omnigraph_sql.planner.sources import exact_source
from omnigraph_sql.planner.values import Positive


def ranked(draft: Draft, frame: Frame, rank: ir.Nearest | ir.Bm25, plan: Logical) -> Frame:
    """The rows that can be among the first by distance or score, with what ranks them."""
    by = _measure(draft, frame, rank)
    limit = None if plan.limit is None else plan.limit.count
    if by is None or (limit is None and _whole_match(draft, plan) is None):
        return _scored(draft, frame, rank)
    placed = is_placed(draft, plan)
    ranks = {"r": "$$rank", "p": "$$place"} if placed else {"r": "$$rank"}
    return _best(draft, frame, rank.field.variable, fn.Top(by, limit, placed=placed), plan, ranks)


def is_placed(draft: Draft, plan: Logical) -> bool:
    """Whether the first rows are the best entities, one row each, whose order nothing but their ids decides."""
    if plan.order is None or plan.limit is None or _whole_match(draft, plan) is None:
        return False
    rank = plan.order.rank
    if not isinstance(rank, ir.Rrf):
        return rank is not None and _is_measured(rank) and not plan.order.keys and _is_id(plan.order.tie_break, rank)
    return _is_measured(rank.first) and _is_measured(rank.second) and isinstance(rank.k, ir.ParamRef | ir.Constant | None)


def _is_id(tie_break: Sequence[ir.Expr], rank: ir.Nearest | ir.Bm25) -> bool:
    return tie_break[:1] == (ir.IdRef(rank.field.variable),)


def _is_measured(rank: ir.Nearest | ir.Bm25) -> bool:
    """Whether what ranks an entity is the same for all rows."""
    return isinstance(rank.query, ir.ParamRef | ir.Constant)


def fused(draft: Draft, frame: Frame, rrf: ir.Rrf, plan: Logical) -> Frame:
    """The rows of the best entities by the sum of reciprocal ranks, with their place among them."""
    assert plan.limit is not None
    first, second = (_measure(draft, frame, arm) for arm in (rrf.first, rrf.second))
    if first is None or second is None or not isinstance(rrf.k, ir.ParamRef | ir.Constant | None):
        return _fused_by_rows(draft, frame, rrf, plan)
    draft.fused[rrf] = f"$$rrf{len(draft.fused)}"
    k = None if rrf.k is None else draft.input(rrf.k)
    top = fn.FusedTop(first, second, k, plan.limit.count)
    return _best(draft, frame, rrf.first.field.variable, top, plan, {"r": "$$place", "s": draft.fused[rrf]})


def _measure(draft: Draft, frame: Frame, rank: ir.Nearest | ir.Bm25) -> fn.Bm25Score | fn.Distance | None:
    """What ranks an entity, if it is the same for all rows."""
    if not _is_measured(rank):
        return None
    assert isinstance(rank.query, ir.ParamRef | ir.Constant)
    table_key, query = frame.variables[rank.field.variable], draft.input(rank.query)
    if isinstance(rank, ir.Bm25):
        return fn.Bm25Score(table_key, rank.field.property, query)
    return fn.Distance(table_key, rank.field.property, rank.metric, query)


def _whole_match(draft: Draft, plan: Logical) -> fn.Nodes | None:
    """The relation that is all there is to the match, if there is one: its entities are there once each."""
    match plan.steps:
        case (Scan(vertex),):
            return exact_source(draft, vertex)
    return None


def _best(
    draft: Draft, frame: Frame, variable: str, top: fn.Top | fn.FusedTop, plan: Logical, ranks: dict[str, str]
) -> Frame:
    """The rows of the best entities: of a whole relation, or of the rows so far, which are handed over as lists.

    The lists are gathered side by side in one pass, so the rows are matched once, and the same place in each is one row.
    """
    assert frame.name is not None
    whole = _whole_match(draft, plan)
    if whole is not None:
        if not any(isinstance(item.expr, ir.Rrf) and item.expr not in draft.fused for item in plan.output.items):
            draft.ctes.clear()  # the scan: nothing else asks for it
            draft.relations.clear()
        table = draft.relation(replace(top, of=whole) if whole.conditions else top)
        shown = [into(column("v"), variable)]
        shown += [column(name).as_(alias, quoted=True) for name, alias in ranks.items()]
        return Frame(draft.cte(exp.select(*shown).from_(table)), frame.variables)
    names = [variable, *(name for name in frame.variables if name != variable)]
    lists = [exp.ArrayAgg(this=slot(name)) for name in names]
    rows = exp.Unnest(expressions=[draft.call(fn.Among(top, len(names)), *lists)])
    listed = draft.cte(exp.select(rows.as_("$$best", quoted=True)).from_(exp.to_table(frame.name)))
    shown = [into(_field(f"v{place}"), name) for place, name in enumerate(names)]
    shown += [_field(name).as_(alias, quoted=True) for name, alias in ranks.items()]
    return Frame(draft.cte(exp.select(*shown).from_(exp.to_table(listed))), frame.variables)


def _field(name: str) -> exp.Expression:
    return exp.Bracket(this=column("$$best"), expressions=[exp.Literal.string(name)])


def _scored(draft: Draft, frame: Frame, rank: ir.Nearest | ir.Bm25) -> Frame:
    """All rows that have a rank: where it depends on the row, or where all of them are wanted."""
    assert frame.name is not None
    names = [slot(name) for name in frame.variables]
    score = expression(draft, frame, rank).as_("$$rank", quoted=True)
    scored = draft.cte(exp.select(*names, score).from_(exp.to_table(frame.name)))
    known: exp.Expression = exp.Not(this=exp.Is(this=column("$$rank"), expression=exp.Null()))
    if isinstance(rank, ir.Bm25):
        known = exp.GT(this=column("$$rank"), expression=exp.Literal.number(0))
    kept = exp.select(*(each.copy() for each in names), column("$$rank")).from_(exp.to_table(scored)).where(known)
    return Frame(draft.cte(kept), frame.variables)


def _fused_by_rows(draft: Draft, frame: Frame, rrf: ir.Rrf, plan: Logical) -> Frame:
    """As `fused`, where an arm's query differs from row to row."""
    assert plan.limit is not None
    assert frame.name is not None
    scores = _scores(draft, frame, rrf, plan.limit.count)
    best = exp.LTE(this=column("f"), expression=exp.Literal.number(plan.limit.count))
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
    scores = _scores(draft, matches, rrf, None if plan.limit is None else plan.limit.count)
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
    # An arm may ask something else in every row; what an entity is worth is then the best of its rows.
    asked = variables_of(rrf.first.query) | variables_of(rrf.second.query)
    one = Frame(None, {name: frame.variables[name] for name in (variable, *sorted(asked - {variable}))})
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
    found = _scored(draft, frame, arm)
    if len(frame.variables) > 1:
        best_of = exp.Max if isinstance(arm, ir.Bm25) else exp.Min
        rank = best_of(this=column("$$rank")).as_("$$rank", quoted=True)
        once = exp.select(slot(variable), rank).from_(exp.to_table(str(found.name))).group_by(slot(variable))
        found = Frame(draft.cte(once), {variable: frame.variables[variable]})
    assert found.name is not None
    order = [
        ordered(column("$$rank"), descending=isinstance(arm, ir.Bm25)),
        ordered(draft.call(fn.IdRank(frame.variables[variable]), slot(variable))),
    ]
    place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=order)).as_("r", quoted=True)
    numbered = exp.select(slot(variable).as_("v", quoted=True), place).from_(exp.to_table(found.name))
    name = draft.cte(numbered)
    if isinstance(arm, ir.Bm25) or limit is None:
        return name
    best = exp.LTE(this=column("r"), expression=exp.Literal.number(limit))
    return draft.cte(exp.select(column("v"), column("r")).from_(exp.to_table(name)).where(best))


def _reciprocal(k: exp.Expression, arm: str) -> exp.Expression:
    """What the rank in an arm is worth; nothing where the arm does not list the entity."""
    share = exp.Div(
        this=exp.cast(exp.Literal.number(1), FLOAT64),
        expression=exp.Paren(this=exp.Add(this=exp.cast(k.copy(), FLOAT64), expression=column("r", arm))),
    )
    return exp.Coalesce(this=share, expressions=[exp.cast(exp.Literal.number(0), FLOAT64)])
