"""Constraints: normalisation, and checks of the properties they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import NoReturn

from omnigraph_compiler.diagnostics import Reporter, clip, did_you_mean
from omnigraph_compiler.schema import ast
from omnigraph_compiler.schema.annotations import MARKS
from omnigraph_compiler.schema.catalog import CheckConstraint, Columns, RangeConstraint
from omnigraph_compiler.schema.regex import PatternError, check_pattern
from omnigraph_compiler.types import PropType

CONSTRAINTS = (*MARKS, "range", "check")
_EDGE_COLUMNS = ("src", "dst")


@dataclass(slots=True)
class ConstraintSet:
    """Collects the constraints of one type; duplicates are dropped."""

    report: Reporter
    owner: str
    """The word "interface", "node" or "edge"."""
    type_name: str
    properties: Mapping[str, PropType]
    _: KW_ONLY
    key: Columns | None = None
    unique: set[Columns] = field(default_factory=set)
    index: set[Columns] = field(default_factory=set)
    ranges: set[RangeConstraint] = field(default_factory=set)
    checks: set[CheckConstraint] = field(default_factory=set)

    def add_mark(self, kind: str, name: str, at: ast.At) -> None:
        """Add a property-level `@key`, `@unique` or `@index`."""
        type_ = self.properties[name]
        if kind == "index" and type_.is_list:
            self._fail(f"@index cannot stand on the list property `{name}`", at)
        self._add_columns(kind, (name,), at, {name: at})

    def add_body(self, decoration: ast.Decoration) -> None:
        """Add a body-level constraint."""
        kind = decoration.name
        if self.owner == "edge" and kind in ("key", "range", "check"):
            self._fail(
                f"@{kind} is not supported on edges, found on edge `{self.type_name}`",
                decoration.span,
                "edges take @unique and @index in their body and @card in their header",
            )
        if kind == "range":
            self._add_range(decoration)
        elif kind == "check":
            self._add_check(decoration)
        else:
            words = [self._word(decoration, argument) for argument in decoration.arguments or ()]
            if not words:
                self._fail(f"@{kind}() needs at least one property name", decoration.span)
            places = {word.text: word.span for word in words}
            self._add_columns(kind, tuple(sorted(places)), decoration.span, places)

    def sorted_unique(self) -> tuple[Columns, ...]:
        return tuple(sorted(self.unique))

    def sorted_index(self) -> tuple[Columns, ...]:
        """Return the declared indexes and the one that a key implies."""
        implied = set() if self.key is None else {self.key}
        return tuple(sorted(self.index | implied))

    def sorted_ranges(self) -> tuple[RangeConstraint, ...]:
        return tuple(sorted(self.ranges, key=RangeConstraint.display))

    def sorted_checks(self) -> tuple[CheckConstraint, ...]:
        return tuple(sorted(self.checks, key=CheckConstraint.display))

    def _fail(self, text: str, at: ast.At, help: str | None = None) -> NoReturn:
        self.report.fail("parse", text, at, help=help)

    def _word(self, decoration: ast.Decoration, argument: ast.Argument) -> ast.Word:
        if not isinstance(argument, ast.Word):
            unquoted = argument.value if isinstance(argument, ast.Literal) and isinstance(argument.value, str) else None
            help_text = f"write it without quotes: @{decoration.name}({clip(unquoted)})" if unquoted else None
            self.report.fail("parse", f"@{decoration.name} takes a property name", argument.span, help=help_text)
        return argument

    def _lookup(self, kind: str, name: str, at: ast.At) -> PropType:
        type_ = self.properties.get(name)
        if type_ is None:
            help_text = did_you_mean(name, self.properties)
            self.report.fail(
                "parse", f"@{kind} names `{clip(name)}`, which is no property of `{self.type_name}`", at, help=help_text
            )
        return type_

    def _add_columns(self, kind: str, columns: Columns, at: ast.At, places: Mapping[str, ast.At]) -> None:
        for name in columns:
            if self.owner == "edge" and name in _EDGE_COLUMNS:
                continue
            type_ = self._lookup(kind, name, places[name])
            if type_.is_blob:
                self._fail(f"@{kind} cannot stand on the blob property `{name}` of `{self.type_name}`", places[name])
            if kind != "index" and type_.is_list:
                self._fail(f"@{kind} cannot stand on the list property `{name}` of `{self.type_name}`", places[name])
            if kind != "index" and type_.is_vector:
                self._fail(f"@{kind} cannot stand on the vector property `{name}` of `{self.type_name}`", places[name])
            if kind == "key" and type_.nullable:
                self._fail(
                    f"the @key property `{name}` of `{self.type_name}` cannot be nullable",
                    places[name],
                    f"declare it `{name}: {type_.as_nullable(False)}`",
                )
        if kind == "key":
            self._set_key(columns, at)
        else:
            (self.unique if kind == "unique" else self.index).add(columns)

    def _set_key(self, columns: Columns, at: ast.At) -> None:
        if self.key is not None:
            self._fail(
                f"`{self.type_name}` has multiple @key constraints",
                at,
                "a key of several properties is written once, in the body: @key(a, b)",
            )
        self.key = columns

    def _arguments(self, decoration: ast.Decoration, shape: str) -> tuple[ast.Word, ast.Argument]:
        arguments = decoration.arguments or ()
        if arguments:
            self._word(decoration, arguments[0])
        if len(arguments) != 2:
            self._fail(f"@{decoration.name} takes two arguments, a property name and {shape}", decoration.span)
        return self._word(decoration, arguments[0]), arguments[1]

    def _add_range(self, decoration: ast.Decoration) -> None:
        word, bounds = self._arguments(decoration, "a range such as `0..100`")
        type_ = self._lookup("range", word.text, word.span)
        if not type_.is_numeric:
            self._fail(f"@range needs a numeric property, `{self.type_name}.{word.text}` is {type_}", word.span)
        if not isinstance(bounds, ast.Range):
            self.report.fail("parse", "@range takes a range such as `0..100`, `0..` or `..100`", bounds.span)
        low, high = _number(bounds.low), _number(bounds.high)
        if low is not None and high is not None and low > high:
            self._fail(f"the lower bound {low} of @range is above the upper bound {high}", bounds.span)
        self.ranges.add(RangeConstraint(word.text, low, high))

    def _add_check(self, decoration: ast.Decoration) -> None:
        word, pattern = self._arguments(decoration, "a pattern in quotes")
        type_ = self._lookup("check", word.text, word.span)
        if not type_.is_string or type_.enum_values is not None:
            self._fail(f"@check needs a String property, `{self.type_name}.{word.text}` is {type_}", word.span)
        if not isinstance(pattern, ast.Literal) or not isinstance(pattern.value, str):
            self.report.fail("parse", "@check takes its pattern as a string", pattern.span)
        try:
            check_pattern(pattern.value)
        except PatternError as error:
            self._fail(
                f"the @check pattern {clip(pattern.value)} does not compile: {error.text} at character {error.offset + 1}",
                pattern.span,
                "patterns are RE2 regular expressions: no look-around, no back-references",
            )
        self.checks.add(CheckConstraint(word.text, pattern.value))


def _number(literal: ast.Literal | None) -> int | float | None:
    if literal is None or isinstance(literal.value, str):
        return None
    return literal.value
