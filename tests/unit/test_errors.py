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
    errors.DataTestFailed("the test `adults` found 1 row", test="adults", count=1, rows=({"name": "Ann"},)),
    errors.Internal("the head moved backwards"),
    errors.ValidationFailed("depth is too small", table_key="node:Port", rule="range", id="A"),
    errors.Conflict("the branch is in use", reason="descendants", hint="delete the other first"),
    errors.ExpectedVersionMismatch("node:Port moved", table_key="node:Port", expected=3, actual=4),
    errors.RowLevelCasContention("another publish landed first"),
    errors.KeyConflict("`A` exists already", table_key="node:Port", id="A"),
    errors.MergeConflicts("1 conflict", conflicts=[]),
    errors.PreconditionFailed("main is elsewhere", expected="01A", actual="01B"),
    errors.AlreadyInitialized("there is a graph", uri="harbour"),
    errors.InitializationClaimed("another init runs", uri="harbour"),
    errors.ResourceLimit("too many rows", resource="rows", limit=8192, actual=9000),
    errors.RecoveryRequired("an operation is pending", reason="pending", operation_id="01A"),
    errors.UnsupportedFormat("upgrade first", actual="4", supported="3"),
    errors.VersionReclaimed("version 3 is gone", version=3),
    errors.ChangeFeedGap("rows of 01A are gone", first_unreadable_commit_id="01A", cursor="c"),
    errors.CommitHasNoParent("01A is the first commit", commit_id="01A"),
    errors.SchemaBoundary("Port has other properties", commit_id="01A", type_name="Port"),
    errors.CursorRejected("the cursor is of another graph", reason="graph"),
    errors.MergeConflicts("two changes of one row", conflicts=[]),
    errors.Storage("the disk is full", storage_class="permanent"),
    errors.EmbeddingFailed("the provider answered 503", provider="openai", attempts=4, status=503, retryable=True),
    errors.SourceFailed("the source cannot be reached", name="orders", source="postgresql://db/shop", retryable=True),
]


@pytest.mark.parametrize(
    ("kind", "exit_code", "http_status"),
    [
        (errors.Compile, 1, 400),
        (errors.BadRequest, 1, 400),
        (errors.NotFound, 1, 404),
        (errors.Configuration, 2, 400),
        (errors.Internal, 1, 500),
        (errors.ValidationFailed, 1, 400),
        (errors.Conflict, 5, 409),
        (errors.ExpectedVersionMismatch, 5, 409),
        (errors.RowLevelCasContention, 5, 409),
        (errors.KeyConflict, 5, 409),
        (errors.MergeConflicts, 5, 409),
        (errors.PreconditionFailed, 4, 412),
        (errors.AlreadyInitialized, 1, 409),
        (errors.InitializationClaimed, 1, 409),
        (errors.ResourceLimit, 8, 413),
        (errors.RecoveryRequired, 7, 503),
        (errors.UnsupportedFormat, 1, 500),
        (errors.VersionReclaimed, 1, 410),
        (errors.ChangeFeedGap, 1, 410),
        (errors.CommitHasNoParent, 1, 409),
        (errors.SchemaBoundary, 1, 409),
        (errors.CursorRejected, 1, 400),
        (errors.Storage, 1, 500),
        (errors.EmbeddingFailed, 1, 502),
        (errors.SourceFailed, 1, 502),
    ],
)
def test_a_kind_says_how_doors_answer(kind: type[errors.OmnigraphError], exit_code: int, http_status: int) -> None:
    assert (kind.kind, kind.exit_code, kind.http_status, kind.retryable) == (
        kind.__name__,
        exit_code,
        http_status,
        kind in (errors.ExpectedVersionMismatch, errors.RowLevelCasContention),
    )


def test_every_kind_is_listed_above() -> None:
    kinds = set(errors.OmnigraphError.__subclasses__()) | set(errors.AlreadyInitialized.__subclasses__())
    assert {type(error) for error in EVERY_KIND} == kinds


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
