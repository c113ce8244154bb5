"""The compiler's own check of `@check` patterns against RE2, which will evaluate them."""

from __future__ import annotations

import string

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

from omnigraph_compiler import CompileError, compile_schema
from omnigraph_compiler.schema.regex import PatternError, check_pattern
from tests.property.laws import law
from tests.property.layout import string_token

# Limits on size and depth are estimates that stay on the safe side of RE2's own.
LIMITS = ("too large", "nested too deep")


def complaint(pattern: str) -> PatternError | None:
    try:
        check_pattern(pattern)
    except PatternError as error:
        return error
    return None


def re2_accepts(pattern: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return True


def check_agreement(pattern: str) -> None:
    error = complaint(pattern)
    if error is None:
        assert re2_accepts(pattern), "we accept what RE2 refuses"
        return
    assert 0 <= error.offset <= len(pattern)
    if not any(limit in error.text for limit in LIMITS):
        assert not re2_accepts(pattern), f"RE2 accepts what we refuse: {error.text}"


# Patterns --------------------------------------------------------------------------------------------------------


def words(*lines: str) -> st.SearchStrategy[str]:
    """One of the words of some lines."""
    return st.sampled_from([word for line in lines for word in line.split()])


_literals = st.one_of(words("a Z 0 _ é 港 🚢 - / \" ' , : < = # & ~"), st.sampled_from([" ", "\n", "\t"]))
_escapes = words(
    r"\d \D \s \S \w \W \b \B \A \z \Z \C \a \f \t \n \r \v \e \c \0 \1 \8 \07 \077 \123 \400 \777 \x41 \xg \x{41}",
    r"\x{10ffff} \x{110000} \x{} \pL \PL \pN \p{Lu} \p{^Lu} \P{Greek} \p{Latin} \p{Nope} \pZ \pX \p{} \p{Any}",
    r"\Qa+\E \Q \E \Q\E \\ \. \* \( \[ \] \{ \} \- \/ \" \é \_ \< \h \R \X \G \k<n> \g1 \u0041 \N",
)
_ranges = words(
    r"a-z A-Z 0-9 z-a a-a \d-z a-\d - -a a- \x00-\x7f \n-\r [:alpha:] [:^digit:] [:nope:] [:alpha [.a.] \pL \p{Greek} \Q",
    r"] [ ^ & && \b \] \\ \- é-ü é-a . * \E \1 \101-\103 \C",
)
_classes = st.builds(
    lambda sign, parts, end: f"[{sign}{''.join(parts)}{end}",
    st.sampled_from(["", "", "^", "^^"]),
    st.lists(_ranges, max_size=4),
    st.sampled_from(["]", "]", "]", ""]),
)
_openings = words(
    "( ( ( (?: (?i: (?s: (?im-s: (?-i: (?U: (?x: (?P<n> (?P<n_1> (?<m> (?P<> (?P<1> (?P<é> (?P<a-b> (?= (?! (?<= (?<! (?#",
    "(?> (?| (?P=n) (?P>n) (?i (? (?i-: (?-: (?: (?ii: (?i-m-s: (?^: (*",
)
_flags = words("(?i) (?s) (?m-i) (?U) (?x) (?i-) (?) (?-) (?P) (?is-mU)")
_repeats = words(
    "* + ? *? +? ?? {2} {2,} {2,3} {0} {0,0} {1000} {1001} {3,2} {,3} {2}? {} {a} {2 ** *+ ++ ?+ {2}{3} {999,1000} {01}",
    "{00,2} {1,1001} {1,02} {100000000} {1000000000} {10000000000} {2,1000000000}",
)
_atoms = st.one_of(_literals, _escapes, _classes, _flags, words(". ^ $ | || ) ] } { {} \\"))
patterns = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.tuples(inner, _repeats).map("".join),
        st.builds("{}{}{}".format, _openings, inner, st.sampled_from([")", ")", ")", ""])),
        st.tuples(inner, inner).map("|".join),
    ),
    max_leaves=8,
)
_noise = st.text(r"ab01(){}[]<>*+?|^$.\-:=!,PQEdwpxzAUim ", max_size=14)


@law(patterns, quick=1_500, long=30_000)
def test_we_agree_with_re2_on_patterns(pattern: str) -> None:
    check_agreement(pattern)


@law(_noise, quick=1_500, long=30_000)
def test_we_agree_with_re2_on_noise(pattern: str) -> None:
    check_agreement(pattern)


@pytest.mark.parametrize("pattern", ["[[:0:]", "[[:alpha[:alpha:]]", "[[:^:]]", "[[:al\npha:]]", "[[:alpha:]]", "[[:alpha]"])
def test_we_agree_with_re2_on_named_classes(pattern: str) -> None:
    check_agreement(pattern)


SCRIPTS = (
    "Adlam Ahom Arabic Armenian Avestan Bamum Bengali Bopomofo Brahmi Buhid Canadian_Aboriginal Carian Chakma Cham Cherokee",
    "Common Coptic Cuneiform Cyrillic Deseret Devanagari Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati",
    "Gurmukhi Han Hangul Hebrew Hiragana Imperial_Aramaic Inherited Javanese Kaithi Kannada Katakana Kayah_Li Khmer Lao",
    "Latin Lepcha Limbu Linear_B Lisu Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham",
    "Ol_Chiki Old_Hungarian Old_Persian Old_Turkic Oriya Osage Osmanya Phags_Pa Phoenician Rejang Runic Samaritan",
    "Saurashtra Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Tangut Telugu",
    "Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic Vai Wancho Yezidi Yi Zanabazar_Square Klingon",
)


def test_we_know_the_scripts_and_categories_that_re2_knows() -> None:
    names = [name for line in SCRIPTS for name in line.split()]
    names += [first + second for first in string.ascii_uppercase for second in ("", *string.ascii_lowercase)]
    differing = [name for name in names if re2_accepts(rf"\p{{{name}}}") != (complaint(rf"\p{{{name}}}") is None)]

    assert differing == []


@law(patterns, quick=200)
def test_a_schema_takes_the_patterns_that_compile(pattern: str) -> None:
    text = f"node T {{ p: String @check(p, {string_token(pattern)}) }}"
    if complaint(pattern) is None:
        assert compile_schema(text).nodes["T"].checks[0].pattern == pattern
    else:
        with pytest.raises(CompileError, match="does not compile") as caught:
            compile_schema(text)
        assert caught.value.error_class == "parse"


@pytest.mark.parametrize(
    "pattern",
    [
        "(((a{30}){30}){30})",
        "(a{1000}){1000}",
        "((((((a{10}){10}){10}){10}){10}){10})",
        r"(\pL{100}){10}",
        r"[\pL\pN\p{Greek}]{1000}",
        "(" * 99 + ")" * 99,
        "(" * 100_000,
        "(" * 5_000 + "a" + ")" * 5_000,
        "[" * 100_000,
        "a{1000}" * 1_000,
        "|" * 100_000,
        "a*" * 50_000,
        "(a|" * 200 + "b" + ")" * 200,
        "(?i)" * 20_000,
        "\\Q" + "(" * 100_000,
        "(?P<n" * 10_000,
        "x" * 1_000_000,
        "(a*)*" * 1_000,
        ".{0,1000}" * 50,
        "(?:" * 101 + ")" * 101,
    ],
    ids=lambda pattern: f"{pattern[:12]}…{len(pattern)}",
)
def test_a_heavy_pattern_is_judged_as_by_re2(pattern: str) -> None:
    check_agreement(pattern)
