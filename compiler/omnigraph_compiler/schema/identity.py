"""Entity ids: derived from key properties, the same way for every writer."""

from __future__ import annotations

import json
from collections.abc import Mapping

from omnigraph_compiler.schema.ast import LiteralValue
from omnigraph_compiler.schema.catalog import NodeType
from omnigraph_compiler.values import canonical_text


def entity_id(node: NodeType, values: Mapping[str, LiteralValue]) -> str | None:
    """The id of a keyed node from its stored key values, or None when the type has no key.

    Values are as stored: dates are days, instants milliseconds since the epoch. A single key is its canonical text, a
    composite one a JSON array of the members' texts in the order fixed when the type was created.
    """
    if node.key is None:
        return None
    texts = [canonical_text(node.properties[name].type, values[name]) for name in node.key]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
