"""The error family: what a door reads from an error, and that an error survives a process boundary."""

import pickle
from dataclasses import dataclass

import pytest

from omnigraph_sql import errors


@dataclass(frozen=True)
class ByteSpan:
    start: int
    end: int


EVERY_KIND = [
    errors.Compile(
        "type error: T1: no type `Prot`",
        error_class="type",
        span=ByteSpan(3, 7),
        diagnostics=("T1",),
        code="T1",
        hint="did you mean `Port`?",
    ),
    errors.BadRequest("`limit` must not be negative", hint="leave it out for no limit"),
    errors.NotFound("no branch is called `draft`", what="branch", name="draft"),
    errors.Configuration("the file is not readable", what="policy"),
    errors.Internal("the head moved backwards"),
]


@pytest.mark.parametrize(
    ("kind", "exit_code", "http_status"),
    [
        (errors.Compile, 1, 400),
        (errors.BadRequest, 1, 400),
        (errors.NotFound, 1, 404),
        (errors.Configuration, 2, 400),
        (errors.Internal, 1, 500),
    ],
)
def test_a_kind_says_how_doors_answer(kind: type[errors.OmnigraphError], exit_code: int, http_status: int) -> None:
    assert (kind.kind, kind.exit_code, kind.http_status, kind.retryable) == (
        kind.__name__,
        exit_code,
        http_status,
        False,
    )


def test_every_kind_is_listed_above() -> None:
    assert {type(error) for error in EVERY_KIND} == set(errors.OmnigraphError.__subclasses__())


@pytest.mark.parametrize("error", EVERY_KIND, ids=lambda error: error.kind)
def test_an_error_survives_pickling(error: errors.OmnigraphError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert vars(copy) == vars(error)


def test_the_text_of_an_error_ends_with_its_hint() -> None:
    assert str(errors.BadRequest("no such option", hint="see --help")) == "no such option\nhint: see --help"
    assert str(errors.BadRequest("no such option")) == "no such option"


def test_the_class_of_a_compile_error_has_two_names() -> None:
    error = errors.Compile("parse error: …", error_class="parse")

    assert error.class_ == error.error_class == "parse"
