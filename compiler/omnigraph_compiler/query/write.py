"""Checks of mutations, and their lowering to IR."""

from __future__ import annotations

from omnigraph_compiler import ir
from omnigraph_compiler.deadline import check_deadline
from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.query import ast
from omnigraph_compiler.query.operands import assigned_value, node_key, predicate
from omnigraph_compiler.query.scope import Scope
from omnigraph_compiler.schema.catalog import EdgeType, NodeType, Property
from omnigraph_compiler.types import STRING

_ENDS = {name: Property(name, STRING) for name in ("from", "to")}


def check_write(scope: Scope, query: ast.Query, write: ast.Write) -> ir.WritePlan:
    """Check the statements in order, then that inserts and updates are not mixed with deletes."""
    statements = tuple(_statement(scope, statement) for statement in write.statements)
    _check_d2(scope, query, write)
    return ir.WritePlan(statements)


def _statement(scope: Scope, statement: ast.Statement) -> ir.Insert | ir.Update | ir.Delete:
    check_deadline()
    match statement:
        case ast.Insert():
            return _insert(scope, statement)
        case ast.Update():
            return _update(scope, statement)
        case ast.Delete():
            return _delete(scope, statement)


def _check_d2(scope: Scope, query: ast.Query, write: ast.Write) -> None:
    deletes = [statement for statement in write.statements if isinstance(statement, ast.Delete)]
    if not deletes or len(deletes) == len(write.statements):
        return
    first_deletes = isinstance(write.statements[0], ast.Delete)
    other = next(statement for statement in write.statements if isinstance(statement, ast.Delete) != first_deletes)
    scope.fail(
        "D2",
        f"query `{query.name.text}` mixes inserts/updates and deletes; split into separate mutations",
        other.type.span,
        "one query either constructs or destroys, so that its statements cannot undo each other",
    )


def _target(scope: Scope, name: ast.Name) -> NodeType | EdgeType:
    """Return the type that a mutation names; if a node and an edge type share the name, the node type."""
    type_ = scope.catalog.nodes.get(name.text) or scope.catalog.edges.get(name.text)
    if type_ is None:
        help_text = did_you_mean(name.text, [*scope.catalog.nodes, *scope.catalog.edges])
        scope.fail("T10", f"`{clip(name.text)}` is neither a node type nor an edge type", name.span, help_text)
    return type_


def _check_assignments(scope: Scope, statement: ast.Insert | ast.Update) -> None:
    seen: set[str] = set()
    for assignment in statement.assignments:
        if assignment.property.text in seen:
            text = f"`{assignment.property.text}` is assigned twice in one statement"
            scope.fail("T13", text, assignment.property.span)
        seen.add(assignment.property.text)


def _check_not_empty(scope: Scope, statement: ast.Insert | ast.Update) -> None:
    if not statement.assignments:
        scope.fail("T10", f"nothing is assigned to `{statement.type.text}`", statement.type.span, "assign a property")


def _assign(scope: Scope, owner: NodeType | EdgeType, assignment: ast.Assignment) -> ir.Assign:
    prop = _property(scope, owner, assignment.property)
    value = _end(scope, owner, prop, assignment.value) or assigned_value(scope, prop, assignment.value)
    return ir.Assign(prop.name, value, prop.type)


def _property(scope: Scope, owner: NodeType | EdgeType, name: ast.Name) -> Property:
    prop = owner.properties.get(name.text)
    if prop is None and isinstance(owner, EdgeType):
        prop = _ENDS.get(name.text)
    if prop is None:
        ends = tuple(_ENDS) if isinstance(owner, EdgeType) else ()
        help_text = did_you_mean(name.text, (*owner.properties, *ends))
        if ends and name.text in ("src", "dst", "source", "target"):
            help_text = "the ends of an edge are `from` and `to`"
        if name.text == "id":
            help_text = "the id is not a property; " + ("use `from` and `to`" if ends else "use the key or another property")
        scope.fail("T11", f"`{owner.name}` has no property `{clip(name.text)}`", name.span, help_text)
    return prop


def _end(scope: Scope, owner: NodeType | EdgeType, prop: Property, value: ast.Value) -> ir.Expr | None:
    """The end of an edge that is given as the key of its node instead of its id."""
    if prop is not _ENDS.get(prop.name) or not isinstance(owner, EdgeType):
        return None
    node = scope.catalog.nodes[owner.source if prop.name == "from" else owner.target]
    if node.key is None or len(node.key) != 1:
        return None
    return node_key(scope, node.properties[node.key[0]].type, value)


def _insert(scope: Scope, statement: ast.Insert) -> ir.Insert:
    _check_assignments(scope, statement)
    owner = _target(scope, statement.type)
    _check_not_empty(scope, statement)
    assignments = tuple(_assign(scope, owner, assignment) for assignment in statement.assignments)
    assigned = {assignment.property for assignment in assignments}
    missing = [prop.name for prop in owner.properties.values() if _is_missing(prop, assigned)]
    if isinstance(owner, EdgeType):
        missing = [end for end in _ENDS if end not in assigned] + missing
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        text = f"insert of `{owner.name}` omits the required {names}"
        scope.fail("T12", text, statement.type.span)
    return ir.Insert("edge" if isinstance(owner, EdgeType) else "node", owner.name, assignments)


def _is_missing(prop: Property, assigned: set[str]) -> bool:
    if prop.type.nullable or prop.default is not None or prop.name in assigned:
        return False
    return prop.embed is None or prop.embed.source not in assigned


def _update(scope: Scope, statement: ast.Update) -> ir.Update:
    _check_assignments(scope, statement)
    owner = _target(scope, statement.type)
    if isinstance(owner, EdgeType):
        help_text = "delete the edge and insert it again"
        scope.fail("T16", f"`{owner.name}` is an edge type; only nodes can be updated", statement.type.span, help_text)
    _check_not_empty(scope, statement)
    assignments = []
    for assignment in statement.assignments:
        assignments.append(_assign(scope, owner, assignment))
        if assignment.property.text in (owner.key or ()):
            text = f"cannot update @key property `{assignment.property.text}` of `{owner.name}`"
            scope.fail(None, text, assignment.property.span, "ids are immutable: delete the node and insert a new one")
    return ir.Update(owner.name, tuple(assignments), _predicate(scope, owner, statement.predicate))


def _delete(scope: Scope, statement: ast.Delete) -> ir.Delete:
    owner = _target(scope, statement.type)
    compare = _predicate(scope, owner, statement.predicate)
    return ir.Delete("edge" if isinstance(owner, EdgeType) else "node", owner.name, compare)


def _predicate(scope: Scope, owner: NodeType | EdgeType, pred: ast.Predicate) -> ir.Compare:
    prop = _property(scope, owner, pred.property)
    if prop.type.is_blob:
        scope.fail("T11", f"the Blob property `{prop.name}` cannot be used in a predicate", pred.property.span)
    field = ir.PropertyRef("", prop.name, prop.type)
    key = _end(scope, owner, prop, pred.value) if pred.operator in ("=", "!=") else None
    if key is None:
        return predicate(scope, field, prop, pred)
    return ir.Compare(field, "=" if pred.operator == "=" else "!=", key)
