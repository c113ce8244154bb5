"""Type checking of expressions, from syntax tree to IR."""

from __future__ import annotations

from typing import NoReturn

from omnigraph_compiler import ir
from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.foreign_syntax import word_help
from omnigraph_compiler.query.help_texts import NULL_HELP
from omnigraph_compiler.query.scope import ANONYMOUS, Scope, Typed
from omnigraph_compiler.schema.catalog import Property
from omnigraph_compiler.types import BOOL, DATE, DATETIME, F64, I64, STRING, PropType, compatible
from omnigraph_compiler.values import parse_date, parse_datetime

_SCALARS = {"String": STRING, "I64": I64, "F64": F64, "Bool": BOOL, "Date": DATE, "DateTime": DATETIME}


def typed(scope: Scope, expr: ast.Expr) -> Typed:
    """Check an expression and return its IR and type."""
    match expr:
        case ast.Access():
            return access(scope, expr)
        case ast.Variable():
            return _variable(scope, expr)
        case ast.Scalar() | ast.ListLiteral():
            return literal(scope, expr)
        case ast.Now():
            return now(scope)
        case ast.Alias():
            return _alias(scope, expr)
        case ast.Aggregate():
            return _aggregate(scope, expr)
        case ast.TextPredicate():
            return Typed(text_match(scope, expr), BOOL)
        case ast.Nearest():
            return Typed(_nearest(scope, expr), F64.as_nullable())
        case ast.Bm25():
            return Typed(_bm25(scope, expr), F64)
        case ast.Rrf():
            return Typed(_rrf(scope, expr), F64)


# Names -----------------------------------------------------------------------------------------------------------


def access(scope: Scope, expr: ast.Access) -> Typed:
    name, word = expr.variable.text, expr.property.text
    owner = scope.nodes.get(name) or scope.edges.get(name)
    if owner is None:
        _unbound(scope, "T6", expr.variable)
    prop = owner.properties.get(word)
    if prop is None:
        if word == "id":
            help_text: str | None = f"the id is not a property; return it with the bare variable `${name}`"
        else:
            help_text = did_you_mean(word, owner.properties)
        scope.fail("T6", f"`{owner.name}` has no property `{clip(word)}`", expr.property.span, help_text)
    return Typed(ir.PropertyRef(scope.ref(name), word, prop.type), prop.type)


def _variable(scope: Scope, expr: ast.Variable) -> Typed:
    if expr.name in scope.params:
        type_ = scope.params[expr.name]
        return Typed(ir.ParamRef(expr.name, type_), type_)
    if expr.name in scope.nodes and expr.name != ANONYMOUS:
        return Typed(ir.IdRef(scope.ref(expr.name)), STRING)
    if expr.name in scope.edges:
        help_text = f"read one of its properties: `${expr.name}.property`"
        scope.fail("T23", f"the edge variable `${expr.name}` cannot be used bare", expr.span, help_text)
    return _unbound(scope, None, ast.Name(expr.name, expr.span))


def _unbound(scope: Scope, code: str | None, name: ast.Name) -> NoReturn:
    if name.text == ANONYMOUS:
        scope.fail(code, "`$_` is anonymous and cannot be read; give the variable a name", name.span)
    help_text = did_you_mean(name.text, [*scope.variables(), *scope.params], prefix="$")
    if code is None:
        text = f"unbound variable `${clip(name.text)}`: neither a parameter nor bound above"
    else:
        text = f"unbound variable `${clip(name.text)}`: not bound by a clause above"
        if name.text in scope.params:
            help_text = f"`${name.text}` is a parameter; parameters have no properties"
    scope.fail(code, text, name.span, help_text)


def _alias(scope: Scope, expr: ast.Alias) -> Typed:
    target = scope.aliases.get(expr.name)
    if target is None and expr.name == "null":
        scope.fail(None, "there is no null literal", expr.span, NULL_HELP)
    if target is None:
        help_text = (
            word_help(expr.name)
            or did_you_mean(expr.name, scope.aliases)
            or "variables begin with `$`; strings are written in double quotes"
        )
        scope.fail(None, f"unknown alias `{clip(expr.name)}`", expr.span, help_text)
    return target


def now(scope: Scope) -> Typed:
    scope.uses_now.append(True)
    return Typed(ir.ParamRef(ir.NOW, DATETIME), DATETIME)


# Literals --------------------------------------------------------------------------------------------------------


