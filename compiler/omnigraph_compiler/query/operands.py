"""Type checking of comparisons, property matches, assignments and predicates."""

from __future__ import annotations

from typing import NoReturn

from omnigraph_compiler import ir
from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.expressions import blob_text, literal, now, typed, vector_constant
from omnigraph_compiler.query.scope import Scope, Typed
from omnigraph_compiler.schema.catalog import Property
from omnigraph_compiler.types import INTEGERS, STRING, PropType, compatible

_OPERATORS: dict[str, ir.Operator] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

# Filters ---------------------------------------------------------------------------------------------------------


def comparison(scope: Scope, clause: ast.Filter) -> ir.Compare:
    left = _operand(scope, clause.left)
    right = _operand(scope, clause.right)
    if clause.operator == "contains":
        return ir.Compare(left.expr, _contains(scope, clause, left.type, right.type), right.expr)
    if clause.operator == "starts_with":
        for side, operand in ((clause.left, left), (clause.right, right)):
            if not operand.type.is_string:
                scope.fail("T7", f"starts_with compares Strings, found {operand.type}", side.span)
        return ir.Compare(left.expr, "starts_with", right.expr)
    for side, operand in ((clause.left, left), (clause.right, right)):
        if operand.type.is_list:
            help_text = "test membership with `contains`"
            scope.fail(
                "T7", f"lists cannot be compared with `{clause.operator}`, found {operand.type}", side.span, help_text
            )
        if operand.type.is_vector:
            help_text = "rank by distance with `order { nearest(...) }`"
            scope.fail("T7", f"vectors cannot be compared, found {operand.type}", side.span, help_text)
    if not compatible(left.type, right.type):
        text = f"cannot compare {left.type} with {right.type}"
        scope.fail("T7", text, clause.span, _conversion_hint(left.type, right.type))
    return ir.Compare(left.expr, _OPERATORS[clause.operator], right.expr)


def _operand(scope: Scope, expr: ast.Expr) -> Typed:
    operand = typed(scope, expr)
    if isinstance(operand.expr, ir.PropertyRef) and operand.type.is_blob:
        scope.fail("T24", f"{blob_text(operand)} is not a value and cannot be filtered on", expr.span)
    if operand.is_node or isinstance(operand.expr, ir.AggregateCall):
        actual = "a node variable" if operand.is_node else "an aggregate"
        scope.fail("T7", f"filters need scalar operands, found {actual}", expr.span, "compare properties, such as `$x.name`")
    if isinstance(operand.expr, ir.Rrf):
        scope.fail(None, "rrf() ranks the rows of the whole match and cannot be used in a filter", expr.span)
    if operand.type.is_blob:
        scope.fail("T7", f"{blob_text(operand)} cannot be used in a filter", expr.span)
    return operand


def _contains(scope: Scope, clause: ast.Filter, left: PropType, right: PropType) -> ir.Operator:
    if not left.is_list and not left.is_string:
        text = f"the left side of `contains` must be a list or a String, found {left}"
        scope.fail("T7", text, clause.left.span)
    item = left.item if left.is_list else left
    if right.is_list or right.is_vector or not compatible(item, right):
        text = f"the right side of `contains` must be {item.scalar}, found {right}"
        scope.fail("T7", text, clause.right.span)
    return "contains" if left.is_list else "contains_text"


def _conversion_hint(left: PropType, right: PropType) -> str | None:
    scalars = {left.scalar, right.scalar}
    if scalars == {"Date", "String"}:
        return 'write a date as date("2024-05-01")'
    if scalars == {"DateTime", "String"}:
        return 'write an instant as datetime("2024-05-01T12:00:00Z")'
    return None


# Property matches ------------------------------------------------------------------------------------------------


def property_match(scope: Scope, variable: str, prop: Property, match: ast.PropertyMatch) -> ir.Compare:
    """Check `{ property: value }` after a binding; on a list property it tests membership."""
    type_, at = prop.type, match.value.span
    if type_.is_blob:
        scope.fail("T3", f"`{prop.name}` is a Blob and cannot be matched", match.property.span)
    target = type_.item if type_.is_list else type_
    value = _value(scope, match.value, "T6")
    field = ir.PropertyRef(variable, prop.name, type_)
    op: ir.Operator = "contains" if type_.is_list else "="
    if isinstance(match.value, ast.Scalar | ast.ListLiteral):
        if type_.is_list and value.type.is_list:
            text = f"`{prop.name}` is {type_}: a match tests membership and takes one element, not a list"
            scope.fail("T3", text, at)
        return ir.Compare(field, op, _fit(scope, "T3", prop, target, value, match.value))
    if type_.is_list and value.type.is_list:
        text = f"`{prop.name}` is {type_}: a match tests membership and takes one element, not {value.type}"
        scope.fail("T7", text, at)
    if not compatible(target, value.type):
        _mismatch(scope, "T7", prop, target, value, at)
    return ir.Compare(field, op, value.expr)


