"""What the tests of the embedding client share."""

import pytest


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine is set up for, these tests begin with nothing."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "OMNIGRAPH_EMBED_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OMNIGRAPH_EMBEDDINGS_MOCK", raising=False)
