"""Entity ids, which every writer derives from the key properties in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnigraph_compiler.arguments import checked
from omnigraph_compiler.diagnostics import CompileError, Diagnostic
from omnigraph_compiler.schema.catalog import NodeType
from omnigraph_compiler.values import canonical_text, stored_scalar


@checked(node=NodeType, data=Mapping)
def entity_id(node: NodeType, data: Mapping[str, Any]) -> str | None:
    """Return the id of a node from its properties as JSON values, or None if the type has no key.

    A single key is the canonical text of its value, a composite one a JSON array of the members' texts in the order fixed
    when the type was created. Raises `CompileError` of class `input` for a missing or unusable key value.

    >>> from omnigraph_compiler import compile_schema
    >>> berth = compile_schema("node Berth { port: String  number: I32  @key(port, number) }").nodes["Berth"]
    >>> entity_id(berth, {"port": "north", "number": 12})
    '["12","north"]'
    """
    if node.key is None:
        return None
    try:
        values = [(name, data.get(name)) for name in node.key]
    except Exception as error:
        raise CompileError(Diagnostic("input", f"`data` cannot be read: {type(error).__name__}")) from error
    texts = [_member(node, name, value) for name, value in values]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _member(node: NodeType, name: str, value: Any) -> str:
    type_ = node.properties[name].type
    if value is None:
        raise CompileError(Diagnostic("input", f"the @key property `{node.name}.{name}` cannot be null"))
    try:
        return canonical_text(type_, stored_scalar(type_, value))
    except ValueError as error:
        raise CompileError(Diagnostic("input", f"`{node.name}.{name}` is {type_}: {error}")) from None
