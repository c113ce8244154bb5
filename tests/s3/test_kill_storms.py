"""Kill storms over graphs on S3; the machinery is that of `tests/crash/test_kill_storms.py`."""

from pathlib import Path

import pytest

from omnigraph_sql.store.locks.manager import LEASES_OFF
from tests.crash.test_kill_storms import weather
from tests.stores import S3Place


def test_a_storm_on_s3(root: S3Place, tmp_path: Path) -> None:
    weather(tmp_path / "workers", root, 7, storms=1, kills=3, pause=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
@pytest.mark.parametrize("leases", ["on", "off"])
def test_storms_on_s3(root: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leases: str, seed: int) -> None:
    monkeypatch.setenv(LEASES_OFF, leases)
    weather(tmp_path / "workers", root, seed, storms=2, kills=12, pause=4.0)
