"""Lower bounds for the sizes of the values of a statement, computed from its literals.

DuckDB allocates a value in one piece, which neither its memory limit nor an interruption stops. So the results of calls are
estimated before they run. The contents of columns and parameters are unknown here: such a text counts as one character.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

_WIDTH: Final = 8
"""The bytes of a number."""
_MOST: Final = float(1 << 62)
_JOINING: Final = frozenset(("||", "concat", "list_concat", "list_cat", "array_concat", "array_cat", "list_value"))
_KEEPING: Final = frozenset(("upper", "ucase", "lower", "lcase", "reverse", "coalesce", "ifnull", "list_reverse"))
"""Functions whose results are as large as their arguments."""
_COUNTING: Final = frozenset(("range", "generate_series"))
_PADDING: Final = frozenset(("lpad", "rpad"))
_RESIZING: Final = frozenset(("list_resize", "array_resize"))

Node = Mapping[str, Any]


def largest_value(nodes: Sequence[Node]) -> int:
    """Return the bytes of the largest value that a tree computes from literals. Nodes come in pre-order."""
    streamed = {id(node["function"]) for node in nodes if node.get("type") == "TABLE_FUNCTION"}
    sizes: dict[int, float] = {}
    numbers: dict[int, float] = {}
    largest = 0.0
    for node in reversed(nodes):  # post-order without recursion: the depth of a tree is not limited
        _measure(node, sizes, numbers)
        if node.get("class") == "FUNCTION" and id(node) not in streamed:
            largest = max(largest, sizes[id(node)])
    return int(largest)


def _measure(node: Node, sizes: dict[int, float], numbers: dict[int, float]) -> None:
    """Store the size of a value and, if it is a constant number, the number."""
    match node.get("class"):
        case "CONSTANT":
            literal = node.get("literal") or {}
            text = str(literal.get("text", ""))
            if literal.get("kind") == "STRING":
                sizes[id(node)] = len(text.encode())
            elif (number := _number(text)) is not None:
                sizes[id(node)], numbers[id(node)] = _WIDTH, number
        case "CAST":
            child = id(node.get("child"))
            sizes[id(node)] = sizes.get(child, 1)
            if child in numbers:
                numbers[id(node)] = numbers[child]
        case "FUNCTION":
            operands = [operand["expression"] for operand in node["arguments"]]
            known = [numbers.get(id(operand)) for operand in operands]
            name = str(node["function_name"]).lower()
            sizes[id(node)] = min(_MOST, _made(name, [sizes.get(id(operand), 1) for operand in operands], known))
            if name in ("*", "+") and len(known) == 2 and known[0] is not None and known[1] is not None:
                number = known[0] * known[1] if name == "*" else known[0] + known[1]
                numbers[id(node)] = max(-_MOST, min(_MOST, number))


def _made(name: str, sizes: list[float], known: list[float | None]) -> float:
    """Return the bytes of the result of a function."""
    count = known[1] if len(known) > 1 else None
    if name in _JOINING:
        return sum(sizes)
    if name in _KEEPING:
        return max(sizes, default=1)
    if name in _COUNTING:
        return _WIDTH * _steps(known)
    if name == "replace" and len(sizes) == 3:
        return sizes[0] * max(1.0, sizes[2] / max(1.0, sizes[1]))
    if count is None:
        return 1
    if name == "repeat":
        return sizes[0] * max(0.0, count)
    if name in _PADDING:
        return max(0.0, count)
    return _WIDTH * max(0.0, count) if name in _RESIZING else 1


def _steps(known: list[float | None]) -> float:
    """Return the length of a range of numbers."""
    if not known or any(number is None for number in known):
        return 1
    numbers = [number for number in known if number is not None]
    start, stop = (0.0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) > 2 else 1.0
    return max(0.0, (stop - start) / step) if step else 1


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else max(-_MOST, min(_MOST, number))
