"""Where the settings come from, what is refused, and that a key is never shown."""

import pytest

from omnigraph_sql.embeddings import Client, Embeddings, EmbeddingSettings, is_configured, is_enabled, resolve
from omnigraph_sql.errors import BadRequest, Configuration

SECRET = "sk-live-0123456789"


@pytest.mark.parametrize(
    ("provider", "keys", "model", "base_url"),
    [
        ("openai-compatible", ["OPENROUTER_API_KEY"], "openai/text-embedding-3-large", "https://openrouter.ai/api/v1"),
        ("openai-compatible", ["OPENAI_API_KEY"], "openai/text-embedding-3-large", "https://openrouter.ai/api/v1"),
        ("openai", ["OPENAI_API_KEY"], "text-embedding-3-large", "https://api.openai.com/v1"),
        ("gemini", ["GEMINI_API_KEY"], "gemini-embedding-2", "https://generativelanguage.googleapis.com/v1beta"),
    ],
)
def test_defaults_of_the_providers(provider: str, keys: list[str], model: str, base_url: str) -> None:
    settings = resolve(provider, environ=dict.fromkeys(keys, SECRET))

    assert settings == EmbeddingSettings(
        provider, model, base_url=base_url, api_key=SECRET, timeout_ms=30_000, deadline_ms=60_000, attempts=4, backoff_ms=200
    )


def test_the_default_provider_prefers_the_key_made_for_it() -> None:
    settings = resolve(environ={"OPENAI_API_KEY": "other", "OPENROUTER_API_KEY": SECRET})

    assert (settings.provider, settings.api_key) == ("openai-compatible", SECRET)


def test_openai_does_not_take_the_key_of_another() -> None:
    with pytest.raises(Configuration, match="the embedding provider openai needs a key") as caught:
        resolve("openai", environ={"OPENROUTER_API_KEY": SECRET})

    assert caught.value.what == "embedding key"
    assert caught.value.hint == "set OPENAI_API_KEY"


def test_the_default_provider_says_which_keys_it_takes() -> None:
    with pytest.raises(Configuration, match="the embedding provider openai-compatible needs a key") as caught:
        resolve(environ={"OPENAI_API_KEY": " "})

    assert caught.value.hint == (
        "set OPENROUTER_API_KEY or OPENAI_API_KEY; a server of your own that needs no key accepts any text"
    )


def test_the_mock_needs_nothing() -> None:
    assert resolve("mock", environ={}) == EmbeddingSettings("mock", "mock")


ENVIRONMENT = {
    "OMNIGRAPH_EMBED_PROVIDER": "gemini",
    "OMNIGRAPH_EMBED_MODEL": "tiny",
    "OMNIGRAPH_EMBED_BASE_URL": "http://localhost:8080/v1/",
    "OMNIGRAPH_EMBED_TIMEOUT_MS": "10",
    "OMNIGRAPH_EMBED_DEADLINE_MS": "0",
    "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "1",
    "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "5",
    "GEMINI_API_KEY": f" {SECRET}\n",
}


def test_everything_can_be_set_in_the_environment() -> None:
    assert resolve(environ=ENVIRONMENT) == EmbeddingSettings(
        "gemini",
        "tiny",
        base_url="http://localhost:8080/v1",
        api_key=SECRET,
        timeout_ms=10,
        deadline_ms=0,
        attempts=1,
        backoff_ms=5,
    )


def test_the_process_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    assert resolve() == resolve(environ=ENVIRONMENT)


def test_arguments_win_over_the_environment() -> None:
    settings = resolve(
        "openai",
        model="large",
        base_url="https://example.org",
        api_key="given",
        timeout_ms=1,
        deadline_ms=2,
        attempts=3,
        backoff_ms=4,
        environ=ENVIRONMENT,
    )

    assert settings == EmbeddingSettings(
        "openai",
        "large",
        base_url="https://example.org",
        api_key="given",
        timeout_ms=1,
        deadline_ms=2,
        attempts=3,
        backoff_ms=4,
    )


def test_an_unknown_provider_is_refused_with_a_proposal() -> None:
    with pytest.raises(Configuration, match="`opnai` is not an embedding provider") as caught:
        resolve(environ={"OMNIGRAPH_EMBED_PROVIDER": "opnai"})

    assert caught.value.what == "embedding provider"
    assert "`openai`" in (caught.value.hint or "")
    with pytest.raises(Configuration) as other:
        resolve("zzz", environ={})
    assert other.value.hint == "choose one of openai-compatible, openai, gemini, mock"


@pytest.mark.parametrize("value", ["1", "true", "Yes", " ON "])
def test_the_mock_wins_over_the_provider_and_says_so(value: str) -> None:
    environment = {"OMNIGRAPH_EMBEDDINGS_MOCK": value, "OMNIGRAPH_EMBED_PROVIDER": "openai"}

    with pytest.warns(UserWarning, match="OMNIGRAPH_EMBEDDINGS_MOCK is set.*openai"):
        from_environment = resolve(environ=environment)
    with pytest.warns(UserWarning, match="OMNIGRAPH_EMBEDDINGS_MOCK is set.*gemini"):
        from_argument = resolve("gemini", environ={"OMNIGRAPH_EMBEDDINGS_MOCK": value})

    assert from_environment.provider == from_argument.provider == "mock"


