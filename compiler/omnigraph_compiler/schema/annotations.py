"""Checks of annotations on types and properties."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_compiler.diagnostics import Reporter, clip, did_you_mean
from omnigraph_compiler.schema import ast
from omnigraph_compiler.schema.catalog import Annotation, Embed
from omnigraph_compiler.types import PropType
from omnigraph_compiler.values import fit_literal

MARKS = ("key", "unique", "index")
METRICS = ("l2", "cosine", "dot")
_ONCE = ("key", "unique", "index", "embed", "description", "instruction", "rename_from", "metric", "default")


@dataclass(frozen=True, slots=True)
class Decorations:
    """The checked decorations of one target."""

    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None
    marks: tuple[tuple[str, ast.At], ...] = ()
    """`@key`, `@unique`, `@index` without parentheses, with their spans."""
    embed: tuple[Embed, ast.At] | None = None
    metric: str | None = None
    default: tuple[ast.LiteralValue, ast.At] | None = None


def check_header(report: Reporter, owner: str, name: str, decorations: tuple[ast.Decoration, ...]) -> Decorations:
    """Check the decorations of a node or edge header; `owner` is the word "node" or "edge"."""
    _check_repeats(report, f"{owner} `{name}`", decorations)
    annotations: list[Annotation] = []
    rename_from = None
    for decoration in decorations:
        if decoration.name in (*MARKS, "embed"):
            text = "is only supported on node properties" if owner == "node" else "is not supported on edges"
            report.fail(
                "parse",
                f"@{decoration.name} {text}, found on {owner} `{name}`",
                decoration.span,
                help="write it after a property, or as a constraint inside the body",
            )
        if decoration.name in ("metric", "default"):
            report.fail("parse", f"@{decoration.name} belongs to a property, found on {owner} `{name}`", decoration.span)
        if decoration.name == "rename_from":
            rename_from = _rename(report, decoration)
        else:
            annotations.append(_annotation(report, decoration))
    return Decorations(_sorted(annotations), rename_from)


def check_property(report: Reporter, owner: str, prop: ast.Property, decorations: tuple[ast.Decoration, ...]) -> Decorations:
    """Check the decorations of one property; `owner` is "interface", "node" or "edge"."""
    name, type_ = prop.name.text, prop.type.type
    _check_repeats(report, f"property `{name}`", decorations)
    annotations: list[Annotation] = []
    marks: list[tuple[str, ast.At]] = []
    rename_from = embed = metric = default = None
    for decoration in decorations:
        word = decoration.name
        if owner == "edge" and word in ("key", "embed"):
            report.fail("parse", f"@{word} is not supported on edge properties, found on `{name}`", decoration.span)
        if word in MARKS:
            marks.append((word, decoration.span))
        elif word == "instruction":
            text = f"@instruction is only supported on node and edge types, found on property `{name}`"
            report.fail("parse", text, decoration.span, help="use @description on properties")
        elif word == "rename_from":
            rename_from = _rename(report, decoration)
        elif word == "embed":
            embed = (_embed(report, decoration, type_), decoration.span)
        elif word == "metric":
            metric = _metric(report, decoration, name, type_)
        elif word == "default":
            default = (_default(report, decoration, name, type_), decoration.span)
        else:
            annotations.append(_annotation(report, decoration))
    if metric is None and type_.is_vector:
        metric = METRICS[0]
    return Decorations(_sorted(annotations), rename_from, tuple(marks), embed, metric, default)


def _check_repeats(report: Reporter, target: str, decorations: tuple[ast.Decoration, ...]) -> None:
    seen: set[str] = set()
    for decoration in decorations:
        if decoration.name in seen and decoration.name in _ONCE:
            report.fail("parse", f"@{decoration.name} is given multiple times on {target}", decoration.span)
        seen.add(decoration.name)


def _sorted(annotations: list[Annotation]) -> tuple[Annotation, ...]:
    return tuple(sorted(annotations, key=lambda annotation: (annotation.name, repr(annotation.value), annotation.keywords)))


def _split(report: Reporter, decoration: ast.Decoration) -> tuple[list[ast.Word | ast.Literal], dict[str, ast.Literal]]:
    """Return the positional arguments (the grammar allows one, in first place) and the keyword arguments."""
    positional: list[ast.Word | ast.Literal] = []
    keywords: dict[str, ast.Literal] = {}
    for argument in decoration.arguments or ():
        if isinstance(argument, ast.Keyword):
            if argument.name in keywords:
                report.fail("parse", f"`{argument.name}` is given multiple times in @{decoration.name}", argument.span)
            keywords[argument.name] = argument.value
        elif isinstance(argument, ast.Range):
            report.fail("parse", f"@{decoration.name} takes a literal, found a range", argument.span)
        else:
            positional.append(argument)
    return positional, keywords


def _value(argument: ast.Word | ast.Literal) -> ast.LiteralValue:
    return argument.text if isinstance(argument, ast.Word) else argument.value


def _annotation(report: Reporter, decoration: ast.Decoration) -> Annotation:
    positional, keywords = _split(report, decoration)
    name = decoration.name
    if name in ("description", "instruction"):
        value = positional[0].value if len(positional) == 1 and isinstance(positional[0], ast.Literal) else None
        if not isinstance(value, str) or not value.strip() or keywords:
            report.fail("parse", f"@{name} takes one non-empty string", decoration.span, help=f'write @{name}("…")')
        return Annotation(name, value)
    if decoration.arguments is not None and (len(positional) != 1 or isinstance(decoration.arguments[0], ast.Keyword)):
        report.fail(
            "parse",
            f"@{name} takes one value first and then name=value pairs",
            decoration.span,
            help=f'write @{name}, @{name}("value") or @{name}("value", name="other")',
        )
    value = _value(positional[0]) if positional else None
    return Annotation(name, value, tuple(sorted((word, literal.value) for word, literal in keywords.items())))


def _rename(report: Reporter, decoration: ast.Decoration) -> str:
    positional, keywords = _split(report, decoration)
    value = _value(positional[0]) if len(positional) == 1 else None
    if not isinstance(value, str) or not value.strip() or keywords:
        report.fail("parse", "@rename_from takes one non-empty name", decoration.span, help='write @rename_from("OldName")')
    return value


def _embed(report: Reporter, decoration: ast.Decoration, type_: PropType) -> Embed:
    positional, keywords = _split(report, decoration)
    for word, literal in keywords.items():
        if word != "model":
            report.fail("parse", f"@embed does not take `{word}`: only 'model' is supported", literal.span)
        if not isinstance(literal.value, str) or not literal.value.strip():
            report.fail("parse", "the model of @embed is a non-empty string", literal.span)
    source = _value(positional[0]) if len(positional) == 1 else None
    if not isinstance(source, str) or not source:
        report.fail(
            "parse",
            "@embed needs the source property whose text is embedded",
            decoration.span,
            help='write @embed("title")',
        )
    if not type_.is_vector:
        report.fail("parse", f"@embed is only supported on vector properties, not on {type_}", decoration.span)
    model = keywords.get("model")
    return Embed(source, None if model is None else str(model.value))


def _metric(report: Reporter, decoration: ast.Decoration, name: str, type_: PropType) -> str:
    positional, keywords = _split(report, decoration)
    if not type_.is_vector:
        report.fail("parse", f"@metric belongs to a Vector property, `{name}` is {type_}", decoration.span)
    value = positional[0].value if len(positional) == 1 and isinstance(positional[0], ast.Literal) else None
    if value not in METRICS or keywords:
        actual = f", found `{clip(str(_value(positional[0])))}`" if positional else ""
        quoted = ", ".join(f'"{metric}"' for metric in METRICS)
        report.fail("parse", f"@metric takes one of {quoted}{actual}", decoration.span)
    return str(value)


def _default(report: Reporter, decoration: ast.Decoration, name: str, type_: PropType) -> ast.LiteralValue:
    if type_.is_list or type_.is_vector or type_.is_blob:
        report.fail("parse", f"@default is for scalar properties, `{name}` is {type_}", decoration.span)
    positional, keywords = _split(report, decoration)
    if len(positional) != 1 or keywords or not isinstance(positional[0], ast.Literal):
        word = positional[0].text if len(positional) == 1 and isinstance(positional[0], ast.Word) else None
        if word == "null":
            hint: str | None = "leave @default out: a property that is not mentioned is null"
        else:
            hint = f'write strings and enum values in quotes: @default("{word}")' if word else None
        report.fail(
            "parse",
            f"@default of `{name}` takes exactly one literal",
            decoration.span,
            help=hint,
        )
    literal = positional[0]
    complaint = fit_literal(literal.value, type_)
    if complaint is not None:
        help_text = did_you_mean(literal.value, type_.enum_values or ()) if isinstance(literal.value, str) else None
        report.fail("parse", f"the default of `{name}` does not fit {type_}: {complaint}", literal.span, help=help_text)
    return literal.value