def literal(scope: Scope, expr: ast.Literal) -> Typed:
    if isinstance(expr, ast.Scalar):
        constant = _scalar(scope, expr)
        return Typed(constant, constant.type)
    elements: list[ir.Constant] = []
    for item in expr.items:
        if isinstance(item, ast.ListLiteral):
            scope.fail(None, "list literals cannot be nested", item.span)
        element = _scalar(scope, item)
        if elements and not compatible(elements[0].type, element.type):
            text = f"a list literal mixes {elements[0].type} and {element.type}"
            scope.fail(None, text, item.span, "all elements of a list have one type")
        elements.append(element)
    values = tuple(element.value for element in elements)
    if not elements:
        return _list((), STRING)
    if any(element.type == F64 for element in elements):
        return _list(tuple(float(value) for value in values), F64)  # type: ignore[arg-type]
    return _list(values, elements[0].type)  # type: ignore[arg-type]


def _list(values: tuple[ir.PlainValue, ...], item: PropType) -> Typed:
    type_ = PropType(item.scalar, is_list=True)
    return Typed(ir.Constant(values, type_), type_)


def _scalar(scope: Scope, expr: ast.Scalar) -> ir.Constant:
    value = expr.value
    if expr.type in ("Date", "DateTime"):
        read = parse_date if expr.type == "Date" else parse_datetime
        try:
            value = read(str(value))
        except ValueError as error:
            scope.fail.input(f'{expr.type.lower()}("{clip(str(expr.value))}") is malformed: {error}', expr.span)
    return ir.Constant(value, _SCALARS[expr.type])


def vector_constant(constant: Typed, dimension: int | None) -> ir.Constant | None:
    """Convert a list of numbers to a vector of that dimension; return None if it is not one."""
    if not isinstance(constant.expr, ir.Constant) or not isinstance(constant.expr.value, tuple):
        return None
    values = constant.expr.value
    if not constant.type.item.is_numeric or len(values) != dimension:
        return None
    return ir.Constant(tuple(float(value) for value in values), PropType("Vector", dimension=dimension))


def blob_text(blob: Typed) -> str:
    """Return the name of a Blob for an error message."""
    if isinstance(blob.expr, ir.PropertyRef):
        return f"the Blob property `{blob.expr.property}`"
    return f"the Blob parameter `${blob.expr.name}`" if isinstance(blob.expr, ir.ParamRef) else "a Blob"


# Aggregates ------------------------------------------------------------------------------------------------------


def _aggregate(scope: Scope, expr: ast.Aggregate) -> Typed:
    function = expr.function
    argument = typed(scope, expr.argument)
    at = expr.argument.span
    if isinstance(argument.expr, ir.AggregateCall):
        scope.fail("T8", f"{function}() cannot take another aggregate", at)
    if argument.type.is_blob:
        scope.fail("T24", f"{blob_text(argument)} is not a value and cannot be aggregated by {function}()", at)
    if function == "count":
        return _call(function, argument, I64)
    if argument.is_node:
        scope.fail("T8", f"{function}() needs a property, found a bare node variable", at, "only count() takes a variable")
    if function in ("sum", "avg"):
        if not argument.type.is_numeric:
            scope.fail("T8", f"{function}() needs a numeric argument, found {argument.type}", at)
        return _call(function, argument, F64)
    if not (argument.type.is_numeric or argument.type.is_string):
        scope.fail("T8", f"{function}() needs a numeric or String argument, found {argument.type}", at)
    return _call(function, argument, argument.type)


def _call(function: str, argument: Typed, type_: PropType) -> Typed:
    result = type_.as_nullable()
    return Typed(ir.AggregateCall(function, argument.expr, result), result)


# Search and ranking ----------------------------------------------------------------------------------------------


def text_match(scope: Scope, expr: ast.TextPredicate) -> ir.TextMatch:
    code = "T20" if expr.function == "match_text" else "T19"
    field = _text_field(scope, code, expr.function, expr.field)
    query = _text_query(scope, code, expr.function, expr.query)
    if expr.max_edits is None:
        return ir.TextMatch(expr.function, field, query)
    edits = typed(scope, expr.max_edits)
    if not _is_value(edits) or not edits.type.is_integer:
        scope.fail("T19", f"max_edits of fuzzy() must be an integer, found {edits.type}", expr.max_edits.span)
    return ir.TextMatch(expr.function, field, query, edits.expr)


def _bm25(scope: Scope, expr: ast.Bm25) -> ir.Bm25:
    field = _text_field(scope, "T20", "bm25", expr.field)
    return ir.Bm25(field, _text_query(scope, "T20", "bm25", expr.query))