def test_the_mock_alone_needs_no_warning() -> None:
    assert resolve(environ={"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}).provider == "mock"
    assert resolve("mock", environ={"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}).provider == "mock"


def test_the_mock_goes_by_the_model_that_is_set() -> None:
    assert resolve("mock", environ={"OMNIGRAPH_EMBED_MODEL": "tiny"}).model == "tiny"


@pytest.mark.parametrize("value", ["0", "false", "no", "off", ""])
def test_the_mock_can_be_switched_off(value: str) -> None:
    assert resolve("openai", api_key=SECRET, environ={"OMNIGRAPH_EMBEDDINGS_MOCK": value}).provider == "openai"


def test_a_mock_switch_that_makes_no_sense_is_off() -> None:
    with pytest.warns(UserWarning, match="OMNIGRAPH_EMBEDDINGS_MOCK is neither on"):
        settings = resolve("openai", api_key=SECRET, environ={"OMNIGRAPH_EMBEDDINGS_MOCK": "perhaps"})

    assert settings.provider == "openai"


@pytest.mark.parametrize(
    ("variable", "values", "field"),
    [
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", ["0", "-5", "soon", "1.5", "9" * 40], "timeout_ms"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", ["-1", "later", "٣"], "deadline_ms"),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", ["0", "-1", "x"], "attempts"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", ["-1", "1e3"], "backoff_ms"),
    ],
)
def test_a_number_that_makes_no_sense_is_replaced_by_the_default(variable: str, values: list[str], field: str) -> None:
    for value in values:
        with pytest.warns(UserWarning, match=variable):
            settings = resolve("openai", api_key=SECRET, environ={variable: value})
        assert getattr(settings, field) == getattr(EmbeddingSettings, field)


@pytest.mark.parametrize("setting", [{"timeout_ms": 0}, {"deadline_ms": -1}, {"attempts": 0}, {"backoff_ms": -1}])
def test_a_number_given_by_the_program_must_make_sense(setting: dict[str, int]) -> None:
    with pytest.raises(Configuration, match="too small"):
        resolve("openai", api_key=SECRET, environ={}, **setting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "api.openai.com/v1",
        "ftp://example.org",
        "https://",
        "https://host:port",
        "https://ho st/v1",
        "https://host/v1\nX: y",
        "https://[::1",
        f"https://user:{SECRET}@example.org/v1",
        f"https://example.org/v1?key={SECRET}",
        f"https://example.org/v1#{SECRET}",
    ],
)
def test_an_unusable_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(Configuration, match="the base URL of the embedding provider") as caught:
        resolve("openai", api_key=SECRET, base_url=url, environ={})

    assert caught.value.what == "embedding base URL"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-live\n0123456789", "sk-live-ключ-0123456789", "sk-live\x000123456789"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(Configuration, match="holds characters that are no part of a key") as caught:
        resolve("openai", api_key=key, environ={})

    assert "0123456789" not in str(caught.value)


def test_the_key_is_never_shown() -> None:
    settings = resolve("openai", environ={"OPENAI_API_KEY": SECRET})

    for text in (repr(settings), str(settings), repr(Client(settings)), f"{Client(settings)}"):
        assert SECRET not in text
        assert "text-embedding-3-large" in text


def test_a_provider_is_configured_when_somebody_chose_one() -> None:
    assert is_configured("openai", environ={})
    assert is_configured(environ={"OMNIGRAPH_EMBED_PROVIDER": "openai"})
    assert is_configured(environ={"OMNIGRAPH_EMBEDDINGS_MOCK": "yes"})
    assert not is_configured(environ={})
    assert not is_configured(environ={"OMNIGRAPH_EMBEDDINGS_MOCK": "0", "OMNIGRAPH_EMBED_PROVIDER": " "})
    # A key alone is there for some other program, perhaps.
    assert not is_configured(environ={"OPENAI_API_KEY": SECRET})


def test_embedding_is_on_where_a_provider_is_configured_unless_said_otherwise() -> None:
    table = {
        (embed, configured): is_enabled(embed, configured=configured)
        for embed in (None, "auto", "off")
        for configured in (True, False)
    }

    assert [case for case, enabled in table.items() if enabled] == [(None, True), ("auto", True), ("auto", False)]
    with pytest.raises(BadRequest, match="`on` is no way of embedding") as caught:
        is_enabled("on", configured=True)
    assert caught.value.hint == "use auto or off"


def test_a_handle_asks_for_nothing_before_it_must() -> None:
    handle = Embeddings("openai", environ={})

    assert handle.is_on()
    with pytest.raises(Configuration, match="needs a key"):
        handle.client()


def test_a_handle_keeps_to_what_it_found() -> None:
    environment = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}
    handle = Embeddings(environ=environment)
    first = handle.client()
    environment.clear()

    assert handle.client() is first
    assert first.provider == "mock"


def test_a_handle_takes_an_embedder_of_ones_own() -> None:
    own = Client(resolve("mock", model="own", environ={}))
    handle = Embeddings(own, environ={})

    assert handle.client() is own
    assert handle.is_on()
    assert not handle.is_on("off")
