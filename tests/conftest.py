"""Settings shared by all tests."""

from hypothesis import HealthCheck, settings

# Generated schemas with their queries are large values; drawing one takes longer than Hypothesis likes by default.
settings.register_profile(
    "ci",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ci")
