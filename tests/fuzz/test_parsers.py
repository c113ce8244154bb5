"""Texts, bytes and parameters that nobody meant to write."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph_compiler import bind_params, compile_query, decode_source
from tests.fuzz.doors import CATALOG, QUERY_DOORS, SCHEMA, SCHEMA_DOORS, enter, enter_all, rejection
from tests.property.laws import law
from tests.property.layout import layouts
from tests.property.model import schema_tokens
from tests.property.mutations import TOKENS, damaged_text, damaged_tokens
from tests.property.query_model import query_tokens
from tests.property.query_strategies import files
from tests.property.strategies import schema_texts

QUERIES = """
query deep($least: F64, $words: [String]?) @description("deep ports") {
  match {
    $p: Port { kind: "sea", tags: "fast" }
    $p $w: lane $q // one row per lane
    $p <lane>{1,3} $r
    not { $q lane{1,2} $_  $q.depth > $least }
    search($p.title, "quay") $q.opened >= date("2024-05-01") $p.seen < now()
  }
  return { $p.code as code, count($w.nm) as n  $p }
  order { n desc, code }
  limit 10
}
query ranked($text: String) {
  match { $p: Port } return { $p } order { rrf(nearest($p.v, [0.5, 1]), bm25($p.title, $text), 60) } limit 3
}
query add($code: String) { insert Port { code: $code title: "x", kind: "sea" } insert Lane { from: $code to: "B" } }
query change($d: F64?) { update Port set { depth: $d } where code = "A" }
query drop() { delete Lane where nm >= 5 delete Ship where crew != 0 }
"""


def test_the_sample_texts_are_valid() -> None:
    for door in SCHEMA_DOORS.values():
        assert enter(door, SCHEMA) is None
    for name in ("compile_queries", "format_queries"):
        assert enter(QUERY_DOORS[name], QUERIES) is None


# Texts -----------------------------------------------------------------------------------------------------------

_noise = st.text(st.characters() | st.sampled_from("{}()[]<>$@:,.?=-\"\\/*' \n\r\t_aAzZ09"), max_size=60)
_soup = st.lists(st.sampled_from(TOKENS), max_size=40).flatmap(
    lambda tokens: st.sampled_from([" ", "", "\n", "\r\n"]).map(lambda gap: gap.join(tokens))
)


@law(_noise, quick=300, long=5_000)
def test_noise(text: str) -> None:
    enter_all(text)


@law(_soup, quick=300, long=5_000)
def test_a_soup_of_tokens(text: str) -> None:
    enter_all(text)


@law(st.sampled_from([SCHEMA, QUERIES]).flatmap(damaged_text), quick=300, long=10_000)
def test_a_damaged_sample(text: str) -> None:
    enter_all(text)


@st.composite
def damaged_schema_tokens(draw: DrawFn) -> str:
    case = draw(schema_texts)
    return draw(layouts).write(draw(damaged_tokens(schema_tokens(case.schema, case.spelling))))


@law(damaged_schema_tokens(), quick=150, long=4_000)
def test_a_damaged_schema(text: str) -> None:
    enter_all(text)


@st.composite
def damaged_query_tokens(draw: DrawFn) -> str:
    case = draw(files(most=1))
    tokens = [token for query in case.queries for token in query_tokens(query, case.spelling)]
    return case.layout.write(draw(damaged_tokens(tokens)))


@law(damaged_query_tokens(), quick=150, long=4_000)
def test_a_damaged_query_meets_a_schema_it_was_not_written_for(text: str) -> None:
    enter_all(text)


# Bytes -----------------------------------------------------------------------------------------------------------


@st.composite
def damaged_bytes(draw: DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from([SCHEMA, QUERIES, "", "é", "港\r\n🚢"])).encode())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff"])) + bytes(data)


@law(st.binary(max_size=80) | damaged_bytes(), quick=500, long=10_000)
def test_bytes(data: bytes) -> None:
    error = rejection(lambda: decode_source(data))
    if error is None:
        text = decode_source(data)
        assert text.encode("utf-8") == data
        enter_all(text)
        return
    assert error.error_class == "parse"
    assert error.span is not None
    assert 0 <= error.span.start < error.span.end <= len(data)
    assert error.diagnostic.render("a.gq")
    with pytest.raises(UnicodeDecodeError):
        data.decode("utf-8")


# Parameters ------------------------------------------------------------------------------------------------------

SCALARS = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
PARAM_TYPES = [f"{base}{mark}" for base in (*SCALARS, *(f"[{s}]" for s in SCALARS), "Vector(2)") for mark in ("", "?")]
PARAMS = [f"p{number}" for number in range(len(PARAM_TYPES))]
_declared = ", ".join(f"${name}: {type_}" for name, type_ in zip(PARAMS, PARAM_TYPES, strict=True))
EVERY_PARAM = compile_query(CATALOG, f"query q({_declared}) {{ match {{ $x: Port }} return {{ $x }} }}")
ONE_PARAM = {
    type_: compile_query(CATALOG, f"query q($p: {type_}) {{ match {{ $x: Port }} return {{ $x }} }}")
    for type_ in PARAM_TYPES
}

_texts = st.text(max_size=8) | st.sampled_from(
    [
        *("2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "2024-2-9", "+2024-02-29"),
        *(
            "2024-02-29T23:59:59Z",
            "2024-02-29 23:59:59",
            "2024-05-01t12:00:60z",
            "2024-05-01T24:00:00Z",
            "2024-05-01T12:00Z",
        ),
        *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2024-05-01T12:00:00." + "123456789" * 50 + "Z"),
        *("12", "-0", "+5", " 1", "1_0", "0x10", "1e3", "1.0", "NaN", "\uff11", "\u0663", "\ud800", "\u2212" + "1", "--1"),
        *(
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "18446744073709551616",
            "0" * 30,
            "9" * 5_000,
        ),
    ]
)
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([10**400, -(10**400), 2**31, 2**32, 2**63, 2**64, -1, 0]),
    st.floats(),
    st.floats(width=32),
    _texts,
)
json_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
python_values = st.one_of(
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.binary(max_size=4),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.sampled_from([object(), range(3), {1, 2}, (1, 2.5), int, Decimal("NaN"), datetime.timedelta(1), b"", 1j]),
)


def check_binding(query: Any, given: Any) -> None:
    error = rejection(lambda: bind_params(query, given))
    if error is None:
        bound = bind_params(query, given)
        assert list(bound) == list(query.params)
        for name, type_ in query.params.items():
            assert type_.nullable or bound[name] is not None
        return
    assert error.error_class == "input"
    assert len(str(error)) < 1_000
    assert error.diagnostic.render()


@law(st.sampled_from(PARAM_TYPES), json_values | python_values, quick=1_000, long=20_000)
def test_a_parameter_with_any_value(type_: str, value: Any) -> None:
    check_binding(ONE_PARAM[type_], {"p": value, "other": value})


@law(st.dictionaries(st.sampled_from(PARAMS) | st.text(max_size=3), json_values, max_size=20), quick=150)
def test_parameters_with_any_values(given: dict[str, Any]) -> None:
    check_binding(EVERY_PARAM, given)
    check_binding(EVERY_PARAM, json.loads(json.dumps(given)))


@pytest.mark.parametrize("given", [None, [], "text", 3, {1: 2}, {None: 1}, {"p0": float("nan")}], ids=repr)
def test_parameters_that_are_no_object(given: Any) -> None:
    check_binding(EVERY_PARAM, given)
