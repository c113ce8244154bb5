"""Syntax check for `@check` patterns.

RE2, a linear-time engine without look-around and back-references, evaluates the patterns. The compiler may not depend on
it, so this module accepts the patterns that RE2 accepts (tests compare the two) and explains the errors of the others. RE2
also rejects patterns whose program grows too large; the limit here is a conservative estimate of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_MAX_REPEAT = 1000
_MAX_NESTING = 100
_MAX_SIZE = 150_000
_PROPERTY_SIZE = 600
_CLASS_SIZE = 30
_PERL_CLASSES = "dDsSwW"
_SIMPLE_ESCAPES = "aftnrv"
_ASSERTIONS = "bBAz"
_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_REPEAT_DIGITS = 9  # a longer number does not make a repetition, nor does one with a leading zero
_FLAGS = re.compile(r"\(\?(?:[imsU]+(?:-[imsU]+)?|-[imsU]+)?([:)])")
_GROUP_NAME = re.compile(r"\(\?P?<([^>]*)>")
_POSIX = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_POSIX_NAMES = _words("alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit")
_CATEGORIES = _words(
    "Any C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPTS = _words(
    """
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
    Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common
    Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs
    Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Han Hangul
    Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki
    Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean
    Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi
    Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong
    Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian
    Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi
    Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese
    Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan
    Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
    """
)


class PatternError(ValueError):
    """A pattern that does not compile; `offset` counts characters of the pattern."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset


def check_pattern(pattern: str) -> None:
    """Raise `PatternError` unless RE2 would compile the pattern."""
    _Checker(pattern).run()


class _Part(NamedTuple):
    """A checked part of a pattern: its largest product of nested repetitions, and an estimate of its size."""

    repeats: int
    size: int


