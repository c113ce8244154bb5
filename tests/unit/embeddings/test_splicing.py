"""Members of a JSON object are changed in its text; nothing else moves."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_sql.embeddings.json_splice import with_members

NAMES = st.sampled_from(["a", "b", "data", 'quo"te', "back\\slash", "ключ", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
STYLES = st.fixed_dictionaries(
    {
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" , ", "\t: ")]),
        "indent": st.sampled_from([None, 1]),
        "ensure_ascii": st.booleans(),
    }
)


@given(
    record=st.dictionaries(NAMES, VALUES, max_size=4),
    data=st.dictionaries(NAMES, VALUES, max_size=4),
    changes=st.dictionaries(NAMES, st.none() | st.sampled_from(["[1.0,2.0]", '{"x": "}"}', "null"]), max_size=3),
    style=STYLES,
)
def test_the_outcome_is_the_changed_object(
    record: dict[str, Any], data: dict[str, Any], changes: dict[str, str | None], style: dict[str, Any]
) -> None:
    whole = {**record, "data": data}
    kept = {name: value for name, value in data.items() if name not in changes}
    changed = {name: json.loads(value) for name, value in changes.items() if value is not None}

    text = with_members(json.dumps(whole, **style), "data", changes)

    assert json.loads(text) == {**whole, "data": {**kept, **changed}}


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ('{"data":{}}', {"v": "[1]"}, '{"data":{"v": [1]}}'),
        ('{"data": { }, "x": 1}', {"v": "[1]"}, '{"data": {"v": [1] }, "x": 1}'),
        ('{"data":{"a":1e3}}', {"v": "[1]"}, '{"data":{"a":1e3,"v":[1]}}'),
        ('{"data": {"a": 1E+03}}', {"v": "[1]"}, '{"data": {"a": 1E+03, "v": [1]}}'),
        ('{"data": {"v" :null, "a": "\\u0041"}}', {"v": "[1]"}, '{"data": {"v" :[1], "a": "\\u0041"}}'),
        ('{"data": {"\\u0076": null}}', {"v": "[1]"}, '{"data": {"\\u0076": [1]}}'),
        ('{"data": {"v": 1, "a": 2, "w": 3}}', {"v": None, "w": None}, '{"data": {"a": 2}}'),
        ('{"data": { "v": 1 } }\r\n', {"v": None}, '{"data": { } }\r\n'),
        ('{"data": {"a": ' + "9" * 5000 + "}}", {"v": "[1]"}, '{"data": {"a": ' + "9" * 5000 + ', "v": [1]}}'),
        ('  {"data": {"a": 1}}', {"a": "2"}, '  {"data": {"a": 2}}'),
    ],
)
def test_everything_else_stays_as_it_was_written(text: str, changes: dict[str, str | None], expected: str) -> None:
    assert with_members(text, "data", changes) == expected
