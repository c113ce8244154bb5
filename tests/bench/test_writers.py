"""The benchmark of writers counts what was committed, without looking at how fast it was."""

import argparse

import pytest

from bench import writers

pytestmark = pytest.mark.slow


def test_no_system_loses_a_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lancedb", reason="of the extra `bench`")
    monkeypatch.setattr(writers, "WRITERS", (2,))
    monkeypatch.setattr(writers, "RUNS", 1)

    report = writers.run(argparse.Namespace(scale=0.05))

    lines = [line.split(" | ") for line in report.splitlines() if line.startswith("| o")]
    assert [line[0].removeprefix("| ") for line in lines] == ["one branch", "own branches"]
    assert {line[-1] for line in lines} == {"none |"}
    assert capsys.readouterr().err.count("run 1 of 1") == 2