@dataclass(slots=True)
class _Checker:
    text: str
    at: int = 0
    depth: int = 0

    def run(self) -> None:
        self._alternatives()
        if self.at < len(self.text):
            raise PatternError("unexpected `)`", self.at)

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _alternatives(self) -> _Part:
        repeats, size = 1, 0
        while True:
            part = self._sequence()
            repeats, size = max(repeats, part.repeats), size + part.size
            if self._peek() != "|":
                return _Part(repeats, size)
            self.at += 1

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        repeated_at = -1
        while (char := self._peek()) and char not in "|)":
            repeat = self._repetition(char)
            if repeat is None:
                atom = self._atom(char)
                if atom is not None:  # a repetition after flags or an empty quotation applies to the atom before them
                    parts.append(atom)
            else:
                if not parts:
                    raise PatternError(f"nothing to repeat before `{char}`", self.at)
                if repeated_at == self.at:
                    raise PatternError(f"a repetition of a repetition, `{char}`", self.at)
                times, length = repeat
                parts[-1] = _Part(parts[-1].repeats * times, parts[-1].size * times)
                if parts[-1].repeats > _MAX_REPEAT:
                    raise PatternError(f"repetitions may not exceed {_MAX_REPEAT}", self.at)
                self.at += length
                if self._peek() == "?":
                    self.at += 1
                repeated_at = self.at
        size = sum(part.size for part in parts)
        if size > _MAX_SIZE:
            raise PatternError("the pattern is too large once its repetitions are written out", self.at - 1)
        return _Part(max((part.repeats for part in parts), default=1), size)

    def _repetition(self, char: str) -> tuple[int, int] | None:
        """Return (times, length) of a repetition operator at this position, or None; any other brace is a character."""
        if char in "*+?":
            return 1, 1
        match = _REPEAT.match(self.text, self.at) if char == "{" else None
        if match is None or max(len(match[1]), len(match[3] or "")) > _REPEAT_DIGITS:
            return None
        low, _, high = match.groups()
        if int(low) > _MAX_REPEAT or int(high or low) > _MAX_REPEAT:
            raise PatternError(f"repetitions may not exceed {_MAX_REPEAT}", self.at)
        if high and int(high) < int(low):
            raise PatternError("the upper bound of a repetition is below the lower one", self.at)
        return max(int(high or low), 1), len(match.group())

    def _atom(self, char: str) -> _Part | None:
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        self.at += 1
        return _Part(1, _CLASS_SIZE if char == "." else 1)

    def _group(self) -> _Part | None:
        start = self.at
        if self.text.startswith("(?", start):
            flags = _FLAGS.match(self.text, start)
            name = _GROUP_NAME.match(self.text, start)
            if flags is not None:
                self.at = flags.end()
                if flags.group(1) == ")":
                    return None
            elif name is not None and not name.group(1).startswith(("=", "!")):
                self._group_name(name)
                self.at = name.end()
            else:
                raise PatternError(_group_complaint(self.text[start : start + 4]), start)
        else:
            self.at += 1
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise PatternError("groups are nested too deep", start)
        inner = self._alternatives()
        if self._peek() != ")":
            raise PatternError("this group is never closed", start)
        self.depth -= 1
        self.at += 1
        return inner

    def _group_name(self, match: re.Match[str]) -> None:
        name = match.group(1)
        if not name or not all(char == "_" or char.isalnum() for char in name):
            raise PatternError(f"`{name}` is not a group name", match.start())

    def _escape(self) -> _Part | None:
        start = self.at
        char = self.text[start + 1 : start + 2]
        if not char:
            raise PatternError("a single `\\` at the end", start)
        if char == "Q":
            end = self.text.find("\\E", start + 2)
            quoted = self.text[start + 2 :] if end < 0 else self.text[start + 2 : end]
            self.at = len(self.text) if end < 0 else end + 2
            return _Part(1, len(quoted)) if quoted else None
        if char in _ASSERTIONS or char in _PERL_CLASSES or char == "C":
            self.at += 2
            return _Part(1, _CLASS_SIZE)
        if char in "pP":
            self._property()
            return _Part(1, _PROPERTY_SIZE)
        self._literal_escape()
        return _Part(1, 1)

    def _literal_escape(self) -> str:
        """Read an escape sequence of one character and return the character."""
        start = self.at
        char = self.text[start + 1 : start + 2]
        if char in _SIMPLE_ESCAPES and char:
            self.at += 2
            return {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}[char]
        hexadecimal = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})").match(self.text, start)
        if hexadecimal is not None:
            digits = (hexadecimal.group(1) or hexadecimal.group(2)).lstrip("0") or "0"
            if len(digits) <= 6 and int(digits, 16) <= 0x10FFFF:
                self.at = hexadecimal.end()
                return chr(int(digits, 16))
        octal = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})").match(self.text, start)
        if octal is not None:
            self.at = octal.end()
            return chr(int(octal.group(1), 8))
        if char and char.isascii() and not char.isalnum():
            self.at += 2
            return char
        if char.isdigit():
            raise PatternError(f"back-references such as `\\{char}` are not supported", start)
        raise PatternError(f"unknown escape `\\{char}`", start)

    def _property(self) -> None:
        match = re.compile(r"\\[pP](?:\{\^?([A-Za-z_]*)\}|([A-Z]))").match(self.text, self.at)
        name = match.group(1) or match.group(2) if match else None
        if match is None or (name not in _CATEGORIES and name not in _SCRIPTS):
            raise PatternError(f"unknown character property `{self.text[self.at : self.at + 12]}`", self.at)
        self.at = match.end()

    def _class(self) -> _Part:
        start = self.at
        size = _CLASS_SIZE
        self.at += 1
        if self._peek() == "^":
            self.at += 1
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                raise PatternError("this character class is never closed", start)
            first = False
            posix = _POSIX.match(self.text, self.at)
            if posix is not None:
                if posix.group(2) not in _POSIX_NAMES:
                    raise PatternError(f"unknown character class `{posix.group()}`", self.at)
                self.at = posix.end()
            elif self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in (*_PERL_CLASSES, "p", "P"):
                if self.text[self.at + 1] in "pP":
                    self._property()
                    size += _PROPERTY_SIZE
                else:
                    self.at += 2
            else:
                self._class_range(start)
        self.at += 1
        return _Part(1, size)

    def _class_range(self, start: int) -> None:
        at = self.at
        low = self._class_char(start)
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return
        self.at += 1
        if self._class_char(start) < low:
            raise PatternError(f"the range `{self.text[at : self.at]}` runs backwards", at)

    def _class_char(self, start: int) -> str:
        char = self._peek()
        if not char:
            raise PatternError("this character class is never closed", start)
        if char == "\\":
            return self._literal_escape()
        self.at += 1
        return char


def _group_complaint(opening: str) -> str:
    if opening.startswith(("(?=", "(?!", "(?<=", "(?<!")):
        return f"look-around `{opening.rstrip()}` is not supported"
    if opening.startswith("(?P="):
        return "back-references are not supported"
    return f"unknown group `{opening}`"
