"""Checks of read queries, and the resolved form that lowering starts from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from omnigraph_compiler import ir
from omnigraph_compiler.deadline import check_deadline
from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.expressions import blob_text, text_match, typed
from omnigraph_compiler.query.operands import comparison, property_match
from omnigraph_compiler.query.scope import ANONYMOUS, Scope, Typed
from omnigraph_compiler.schema.catalog import EdgeType, NodeType
from omnigraph_compiler.types import BOOL

_TRUE = ir.Constant(True, BOOL)


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding: a variable of a type, with its property matches."""

    variable: str
    type: str
    filters: tuple[ir.Compare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversed:
    """A traversal with its direction resolved from the clause's own source."""

    source: str
    source_type: str
    target: str
    target_type: str
    edge: str
    direction: ir.Direction
    minimum: int
    maximum: int
    edge_variable: str | None


@dataclass(slots=True)
class ResolvedBlock:
    """The clauses of a match or a negation, by kind in source order."""

    bindings: list[Bound] = field(default_factory=list)
    traversals: list[Traversed] = field(default_factory=list)
    filters: list[ir.Compare] = field(default_factory=list)
    negations: list[tuple[tuple[str, ...], ResolvedBlock]] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)
    """Variables in the order in which bindings and traversals first name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRead:
    block: ResolvedBlock
    variables: tuple[str, ...]
    """Named variables, sorted."""
    items: tuple[ir.OutputItem, ...]
    grouped: bool
    keys: tuple[tuple[Typed, str], ...]
    """Sort keys in order, with their direction."""
    key_names: tuple[str | None, ...]
    """For a grouped query: the output column of each sort key."""
    limit: int | ir.ParamRef | None


def check_read(scope: Scope, read: ast.Read) -> ResolvedRead:
    """Check a read in the fixed order: clauses, items, sort keys, limit, limits of ranking, grouping."""
    block = _block(scope, read.match.clauses)
    items = _items(scope, read.returns)
    keys = _sort_keys(scope, read.order)
    limit = _limit(scope, read.limit)
    _check_ranking(scope, read, keys)
    grouped = any(isinstance(item.expr, ir.AggregateCall) for item in items)
    names = _check_grouping(scope, read, items, keys) if grouped else ()
    return ResolvedRead(
        block=block,
        variables=tuple(sorted(name for name in scope.variables() if name != ANONYMOUS)),
        items=items,
        grouped=grouped,
        keys=tuple((key, written.direction or "asc") for written, key in keys),
        key_names=names,
        limit=limit,
    )


# Match -----------------------------------------------------------------------------------------------------------


def _block(scope: Scope, clauses: tuple[ast.Clause, ...]) -> ResolvedBlock:
    block = ResolvedBlock()
    bound_here = frozenset(name for clause in clauses for name in _binds(clause))
    for clause in clauses:
        check_deadline()
        match clause:
            case ast.Binding():
                block.bindings.append(_binding(scope, clause))
                block.mentions.append(block.bindings[-1].variable)
            case ast.Traversal():
                block.traversals.append(_traversal(scope, clause))
                block.mentions += (block.traversals[-1].source, block.traversals[-1].target)
            case ast.Filter():
                block.filters.append(comparison(scope, clause))
            case ast.TextClause():
                block.filters.append(ir.Compare(text_match(scope, clause.predicate), "=", _TRUE))
            case ast.Negation():
                block.negations.append(_negation(scope, clause, bound_here))
    return block


def _negation(scope: Scope, clause: ast.Negation, block_names: frozenset[str]) -> tuple[tuple[str, ...], ResolvedBlock]:
    inner = scope.child(block_names)
    block = _block(inner, clause.clauses)
    outer = set(scope.variables())
    positive = (part for part in clause.clauses if not isinstance(part, ast.Negation))
    direct = {name for part in positive for name in _names(scope, part)}
    if not direct & outer:
        text = "this `not` block mentions no variable from outside, so it would keep all rows or none"
        scope.fail("T9", text, (clause.span[0], clause.span[0] + 3), "connect it with a variable bound above")
    used = {name for part in clause.clauses for name in _names(scope, part)} & outer
    return tuple(sorted(scope.ref(name) for name in used)), block


def _binds(clause: ast.Clause) -> list[str]:
    """Return the variables that a clause may bind."""
    match clause:
        case ast.Binding():
            return [clause.variable.text]
        case ast.Traversal():
            edge = [clause.edge_variable.text] if clause.edge_variable else []
            return [clause.source.text, clause.target.text, *edge]
        case _:
            return []


def _names(scope: Scope, clause: ast.Clause) -> set[str]:
    """Return the variables (not parameters) that a clause mentions."""
    match clause:
        case ast.Binding():
            return {clause.variable.text}
        case ast.Traversal():
            return {clause.source.text, clause.target.text}
        case ast.Filter():
            return _expr_names(scope, clause.left) | _expr_names(scope, clause.right)
        case ast.TextClause():
            return _expr_names(scope, clause.predicate)
        case ast.Negation():
            return {name for part in clause.clauses for name in _names(scope, part)}


def _expr_names(scope: Scope, expr: ast.Expr | None) -> set[str]:
    match expr:
        case ast.Access():
            return {expr.variable.text}
        case ast.Variable():
            return set() if expr.name in scope.params else {expr.name}
        case ast.TextPredicate():
            return _expr_names(scope, expr.field) | _expr_names(scope, expr.query) | _expr_names(scope, expr.max_edits)
        case ast.Nearest() | ast.Bm25():
            return _expr_names(scope, expr.field) | _expr_names(scope, expr.query)
        case _:
            return set()


def _binding(scope: Scope, clause: ast.Binding) -> Bound:
    name, type_name = clause.variable.text, clause.type.text
    node = scope.catalog.nodes.get(type_name)
    if node is None:
        _not_a_node(scope, clause.type)
    if name != ANONYMOUS:
        scope.claim(name)
    variable = scope.hidden() if name == ANONYMOUS else scope.ref(name)
    filters = []
    for match in clause.matches:
        prop = node.properties.get(match.property.text)
        if prop is None:
            help_text = did_you_mean(match.property.text, node.properties)
            if match.property.text == "id":
                help_text = "the id is not a property; match the key or another property"
            text = f"`{type_name}` has no property `{clip(match.property.text)}`"
            scope.fail("T2", text, match.property.span, help_text)
        filters.append(property_match(scope, variable, prop, match))
    if name in scope.edges:
        scope.fail("T23", f"`${name}` is already an edge variable and cannot be bound to a node", clause.variable.span)
    bound = scope.nodes.get(name)
    if bound is not None and bound.name != type_name:
        text = f"`${name}` is already bound to `{bound.name}` and cannot be bound to `{type_name}`"
        scope.fail(None, text, clause.span)
    if name != ANONYMOUS:
        scope.nodes[name] = node
    return Bound(variable, type_name, tuple(filters))


def _not_a_node(scope: Scope, name: ast.Name) -> NoReturn:
    if name.text in scope.catalog.interfaces:
        help_text: str | None = f"`{name.text}` is an interface; bind one of the node types that implement it"
    elif name.text in scope.catalog.edges:
        help_text = f"`{name.text}` is an edge type; traverse it: `$a {name.text[0].lower()}{name.text[1:]} $b`"
    else:
        help_text = did_you_mean(name.text, scope.catalog.nodes)
    scope.fail("T1", f"`{clip(name.text)}` is not a node type", name.span, help_text)


def _traversal(scope: Scope, clause: ast.Traversal) -> Traversed:
    edge = scope.catalog.edge_by_word(clause.edge.text)
    if edge is None:
        words = [name[0].lower() + name[1:] for name in scope.catalog.edges]
        text = f"there is no edge type `{clip(clause.edge.text)}`"
        help_text = did_you_mean(clause.edge.text, words)
        if clause.edge.text in ("contains", "starts_with"):
            help_text = "two bare variables make a traversal; put a property on one side to compare text"
        scope.fail("T4", text, clause.edge.span, help_text)
    low, high = _hops(scope, clause)
    if clause.undirected and edge.source != edge.target:
        text = f"`<{clause.edge.text}>` goes both ways, but `{edge.name}` connects `{edge.source}` with `{edge.target}`"
        scope.fail("T22", text, clause.edge.span, "write it without the angle brackets")
    _check_edge_variable(scope, clause)
    for end in (clause.source, clause.target):
        if end.text in scope.edges:
            scope.fail("T23", f"`${end.text}` is an edge variable and cannot be the end of a traversal", end.span)
    forward = _is_forward(scope, clause, edge)
    source_type, target_type = (edge.source, edge.target) if forward else (edge.target, edge.source)
    source = _endpoint(scope, clause.source, source_type, edge)
    target = _endpoint(scope, clause.target, target_type, edge)
    if clause.edge_variable is not None and clause.edge_variable.text != ANONYMOUS:
        scope.bind_edge(clause.edge_variable.text, edge)
    named = clause.edge_variable is not None and clause.edge_variable.text != ANONYMOUS
    if edge.source != edge.target:
        high = min(high, 1)
    return Traversed(
        source=source,
        source_type=source_type,
        target=target,
        target_type=target_type,
        edge=edge.name,
        direction="both" if clause.undirected else "out" if forward else "in",
        minimum=low,
        maximum=high,
        edge_variable=scope.ref(clause.edge_variable.text) if named and clause.edge_variable else None,
    )


def _hops(scope: Scope, clause: ast.Traversal) -> tuple[int, int]:
    hops = clause.hops
    if hops is None:
        return 1, 1
    if hops.minimum < 1:
        help_text = f"write `{{1,{max(hops.maximum or 1, 1)}}}`; the start itself is not among what it reaches"
        scope.fail("T15", f"the smallest hop count is 1, found {hops.minimum}", hops.span, help_text)
    if hops.maximum is None:
        text = f"unbounded traversal `{{{hops.minimum},}}`: the largest hop count is missing"
        scope.fail("T15", text, hops.span, f"write an upper bound: `{{{hops.minimum},{hops.minimum + 3}}}`")
    if hops.maximum < hops.minimum:
        text = f"the largest hop count {hops.maximum} is below the smallest, {hops.minimum}"
        scope.fail("T15", text, hops.span)
    return hops.minimum, hops.maximum


def _check_edge_variable(scope: Scope, clause: ast.Traversal) -> None:
    variable = clause.edge_variable
    if variable is None:
        return
    if clause.hops is not None:
        text = f"the edge binding `${variable.text}` cannot be combined with hop bounds"
        scope.fail("T23", text, variable.span, "an edge variable stands for one stored edge")
    if variable.text == ANONYMOUS:
        return
    if variable.text in (clause.source.text, clause.target.text):
        scope.fail("T23", f"`${variable.text}` is an endpoint of the same traversal", variable.span)
    if scope.is_bound(variable.text):
        scope.fail("T23", f"`${variable.text}` is already bound", variable.span, "give the edge a name of its own")


def _is_forward(scope: Scope, clause: ast.Traversal, edge: EdgeType) -> bool:
    source, target = scope.nodes.get(clause.source.text), scope.nodes.get(clause.target.text)
    if source is not None:
        if source.name not in (edge.source, edge.target):
            _wrong_end(scope, clause.source, source, edge)
        return source.name == edge.source
    if target is not None:
        if target.name not in (edge.source, edge.target):
            _wrong_end(scope, clause.target, target, edge)
        return target.name == edge.target
    return True


def _endpoint(scope: Scope, name: ast.Name, type_name: str, edge: EdgeType) -> str:
    if name.text == ANONYMOUS:
        return scope.hidden()
    bound = scope.nodes.get(name.text)
    if bound is None:
        scope.bind_node(name.text, scope.catalog.nodes[type_name])
    elif bound.name != type_name:
        text = f"`${name.text}` is a `{bound.name}`, but this end of `{edge.name}` is a `{type_name}`"
        scope.fail("T5", text, name.span, f"`{edge.name}` goes from `{edge.source}` to `{edge.target}`")
    return scope.ref(name.text)


def _wrong_end(scope: Scope, name: ast.Name, bound: NodeType, edge: EdgeType) -> NoReturn:
    text = f"`${name.text}` is a `{bound.name}`, which is neither end of `{edge.name}`"
    scope.fail("T5", text, name.span, f"`{edge.name}` goes from `{edge.source}` to `{edge.target}`")


# Return ----------------------------------------------------------------------------------------------------------


def _items(scope: Scope, block: ast.ReturnBlock) -> tuple[ir.OutputItem, ...]:
    items: list[ir.OutputItem] = []
    names: set[str] = set()
    for item in block.items:
        expression = typed(scope, item.expr)
        if expression.type.is_blob:
            scope.fail("T24", f"{blob_text(expression)} is not a value and cannot be returned", item.expr.span)
        name = item.alias.text if item.alias else _default_name(item.expr)
        if name in names:
            at = item.alias.span if item.alias else item.span
            scope.fail(None, f"duplicate output column `{name}`", at, "name one of them with `as`")
        names.add(name)
        if item.alias is not None:
            scope.aliases[name] = expression
        items.append(ir.OutputItem(name, expression.expr, expression.type))
    return tuple(items)


def _default_name(expr: ast.Expr) -> str:
    match expr:
        case ast.Access():
            return f"{expr.variable.text}.{expr.property.text}"
        case ast.Variable() | ast.Alias():
            return expr.name
        case ast.Now():
            return "now"
        case ast.Aggregate() | ast.TextPredicate():
            return expr.function
        case ast.Nearest() | ast.Bm25() | ast.Rrf():
            return type(expr).__name__.lower()
        case _:
            return "literal"


# Order -----------------------------------------------------------------------------------------------------------


def _sort_keys(scope: Scope, block: ast.OrderBlock | None) -> list[tuple[ast.SortKey, Typed]]:
    keys: list[tuple[ast.SortKey, Typed]] = []
    for position, key in enumerate(block.keys if block else ()):
        if not isinstance(key.expr, ast.Access | ast.Alias | ast.Nearest | ast.Bm25 | ast.Rrf):
            text = "a sort key is a property, an alias or a ranking function"
            scope.fail(None, text, key.expr.span, "name the item with `as` in `return` and sort by that name")
        expression = typed(scope, key.expr)
        ranked = isinstance(expression.expr, ir.Nearest | ir.Bm25 | ir.Rrf)
        alias_of_nearest = isinstance(key.expr, ast.Alias) and isinstance(expression.expr, ir.Nearest)
        if ranked and position > 0 and not alias_of_nearest:
            scope.fail(None, "a ranking function must be the first sort key", key.expr.span)
        if expression.type.is_blob:
            scope.fail("T24", f"{blob_text(expression)} is not a value and cannot be sorted by", key.expr.span)
        if expression.type.is_list or expression.type.is_vector:
            scope.fail(None, f"cannot sort by {expression.type}", key.expr.span)
        keys.append((key, expression))
    return keys


def _limit(scope: Scope, limit: ast.Limit | None) -> int | ir.ParamRef | None:
    """Check a limit, a number or an integer parameter."""
    if limit is None:
        return None
    if isinstance(limit.count, int):
        return limit.count
    name, at = limit.count.name, limit.count.span
    type_ = scope.params.get(name)
    if type_ is None:
        if scope.is_bound(name):
            help_text = "declare a parameter for it after the name of the query: `($n: I64)`"
            scope.fail("T7", f"limit takes a number or an integer parameter, `${name}` is a variable", at, help_text)
        hint = f"declare it after the name of the query: `(${clip(name)}: I64)`"
        close = did_you_mean(name, scope.params, prefix="$")
        scope.fail("T6", f"`${clip(name)}` is not a declared parameter", at, close or hint)
    if not type_.is_integer:
        text = f"limit takes an integer parameter, `${name}` is {type_}"
        scope.fail("T7", text, at, f"declare it as an integer: `${name}: I64`")
    return ir.ParamRef(name, type_)


def _check_ranking(scope: Scope, read: ast.Read, keys: list[tuple[ast.SortKey, Typed]]) -> None:
    nearest = next((key for key, expression in keys if isinstance(expression.expr, ir.Nearest)), None)
    rrf = next((key for key, expression in keys if isinstance(expression.expr, ir.Rrf)), None)
    alias = next((key for key, _ in keys if isinstance(key.expr, ast.Alias)), None)
    if rrf is not None and read.limit is None:
        scope.fail("T21", "sorting by rrf() needs a `limit`", rrf.span, "add `limit 10` after the order block")
    if nearest is not None and read.limit is None:
        scope.fail("T17", "sorting by nearest() needs a `limit`", nearest.span, "add `limit 10` after the order block")
    if nearest is not None and alias is not None:
        text = "nearest() cannot be sorted by together with an alias, nor through one"
        scope.fail("T18", text, alias.span, "write nearest(...) itself as the sort key, followed by properties only")


def _check_grouping(
    scope: Scope, read: ast.Read, items: tuple[ir.OutputItem, ...], keys: list[tuple[ast.SortKey, Typed]]
) -> tuple[str | None, ...]:
    for written in read.returns.items:
        plain = isinstance(written.expr, ast.Access | ast.Variable)
        if not plain and not isinstance(written.expr, ast.Aggregate):
            text = "beside an aggregate, an item must be an aggregate, a property or a variable"
            scope.fail("T9", text, written.span)
    names: list[str | None] = []
    for key, expression in keys:
        if isinstance(key.expr, ast.Alias):
            names.append(key.expr.name)
            continue
        name = next((item.name for item in items if item.expr == expression.expr), None)
        if name is None:
            text = "beside an aggregate, a sort key must be an alias or one of the returned properties"
            scope.fail("T9", text, key.span, "return it too, or sort by an alias")
        names.append(name)
    return tuple(names)