# Assignments and predicates --------------------------------------------------------------------------------------


def assigned_value(scope: Scope, prop: Property, value: ast.Value) -> ir.Expr:
    checked = _value(scope, value, "T14")
    if isinstance(value, ast.Scalar | ast.ListLiteral):
        if prop.type.is_blob:
            scope.fail("T3", f"`{prop.name}` is a Blob; pass its value as a parameter", value.span)
        return _fit(scope, "T3", prop, prop.type, checked, value)
    is_blob_text = prop.type.is_blob and checked.type.is_string
    if not is_blob_text and not compatible(prop.type, checked.type):
        _mismatch(scope, "T7", prop, prop.type, checked, value.span)
    return checked.expr


def node_key(scope: Scope, key: PropType, value: ast.Value) -> ir.Expr | None:
    """An integer for the end of an edge whose nodes have an integer key: its decimal text is the id.

    A parameter becomes the text when the mutation runs. None for any other value.
    """
    operand = _value(scope, value, "T14")
    if operand.type.is_list or operand.type.scalar not in INTEGERS or key.scalar not in INTEGERS:
        return None
    return ir.Constant(str(operand.expr.value), STRING) if isinstance(operand.expr, ir.Constant) else operand.expr


def predicate(scope: Scope, field: ir.PropertyRef, prop: Property, pred: ast.Predicate) -> ir.Compare:
    value = _value(scope, pred.value, "T14")
    if prop.type.is_list or prop.type.is_vector:
        kind = "list" if prop.type.is_list else "vector"
        scope.fail("T7", f"a predicate compares scalars, `{prop.name}` is a {kind} ({prop.type})", pred.property.span)
    if not compatible(prop.type, value.type):
        _mismatch(scope, "T7", prop, prop.type, value, pred.value.span)
    return ir.Compare(field, _OPERATORS[pred.operator], value.expr)


def _value(scope: Scope, value: ast.Value, unknown_code: str) -> Typed:
    if isinstance(value, ast.Scalar | ast.ListLiteral):
        return literal(scope, value)
    if isinstance(value, ast.Now):
        return now(scope)
    type_ = scope.params.get(value.name)
    if type_ is None:
        text = f"`${clip(value.name)}` is not a declared parameter"
        help_text = did_you_mean(value.name, scope.params, prefix="$")
        hint = f"declare it after the name of the query: `(${clip(value.name)}: String)`"
        scope.fail(unknown_code, text, value.span, help_text or hint)
    return Typed(ir.ParamRef(value.name, type_), type_)


def _fit(scope: Scope, code: str, prop: Property, target: PropType, value: Typed, written: ast.Literal) -> ir.Expr:
    """Check a literal against a property: its type, length and membership in the enum."""
    constant = value.expr
    assert isinstance(constant, ir.Constant)
    if target.is_vector:
        vector = vector_constant(value, target.dimension)
        if vector is None:
            actual = f"{len(constant.value)} elements" if isinstance(constant.value, tuple) else str(value.type)
            text = f"`{prop.name}` is {target} and takes a list of {target.dimension} numbers, found {actual}"
            scope.fail(code, text, written.span)
        return vector
    if target.is_list and constant.value == ():
        return ir.Constant((), target.as_nullable(False))
    if not compatible(target, value.type):
        _mismatch(scope, code, prop, target, value, written.span)
    if target.enum_values is not None and constant.value not in target.enum_values:
        text = f"`{clip(str(constant.value))}` is not a value of `{prop.name}`: {target.as_nullable(False)}"
        scope.fail(code, text, written.span, did_you_mean(str(constant.value), target.enum_values))
    return constant


def _mismatch(scope: Scope, code: str, prop: Property, target: PropType, value: Typed, at: ast.At) -> NoReturn:
    text = f"`{prop.name}` is {target}, which {value.type} does not fit"
    scope.fail(code, text, at, _conversion_hint(target, value.type))
