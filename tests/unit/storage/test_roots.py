"""What the address of a graph means, and which settings go with it."""

import os
from pathlib import Path

import pytest

from omnigraph_sql.errors import BadRequest, Configuration
from omnigraph_sql.storage.roots import LocalRoot, S3Root, S3Settings, resolve_root

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


def s3(uri: str) -> S3Root:
    root = resolve_root(uri)
    assert isinstance(root, S3Root)
    return root


def options(uri: str = "s3://bucket/g") -> dict[str, str]:
    found = s3(uri).storage_options
    assert found is not None
    return found


def test_directories(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for given in (tmp_path / "g", str(tmp_path / "link" / "x" / ".." / "g"), (tmp_path / "g").as_uri()):
        assert resolve_root(given) == LocalRoot(Path(os.path.realpath(tmp_path / "g")))
    assert resolve_root(tmp_path).storage_options is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("s3://b-1/a/g", "s3://b-1/a/g"),
        ("S3://b-1/a/g//", "s3://b-1/a/g"),
        ("s3://b-1/", "s3://b-1"),
        ("s3://b-1", "s3://b-1"),
    ],
)
def test_buckets(given: str, shown: str) -> None:
    assert str(s3(given)) == shown
    assert s3(given).uri("nodes/1") == f"{shown}/nodes/1"
    assert s3(shown) == s3(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://host/g", "is a server"),
        ("gs://bucket/g", "use a local directory or s3://BUCKET/PREFIX"),
        ("", "is empty"),
        ("s3:///g", "names no bucket"),
        ("s3://b cket/g", "names no bucket"),
        ("s3://bucket/a//g", "is not a good address"),
        ("s3://bucket/a/../g", "is not a good address"),
        ("s3://bucket/a%20g", "is not a good address"),
        ("s3://bucket/g?x=1", "is not a good address"),
    ],
)
def test_addresses_that_are_refused(given: str, expected: str) -> None:
    with pytest.raises(BadRequest, match=expected):
        resolve_root(given)


def test_settings_become_options_of_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options()["aws_region"] == "us-east-1"
    assert not any("key" in name or "endpoint" in name for name in options()), "without credentials, those of the machine"
    given = {**KEYS, "AWS_SESSION_TOKEN": "t", "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://one.example/"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    found = options()

    assert found["aws_access_key_id"] == "k"
    assert found["aws_secret_access_key"] == "s"
    assert found["aws_session_token"] == "t"
    assert found["aws_region"] == "eu-central-1"
    assert found["aws_endpoint"] == "https://one.example"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://two.example")
    assert options()["aws_endpoint"] == "https://two.example"


@pytest.mark.parametrize(
    ("given", "endpoint", "hosted"), [("", "h", "false"), ("true", "h", "false"), ("false", "bucket.h", "true")]
)
def test_where_the_bucket_stands(monkeypatch: pytest.MonkeyPatch, given: str, endpoint: str, hosted: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://h")
    monkeypatch.setenv("AWS_S3_FORCE_PATH_STYLE", given)

    assert options()["aws_endpoint"] == f"https://{endpoint}"
    assert options()["aws_virtual_hosted_style_request"] == hosted


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"AWS_ACCESS_KEY_ID": "k"}, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_SECRET_ACCESS_KEY": "s"}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_ENDPOINT_URL": "http://h"}, "AWS_ALLOW_HTTP"),
        ({"AWS_ENDPOINT_URL": "h:9000"}, "AWS_ENDPOINT_URL"),
    ],
)
def test_settings_that_cannot_work(given: dict[str, str], what: str) -> None:
    with pytest.raises(Configuration) as caught:
        S3Settings.from_environment(given)
    assert caught.value.what == what


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (KEYS | {"AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "hush"}).items():
        monkeypatch.setenv(name, value)
    root = s3("s3://bucket/g")

    assert "hush" not in f"{root!r} {root} {root.settings!r}"