def _text_field(scope: Scope, code: str, function: str, expr: ast.Expr) -> ir.PropertyRef:
    if isinstance(expr, ast.Access) and expr.variable.text in scope.edges:
        _edge_field(scope, function, expr)
    field = typed(scope, expr)
    if not isinstance(field.expr, ir.PropertyRef) or not isinstance(expr, ast.Access):
        scope.fail(code, f"{function}() searches a property of a node variable, such as `$x.title`", expr.span)
    if not field.type.is_string:
        scope.fail(code, f"{function}() searches a String property, `{expr.property.text}` is {field.type}", expr.span)
    return field.expr


def _text_query(scope: Scope, code: str, function: str, expr: ast.Expr) -> ir.Expr:
    query = typed(scope, expr)
    if not _is_value(query) or not query.type.is_string:
        actual = "a node variable" if query.is_node else str(query.type)
        scope.fail(code, f"the query text of {function}() must be a String, found {actual}", expr.span)
    return query.expr


def _edge_field(scope: Scope, function: str, expr: ast.Access) -> NoReturn:
    text = f"{function}() searches node properties; `${expr.variable.text}` is an edge variable"
    scope.fail("T23", text, expr.span)


def _nearest(scope: Scope, expr: ast.Nearest) -> ir.Nearest:
    name, word = expr.field.variable.text, expr.field.property.text
    if name in scope.edges:
        _edge_field(scope, "nearest", expr.field)
    owner = scope.nodes.get(name)
    if owner is None:
        _unbound(scope, "T15", expr.field.variable)
    prop = owner.properties.get(word)
    if prop is None:
        text = f"`{owner.name}` has no property `{clip(word)}`"
        scope.fail("T15", text, expr.field.property.span, did_you_mean(word, owner.properties))
    if not prop.type.is_vector:
        scope.fail("T15", f"nearest() needs a Vector property, `{word}` is {prop.type}", expr.field.span)
    query = _vector_query(scope, expr.query, prop)
    return ir.Nearest(ir.PropertyRef(scope.ref(name), word, prop.type), query, prop.metric or "l2")


def _vector_query(scope: Scope, expr: ast.Expr, prop: Property) -> ir.Expr:
    """Check the query of nearest(): a vector of the property's dimension, or a text that is embedded at run time."""
    query = typed(scope, expr)
    if _is_value(query) and query.type.is_string:
        return query.expr
    dimension: int | None
    numbers = query.expr.value if isinstance(query.expr, ir.Constant) and query.type.is_list else None
    if isinstance(numbers, tuple) and query.type.item.is_numeric:
        dimension = len(numbers)
        vector: ir.Expr | None = vector_constant(query, prop.type.dimension)
    elif query.type.is_vector:
        dimension = query.type.dimension
        vector = query.expr if dimension == prop.type.dimension else None
    else:
        shown = "a node variable" if query.is_node else str(query.type)
        scope.fail("T15", f"nearest() needs a vector or a String as query, found {shown}", expr.span)
    if vector is None:
        text = f"dimension mismatch: `{prop.name}` is {prop.type}, the query vector has {dimension} dimensions"
        scope.fail("T15", text, expr.span)
    return vector


def _rrf(scope: Scope, expr: ast.Rrf) -> ir.Rrf:
    arms: list[ir.Nearest | ir.Bm25] = []
    for arm in (expr.first, expr.second):
        if not isinstance(arm, ast.Nearest | ast.Bm25):
            scope.fail("T21", "the first two arguments of rrf() must be nearest(...) or bm25(...)", arm.span)
        checked = typed(scope, arm).expr
        assert isinstance(checked, ir.Nearest | ir.Bm25)
        arms.append(checked)
    first, second = arms
    if first.field.variable != second.field.variable:
        text = f"the arms of rrf() rank different variables, `${first.field.variable}` and `${second.field.variable}`"
        scope.fail("T21", text, expr.second.span)
    if expr.k is None:
        return ir.Rrf(first, second)
    k = typed(scope, expr.k)
    if not _is_value(k) or not k.type.is_integer:
        scope.fail("T21", f"k of rrf() must be an integer, found {k.type}", expr.k.span)
    if isinstance(k.expr, ir.Constant) and isinstance(k.expr.value, int) and k.expr.value <= 0:
        scope.fail("T21", f"k of rrf() must be positive, found {k.expr.value}", expr.k.span)
    return ir.Rrf(first, second, k.expr)


def _is_value(expression: Typed) -> bool:
    """True if an expression has one value per match row: it is no node, aggregate or fused rank."""
    return not expression.is_node and not isinstance(expression.expr, ir.AggregateCall | ir.Rrf)
