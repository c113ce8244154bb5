"""Ids of keyed nodes, made from whole columns at once.

The texts are those of `omnigraph_compiler.entity_id`, which makes one id at a time; a property test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import NodeType, PropType
from omnigraph_compiler.types import FLOATS
from omnigraph_compiler.values import canonical_text

# Below these, whole numbers are spelled with all their digits; above, the shortest text that reads back may end in zeros.
_EXACT = {"F32": 2**24, "F64": 2**53}
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def key_ids(node: NodeType, columns: Mapping[str, pa.Array]) -> pa.StringArray:
    """The ids of the rows; null where a member of the key is null."""
    if node.key is None:
        raise ValueError(f"`{node.name}` has no key")
    texts = [canonical_texts(node.properties[name].type, columns[name]) for name in node.key]
    if len(texts) == 1:
        return texts[0]
    quoted = [_quoted(text) for text in texts]
    members = pc.binary_join_element_wise(*quoted, ",")
    return pc.binary_join_element_wise("[", members, "]", "")


def key_id(node: NodeType, stored: Mapping[str, Any]) -> str:
    """The id of one row, from values as they are stored."""
    texts = [canonical_text(node.properties[name].type, stored[name]) for name in node.key or ()]
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def canonical_texts(type_: PropType, values: pa.Array) -> pa.StringArray:
    """The texts that ids have for the values of a column."""
    scalar = type_.scalar
    if scalar == "Date":
        values = values.cast(pa.int32())
    elif scalar == "DateTime":
        values = values.cast(pa.int64())
    if scalar not in FLOATS:
        return values.cast(pa.string())
    simple = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), _EXACT[scalar]))
    whole = pc.if_else(simple, values, None).cast(pa.int64()).cast(pa.string())
    return _by_hand(whole, values, pc.invert(simple), lambda value: canonical_text(type_, value))


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    """JSON strings, escaped as little as possible."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    return _by_hand(
        plain, texts, pc.match_substring_regex(texts, _NEEDS_ESCAPE), lambda text: json.dumps(text, ensure_ascii=False)
    )


def _by_hand(result: pa.Array, values: pa.Array, chosen: pa.BooleanArray, spell: Callable[[Any], str]) -> pa.Array:
    """The result with the chosen rows replaced by what `spell` makes of their values."""
    chosen = chosen.fill_null(False)
    if not pc.any(chosen).as_py():
        return result
    spelled = [spell(value) for value in values.filter(chosen).to_pylist()]
    return pc.replace_with_mask(result, chosen, pa.array(spelled, pa.string()))
