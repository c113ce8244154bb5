"""The formatter of schemas."""

from __future__ import annotations

from omnigraph_compiler.arguments import checked
from omnigraph_compiler.format.printer import Printer
from omnigraph_compiler.schema import ast
from omnigraph_compiler.schema.constraints import CONSTRAINTS
from omnigraph_compiler.schema.parse import parse_schema


@checked(text=str)
def format_schema(text: str) -> str:
    """Format a `.pg` text: same meaning, same comments, one layout. Raises `CompileError` on a parse error.

    >>> print(format_schema("node  Port{code:String@key}  // a port"), end="")
    node Port {
      code: String @key
    } // a port
    """
    schema = parse_schema(text)
    printer = Printer(text)
    previous: ast.Declaration | None = None
    for declaration in schema.declarations:
        if not (_is_plain_edge(previous) and _is_plain_edge(declaration)):
            printer.blank()
        _declaration(printer, text, declaration)
        previous = declaration
    return printer.result()


def _is_plain_edge(declaration: ast.Declaration | None) -> bool:
    """True for an edge without a body: no blank line separates two of them."""
    return isinstance(declaration, ast.Edge) and (declaration.body is None or not declaration.body.members)


def _declaration(printer: Printer, source: str, declaration: ast.Declaration) -> None:
    head = _header(source, declaration)
    body = declaration.body
    empty = body is None or (not body.members and not printer.has_comment(*body.span))
    if body is None or empty:
        printer.line(head if isinstance(declaration, ast.Edge) else f"{head} {{}}", *declaration.span)
        return
    printer.open(f"{head} {{", declaration.span[0], body.span[0] + 1)
    for first, rest in _member_lines(body):
        parts = [_property(first) if isinstance(first, ast.Property) else _decoration(source, first)]
        parts += [_decoration(source, decoration) for decoration in rest]
        end = rest[-1].span[1] if rest else first.span[1]
        printer.line(" ".join(parts), first.span[0], end)
    printer.close("}", body.span[1] - 1, body.span[1])


def _header(source: str, declaration: ast.Declaration) -> str:
    name = declaration.name.text
    if isinstance(declaration, ast.Interface):
        return f"interface {name}"
    decorations = [_decoration(source, decoration) for decoration in declaration.decorations]
    if isinstance(declaration, ast.Edge):
        return " ".join([f"edge {name}: {declaration.source.text} -> {declaration.target.text}", *decorations])
    implements = ", ".join(interface.text for interface in declaration.implements)
    return " ".join([f"node {name}", *decorations, *([f"implements {implements}"] if implements else [])])


def _member_lines(body: ast.Body) -> list[tuple[ast.Member, list[ast.Decoration]]]:
    """Group the members into lines: a property with its annotations, or a constraint."""
    lines: list[tuple[ast.Member, list[ast.Decoration]]] = []
    for member in body.members:
        constraint = isinstance(member, ast.Decoration) and member.name in CONSTRAINTS and member.arguments is not None
        if isinstance(member, ast.Property) or constraint or not lines:
            lines.append((member, []))
        else:
            lines[-1][1].append(member)
    return lines


def _property(prop: ast.Property) -> str:
    type_ = prop.type.type
    shown = type_.display
    if prop.type.enum_source is not None:
        shown = f"enum({', '.join(prop.type.enum_source)})" + ("?" if type_.nullable else "")
    return f"{prop.name.text}: {shown}"


def _decoration(source: str, decoration: ast.Decoration) -> str:
    if decoration.arguments is None:
        return f"@{decoration.name}"
    return f"@{decoration.name}({', '.join(_argument(source, argument) for argument in decoration.arguments)})"


def _argument(source: str, argument: ast.Argument) -> str:
    match argument:
        case ast.Word():
            return argument.text
        case ast.Keyword():
            return f"{argument.name}={_literal(source, argument.value)}"
        case ast.Range():
            low = "" if argument.low is None else _literal(source, argument.low)
            high = "" if argument.high is None else _literal(source, argument.high)
            return f"{low}..{high}"
        case ast.Literal():
            return _literal(source, argument)


def _literal(source: str, literal: ast.Literal) -> str:
    written = source[slice(*literal.span)]
    if not written.startswith("-"):
        return written
    # Only spaces and comments can separate the sign from the digits, and digits end the token.
    return "-" + written[len(written.rstrip("0123456789.")) :]
